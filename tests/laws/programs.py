"""Random cards as people write them, each from a seed and a size: `program(seed, size)`.

They hold what `strategies.cards` lacks: several letters of one range, read shifted and in sums,
means and maxima; attention across a family; grouped heads; rows normalised in every way; masks of
every kind; real inputs; loops that start elsewhere, with values between them; axes of one entry;
functions of the card. `tests/laws/parts.py` has the parts of transformers, this file the formulas.
The same seed and size give the same card, in a test and in `benchmarks/laws.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

import viete as vt
from tests.laws.strategies import random_weights

Shape = tuple[str, ...]
Force = Mapping[str, str]  # the letters in force, and what they range over: a size or 'S', 'H', …
BASES = [*"BCDFJMOQUXYZbfuvwz", "α", "β", "ψ", "κ", "μ", "φ", "gate", "mix"]
NUMBERED = ("W", "K", "λ")  # bases that are only used with a number below
RANGES = {"s": "S", "q": "S", "h": "H", "g": "G", "r": "R"}  # families' letters; all start at 1
PLACES = ("j", "l", "c", "e", "p")  # letters for binders with bounds; they start at 0
FUNCTIONS = {
    "ramp": r"$ramp(z: a × b) = table_{j<a, l<b}(j)$",
    "half": r"$half(z) = z / 2$",
    "fade": r"$fade(z: a × b; w = 1/2) = z ⊙ table_{j<a, l<b}(w^j)$",
    "gram": r"$gram(z: a × a) = table_{j<a, l<a}(z_{l,j})$",
    "flat": r"$flat(z: a × b) = table_{j<a, l<b}(sum_{e=0}^{b-1}(z_{j,e}) / b)$",
    "bump": r"$bump(z; s = 1/2) = z ⊙ exp(-s * z^2)$",
    "ones": r"$ones(m, w) = table_{j<m, l<w}(1)$",
}


@dataclass(frozen=True)
class Named:
    """A parameter, an input or a value: how it is written, its shape, its letters.

    ``first`` is the lowest block of a value that a loop makes, or that stands before it.
    """

    base: str
    shape: Shape
    slots: tuple[str, ...] = ()
    first: int = 1

    def at(self, *index: str) -> str:
        return self.base + ("^{" + ",".join(index) + "}" if index else "")

    @property
    def own(self) -> str:
        """With its own letters."""
        return self.at(*self.slots)


@dataclass(frozen=True)
class Program:
    """A random card, with weights and inputs of its own."""

    seed: int
    size: int
    text: str
    has: frozenset[str]
    loss: str = "L"

    @cached_property
    def card(self) -> vt.Card:
        return vt.read(self.text)

    def weights(self, dtype: str = "float64") -> dict[str, np.ndarray]:
        """Numbers for every parameter."""
        return random_weights(self.card, self.seed, dtype)

    def given(self, n: int | None = None, text: int = 0) -> dict[str, Any]:
        """A value for every input; ``text`` counts the texts of one program."""
        rng = np.random.default_rng([self.seed, text])
        n = n or int(rng.integers(1, 5))
        sizes = {**{k: float(v) for k, v in self.card.sizes.items()}, "n": n}
        out: dict[str, Any] = {}
        for item in self.card.inputs:
            shape = [int(sizes[str(getattr(x, "key", x))]) for x in item.shape]
            if item.low is None:
                out[item.name] = rng.standard_normal(shape)
            else:
                out[item.name] = rng.integers(0, 2 if item.name == "a" else sizes["V"], shape)
            if item.name == "a":
                out["a"][0] = 1  # somebody must be seen
        return out

    def lines(self) -> list[int]:
        """The numbers of the lines with equations."""
        start = self.text.index("## Forward pass")
        first = self.text[:start].count("\n")
        return [
            k for k, line in enumerate(self.text.split("\n")) if k > first and line[:3] == "1. "
        ]


@dataclass
class Writer:
    """A card while it is being written."""

    rng: Random
    sizes: dict[str, int] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    equations: list[str] = field(default_factory=list)
    derived: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    known: list[Named] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    has: set[str] = field(default_factory=set)
    wide = False  # whether the heads side by side are as wide as the stream: d = H k
    loop: tuple[str, int, str] | None = None  # the letter, its first value, and its last
    loops: dict[str, tuple[str, int, str]] = field(default_factory=dict)  # those that are closed

    # -- names -------------------------------------------------------------------------------------

    def one(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def base(self) -> str:
        """A name that nothing has yet."""
        while True:
            b = self.one(*BASES)
            form = "{}" if len(b) > 1 else self.one("{}", "{}", "{}'", r"\tilde{{{}}}")
            name = form.format(b)
            if self.chance(0.2):
                name = f"{self.one(*NUMBERED)}_{{{self.rng.randint(1, 20)}}}"
            if name not in self.taken:
                self.taken.add(name)
                return str(name)

    def parameter(self, *shape: str, slots: tuple[str, ...] = (), looped: bool = True) -> Named:
        """A new parameter; within a loop, most have one array for each block."""
        loop = self.loop if looped and self.chance(0.8) else None
        own, first = ((loop[0],), loop[1]) if loop else ((), 1)
        found = Named(self.base(), shape, (*own, *slots), first)
        size = r" \times ".join(f"{x}" for x in shape) or "scalar"
        self.parameters.append(f"| ${found.own}$ | ${size}$ |" if shape else
                               f"| ${found.own}$ | scalar |")  # fmt: skip
        self.known.append(found)
        return found

    def say(self, right: str, shape: Shape, slots: tuple[str, ...] = (), base: str = "") -> Named:
        """A new equation; within a loop, its value belongs to the block."""
        own = (self.loop[0],) if self.loop else ()
        first = self.loop[1] if self.loop else 1
        found = Named(base or self.base(), shape, (*own, *slots), first)
        self.equations.append(f"1. ${found.own} = {right}$")
        self.known.append(found)
        return found

    def force(self, *letters: str) -> dict[str, str]:
        """The letters that an equation with these on its left may use."""
        return {x: RANGES[x] for x in letters} | ({self.loop[0]: "block"} if self.loop else {})

    # -- places ------------------------------------------------------------------------------------

    def number(self) -> str:
        return str(self.one("2", "3", "1/2", "0.7", "1/4", "1"))

    def index(self, slot: str, named: Named, force: Force) -> str | None:
        """A member of a family: the letter, another of its range, one of its numbers."""
        if slot not in RANGES:  # a block's letter
            if self.loop and slot == self.loop[0] and slot in force:
                return f"{slot}-1" if named.first < self.loop[1] else slot
            found = self.loops.get(slot)
            return None if found is None else str(self.one(str(found[1]), found[2]))
        over = RANGES[slot]
        same = [x for x, kind in force.items() if kind == over]
        options = same * 4 + [f"max({x} - 1, 1)" for x in same] + ["1", over]
        options += [f"{over} + 1 - {x}" for x in same]
        options += [f"{x} - 1" for x, kind in force.items() if kind == f"{over} from 2"] * 6
        return str(self.one(*options))

    def member(self, named: Named, force: Force) -> str | None:
        at = [self.index(slot, named, force) for slot in named.slots]
        return None if None in at else named.at(*(x for x in at if x))

    def letter(self, force: Force) -> str:
        """A letter for a binder with bounds."""
        return str(self.one(*(x for x in PLACES if x not in force)))

    def free(self, force: Force) -> bool:
        return sum(x in force for x in PLACES) < len(PLACES) - 1

    # -- formulas: each is an atom, or stands in parentheses ---------------------------------------

    def leaf(self, shape: Shape, force: Force) -> str:
        """A name of this shape, or something made of tokens and positions."""
        names = [x for x in self.known if x.shape == shape]
        # What is new is read more often: so chains grow long.
        for named in [*self.rng.choices(names[-6:], k=2), *self.rng.sample(names, len(names))
                      ] if names else ():  # fmt: skip
            if (found := self.member(named, force)) is not None:
                return found
        turned = [x for x in self.known if x.shape == shape[::-1] and len(shape) == 2]
        for named in turned:
            if self.chance(0.5) and (found := self.member(named, force)) is not None:
                return f"{{{found}}}^⊤"
        if "n" in shape:
            return self.table(shape, 0, force) if shape else "n"
        if not shape:
            letters = [x for x, kind in force.items() if kind != "block" or self.chance(0.2)]
            return str(self.one(self.number(), self.number(), *letters))
        return self.parameter(*shape).own if not self.loop or "block" in force.values() else (
            self.table(shape, 0, force))  # fmt: skip

    def atom(self, shape: Shape, depth: int, force: Force) -> str:
        return self.leaf(shape, force)

    def grow(self, shape: Shape, depth: int, force: Force) -> str:
        """A formula of this shape, at most ``depth`` operations deep."""
        if depth <= 0:
            return self.leaf(shape, force)
        rules: list[Callable[[Shape, int, Force], str]] = [
            self.atom, self.entrywise, self.entrywise, self.unary, self.scaled, self.choice,
            self.fold, self.fold,
        ]  # fmt: skip
        if shape:
            rules += [self.product, self.product, self.row_wise, self.narrow]
        if shape and self.free(force):
            rules += [self.table, self.picked]
        if len(shape) == 2:
            rules += [self.call, self.call, self.joined]
        if not shape:
            rules += [self.entry, self.entry, self.entry]
        return self.one(*rules)(shape, depth - 1, force)

    def entrywise(self, shape: Shape, depth: int, force: Force) -> str:
        a = self.grow(shape, depth, force)
        less: list[Shape] = [shape, shape, ()]
        if len(shape) == 2:
            less += [shape[1:], (shape[0], "1")]
        b = self.grow(self.one(*less), depth, force)
        form = self.one(
            "({} + {})", "({} - {})", "({} ⊙ {})", "({} / (1 + abs({})))", "max({}, {})"
        )
        return str(form.format(a, b))

    def unary(self, shape: Shape, depth: int, force: Force) -> str:
        f = self.one("tanh", "sin", "cos", "sigmoid", "ReLU", "SiLU", "GELU", "bump", "half")
        self.use(f)
        return f"{f}({self.grow(shape, depth, force)})"

    def use(self, name: str) -> None:
        """Declare a function of the card that a formula calls."""
        if name in FUNCTIONS and FUNCTIONS[name] not in self.functions:
            self.functions.append(FUNCTIONS[name])

    def scaled(self, shape: Shape, depth: int, force: Force) -> str:
        a, b = self.grow((), min(depth, 1), force), self.grow(shape, depth, force)
        return f"({a} * {b})"

    def test(self, shape: Shape, depth: int, force: Force) -> str:
        """A condition: on letters, or on entries, which rounding does not turn."""
        letters = list(force)
        if letters and self.chance(0.7):
            a, b = self.one(*letters), self.one(*letters, "1", "2", "n - 1")
            test = f"{a} {self.one('<', '<=', '=', '>', '≥', '!=')} {b}"
            return self.one(test, test, f"({test} or {self.one(*letters)} = 1)", f"not ({test})")
        return f"{self.grow(shape, depth - 1, force)} {self.one('<', '>')} 0.3141"

    def choice(self, shape: Shape, depth: int, force: Force) -> str:
        a, b = self.grow(shape, depth, force), self.grow(shape, depth - 1, force)
        return f"where({self.test(shape, depth, force)}, {a}, {b})"

    def varying(self, body: str, letter: str) -> str:
        """The body of a binder, made to depend on the letter."""
        word = rf"(?<![A-Za-z\\]){letter}(?![A-Za-z'])"
        bound = re.search(rf"_{letter}\(|{letter}[=<]", body)
        return f"({letter} * {body})" if bound or not re.search(word, body) else body

    def fold(self, shape: Shape, depth: int, force: Force) -> str:
        """A sum, mean or maximum: over a family, a part of one, positions or blocks."""
        op = self.one(r"sum", "sum", "mean", "max")
        kind = self.one("family", "family", "family", "shifted", "places", "blocks")
        if kind == "blocks" and self.loops:
            letter, first, last = self.one(*self.loops.values())
            named = [x for x in self.known if x.shape == shape and x.slots[:1] == (letter,)
                     and x.first >= first]  # fmt: skip
            if named and letter not in force:
                x = self.one(*named)
                rest = [self.index(s, x, force) for s in x.slots[1:]]
                body = x.at(letter, *(k for k in rest if k))
                return f"({op}_{{{letter}={first}}}^{{{last}}}({body}))"
        if kind == "shifted" and self.free(force):
            letter = self.one(*RANGES)
            over = RANGES[letter]
            if letter not in force and over in self.sizes and self.sizes[over] > 1:
                body = self.grow(shape, depth, {**force, letter: f"{over} from 2"})
                body = self.varying(body, letter)
                return f"({op}_{{{letter}=2}}^{{{over}}}({body}))"
        if kind == "places" and self.free(force):
            letter, size = self.letter(force), self.one("n", "d", "k", "m")
            body = self.varying(self.grow(shape, depth, {**force, letter: size}), letter)
            return f"({op}_{{{letter}=0}}^{{{size}-1}}({body}))"
        letters = [x for x in RANGES if RANGES[x] in self.sizes]
        unused = [x for x in letters if x not in force]
        # A sum may bind a letter again that is bound around it.
        letter = self.one(*(unused if unused and self.chance(0.85) else letters))
        body = self.grow(shape, depth, {**force, letter: RANGES[letter]})
        return f"({op}_{letter}({self.varying(body, letter)}))"

    # -- vectors and matrices ----------------------------------------------------------------------

    def product(self, shape: Shape, depth: int, force: Force) -> str:
        inner = self.one("d", "k", "n", "m", "S")
        left = (*shape[:-1], inner)
        a, b = self.grow(left, depth, force), self.grow((inner, shape[-1]), depth, force)
        return f"({a} @ {b})" if self.chance(0.5) else f"({a} ({b}))"

    def row_wise(self, shape: Shape, depth: int, force: Force) -> str:
        """Rows, normalised in one of many ways."""
        a = self.grow(shape, depth, force)
        return str(self.one(
            "softmax({})", "LN({}; 1, 0, 0.1)", "RMSNorm({}; 1, 1/2)", "({0} - mean({0}))",
            "({0} / (1 + |{0}|))", "(exp({0}) / (1 + sum(exp({0}))))", "({0} - logsumexp({0}))",
            "(ReLU({0})^2 / (1 + sum(ReLU({0})^2)))", "(softmax({0}) ⊙ sigmoid(logsumexp({0})))",
            "({0} - max({0}))", "sigmoid({})",
        ).format(a))  # fmt: skip

    def narrow(self, shape: Shape, depth: int, force: Force) -> str:
        """One number for each row, as a column, or a vector of one number."""
        if shape[-1] != "1":
            return self.row_wise(shape, depth, force)
        wide = (*shape[:-1], self.one("d", "k", "n"))
        f = self.one("sum({})", "mean({})", "max({})", "|{}|", "logsumexp({})", "var({})")
        if len(shape) == 1 and not self.free(force):
            return self.leaf(shape, force)
        if len(shape) == 1:  # a row of a column
            f = f"{f}[0]"
            wide = ("n", wide[-1])
        return str(f.format(self.grow(wide, depth, force)))

    def table(self, shape: Shape, depth: int, force: Force) -> str:
        inside, ranges = dict(force), []
        for size in shape:
            letter = self.letter(inside)
            inside[letter] = "rows" if size == "S" else size  # S members, but counted from 0
            ranges.append(f"{letter}<{size}")
        return f"table_{{{', '.join(ranges)}}}({self.grow((), depth, inside)})"

    def picked(self, shape: Shape, depth: int, force: Force) -> str:
        """A row, or the first rows."""
        if len(shape) == 2:
            return f"{self.grow(shape, depth, force)}[:{shape[0]}]"
        size = self.one("n", "d", "k")
        letters = [x for x, kind in force.items() if kind == size]
        at = self.one("0", f"{size} - 1", "-1", *letters * 2)
        return f"{self.grow((size, shape[0]), depth, force)}[{at}]"

    def joined(self, shape: Shape, depth: int, force: Force) -> str:
        if shape[1] != "d" or "h" in force or not self.wide:
            return self.entrywise(shape, depth, force)
        part = self.grow((shape[0], "k"), depth, {**force, "h": "H"})
        return f"concat_h({self.varying(part, 'h')})"

    def call(self, shape: Shape, depth: int, force: Force) -> str:
        """A function of the card, or one that takes rows for positions."""
        a = self.grow(shape, depth, force)
        numbers = [x for x, kind in force.items() if kind in ("S", "H", "block")]
        f = self.one(
            "ramp({})", "flat({})", "fade({})", "fade({}; 1/3)", "ones", "RoPE", "gram({})"
        )
        if f == "ones":
            self.use("ones")
            return f"({a} ⊙ ones({shape[0]}, {shape[1]}))"
        if f == "RoPE" and shape[1] in ("d", "k") and self.sizes[shape[1]] % 2 == 0:
            θ = f"10 * {self.one(*numbers)}" if numbers else "100"
            return f"RoPE({a}; 1, {θ})"
        if f == "RoPE" or (f == "gram({})" and shape[0] != shape[1]):
            f = "flat({})"
        name = f.split("(")[0]
        self.use(name)
        made = f.format(a)
        return f"({a} + {made})" if name == "ramp" else made

    def entry(self, shape: Shape, depth: int, force: Force) -> str:
        """A number of a vector or matrix."""
        size = self.one("d", "k", "n", "m", "1")
        vector = self.grow((size,), depth, force)
        near = [x for x, kind in force.items() if kind == size]
        rules = [f"{self.one('sum', 'mean', 'max')}({vector})", f"{vector}[0]", f"|{vector}|",
                 f"⟨{vector}, {self.leaf((size,), force)}⟩"]  # fmt: skip
        rules += [f"{vector}[{self.one(*near)}]"] * 3 if near else []
        rows = [x for x, kind in force.items() if kind in ("n", "d", "k", "m")]
        if rows:
            j = self.one(*rows)
            other = [x for x in rows if x != j]
            k = self.one(*other) if other else "0"
            matrix = self.grow((force[j], force[k] if other else "d"), depth, force)
            rules += [f"{matrix}[{j}, {k}]"] * 4
        pair = [x for x, kind in force.items() if kind == "S"]
        if len(pair) > 1:  # a matrix with a row and a column for each member
            rules += [f"{self.leaf(('S', 'S'), force)}[{pair[0]} - 1, {pair[1]} - 1]"] * 3
        return str(self.one(*rules))


def program(seed: int, size: int = 3) -> Program:
    """A card from a seed; ``size`` is about the number of its parts, from 1 to 6."""
    from tests.laws.parts import write

    writer = Writer(Random(seed * 8 + size))
    text = write(writer, size)
    return Program(seed, size, text, frozenset(writer.has))


__all__ = ["Named", "Program", "Writer", "program", "replace"]
