"""Transcoding: adds features to a card, read at one place of each block and written at another.

``pre^i = r^i W_enc^i + b_enc^i``, ``feature^i = ReLU(pre^i)`` and ``decoded^i = feature^i W_dec^i +
b_dec^i`` replace what block i adds, and ``error^i`` is the rest of it, so the card computes the
same values as before. In a cross-layer transcoder, a feature of block i writes to every later block
l: ``written^{i,l} = written^{i-1,l} + feature^i W_dec^{i,l}`` is what has been written to block l
so far, and ``decoded^i`` starts with ``written^{i,i}``. An autoencoder writes the value that it
reads. See Dunefsky et al. 2024, Ameisen et al. 2025.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

from viete.analysis.features import features_of
from viete.analysis.shapes import shapes_of
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Dimension, Equation, Index, Loop, Parameter, restated
from viete.notation.printer import show, show_equation
from viete.notation.substitution import Abstraction, fresh
from viete.notation.tree import Apply, Expr, Idx, Ref, Slot, Symbol, num
from viete.rewrite.folding_in import labelled
from viete.rewrite.ordering import ordered
from viete.rewrite.put import unlike_family

NORMS = ("layer_norm", "constant_norm_rescale")
ACTIVATIONS = ("relu", "jumprelu", "topk")
PRE, FEATURE, DECODED, ERROR, WRITTEN = "pre", "feature", "decoded", "error", "written"


@dataclass(frozen=True)
class Coding:
    """The plan of features: their number, what they read, the value they stand for.

    ``reads`` is a formula over the letter of ``writes``, a value of a block. ``activation`` is one
    of `ACTIVATIONS`, of which 'topk' keeps the ``k`` greatest. ``centred`` subtracts b_dec from the
    input, ``skip`` adds the input times a separate matrix, and with ``across`` features write to
    later blocks too. ``blocks`` are those that have features, if not all do. ``norm``, one of
    `NORMS`, brings each row of the input to one size, and what is written back to the row's own.
    """

    width: int
    reads: Expr
    writes: Ref
    activation: str = "relu"
    k: int = 0
    centred: bool = False
    skip: bool = False
    across: bool = False
    blocks: tuple[int, ...] = ()
    norm: str = ""


def transcoded(card: CardData, coding: Coding) -> CardData:
    """The card with features of a value of each block, and the value's error beside them.

    Raises VieteError for a value that no equation of a block makes, and for a card with features.
    """
    return Transcoding(card, coding).card()


class Transcoding:
    """Adds one kind of features to one card."""

    def __init__(self, card: CardData, coding: Coding) -> None:
        self.old, self.coding = card, coding
        made = [e for e in card.equations if e.name == coding.writes.key and e.loop is not None]
        if not made:
            raise VieteError(
                f"features replace a value of each block, and {show(coding.writes)} is not one of "
                f"{card.title}"
            )
        self.made = made[0]
        assert self.made.loop is not None
        self.loop: Loop = self.made.loop
        self.letter = Slot(self.loop.index, True)
        self.block = Idx(self.loop.index)
        self.parameters: list[Parameter] = []
        self.equations: list[Equation] = []
        if any(f.loop == self.loop for f in features_of(card)):
            raise VieteError(f"{card.title} already has features; add one kind only")
        # as those of an encoder, whose values have one
        self.label = tuple(x for x in coding.writes.symbol.sub if not x.index)
        taken = card.names | card.loop_letters | {i.name for i in card.indices}
        self.other = fresh(taken, "lqsuvw") if coding.across else ""
        index = zip(coding.writes.symbol.slots, coding.writes.index, strict=True)
        self.heads = {s: k for s, k in index if s != self.loop.index}  # of whose value they are
        if loose := [s for s, k in self.heads.items() if k.free]:
            raise VieteError(
                f"features stand for one value of a block; say which {loose[0]} with a number in "
                f"{show(coding.writes)}"
            )
        taken_size = "F" in card.symbols
        self.size = Symbol("dim", "F", (Slot("enc"), *self.label) if taken_size else ())
        self.width = card.size_expr(shapes_of(card).types[coding.writes.key].shape[-1])

    def card(self) -> CardData:
        """The card with the features."""
        old, coding = self.old, self.coding
        was = labelled(old, self.made.left.symbol, "old")
        read = coding.reads
        if self.made.name in read.keys:  # of an autoencoder
            read = old.substitute(read, names={self.made.name: Abstraction(was.slots, was.member)})
        below = Ref(self.size)
        enc, shift = (
            self.parameter("W", "enc", self.read_width(), below),
            self.parameter("b", "enc", below),
        )
        back = self.parameter("b", "dec", self.width)
        source, undone = self.normed(read)
        if coding.centred:
            source = Apply("sub", (source, back))
        pre = self.value(
            PRE, Apply("add", (Apply("prod", (source, enc)), shift)), "before the gate"
        )
        feature = self.value(FEATURE, self.gated(pre), "features, each by its entry")
        total = undone(Apply("add", (self.decoded(feature), back)))
        if coding.skip:
            skip = self.parameter("W", "skip", self.read_width(), self.width)
            total = Apply("add", (total, Apply("prod", (read, skip))))
        decoded = self.value(DECODED, total, "what the features write")
        own = Ref(was, tuple(self.heads.get(s, Idx(s)) for s in was.slots))
        error = self.value(ERROR, Apply("sub", (own, decoded)), "what they lack of it")
        coded: Expr = Apply("add", (decoded, error))
        tests: list[Expr] = [Apply("eq", (Idx(s), k)) for s, k in self.heads.items()]
        if coding.blocks:
            here: list[Expr] = [Apply("eq", (self.block, num(k))) for k in coding.blocks]
            tests.insert(0, reduce(either, here))
        if tests:
            coded = Apply("where", (reduce(both, tests), coded, was.member))
        last = restated(self.made, self.made.left, coded)
        first = restated(self.made, was.member, self.made.right)
        place = old.equations.index(self.made)
        equations = (
            *old.equations[:place],
            first,
            *self.equations,
            last,
            *old.equations[place + 1 :],
        )
        indices = old.indices
        if coding.across:
            indices = (
                *indices,
                Index(self.other, self.loop.lower, self.loop.upper, "a later block"),
            )
            zero = self.writing
            start = Ref(zero, (num(self.first_block() - 1), Idx(self.other)))
            empty = Apply("times", (num(0), self.entering()))
            before = next(k for k, e in enumerate(equations) if e.loop == self.loop)
            text = Text(show_equation(start, empty))
            equations = (
                *equations[:before],
                Equation(start, empty, text=text),
                *equations[before:],
            )
        made = replace(
            old, equations=equations, indices=indices,
            dims=(*old.dims, Dimension(self.size, num(coding.width), meaning="features")),
            parameters=(*old.parameters, *self.parameters),
        )  # fmt: skip
        out = unlike_family(ordered(made, self.made.text))
        shapes_of(out)
        return out

    def first_block(self) -> int:
        """The number of the first block."""
        size = self.old.size(self.loop.lower)
        return 1 if size is None else int(size.value(self.old.sizes) or 1)

    def entering(self) -> Expr:
        """A value before the first block with the shape of the written value."""
        shapes = shapes_of(self.old)
        wanted = shapes.types[self.made.name].shape
        for e in self.old.equations:
            if e.loop is None and not e.left.free and shapes.types[e.name].shape == wanted:
                return e.left
        raise VieteError(
            f"nothing before the blocks of {self.old.title} has the shape of its stream"
        )

    def read_width(self) -> Expr:
        """The width of the value that features read."""
        return self.old.size_expr(shapes_of(self.old).of(self.coding.reads).shape[-1])

    def parameter(self, base: str, label: str, *shape: Expr) -> Ref:
        """A new parameter of each block."""
        symbol = Symbol("parameter", base, (Slot(label), *self.label), (self.letter,))
        if symbol.key in self.old.symbols:
            raise VieteError(
                f"{self.old.title} already has a {symbol.key}, a name that the features need"
            )
        self.parameters.append(Parameter(symbol, shape, meaning="of features"))
        return symbol.member

    def value(self, base: str, right: Expr, meaning: str) -> Ref:
        """A new value of each block."""
        symbol = Symbol("value", base, self.label, (self.letter,))
        self.equations.append(Equation(
            symbol.member, right, self.loop, self.made.part, meaning,
            text=Text(show_equation(symbol.member, right))))  # fmt: skip
        return symbol.member

    def normed(self, read: Expr) -> tuple[Expr, Callable[[Expr], Expr]]:
        """The rows that the encoder reads, and how what it writes gets their size back.

        With 'layer_norm' a row has the mean 0 and the (unbiased) deviation 1, and with
        'constant_norm_rescale' the mean square 1.
        """
        if not self.coding.norm:
            return read, lambda e: e
        one = num(1)

        def mean(e: Expr) -> Expr:
            return Apply("mean", (e,))

        if self.coding.norm == "constant_norm_rescale":
            size: Expr = Apply("sqrt", (mean(Apply("pow", (read, num(2)))),))
            size = self.value("size", size, "the size of the row that features read")
            return Apply("div", (read, size)), lambda e: Apply("had", (e, size))
        middle = self.value("middle", mean(read), "the mean of the row that features read")
        read = Apply("sub", (read, middle))
        width = self.read_width()
        unbiased = Apply("div", (width, Apply("sub", (width, one))))
        spread = Apply("times", (unbiased, mean(Apply("pow", (read, num(2))))))
        size = self.value("size", Apply("sqrt", (spread,)), "its deviation")
        divided = Apply("div", (read, Apply("add", (size, num(Fraction(1, 10**5))))))
        return divided, lambda e: Apply("add", (Apply("had", (e, size)), middle))

    def gated(self, pre: Expr) -> Expr:
        """The features from the values before their gate."""
        coding, call = self.coding, self.old.library
        if coding.activation == "topk":
            return call("ReLU", call("top", pre, num(coding.k)))
        if coding.activation == "jumprelu":
            level = self.parameter("theta", "enc", Ref(self.size))
            return Apply("where", (Apply("gt", (pre, level)), pre, num(0)))
        return call("ReLU", pre)

    @property
    def writing(self) -> Symbol:
        """The symbol for what features of earlier blocks write to a later one."""
        return Symbol("value", WRITTEN, self.label, (self.letter, Slot(self.other, True)))

    def decoded(self, feature: Expr) -> Expr:
        """The output of features to their block, with those of earlier blocks that write to it."""
        if not self.coding.across:
            return Apply("prod", (feature, self.parameter("W", "dec", Ref(self.size), self.width)))
        written = self.writing
        symbol = Symbol("parameter", "W", (Slot("dec"), *self.label), written.sup)
        self.parameters.append(
            Parameter(symbol, (Ref(self.size), self.width), meaning="of features")
        )
        before = Ref(written, (Apply("sub", (self.block, num(1))), Idx(self.other)))
        right = Apply("add", (before, Apply("prod", (feature, symbol.member))))
        self.equations.append(Equation(
            written.member, right, self.loop, self.made.part, "what is written to later blocks",
            text=Text(show_equation(written.member, right))))  # fmt: skip
        return Ref(written, (self.block, self.block))


def both(a: Expr, b: Expr) -> Expr:
    """One condition and the other."""
    return Apply("and", (a, b))


def either(a: Expr, b: Expr) -> Expr:
    """One condition or the other."""
    return Apply("or", (a, b))


__all__ = ["ACTIVATIONS", "NORMS", "Coding", "transcoded"]
