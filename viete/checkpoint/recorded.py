"""A card against values that were recorded from the model itself.

Every equation is judged by itself: it is computed from the recorded values where there are any, so
that an error is found where it is made and not again in all that follows. For an equation that
differs, small changes to it are tried (another function, a bias or norm that the file has and the
card does not, a transposed square matrix, a mask, an ε), and those that make it agree are told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, combinations, permutations, product
from typing import Any

import numpy as np

from viete.algebra.model import Equation, Function, Model
from viete.algebra.shapes import Mismatch, Shapes
from viete.checkpoint.files import TensorFile
from viete.checkpoint.suggest import Family
from viete.errors import VieteError
from viete.interpret.labelled import COL, ROW, Value
from viete.interpret.run import Run, execute
from viete.interpret.schedule import Member, Program, Step, program
from viete.notation.expr import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slice,
    Slot,
    Symbol,
    transform,
    walk,
)
from viete.notation.parser import parse
from viete.notation.printer import show, show_symbol

Array = Any
# Of the largest recorded number: some hundred roundings of the type.
TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 5e-3, "bfloat16": 4e-2}
MASKED = -1e4  # below this a recorded score stands for −∞
EPSILONS = ("1e-5", "1e-6", "1e-8", "1e-12", "0")
MOST_CHANGES = 4
SECONDS = 6.0  # of searching for what one difference may come from


@dataclass(frozen=True)
class Difference:
    """A recorded value that the card does not reproduce.

    ``number`` counts the card's equations from 1. ``where`` gives the place of the largest
    difference by axis (letters from their first value, rows and columns from 0); ``relative`` is to
    the largest recorded number. ``fits`` are changes of the card that reproduce it, each with the
    equation as it then reads.
    """

    name: str
    number: int
    equation: str
    absolute: float
    relative: float
    tolerance: float
    where: Mapping[str, int]
    recorded: float
    computed: float
    fits: tuple[tuple[str, str], ...] = ()
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None


@dataclass(frozen=True)
class Recorded:
    """Which values agree, the differences in the order of the equations, and what was left out."""

    agree: tuple[str, ...]
    differences: tuple[Difference, ...]
    skipped: Mapping[str, str]

    @property
    def ok(self) -> bool:
        return bool(self.agree) and not self.differences  # nothing compared is no agreement


def check_recorded(
    model: Model, weights: Mapping[str, Array], outputs: TensorFile,
    inputs: Mapping[str, Array] | None = None, extra: Mapping[Family, list[Array]] | None = None,
) -> Recorded:  # fmt: skip
    """Run a card and compare what was recorded, in the order of the equations.

    ``weights`` may lack some; what needs those is skipped. ``extra`` are the file's tensors that
    the card does not have, by family. Raises VieteError where the inputs are missing.
    """
    ready = program(model)
    names, skipped = _members(ready, outputs)
    given = _inputs(model, outputs, dict(inputs or {}))
    wide = {n: np.asarray(w, np.float64) for n, w in weights.items() if w.dtype.kind != "c"}
    run = execute(ready, given, wide, names=[])
    trial = Trial(run, ready, extra or {})
    last = {step.makes: k for k, step in enumerate(ready.steps)}
    agree, differences = list[str](), list[Difference]()
    since: list[Step] = []  # the steps whose results are the card's own
    for k, step in enumerate(ready.steps):
        if lacking := [m for m in step.needs if m not in run.store]:
            if step.makes in names:
                skipped[names[step.makes]] = f"it needs {run.lacking(lacking[0])}"
                recorded = _recorded(outputs, names[step.makes])
                value = _like_left(run, step, recorded)
                if value is not None:
                    run.store[step.makes] = value
            continue
        run.store[step.makes] = trial.value(step)
        if step.makes not in names or last[step.makes] != k:
            since.append(step)
            continue
        name = names[step.makes]
        recorded = _recorded(outputs, name)
        found = _compare(run, step, run.store[step.makes], recorded, outputs.infos[name].dtype)
        if isinstance(found, Difference):
            if found.shapes is None:
                fits, changed = trial.search(step, since, recorded, found.tolerance)
                if changed is not None:
                    run.store = changed
                found = replace(found, fits=fits)
            differences.append(replace(found, name=name))
        else:
            agree.append(name)
        if not (isinstance(found, Difference) and found.shapes):
            run.store[step.makes] = _aligned(run, step, run.store[step.makes], recorded)
    return Recorded(tuple(agree), tuple(differences), skipped)


def _members(ready: Program, outputs: TensorFile) -> tuple[dict[Member, str], dict[str, str]]:
    """The recorded values by what they are, and why the others are none."""
    names: dict[Member, str] = {}
    inputs = {i.name for i in ready.model.inputs}
    skipped = {n: f"it is {what}" for n, what in outputs.refused.items()}
    made = {step.makes for step in ready.steps}
    for name, info in outputs.infos.items():
        if info.dtype.startswith("complex"):
            skipped[name] = "it is complex"
            continue
        try:
            e = parse(name, ready.model.scope)
            member = (e.key, ready.places(e, {})) if isinstance(e, Ref) else None
        except VieteError:
            if name != "tokens":
                skipped[name] = "it is no value of the card"
            continue
        whole = isinstance(e, Ref) and all(
            i == Idx(s) for s, i in zip(e.symbol.slots, e.index, strict=True)
            if s not in ready.model.loop_letters
        )  # fmt: skip
        if member in made and whole and member not in names:
            names[member] = name
        elif member is None or member[0] not in inputs:
            skipped[name] = "it is no whole value that an equation gives, or it is there twice"
    return names, skipped


def _inputs(model: Model, outputs: TensorFile, given: dict[str, Array]) -> dict[str, Array]:
    """The inputs that were given, and else those that were recorded beside the values."""
    for k, item in enumerate(model.inputs):
        if item.name in given:
            continue
        for name in outputs.infos:
            try:
                e: Expr | None = parse(name, model.scope)
            except VieteError:
                e = None
            if (isinstance(e, Ref) and e.key == item.name) or (k == 0 and name == "tokens"):
                array = outputs.load(name)
                if item.high is not None and array.dtype.kind == "f" and (array % 1 == 0).all():
                    array = array.astype(np.int64)
                given[item.name] = array
                break
    if model.inputs and model.inputs[0].name not in given:
        name = model.inputs[0].name
        raise VieteError(
            f"{outputs.path}: for which input were these values recorded? Give it (--tokens 3,1,4) "
            f"or add it to the file, as an array named '{name}' or 'tokens'"
        )
    return given


def _recorded(outputs: TensorFile, name: str) -> Array:
    array = outputs.load(name)
    return array if array.dtype.kind in "iub" else array.astype(np.float64)


# -- comparing -------------------------------------------------------------------------------------


def _order(run: Run, step: Step, v: Value) -> tuple[str, ...]:
    """A value's axes in the order of an array: batch, letters, rows, columns."""
    first = ("batch", *step.equation.left.symbol.slots)
    lead = [a for a in first if a in v.axes]
    rest = [a for a in v.axes if a not in (*lead, ROW, COL)]
    return (*lead, *rest, *(a for a in (ROW, COL) if a in v.axes))


