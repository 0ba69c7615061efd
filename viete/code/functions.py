"""The named functions that a file needs, as small functions at its top.

A function is generated from its definition, or taken from `idioms` where people write it in a
particular way. A function that the library provides is called directly (`dialects`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources

from viete.analysis.kinds import REAL
from viete.analysis.shapes import Shapes
from viete.analysis.types import Type, TypeEnv
from viete.code.dialects import HELPERS, Dialect
from viete.code.expression import LEAD, Axes, Code, CodeEnv, CodeLetter, core_of
from viete.code.identifiers import Identifiers, plain
from viete.code.layout import docstring, statement
from viete.code.lowering import Lowering
from viete.errors import VieteError
from viete.graph.card import CardData
from viete.graph.sizes import Size
from viete.library.functions import Function
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Ref, Table, num, walk

IDIOMS = {
    "numpy": ("idioms_any.py", "idioms.py"),
    "jax": ("idioms_any.py", "idioms.py", "idioms_jax.py"),
    "torch": ("idioms_any.py", "idioms_torch.py"),
}


@cache
def idioms(dialect: str) -> dict[str, str]:
    """The source of a library's hand-written functions, by name."""
    out: dict[str, str] = {}
    for file in IDIOMS[dialect]:
        text = resources.files("viete.code").joinpath(file).read_text("utf-8")
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                start = node.body[0].lineno - node.lineno  # of the docstring
                head = ast.unparse(node.args)
                head = re.sub(r": (?:Array|bool|int|float|str)\b", "", head)
                rest = source.split("\n")[start:]
                out[node.name] = "\n".join([f"def {node.name}({head}):", *rest])
    return out


