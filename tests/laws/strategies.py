"""Random formulas and random cards: what the laws are tested on.

`worlds` draws a small card whose names are spelled in every way the notation has, `expressions` a
well-typed formula over it; `cards` draws a whole decoder with a random choice of parts. All of
them read, type-check and run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

import viete as vt
from viete import read
from viete.evaluate.schedule import member_name, parameter_shapes, program
from viete.notation.printer import STYLES, show_symbol
from viete.notation.tree import (
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
    Table,
)  # fmt: skip

Shape = tuple[str, ...]
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1.0)  # two ones: entries that tie


def peppered(rng: np.random.Generator, array: np.ndarray, some: float = 0.4) -> np.ndarray:
    """The array with special values in place of some entries: NaN, ±∞, −0 and ties."""
    return np.where(rng.random(array.shape) < some, rng.choice(SPECIAL, array.shape), array)


# Names --------------------------------------------------------------------------------------------

LATIN = [*"abcdefghijklmnopqrstuvwxyz", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
GREEK = "alpha beta gamma epsilon eta theta lambda mu rho sigma phi ell Gamma Delta Omega".split()
WORDS = "logits attn ublin X2 kv vocab_size d_model_2".replace("_", "").split()
ACCENTED = ["tilde{A}", "hat{x}", "bar{gamma}", "vec{v}", "overline{ublin}", "underline{token}",
            "Delta{x}", "Delta{logits}", "overline{W}", "A'", "gamma''", "tilde{B'}", "Delta{u'}",
            "logits'"]  # fmt: skip
LABELS = ["Q", "K", "QK", "out", "attn", "1", "2", "12", "max", "gamma", "2a", "O1"]


@dataclass(frozen=True)
class Role:
    """A declared value of a world: its symbol, its shape, and the lowest block it has."""

    symbol: Symbol
    shape: Shape
    first: int = 1


@dataclass(frozen=True)
class World:
    """A card to write formulas over.

    ``dim`` maps the size names n, d, k, V, H, N, top to references, ``number`` to what they are;
    ``loop`` and ``head`` are its index letters and ``fresh`` letters that nothing else uses.
    """

    model: vt.Card
    text: str
    dim: dict[str, Ref]
    number: dict[str, int]
    loop: str
    head: str
    fresh: tuple[str, ...]
    roles: tuple[Role, ...]
    tokens: Symbol

    def of_shape(self, shape: Shape) -> list[Role]:
        return [r for r in self.roles if r.shape == shape]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A card with sizes, tokens, weights and values with and without block and head indices."""
    # One draw for all names and spellings: hundreds of small ones would cost more than the test.
    rng = Random(draw(st.integers(0, 2**20)))
    plain = rng.sample(LATIN, len(LATIN))
    fancy = rng.sample(GREEK + WORDS + ACCENTED, len(GREEK + WORDS + ACCENTED))
    # Accents over a letter do not clash with the letter; a Greek letter and its name would.
    names = iter(
        [x for pair in zip(plain, [*fancy, *[None] * 99], strict=False) for x in pair if x]
    )
    # T is a transpose when it stands above something, so it must be tried as a size as well.
    letters = iter(sorted((x for x in plain[30:] if x != "T"), key=str.lower, reverse=True))
    loop, head = next(letters), next(letters)
    fresh = tuple(next(letters) for _ in range(5))
    fresh = (*fresh[:3], f"{fresh[0]}'", f"{head}''")
    taken = {loop, head, *fresh}
    labels = iter(rng.sample(LABELS, len(LABELS)))

    above = rng.random() < 0.5  # where the labels of the shared letter stand

    def name() -> str:
        return next(x for x in names if x not in taken and x not in ("T", "x"))

    def symbol(kind: str, slots: tuple[str, ...] = (), base: str = "", label: str = "") -> Symbol:
        sub: list[Slot] = []
        sup: list[Slot] = []
        if label:  # all on one side: β_1^i and β_j^{QK} in one card cannot be told apart
            (sub, sup)[above].append(Slot(label))
        for slot in slots:
            ((sub, sup)[not above] if label else rng.choice((sub, sup))).append(Slot(slot, True))
        return Symbol(kind, base or name(), tuple(sub), tuple(sup))

    dims = {s: symbol("dim") for s in ("n", "d", "k", "V", "H", "N", "top")}
    if rng.random() < 0.5:
        size = rng.choice(["n", "d", "k", "V", "N"])
        dims[size] = Symbol("dim", "T")
    if rng.random() < 0.5:
        dims["top"] = Symbol("dim", dims["n"].base, (Slot("max"),))
    k, heads, blocks = rng.choice([2, 4]), rng.randint(1, 3), rng.randint(1, 3)
    number = {"k": k, "H": heads, "d": k * heads, "N": blocks, "V": 7, "top": 12, "n": 5, "1": 1}

    shared = name()  # one base letter that many weights have, as W does

    def weight(*slots: str) -> Symbol:
        label = next(labels) if rng.random() < 0.5 else ""
        if label:
            return symbol("parameter", slots, shared, label)
        return symbol("parameter", slots)

    weights = [
        Role(weight(), ("V", "d")), Role(weight(), ("top", "d")), Role(weight(), ("d", "d")),
        Role(weight(head), ("d", "k")), Role(weight(loop), ("d", "d")),
        Role(weight(loop, head), ("d", "k")), Role(weight(head), ("k", "d")),
        Role(weight(), ("d", "V")), Role(weight(), ("d",)), Role(weight(loop), ("d",)),
        Role(weight(head), ("k",)), Role(weight(), ("V",)),
    ]  # fmt: skip
    tokens = symbol("input")
    x, q = symbol("value", (loop,)), symbol("value", tuple(rng.sample([loop, head], 2)))
    s, z = symbol("value", (loop, head)), symbol("value")
    values = [Role(x, ("n", "d"), 0), Role(q, ("n", "k")), Role(s, ("n", "n")), Role(z, ("n", "V"))]

    def at(sym: Symbol, **index: Expr) -> str:
        """A name as it stands in the card, in a random spelling."""
        e = Ref(sym, tuple(index.get("i", Idx(loop)) if x == loop else Idx(x) for x in sym.slots))
        return spelled(e)

    def spelled(e: Expr | Symbol) -> str:
        from viete.notation.printer import show

        style = rng.choice(STYLES)
        return show_symbol(e, style) if isinstance(e, Symbol) else show(e, style)

    r = {key: Ref(sym) for key, sym in dims.items()}
    size = {key: spelled(sym) for key, sym in dims.items()}
    less = Apply("sub", (Idx(loop), Num(Fraction(1))))
    lines = ["# World", "", "## Dimensions", "", "| symbol | value |", "| --- | --- |"]
    lines += [f"| ${size[s]}$ | {number[s]} |" for s in ("H", "N", "V", "top", "d")]
    lines += [f"| ${size['k']}$ | ${size['d']} / {size['H']}$ |"]
    lines += [f"| ${size['n']}$ | $≤ {size['top']}$ |", f"| ${head}$ | $1, …, {size['H']}$ |"]
    lines += [
        "",
        "## Inputs",
        "",
        f"- ${at(tokens)} ∈ \\{{0, …, {size['V']} - 1\\}}^{{{size['n']}}}$",
    ]
    lines += ["", "## Parameters", "", "| symbol | shape |", "| --- | --- |"]
    lines += [f"| ${at(w.symbol)}$ | ${' × '.join(size[s] for s in w.shape)}$ |" for w in weights]
    table, proj, block = weights[0].symbol, weights[5].symbol, weights[4].symbol
    lines += ["", "## Forward pass", ""]
    lines += [f"1. ${at(x, i=Num(Fraction(0)))} = {at(table)}[{at(tokens)}]$", ""]
    lines += [f"For ${loop} = 1, …, {size['N']}$:", ""]
    lines += [f"1. ${at(x)} = tanh({at(x, i=less)} {at(block)})$"]
    lines += [f"1. ${at(q)} = {at(x)} {at(proj)}$"]
    lines += [f"1. ${at(s)} = {at(q)} ({at(q)})^T$", ""]
    lines += [f"1. ${at(z)} = {at(x, i=r['N'])} {at(weights[7].symbol)}$", ""]
    text = "\n".join(lines)
    model = read(text)
    return World(model, text, r, number, loop, head, fresh, (*weights, *values), tokens)