def _fitted(shape: tuple[int, ...], recorded: Array) -> Array | None:
    """The recorded array, with a batch axis of one where the card's own value has it."""
    if shape == (1, *recorded.shape):
        return recorded[None]
    while recorded.ndim > len(shape) and recorded.shape[0] == 1:
        recorded = recorded[0]
    return recorded if recorded.shape == shape else None


def _compare(run: Run, step: Step, value: Value, recorded: Array, dtype: str) -> Difference | None:
    """None where they agree."""
    number = next(k for k, e in enumerate(run.program.model.equations, 1) if e is step.equation)
    shown = f"{show(step.equation.left)} = {show(step.equation.right)}"
    computed = np.asarray(run.ordered(value, step.equation.left.symbol.slots))
    there = _fitted(computed.shape, recorded)
    tolerance = TOLERANCE.get(dtype, 0.0)
    blank = Difference("", number, shown, np.inf, np.inf, tolerance, {}, np.nan, np.nan)
    if there is None:
        return replace(blank, shapes=(recorded.shape, computed.shape))
    distance, scale = _distance(computed, there)
    if not distance.size or distance.max() <= tolerance * scale:
        return None
    at = np.unravel_index(int(distance.argmax()), distance.shape)
    letters = [s for s in _order(run, step, value)]
    first = {s: run.program.range_of(s)[0] for s in letters if s not in ("batch", ROW, COL)}
    return replace(
        blank, absolute=float(distance[at]), relative=float(distance[at] / (scale or 1.0)),
        where={s: int(k) + first.get(s, 0) for s, k in zip(letters, at, strict=True)},
        recorded=float(there[at]), computed=float(computed[at]),
    )  # fmt: skip


