"""An expansion: the terms that an expression is made of, with their values.

The terms add up to the whole: those that are listed, the constants, what could not be opened, and
those below the cut-off. A share is one of the sum of all absolute values, since values with signs
have no shares.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from viete.analysis.linearity import CONSTANT, HELD, UNOPENED
from viete.analysis.rows import Place
from viete.ask.terms import DEPTH, Expander, Family, Mark
from viete.errors import VieteError
from viete.evaluate.contraction import Contraction
from viete.evaluate.labelled import COL, ROW, Array, Value, expand
from viete.evaluate.run import Run
from viete.graph.evaluator import Env, Letter
from viete.notation.printer import show
from viete.notation.substitution import fresh
from viete.notation.tree import Expr, Idx, num

PRECISE = 1e3  # of the precision: what may be lost in adding up


def words(said: str | Collection[str]) -> tuple[str, ...]:
    """``"block, head"`` as its words."""
    return tuple(re.findall(r"\w+", said)) if isinstance(said, str) else tuple(said)


def expanded(
    run: Run, text: str, into: str | Collection[str] = "block", *, top: int | None = None,
    least: float = 0.0, depth: int = DEPTH, held: str | Collection[str] = HELD,
) -> Expansion:  # fmt: skip
    """The terms that made an expression of a run; see `viete.nouns.run.Questions.expand`."""
    return Expansion(run, run.parse(text), words(into), top, least, depth, frozenset(words(held)))


@dataclass(eq=False)
class Term:
    """One term of an expansion, which is an expression of the run again."""

    expansion: Expansion = field(repr=False)
    family: Family = field(repr=False)
    place: tuple[int, ...]  # of its letters, counted from the first value
    value: Any
    size: float

    @cached_property
    def letters(self) -> dict[str, int]:
        """What its letters are: the head, the source, the neuron."""
        found = self.expansion.letters(self.family)
        return {x.name: x.first + k for x, k in zip(found, self.place, strict=True)}

    @cached_property
    def formula(self) -> Expr:
        """The term as a formula."""
        put: dict[str, Expr] = {k: num(v) for k, v in self.letters.items()}
        return self.expansion.card.substitute(self.family.formula, letters=put)

    @property
    def expression(self) -> str:
        """The term as an expression, whose value in the run is this one's."""
        return show(self.formula)

    @property
    def kind(self) -> str:
        """What it is: 'value', 'constant' or 'unopened'."""
        return self.family.kind

    @property
    def share(self) -> float:
        """Its size among the sizes of all terms."""
        return self.size / (self.expansion.mass or 1.0)

    @cached_property
    def label(self) -> str:
        """Where it comes from: ``block 3, head 2, source 0``."""
        steps = [self.said(m) for m in self.family.marks]
        if not self.family.marks or self.family.marks[-1].word in ("block", "query", "key"):
            put: dict[str, Expr] = {k: num(v) for k, v in self.letters.items()}
            focus = self.expansion.card.substitute(self.family.focus, letters=put)
            steps.append(show(focus, "unicode"))
        return ", ".join(filter(None, steps))

    def said(self, m: Mark) -> str:
        if m.word == "block":
            return f"{m.word} {m.number}"
        return f"{m.word} {self.letters[m.letter]}" if m.letter else m.word

    def expand(self, into: str | Collection[str], **options: Any) -> Expansion:
        """The terms of this term; see `expanded`."""
        e = self.expansion
        top, least = options.pop("top", None), options.pop("least", 0.0)
        return Expansion(e.run, self.formula, words(into), top, least,
                         options.get("depth", e.depth), e.held_kinds)  # fmt: skip

    def __repr__(self) -> str:
        return f"<{self.label}: {shown(self.value)}>"


