r"""Questions written as arrows: ``x^2_4 \xrightarrow{A^{5,1}} x^5_7``, ``x^2_4 →(A^{5,1}) x^5_7``.

For a head, the arrow is what the head copies of a residual vector from one position to another:
that vector's part of what the head adds there, with the attention pattern and the norms' scales
held fixed and without biases. For the unembedding W_U, it is what the vector adds to a token's
logit. A letter is free as in other questions: ``x^i_j →(A^{i',h}) x^{i'}_k``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from viete.analysis.linearity import ATOM, UNOPENED, Summand, filled
from viete.ask.stream import key_of, value_of
from viete.ask.terms import Expander
from viete.errors import VieteError
from viete.evaluate.run import Run
from viete.graph.conditions import settled
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Idx, Num, Pick, Ref, Symbol, num, replaced, transform

LATEX, PLAIN = re.compile(r"\\xrightarrow\s*\{"), re.compile(r"(?:→|->)\s*\(")
UNEMBEDDING = ("W_U", "U")


def arrow_sides(text: str) -> tuple[str, str, str] | None:
    """The start, the label and the end of an arrow; None for any other question."""
    found = LATEX.search(text) or PLAIN.search(text)
    if found is None:
        return None
    depth, k = 1, found.end()
    while k < len(text) and depth:
        depth += (text[k] in "{(") - (text[k] in "})")
        k += 1
    return text[: found.start()].strip(), text[found.end() : k - 1].strip(), text[k:].strip()


def arrow(run: Run, sides: Sequence[str]) -> Expr:
    """The formula that an arrow stands for. Raises VieteError for an arrow that means nothing."""
    first, label, last = sides
    if is_open(first):
        raise VieteError(
            "an arrow is a whole question and cannot stand inside brackets or bars; ask for the "
            "arrow alone, such as x^2_4 →(A^{5,1}) x^5_7"
        )
    reader = ArrowReader(run, Expander(run.program, frozenset(("block", "head", "source"))))
    start = reader.read(first)
    if not isinstance(start, Pick) or key_of(start) not in reader.opener.carried:
        raise VieteError(f"an arrow begins at a residual vector, such as x^2_4, and not at {first}")
    if label in UNEMBEDDING:
        return reader.to_token(start, last)
    return reader.by_head(start, reader.read(label), reader.read(last), label, last)


def is_open(text: str) -> bool:
    """Whether a bracket or a bar is open at the end of a text."""
    brackets = sum((c in "([{") - (c in ")]}") for c in text)
    return brackets > 0 or text.count("|") % 2 == 1


@dataclass(frozen=True)
class ArrowReader:
    """Reads the arrows of one run."""

    run: Run
    opener: Expander

    def read(self, text: str) -> Expr:
        """Parse one side, with numbers for its blocks, or with the letters that it leaves free."""
        e = self.run.parse(text)
        return e if self.opener.card.block_letters(e) else self.opener.numbered(e, {})

    def by_head(self, start: Pick, head: Expr, end: Expr, label: str, last: str) -> Expr:
        """What a head copies from one position to another, from a block before its own.

        Where blocks have letters, an arrow from a block that is not before the head's is 0.
        """
        opener = self.opener
        if not isinstance(head, Ref) or not opener.lines.is_pattern(head):
            raise VieteError(
                f"an arrow goes by a head, such as A^{{5,1}}, or by W_U, not by {label}"
            )
        if not isinstance(end, Pick) or key_of(end) not in opener.carried:
            raise VieteError(f"an arrow by a head ends at a residual vector x^5_7, not at {last}")
        at, to, of = self.blocks(value_of(start)), self.blocks(value_of(end)), self.blocks(head)
        letters = [x.name for x in of.values() if isinstance(x, Idx)]
        if not letters:
            found = self.copied(start, head, end, label, last)
        elif to != of or len(of) != 1:
            raise VieteError(f"{label} adds to its own block: the arrow ends at x of that block")
        else:
            found = self.in_every_block(start, head, end, label, last)
        before = [Apply("lt", (at[s], of[s])) for s in of if s in at and at[s] != of[s]]
        if any(at.get(s) == x for s, x in of.items()) or (
            not letters and any(settled(x, opener.number) is False for x in before)
        ):
            raise VieteError(
                f"{label} reads the stream of the block before, and {show(start)} comes after it"
            )
        loose = any(isinstance(x, Idx) for x in (*at.values(), *of.values()))
        return Apply("where", (before[0], found, num(0))) if before and loose else found

    def blocks(self, ref: Ref) -> dict[str, Expr]:
        """The block of a value, by the letter of its loop."""
        own = self.opener.card.loop_letters
        return {s: x for s, x in zip(ref.symbol.slots, ref.index, strict=True) if s in own}

    def in_every_block(self, start: Pick, head: Ref, end: Pick, label: str, last: str) -> Expr:
        """What a head of a block with a letter copies: the formula that all the blocks have."""
        ((loop, letter),) = self.blocks(head).items()
        hole = Pick(Ref(Symbol("argument", "stream")), start.items)
        found = set[Expr]()
        for k in self.run.program.range_of(loop):
            at = dict.fromkeys(letter.free, num(k))
            inner, to = (self.opener.numbered(self.opener.card.substitute(x, letters=at), {})
                         for x in (head, end))  # fmt: skip
            found.add(about(self.copied(hole, inner, to, label, last), loop, letter, k))
        if len(found) > 1:
            raise VieteError(f"{label} is another formula in other blocks; give its block a number")
        return replaced(found.pop(), {hole: start})

    def copied(self, start: Pick, head: Expr, end: Expr, label: str, last: str) -> Expr:
        """What a head of one block copies of a vector."""
        opener = self.opener
        assert isinstance(head, Ref) and isinstance(end, Pick)
        block = opener.program.places(value_of(end), {})
        for terms in opener.families(end):
            found = [x for x in terms.patterns() if x.key == head.key]
            if terms.block is None or (terms.block[1],) != block or not found:
                continue
            slots = zip(found[0].index, head.index, strict=True)
            put = {a.name: b for a, b in slots if isinstance(a, Idx)}
            put[next(m.letter for m in terms.marks if m.word == "source")] = start.items[0]
            formula = opener.card.substitute(terms.formula, letters=put)
            (part,) = [p for p in opener.lines.parts(formula) if p.kind == ATOM]
            return self.reading(part, start)
        raise VieteError(f"{label} adds nothing to {last}")

    def to_token(self, start: Pick, last: str) -> Expr:
        """What a vector adds to the logit of a token."""
        token = self.read(last)
        if not (isinstance(token, Pick) and key_of(token) == "U"):
            raise VieteError(f"an arrow by W_U ends at a token, such as U_5, and not at {last}")
        if "logits" not in self.opener.card.symbols:
            raise VieteError(f"{self.opener.card.title} has no logits")
        logits = Ref(self.opener.card.symbols["logits"])
        logit = self.opener.opened(Pick(logits, (*start.items, token.items[0])))
        parts = self.opener.lines.parts(logit)
        while len(parts) == 1 and parts[0].kind == UNOPENED and isinstance(parts[0].focus, Apply):
            parts = self.opener.lines.parts(parts[0].focus.args[0])  # below a soft cap
        return self.reading(next(p for p in parts if p.kind == ATOM), start)

    def reading(self, part: Summand, start: Pick) -> Expr:
        """A term that is linear in the stream, with another vector instead of the stream's."""
        opener = self.opener
        while key_of(part.focus) not in opener.carried:
            inner = [p for p in opener.lines.parts(opener.opened(part.focus)) if p.kind == ATOM]
            if len(inner) != 1:
                raise VieteError(f"{key_of(part.focus)} is not linear in the stream")
            part = Summand(inner[0].focus, filled(part.context, inner[0].context))
        return filled(part.context, start)


def about(e: Expr, loop: str, letter: Expr, at: int) -> Expr:
    """A formula about the block ``at`` and those near it as one about a letter."""

    def rule(x: Expr) -> Expr | None:
        if not isinstance(x, Ref) or loop not in x.symbol.slots:
            return None
        place = x.symbol.slots.index(loop)
        own = x.index[place]
        if not isinstance(own, Num):
            return None
        step = own.value - at
        block = Apply("add" if step > 0 else "sub", (letter, num(abs(step)))) if step else letter
        return Ref(x.symbol, (*x.index[:place], block, *x.index[place + 1 :]))

    return transform(e, rule)


__all__ = ["arrow", "arrow_sides"]
