"""Parses a card's declarations: dimensions, inputs, parameters, functions."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from viete.cards.choices import Choice, Row
from viete.cards.config import Config, bound
from viete.cards.init import check_dtype, read_init
from viete.cards.sections import FACT, Pages, Sections, pieces, unmarked
from viete.document.tree import Block, ListItem, Paragraph
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Dimension, Index, Input, Parameter
from viete.library.functions import (
    Function,  # fmt: skip
    behind,
    in_force,
    library,
    parse_function,
    second_names,
)
from viete.notation.cursor import parse_name
from viete.notation.letters import parse_range
from viete.notation.parser import parse
from viete.notation.symbols import PRIMITIVES, Scope
from viete.notation.tree import Expr, Num, Ref, Symbol

_NOTATION = re.compile(r"^((?:`[^`]+`|\$[^$]+\$)(?:\s*,\s*(?:`[^`]+`|\$[^$]+\$))*)\s*:\s*(.*)$")
_IN_WORDS = re.compile(r"\(\s*([^()=]*?(?:×|\\times|(?<=[\s\d])x(?=[\s\d]))[^()]*?)\s*\)")
_CALL = re.compile(r"^[^=(]*[^=(\s]\([^=]*\)\s*=")
_WHERE = re.compile(r"\b([A-Za-z]+(?:_(?:[A-Za-z0-9]+|\{\w+\}))?)\s*=\s*(\d+)(?![\w.])")
_MEMBER = re.compile(r"^(.+?)(?:∈|\\in(?![a-zA-Z]))\s*")


class Declarations(Sections):
    """Everything that a card declares by name and without an equation."""

    def __init__(self, blocks: list[Block], file: str, pages: Pages | None = None) -> None:
        super().__init__(blocks, file, pages)
        self.dims: list[Dimension] = []
        self.indices: list[Index] = []
        self.inputs: list[Input] = []
        self.stated: list[tuple[Symbol, Text]] = []  # a size's value, said beside its formula
        self.prose: list[tuple[Text, str]] = []  # inputs described in a notation list
        self.described: list[tuple[Text, Text]] = []  # a name, and its size said in words
        self.glossary: list[tuple[str, str]] = []  # names, and what they mean
        self.shapes = Scope()  # the names that a size may use

    def header(self) -> None:
        """Read ``- **vocab_size**: 10``: an integer is a dimension, anything else a fact."""
        for block in self.sections["about"]:
            if not isinstance(block, ListItem):
                if isinstance(block, Paragraph):
                    self.about.append(block.text.text)
                continue
            m = FACT.match(block.text.text)
            if m is None:
                self.about.append(block.text.text)
            elif re.fullmatch(r"\d+", m[2].strip()):
                name = block.text.cut(m.start(1), m.end(1))
                symbol = parse_name(name, "dim", set())
                if any(d.name == symbol.key for d in self.dims):
                    raise name.error(f"the dimension {symbol.key} is declared twice")
                value = parse(block.text.cut(*m.span(2)), Scope())
                self.dims.append(Dimension(symbol, value, text=block.text))
            else:
                self.facts.append((m[1], m[2]))

    def dimension_tables(self) -> None:
        waiting: list[tuple[Symbol, Text, str, str]] = []
        for row in self.rows("dimensions", "symbol"):
            value = self.cell(row, "value")
            meaning, config = row.get("meaning", Text("")).text, self.cell(row, "config").text
            for name in self.names(row["symbol"]):
                waiting.append((parse_name(name, "dim", set()), value, config, meaning))
                if not value.text:
                    waiting[-1] = (waiting[-1][0], replace(name, text=""), config, meaning)
        scope = Scope.of(d.symbol for d in self.dims)
        seen = {d.name for d in self.dims}
        for symbol, value, *_ in waiting:
            if symbol.key in seen:
                what = "index" if is_range(value.text) else "dimension"
                raise value.error(f"the {what} {symbol.key} is declared twice")
            seen.add(symbol.key)
            if not is_range(value.text):
                scope.declare(symbol)
        for symbol, value, config, meaning in waiting:
            if is_range(value.text):
                bounds = Text(f"{symbol.key} = {value.text}", value.file, value.line,
                              value.column - len(symbol.key) - 3, value.whole)  # fmt: skip
                letter, lower, upper = parse_range(bounds, scope)
                self.indices.append(Index(letter, lower, upper, meaning, value))
                continue
            if m := re.match(r"^(?:≤|<=|\\leq?(?![a-z])|at most)\s*", value.text):
                bound = parse(value.cut(m.end()), scope)
                self.dims.append(Dimension(symbol, None, bound, config, meaning, value))
            else:
                e = parse(value, scope) if value.text else None
                self.dims.append(Dimension(symbol, e, None, config, meaning, value))

    def notation(self) -> None:
        """Read a list such as ``- `L`: Sequence length (= 5)``: sizes, inputs, and meanings."""
        found: list[tuple[Text, str, Text]] = []
        for block in self.sections["notation"]:
            if not isinstance(block, ListItem):
                continue
            m = _NOTATION.match(block.text.text)
            if m is None:
                continue
            said = block.text.cut(m.start(2), m.end(2))
            if not re.search(r"∈|\\in\b|\(=", said.text):
                names = self.names(block.text.cut(m.start(1), m.end(1)))
                keys = [parse_name(name, "value", set()).key for name in names]
                self.glossary.append((", ".join(keys), said.text))
            for name in self.names(block.text.cut(m.start(1), m.end(1))):
                if "∈" in said.text or "\\in" in said.text:
                    self.prose_input(said)
                elif re.search(r"\(=", said.text):
                    found.append((name, m[2], said))
                elif size := _IN_WORDS.search(said.text):
                    self.described.append((name, said.cut(*size.span(1))))
        declared = {d.name for d in self.dims}
        scope = Scope.of(d.symbol for d in self.dims)
        symbols = [parse_name(name, "dim", set()) for name, _, _ in found]
        for symbol, (name, *_) in zip(symbols, found, strict=True):
            if symbol.key in declared:
                raise name.error(f"the dimension {symbol.key} is declared twice")
            declared.add(symbol.key)
            scope.declare(symbol)
        for symbol, (_, description, said) in zip(symbols, found, strict=True):
            m = re.search(r"\(=\s*(.+?)\)\s*$|\(=\s*(.+?)\)", said.text)
            if m is None:
                raise said.error("this (= is never closed; write a size as (= 512)")
            start, end = m.span(1) if m[1] is not None else m.span(2)
            parts = said.text[start:end].split("=")
            value = parse(said.cut(start, start + len(parts[0])), scope)
            meaning = description[: m.start()].strip() + description[m.end() :]
            self.dims.append(Dimension(symbol, value, None, "", meaning.strip(), said))
            if len(parts) > 1:  # (= d_model / num_heads = 5): the two must agree
                self.stated.append((symbol, said.cut(start + len(parts[0]) + 1, end)))

    def prose_input(self, said: Text) -> None:
        """Read an input described in prose: ``Input token IDs, x ∈ {0,1,...,9}^L where L=5``."""
        sign = "∈" if "∈" in said.text else "\\in"
        name_end = said.text.index(sign)
        words = said.text[:name_end].split()
        if not words:
            raise said.error(f"a name must stand before {sign}")
        start = said.text.rindex(words[-1], 0, name_end)
        self.prose.append((said.cut(start), said.text[:start].rstrip(" ,:;")))

    def dims_scope(self) -> None:
        self.shapes = Scope.of(d.symbol for d in self.dims)
        self.check_stated(CardData("", dims=tuple(self.dims)).sizes)

    def check_stated(self, sizes: dict[str, Fraction]) -> None:
        """Check a size stated beside its formula: ``(= d_model / num_heads = 5)``."""
        for symbol, stated in self.stated:
            value = parse(stated, Scope())
            if isinstance(value, Num) and sizes.get(symbol.key) != value.value:
                raise stated.error(
                    f"{symbol.key} is stated as {value.value}, but its formula gives "
                    f"{sizes.get(symbol.key)}"
                )

    def vocabulary(self) -> tuple[str, ...]:
        out: list[str] = []
        for block in self.sections["vocabulary"]:
            if isinstance(block, Paragraph | ListItem):
                out += re.findall(r"`([^`]+)`", block.text.text)
        return tuple(out)

    def input_list(self, letters: set[str]) -> None:
        sizes = CardData("", dims=tuple(self.dims)).sizes
        listed = [(*self.split(block.text), False) for block in self.items("inputs")]
        for math, meaning, prose in [*((*p, True) for p in self.prose), *listed]:
            wrong = math.error("an input is written t ∈ {0, …, V − 1}^n or x ∈ ℝ^{n × d}")
            m = _MEMBER.match(math.text)
            if m is None:
                raise wrong
            symbol = parse_name(math.cut(*m.span(1)), "input", letters)
            low = high = None
            rest = math.cut(m.end())
            if real := re.match(r"(?:ℝ|\\mathbb\{R\}|R)(?![a-zA-Z])\s*", rest.text):
                rest = rest.cut(real.end())
            else:
                end = bracket_end(rest.text)
                if end is None:
                    raise wrong
                opened = 2 if rest.text[0] == "\\" else 1
                low, high = self.number_set(rest.cut(opened, end - opened))
                rest = rest.cut(end)
            shape: tuple[Expr, ...] = ()
            if rest.text.startswith("^"):
                rest = rest.cut(1)
                end = bracket_end(rest.text) or re.match(r"[^\s=,]*", rest.text).end()  # type: ignore[union-attr]
                inner = rest.cut(1, end - 1) if rest.text.startswith("{") else rest.cut(0, end)
                shape = self.shape(inner)
                rest = rest.cut(end)
            default = None
            if rest.text.startswith("="):
                default = parse(rest.cut(1), self.shapes)
            elif rest.text and not prose:
                raise rest.error("only a default value, such as (= 0), can stand here")
            if prose:
                self.where_clause(rest, sizes)
                self.make_lengths(shape, sizes)
            if any(i.name == symbol.key for i in self.inputs):
                raise math.error(f"the input {symbol.key} is declared twice")
            self.inputs.append(Input(symbol, shape, low, high, default, meaning, math))

    def where_clause(self, rest: Text, sizes: dict[str, Fraction]) -> None:
        """Check that ``where L=5`` after an input in prose agrees with the rest of the card."""
        for m in _WHERE.finditer(rest.text):
            known = sizes.get(parse_name(rest.cut(*m.span(1)), "dim", set()).key)
            if known is not None and known != int(m[2]):
                raise rest.error(f"{m[1]} is {m[2]} here, but {known} where it is declared",
                                 *m.span())  # fmt: skip

    def make_lengths(self, shape: tuple[Expr, ...], sizes: dict[str, Fraction]) -> None:
        """Make the size of the token input in a notation list the greatest length."""
        for e in shape:
            for k, dim in enumerate(self.dims):
                if e == Ref(dim.symbol) and dim.value is not None:
                    limit = next((Ref(d.symbol) for d in self.dims
                                  if d.name == "context_length" != dim.name), None)  # fmt: skip
                    length, most = sizes.get(dim.name), sizes.get("context_length")
                    if limit is not None and None not in (length, most) and length != most:
                        raise dim.text.error(
                            f"{dim.name} is {length} here, but context_length is {most}; both "
                            f"mean the greatest length of an input"
                        )
                    self.dims[k] = replace(dim, value=None, at_most=limit or dim.value)

    def number_set(self, text: Text) -> tuple[Expr, Expr]:
        """Read ``0, 1, …, V − 1`` or ``0, 1``."""
        parts = self.names(text)
        values = [p for p in parts if p.text not in ("...", "…", "\\dots", "\\ldots", "\\cdots")]
        if not values or not all(p.text for p in values):
            raise text.error("a set of whole numbers is written {0, …, V − 1}")
        return parse(values[0], self.shapes), parse(values[-1], self.shapes)

    def shape(self, text: Text, batch: bool = False) -> tuple[Expr, ...]:
        """Read ``V × d``, ``(L, d)`` or ``5 x 5``."""
        text = unmarked(text).cut(0)
        if bracket_end(text.text) == len(text.text) and text.text.startswith("("):
            text = text.cut(1, len(text.text) - 1)
        if text.text.lower() in ("", "scalar", "1 number"):
            return ()
        bare = re.sub(r"\\times|(?<=[\s\d])x(?=[\s\d])", lambda m: "×".ljust(len(m[0])), text.text)
        text = replace(text, text=bare)
        sizes = pieces(text, "×,")
        # A trailing comma, as in Python's (n,), ends the shape.
        sizes = sizes[:-1] if len(sizes) > 1 and not sizes[-1].text else sizes
        first = sizes[0].text
        if batch and first.lower() in ("batch", "b") and first not in self.shapes.symbols:
            sizes = sizes[1:]
        if len(sizes) > 2:
            raise text.error(
                "a value has at most two sizes, rows and columns; more axes are indices of its name"
            )
        return tuple(parse(p, self.shapes) for p in sizes)

    def parameters(self, letters: set[str]) -> list[Parameter]:
        out: list[Parameter] = []
        for row in self.rows("parameters", "symbol shape"):
            names = self.names(row["symbol"])
            shape, init = self.shape(self.cell(row, "shape")), self.cell(row, "init")
            check_dtype(self.cell(row, "dtype"))
            if init.text:
                parse(read_init(init, names[0].text, len(shape))[1], self.shapes)
            tensor = self.cell(row, "checkpoint").text.replace("`", "")
            tensors = alternatives(tensor, len(names))
            meanings = each_meaning(row.get("meaning", Text("")).text, len(names))
            for name, tensor, meaning in zip(names, tensors, meanings, strict=True):
                symbol = parse_name(name, "parameter", letters)
                if any(p.name == symbol.key for p in out):
                    raise name.error(f"the parameter {symbol.key} is declared twice")
                out.append(Parameter(
                    symbol, shape, self.cell(row, "dtype").text, self.cell(row, "value").text,
                    init.text, tensor, meaning, name,
                ))  # fmt: skip
        return out

    def take(self, config: Config) -> None:
        """Give the dimensions the config's numbers."""
        numbers = bound(self.dims, config)
        if not any(d.config for d in self.dims):
            raise VieteError(
                f"the card {self.title} names no keys of a config.json; write them in a column "
                f"'config' of its Dimensions table"
            )
        self.dims = list(CardData("", dims=tuple(self.dims)).bind(**numbers).dims)

    def choices(self, functions: list[Function], parameters: list[Parameter]) -> list[Choice]:
        """The rows of Choices, with the functions, dimensions and weights that they define."""
        out: list[Choice] = []
        scope = Scope.of([*(d.symbol for d in self.dims), *(p.symbol for p in parameters)])
        known = {name: f.signature for name, f in in_force(functions).items()}
        for row in self.rows("choices", "config is then"):
            key, allowed = self.cell(row, "config"), row.get("is", Text(""))
            if key.text:
                out.append(Choice(key, []))
            if not out or not allowed.text:
                raise (allowed if out else key).error(
                    "a row of Choices needs a config key and its value"
                )
            then = row.get("then", Text(""))
            made = Row(allowed.text.replace("`", ""), allowed)
            for m in re.finditer(r"\$([^$]*)\$", then.text):
                math = then.cut(*m.span(1))
                if "=" not in math.text:
                    made.names.append(math)
                elif _CALL.match(math.text):
                    made.functions.append(function := parse_function(math, known, "", scope))
                    known = known | {function.name: function.signature}
                else:
                    made.math.append(math)
            out[-1].rows.append(made)
        return out

    def functions(self) -> list[Function]:
        out: list[Function] = []
        known = {name: f.signature for name, f in (library() | second_names()).items()}
        for block in self.items("functions"):
            math, meaning = self.split(block.text)
            function = parse_function(math, dict(known), meaning)
            if function.name in PRIMITIVES or any(f.name == function.name for f in out):
                raise math.error(f"the function {function.name} already exists")
            if function.name in map(behind, library()):
                name = function.name.removesuffix("_library")
                raise math.error(f"{function.name} is the library's {name}; choose another name")
            out.append(function)
            known[function.name] = function.signature
        return out