class Expansion:
    """The terms of an expression.

    It has the listed terms by size, or in the order in which they add up. ``constants`` and
    ``unopened`` are terms by themselves: the biases, and the parts that are not linear. ``hidden``
    is the sum of the terms below the cut-off and the sum of their sizes. ``held`` names what was
    taken as given. ``total`` is the value of the expression, and ``rest`` what the terms lack of it.
    Raises VieteError where they lack more than rounding.
    """

    def __init__(
        self, run: Run, e: Expr, into: tuple[str, ...], top: int | None, least: float,
        depth: int, held: frozenset[str],
    ) -> None:  # fmt: skip
        self.run, self.into, self.top, self.least = run, into, top, least
        self.depth, self.held_kinds, self.card = depth, held, run.program.model
        if unknown := sorted(held - HELD):
            raise VieteError(f"{unknown[0]!r} cannot be held; {' and '.join(sorted(HELD))} can")
        self.expander = Expander(run.program, frozenset(into), depth, held)
        if loose := e.free & self.card.loop_letters:
            raise VieteError(f"give the block {sorted(loose)[0]} a number to expand {show(e)}")
        self.formula, self.rows = self.by_row(self.expander.normal(e))
        self.families = self.expander.families(self.formula)
        self.contraction = Contraction(run.arrays)

    def by_row(self, e: Expr) -> tuple[Expr, tuple[Letter, ...]]:
        """A matrix as one row of it, by a letter; what has no rows stays."""
        lines = self.expander.lines
        if lines.rank(e) < 2:
            return e, ()
        name = fresh(self.card.names | e.free, "jpqs")
        count = int(lines.shape(e)[0].evaluate(self.run.sizes))
        return self.expander.rows.row(e, Place(Idx(name))), (Letter(name, name, 0, count),)

    # -- values ------------------------------------------------------------------------------------

    def env(self, letters: Sequence[Letter] = ()) -> Env[Value]:
        """The names in force, with letters that are axes."""
        env: Env[Value] = self.run.arrays.env
        index = {**env.index, **{x.name: x for x in (*self.rows, *letters)}}
        return replace(env, index=index)

    def letters(self, family: Family) -> list[Letter]:
        """The letters of a family, as axes."""
        index, out = self.run.arrays.env.index, list[Letter]()
        for name, values in family.letters:
            if isinstance(values, str):
                of = index[values]
                out.append(Letter(name, name, of.first, of.count))
            else:
                out.append(Letter(name, name, 0, int(values.evaluate(self.run.sizes))))
        return out

    def array(self, family: Family) -> Array:
        """The values of a family: an axis for each letter, then those of the whole."""
        letters = self.letters(family)
        v = self.contraction.value(family.formula, self.env(letters))
        names = [x.label for x in letters]
        return self.laid_out(v, names, [x.count for x in letters])

    def laid_out(self, v: Value, names: list[str], counts: list[int]) -> Array:
        """A value with axes in order, as an array of what one asks for in Python."""
        xp, array = self.run.arrays.xp, self.run.arrays.array(v)
        whole = self.axes_of_whole
        array = expand(xp, array, v.axes, (*names, *whole))
        shape = (*counts, *array.shape[len(names) :])
        return xp.broadcast_to(array, shape) if tuple(array.shape) != shape else array

    @cached_property
    def whole(self) -> Value:
        """The value of the expression, by itself."""
        with np.errstate(all="ignore"):
            return self.run.arrays.of(self.formula, self.env())

    @cached_property
    def axes_of_whole(self) -> tuple[str, ...]:
        axes = self.whole.axes
        rest = [a for a in axes if a not in ("batch", ROW, COL)]
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
        owner = np.concatenate([np.full(s.size, k) for k, s in enumerate(self.sizes)] or [[]])
        place = np.concatenate([np.arange(s.size) for s in self.sizes] or [[]])
        sizes = np.concatenate([s.reshape(-1) for s in self.sizes] or [[]])
        alone = np.isin(owner, [k for k, f in enumerate(self.families) if f.kind in (
            CONSTANT, UNOPENED)])  # fmt: skip
        order = np.argsort(-sizes, kind="stable")
        order = order[~alone[order]]
        count = len(order) if self.top is None else min(self.top, len(order))
        count = min(count, int((sizes[order] >= self.least).sum()))
        pairs = [(int(owner[x]), int(place[x])) for x in order]
        return pairs[:count], pairs[count:]

    def term(self, k: int, flat: int) -> Term:
        """One term of a family."""
        place = tuple(int(x) for x in np.unravel_index(flat, self.sizes[k].shape))
        return Term(self, self.families[k], place, self.arrays[k][place],
                    float(self.sizes[k][place]))  # fmt: skip

    @cached_property
    def terms(self) -> list[Term]:
        """The terms that are listed, the largest first."""
        return [self.term(*x) for x in self.listed[0]]

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.listed[0])

    def __getitem__(self, k: int) -> Term:
        return self.terms[k]

    def of_kind(self, kind: str) -> list[Term]:
        """The terms that are constants, or that could not be opened."""
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
        found = self.listed[1]
        total = sum(self.arrays[k][np.unravel_index(j, self.sizes[k].shape)] for k, j in found)
        mass = float(sum(self.sizes[k].reshape(-1)[j] for k, j in found))
        return Hidden(len(found), total if found else 0.0 * self.total, mass)

    @cached_property
    def held(self) -> tuple[str, ...]:
        """What was taken as given, though it depends on the text."""
        return self.expander.held_in(self.families)

    # -- as text -----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<{show(self.formula, 'unicode')} in {len(self)} terms>"


@dataclass(frozen=True)
class Hidden:
    """Terms that are not listed: how many, their sum, and the sum of their sizes."""

    count: int
    value: Any
    mass: float


def floats(array: Array) -> Any:
    """An array of any library, or a number, as NumPy's floats."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    a = np.asarray(array)
    return a if a.dtype.kind == "f" else a.astype(np.float64)


def shown(value: Any) -> str:
    """A number, or what kind of array it is."""
    a = floats(value)
    return f"{float(a):+.4g}" if a.ndim == 0 else f"array of {' × '.join(map(str, a.shape))}"


__all__ = ["Expansion", "Hidden", "Term", "expanded", "words"]
