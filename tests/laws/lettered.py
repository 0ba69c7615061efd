"""Random cards with several letters over one range, vectors of one number, and shifted reads."""

from __future__ import annotations

from random import Random

HEAD = r"""# Letters
## Dimensions
| symbol | value |
| --- | --- |
| $S$ | {S} |
| $d$ | {d} |
| $m$ | {m} |
| $s, q$ | $1, …, S$ |
| $r$ | $1, …, S$ |
## Parameters
| symbol | shape |
| --- | --- |
| $x$ | $m × d$ |
| $v$ | $d$ |
| $c$ | $m × 1$ |
| $R$ | $S × S$ |
| $z^s$ | $d$ |
| $G^q$ | $d × d$ |
| $P^{{s,q}}$ | $d$ |
## Forward pass
"""
NUMBER, ROW, MATRIX, COLUMN, SQUARE, ONE = "number", "d", "m × d", "m × 1", "d × d", "1"
OVER_S, OVER_D, OVER_M = ("s", "q", "r"), ("k", "l", "s"), ("j", "k", "q")


class Lettered:
    """Grows formulas in which letters are bound inside each other, also the same letter twice."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.sizes = {"S": self.one(1, 2, 3, 3), "d": self.one(1, 2, 3), "m": self.one(1, 2, 3)}
        self.values: list[tuple[str, str]] = []  # a family's name and the shape of its members
        self.range: dict[str, str] = {}  # of the letters bound here, by letter

    def one(self, *choices):
        return self.rng.choice(choices)

    def card(self) -> str:
        lines: list[str] = []
        for name in "ABC"[: self.one(1, 2, 3)]:
            slots = self.one((), ("s",), ("q",), ("s", "q"), ("r",))
            shape = self.one(NUMBER, ROW, ROW, MATRIX, COLUMN, SQUARE)
            self.range = {x: "S" for x in slots}
            right = self.grow(shape, 3)
            for x in slots:
                if x not in right:
                    right = f"{x} * ({right})"
            index = "^{" + ",".join(slots) + "}" if slots else ""
            lines.append(f"{name}{index} = {right}")
            self.values.append((name + "^" * bool(slots) + "@" * len(slots), shape))
        self.range = {}
        total = [f"tanh({self.total(name, shape)})" for name, shape in self.values]
        total.append(f"tanh({self.grow(NUMBER, 3)})")
        lines.append("L = " + " + ".join(total))
        return HEAD.format(**self.sizes) + "".join(f"1. ${x}$\n" for x in lines)

    def total(self, name: str, shape: str) -> str:
        """All of a family's entries in one number."""
        letters = self.rng.sample(OVER_S, name.count("@"))
        e = self.at(name, letters)
        e = {NUMBER: e, ROW: f"<{e}, cos(v)>"}.get(shape, f"sum(cos({e})_0)")
        for x in letters:
            e = f"{self.fold('S', x)}({x} * {e})"
        return e

    def at(self, name: str, index: list[str]) -> str:
        return f"{name.partition('^')[0]}^{{{','.join(index)}}}" if "@" in name else name

    def letter(self, size: str) -> str:
        """An index of a family: a letter that is bound here, or a number."""
        bound = [x for x, of in self.range.items() if of == size]
        return self.one(*bound, *bound, *bound, "1" if size == "S" else "0")

    def place(self, size: str) -> str:
        """A place of an axis: a letter that is bound here, shifted where it counts from 1."""
        x = self.letter(size)
        if size == "S":
            return "0" if x == "1" else f"{x} - 1"
        return x

    def fold(self, size: str, letter: str) -> str:
        op = self.one(r"\sum", r"\sum", "mean")
        if size == "S" and self.rng.random() < 0.7:
            return f"{op}_{letter}"
        first, last = ("1", "S") if size == "S" else ("0", f"{size}-1")
        return f"{op}_{{{letter}={first}}}^{{{last}}}"

    def bound(self, size: str, letters: tuple[str, ...], shape: str, depth: int) -> tuple[str, str]:
        """A letter and a formula that is below its binder, and varies with it."""
        letter, outer = self.one(*letters), self.range
        if size != "S" and letter in "sq" and letter in outer:
            letter = letters[0]
        self.range = {**outer, letter: size}
        body = self.grow(shape, depth)
        self.range = outer
        return letter, f"{letter} * ({body})"

    def grow(self, shape: str, depth: int) -> str:
        own = {
            NUMBER: [lambda: f"R_{{{self.place('S')},{self.place('S')}}}",
                     lambda: f"v_{{{self.place('d')}}}",
                     lambda: f"x_{{{self.place('m')},{self.place('d')}}}",
                     lambda: f"{self.family('P', 2)}_{{{self.place('d')}}}"],
            ROW: [lambda: "v", lambda: f"x_{{{self.place('m')}}}", lambda: self.family("z", 1),
                  lambda: self.family("z", 1), lambda: self.family("P", 2)],
            MATRIX: [lambda: "x"], COLUMN: [lambda: "c"], SQUARE: [lambda: self.family("G", 1)],
            ONE: [lambda: f"c_{{{self.place('m')}}}"],
        }[shape]  # fmt: skip
        for name, of in self.values:
            if of == shape:
                own.append(lambda name=name: self.family(name, name.count("@")))
        if depth <= 0:
            return self.one(*own)()
        rules = {NUMBER: self.number, ROW: self.row, MATRIX: self.matrix, COLUMN: self.column,
                 SQUARE: self.square, ONE: self.single}[shape](depth - 1)  # fmt: skip
        rules += [
            lambda: f"tanh({self.grow(shape, depth - 1)})",
            lambda: f"({self.grow(shape, depth - 1)} + {self.narrow(shape, depth - 1)})",
            lambda: f"({self.grow(shape, depth - 1)} ⊙ {self.narrow(shape, depth - 1)})",
            lambda: f"({self.narrow(shape, depth - 1)} ⊙ {self.grow(shape, depth - 1)})",
            lambda: f"({self.grow(shape, depth - 1)} / (2 + {self.narrow(shape, depth - 1)}^2))",
            lambda: self.folded("S", OVER_S, shape, depth - 1),
            lambda: self.folded("S", OVER_S, shape, depth - 1),
            lambda: self.folded(*self.one(("d", OVER_D), ("m", OVER_M)), shape, depth - 1),
            lambda: self.where(shape, depth - 1),
            self.one(*own),
        ]
        return self.one(*rules)()

    def family(self, name: str, letters: int) -> str:
        index = [self.letter("S") for _ in range(letters)]
        return f"{name.partition('^')[0]}^{{{','.join(index)}}}" if letters else name

    def folded(self, size: str, letters: tuple[str, ...], shape: str, depth: int) -> str:
        letter, body = self.bound(size, letters, shape, depth)
        return f"({self.fold(size, letter)}({body}))"

    def where(self, shape: str, depth: int) -> str:
        a = self.letter("S")
        test = f"{a} {self.one('<', '≤', '=', '≠')} {self.letter('S')}"
        return f"where({test}, {self.grow(shape, depth)}, {self.narrow(shape, depth)})"

    def narrow(self, shape: str, depth: int) -> str:
        """A formula that is repeated to this shape."""
        wider = {ROW: (NUMBER, ONE), MATRIX: (NUMBER, ROW, COLUMN), COLUMN: (NUMBER, ONE),
                 SQUARE: (NUMBER, ROW), ONE: (NUMBER,), NUMBER: ()}[shape]  # fmt: skip
        return self.grow(self.one(shape, *wider), depth)

    # What makes each shape ------------------------------------------------------------------------

    def number(self, depth: int) -> list:
        return [
            lambda: f"sum({self.grow(self.one(ROW, ONE), depth)})",
            lambda: f"logsumexp({self.grow(ROW, depth)})",
            lambda: f"mean({self.grow(self.one(ROW, ONE), depth)})",
            lambda: f"<{self.grow(ROW, depth)}, {self.grow(ROW, depth)}>",
            lambda: f"({self.grow(ROW, depth)})_{{{self.place('d')}}}",
        ]

    def single(self, depth: int) -> list:
        return [
            lambda: f"({self.grow(COLUMN, depth)})_{{{self.place('m')}}}",
            lambda: f"mean({self.grow(MATRIX, depth)})_{{{self.place('m')}}}",
            lambda: f"sum({self.grow(MATRIX, depth)})_{{{self.place('m')}}}",
        ]

    def row(self, depth: int) -> list:
        def table() -> str:
            letter, body = self.bound("d", OVER_D, NUMBER, depth)
            return f"table_{{{letter}<d}}({body})"

        return [
            table, table, lambda: f"softmax({self.grow(ROW, depth)})",
            lambda: f"({self.grow(ROW, depth)}) ({self.grow(SQUARE, depth)})",
            lambda: f"({self.grow(MATRIX, depth)})_{{{self.place('m')}}}",
        ]  # fmt: skip

    def matrix(self, depth: int) -> list:
        def table() -> str:
            letter, body = self.bound("m", OVER_M, ROW, depth)
            outer, self.range = self.range, {**self.range, letter: "m", "p": "d"}
            inner = self.grow(NUMBER, depth)
            self.range = outer
            return f"table_{{{letter}<m, p<d}}(p * {letter} * {inner} + ({body})_p)"

        return [
            table, lambda: f"({self.grow(MATRIX, depth)}) ({self.grow(SQUARE, depth)})",
            lambda: f"softmax({self.grow(MATRIX, depth)})",
        ]  # fmt: skip

    def column(self, depth: int) -> list:
        def table() -> str:
            a, b = self.grow(NUMBER, depth), self.grow(COLUMN, depth)
            return f"table_{{j<m, k<1}}(j * {a} + ({b})_{{j,0}})"

        op = self.one("mean", "sum", "logsumexp")
        return [table, lambda: f"{op}({self.grow(MATRIX, depth)})"]

    def square(self, depth: int) -> list:
        return [lambda: f"({self.grow(MATRIX, depth)})^⊤ ({self.grow(MATRIX, depth)})",
                lambda: f"({self.grow(SQUARE, depth)})^⊤"]  # fmt: skip


def lettered(seed: int) -> str:
    return Lettered(seed).card()