def _distance(computed: Array, recorded: Array) -> tuple[Array, float]:
    """|computed − recorded|, and the largest recorded number; hidden scores are all alike."""
    a, b = np.asarray(computed, np.float64), np.asarray(recorded, np.float64)
    hidden = np.isneginf(a) & (b <= MASKED)
    with np.errstate(invalid="ignore"):
        distance = np.where(hidden | (a == b), 0.0, np.abs(a - b))
    seen = np.abs(b[np.isfinite(b) & ~hidden])
    return np.where(np.isnan(distance), np.inf, distance), float(seen.max()) if seen.size else 0.0


def _aligned(run: Run, step: Step, like: Value, recorded: Array) -> Value:
    """The recorded array as the value of its equation."""
    order = _order(run, step, like)
    computed = np.asarray(run.ordered(like, step.equation.left.symbol.slots))
    there = _fitted(computed.shape, recorded)
    assert there is not None
    there = np.where(np.isneginf(computed) & (there <= MASKED), -np.inf, there)
    return Value(there.astype(computed.dtype, copy=False), order)


def _like_left(run: Run, step: Step, recorded: Array) -> Value | None:
    """The recorded array as a value that the card cannot compute: by its type alone."""
    t = Shapes(run.program.model).types[step.equation.name]
    letters = [s for s in step.equation.left.symbol.slots if s in t.family]
    axes = (*letters, *(ROW, COL)[2 - len(t.shape) :])
    while recorded.ndim > len(axes) and recorded.shape[0] == 1:
        recorded = recorded[0]
    axes = ("batch", *axes) if recorded.ndim == len(axes) + 1 else axes
    return Value(recorded, axes) if recorded.ndim == len(axes) else None


# -- what may be otherwise -------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """One change of one equation, at the node that carries the mark ``site``."""

    equation: int
    site: tuple[int, int]
    says: str
    make: Callable[[Expr], Expr]
    uses: frozenset[str] = frozenset()
    small: bool = True  # worth combining with others


