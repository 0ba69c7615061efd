"""Python as the lowering writes it, in JavaScript: statements with their comments, expressions.

The lowering's Python is a small part of the language: names, arithmetic, brackets, NumPy's
functions and methods, loops over blocks. What is known to be a number is computed with
JavaScript's own signs; all else with functions of arrays, which take numbers too.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from viete.code.javascript.array_library import ALIASES, functions
from viete.code.layout import STEP, statement

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
    """An expression of JavaScript, how strongly it binds, and whether it is surely a number."""

    text: str
    level: int = ATOM
    number: bool = False

    def at(self, level: int) -> str:
        """The text, in parentheses where a tighter level is asked for."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass
class ScriptPrinter:
    """Python's functions in JavaScript.

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

    # -- functions and statements ------------------------------------------------------------------

    def function(self, node: ast.FunctionDef, export: bool, parameters: bool) -> list[str]:
        """A function; with ``parameters`` it takes those, by name, and the dimensions, last."""
        body, said = node.body, ast.get_docstring(node)
        outer, arguments = hoisted(body), {a.arg for a in node.args.args}
        self.declared, self.asked = outer | arguments, set()
        # What a function calls its own hides a dimension or a value of blocks of that name.
        self.hidden = set() if export or parameters else arguments | assigned_names(body)
        self.numbers = set(self.dimensions) - self.hidden
        lines = self.block(body[1:] if said else body, body[0].end_lineno or 0, 1)
        if outer - arguments:
            lines = [f"{STEP}let {', '.join(map(self.name, sorted(outer - arguments)))};", *lines]
        first = len(node.args.args) - len(node.args.defaults)
        signature = [self.name(a.arg) for a in node.args.args[:first]]
        for a, default in zip(node.args.args[first:], node.args.defaults, strict=True):
            signature.append(f"{self.name(a.arg)} = {self.of(default).text}")
        if parameters:
            names = [a.arg for a in node.args.kwonlyargs]
            signature.append(f"{{{', '.join(map(self.property, names))}}}")
        signature += ["given"] if self.asked or parameters else []
        lines = [*self.sizes_taken(), *lines]
        head = statement(
            f"{'export ' * export}function {self.name(node.name)}({', '.join(signature)}) {{"
        )
        return [*(documented(said) if said else []), *head, *lines, "}"]

    def sizes_taken(self) -> list[str]:
        """The line that brings the dimensions that were asked for."""
        asked = [self.size(x) for x in self.dimensions if x in self.asked]
        return (
            statement(f"const {{{', '.join(asked)}}} = dimensions(given)", 1, ";") if asked else []
        )

    def size(self, name: str) -> str:
        """A dimension, by its name in the card."""
        return self.property(self.dimensions[name], self.name(name))

    def dimensions_function(self, sizes: Sequence[str]) -> list[str]:
        """A function of the dimensions, of lines of Python in which each comes after its own."""
        self.numbers, names, rows = set(self.dimensions), list[str](), list[str]()
        for line in sizes:
            code, _, meaning = line.partition("  # ")
            match ast.parse(code).body[0]:
                case ast.Assign([ast.Name(name)], value):
                    said = f"  // {one_line(meaning)}" if meaning else ""
                    rows.append(f"{STEP}{self.size(name)} = {self.of(value).text},{said}")
                    names.append(self.size(name))
        said = "The dimensions of the card; what is given takes the place of its numbers."
        closing = statement(f"return {{{', '.join(names)}}}", 1, ";")
        return [
            *documented(said),
            "export function dimensions({",
            *rows,
            "} = {}) {",
            *closing,
            "}",
        ]

    def block(self, body: Sequence[ast.stmt], above: int, depth: int) -> list[str]:
        """Statements, each below the comments that stand above it in the Python."""
        out = []
        for node in body:
            for line in range(above + 1, node.lineno):
                if line in self.comments:
                    out.append(f"{STEP * depth}//{one_line(self.comments[line])}")
            out += self.statement(node, depth)
            above = node.end_lineno or node.lineno
        return out

    def statement(self, node: ast.stmt, depth: int) -> list[str]:
        match node:
            case ast.Assign([target], value):
                return statement(self.assigned(target, value), depth, ";")
            case ast.Return(ast.Tuple(items)):
                return statement(f"return [{self.listed(items)}]", depth, ";")
            case ast.Return(value) if value is not None:
                return statement(f"return {self.of(value).text}", depth, ";")
            case ast.If(test, body, []):
                inner = self.block(body, node.lineno, depth + 1)
                head = f"if ({self.of(test).text}) {{"
                return [*statement(head, depth), *inner, f"{STEP * depth}}}"]
            case ast.For(ast.Name(letter), span, body, []):
                self.numbers.add(letter)
                head = f"{STEP * depth}for ({self.turns(self.name(letter), span)}) {{"
                return [head, *self.block(body, node.lineno, depth + 1), f"{STEP * depth}}}"]
            case ast.Raise(ast.Call(_, [said])):
                return statement(f"throw new Error({self.of(said).text})", depth, ";")
        raise NotImplementedError(ast.unparse(node))

    def turns(self, letter: str, span: ast.expr) -> str:
        """The head of a loop over blocks, upwards or down."""
        match span:
            case ast.Call(ast.Name("reversed"), [ast.Call(_, [low, high])]):
                first = self.native(ast.Sub(), self.of(high), Js("1", number=True))
                return f"let {letter} = {first.text}; {letter} >= {self.of(low).text}; {letter}--"
            case ast.Call(_, [low, high]):
                end = f"< {self.of(high).text}"
                if isinstance(high, ast.BinOp) and ast.unparse(high).endswith(" + 1"):
                    end = f"<= {self.of(high.left).text}"
                return f"let {letter} = {self.of(low).text}; {letter} {end}; {letter}++"
        raise NotImplementedError(ast.unparse(span))

    def assigned(self, target: ast.expr, value: ast.expr) -> str:
        match target, value:
            case ast.Name(name), _:
                code = self.of(value)
                self.numbers |= {name} if code.number else set()
                return f"{self.declaration(name)}{self.name(name)} = {code.text}"
            case ast.Tuple(names), ast.Tuple(values):
                each = zip(names, values, strict=True)
                return "const " + ", ".join(
                    f"{self.of(a).text} = {self.of(b).text}" for a, b in each
                )
            case ast.Tuple(names), ast.Name(record):  # the values of a run, by name
                inner = ", ".join(self.property(x.id) for x in names if isinstance(x, ast.Name))
                return f"const {{{inner}}} = {record}"
            case ast.Tuple(names), _:
                self.numbers |= {x.id for x in names if isinstance(x, ast.Name)}  # lengths
                return f"const [{self.listed(names)}] = {self.of(value).text}"
        return f"{self.of(target).text} = {self.of(value).text}"

    def declaration(self, name: str) -> str:
        return "" if name in self.declared else "const "

    # -- expressions -------------------------------------------------------------------------------

    def of(self, e: ast.expr) -> Js:
        """An expression."""
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
        raise NotImplementedError(ast.unparse(e))

    def listed(self, items: Iterable[ast.expr]) -> str:
        return ", ".join(self.of(x).text for x in items)

    def combined(self, op: ast.operator | ast.cmpop, a: Js, b: Js) -> Js:
        """Two operands under a sign: JavaScript's own where both are numbers."""
        if a.number and b.number:
            if isinstance(op, ast.FloorDiv):
                return Js(f"Math.floor({self.native(ast.Div(), a, b).text})", number=True)
            if type(op) in NATIVE:
                return self.native(op, a, b)
        return self.call(CALLED[type(op)], [a, b], a.number and b.number)

    def native(self, op: ast.operator | ast.cmpop, a: Js, b: Js) -> Js:
        level, sign = NATIVE[type(op)]
        left = a.at(ATOM) if level == POWER else a.at(level)  # -2 ** 2 is no JavaScript
        return Js(f"{left} {sign} {b.at(level + 1)}", level, True)

    def attribute(self, x: ast.expr, name: str) -> Js:
        match x, name:
            case ast.Name("math"), _:
                return Js(MATH[name], number=True)
            case _, "T" | "mT":
                return self.call("transposed", [self.of(x)])
        return Js(f"{self.of(x).at(ATOM)}.{name}")

    def subscript(self, x: ast.expr, place: ast.expr) -> Js:
        """A length out of a shape, a block's member out of all, or entries of an array."""
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
        """What stands in brackets for one axis."""
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
        raise NotImplementedError(ast.unparse(e))

    def call(self, name: str, args: Iterable[Js], number: bool = False) -> Js:
        """A call of a function of arrays."""
        return Js(f"{self.call_name(name)}({', '.join(a.text for a in args)})", number=number)

    def call_name(self, name: str) -> str:
        name = ALIASES.get(name, name)
        if name not in functions():
            raise NotImplementedError(name)
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
        """A name of the Python; JavaScript's own and those of functions of arrays get a $."""
        return f"{name}$" if name in RESERVED or name in functions() else name

    def property(self, name: str, value: str = "") -> str:
        """A name of an object, and what it stands for."""
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