class Functions:
    """The functions written so far, in the order in which the file needs them."""

    def __init__(
        self, card: CardData, dialect: Dialect, names: Identifiers, shapes: Shapes
    ) -> None:
        self.card, self.dialect, self.names, self.shapes = card, dialect, names, shapes
        self.written: dict[str, list[str]] = {}  # by the name in the file
        self.known: dict[object, str] = {}
        self.precision: set[str] = set()  # functions that take an array of the run's kind, `like`

    def __call__(self, e: Apply, codes: Sequence[Code], env: CodeEnv) -> tuple[str, Axes]:
        """The name of the function for such arguments, and the axes of its result on paper."""
        written = self.card.library_name(e)
        if written in ("gathered", "placed") and any(c.lead for c in codes):
            written = f"{written}_each"
        if written == "gathered" and not self.fits(e.args[1], e.args[2], env):
            written = "gathered outside"
        if written == "rotate" and not all(c.core for c in codes):
            written = "rotate of numbers"
        some = self.dialect.by_hand(f"{written}_some")
        if some and self.shapes.of(e.args[1], env.types).may_be_negative:
            written = f"{written}_some"
        # What is written by hand takes one number for all members of a family.
        each = any(c.lead and not c.core for c in codes[1:])
        if self.dialect.by_hand(written) and not each:
            return self.helper(written), core_of(self.shapes.of(e, env.types))
        found = self.shapes.of(e, env.types)
        types = [self.shapes.of(a, env.types) for a in e.args]
        key = (e.op, *((c.core, bool(c.lead), c.const, c.whole, c.python, t.kind, t.interval)
                       for c, t in zip(codes, types, strict=True)))  # fmt: skip
        if key not in self.known:
            self.known[key] = self.write(self.card.function[e.op], e, codes, env)
        return self.known[key], core_of(found)

    def fits(self, at: Expr, count: Expr, env: CodeEnv) -> bool:
        """Whether places are known to be from 0 to below a count."""
        found, size = self.shapes.of(at, env.types).whole, self.shapes.size(count, env.types)
        number = None if size is None else self.shapes.number(size)
        return found is not None and number is not None and 0 <= found[0] <= found[1] < number

    def helper(self, written: str) -> str:
        """The name of a hand-written function."""
        if self.dialect.brings:
            return f"{self.dialect.xp}.{written}"
        name = self.names.name(f"library {written}", plain(written))
        source = idioms(self.dialect.name)[written].replace(f"def {written}(", f"def {name}(")
        for other in HELPERS:  # that it calls
            if other != written and f"{other}(" in source:
                source = source.replace(f"{other}(", f"{self.helper(other)}(")
        if self.dialect.name == "jax":
            source = re.sub(r"\bnp\.", "jnp.", source)
        self.written.setdefault(name, source.split("\n"))
        return name

    def write(self, f: Function, e: Apply, codes: Sequence[Code], env: CodeEnv) -> str:
        """Write one function; a second form for other arguments gets a number."""
        local = Identifiers({self.dialect.xp, "math", "jax", "functional", "like"}
                      | {plain(x) for x in self.card.function})  # fmt: skip
        types = [replace(self.shapes.of(a, env.types), family=frozenset()) for a in e.args]
        arguments: dict[str, Code] = {}
        kinds: dict[str, Type] = {}
        sizes: dict[str, Size] = {}
        signature: list[str] = []
        like = ""
        for k, a in enumerate(f.arguments):
            name = local.symbol(a.symbol)
            default = "" if a.default is None else self.lower(local).of(a.default).text
            signature.append(f"{name}={default}" if default else name)
            if k < len(codes):
                c, kinds[a.symbol.key] = codes[k], types[k]
                axes = ((LEAD,) if c.lead else ()) + c.core
                arguments[a.symbol.key] = c.as_atom(name, axes=axes, checked=False)
                real = axes and not c.const and not c.whole and types[k].kind == REAL
                like = like or (name if real else "")
                for symbol, size in zip(a.pattern, types[k].shape, strict=False):
                    sizes.setdefault(symbol.key, size)
            else:
                assert a.default is not None
                kinds[a.symbol.key] = self.shapes.of(a.default, TypeEnv())
                arguments[a.symbol.key] = Code(name, const=True)
        for a in f.arguments:
            for symbol in a.pattern:
                arguments.setdefault(symbol.key, Code(local.symbol(symbol), const=True, whole=True))
        lowering = self.lower(local)
        inner = CodeEnv(arguments, types=TypeEnv(kinds, sizes), like=like)
        letters = self.letters(f.body, lowering, inner, local)
        body = lowering.of(f.body, replace(inner, index={k: v[0] for k, v in letters.items()}))
        used = {k: v for k, v in letters.items() if word(v[2], body.text)}
        text = body.text + " ".join(v[1] for v in used.values())
        precision = not like and word("like", text)
        unpacked = unpacking(f, arguments, text)
        if used:
            _, values, names = zip(*used.values(), strict=True)
            both = f"{', '.join(names)} = {', '.join(values)}"
            each = [f"{name} = {value}" for name, value in zip(names, values, strict=True)]
            unpacked += [both] if len(both) < 96 else each
        said = f.meaning or f"{f.name}: {show(f.body, 'unicode')}"
        lines = [*docstring([said], 1)]
        for line in unpacked:
            lines += statement(line, 1)
        lines += statement(f"return {body.text}", 1)
        signature += ["*", "like"] if precision else []
        for number in ("", "_2", "_3", "_4", "_5", "_6"):
            name = self.names.name(f"function {f.name}{number}", plain(f.name) + number)
            whole = [*statement(f"def {name}({', '.join(signature)}):"), *lines]
            if self.written.setdefault(name, whole) == whole:
                self.precision |= {name} if precision else set()
                return name
        raise VieteError(f"{f.name} is called in too many ways to be exported")

    def letters(
        self, body: Expr, lowering: Lowering, env: CodeEnv, local: Identifiers
    ) -> dict[str, tuple[CodeLetter, str, str]]:
        """The index letters of the table that is a function's body: meaning, values, name."""
        if not isinstance(body, Table):
            return {}
        out = {}
        labels = [f"{i}1" for i, _ in body.ranges]
        # Letters that always meet stand at right angles; else `spread` adds the other axis.
        both = {i for i, _ in body.ranges} <= body.body.free and not any(
            isinstance(x, Apply) and x.op == "where" and not x.args[0].free for x in walk(body)
        )
        for k, (i, size) in enumerate(body.ranges):
            name = local.name(f"index {i}", plain(i))
            count = self.shapes.needed_size(size, env.types)
            family = CodeLetter(i, labels[k], num(0), size, count)
            values = lowering.arange(family, env)
            if len(labels) == 2 and k == 0 and both:
                values += "[:, None]"
            axes = tuple(labels[k:]) if both else (labels[k],)
            code = Code(name, axes=axes, const=True, whole=True)
            out[i] = replace(family, code=code), values, name
        return out

    def lower(self, local: Identifiers) -> Lowering:
        def nothing(e: Ref, blocks: Sequence[Expr], env: CodeEnv) -> tuple[str, bool]:
            raise VieteError(f"{e.key} is not an argument")

        return Lowering(self.card, self.dialect, local, self.shapes, nothing, self)


def unpacking(f: Function, arguments: Mapping[str, Code], text: str) -> list[str]:
    """Lines that unpack the sizes that a text uses: ``n, k = z.shape[-2:]``."""
    out, known = list[str](), set[str]()
    for a in f.arguments:
        names = [arguments[s.key].text for s in a.pattern]
        new = [name if word(name, text) and name not in {*known, *names[:k]} else ""
               for k, name in enumerate(names)]  # fmt: skip
        shape = f"{arguments[a.symbol.key].text}.shape"
        if len(new) > 1 and all(new):
            out.append(f"{', '.join(new)} = {shape}[-{len(new)}:]")
        else:
            out += [f"{name} = {shape}[{k - len(new)}]" for k, name in enumerate(new) if name]
        known |= set(new)
    return out


def word(name: str, text: str) -> bool:
    """Whether a name occurs in code."""
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None