class Trial:
    """Evaluates equations, also changed ones, over the values of one run."""

    def __init__(self, run: Run, ready: Program, extra: Mapping[Family, list[Array]]) -> None:
        self.run, self.ready, self.model = run, ready, ready.model
        self.right: dict[int, Expr] = {}  # equations that are computed in a changed form
        self.given_up: set[int] = set()  # equations for which no change was found
        self.labels: dict[str, str] = {}  # how a family of tensors is written → how it is shown
        self.shapes = Shapes(self.model)
        self.extra = [x for family, arrays in extra.items() for x in self.given(family, arrays)]

    def value(self, step: Step) -> Value:
        """An equation's value at one turn of its loop."""
        env = self.run.arrays.env
        if step.loops:
            env = replace(env, index={**env.index, **step.loops})
        right = self.right.get(id(step.equation), step.equation.right)
        value = self.run.full(self.run.arrays.of(right, env), step.equation)
        return replace(value, fresh=False)

    def given(self, family: Family, arrays: list[Array]) -> Iterator[tuple[Ref, tuple[int, ...]]]:
        """The file's tensors as names that a formula can use: one, or one for each block."""
        if len(family.shape) > 2:
            return
        label = family.name() if len(arrays) > 1 else family.names[0]
        axes = (ROW, COL)[2 - len(family.shape) :]
        for loop in self.model.loops:
            turns = self.ready.range_of(loop.index)
            if len(turns) == len(arrays) > 1:
                symbol = Symbol("parameter", label, (), (Slot(loop.index, True),))
                self.labels[show_symbol(symbol)] = _with_index(family, turns, loop.index)
                for i, array in zip(turns, arrays, strict=True):
                    self.run.store[symbol.key, (i,)] = Value(np.asarray(array, np.float64), axes)
                yield Ref(symbol, (Idx(loop.index),)), family.shape
                return
        for name, array in zip(family.names, arrays, strict=True):
            symbol = Symbol("parameter", name)
            self.run.store[name, ()] = Value(np.asarray(array, np.float64), axes)
            yield Ref(symbol), family.shape

    def search(
        self, step: Step, since: Sequence[Step], recorded: Array, tolerance: float
    ) -> tuple[tuple[tuple[str, str], ...], dict[Member, Value] | None]:
        """The fewest changes that reproduce a recorded value; the values under the best of them.

        Any equation may be changed whose result reached this one without being recorded itself.
        """
        if id(step.equation) in self.given_up:
            return (), None
        steps = self.behind(step, since)
        equations = list({id(s.equation): s.equation for s in steps}.values())
        equations.sort(key=lambda e: e is not step.equation)
        marked = [_mark(self.right.get(id(e), e.right)) for e in equations]
        changes = [c for k, e in enumerate(marked) for c in self.changes(k, e, equations[k])]
        base, kept, end = self.run.store, dict(self.right), time.monotonic() + SECONDS
        fits: list[tuple[float, str, str, dict[Member, Value], dict[int, Expr]]] = []
        for count in range(1, MOST_CHANGES + 1):
            for chosen in _together(changes, count):
                if time.monotonic() > end:
                    break
                changed = _apply(marked, chosen)
                self.right = kept | {id(equations[k]): e for k, e in changed.items()}
                self.run.store = dict(base)
                error = self.error(steps, step, recorded)
                if error <= tolerance:
                    said = " and ".join(c.says for c in chosen)
                    reads = "; ".join(
                        f"{show(equations[k].left)} = {show(e)}" for k, e in changed.items()
                    )
                    fits.append((error, said, reads, self.run.store, dict(self.right)))
            if fits:
                break
        self.run.store, self.right = base, kept
        if not fits:
            self.given_up.add(id(step.equation))
            return (), None
        fits.sort(key=lambda f: f[0])
        best = [f for f in fits if f[0] <= max(10 * fits[0][0], 1e-3 * tolerance)][:4]
        if len(best) == 1:  # what follows is computed with it, so that it is tested there too
            self.right = best[0][4]
        shown = [(self.shown(said), self.shown(reads)) for _, said, reads, _, _ in best]
        return tuple(shown), best[0][3]

    def shown(self, text: str) -> str:
        for written, label in self.labels.items():
            text = text.replace(written, label)
        return text

    def behind(self, step: Step, since: Sequence[Step]) -> list[Step]:
        """The steps whose results go into ``step``, and itself last."""
        needed, out = set(step.needs), [step]
        for earlier in reversed(since):
            if earlier.makes in needed:
                needed |= earlier.needs
                out.append(earlier)
        return out[::-1]

    def error(self, steps: Sequence[Step], last: Step, recorded: Array) -> float:
        """The largest difference, relative to the largest recorded number."""
        try:
            with np.errstate(all="ignore"):  # a wrong change may well overflow
                for step in steps:
                    self.run.store[step.makes] = self.value(step)
            value = self.run.store[last.makes]
            computed = np.asarray(self.run.ordered(value, last.equation.left.symbol.slots))
        except (VieteError, ValueError, KeyError, IndexError, TypeError):
            return np.inf  # the change does not fit the shapes here
        there = _fitted(computed.shape, recorded)
        if there is None or not there.size:
            return np.inf
        distance, scale = _distance(computed, there)
        return float(distance.max() / (scale or 1.0))

    # -- the changes -------------------------------------------------------------------------------

    def changes(self, k: int, right: Expr, equation: Equation) -> Iterator[Change]:
        """What may be otherwise in one equation, whose nodes are marked."""
        functions = self.model.function
        for e in walk(right):
            site = e.at or (0, 0)
            match e:
                case Apply(op, args) if op in functions or op == "tanh":
                    yield from self.other_functions(k, site, e)
                    if op in functions:
                        yield from self.other_epsilons(k, site, e, functions[op])
                    if op == "softmax" and not _hides(args[0]):
                        hide = lambda x: replace(x, args=(Apply("causal", x.args),))  # noqa: E731
                        yield Change(k, site, "the scores are causal", hide)
                case Apply("prod", (a, b)) if isinstance(b, Ref) and b.symbol.kind == "parameter":
                    yield from self.added(k, site, e, f"{show(_plain(e))}")
                    if isinstance(a, Ref) and a.symbol.kind == "value":
                        yield from self.normed(k, a.at or (0, 0), a)
                case Bind("sum"):
                    yield from self.added(k, site, e, show(_plain(e)))
                case Apply("div" | "times", (a, b)) if (t := self.type(b)) is not None and not t:
                    sign = "/" if e.op == "div" else "*"
                    yield Change(k, site, f"without {sign} {show(_plain(b))}", lambda x: x.args[0])  # type: ignore[attr-defined]
                case Ref() if e.symbol.kind == "parameter":
                    t = self.type(e)
                    if t is not None and len(t) == 2 and t[0] == t[1]:
                        turn = lambda x: Apply("T", (x,))  # noqa: E731
                        yield Change(k, site, f"{show(_plain(e))} is transposed", turn)
        if right.at is not None:
            root = right
            yield from self.normed(k, right.at, root)
            if not (isinstance(root, Apply) and root.op == "prod"):
                yield from self.added(k, right.at, root, "the right side")

    def type(self, e: Expr) -> tuple[int, ...] | None:
        """The shape of a sub-expression here, in numbers."""
        try:
            shape = self.shapes.of(_plain(e)).shape
            return tuple(int(s.evaluate(self.run.sizes)) for s in shape)
        except (Mismatch, VieteError, KeyError, ZeroDivisionError):
            return None

    def other_functions(self, k: int, site: tuple[int, int], e: Apply) -> Iterator[Change]:
        """Every other function of the same signature, and none at all."""
        table = self.model.function
        one = [(0, False)]
        forms = {n: [(len(a.pattern), a.default is not None) for a in f.arguments]
                 for n, f in table.items()}  # fmt: skip
        form = one if e.op == "tanh" else forms[e.op]
        others = [n for n, other in forms.items() if other == form]
        for name in (*others, *(["tanh"] if form == one else [])):
            if name != e.op:
                swap = lambda x, name=name: replace(x, op=name)  # noqa: E731
                yield Change(k, site, f"{e.op} is {name}", swap)
        if len(e.args) == 1:
            yield Change(k, site, f"without {e.op}", lambda x: x.args[0])  # type: ignore[attr-defined]

    def other_epsilons(
        self, k: int, site: tuple[int, int], e: Apply, f: Function
    ) -> Iterator[Change]:
        place = next((j for j, a in enumerate(f.arguments) if a.symbol.key == "epsilon"), None)
        if place is None:
            return
        for text in EPSILONS:
            args = list(e.args[:place])
            if any(a.default is None for a in f.arguments[len(args) : place]):
                return
            args += [a.default for a in f.arguments[len(args) : place] if a.default is not None]
            value = Num(Fraction(text))

            def set_it(x: Expr, rest: tuple[Expr, ...] = tuple(args[len(e.args) :]),
                       value: Num = value) -> Expr:  # fmt: skip
                assert isinstance(x, Apply)
                return replace(x, args=(*x.args[:place], *rest, value), semi=x.semi or 1)

            if e.args[place:] != (value,):
                yield Change(k, site, f"{e.op} has ε = {text}", set_it, small=False)

    def added(self, k: int, site: tuple[int, int], e: Expr, what: str) -> Iterator[Change]:
        """A vector of the file along the rows, or the first rows of a matrix (positions)."""
        t = self.type(e)
        for ref, shape in self.extra if t else ():
            term: Expr = ref
            if len(shape) == 2 and len(t or ()) == 2 and shape[0] >= t[0]:  # type: ignore[index]
                term = Pick(ref, (Slice(None, Num(Fraction(t[0]))),))  # type: ignore[index]
                shape = (t[0], shape[1])  # type: ignore[index]
            if t is not None and shape == t[len(t) - len(shape) :]:
                add = lambda x, term=term: Apply("add", (x, term))  # noqa: E731
                says = f"{show(term)} is added to {what}"
                yield Change(k, site, says, add, frozenset((ref.key,)))

    def normed(self, k: int, site: tuple[int, int], e: Expr) -> Iterator[Change]:
        """A norm around a value, with one or two vectors of the file that the card lacks."""
        t = self.type(e)
        if not t:
            return
        fits = [ref for ref, shape in self.extra if shape == t[-1:]]
        for op, count in (("LN", 2), ("LN", 1), ("RMSNorm", 1)):
            f = self.model.function[op]
            for refs in permutations(fits, count):
                for text in ("1e-5", "1e-6", "0"):
                    fill = [a.default for a in f.arguments[1 + count : -1] if a.default is not None]
                    rest = (*refs, *fill, Num(Fraction(text)))
                    what = show(_plain(e)) if e.at != (1, 1) else "the right side"
                    says = f"{what} goes through {op}(…; {', '.join(map(show, rest))})"
                    wrap = lambda x, op=op, rest=rest: Apply(op, (x, *rest), semi=1)  # noqa: E731
                    uses = frozenset(r.key for r in refs)
                    yield Change(k, site, says, wrap, uses, small=False)


