"""Translates Python expressions, as the lowering writes them, into JavaScript.

An expression that is known to be a number uses JavaScript's operators. All others call array
functions, which accept numbers too.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from viete.code.javascript.array_library import ALIASES, functions
from viete.errors import VieteError

# JavaScript's binding strengths, loose to tight.
CHOICE, OR, AND, COMPARE, ADD, MUL, UNARY, POWER, ATOM = range(1, 10)
RESERVED = frozenset(
    "abstract arguments Array async await boolean break byte case catch char class const "
    "continue debugger default delete do double else enum Error eval export extends false final "
    "finally float Float64Array for function get given goto if implements import in Infinity "
    "instanceof int Int32Array interface let long Math NaN native new null Number Object of "
    "package params private protected public return set short static String super switch "
    "synchronized this throw throws transient true try typeof undefined var void volatile while "
    "with yield".split()
)
NATIVE = {
    ast.Add: (ADD, "+"), ast.Sub: (ADD, "-"), ast.Mult: (MUL, "*"), ast.Div: (MUL, "/"),
    ast.Pow: (POWER, "**"), ast.Lt: (COMPARE, "<"), ast.LtE: (COMPARE, "<="),
    ast.Gt: (COMPARE, ">"), ast.GtE: (COMPARE, ">="), ast.Eq: (COMPARE, "==="),
    ast.NotEq: (COMPARE, "!=="), ast.BitAnd: (AND, "&&"), ast.BitOr: (OR, "||"),
}  # fmt: skip
CALLED = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "power",
    ast.Mod: "mod", ast.FloorDiv: "quotient", ast.MatMult: "matmul", ast.BitAnd: "logical_and",
    ast.BitOr: "logical_or", ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater",
    ast.GtE: "greater_equal", ast.Eq: "equal", ast.NotEq: "not_equal",
}  # fmt: skip
MATH = {"inf": "Infinity", "pi": "Math.PI", "erf": "erf"}
ON_NUMBERS = {"int": "Math.trunc", "float": "Number", "max": "Math.max", "min": "Math.min",
              "abs": "Math.abs"}  # fmt: skip


@dataclass(frozen=True)
class Js:
    """An expression of JavaScript, its binding strength, and whether it is certainly a number."""

    text: str
    level: int = ATOM
    number: bool = False

    def at(self, level: int) -> str:
        """The text, in parentheses if a tighter binding is needed."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass
class Expressions:
    """Translates the expressions of a function.

    ``dimensions`` are the names of the card's numbers and what the card calls them, ``by_block``
    those of values and parameters with an entry for each block; ``comments`` are the lines of the
    Python that are one. ``used`` collects the functions of arrays that are called.
    """

    dimensions: Mapping[str, str]
    by_block: Set[str]
    comments: Mapping[int, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    numbers: set[str] = field(default_factory=set)  # the names of numbers of the function at hand
    asked: set[str] = field(default_factory=set)  # the dimensions that it uses
    hidden: set[str] = field(default_factory=set)  # what a function has names of its own for
    declared: set[str] = field(default_factory=set)  # the names that it need not declare again

    def of(self, e: ast.expr) -> Js:
        """The translation of an expression."""
        match e:
            case ast.Constant(None):
                return Js("null")
            case ast.Constant(str(text)):
                return Js(quoted(text))
            case ast.Constant(bool(value)):
                return Js("true" if value else "false")
            case ast.Constant(value):
                return Js(repr(value), number=True)
            case ast.Name(name):
                self.asked |= {name} & (self.dimensions.keys() - self.hidden)
                return Js(self.name(name), number=name in self.numbers)
            case ast.UnaryOp(ast.Not(), x):
                return Js(f"!{self.of(x).at(UNARY)}", UNARY, True)
            case ast.UnaryOp(_, x):
                code = self.of(x)
                if code.number:
                    return Js(f"-{code.at(POWER)}", UNARY, True)
                return self.call("negative", [code])
            case ast.BinOp(a, op, b):
                return self.combined(op, self.of(a), self.of(b))
            case ast.Compare(a, [ast.Is()], [ast.Constant(None)]):
                return Js(f"{self.of(a).at(COMPARE)} === null", COMPARE)
            case ast.Compare(a, [op], [b]):
                return self.combined(op, self.of(a), self.of(b))
            case ast.BoolOp(op, values):
                level, sign = (OR, "||") if isinstance(op, ast.Or) else (AND, "&&")
                return Js(f" {sign} ".join(self.of(x).at(level + 1) for x in values), level)
            case ast.IfExp(test, yes, no):
                first, second = self.of(yes), self.of(no)
                text = f"{self.of(test).at(OR)} ? {first.at(OR)} : {second.text}"
                return Js(text, CHOICE, first.number and second.number)
            case ast.Tuple(items) | ast.List(items):
                return Js(f"[{self.listed(items)}]")
            case ast.Starred(x):
                return Js(f"...{self.of(x).at(ATOM)}")
            case ast.JoinedStr(parts):
                return Js(self.template(parts))
            case ast.Dict(keys, values):
                pairs = [f"[{self.of(k).text}]: {self.of(v).text}"
                         for k, v in zip(keys, values, strict=True) if k]  # fmt: skip
                return Js(f"{{{', '.join(pairs)}}}")
            case ast.DictComp(key, value, generators):
                return self.by_blocks(key, value, generators)
            case ast.ListComp(x, [g]) | ast.GeneratorExp(x, [g]):
                return Js(self.mapped(x, g))
            case ast.Attribute(x, name):
                return self.attribute(x, name)
            case ast.Subscript(x, place):
                return self.subscript(x, place)
            case ast.Call():
                return self.called(e)
        raise untranslated(ast.unparse(e))

    def listed(self, items: Iterable[ast.expr]) -> str:
        return ", ".join(self.of(x).text for x in items)

    def combined(self, op: ast.operator | ast.cmpop, a: Js, b: Js) -> Js:
        """Two operands under an operator: JavaScript's own if both are numbers."""
        if a.number and b.number:
            if isinstance(op, ast.FloorDiv):
                return Js(f"Math.floor({self.native(ast.Div(), a, b).text})", number=True)
            if type(op) in NATIVE:
                return self.native(op, a, b)
        return self.call(CALLED[type(op)], [a, b], a.number and b.number)

    def native(self, op: ast.operator | ast.cmpop, a: Js, b: Js) -> Js:
        level, sign = NATIVE[type(op)]
        left = a.at(ATOM) if level == POWER else a.at(level)  # -2 ** 2 is not JavaScript
        return Js(f"{left} {sign} {b.at(level + 1)}", level, True)

    def attribute(self, x: ast.expr, name: str) -> Js:
        match x, name:
            case ast.Name("math"), _:
                return Js(MATH[name], number=True)
            case _, "T" | "mT":
                return self.call("transposed", [self.of(x)])
        return Js(f"{self.of(x).at(ATOM)}.{name}")

    def subscript(self, x: ast.expr, place: ast.expr) -> Js:
        """A length from a shape, a block's member from a dictionary, or entries of an array."""
        match x, place:
            case ast.Attribute(_, "shape"), ast.Slice(a, b, None):
                bounds = [self.of(k).text if k else "0" for k in ([a, b] if b else [a])]
                return Js(f"{self.of(x).text}.slice({', '.join(bounds)})")
            case ast.Attribute(_, "shape"), _:
                return Js(f"{self.of(x).text}.at({self.of(place).text})", number=True)
            case ast.Call(ast.Attribute(_, "broadcast_arrays")), _:
                return Js(f"{self.of(x).text}[{self.of(place).text}]")
            case ast.Name("weights"), _ if "weights" not in self.hidden:
                return self.call("weight", [Js("weights"), self.of(place)])
            case ast.Name(name), _ if name in self.by_block - self.hidden:
                return Js(f"{self.name(name)}[{self.of(place).text}]")
        items = place.elts if isinstance(place, ast.Tuple) else [place]
        return self.call("pick", [self.of(x), *map(self.item, items)])

    def item(self, e: ast.expr) -> Js:
        """The index of one axis."""
        match e:
            case ast.Slice(None, None):
                return Js('":"')
            case ast.Slice(a, b):
                return Js(f"[{', '.join(self.of(k).text if k else 'null' for k in (a, b))}]")
            case ast.Constant(value) if value is ...:
                return Js('"..."')
        return self.of(e)

    def called(self, e: ast.Call) -> Js:
        args = [self.of(a) for a in e.args]
        named = {k.arg: k.value for k in e.keywords}
        match e.func:
            case ast.Name("dict"):
                pairs = [f"{self.property(k or '', self.of(v).text)}" for k, v in named.items()]
                return Js(f"{{{', '.join(pairs)}}}")
            case ast.Name("len"):
                return Js(f"{args[0].at(ATOM)}.shape[0]", number=True)
            case ast.Name("range"):
                return self.call("range", args)
            case ast.Name("sum"):
                return Js(f"{args[0].text}.reduce({self.call_name('add')}, 0)")
            case ast.Name(name) if name in ON_NUMBERS:
                return Js(f"{ON_NUMBERS[name]}({', '.join(a.text for a in args)})", number=True)
            case ast.Attribute(ast.Name("math"), "erf"):
                return self.call("erf", args, True)
            case ast.Attribute(ast.Name("math"), name) if args[0].number:
                return Js(f"Math.{name}({args[0].text})", number=True)
            case ast.Attribute(ast.Name("math" | "np"), name):
                args += [self.of(v) for v in named.values() if ast.unparse(v) != "float"]
                return self.call(name, args)
            case ast.Attribute(ast.Name("rng"), name):
                return Js(f"rng.{name}({', '.join(a.text for a in args)})")
            case ast.Attribute(x, "astype"):
                code = self.of(x)
                return Js(f"Number({code.text})", number=True) if code.number else code
            case ast.Attribute(x, "copy"):
                return self.of(x)
            case ast.Attribute(x, "reshape"):
                return self.call(
                    "reshape", [self.of(x), Js(f"[{', '.join(a.text for a in args)}]")]
                )
            case ast.Attribute(x, name):
                return self.call(name, [self.of(x), *args, *map(self.of, named.values())])
            case ast.Name(name):
                args += [Js(f"/* {k} */ {self.of(v).text}") for k, v in named.items()]
                return Js(f"{self.name(name)}({', '.join(a.text for a in args)})")
        raise untranslated(ast.unparse(e))

    def call(self, name: str, args: Iterable[Js], number: bool = False) -> Js:
        """A call of an array function."""
        return Js(f"{self.call_name(name)}({', '.join(a.text for a in args)})", number=number)

    def call_name(self, name: str) -> str:
        name = ALIASES.get(name, name)
        if name not in functions():
            raise untranslated(name)
        self.used.add(name)
        return name

    def mapped(self, x: ast.expr, g: ast.comprehension) -> str:
        """A list with an entry for each block, or for each of several arrays."""
        assert isinstance(g.target, ast.Name)
        before = set(self.numbers)
        self.numbers.add(g.target.id)
        letter, value = self.name(g.target.id), self.of(x).text
        self.numbers = before
        return f"{self.of(g.iter).text}.map(({letter}) => {value})"

    def by_blocks(
        self, key: ast.expr, value: ast.expr, generators: Sequence[ast.comprehension]
    ) -> Js:
        """``{i: … for i in range(…)}``: an object with an entry for each block."""
        pairs: ast.expr = ast.List([key, value])
        for g in reversed(generators):
            pairs = ast.ListComp(pairs, [g])
        flat = f".flat({len(generators) - 1})" if len(generators) > 1 else ""
        return Js(f"Object.fromEntries({self.of(pairs).text}{flat})")

    # -- names and texts ---------------------------------------------------------------------------

    def name(self, name: str) -> str:
        """A Python name; JavaScript's reserved words and names of array functions get a $."""
        return f"{name}$" if name in RESERVED or name in functions() else name

    def property(self, name: str, value: str = "") -> str:
        """A property of an object, and its value."""
        value = value or self.name(name)
        key = name if re.fullmatch(r"[^\W\d]\w*", name) else quoted(name)
        return name if value == name else f"{key}: {value}"

    def template(self, parts: Sequence[ast.expr]) -> str:
        out = ""
        for x in parts:
            if isinstance(x, ast.FormattedValue):
                out += f"${{{self.of(x.value).text}}}"
            elif isinstance(x, ast.Constant):
                out += str(x.value).replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${")
        return f"`{out}`"


def untranslated(python: str) -> VieteError:
    """The error for Python code without a translation."""
    return VieteError(
        f"this card cannot be exported as JavaScript, which lacks {python}; export it to numpy"
    )


def quoted(text: str) -> str:
    """A string."""
    return json.dumps(text, ensure_ascii=False)
