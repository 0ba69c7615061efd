"""The values of an expansion's terms: an array for each family, the whole, the rounding error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from viete.ask.expansion_options import Options
from viete.ask.stream import values_in
from viete.ask.term_families import Terms
from viete.ask.term_table import floats
from viete.ask.terms import Expander
from viete.errors import VieteError
from viete.evaluate.contraction import Contraction
from viete.evaluate.labelled import COL, ROW, Array, Value, expand
from viete.evaluate.labels import position_labels, tokens_along
from viete.evaluate.run import Run
from viete.graph.card import CardData
from viete.graph.evaluator import Env, Letter
from viete.notation.printer import show
from viete.notation.tree import Expr, Pick

PRECISE = 1e3  # of the precision: what may be lost in adding up


class TermValues:
    """The values of the families of terms of one formula, in one run.

    ``loose`` are the letters that the formula leaves free, ``rows`` the letter of its rows.
    """

    run: Run
    card: CardData
    options: Options
    lengths: frozenset[str]
    formula: Expr
    loose: tuple[Letter, ...]
    rows: tuple[Letter, ...]
    expander: Expander
    families: list[Terms]
    contraction: Contraction

    def env(self, letters: Sequence[Letter] = ()) -> Env[Value]:
        """The environment, with letters that are axes."""
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
        """The names of positions in a text of tokens: ``0 "I"``."""
        for length in sorted(self.lengths or self.card.lengths):
            if (ids := tokens_along(self.run, length)) is not None:
                return position_labels(ids, self.run.scope.words())
        return []

    def position_name(self, k: int) -> str:
        """A position with its token."""
        return self.tokens[k] if k < len(self.tokens) else str(k)

    def length_of(self, e: Expr) -> int:
        """The number of rows of a value."""
        return int(self.expander.lines.shape(e)[0].evaluate(self.run.sizes))

    def picked_values(self) -> Iterator[Pick]:
        """The rows of values in the expression."""
        found = values_in(self.formula)
        return (x for x in found if isinstance(x, Pick) and self.expander.lines.depends(x))

    def array(self, family: Terms) -> Array:
        """The values of a family: an axis for each letter, then the axes of the whole."""
        letters = self.letters(family)
        v = self.contraction.value(family.formula, self.env(letters))
        names = [x.label for x in letters]
        return self.laid_out(v, names, [x.count for x in letters])

    def laid_out(self, v: Value, names: list[str], counts: list[int]) -> Array:
        """A value as an array of the run's library, with its axes in order."""
        xp, array = self.run.arrays.xp, self.run.arrays.array(v)
        whole = self.axes_of_whole
        array = expand(xp, *self.of_one_text(array, v.axes), (*names, *whole))
        if not hasattr(array, "shape"):  # an exact number
            return np.array(array, dtype=object)
        shape = (*counts, *array.shape[len(names) :])
        return xp.broadcast_to(array, shape) if tuple(array.shape) != shape else array

    def of_one_text(self, array: Array, axes: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
        """The array without the axis of a batch of one text, so that a number keeps its sign."""
        if self.run.batch != 1 or "batch" not in axes:
            return array, axes
        at = axes.index("batch")
        return array[(slice(None),) * at + (0,)], (*axes[:at], *axes[at + 1 :])

    @cached_property
    def whole(self) -> Value:
        """The value of the expression, computed separately from its terms."""
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

    @property
    def mass(self) -> float:
        """The sum of the sizes of all terms."""
        return float(sum(s.sum() for s in self.sizes))

    @cached_property
    def rest(self) -> Any:
        """The whole minus the terms: rounding. Raises VieteError where it is more."""
        total = self.total
        rest = total - sum(self.summed(k) for k in range(len(self.families)))
        gap = float(np.sqrt((floats(rest) ** 2).sum()))
        eps = float(np.finfo(floats(total).dtype).eps)
        scale = max(self.mass, float(np.abs(floats(total)).max(initial=0.0)))
        if gap > PRECISE * eps * scale and gap > PRECISE * eps * self.largest:
            raise VieteError(
                f"the terms of {show(self.formula, 'unicode')} add up to it except for {gap:.3g}, "
                f"which is more than rounding"
            )
        return rest

    @property
    def largest(self) -> float:
        """The largest number in the values that terms are made of, of which much may cancel."""
        out = 0.0
        for f in self.families:
            env = self.env(self.letters(f))
            if f.focus.free <= env.index.keys():
                value = floats(self.run.arrays.array(self.run.arrays.of(f.focus, env)))
                out = max(out, float(np.abs(value).max(initial=0.0)))
        return out

    def summed(self, k: int) -> Array:
        """The sum of a family."""
        array = self.arrays[k]
        axes = tuple(range(len(self.families[k].letters)))
        return self.run.arrays.xp.sum(array, axis=axes) if axes else array


__all__ = ["TermValues"]