def _with_index(family: Family, turns: range, letter: str) -> str:
    """``h.{i-1}.bias`` for a family of one tensor a block."""
    holes = [
        f"{letter}{r[0] - turns[0]:+d}" if r[0] != turns[0] else letter for r in family.numbers
    ]
    plain = [str(r[0]) for r in family.numbers]
    return "".join(
        a + (f"{{{hole}}}" if len(r) > 1 else one) for a, hole, one, r in
        zip(family.pieces, holes, plain, family.numbers, strict=False)
    ) + family.pieces[-1]  # fmt: skip


def _hides(e: Expr) -> bool:
    return isinstance(e, Apply) and e.op in ("causal", "window", "visible")


def _mark(e: Expr) -> Expr:
    """The expression with a mark of its own on every node, in place of where it was written."""
    count = [1]

    def mark(x: Expr) -> Expr:
        count[0] += 1
        return replace(x, at=(count[0], count[0]))

    return replace(transform(e, mark), at=(1, 1))


def _plain(e: Expr) -> Expr:
    return transform(e, lambda x: replace(x, at=None))


def _together(changes: Sequence[Change], count: int) -> Iterator[tuple[Change, ...]]:
    """Sets of changes at different places that use different tensors."""
    if count == 1:
        yield from ((c,) for c in changes)
        return
    small = [c for c in changes if c.small]
    sets: Iterator[tuple[Change, ...]] = combinations(small, count)
    if count == 2:
        sets = chain(sets, product(small, (c for c in changes if not c.small)))
    for chosen in sets:
        used = [name for c in chosen for name in c.uses]
        places = {(c.equation, c.site) for c in chosen}
        if len(places) == count and len(set(used)) == len(used):
            yield chosen


def _apply(marked: Sequence[Expr], chosen: Sequence[Change]) -> dict[int, Expr]:
    """The changed equations, by their number among ``marked``."""
    out = {}
    for k in dict.fromkeys(c.equation for c in chosen):
        here = {c.site: c.make for c in chosen if c.equation == k}

        def rule(x: Expr, here: Mapping[Any, Callable[[Expr], Expr]] = here) -> Expr | None:
            return here[x.at](x) if x.at in here else None

        out[k] = transform(marked[k], rule)
    return out


__all__ = ["Difference", "Recorded", "check_recorded"]
