"""A run: every named value, and any expression of them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np

from viete.analysis.conventions import Convention, understood
from viete.analysis.sparsity import sparse_sums
from viete.analysis.types import Places
from viete.errors import ConventionWarning, Text, VieteError
from viete.evaluate.answers import Answer
from viete.evaluate.array import Arrays
from viete.evaluate.contraction import Contraction
from viete.evaluate.derivatives import derivatives, differentiates
from viete.evaluate.fast import FastArrays
from viete.evaluate.interventions import Intervention, as_like
from viete.evaluate.labelled import (
    BATCH,
    COL,
    ROW,
    Array,
    Value,
    expand,
    in_order,
    permute,
)
from viete.evaluate.labels import axis_labels, word_printer
from viete.evaluate.origins import Origin
from viete.evaluate.queries import Query, Turn, query
from viete.evaluate.schedule import Member, Program, Step
from viete.evaluate.sparse import sparse_value
from viete.graph.card import Equation
from viete.graph.dependence import reachable
from viete.graph.evaluator import Env, Letter
from viete.notation.letters import own_letters
from viete.notation.lexer import decimals
from viete.notation.parser import parse
from viete.notation.printer import show, show_symbol
from viete.notation.substitution import Abstraction
from viete.notation.symbols import TEXTS, Scope
from viete.notation.tree import Apply, Expr, Idx, Ref, Symbol, refs, walk


def warn(conventions: Iterable[Convention]) -> None:
    """Emit a `ConventionWarning` at the caller's line for each part not read as it is written."""
    for convention in conventions:
        if convention.chosen:
            frame, level = sys._getframe(), 1
            while frame.f_back and frame.f_globals.get("__name__", "").startswith("viete."):
                frame, level = frame.f_back, level + 1
            warnings.warn(convention.sentence, ConventionWarning, stacklevel=level)


