"""One term of an expansion; it is itself an expression that can be asked of the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from viete.analysis.linearity import UNOPENED
from viete.ask.expansion_options import words
from viete.ask.stopping import Stop, argument, function_name, stop_of
from viete.ask.term_families import Mark, Terms
from viete.ask.term_table import in_short
from viete.notation.tree import Expr, num

if TYPE_CHECKING:
    from viete.ask.expansion import Expansion


@dataclass(eq=False)
class Term:
    """One term of an expansion, which is itself an expression of the run."""

    expansion: Expansion = field(repr=False)
    family: Terms = field(repr=False)
    place: tuple[int, ...]  # of its letters, counted from the first value
    value: Any
    size: float
    among: Expansion | None = field(default=None, repr=False)  # whose terms its share is one of

    @cached_property
    def letters(self) -> dict[str, int]:
        """The values of its letters: the head, the source, the neuron."""
        found = self.expansion.letters(self.family)
        return {x.name: x.first + k for x, k in zip(found, self.place, strict=True)}

    @cached_property
    def formula(self) -> Expr:
        """The term as a formula."""
        put: dict[str, Expr] = {k: num(v) for k, v in self.letters.items()}
        named = self.expansion.expander.named(self.family.formula)
        return self.expansion.card.substitute(named, letters=put)

    @property
    def expression(self) -> str:
        """The term as an expression of the run."""
        return self.expansion.run.in_words(self.formula)

    @property
    def kind(self) -> str:
        """Its kind: 'term', 'constant' or 'unopened'."""
        return self.family.kind

    @cached_property
    def stopped(self) -> Stop | None:
        """For an 'unopened' term, what stopped the expansion there; None for any other."""
        expander = self.expansion.expander
        at = stop_of(expander, self.family.focus) if self.kind == UNOPENED else None
        if at is None:
            return None
        put: dict[str, Expr] = {k: num(v) for k, v in self.letters.items()}
        within = self.expansion.card.substitute(expander.named(argument(expander, at)), letters=put)
        return Stop(function_name(expander, at), self.expansion.run.in_words(within))

    @property
    def share(self) -> float:
        """Its size as a share of the sizes of all terms."""
        return self.size / ((self.among or self.expansion).mass or 1.0)

    @cached_property
    def label(self) -> str:
        """The place it comes from: ``block 3, head 2, source 0``."""
        steps = [self.step(m) for m in self.counted]
        if not self.family.marks or self.family.marks[-1].word in ("block", "query", "key"):
            put: dict[str, Expr] = {k: num(v) for k, v in self.letters.items()}
            focus = self.expansion.card.substitute(self.family.focus, letters=put)
            steps.append(self.expansion.run.in_words(focus, "unicode"))
        return ", ".join(filter(None, steps))

    @property
    def counted(self) -> list[Mark]:
        """The steps to it, with a group of heads and a member of it as one head."""
        card, heads = self.expansion.card, self.expansion.run.scope.heads
        size = None if heads is None else card.size(heads.each)
        each = None if size is None else size.value(card.sizes)
        out, left = list[Mark](), deque(self.marks)
        while left:
            m = left.popleft()
            if each is not None and m.word == "head" and left and left[0].word == "head":
                group, m = m.number or 0, left.popleft()
                m = replace(m, number=(group - 1) * int(each) + (m.number or 0))
            out.append(m)
        return out

    def step(self, m: Mark) -> str:
        """One step: ``block 3``, ``head 2``, ``source 0 "I"``."""
        if not m.letter:
            return m.word
        k = m.number if m.number is not None else self.letters[m.letter]
        return f"{m.word} {self.expansion.position_name(k) if m.word == 'source' else k}"

    def expand(self, into: str | Collection[str], **changes: Any) -> Expansion:
        """The terms of this term, with the options of its expansion."""
        e = self.expansion
        changed = replace(e.options, into=words(into), **changes)
        return e.of(self.formula, changed, self.marks)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The steps to it, with the numbers of its letters."""
        # A step that was taken before has its number, though its letter may be that of another.
        return tuple(m if m.number is not None else replace(m, number=self.letters.get(m.letter))
                     for m in self.family.marks)  # fmt: skip

    def __repr__(self) -> str:
        return f"<{self.label}: {in_short(self.value)}>"


__all__ = ["Term"]