def assigned_names(body: Sequence[ast.stmt]) -> set[str]:
    """The names that statements set."""
    return {x.id for node in body for x in ast.walk(node)
            if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}  # fmt: skip


def hoisted(body: Sequence[ast.stmt]) -> set[str]:
    """Names that are set in a loop, or more than once: they live as long as in the Python."""
    once, more = set[str](), set[str]()
    for node in body:
        inside = (
            [x for n in node.body for x in ast.walk(n)] if isinstance(node, ast.For) else [node]
        )
        for x in inside:
            if isinstance(x, ast.Assign) and isinstance(x.targets[0], ast.Name):
                name = x.targets[0].id
                (more if name in once or isinstance(node, ast.For) else once).add(name)
    return more


def quoted(text: str) -> str:
    """A string."""
    return json.dumps(text, ensure_ascii=False)


def one_line(text: str) -> str:
    """A comment's text; some of Unicode's signs would end its line."""
    return " ".join(text.splitlines())


def documented(text: str) -> list[str]:
    """A docstring as a comment above a function."""
    lines = text.replace("*/", "*∕").splitlines()
    if len(lines) == 1:
        return [f"/** {lines[0]} */"]
    return ["/**", *(f" * {line}".rstrip() for line in lines), " */"]


def comments_of(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The lines of Python that are a comment, by number, without the sign."""
    for k, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            yield k, line.lstrip()[1:]