def listed(names: Sequence[str]) -> tuple[str, ...]:
    """The names asked of a run, as a tuple. Raises VieteError unless they are a list of strings."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise VieteError(f"names must be a list of names or formulas, not {names!r:.60}")
    return tuple(names)


class Run(Mapping[str, Array]):
    """Every named value of one run; any expression of the notation is a key.

    ``run["S"]``, ``run["x^3"]``, ``run["x^3_5"]`` (position 5), ``run["A^{2,h}"]`` (all heads),
    ``run["A^{2,1}"]`` (one head), ``run["Q K^T / sqrt(d_k)"]``. Axes come in the order batch, index
    letters, rows, columns. In a batch, every sequence has separate derivatives (``run["∂W"]``); any
    other value that no input changes has no batch axis. Raises VieteError for a name the card does
    not have.
    """

    meaning: type[Arrays] = FastArrays

    def __init__(
        self, program: Program, store: dict[Member, Value], like: Array,
        sizes: Mapping[str, Fraction], quick: bool,
        put: Mapping[Member, Intervention] | None = None,
    ) -> None:  # fmt: skip
        self.program, self.store, self.sizes = program, store, dict(sizes)
        self.wanted: set[Member] | None = None
        self.origins: Mapping[str, Origin] = {}  # of values looked up in another run
        self.metric: Mapping[str, Expr] = {}  # by value, the number that its ∂ differentiates
        self.interventions = put or {}
        self.missing: dict[Member, str] = {}  # values not computed, with what they lack
        self.arrays = self.meaning(program.model, sizes, like, self.lookup, quick, program.memo)
        self.derived = {e.name: e for e in program.model.derived}
        replaced = {key for key, _ in self.interventions}
        sparse = sparse_sums(program.model) if quick and self.meaning.sparse else {}
        self.sparse = {
            k: s for k, s in sparse.items() if replaced.isdisjoint(e.name for e in s.inside)
        }
        self.inside = {e.name: e for s in self.sparse.values() for e in s.inside}
        self.derived |= self.inside

    def __reduce__(self) -> Any:
        """A copy has the values and the changes; a function among these must be copyable itself."""
        arrays, own = self.arrays, (self.wanted, self.origins, self.metric, self.missing)
        return again, (type(self), self.program, self.store, arrays.like, self.sizes, arrays.fast,
                       self.interventions, own)  # fmt: skip

    def compute(self, names: Sequence[str] | None) -> None:
        """Run the schedule, and keep all values, or only those that ``names`` need."""
        if names is None:
            return self.compute_members(None)
        self.compute_members({m for name in listed(names) for m in self.members(name)})

    def compute_members(self, keep: set[Member] | None) -> None:
        """As `compute`, by members; values computed before are kept."""
        steps, self.missing = self.runnable()
        steps = self.without_inside(steps)
        if keep is not None:
            there = {s.makes for s in steps} | self.missing.keys() | self.store.keys()
            if beyond := sorted(keep - there):
                given = "" if beyond[0][1] else ": it was not given"
                raise VieteError(f"there is no {self.lacking(beyond[0])}{given}")
            if lacking := keep & self.missing.keys():
                what, why = next((m, self.missing[m]) for m in lacking)
                raise VieteError(f"{self.symbol_text(what[0])} needs {why}, which was not given")
            needed, chosen = set(keep), []
            for step in reversed(steps):
                if step.makes in needed and step.makes not in self.store:
                    needed |= step.needs
                    chosen.append(step)
            steps = chosen[::-1]
            self.wanted = keep | (self.wanted or set())
            self.ask_origins(needed)
            keep = keep | self.store.keys()
        with np.errstate(all="ignore"):  # 0/0 is nan, as arrays have it, and says nothing
            self.perform(steps, keep)

    def perform(self, steps: list[Step], keep: set[Member] | None) -> None:
        """Compute the values of steps; those not in ``keep`` are dropped after their last use."""
        last = {m: k for k, step in enumerate(steps) for m in (*step.needs, step.makes)}
        for k, step in enumerate(steps):
            self.store[step.makes] = self.value(step).frozen()
            if keep is not None:
                for m in (*step.needs, step.makes):
                    if last[m] == k and m not in keep and m[0] in self.program.computed:
                        self.store.pop(m, None)

    def supply(self, wanted: Set[Member]) -> None:
        """Compute the missing ones of these values, in one pass, and keep them."""
        self.ask_origins(wanted)
        lacking = {m for m in wanted if m not in self.store and m[0] not in self.origins}
        if lacking:
            self.compute_members(lacking)

    def ask_origins(self, wanted: Iterable[Member]) -> None:
        """`supply` the values that come from other runs."""
        runs: dict[int, tuple[Run, set[Member]]] = {}
        for key, loops in wanted:
            if (origin := self.origins.get(key)) is not None:
                _, own = runs.setdefault(id(origin.run), (origin.run, set()))
                own.add((origin.key, loops))
        for run, own in runs.values():
            run.supply(run.made_of(own))

    def extended(
        self, ready: Program, sizes: Mapping[str, Fraction], store: dict[Member, Value],
        origins: Mapping[str, Origin],
    ) -> Self:  # fmt: skip
        """A run of another card in the same arithmetic, whose values come from other runs."""
        out = type(self)(ready, store, self.arrays.like, sizes, self.arrays.fast)
        out.origins, out.wanted = origins, set()
        own = self.scope  # tokens are those of this run's model
        out.scope = replace(ready.scope, words=own.words, text=own.text, vector=own.vector,
                            spelled=own.spelled, second=own.second)  # fmt: skip
        return out

    def with_changes(
        self, ready: Program, store: dict[Member, Value], put: Mapping[Member, Intervention]
    ) -> Self:
        """A run in the same arithmetic with some values replaced.

        ``store`` holds all unchanged values that its values are computed from.
        """
        out = type(self)(ready, store, self.arrays.like, self.sizes, self.arrays.fast, put)
        out.wanted, out.scope = set(), self.scope
        return out

    def without_inside(self, steps: list[Step]) -> list[Step]:
        """Steps without those inside sparse sums, whose needs pass to the remaining steps."""
        made = {s.makes: s for s in steps if s.makes[0] in self.inside}
        out = []
        for step in steps:
            if step.makes not in made:
                needs = step.needs
                while within := needs & made.keys():
                    needs = (needs - within).union(*(made[m].needs for m in within))
                out.append(step if needs == step.needs else replace(step, needs=needs))
        return out

    def value(self, step: Step) -> Value:
        """The value of one equation at one turn of its loop, or its replacement (`evaluated`)."""
        value = self.evaluated(step)
        instead = self.interventions.get(step.makes)
        if instead is None:
            return value
        made = instead(value, self.batch)
        what = f"what takes the place of {step.equation.name}"
        return replace(made, array=self.taken(made.array, value.array, what))

    def evaluated(self, step: Step) -> Value:
        """The value of one equation at one turn of its loop; errors get their place in the card."""
        env = self.arrays.env
        if step.loops:
            env = replace(env, index={**env.index, **step.loops})
        sparse = self.sparse.get(step.makes[0])
        try:
            found = None
            if sparse is not None and isinstance(self.arrays, FastArrays):
                found = sparse_value(self.arrays, sparse, env)
            value = self.arrays.of(step.equation.right, env) if found is None else found
            return self.full(value, step.equation)
        except VieteError as error:
            if error.where is None:
                raise step.equation.text.error(error.message) from None
            raise
        except MemoryError:
            raise step.equation.text.error("this needs more memory than the machine has") from None

    def taken(self, array: Any, like: Array, what: str) -> Array:
        """A replacement array in the arithmetic of this run."""
        return as_like(array, like, what)

    def store_piece(self, member: Member, v: Value, place: range, batch: int) -> None:
        """Store a value computed for some sequences of a batch."""
        if "batch" not in v.axes:
            self.store[member] = v
            return
        at = v.axes.index("batch")
        before = (slice(None),) * at
        if member not in self.store:
            shape = (*v.array.shape[:at], batch, *v.array.shape[at + 1 :])
            empty = self.arrays.xp.empty(shape, dtype=v.array.dtype, device=v.array.device)
            self.store[member] = Value(empty, v.axes)
        self.store[member].array[(*before, slice(place.start, place.stop))] = v.array

    def full(self, v: Value, equation: Equation) -> Value:
        """A value as a full array, with an axis for every letter of its family."""
        letters = self.program.model.heads_of(equation.left.symbol)
        it, interval = self.arrays, self.arrays.interval(v)
        if interval is not None and self.program.shapes.types[equation.name].whole is None:
            # It is whole here and real in another block, or a derivative.
            v = Value(it.reals(v), v.axes, False, v.fresh)
        if not v.axes or v.const or any(s not in v.axes for s in letters):
            array = it.array(v)
            missing = [s for s in letters if s not in v.axes]
            shape = tuple(len(self.program.range_of(s)) for s in missing)
            array = it.xp.broadcast_to(array, shape + tuple(array.shape)) if shape else array
            return Value(array, (*missing, *v.axes), False, False, v.interval)
        return v

    def runnable(self) -> tuple[list[Step], dict[Member, str]]:
        """The steps whose inputs and weights are given, and what the other values lack."""
        missing: dict[Member, str] = {}
        steps = []
        made = set(self.store)
        for step in self.program.steps:
            if step.makes[0] in self.origins:
                continue
            lacking = next((m for m in step.needs if m not in made and m[0] not in self.origins),
                           None)  # fmt: skip
            if lacking is None:
                steps.append(step)
                made.add(step.makes)
            elif step.makes not in made:
                missing[step.makes] = missing.get(lacking) or self.lacking(lacking)
        return steps, missing

    def lacking(self, member: Member) -> str:
        if any(i.name == member[0] for i in self.program.model.inputs):
            return f"the input {member[0]}"
        for name, (p, loops, _) in self.program.parameters.items():
            if (p.name, loops) == member:
                return f"the weight {name}"
        block = f" at block {', '.join(map(str, member[1]))}" if member[1] else ""
        return f"{self.symbol_text(member[0])}{block}"

    def symbol_text(self, key: str) -> str:
        """A value's name as a formula writes it: ``∂W_Q^{i,h}``."""
        symbol = self.program.model.symbols.get(key)
        return key if symbol is None else show_symbol(symbol)

    def members(self, name: str) -> set[Member]:
        return self.needed_by(self.parse(name), Text(name, "<name>"))

    def needed_by(self, e: Expr, source: Text | None = None) -> set[Member]:
        """The values that a question needs; ``source`` is its text."""
        about = query(self, e, source)
        return self.needs(about.formula, about.turns)

    def needs(self, e: Expr, turns: Iterable[Mapping[str, int]]) -> set[Member]:
        """The values that a formula needs in the given turns."""
        asked = [self.program.needed(e, loops) for loops in turns]
        return self.made_of(frozenset[Member]().union(*asked))

    def made_of(self, members: Set[Member]) -> set[Member]:
        """The members, with each derived name replaced by the values it is computed from."""

        def read(member: Member) -> frozenset[Member]:
            equation = self.derived.get(member[0])
            if equation is None or member[0] in self.origins:
                return frozenset()
            loops = self.program.loops_of(equation.left.symbol, member[1])
            return self.program.needed(equation.right, loops)

        found = reachable(frozenset(members), read)
        return {m for m in found if m[0] in self.origins or m[0] not in self.derived}

    @cached_property
    def scope(self) -> Scope:
        """The names and vocabulary words that a question may use."""
        return self.program.scope

    @cached_property
    def asked(self) -> dict[str, tuple[Expr, tuple[Convention, ...]]]:
        """Names and formulas parsed in this scope; the program keeps those of the card's scope."""
        return self.program.asked if self.scope is self.program.scope else {}

    def is_there(self, member: Member) -> bool:
        """Whether a value was given or computed, here or in the run it comes from."""
        if (origin := self.origins.get(member[0])) is not None:
            return origin.run.is_there((origin.key, member[1]))
        return member in self.store

    def is_made(self, key: str, loops: tuple[int, ...]) -> bool:
        """Whether a value exists, computed or not."""
        if (origin := self.origins.get(key)) is not None:
            return origin.run.is_made(origin.key, loops)
        return key in self.inside or (key, loops) in self.program.members_made

    def parse(self, name: str) -> Expr:
        if not isinstance(name, str):
            raise VieteError(f"ask for a value by its name or a formula, not by {name!r:.60}")
        return self.read(name)[0]

    def read(self, name: str) -> tuple[Expr, tuple[Convention, ...]]:
        """A question as it is meant, and the conventions by which it was read."""
        if name not in self.asked:
            text, ready = Text(name, "<name>"), self.program
            e = parse(text, self.scope.inside(own_letters(text, self.scope)))
            self.asked[name] = understood(ready.model, ready.shapes, text, e)
        return self.asked[name]

    def conventions(self, question: str) -> tuple[Convention, ...]:
        """The conventions by which parts of a question are read unlike the card writes them.

        Each has a ``sentence``; ``written`` is the part, ``meant`` what is computed, and ``chosen``
        says whether the part as written has another value. ``LN(x^6)`` is a norm of the card, with
        its parameters; ``W_{OV}^{1,1} x^1_2`` is ``x^1_2 W_{OV}^{1,1}``, since vectors are rows;
        attention of a row is that row of the attention of all rows. Raises VieteError as
        ``run[question]`` does, and for a norm that could be several.
        """
        self.parse(question)
        return self.read(question)[1]

    def resolved(self, name: str) -> tuple[Run, Expr]:
        """A question, and the run to evaluate it on: another one if it contains derivatives."""
        e = self.parse(name)
        return derivatives(self, Text(name, "<name>"), e) if differentiates(e) else (self, e)

    def lookup(self, key: str, loops: tuple[int, ...]) -> Value:
        if (origin := self.origins.get(key)) is not None:
            return origin.value(loops)
        found = self.store.get((key, loops))
        if found is not None:
            return found
        if key in self.derived:
            equation = self.derived[key]
            index = self.program.loops_of(equation.left.symbol, loops)
            env = self.arrays.env
            value = self.arrays.of(equation.right, replace(env, index={**env.index, **index}))
            return self.full(value, equation)
        place = f" at block {', '.join(map(str, loops))}" if loops else ""
        what = f"{self.symbol_text(key)}{place}"
        if loops and not any(s.makes == (key, loops) for s in self.program.steps):
            raise VieteError(f"there is no {what}")
        if (key, loops) in self.missing:
            raise VieteError(f"{what} needs {self.missing[key, loops]}, which was not given")
        raise VieteError(f"{what} was not computed")

    def __getitem__(self, name: str) -> Array:
        return self.ordered(*self.found(name))

    def axes(self, name: str) -> tuple[str, ...]:
        """The range of each axis of ``run[name]``: a batch, an index letter or a size.

        ``run.axes("A^{1,h}")`` is ``("batch", "h", "n", "n")``, for one text ``("h", "n", "n")``.
        Raises VieteError as ``run[name]`` does.
        """
        return self.answer(name).axes

    def labels(self, name: str) -> tuple[Sequence[str], ...]:
        """The names of the entries of each axis of ``run[name]``, axis by axis as in `axes`.

        ``run.labels("A^{2,h}")`` has ``1 = L1H0``, …, and then ``0 "I"``, ``1 " live"``, … twice:
        heads, also counted from 0, and positions with their tokens, where every text has the same
        token. An axis over the vocabulary has its words; blocks, and entries without a name, have
        numbers. Raises VieteError as ``run[name]`` does.
        """
        return self.answer(name).labels

    def in_words(self, question: str | Expr, style: str = "plain") -> str:
        """A question with tokens as words: ``<U[" Mary"], x_{-1}^6>``, which reads back.

        ``style`` is 'plain', 'latex', 'unicode', 'typst' or 'mathml'.
        """
        write = word_printer(self, style)
        if not isinstance(question, str):
            return write.show(question)
        write.decimals = decimals(question)
        return write.show(self.parse(question))

    def answer(self, name: str) -> Answer:
        """The array ``run[name]`` with its axes and their labels, evaluated once."""
        run, e = self.resolved(name)
        warn(self.read(name)[1])
        value, letters = run.answered(name, e)
        shape = query(run, e).type.shape if value.core else ()
        lead = (a for a in in_order(value, letters) if a not in (ROW, COL))
        axes = (*lead, *(str(size) for size in shape))
        array = run.ordered(value, letters)
        pairs = zip(axes, getattr(array, "shape", ()), strict=True)
        return Answer(name, array, axes, tuple(axis_labels(run, e, a, n) for a, n in pairs))

    def found(self, name: str) -> tuple[Value, tuple[str, ...]]:
        """A value or formula's value, and the index letters in the order of its axes."""
        if isinstance(name, str) and self.program.names.get(name) in self.store:
            symbol = self.symbol(name)
            v = self.store[self.program.names[name]]
            return self.for_each(v) if symbol.is_partial else v, symbol.slots
        run, e = self.resolved(name)
        warn(self.read(name)[1])
        return run.answered(name, e)

    def answered(self, name: str, e: Expr) -> tuple[Value, tuple[str, ...]]:
        """The value of a parsed question, and the order of its axes; see `found`."""
        about = query(self, e, Text(name, "<name>"))
        e = about.formula
        letters = tuple(dict.fromkeys(x.name for x in walk(e) if isinstance(x, Idx)))
        slots = e.symbol.slots if isinstance(e, Ref) else ()
        return self.evaluate(about), (*slots, *letters)

    def evaluate(self, about: Query) -> Value:
        """The value of a query, with an axis for each free letter."""
        e, own = about.formula, self.axis_letters(about.places)
        index = {**self.arrays.env.index, **own, TEXTS: Letter(TEXTS, BATCH, 1, self.batch or 1)}
        env = replace(self.arrays.env, index=index)
        try:
            self.supply(self.needs(e, about.turns))
            with np.errstate(all="ignore"):
                found = self.over_blocks(e, about.turns, env)
        except MemoryError:
            raise VieteError(f"{show(e)} needs more memory than the machine has") from None
        if missing := [letter for letter in own.values() if letter.label not in found.axes]:
            found = self.arrays.spread(found, missing, env)
        if any(x.symbol.is_partial for x in refs(e)) and TEXTS not in e.binders:
            found = self.for_each(found)
        return found

    def axis_letters(self, places: Mapping[str, Places]) -> dict[str, Letter]:
        """Letters of rows, columns or heads as axes. Raises VieteError for one without a value."""
        out = {}
        for letter, sizes in places.items():
            first, count = (int(size.evaluate(self.sizes)) for size in sizes)
            if count < 0:
                raise VieteError(f"the letter {letter} has no value here")
            out[letter] = Letter(letter, letter, first, count)
        return out

    def over_blocks(self, e: Expr, turns: Sequence[Turn], env: Env[Value]) -> Value:
        """The value of a formula for each turn, with an axis for each block letter."""
        counts = {s: len({turn[s] for turn in turns}) for s in turns[0]}
        contraction = Contraction(self.arrays, counts, self.product_of)
        env = replace(env, products=contraction.of_many)
        values = list[Value]()
        for before, turn in pairwise(({}, *turns)):
            if before:
                slowest = next(iter(turn))
                contraction.next_turn({slowest} if before[slowest] != turn[slowest] else ())
            values.append(self.arrays.of(e, replace(env, index={**env.index, **turn})).frozen())
        if not turns[0]:
            return values[0]
        axes = tuple(dict.fromkeys(a for v in values for a in v.axes))
        xp = self.arrays.xp
        arrays = [expand(xp, self.arrays.array(v), v.axes, axes) for v in values]
        whole = xp.stack(xp.broadcast_arrays(*arrays), axis=0)
        shape = (*counts.values(), *whole.shape[1:])
        return Value(xp.reshape(whole, shape), (*counts, *axes))

    def product_of(self, e: Ref) -> Expr | None:
        """The product that a derived name stands for; None if its value is given or replaced."""
        equation = self.derived.get(e.key)
        if equation is None or e.key in self.origins or e.key in self.inside:
            return None
        if any(key == e.key for key, _ in (*self.interventions, *self.store)):
            return None
        slots = equation.left.symbol.slots
        if not (isinstance(equation.right, Apply) and equation.right.op == "prod"):
            return None
        if equation.left.index != tuple(map(Idx, slots)):  # of a single member
            return None
        names = {e.key: Abstraction(slots, equation.right)}
        return self.program.model.substitute(e, names=names)

    @property
    def batch(self) -> int | None:
        """The number of sequences, or None if inputs come without a batch."""
        own = next((v.size("batch") for v in self.store.values() if "batch" in v.axes), None)
        others = {id(o.run): o.run for o in self.origins.values()} if own is None else {}
        return next((n for n in (run.batch for run in others.values()) if n is not None), own)

    def for_each(self, v: Value) -> Value:
        """The value repeated for every sequence, without copies, if no input changes it."""
        if self.batch is None or "batch" in v.axes:
            return v
        array = self.arrays.xp.asarray(self.arrays.lift(v))
        whole = self.arrays.xp.broadcast_to(array, (self.batch, *array.shape))
        return Value(whole, ("batch", *v.axes))

    def symbol(self, name: str) -> Symbol:
        key = self.program.names[name][0]
        return next(e.left.symbol for e in self.program.model.equations if e.name == key)

    def ordered(self, v: Value, letters: Iterable[str]) -> Array:
        """The array with its axes in the order described by the class."""
        array = self.arrays.lift(v)
        if not v.axes:
            return array
        array = permute(self.arrays.xp, array, v.axes, in_order(v, letters))
        return array[..., None] if ROW in v.axes and COL not in v.axes else array  # a column

    def __contains__(self, name: object) -> bool:
        """Whether ``run[name]`` was computed, or needs only computed values."""
        try:
            run, e = self.resolved(name)  # type: ignore[arg-type]
            return run is self and self.needed_by(e) <= self.store.keys()
        except VieteError:
            return False

    def without(self) -> list[str]:
        """The values that could not be computed, one sentence for each missing input or weight."""
        reasons: dict[str, list[str]] = {}
        for (key, _), why in self.missing.items():
            name = self.symbol_text(key)
            if name not in reasons.setdefault(why, []):
                reasons[why].append(name)
        return [f"{', '.join(keys)} (needs {why})" for why, keys in reasons.items()]

    def __iter__(self) -> Iterator[str]:
        """The names of values that were computed, or are computed when asked for."""
        for name, member in self.program.names.items():
            there = member in self.store or (member[0] in self.inside and name in self)
            if there and (self.wanted is None or member in self.wanted):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        shown = ", ".join(list(self)[:8])
        return f"<run of {self.program.model.title}: {shown}{', …' if len(self) > 8 else ''}>"


def again(kind: type[Run], *given: Any) -> Run:
    """A run from what `Run.__reduce__` stores."""
    run = kind(*given[:-1])
    run.wanted, run.origins, run.metric, run.missing = given[-1]
    return run


__all__ = ["Run"]
