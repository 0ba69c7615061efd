"""A NumPy program in JavaScript: functions and statements, with the comments above them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from viete.code.javascript.expressions import Expressions, Js, untranslated
from viete.code.layout import STEP, statement


class ScriptPrinter(Expressions):
    """Python's functions in JavaScript."""

    # -- functions and statements ------------------------------------------------------------------

    def function(self, node: ast.FunctionDef, export: bool, parameters: bool) -> list[str]:
        """A function; ``parameters`` are passed by name, the dimensions last."""
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
        """The line that unpacks the dimensions that were used."""
        asked = [self.size(x) for x in self.dimensions if x in self.asked]
        return (
            statement(f"const {{{', '.join(asked)}}} = dimensions(given)", 1, ";") if asked else []
        )

    def size(self, name: str) -> str:
        """A dimension, by its name in the card."""
        return self.property(self.dimensions[name], self.name(name))

    def dimensions_function(self, sizes: Sequence[str]) -> list[str]:
        """A function that computes the dimensions, from ordered lines of Python."""
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
        """Statements, each below its comments from the Python."""
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
        raise untranslated(ast.unparse(node))

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
        raise untranslated(ast.unparse(span))

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


def assigned_names(body: Sequence[ast.stmt]) -> set[str]:
    """The names that statements set."""
    return {x.id for node in body for x in ast.walk(node)
            if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}  # fmt: skip


def hoisted(body: Sequence[ast.stmt]) -> set[str]:
    """Names that are set in a loop or more than once; they are declared at the function's top."""
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


def one_line(text: str) -> str:
    """A comment's text without the Unicode characters that would end its line."""
    return " ".join(text.splitlines())


def documented(text: str) -> list[str]:
    """A docstring as a comment above a function."""
    lines = text.replace("*/", "*∕").splitlines()
    if len(lines) == 1:
        return [f"/** {lines[0]} */"]
    return ["/**", *(f" * {line}".rstrip() for line in lines), " */"]


def comments_of(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The comment lines of a Python source, by number, without the #."""
    for k, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            yield k, line.lstrip()[1:]
