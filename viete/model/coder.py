"""Coders: the features of transcoders and autoencoders as arrays, and their place in a card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from viete.errors import Text, VieteError
from viete.evaluate.schedule import program
from viete.graph.card import CardData
from viete.graph.dependence import offset
from viete.model.named_values import named_values
from viete.model.names import Names
from viete.model.places import place_of
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Idx, Num, Ref, num, transform
from viete.rewrite.joining import heads_joined
from viete.rewrite.simplify import simplified
from viete.rewrite.transcoding import Coding, transcoded

UNPLACED = -1  # the block of a file that does not say which
READS, WRITES = "ln2.hook_normalized", "hook_mlp_out"  # what a transcoder stands between


@dataclass(frozen=True)
class Coder:
    """The arrays of one block's features: W_enc (d, F), W_dec (F, d) or (F, later blocks, d)."""

    arrays: Mapping[str, np.ndarray]
    source: Path
    k: int = 0
    centred: bool = False
    norm: str = ""  # of the input, one of `viete.rewrite.transcoding.NORMS`

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self.arrays["b_enc"].shape[0])


@dataclass(frozen=True)
class Coders:
    """Features of some blocks, by the number of the block from 0, for a model's `put`.

    ``reads`` and ``writes`` are the values that features read and replace: names of TransformerLens
    without their block (``hook_resid_mid``), or of the card (``y^i``). For one block they may have
    its number, as the card counts (``x^3``).
    """

    blocks: Mapping[int, Coder]
    reads: str = READS
    writes: str = WRITES
    across: bool = False

    def put(self, card: CardData) -> tuple[CardData, dict[str, np.ndarray]]:
        """The card with the features, and the weights of the features by the card's names.

        Raises VieteError for a place that the card does not have, and for sizes that do not fit.
        """
        card, reads = self.place(card, self.reads)
        card, writes = (card, reads) if self.writes == self.reads else self.place(card, self.writes)
        if not isinstance(writes, Ref):
            raise VieteError(
                f"features replace a value that has an equation; {self.writes} has none"
            )
        letters = card.blocks_of(writes.symbol)
        letter = letters[0] if letters else ""
        numbers = program(card).range_of(letter) if letters else range(0)
        blocks = self.blocks
        at = dict(zip(writes.symbol.slots, writes.index, strict=True)).get(letter)
        if isinstance(at, Num):
            blocks = self.alone(numbers, int(at.value))
            reads = over_blocks(reads, letter, at)
            writes = Ref(writes.symbol, tuple(
                Idx(s) if s == letter else k
                for s, k in zip(writes.symbol.slots, writes.index, strict=True)))  # fmt: skip
        elif at is not None and (step := offset(at, letter)):  # x^{i-1}: made by an earlier block
            reads, writes = (shifted(card, x, letter, step) for x in (reads, writes))
            assert isinstance(writes, Ref)
            if first := [k for k in blocks if k != UNPLACED and k + step < 0]:
                raise VieteError(
                    f"features of block {first[0]}, counted from 0, replace a value that stands "
                    f"before the blocks, and only a value of a block can have features"
                )
            blocks = {k if k == UNPLACED else k + step: coder for k, coder in blocks.items()}
        if UNPLACED in blocks:
            raise VieteError(
                f"{self.source} does not say its block: write the block's number, as in "
                f"x^3 = {self.source}(x^3), or give block=, counted from 0"
            )
        if beyond := sorted(set(blocks) - set(range(len(numbers)))):
            raise VieteError(f"{card.title} has {len(numbers)} blocks, and features are for block "
                             f"{beyond[0]}, counted from 0")  # fmt: skip
        one = next(iter(blocks.values()))
        kind = "topk" if one.k else "jumprelu" if "threshold" in one.arrays else "relu"
        some = tuple(numbers[k] for k in blocks) if len(blocks) < len(numbers) else ()
        new = transcoded(card, Coding(
            one.width, reads, writes, kind, one.k, one.centred, "W_skip" in one.arrays,
            self.across, some, one.norm))  # fmt: skip
        own = {p.name for p in new.parameters} - {p.name for p in card.parameters}
        arrays: dict[str, np.ndarray] = {}
        for name, (p, places, shape) in program(new).parameters.items():
            if p.name in own:
                k = numbers.index(places[0])
                coder = blocks.get(k)
                arrays[name] = self.array(p.symbol.base, p.symbol.sub[0].text, coder, shape)
        return new, arrays

    @property
    def source(self) -> Path:
        """The file of the first block."""
        return next(iter(self.blocks.values())).source

    def alone(self, numbers: range, at: int) -> dict[int, Coder]:
        """The features of the one named block, in the card's count."""
        if at not in numbers:
            raise VieteError(
                f"{self.writes} is in no block: the blocks are {numbers[0]} to {numbers[-1]}"
            )
        k = numbers.index(at)
        if (found := self.blocks.get(UNPLACED, self.blocks.get(k))) is None:
            there = ", ".join(str(numbers[j]) for j in self.blocks if j < len(numbers))
            raise VieteError(f"{self.source} has features of block {there}, and not of block {at}")
        return {k: found}

    def place(self, card: CardData, name: str) -> tuple[CardData, Expr]:
        """A value of the card by its name, with the letter of its blocks; heads side by side.

        The card is one in which they are a value.
        """
        e, text = self.value(card, name), Text(name, "<features>")
        if e.free <= card.loop_letters:
            return card, e
        if not isinstance(e, Ref):
            e = next((d.left for d in card.derived if d.right == e), e)
        if not isinstance(e, Ref):
            found = named_values(Names(card), [f"blocks.{{l}}.{name}"])
            card, e = found.model, found.formulas[f"blocks.{{l}}.{name}"]
        assert isinstance(e, Ref)
        return heads_joined(card, e, text)

    def value(self, card: CardData, name: str) -> Expr:
        """A value of the card by its name, with the letter of its blocks."""
        names = Names(card)
        whole = f"blocks.{{l}}.{name}"
        if whole in names.entries:
            found = names.get(whole)
            formula: Expr = (
                found.ref if found.ref is not None and found.place is None else found.formula
            )
            letter = names.loop.index if names.loop else "i"
            return transform(formula, lambda x: Idx(letter) if x == Idx("i") else None)
        if "hook" in name:
            return place_of(card, name)
        return parse(Text(name, "<features>"), card.scope)

    def array(
        self, base: str, label: str, coder: Coder | None, shape: tuple[int, ...]
    ) -> np.ndarray:
        """One array for one block; zeros where the block has no features."""
        name = "threshold" if base == "theta" else f"{base}_{label}"
        if coder is None:
            return np.broadcast_to(np.zeros(()), shape)
        array = coder.arrays[name]
        if self.across and name == "W_dec":  # (F, later, d) as (blocks, F, d)
            out = np.zeros(shape, array.dtype)
            out[shape[0] - array.shape[1] :] = np.moveaxis(array, 1, 0)
            return out
        if array.shape != shape:
            raise VieteError(
                f"{name} of {coder.source} is {array.shape}, and the model needs {shape}"
            )
        return array


def shifted(card: CardData, e: Expr, letter: str, step: int) -> Expr:
    """A formula about the block ``letter + step``, rewritten for the block ``letter``."""
    other = Apply("sub" if step > 0 else "add", (Idx(letter), num(abs(step))))
    return simplified(card.substitute(e, letters={letter: other}))


def over_blocks(e: Expr, letter: str, at: Num) -> Expr:
    """A formula about one block, and about blocks before it, rewritten for the block ``letter``.

    Raises VieteError where the formula reads a later block.
    """

    def go(x: Expr) -> Expr | None:
        if not isinstance(x, Ref) or letter not in x.symbol.slots:
            return None
        place = x.symbol.slots.index(letter)
        own = x.index[place]
        if not isinstance(own, Num) or own.value > at.value:
            raise VieteError(
                f"features of block {at.value} read {show(x)}, which belongs to a later block"
            )
        block: Expr = Idx(letter)
        if own != at:
            block = Apply("sub", (block, num(at.value - own.value)))
        return Ref(x.symbol, (*x.index[:place], block, *x.index[place + 1 :]))

    return transform(e, go)


__all__ = ["READS", "UNPLACED", "WRITES", "Coder", "Coders"]
