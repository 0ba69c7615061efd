"""An expansion: the terms that an expression is made of, with their values.

The terms add up to the whole: those that are listed, the constants, what could not be opened, and
those below the cut-off. A share is one of the sum of all absolute values, since values with signs
have no shares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from viete.analysis.linearity import ATOM, CONSTANT, HELD, UNOPENED
from viete.analysis.rows import Subscript
from viete.ask.directions import DIRECTIONS, check_independent, is_name, projected
from viete.ask.directions import directions as directions_of
from viete.ask.explaining import explained
from viete.ask.partial_sums import PartialSums, partial_sums
from viete.ask.stream import values_in
from viete.ask.term import Options, Term, words
from viete.ask.term_families import Mark, Terms
from viete.ask.term_table import Hidden, floats, term_table, terms_json
from viete.ask.terms import WORDS, Expander
from viete.document.rendering import render
from viete.document.tree import Block
from viete.errors import VieteError
from viete.evaluate.contraction import Contraction
from viete.evaluate.labelled import COL, ROW, Array, Value, expand
from viete.evaluate.labels import position_labels, tokens_along
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member
from viete.graph.evaluator import Env, Letter
from viete.notation.printer import show
from viete.notation.substitution import fresh
from viete.notation.tree import Expr, Idx, Pick
from viete.rewrite.opening import without_calls

NONE = np.zeros(0)
PRECISE = 1e3  # of the precision: what may be lost in adding up


def options(
    into: str | Collection[str], top: int | None, least: float, depth: int,
    held: str | Collection[str], cumulative: bool = False, explain: float | None = None,
    directions: str | Collection[str] = (),
) -> Options:  # fmt: skip
    """Checked options. Raises VieteError for a word that means nothing."""
    wanted = frozenset(words(held))
    if unknown := sorted(wanted - HELD):
        raise VieteError(f"{unknown[0]!r} cannot be held; {' and '.join(sorted(HELD))} can")
    if top is not None and top < 1:
        raise VieteError(f"top is how many terms are listed, at least 1, not {top}")
    if explain is not None and not 0 < explain <= 1:
        raise VieteError(f"explain is a share between 0 and 1, not {explain}")
    named = (directions,) if isinstance(directions, str) else tuple(directions)
    return Options(words(into), top, least, depth, wanted, cumulative, explain, named)


def expanded(run: Run, text: str, options: Options, lengths: Collection[str] = ()) -> Expansion:
    """The terms that made an expression of a run; see `viete.nouns.run.Questions.expand`."""
    run, e = run.resolved(text)
    kinds = (getattr(v.array, "dtype", None) for v in run.store.values())
    if any(getattr(kind, "names", None) for kind in kinds):
        raise VieteError("terms are floats or exact numbers: run without meaning='interval'")
    return Expansion(run, without_calls(run.program.model, e), options, frozenset(lengths))


class Expansion:
    """The terms of an expression.

    It has the listed terms by size, or in the order in which they add up. ``constants`` and
    ``unopened`` are terms by themselves: the biases, and the parts that are not linear. ``hidden``
    is the sum of the terms below the cut-off and the sum of their sizes. ``held`` names what was
    taken as given. ``total`` is the value of the expression, ``rest`` what the terms lack of it.
    Raises VieteError where they lack more than rounding.
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
        self.expander = Expander(run.program, into, options.depth, options.held, lengths)
        self.formula, self.rows = self.by_row(self.expander.normal(asked.formula))
        self.families = self.expander.families(self.formula, marks)
        along = directions_of(run, self.expander, named) if DIRECTIONS in into else ()
        if along:
            self.families = projected(run, self.expander, self.families, along)
        self.contraction = Contraction(run.arrays)
        run.supply(set[Member]().union(*(run.needs(f.formula, [{}]) for f in self.families)))
        if along:
            check_independent(self, along)

    def by_row(self, e: Expr) -> tuple[Expr, tuple[Letter, ...]]:
        """A matrix as one row of it, by a letter; what has no rows stays."""
        lines = self.expander.lines
        if lines.rank(e) < 2:
            return e, ()
        name = fresh(self.card.names | e.free, "jpqs")
        count = int(lines.shape(e)[0].evaluate(self.run.sizes))
        return self.expander.rows.row(e, Subscript(Idx(name))), (Letter(name, name, 0, count),)

    # -- values ------------------------------------------------------------------------------------

    def env(self, letters: Sequence[Letter] = ()) -> Env[Value]:
        """The names in force, with letters that are axes."""
        env: Env[Value] = self.run.arrays.env
        index = {**env.index, **{x.name: x for x in (*self.loose, *self.rows, *letters)}}
        return replace(env, index=index)

    def letters(self, family: Terms) -> list[Letter]:
        """The letters of a family, as axes."""
        index, out = self.run.arrays.env.index, list[Letter]()
        for name, values in family.letters:
            if isinstance(values, str):
                of = index[values]
                out.append(Letter(name, name, of.first, of.count))
            else:
                out.append(Letter(name, name, 0, int(values.evaluate(self.run.sizes))))
        return out

    @cached_property
    def tokens(self) -> Sequence[str]:
        """What the positions are called, where the text is one of tokens: ``0 "I"``."""
        for length in sorted(self.lengths or self.card.lengths):
            if (ids := tokens_along(self.run, length)) is not None:
                return position_labels(ids, self.run.scope.words())
        return []

    def position_name(self, k: int) -> str:
        """A position with its token."""
        return self.tokens[k] if k < len(self.tokens) else str(k)

    def length_of(self, e: Expr) -> int:
        """How many rows a value has."""
        return int(self.expander.lines.shape(e)[0].evaluate(self.run.sizes))

    def picked_values(self) -> Iterator[Pick]:
        """The rows of values in the expression."""
        found = values_in(self.formula)
        return (x for x in found if isinstance(x, Pick) and self.expander.lines.depends(x))

    def array(self, family: Terms) -> Array:
        """The values of a family: an axis for each letter, then those of the whole."""
        letters = self.letters(family)
        v = self.contraction.value(family.formula, self.env(letters))
        names = [x.label for x in letters]
        return self.laid_out(v, names, [x.count for x in letters])

    def laid_out(self, v: Value, names: list[str], counts: list[int]) -> Array:
        """A value with axes in order, as an array of what one asks for in Python."""
        xp, array = self.run.arrays.xp, self.run.arrays.array(v)
        whole = self.axes_of_whole
        array = expand(xp, *self.of_one_text(array, v.axes), (*names, *whole))
        if not hasattr(array, "shape"):  # an exact number
            return np.array(array, dtype=object)
        shape = (*counts, *array.shape[len(names) :])
        return xp.broadcast_to(array, shape) if tuple(array.shape) != shape else array

    def of_one_text(self, array: Array, axes: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
        """Without the axis of a batch of one text, so that a number has a sign."""
        if self.run.batch != 1 or "batch" not in axes:
            return array, axes
        at = axes.index("batch")
        return array[(slice(None),) * at + (0,)], (*axes[:at], *axes[at + 1 :])

    @cached_property
    def whole(self) -> Value:
        """The value of the expression, by itself."""
        with np.errstate(all="ignore"):
            return self.run.arrays.of(self.formula, self.env())

    @cached_property
    def axes_of_whole(self) -> tuple[str, ...]:
        axes = self.whole.axes if self.run.batch != 1 else set(self.whole.axes) - {"batch"}
        own = [x.label for x in (*self.loose, *self.rows)]
        rest = [*own, *(a for a in axes if a not in ("batch", ROW, COL, *own))]
        return tuple(a for a in ("batch", *rest, ROW, COL) if a in axes)

    @property
    def total(self) -> Any:
        """The value of the whole expression."""
        return self.laid_out(self.whole, [], [])

    @cached_property
    def arrays(self) -> list[Array]:
        """The values of all families."""
        return [self.array(f) for f in self.families]

    @cached_property
    def sizes(self) -> list[Any]:
        """The sizes of all terms: the absolute value of a number, the length of a vector."""
        out = []
        for f, array in zip(self.families, self.arrays, strict=True):
            a = np.abs(floats(array))
            axes = tuple(range(len(f.letters), a.ndim))
            out.append(np.sqrt((a * a).sum(axis=axes)) if axes else a)
        return out

    @cached_property
    def mass(self) -> float:
        """The sum of the sizes of all terms."""
        if self.options.explain is not None:
            return sum(t.size for t in self.explained)
        return float(sum(s.sum() for s in self.sizes))

    @cached_property
    def rest(self) -> Any:
        """What the terms lack of the whole: rounding. Raises VieteError where it is more."""
        total = self.total
        rest = total - sum(self.summed(k) for k in range(len(self.families)))
        gap = float(np.sqrt((floats(rest) ** 2).sum()))
        eps = float(np.finfo(floats(total).dtype).eps)
        scale = max(self.mass, float(np.abs(floats(total)).max(initial=0.0)))
        if gap > PRECISE * eps * scale:
            raise VieteError(
                f"the terms of {show(self.formula, 'unicode')} add up to it but for {gap:.3g}, "
                f"which is more than rounding"
            )
        return rest

    def summed(self, k: int) -> Array:
        """The sum of a family."""
        array = self.arrays[k]
        axes = tuple(range(len(self.families[k].letters)))
        return self.run.arrays.xp.sum(array, axis=axes) if axes else array

    # -- terms -------------------------------------------------------------------------------------

    @cached_property
    def listed(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """The family and the place of each term that is listed, and of those that are hidden."""
        owner = np.concatenate([np.full(s.size, k) for k, s in enumerate(self.sizes)] or [NONE])
        place = np.concatenate([np.arange(s.size) for s in self.sizes] or [NONE])
        sizes = np.concatenate([s.reshape(-1) for s in self.sizes] or [NONE])
        alone = np.isin(owner, [k for k, f in enumerate(self.families) if f.kind in (
            CONSTANT, UNOPENED)])  # fmt: skip
        order = np.argsort(-sizes, kind="stable")
        order = order[~alone[order]]
        count = len(order) if self.options.top is None else min(self.options.top, len(order))
        count = min(count, int((sizes[order] >= self.options.least).sum()))
        shown = np.sort(order[:count]) if self.options.cumulative else order[:count]
        return tuple([(int(owner[x]), int(place[x])) for x in xs] for xs in (shown, order[count:]))  # type: ignore[return-value]

    def term(self, k: int, flat: int) -> Term:
        """One term of a family."""
        place = tuple(int(x) for x in np.unravel_index(flat, self.sizes[k].shape))
        return Term(self, self.families[k], place, self.arrays[k][place],
                    float(self.sizes[k][place]))  # fmt: skip

    def every_term(self) -> list[Term]:
        """All terms, hidden ones too, in the order in which they add up."""
        return [self.term(k, j) for k, s in enumerate(self.sizes) for j in range(s.size)]

    @cached_property
    def explained(self) -> list[Term]:
        """The terms opened until the share to ``explain`` is in those that go no further."""
        assert self.options.explain is not None
        return sorted(explained(self, self.options.explain), key=lambda t: -t.size)

    @cached_property
    def terms(self) -> list[Term]:
        """The terms that are listed, the largest first."""
        if self.options.explain is None:
            return [self.term(*x) for x in self.listed[0]]
        found = [t for t in self.explained if t.kind == ATOM and t.size >= self.options.least]
        return found[: self.options.top]

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.listed[0]) if self.options.explain is None else len(self.terms)

    def __getitem__(self, k: int) -> Term:
        return self.terms[k]

    def of_kind(self, kind: str) -> list[Term]:
        """The terms that are constants, or that could not be opened."""
        if self.options.explain is not None:
            return [t for t in self.explained if t.kind == kind]
        return [self.term(k, j) for k, f in enumerate(self.families) if f.kind == kind
                for j in range(self.sizes[k].size)]  # fmt: skip

    @cached_property
    def constants(self) -> list[Term]:
        """The terms that no input changes: what biases and shifts add."""
        return self.of_kind(CONSTANT)

    @cached_property
    def unopened(self) -> list[Term]:
        """The terms that are not linear in what they are made of."""
        return self.of_kind(UNOPENED)

    @cached_property
    def hidden(self) -> Hidden:
        """The terms below the cut-off, together."""
        if self.options.explain is None:
            return self.together(self.term(*x) for x in self.listed[1])
        listed = set(self.terms)
        return self.together(t for t in self.explained if t.kind == ATOM and t not in listed)

    def together(self, terms: Iterable[Term]) -> Hidden:
        """Some terms as one sum."""
        found = list(terms)
        zero = 0 * self.total
        return Hidden(len(found), sum((t.value for t in found), zero), sum(t.size for t in found))

    @cached_property
    def held(self) -> tuple[str, ...]:
        """What was taken as given, though it depends on the text."""
        return self.expander.held_in(self.families)

    # -- adding up --------------------------------------------------------------------------------

    def in_order(self) -> list[Term]:
        """All terms but the hidden ones, in the order in which they add up."""
        first, flat = self.listed[0], self.families
        alone = [(k, j) for k, f in enumerate(flat) if f.kind in (CONSTANT, UNOPENED)
                 for j in range(self.sizes[k].size)]  # fmt: skip
        return [self.term(*x) for x in sorted([*first, *alone])]

    def over(self, e: Expr) -> Expansion:
        """The same of another formula."""
        return self.of(e, self.options)

    def of(self, e: Expr, options: Options, marks: tuple[Mark, ...] = ()) -> Expansion:
        """An expansion of another formula; ``marks`` are the steps to it."""
        return Expansion(self.run, e, options, self.lengths, marks)

    def laid_out_alone(self, e: Expr) -> Array:
        """The value of a formula by itself."""
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
        return f"<{show(self.formula, 'unicode')} in {len(self)} terms>"

    def page(self, style: str = "unicode", numbered: bool = False) -> list[Block]:
        """A table of the terms, with their numbers if wanted, what is left and what was held."""
        return term_table(self, style, numbered)

    @property
    def json(self) -> str:
        """The terms as JSON: where each comes from, its value, its share, its expression."""
        return terms_json(self)

    def listing(self) -> list[Block]:
        """The terms, or where they were asked for the sums of them in order."""
        return self.partial_sums.page() if self.options.cumulative else self.page()

    def __str__(self) -> str:
        return render(self.listing(), "text")

    def _repr_markdown_(self) -> str:
        """As a notebook shows it."""
        return render(self.listing(), "md")


__all__ = ["Expansion", "Options", "Term", "expanded", "options", "words"]