# Formulas -----------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(0, 12).map(Fraction),
    st.fractions(-40, 40, max_denominator=30),
    st.sampled_from([Fraction(x) for x in (
        "1e-5", "0.044715", "1e-12", "10000", "123456789", "1e9", "-2.5", "3.14159265", "1e-300",
    )]),
)  # fmt: skip


def op(name: str, *args: Expr, semi: int = 0) -> Expr:
    """An operation as the parser would give it: numbers are folded where it folds them."""
    match name, args:
        case "div", (a, Num(b)) if not b:  # refused as a division by zero
            return a
        case "neg", (Num(a),):
            return Num(-a)
        case "div", (Num(a), Num(b)):
            return Num(a / b)
        case "pow", (Num(a), Num(b)) if a == 10 and b.denominator == 1 and abs(b) <= 400:
            return Num(a ** int(b))
    return Apply(name, args, semi=semi)


@dataclass
class Grower:
    """Grows a formula of a wanted shape. ``tame`` keeps to what is well-conditioned in floats."""

    draw: st.DrawFn
    world: World
    tame: bool
    counter: int = 0
    used: list[str] = field(default_factory=list)

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def size(self, s: str) -> Expr:
        return Num(Fraction(1)) if s == "1" else self.world.dim[s]

    def bound(self, index: dict[str, str]) -> str:
        """A letter for a new binder."""
        free = [x for x in self.world.fresh if x not in index]
        return self.one(*free)

    # -- leaves ------------------------------------------------------------------------------------

    def ref(self, role: Role, index: dict[str, str]) -> Expr:
        at: list[Expr] = []
        for slot in role.symbol.slots:
            kind = "N" if slot == self.world.loop else "H"
            first = role.first if kind == "N" else 1
            choices: list[Expr] = [
                Num(Fraction(k)) for k in range(first, self.world.number[kind] + 1)
            ]
            # A block is a number when run, so its letter must be bound as a loop's.
            choices += [Idx(x) for x, count in index.items() if count == kind
                        and (kind == "H" or x == self.world.loop)]  # fmt: skip
            if kind == "N":
                choices.append(self.world.dim["N"])
                if first == 0 and self.world.loop in index:
                    choices.append(op("sub", Idx(self.world.loop), Num(Fraction(1))))
            at.append(self.one(*choices))
        return Ref(role.symbol, tuple(at))

    def leaf(self, shape: Shape, index: dict[str, str]) -> Expr:
        if roles := self.world.of_shape(shape):
            return self.ref(self.one(*roles), index)
        if shape and (turned := self.world.of_shape(shape[::-1])) and len(shape) == 2:
            return Apply("T", (self.ref(self.one(*turned), index),))
        if shape:
            return self.table(shape, 0, index)
        choices: list[Callable[[], Expr]] = [
            lambda: Num(
                self.draw(NUMBERS) if not self.tame else Fraction(self.one(-2, -1, 1, 2, 3)) / 4
            ),
            lambda: self.world.dim[self.one("n", "d", "k", "V", "H")],
        ]
        if index:
            choices.append(lambda: Idx(self.one(*index)))
        if not self.tame:
            choices.append(lambda: Apply(self.one("pi", "inf"), ()))
        return self.one(*choices)()

    # -- every shape -------------------------------------------------------------------------------

    def grow(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        """A formula of this shape, at most ``depth`` operations deep."""
        if depth <= 0:
            return self.leaf(shape, index)
        rules = [
            self.leaf_rule,
            self.entrywise,
            self.entrywise,
            self.unary,
            self.scaled,
            self.choice,
            self.folded,
            self.blocks,
        ]
        if shape:
            rules += [self.product, self.function, self.table_rule, self.picked, self.concat]
        else:
            rules += [self.number, self.number]
        if len(shape) == 2:
            rules += [self.turned, self.scores]
        return self.one(*rules)(shape, depth - 1, index)

    def leaf_rule(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        return self.leaf(shape, index)

    def narrower(self, shape: Shape) -> Shape:
        """A shape that goes along this one: the same, a row, a column, or a number."""
        options: list[Shape] = [shape, shape, shape, ()]
        if len(shape) == 2:
            options += [shape[1:], (shape[0], "1")]
        return self.one(*options)

    def entrywise(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        a, b = self.grow(shape, depth, index), self.grow(self.narrower(shape), depth, index)
        if self.one(False, False, True):
            a, b = b, a
        name = self.one("add", "sub", "had", "div", "max", "min", "mod")
        if name == "mod" and self.tame:
            name = "add"
        if name == "div" and self.tame:
            b = op("add", Num(Fraction(1)), op("abs", b))
        return op(name, a, b)

    def unary(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        a = self.grow(shape, depth, index)
        if self.tame:
            return op(self.one("neg", "tanh", "sin", "cos", "abs", "erf"), a)
        name = self.one("neg", "exp", "log", "sqrt", "erf", "tanh", "sin", "cos", "abs", "floor",
                        "pow", "ceil", "e")  # fmt: skip
        if name == "pow":
            power = self.one(Num(Fraction(2)), Num(Fraction(-1)), Num(Fraction(1, 2)), None)
            return op("pow", a, power or self.grow((), depth - 1, index))
        if name == "ceil":
            return op("neg", op("floor", op("neg", a)))
        return op("exp" if name == "e" else name, a)

    def scaled(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        a, b = self.grow((), depth, index), self.grow(shape, depth, index)
        return op(self.one("times", "prod"), *((a, b) if self.draw(st.booleans()) else (b, a)))

    def condition(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        name = self.one("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not")
        if depth > 0 and name in ("and", "or", "not"):
            parts = [self.condition(shape, depth - 1, index) for _ in range(1 + (name != "not"))]
            return Apply(name, tuple(parts))
        name = name if name not in ("and", "or", "not") else "lt"
        if self.tame and self.draw(st.booleans()):
            return Apply(name, (self.leaf((), index), self.leaf((), index)))
        if self.tame:  # rounded numbers that are meant to be equal could compare either way
            odd = Num(Fraction("0.31415926"))
            return Apply(
                self.one("lt", "le", "gt", "ge"), (self.grow(shape, depth - 1, index), odd)
            )
        return Apply(name, (self.grow(shape, depth - 1, index), self.grow((), depth - 1, index)))

    def choice(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        return Apply("where", (
            self.condition(shape, depth, index), self.grow(shape, depth, index),
            self.grow(self.narrower(shape), depth, index),
        ))  # fmt: skip

    def folded(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        """sum, mean or max over heads, by the declared range or by bounds of its own."""
        name = self.one("sum", "mean", "max")
        if self.draw(st.booleans()) and self.world.head not in index:
            letter, lower, upper, count = self.world.head, None, None, "H"
        else:
            letter, count = self.bound(index), self.one("H", "k")
            lower, upper = Num(Fraction(1)), self.world.dim[count]
        # These count from 1, so only a head's letter may stand for an index of a name.
        body = self.grow(shape, depth, {**index, letter: "H" if count == "H" else "from 1"})
        return Bind(name, letter, lower, upper, self.depends(body, letter))

    def depends(self, body: Expr, letter: str) -> Expr:
        """The body, made to vary with the letter that is bound over it."""

        return body if letter in body.free else op("prod", Idx(letter), body)

    def blocks(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        """A sum over the blocks of the loop."""
        letter = self.world.loop
        if letter in index:
            return self.leaf(shape, index)
        body = self.grow(shape, depth, {**index, letter: "N"})
        name = self.one("sum", "sum", "mean", "max")
        return Bind(name, letter, Num(Fraction(1)), self.world.dim["N"], self.depends(body, letter))

    # -- vectors and matrices ----------------------------------------------------------------------

    def product(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        inner = self.one("d", "k", "V", "n")
        if len(shape) == 2:
            left: Shape = (shape[0], inner)
            right: Shape = (inner, shape[1])
        elif self.draw(st.booleans()):
            left, right = (inner,), (inner, shape[0])
        else:
            left, right = (shape[0], inner), (inner,)
        return op("prod", self.grow(left, depth, index), self.grow(right, depth, index))

    def turned(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        return op("T", self.grow(shape[::-1], depth, index))

    def table_rule(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        return self.table(shape, depth, index)

    def table(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        ranges, inside = [], dict(index)
        for s in shape:
            if all(x in inside for x in self.world.fresh):
                break
            letter = self.bound(inside)
            ranges.append((letter, self.size(s)))
            inside[letter] = s
        if len(ranges) < len(shape):  # too many letters in force: build it from a constant row
            row = op("had", self.fallback(shape), Num(Fraction(2)))
            return row
        return Table(tuple(ranges), self.grow((), depth, inside))

    def fallback(self, shape: Shape) -> Expr:
        return (
            Apply("sinusoidal", tuple(map(self.size, shape)))
            if len(shape) == 2
            else Pick(
                Apply("sinusoidal", (Num(Fraction(1)), self.size(shape[0]))), (Num(Fraction(0)),)
            )
        )

    def picked(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        """Rows, columns and slices of something larger."""
        last = shape[-1]
        rest = shape[:-1]
        nothing = Slice(None, None)
        if shape == ("n", "d") and self.draw(st.booleans()):
            at: Expr = Ref(self.world.tokens)
            if not self.tame and self.draw(st.booleans()):
                at = Apply("argmax", (self.grow(("n", "V"), depth - 1, index),))
            return Pick(self.ref(self.one(*self.world.of_shape(("V", "d"))), index), (at,))
        if shape == ("n", "d"):
            top = self.ref(self.one(*self.world.of_shape(("top", "d"))), index)
            return Pick(top, (Slice(self.one(None, Num(Fraction(0))), self.world.dim["n"]),))
        if last == "k":
            cut = self.one(
                Slice(None, self.world.dim["k"]),
                Slice(op("sub", self.world.dim["d"], self.world.dim["k"]), None),
            )
            return Pick(self.grow((*rest, "d"), depth, index), (nothing, cut) if rest else (cut,))
        if len(shape) == 1:
            places: list[Expr] = [Num(Fraction(self.one(0, 1)))]
            places += [Idx(x) for x, s in index.items() if s == "n"]
            places += [op("sub", op("sub", self.world.dim["n"], Num(Fraction(1))), x)
                       for x in places[1:]]  # fmt: skip
            if any(s == "n" for s in index.values()) and last == "d":
                j = self.one(*[x for x, s in index.items() if s == "n"])
                token = Pick(Ref(self.world.tokens), (Idx(j),))
                return Pick(self.ref(self.one(*self.world.of_shape(("V", "d"))), index), (token,))
            return Pick(self.grow(("n", last), depth, index), (self.one(*places),))
        return self.leaf(shape, index)

    def concat(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        *rest, last = shape
        if last != "d":
            return self.leaf(shape, index)
        part = (*rest, "k")
        if self.draw(st.booleans()) and self.world.head not in index:
            letter = self.world.head
            body = self.grow(part, depth, {**index, letter: "H"})
            return Bind("concat", letter, None, None, self.depends(body, letter))
        return self.beside(part, depth, index)

    def beside(self, part: Shape, depth: int, index: dict[str, str]) -> Expr:
        """d = H k as k columns, then the d − k that are left of another."""
        cut = Slice(self.world.dim["k"], None)
        other = self.grow((*part[:-1], "d"), depth, index)
        items = (Slice(None, None), cut) if len(part) == 2 else (cut,)
        return Apply("concat", (self.grow(part, depth, index), Pick(other, items)))

    def function(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        """A function of the library, with and without the arguments that have defaults."""
        z = self.grow(shape, depth, index)
        last = shape[-1]
        small = Num(Fraction("1e-5")) if self.tame else self.leaf((), index)
        row = self.leaf((last,), index)
        choices: list[Callable[[], Expr]] = [
            *(
                lambda f=f: op(f, z)
                for f in ("softmax", "sigmoid", "ReLU", "GELU", "GELU_tanh", "SiLU", "centred")
            ),
            lambda: op("LN", z, row, self.leaf((last,), index), Num(Fraction("0.1")), semi=1),
            lambda: op(
                "RMSNorm", z, Num(Fraction(1)), small if not self.tame else Num(Fraction(1)), semi=1
            ),
        ]
        if not self.tame:
            choices += [
                lambda: op("LN", z),
                lambda: op("RMSNorm", z, row, semi=1),
                lambda: op("LN", z, row, row, semi=1),
                lambda: op("logsoftmax", z),
            ]
        if len(shape) == 2:
            choices.append(lambda: op("sinusoidal", *map(self.size, shape)))
            choices.append(lambda: op(
                "SwiGLU", self.grow((shape[0], "d"), depth, index),
                self.grow(("d", last), depth - 1, index), self.grow(("d", last), depth - 1, index),
                semi=1,
            ))  # fmt: skip
            if last in ("k", "d"):
                choices.append(lambda: op("RoPE", z))
                choices.append(lambda: op("RoPE", z, Num(Fraction(1)), Num(Fraction(100)), semi=1))
        return self.one(*choices)()

    def scores(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        """Masks and biases of attention scores."""
        z = self.grow(shape, depth, index)
        heads = [Idx(x) for x, s in index.items() if s == "H"] + [Num(Fraction(1))]
        name = self.one("causal", "window", "ALiBi")
        if name == "ALiBi":
            return op("ALiBi", z, self.one(*heads), self.world.dim["H"], semi=1)
        if self.tame and shape[0] != shape[1]:
            return z
        z = op("causal", z) if name == "causal" else op("window", z, Num(Fraction(2)), semi=1)
        return op("softmax", z) if self.tame else z

    # -- numbers -----------------------------------------------------------------------------------

    def number(self, shape: Shape, depth: int, index: dict[str, str]) -> Expr:
        s = self.one("d", "k", "n", "V")
        vector = self.grow((s,), depth, index)
        rules: list[Callable[[], Expr]] = [
            lambda: op(self.one("sum", "mean", "max", "min"), vector),
            lambda: Pick(
                op("mean", op("sum", self.grow(("n", s), depth, index))), (Num(Fraction(0)),) * 2
            ),  # of a column
            lambda: op("inner", vector, self.grow((s,), depth, index)),
            lambda: Pick(vector, (Num(Fraction(self.one(0, 1))),)),
            lambda: op(self.one("var", "std") if not self.tame else "var", vector),
            lambda: op(
                "cols", self.ref(self.one(*self.world.of_shape(("n", "d"))), {})
            ),  # the same for all of a family
        ]
        if not self.tame:
            other = self.grow((s,), depth, index)
            rules += [lambda: op("length", vector), lambda: op("cosine", vector, other),
                      lambda: op("length", self.grow((), depth, index))]  # fmt: skip
        if near := [x for x, count in index.items() if count == s]:
            rules += [lambda: Pick(vector, (Idx(self.one(*near)),))] * 3
        pairs = [
            (x, y)
            for x, a in index.items()
            for y, b in index.items()
            if a == "n" and b in ("n", "k", "d", "V")
        ]
        if pairs:
            x, y = self.one(*pairs)
            matrix = self.grow(("n", index[y]), depth, index)
            rules += [lambda: Pick(matrix, (Idx(x), Idx(y)))] * 3
        if not self.tame:
            rules += [
                lambda: op("argmax", vector),
                lambda: op("logsumexp", vector),
                lambda: op("log", op("sum", op("exp", vector))),
                lambda: op("rows", self.ref(self.one(*self.world.of_shape(("n", "d"))), {})),
                lambda: op("cross_entropy", self.grow(("n", "V"), depth - 1, index),
                           Ref(self.world.tokens), semi=1),
            ]  # fmt: skip
        return self.one(*rules)()


SHAPES: tuple[Shape, ...] = (
    (),
    ("d",),
    ("n",),
    ("k",),
    ("n", "d"),
    ("n", "k"),
    ("n", "n"),
    ("n", "V"),
    ("d", "d"),
    ("d", "k"),
    ("k", "d"),
    ("V", "d"),
)


@st.composite
def expressions(
    draw: st.DrawFn, world: World, tame: bool = False, depth: int = 4, free: str = "all"
) -> tuple[Expr, Shape]:
    """A formula over the world, and its shape.

    ``free`` says which letters are in force: those of blocks and heads, of heads, or 'none'.
    """
    index = {"all": {world.loop: "N", world.head: "H"}, "heads": {world.head: "H"}, "none": {}}[
        free
    ]
    shape = draw(st.sampled_from(SHAPES))
    grower = Grower(draw, world, tame)
    return grower.grow(shape, draw(st.integers(1, depth)), index), shape


# Weights ------------------------------------------------------------------------------------------


def random_weights(
    model: vt.Card, seed: int = 0, dtype: str = "float64", scale: float = 0.5
) -> dict[str, np.ndarray]:
    """Normal numbers for every weight of a model."""
    rng = np.random.default_rng(seed)
    return {
        name: (scale * rng.standard_normal(shape)).astype(dtype)
        for name, shape in parameter_shapes(model).items()
    }


def degenerate_weights(model: vt.Card, seed: int = 0) -> Iterator[dict[str, np.ndarray]]:
    """Weights that are zero, equal, huge, of one entry, of small whole numbers, and random."""
    rng = np.random.default_rng(seed)
    kinds: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
        lambda w: 0 * w, lambda w: 0 * w - 1, lambda w: 50 * w, lambda w: w,
        lambda w: np.where(np.arange(w.size).reshape(w.shape) == rng.integers(w.size), 40.0, 0),
        lambda w: np.broadcast_to(w[:1], w.shape), lambda w: np.round(2 * w),
    )  # fmt: skip
    for change in kinds:
        yield {name: change(w) for name, w in random_weights(model, seed, scale=1).items()}


# Cards --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """A random decoder: its Markdown, its model, and what is known of it.

    ``causal``: no position sees a later one. ``inputs`` are those besides the tokens.
    """

    text: str
    model: vt.Card
    causal: bool
    inputs: tuple[str, ...]
    has: frozenset[str]
    vocabulary: int
    seed: int

    def weights(self, dtype: str = "float64") -> dict[str, np.ndarray]:
        return random_weights(self.model, self.seed, dtype)

    def given(self, n: int = 5, batch: int | None = None) -> dict[str, Any]:
        """Tokens (under the name of the input) and whatever other inputs the card takes."""
        rng = np.random.default_rng(self.seed + 1)
        shape = (n,) if batch is None else (batch, n)
        out = {self.model.inputs[0].name: rng.integers(0, self.vocabulary, shape)}
        for name in self.inputs:
            out[name] = rng.integers(0, self.vocabulary if name == "y" else 2, shape)
            if name == "a":
                out[name][..., 0] = 1  # somebody must be seen
        return out


@st.composite
def cards(draw: st.DrawFn, causal: bool | None = None) -> Card:
    """A decoder card with a random choice of parts, as people write them by hand."""

    def maybe(*choices: Any) -> Any:
        return draw(st.sampled_from(choices))

    V, H, k = draw(st.integers(3, 7)), draw(st.integers(1, 3)), maybe(2, 4)
    blocks = draw(st.integers(0, 3))
    groups = maybe(False, False, True)
    positions = maybe("none", "learned", "sinusoidal", "rope", "alibi")
    mask = maybe("causal", "window") if causal else maybe("none", "causal", "window", "visible")
    norm = maybe("none", "pre", "post")
    kind = maybe("LN", "RMSNorm")
    gains = maybe("none", "scale", "both") if kind == "LN" else maybe("none", "scale")
    ε = maybe("", "1e-5", "ε")
    parallel = norm != "post" and maybe(False, True)
    activation = maybe("ReLU", "GELU", "GELU_tanh", "SiLU", "SwiGLU", "own", "none")
    biases, tied, joined = maybe(False, True), maybe(False, True), maybe(False, True)
    loss, stated, derived = maybe(False, True), maybe(False, True), maybe(False, True)
    looped = blocks > 0
    i, h = "^i" if looped else "", "h"
    block, heads = ("i," if looped else ""), ("g,r" if groups else "h")
    q_at = "^{" + block + heads + "}"
    k_at = "^{" + block + ("g" if groups else "h") + "}"
    ratio = maybe(1, 2) if groups else 1
    width = H * k * ratio

    dims = [("V", V, "vocabulary"), ("d", width, "width of the stream"), ("H", H * ratio, "heads")]
    dims += [("G", "$H / 2$" if ratio == 2 else "$H$", "groups")] if groups else []
    dims += [("d_k", "$d / H$", ""), ("d_f", maybe("$2 d$", 6), "width of the MLP")]
    dims += [("N", blocks, "blocks")] if looped else []
    dims += [("ε", "1e-3", "against division by zero")] if ε == "ε" else []
    dims += [("w", 2, "window")] if mask == "window" else []
    dims += [("ρ", "1/2" if k == 4 else 1, "share that rotates")] if positions == "rope" else []
    dims += [("n_{max}", 9, "context"), ("n", "$≤ n_{max}$", "length")]
    dims += (
        [("g", "$1, …, G$", ""), ("r", "$1, …, H / G$", "")] if groups else [("h", "$1, …, H$", "")]
    )

    parameters: list[tuple[str, str]] = [("E", "V × d")]
    if positions == "learned":
        parameters.append(("P", "n_{max} × d"))
    parameters += [(f"W_Q{q_at}", "d × d_k"), (f"W_K{k_at}, W_V{k_at}", "d × d_k")]
    joined = joined and not groups
    parameters.append((f"W_O{i}", "d × d") if joined else (f"W_O{q_at}", "d_k × d"))
    if biases:
        parameters += [(f"b_Q{q_at}", "d_k"), (f"b_O{i}", "d")]
    mlp = activation != "none"
    if mlp:
        parameters += [(f"W_1{i}", "d × d_f"), (f"W_2{i}", "d_f × d")]
        parameters += [(f"W_G{i}", "d × d_f")] if activation == "SwiGLU" else []
        parameters += [(f"b_1{i}", "d_f")] if biases and activation != "SwiGLU" else []

    def normed(x: str, name: str) -> str:
        """The norm of x, with the parameters it needs."""
        at = "" if name == "F" else i
        args = []
        if gains != "none":
            parameters.append((f"γ_{name}{at}", "d"))
            args.append(f"γ_{name}{at}")
        elif ε:
            args.append("1")
        if kind == "LN" and (gains == "both" or (ε and args)):
            if gains == "both":
                parameters.append((f"β_{name}{at}", "d"))
            args.append(f"β_{name}{at}" if gains == "both" else "0")
        args += [ε] if ε else []
        return f"{kind}({x}; {', '.join(args)})" if args else f"{kind}({x})"

    before, after = ("x^{i-1}", "x^i") if looped else ("x_0", "x_1")
    embed = {"learned": " + P[:n]", "sinusoidal": " + sinusoidal(n, d)"}.get(positions, "")
    equations: list[str] = []

    def say(line: str, meaning: str = "", shape: str = "") -> None:
        equations.append(f"1. ${line}$" + (f": {meaning}" if meaning else ""))
        if stated and shape:
            equations.append(f"   - Shape: ({shape})")

    start = "x^0" if looped else "x_0"
    equations += ["### Embedding", ""]
    say(f"{start} = E[t]{embed}", "the start of the stream", "n, d")
    if looped:
        equations += ["", "For $i = 1, …, N$:", ""]
    equations += ["", "### Attention", ""]
    read = before
    if norm == "pre":
        say(f"u{i} = {normed(before, 'A')}", shape="n, d")
        read = f"u{i}"
    turn = "RoPE({}; ρ)" if positions == "rope" else "{}"
    query = f"{read} W_Q{q_at}" + (f" + b_Q{q_at}" if biases else "")
    say(f"Q{q_at} = {turn.format(query)}", "what a position looks for", "n, d_k")
    say(f"K{k_at} = {turn.format(f'{read} W_K{k_at}')}")
    say(f"V{k_at} = {read} W_V{k_at}")
    scores = f"Q{q_at} {{K{k_at}}}^⊤" + maybe("", r" / \sqrt{d_k}")
    if positions == "alibi":
        scores = f"ALiBi({scores}; {'g' if groups else 'h'}, {'G' if groups else 'H'})"
    seen = {"none": "{}", "causal": "causal({})", "window": "window({}; w)",
            "visible": "visible({}; a)"}[mask]  # fmt: skip
    say(f"A{q_at} = softmax({seen.format(scores)})", "who attends to whom", "n, n")
    fold = r"\sum_g \sum_r" if groups else r"\sum_h"
    if joined:
        say(f"c{i} = concat_{h}(A{q_at} V{k_at})", shape="n, d")
        add = f"c{i} W_O{i}"
    else:
        add = f"{fold} A{q_at} V{k_at} W_O{q_at}"
    say(f"o{i} = {add}" + (f" + b_O{i}" if biases else ""), "what attention adds", "n, d")
    stream = before
    if not parallel:
        total = f"{before} + o{i}"
        say(f"s{i} = {normed(total, 'A') if norm == 'post' else total}")
        stream = f"s{i}"
    if mlp:
        equations += ["", "### MLP", ""]
        read = stream
        if norm == "pre":
            say(f"v{i} = {normed(stream, 'M')}")
            read = f"v{i}"
        bias = f" + b_1{i}" if biases else ""
        inner = {
            "SwiGLU": f"SwiGLU({read}; W_G{i}, W_1{i})", "own": f"bump({read} W_1{i}{bias})",
        }.get(activation, f"{activation}({read} W_1{i}{bias})")  # fmt: skip
        say(f"m{i} = {inner} W_2{i}", "what the MLP adds", "n, d")
        total = f"{stream} + m{i}" if not parallel else f"{before} + o{i} + m{i}"
    else:
        total = stream if not parallel else f"{before} + o{i}"
    say(f"{after} = {normed(total, 'M') if norm == 'post' and mlp else total}", "", "n, d")
    last = "x^N" if looped else "x_1"
    equations += ["", "### Unembedding", ""]
    final = normed(last, "F") if norm == "pre" else last
    if not tied:
        parameters.append(("W_U", "d × V"))
    say(f"logits = {final} {'{E}^⊤' if tied else 'W_U'}", "", "n, V")
    if loss:
        say("L = cross_entropy(logits; y)", "training loss")

    inputs = [r"$t ∈ \{0, …, V-1\}^n$: token ids"]
    inputs += [r"$y ∈ \{0, …, V-1\}^n$: targets"] if loss else []
    inputs += [r"$a ∈ \{0, 1\}^n = 1$: 1 where there is a token"] if mask == "visible" else []
    names = [] if not loss else ["y"]
    names += ["a"] if mask == "visible" else []

    text = ["# Random decoder", "", "A decoder drawn by chance.", "", "- **kind**: test", ""]
    text += ["## Dimensions", "", "| symbol | value | meaning |", "| --- | --- | --- |"]
    text += [f"| ${s}$ | {value} | {meaning} |" for s, value, meaning in dims]
    text += ["", "## Inputs", "", *(f"- {line}" for line in inputs)]
    text += ["", "## Parameters", "", "| symbol | shape |", "| --- | --- |"]
    text += [f"| ${s}$ | ${shape}$ |" for s, shape in parameters]
    if activation == "own":
        text += ["", "## Functions", "", "- $bump(z; s = 1/2) = z ⊙ exp(-s * z^2)$: a bump"]
    text += ["", "## Forward pass", "", *equations]
    if derived:
        text += [
            "",
            "## Derived",
            "",
            f"- $W_{{QK}}{q_at} = W_Q{q_at} {{W_K{k_at}}}^⊤$: the circuit",
        ]
        if looped:
            text += ["- $Δx^i = x^i - x^{i-1}$: a block's part", "", "## Claims", ""]
            text += ["- $x^N = x^0 + \\sum_{i=1}^{N} Δx^i$: it is a sum"]
        else:
            text += ["- $Δx = x_1 - x_0$: all but the start", "", "## Claims", ""]
            text += ["- $x_1 = x_0 + Δx$: it is a sum"]
    content = "\n".join(text) + "\n"
    has = frozenset(
        {positions, mask, norm, activation, kind}
        | ({"loop"} if looped else set())
        | ({"groups"} if groups else set())
        | ({"derived"} if derived else set())
    )
    return Card(content, vt.read(content), mask in ("causal", "window"), tuple(names), has, V,
                draw(st.integers(0, 999)))  # fmt: skip


# Shipped cards ------------------------------------------------------------------------------------


@cache
def shipped() -> tuple[str, ...]:
    """Paths of all cards that come with the program."""
    from pathlib import Path

    import viete.cards.reader as reader

    return tuple(map(str, sorted((Path(reader.__file__).parent / "shipped").glob("*.md"))))


# A size for every dimension of the shipped cards; a quarter of a head of 8 can still be turned.
SMALL = {
    "V": 11, "N_V": 11, "d": 16, "d_e": 16, "d_h": 16, "H": 2, "G": 1, "N": 2, "N_e": 2, "L": 2,
    "d_f": 12, "d_mlp": 12, "n_max": 9, "ell_max": 9, "T_max": 9, "d_k": 8, "w": 3, "E": 3,
    "N_P": 11, "n_b": 8, "D": 6,
}  # fmt: skip
AS_THEY_ARE = ("symbolic-transformer",)  # and those whose weights are written down


@cache
def tiny(path: str) -> vt.Card:
    """A shipped card with its dimensions made small."""
    from pathlib import Path

    from viete import read

    model = read(path)
    if Path(path).stem in AS_THEY_ARE or any(p.value.startswith("[") for p in model.parameters):
        return model
    whole = {d.name for d in model.dims if isinstance(d.value, Num)}
    return model.bind(**{
        d.name: SMALL[d.name] for d in model.dims
        if d.name in SMALL and (d.name != "d_k" or d.name in whole)
    })  # fmt: skip


def random_inputs(
    model: vt.Card, seed: int = 0, n: int = 5, batch: int | None = None
) -> dict[str, Any]:
    """A value for every input of a model; texts are ``n`` long where the card allows it."""
    rng = np.random.default_rng(seed)
    lengths = {}
    for k, (name, most) in enumerate(model.lengths.items()):
        size = model.size(most)
        assert size is not None
        lengths[name] = Fraction(min(n + k, int(size.evaluate(model.sizes))))
    out = {}
    for item in model.inputs:
        sizes = [model.size(e) for e in item.shape]
        shape = tuple(int(s.evaluate(model.sizes | lengths)) for s in sizes if s is not None)
        shape = shape if batch is None else (batch, *shape)
        low, high = (None if e is None else model.size(e) for e in (item.low, item.high))
        if low is None or high is None:
            out[item.name] = rng.standard_normal(shape)
            continue
        bounds = [int(x.evaluate(model.sizes)) for x in (low, high)]
        out[item.name] = rng.integers(bounds[0], bounds[1] + 1, shape)
        if item.name == "a":
            out[item.name][..., 0] = 1  # somebody must be seen
    return out


def with_rows_changed(card: vt.Card, seed: str) -> Iterator[tuple[str, int, vt.Card]]:
    """Cards with later rows of one member of a matrix doubled, and 1 added.

    With each come the member's name, and how many families the value has: of these it is the first.
    """
    types, ready, random = card.shapes.types, program(card), Random(seed)
    found = [e for e in card.equations if e.loop is not None and len(types[e.name].shape) == 2
             and types[e.name].kind == "real" and "partial" not in e.name]  # fmt: skip
    for e in random.sample(found, min(2, len(found))):
        assert e.loop is not None
        block = random.choice(ready.range_of(e.loop.index))
        name = member_name(e.left.symbol, {e.loop.index: block})
        heads = card.heads_of(e.left.symbol)
        first = "".join(f", {s} = {ready.range_of(s).start}" for s in heads)
        row = next(x for x in "jkuv" if x not in card.names)
        change = f"{name}_{row} = 2 {name}_{row} + 1 for {row} ≥ 1{first}"
        yield name, len(heads), card.put(change)
