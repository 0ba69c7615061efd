"""An expansion: an expression as a sum of terms, with their values.

The terms add up to the whole: the terms listed, the constants, the parts that could not be opened,
and the terms below the cut-off. A term's share is its part of the sum of absolute values, because
signed values have no meaningful shares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from viete.analysis.linearity import ATOM, CONSTANT, UNOPENED
from viete.analysis.rows import Subscript
from viete.ask.directions import DIRECTIONS, check_independent, is_name, projected
from viete.ask.directions import directions as directions_of
from viete.ask.expansion_options import Options, options, words
from viete.ask.explaining import explained
from viete.ask.holding import with_held
from viete.ask.partial_sums import PartialSums, partial_sums
from viete.ask.paths import MOST, OPENED, best_first
from viete.ask.remainder import HIDDEN, ROUNDING, Remainder
from viete.ask.term import Term
from viete.ask.term_families import Mark
from viete.ask.term_table import norm, term_table, terms_json
from viete.ask.term_values import TermValues
from viete.ask.terms import WAYS, WORDS, Expander
from viete.document.displayed import Displayed
from viete.document.rendering import render
from viete.document.tree import Block
from viete.errors import VieteError
from viete.evaluate.contraction import Contraction
from viete.evaluate.labelled import COL, ROW, Array, expand
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member
from viete.graph.evaluator import Letter
from viete.notation.printer import show
from viete.notation.substitution import fresh
from viete.notation.tree import Expr, Idx
from viete.rewrite.opening import without_calls

NONE = np.zeros(0)


def expanded(run: Run, text: str, options: Options, lengths: Collection[str] = ()) -> Expansion:
    """The terms of an expression of a run; see `viete.nouns.run.Questions.expand`."""
    run, e = with_held(run, options.given).resolved(text)
    kinds = (getattr(v.array, "dtype", None) for v in run.store.values())
    if any(getattr(kind, "names", None) for kind in kinds):
        raise VieteError("an expansion needs float or exact numbers: leave out meaning='interval'")
    return Expansion(run, without_calls(run.program.model, e), options, frozenset(lengths))


class Expansion(Displayed, TermValues):
    """The terms of an expression: iterated over, they add up to it.

    ``terms`` are the listed ones, by size, or in the order in which they add up. ``hidden`` is the
    sum of the others, with the sum of their sizes. ``unopened`` are the parts that are not linear,
    ``constants`` the biases, and ``rounding`` is ``total``, the value of the expression, minus all
    these. ``held`` names the values taken as given. Raises VieteError where the terms lack more
    than rounding.
    """

    def __init__(
        self, run: Run, e: Expr, options: Options, lengths: frozenset[str],
        marks: tuple[Mark, ...] = (),
    ) -> None:  # fmt: skip
        self.run, self.options, self.lengths = run, options, lengths
        self.card, asked = run.program.model, query(run, e)
        if asked.blocks:
            raise VieteError(
                f"{show(e, 'unicode')} is asked of all blocks {next(iter(asked.blocks))}; give one "
                f"of them a number to expand it"
            )
        loose = {x: [int(size.evaluate(run.sizes)) for size in sizes]
                 for x, sizes in asked.places.items() if x not in self.card.ranges}  # fmt: skip
        self.loose = tuple(Letter(x, x, *sizes) for x, sizes in loose.items())
        names = [x for x in options.into if x not in WORDS and is_name(run, x)]
        into, named = frozenset(options.into).difference(names), (*names, *options.directions)
        into |= {DIRECTIONS} if named else set()
        self.expander = Expander(run.program, into, options.depth, options.held, lengths, run.sizes)
        self.formula, self.rows = self.by_row(self.expander.normal(asked.formula))
        self.shallow = "path" in into and options.depth > 0 and self.is_too_much(marks)
        if self.shallow:
            self.expander = Expander(run.program, into, 0, options.held, lengths, run.sizes)
        self.families = self.expander.families(self.formula, marks)
        along = directions_of(run, self.expander, named) if DIRECTIONS in into else ()
        if along:
            self.families = projected(run, self.expander, self.families, along)
        self.contraction = Contraction(run.arrays)
        asked_for = (self.formula, *(f.formula for f in self.families))
        run.supply(set[Member]().union(*(run.needs(x, [{}]) for x in asked_for)))
        if along:
            check_independent(self, along)

    def is_too_much(self, marks: tuple[Mark, ...]) -> bool:
        """Whether the terms are too many to compute each of them."""
        total = 0
        for f in self.expander.each(self.formula, marks):
            total += prod(x.count for x in self.letters(f))
            if total > MOST:
                return True
        return False

    def by_row(self, e: Expr) -> tuple[Expr, tuple[Letter, ...]]:
        """A matrix as one row with a free letter; anything without rows is unchanged."""
        lines = self.expander.lines
        if lines.rank(e) < 2:
            return e, ()
        name = fresh(self.card.names | e.free, "jpqs")
        count = int(lines.shape(e)[0].evaluate(self.run.sizes))
        return self.expander.rows.row(e, Subscript(Idx(name))), (Letter(name, name, 0, count),)

    # -- terms -------------------------------------------------------------------------------------

    @cached_property
    def mass(self) -> float:
        """The sum of the sizes of all terms, counting opened terms by their own terms."""
        if self.opened is not None:
            return sum(t.size for t in self.opened)
        return super().mass

    @cached_property
    def listed(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """The family and the place of each listed term, and of each hidden one."""
        owner = np.concatenate([np.full(s.size, k) for k, s in enumerate(self.sizes)] or [NONE])
        place = np.concatenate([np.arange(s.size) for s in self.sizes] or [NONE])
        sizes = np.concatenate([s.reshape(-1) for s in self.sizes] or [NONE])
        alone = np.isin(owner, [k for k, f in enumerate(self.families) if f.kind in (
            CONSTANT, UNOPENED)])  # fmt: skip
        order = np.argsort(-sizes, kind="stable")
        order = order[~alone[order]]
        count = len(order) if self.options.top is None else min(self.options.top, len(order))
        count = min(count, int(((sizes[order] >= self.options.least) & (sizes[order] > 0)).sum()))
        shown = np.sort(order[:count]) if self.options.cumulative else order[:count]
        return tuple([(int(owner[x]), int(place[x])) for x in xs] for xs in (shown, order[count:]))  # type: ignore[return-value]

    def term(self, k: int, flat: int) -> Term:
        """One term of a family."""
        place = tuple(int(x) for x in np.unravel_index(flat, self.sizes[k].shape))
        return Term(self, self.families[k], place, self.arrays[k][place],
                    float(self.sizes[k][place]))  # fmt: skip

    def every_term(self) -> list[Term]:
        """All terms, including hidden ones, in the order in which they add up."""
        return [self.term(k, j) for k, s in enumerate(self.sizes) for j in range(s.size)]

    @cached_property
    def opened(self) -> list[Term] | None:
        """The terms, if they were split one by one, else None.

        The largest are split until those that split no further make up the share ``explain``.
        Without it, only the largest are split, and only if all would be too many.
        """
        if self.options.explain is not None:
            found = explained(self, self.options.explain)
        elif self.shallow:
            found = self.by_size[0]
        else:
            return None
        return sorted(found, key=lambda t: -t.size)

    @cached_property
    def by_size(self) -> tuple[list[Term], int]:
        """The terms of paths, with the largest opened, and the number left unopened."""
        found, left = best_first(self, self.options.depth)
        return [replace(t, among=self) for t in found], left

    @property
    def note(self) -> str:
        """A note on terms left unopened because they are too many; empty if all were opened."""
        left = self.by_size[1] if self.shallow and self.options.explain is None else 0
        if left:
            return (
                f"the {OPENED} largest of what heads took were opened, one by one; {left} terms of "
                "heads are not, each one for all paths that lead on from it"
            )
        found = dict.fromkeys(show(f.focus, "unicode") for f in reversed(self.families)
                              if (f.focus, f.marks) in self.expander.closed)  # fmt: skip
        if not found:
            return ""
        first, *more = found
        also = f" (and {len(more)} more)" * bool(more)
        return (
            f"{first}{also} would be opened in more than {WAYS} places, so it stays a term: "
            "expand it alone to see its terms"
        )

    @cached_property
    def terms(self) -> list[Term]:
        """The listed terms, the largest first."""
        if self.opened is None:
            return [self.term(*x) for x in self.listed[0]]
        found = [t for t in self.opened if t.kind == ATOM and t.size >= self.options.least]
        return [t for t in found if t.size][: self.options.top]

    @cached_property
    def summands(self) -> list[Term | Remainder]:
        """Everything that adds up to the whole: listed, hidden, unopened, constants, rounding."""
        hidden = [self.hidden] * bool(self.hidden.terms)
        return [*self.terms, *hidden, *self.unopened, *self.constants, self.rounding]

    def __iter__(self) -> Iterator[Term | Remainder]:
        return iter(self.summands)

    def __len__(self) -> int:
        return len(self.summands)

    def __getitem__(self, k: int) -> Term | Remainder:
        return self.summands[k]

    def of_kind(self, kind: str) -> list[Term]:
        """The constants, or the terms that could not be opened."""
        if self.opened is not None:
            return [t for t in self.opened if t.kind == kind]
        return [self.term(k, j) for k, f in enumerate(self.families) if f.kind == kind
                for j in range(self.sizes[k].size)]  # fmt: skip

    @cached_property
    def constants(self) -> list[Term]:
        """The terms that do not depend on the input: biases and shifts."""
        return self.of_kind(CONSTANT)

    @cached_property
    def unopened(self) -> list[Term]:
        """The terms that are not linear in their parts."""
        return self.of_kind(UNOPENED)

    @cached_property
    def hidden(self) -> Remainder:
        """The sum of the terms below the cut-off and those that are 0."""
        if self.opened is None:
            return self.together(HIDDEN, (self.term(*x) for x in self.listed[1]))
        listed = set(self.terms)
        rest = (t for t in self.opened if t.kind == ATOM and t not in listed)
        return self.together(HIDDEN, rest)

    @cached_property
    def rounding(self) -> Remainder:
        """The whole minus all terms, as a term. Raises VieteError if it is more than rounding."""
        return Remainder(self, ROUNDING, (), self.rest, norm(self.rest))

    def together(self, kind: str, terms: Iterable[Term]) -> Remainder:
        """Some terms as one sum."""
        found = tuple(terms)
        total = sum((t.value for t in found), 0 * self.total)
        return Remainder(self, kind, found, total, sum(t.size for t in found))

    @cached_property
    def held(self) -> tuple[str, ...]:
        """The values taken as given although they depend on the text."""
        return (*self.expander.held_in(f.formula for f in self.families), *self.options.given)

    # -- adding up --------------------------------------------------------------------------------

    def in_order(self) -> list[Term]:
        """All terms except the hidden ones, in the order in which they add up."""
        first, flat = self.listed[0], self.families
        alone = [(k, j) for k, f in enumerate(flat) if f.kind in (CONSTANT, UNOPENED)
                 for j in range(self.sizes[k].size)]  # fmt: skip
        return [self.term(*x) for x in sorted([*first, *alone])]

    def over(self, e: Expr) -> Expansion:
        """The expansion of another formula with the same options."""
        return self.of(e, self.options)

    def of(self, e: Expr, options: Options, marks: tuple[Mark, ...] = ()) -> Expansion:
        """An expansion of another formula; ``marks`` are the steps to it."""
        return Expansion(self.run, e, options, self.lengths, marks)

    def laid_out_alone(self, e: Expr) -> Array:
        """The value of a formula, evaluated separately from the terms."""
        v = self.run.arrays.of(e, self.env())
        array, have = self.of_one_text(self.run.arrays.array(v), v.axes)
        axes = tuple(a for a in ("batch", ROW, COL) if a in have)
        return expand(self.run.arrays.xp, array, have, axes)

    @cached_property
    def partial_sums(self) -> PartialSums:
        """The sums of the terms in order, with their angles; see `viete.ask.partial_sums`."""
        return partial_sums(self)

    # -- as text -----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<{show(self.formula, 'unicode')} in {len(self.terms)} terms>"

    def page(self, style: str = "unicode", numbered: bool = False) -> list[Block]:
        """A table of the terms, with numbers if wanted; then what was held constant, and the rest.

        Or, where asked for, a table of the partial sums of the terms in order.
        """
        if self.options.cumulative:
            return self.partial_sums.page(style)
        return term_table(self, style, numbered)

    @property
    def json(self) -> str:
        """The terms as JSON: where each comes from, its value, its share, its expression."""
        return terms_json(self)

    def __str__(self) -> str:
        return render(self.page(), "text")


__all__ = ["Expansion", "Options", "Term", "expanded", "options", "words"]