def bracket_end(text: str) -> int | None:
    r"""The offset after the bracket that closes the first one of ``text``: ``{``, ``\{``, ``(``."""
    if text.startswith("\\{"):
        end = text.find("\\}")
        return None if end < 0 else end + 2
    depth = 0
    opened, closed = ("(", ")") if text.startswith("(") else ("{", "}")
    for k, c in enumerate(text if text.startswith(opened) else ""):
        depth += (c == opened) - (c == closed)
        if depth == 0:
            return k + 1
    return None


def is_range(text: str) -> bool:
    """Whether the text runs from one end to another, in any spelling of the dots."""
    return any(dots in text for dots in ("…", "...", "\\dots", "\\ldots", "\\cdots"))


def each_meaning(meaning: str, count: int) -> list[str]:
    """The meaning of each symbol: ``query, key, value`` for three, else the same for all."""
    found = meaning.split(", ")
    return found if len(found) == count and all(found) else [meaning] * count


def alternatives(tensor: str, count: int) -> list[str]:
    """``norm.{weight,bias}`` for two symbols is ``norm.weight`` and ``norm.bias``."""
    m = re.search(r"\{([^{}]*,[^{}]*)\}", tensor)
    names = m[1].split(",") if m else []
    if m and len(names) == count:
        return [tensor[: m.start()] + name.strip() + tensor[m.end() :] for name in names]
    return [tensor] * count
