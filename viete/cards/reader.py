"""Cards to models: which block of a document declares what.

Tolerant about layout (headings, bullets, column names), strict about formulas. Dimensions are read
first, then the names on all left sides, then the formulas, so that a formula is parsed with every
declaration of the card in force.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from pathlib import Path

from viete.algebra.functions import library, parse_function
from viete.algebra.model import (
    Claim, Dimension, Equation, Function, Index, Input, Loop, Model, Parameter,
)  # fmt: skip
from viete.algebra.shapes import Shapes
from viete.cards.document import MAX_LINE, Block, Heading, Item, Paragraph, Table, read_markdown
from viete.errors import Text, VieteError, Where
from viete.notation.expr import Expr, Idx, Num, Ref, Slot, Symbol
from viete.notation.lexer import tokenize
from viete.notation.cursor import parse_name
from viete.notation.parser import parse, parse_range
from viete.notation.symbols import PRIMITIVES, Scope

MAX_BYTES = 1_000_000

SECTIONS = {
    "about": ("model architecture", "architecture", "model", "configuration", "hyperparameters"),
    "notation": ("notation", "symbols"),
    "vocabulary": ("vocabulary", "tokens"),
    "dimensions": ("dimensions", "dims", "sizes", "constants", "indices"),
    "inputs": ("inputs", "input"),
    "parameters": ("parameters", "weights", "parameter table"),
    "functions": ("functions", "definitions"),
    "forward": ("forward pass", "forward", "forward pass equations", "forward equations",
                "equations", "algorithm"),
    "derived": ("derived", "derived names"),
    "claims": ("claims",),
}  # fmt: skip
COLUMNS = {
    "symbol": ("symbol", "parameter", "name", "index"),
    "value": ("value", "values", "range", "size"),
    "shape": ("shape", "dimensions"),
    "config": ("config", "config key", "key"),
    "dtype": ("dtype", "type"),
    "init": ("init", "initialisation", "initialization"),
    "checkpoint": ("checkpoint", "tensor"),
    "meaning": ("meaning", "description", "note", "notes"),
}
_FACT = re.compile(r"^\*\*(.+?)\*\*\s*:\s*(.*)$")
_NOTATION = re.compile(r"^((?:`[^`]+`|\$[^$]+\$)(?:\s*,\s*(?:`[^`]+`|\$[^$]+\$))*)\s*:\s*(.*)$")
_MEMBER = re.compile(r"^(.+?)(?:∈|\\in(?![a-zA-Z]))\s*")
_FOR = re.compile(r"^\**\s*for\s+(?:each\s+|all\s+|every\s+)?\$?(.+)$", re.I)
_BARE_FOR = re.compile(r"^for\s+(?:each\s+|all\s+|every\s+)?\$[^$]*\$\s*:?$", re.I)
_SHAPE = re.compile(r"^\**shape\**\s*:\s*((?:(?!for each ).)*)", re.I)


def read(path: str | Path) -> Model:
    """Read a card from a Markdown, LaTeX or JSON file, and check the shape of every equation.

    Raises VieteError, with file, line and column, for whatever in it is wrong.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise VieteError(f"{path} is a folder; a card is a Markdown file")
        if size > MAX_BYTES:
            raise VieteError(
                f"{path} has {size:,} bytes; a card is a page or two, at most {MAX_BYTES:,} bytes"
            )
        content = path.read_bytes()
    except OSError as error:
        raise VieteError(f"cannot read {path}: {error.strerror}") from None
    if b"\0" in content:
        raise VieteError(f"{path} is a binary file; a card is a Markdown, LaTeX or JSON text")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise VieteError(f"{path}:{line}: this is not UTF-8 text, so it is no card") from None
    return reads(text, str(path))


def reads(content: str, file: str = "<card>") -> Model:
    """Read a card from text; see `read`."""
    if not isinstance(content, str):
        raise VieteError(f"a card is text, not {type(content).__name__}")
    if len(content) > MAX_BYTES:
        raise VieteError(
            f"{file} has {len(content):,} characters; a card is a page or two, at most {MAX_BYTES:,}"
        )
    start = content.lstrip()[:200]
    if start.startswith("{"):
        from viete.cards.structured import read_json

        return build(read_json(content, file), file)
    for number, line in enumerate(content.splitlines(), 1):
        if len(line) > MAX_LINE:
            message = f"this line has {len(line):,} characters; a card's have at most {MAX_LINE:,}"
            raise VieteError(message, Where(file, number, 1, line[:100]))
    if start.startswith(("\\documentclass", "\\section", "%", "\\begin")):
        from viete.cards.latex import read_latex

        blocks = read_latex(content, file)
    else:
        blocks = read_markdown(content, file)
    return build(blocks, file)


def build(blocks: list[Block], file: str) -> Model:
    """A document's blocks as a checked model."""
    model = Reader(blocks, file).model()
    Shapes(model)
    return model


class Reader:
    """One pass over a document for each kind of declaration."""

    def __init__(self, blocks: list[Block], file: str) -> None:
        self.file = file
        self.title = ""
        self.about: list[str] = []
        self.facts: list[tuple[str, str]] = []
        self.sections: dict[str, list[Block]] = {name: [] for name in SECTIONS}
        self.sort(blocks)
        self.dims: list[Dimension] = []
        self.indices: list[Index] = []
        self.inputs: list[Input] = []
        self.stated: list[tuple[Symbol, Text]] = []  # a size's value, said beside its formula
        self.prose: list[tuple[Text, str]] = []  # inputs described in a notation list

    # -- sections -----------------------------------------------------------------------------------

    def sort(self, blocks: list[Block]) -> None:
        section = "preamble"
        for block in blocks:
            if isinstance(block, Heading) and (block.level <= 2 or section == "preamble"):
                if block.level == 1 and not self.title:
                    self.title = block.text.text
                    continue
                section = self.section(block, blocks)
            elif section == "preamble" or section == "prose":
                if isinstance(block, Paragraph):
                    self.about.append(block.text.text)
                elif isinstance(block, Item) and (m := _FACT.match(block.text.text)):
                    self.facts.append((m[1], m[2]))
                elif isinstance(block, Item):
                    self.about.append(block.text.text)
                elif isinstance(block, Table) and section == "preamble":
                    raise (block.header or [Text("", self.file)])[0].error(
                        "this table stands under no heading; cards have the sections Dimensions, "
                        "Inputs, Parameters, Functions, Forward pass, Derived and Claims"
                    )
            else:
                self.sections[section].append(block)
        if not self.title:
            self.title = Path(self.file).stem

    def section(self, heading: Heading, blocks: list[Block]) -> str:
        name = re.sub(r"[^a-z ]", "", heading.text.text.lower()).strip()
        for section, names in SECTIONS.items():
            if name in names:
                return section
        known = [n for names in SECTIONS.values() for n in names]
        if near := difflib.get_close_matches(name, known, 1, 0.8):
            raise heading.text.error(f"no section has this name; did you mean {near[0].title()}?")
        return "prose"

    # -- the whole -------------------------------------------------------------------------------------

    def model(self) -> Model:
        self.header()
        self.dimension_tables()
        self.notation()
        self.dims_scope()
        vocabulary = self.vocabulary()
        self.input_list()
        loops = self.loops()
        letters = {i.name for i in self.indices} | {loop.index for loop in loops}
        parameters = self.parameters(letters)
        functions = self.functions()
        lines = self.equation_lines()
        derived_lines = [(b, *self.split(b.text)) for b in self.items("derived")]
        lefts = self.left_sides([(math, "value") for _, math, *_ in lines] +
                                [(math, "value") for _, math, _ in derived_lines], letters)  # fmt: skip
        if not lines:
            raise VieteError(
                f"{self.file}: no equations; a card lists them under a heading 'Forward pass'"
            )
        self.unique(parameters, lefts, letters)
        skeleton = Model(
            self.title, tuple(self.about), tuple(self.facts), vocabulary, tuple(self.dims),
            tuple(self.indices), tuple(self.inputs), tuple(parameters), tuple(functions),
        )  # fmt: skip
        scope = skeleton.scope
        scope.indices |= letters
        for symbol in {left.symbol.key: left.symbol for left in lefts}.values():
            scope.symbols[symbol.base] = [
                s for s in scope.symbols.get(symbol.base, []) if s.key != symbol.key
            ]
            scope.declare(symbol)
        equations = self.equations(lines, lefts[: len(lines)], loops, scope)
        derived = [
            Equation(left, self.right(math, scope), None, "", meaning, None, math)
            for left, (_, math, meaning) in zip(lefts[len(lines) :], derived_lines, strict=True)
        ]
        claims = []
        for block in self.items("claims"):
            math, meaning = self.split(block.text)
            claims.append(Claim(parse(math, scope), meaning, math))
        return replace(
            skeleton, equations=tuple(equations), derived=tuple(derived), claims=tuple(claims)
        )

    def items(self, section: str) -> list[Item]:
        return [b for b in self.sections[section] if isinstance(b, Item)]

    def split(self, text: Text) -> tuple[Text, str]:
        """``$math$: meaning`` or bare ``math``."""
        t = text.text
        if (t.count("$") - t.count("\\$")) % 2:
            last = t.rindex("$")
            raise text.error("this $ has no partner; a formula stands between two", last, last + 1)
        if t.startswith("$") and (end := t.find("$", 1)) > 0:
            return text.cut(1, end), t[end + 1 :].lstrip(" :—-.").strip()
        if t.startswith("`") and (end := t.find("`", 1)) > 0:
            return text.cut(1, end), t[end + 1 :].lstrip(" :—-.").strip()
        # Bold and code marks become spaces, so that columns stay right: **Q** = `h_0 W^Q`.
        bare = re.sub(r"[`$]|\*\*", lambda m: " " * len(m[0]), t)
        clean = Text(bare, text.file, text.line, text.column, text.whole)
        if (cut := bare.find(": ")) > 0:
            return clean.cut(0, cut), bare[cut + 2 :].strip()
        return clean.cut(0), ""

    # -- dimensions --------------------------------------------------------------------------------------

    def header(self) -> None:
        """``- **vocab_size**: 10``: a whole number is a dimension, anything else a fact."""
        for block in self.sections["about"]:
            if not isinstance(block, Item):
                if isinstance(block, Paragraph):
                    self.about.append(block.text.text)
                continue
            m = _FACT.match(block.text.text)
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

    def columns(self, table: Table, needed: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for k, cell in enumerate(table.header):
            name = re.sub(r"[*`]", "", cell.text).strip().lower()
            for column, names in COLUMNS.items():
                if name in names and column not in found:
                    found[column] = k
                    break
            else:
                if any(name in names for names in COLUMNS.values()):
                    raise cell.error(f"two columns of this table are the {name}")
                raise cell.error(f"no column is called {cell.text!r}; there are {', '.join(COLUMNS)}")
        for column in needed.split():
            if column not in found and not table.header:
                raise VieteError(f"{self.file}: a table has no columns; it needs a column '{column}'")
            if column not in found:
                raise table.header[0].error(f"this table needs a column '{column}'")
        return found

    def rows(self, section: str, needed: str) -> list[dict[str, Text]]:
        out = []
        for block in self.sections[section]:
            if not isinstance(block, Table):
                continue
            columns = self.columns(block, needed)
            for row in block.rows:
                if not row:  # a lone bar
                    continue
                if len(row) > len(block.header):
                    raise row[-1].error("this row has more cells than the table has columns")
                for cell in row:
                    if (cell.text.count("$") - cell.text.count("\\$")) % 2:
                        raise cell.error("the $ signs in this cell do not pair up")
                out.append({c: row[k] for c, k in columns.items() if k < len(row)})
                if not out[-1].get("symbol", Text("")).text:
                    raise row[0].error("a row needs a symbol in its symbol column")
        return out

    def cell(self, row: dict[str, Text], column: str) -> Text:
        """A cell without the dollar signs or backticks around it."""
        text = row.get(column, Text(""))
        t = text.text
        if len(t) > 1 and t[0] == t[-1] and t[0] in "$`" and t.count(t[0]) == 2:
            return text.cut(1, len(t) - 1)
        return text

    def names(self, text: Text) -> list[Text]:
        """``$W_1, W_2$`` or ``$γ$, $β$``: the names in one cell."""
        t = re.sub(r"[$`]|\*\*", lambda m: " " * len(m[0]), text.text)
        clean = Text(t, text.file, text.line, text.column, text.whole)
        cuts, depth = [-1], 0
        for k, c in enumerate(t):
            depth += (c in "{(") - (c in "})")
            if c == "," and depth == 0:
                cuts.append(k)
        return [clean.cut(a + 1, b) for a, b in zip(cuts, [*cuts[1:], len(t)], strict=True)]

    def dimension_tables(self) -> None:
        waiting: list[tuple[Symbol, Text, str, str]] = []
        for row in self.rows("dimensions", "symbol"):
            value = self.cell(row, "value")
            meaning, config = row.get("meaning", Text("")).text, self.cell(row, "config").text
            for name in self.names(row["symbol"]):
                waiting.append((parse_name(name, "dim", set()), value, config, meaning))
                if not value.text:
                    waiting[-1] = (waiting[-1][0], replace(name, text=""), config, meaning)
        scope = Scope()
        for dim in self.dims:
            scope.declare(dim.symbol)
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
        """A list such as ``- `L`: Sequence length (= 5)``: sizes, inputs, and what names mean."""
        found: list[tuple[Text, str, Text]] = []
        for block in self.sections["notation"]:
            if not isinstance(block, Item):
                continue
            m = _NOTATION.match(block.text.text)
            if m is None:
                continue
            said = block.text.cut(m.start(2), m.end(2))
            for name in self.names(block.text.cut(m.start(1), m.end(1))):
                if "∈" in said.text or "\\in" in said.text:
                    self.prose_input(said)
                elif re.search(r"\(=", said.text):
                    found.append((name, m[2], said))
        declared = {d.name for d in self.dims}
        scope = Scope()
        for dim in self.dims:
            scope.declare(dim.symbol)
        symbols = [parse_name(name, "dim", set()) for name, _, _ in found]
        for symbol, (name, *_) in zip(symbols, found, strict=True):
            if symbol.key in declared:
                raise name.error(f"the dimension {symbol.key} is declared twice")
            declared.add(symbol.key)
            scope.declare(symbol)
        for symbol, (_, description, said) in zip(symbols, found, strict=True):
            m = re.search(r"\(=\s*(.+?)\)\s*$|\(=\s*(.+?)\)", said.text)
            if m is None:
                raise said.error("this (= is never closed; a size is given as (= 512)")
            start, end = m.span(1) if m[1] is not None else m.span(2)
            parts = said.text[start:end].split("=")
            value = parse(said.cut(start, start + len(parts[0])), scope)
            meaning = description[: m.start()].strip() + description[m.end() :]
            self.dims.append(Dimension(symbol, value, None, "", meaning.strip(), said))
            if len(parts) > 1:  # (= d_model / num_heads = 5): the two must agree
                self.stated.append((symbol, said.cut(start + len(parts[0]) + 1, end)))

    def prose_input(self, said: Text) -> None:
        """An input described in prose: ``Input token IDs, x ∈ {0,1,...,9}^L where L=5``."""
        sign = "∈" if "∈" in said.text else "\\in"
        name_end = said.text.index(sign)
        words = said.text[:name_end].split()
        if not words:
            raise said.error(f"a name must stand before {sign}")
        start = said.text.rindex(words[-1], 0, name_end)
        self.prose.append((said.cut(start), said.text[:start].rstrip(" ,:;")))

    def dims_scope(self) -> None:
        self.shapes = Scope()
        for dim in self.dims:
            self.shapes.declare(dim.symbol)
        sizes = Model("", dims=tuple(self.dims)).sizes
        for symbol, stated in self.stated:
            value = parse(stated, Scope())
            if isinstance(value, Num) and sizes.get(symbol.key) != value.value:
                raise stated.error(
                    f"{symbol.key} is stated to be {value.value}, but its formula gives "
                    f"{sizes.get(symbol.key)}"
                )

    def vocabulary(self) -> tuple[str, ...]:
        out: list[str] = []
        for block in self.sections["vocabulary"]:
            if isinstance(block, Paragraph | Item):
                out += re.findall(r"`([^`]+)`", block.text.text)
        return tuple(out)

    # -- inputs and parameters ---------------------------------------------------------------------------------

    def input_list(self) -> None:
        listed = [(*self.split(block.text), False) for block in self.items("inputs")]
        for math, meaning, prose in [*((*p, True) for p in self.prose), *listed]:
            wrong = math.error("an input is written t ∈ {0, …, V − 1}^n or x ∈ ℝ^{n × d}")
            m = _MEMBER.match(math.text)
            if m is None:
                raise wrong
            symbol = parse_name(math.cut(*m.span(1)), "input", set())
            low = high = None
            rest = math.cut(m.end())
            if real := re.match(r"(?:ℝ|\\mathbb\{R\}|R)(?![a-zA-Z])\s*", rest.text):
                rest = rest.cut(real.end())
            else:
                end = closing(rest.text)
                if end is None:
                    raise wrong
                opened = 2 if rest.text[0] == "\\" else 1
                low, high = self.number_set(rest.cut(opened, end - opened))
                rest = rest.cut(end)
            shape: tuple[Expr, ...] = ()
            if rest.text.startswith("^"):
                rest = rest.cut(1)
                end = closing(rest.text) or re.match(r"[^\s=,]*", rest.text).end()  # type: ignore[union-attr]
                inner = rest.cut(1, end - 1) if rest.text.startswith("{") else rest.cut(0, end)
                shape = self.shape(inner)
                rest = rest.cut(end)
            default = None
            if rest.text.startswith("="):
                default = parse(rest.cut(1), self.shapes)
            elif rest.text and not prose:
                raise rest.error("nothing but a default (= 0) can stand here")
            if prose:
                self.make_lengths(shape)
            if any(i.name == symbol.key for i in self.inputs):
                raise math.error(f"the input {symbol.key} is declared twice")
            self.inputs.append(Input(symbol, shape, low, high, default, meaning, math))

    def make_lengths(self, shape: tuple[Expr, ...]) -> None:
        """In a notation list the size of the token input is the longest, not the only length."""
        for e in shape:
            for k, dim in enumerate(self.dims):
                if e == Ref(dim.symbol) and dim.value is not None:
                    limit = next((Ref(d.symbol) for d in self.dims if d.name == "context_length"), None)
                    self.dims[k] = replace(dim, value=None, at_most=limit or dim.value)

    def number_set(self, text: Text) -> tuple[Expr, Expr]:
        """``0, 1, …, V − 1`` or ``0, 1``."""
        parts = self.names(text)
        values = [p for p in parts if p.text not in ("...", "…", "\\dots", "\\ldots", "\\cdots")]
        if not values or not all(p.text for p in values):
            raise text.error("a set of whole numbers is written {0, …, V − 1}")
        return parse(values[0], self.shapes), parse(values[-1], self.shapes)

    def shape(self, text: Text, batch: bool = False) -> tuple[Expr, ...]:
        """``V × d``, ``(L, d)`` or ``5 x 5``."""
        text = replace(text, text=re.sub(r"[$`]", " ", text.text)).cut(0)
        if text.text.startswith("(") and text.text.endswith(")"):
            text = text.cut(1, len(text.text) - 1)
        if text.text.lower() in ("", "scalar", "1 number"):
            return ()
        bare = re.sub(r"\\times|(?<=[\s\d])x(?=[\s\d])", lambda m: "×".ljust(len(m[0])), text.text)
        text = replace(text, text=bare)
        depth, cuts = 0, [-1]
        for k, c in enumerate(bare):
            depth += (c in "{([") - (c in "})]")
            if c in "×," and depth == 0:
                cuts.append(k)
        pieces = [text.cut(a + 1, b) for a, b in zip(cuts, [*cuts[1:], len(bare)], strict=True)]
        # A trailing comma, as in Python's (n,), ends the shape.
        pieces = pieces[:-1] if len(pieces) > 1 and not pieces[-1].text else pieces
        if batch and pieces[0].text.lower() in ("batch", "b") and pieces[0].text not in self.shapes.symbols:
            pieces = pieces[1:]
        if len(pieces) > 2:
            raise text.error(
                "a value has at most two sizes, rows and columns; more axes are indices of its name"
            )
        return tuple(parse(p, self.shapes) for p in pieces)

    def parameters(self, letters: set[str]) -> list[Parameter]:
        out: list[Parameter] = []
        for row in self.rows("parameters", "symbol shape"):
            names = self.names(row["symbol"])
            tensors = alternatives(self.cell(row, "checkpoint").text, len(names))
            for name, tensor in zip(names, tensors, strict=True):
                symbol = parse_name(name, "parameter", letters)
                if any(p.name == symbol.key for p in out):
                    raise name.error(f"the parameter {symbol.key} is declared twice")
                meaning = row.get("meaning", Text("")).text
                out.append(Parameter(
                    symbol, self.shape(self.cell(row, "shape")), self.cell(row, "dtype").text,
                    self.cell(row, "value").text, self.cell(row, "init").text, tensor, meaning, name,
                ))  # fmt: skip
        return out

    def functions(self) -> list[Function]:
        out: list[Function] = []
        for block in self.items("functions"):
            math, meaning = self.split(block.text)
            known = {f.name: f.signature for f in (*library().values(), *out)}
            function = parse_function(math, known, meaning)
            if function.name in PRIMITIVES or any(f.name == function.name for f in out):
                raise math.error(f"the function {function.name} already exists")
            out.append(function)
        return out

    # -- equations -----------------------------------------------------------------------------------------------

    def loops(self) -> list[Loop]:
        """Every ``For i = 1, …, N`` of the forward pass, in order."""
        out: list[Loop] = []
        for block in self.sections["forward"]:
            if isinstance(block, Paragraph | Item) and (m := self.for_line(block)):
                index, lower, upper = parse_range(m, self.shapes)
                other = next((x for x in out if x.index == index), None)
                if other is not None and (other.lower, other.upper) != (lower, upper):
                    raise m.error(f"{index} already runs over another range; use another letter")
                if any(i.name == index for i in self.indices):
                    raise m.error(f"{index} is declared under Dimensions as an axis; a loop needs "
                                  f"a letter of its own")  # fmt: skip
                out.append(Loop(index, lower, upper, len(out)))
        return out

    def for_line(self, block: Paragraph | Item) -> Text | None:
        m = _FOR.match(block.text.text)
        if _BARE_FOR.match(block.text.text) and m and not is_range(m[1]):
            raise block.text.error("a loop is written For $i = 1, …, N$:")
        if m is None or "=" not in m[1] or not is_range(m[1]):
            return None
        return block.text.cut(m.start(1), m.start(1) + len(m[1].rstrip("$:* \t")))

    def equation_lines(self) -> list[tuple[Item, Text, str, int | None, str]]:
        """(item, formula, meaning, number of the last loop opened before it, part)."""
        out: list[tuple[Item, Text, str, int | None, str]] = []
        loop: int | None = None
        part = ""
        for block in self.sections["forward"]:
            if isinstance(block, Heading):
                part = block.text.text
            elif isinstance(block, Paragraph | Item) and self.for_line(block):
                loop = 0 if loop is None else loop + 1
            elif isinstance(block, Item):
                math, meaning = self.split(block.text)
                out.append((block, math, meaning, loop, part))
        return out

    def left_sides(self, maths: list[tuple[Text, str]], letters: set[str]) -> list[Ref]:
        """The names on all left sides; x^0 joins the family x^i where there is one."""
        symbols: list[tuple[Symbol, Text]] = []
        for math, kind in maths:
            equals = next((t for t in tokenize(math) if t.text == "=" and t.kind == "op"), None)
            if equals is None:
                raise math.error("an equation is written name = expression")
            left = math.cut(0, equals.start)
            if not left.text:
                raise math.error("an equation needs a name before the = sign")
            try:
                symbols.append((parse_name(left, kind, letters), left))
            except VieteError as error:
                raise VieteError(
                    f"the left side of an equation is one name: {error.message}", error.where
                ) from None
        families = [s for s, _ in symbols if s.slots]
        out = []
        for symbol, _ in symbols:
            index: tuple[Expr, ...] = tuple(Idx(x) for x in symbol.slots)
            for family in families if not symbol.slots else ():
                if (member := member_index(symbol, family)) is not None:
                    symbol, index = family, member
                    break
            out.append(Ref(symbol, index))
        return out

    def unique(self, parameters: list[Parameter], lefts: list[Ref], letters: set[str]) -> None:
        texts = {i.name: i.text for i in self.inputs}
        lines = self.equation_lines()
        given = {left.symbol.key for left in lefts[: len(lines)]}
        for left, item in zip(lefts[len(lines) :], self.items("derived"), strict=True):
            if left.symbol.key in given:
                raise item.text.error(f"{left.symbol.key} is already defined above")
            given.add(left.symbol.key)
        for parameter in parameters:
            if parameter.name in texts:
                raise parameter.text.error(f"{parameter.name} is both an input and a parameter")
            texts[parameter.name] = parameter.text
        places = [math for _, math, *_ in lines] + [item.text for item in self.items("derived")]
        for left, text in zip(lefts, places, strict=True):
            if left.symbol.key in letters:
                raise text.error(f"{left.symbol.key} is an index letter, so no equation can define it")
            if left.symbol.key in PRIMITIVES:
                raise text.error(f"{left.symbol.key} is a function, so no equation can define it")
            if left.symbol.key in texts:
                raise text.error(
                    f"{left.symbol.key} is given in line {texts[left.symbol.key].line}, so no "
                    f"equation can define it"
                )

    def right(self, math: Text, scope: Scope) -> Expr:
        # The left side was read as a declaration; here only what follows the first = counts.
        equals = next(t for t in tokenize(math) if t.text == "=" and t.kind == "op")
        blank = Text(" " * equals.end + math.text[equals.end :], math.file, math.line,
                     math.column, math.whole)  # fmt: skip
        if not blank.text.strip():
            raise math.error("an expression must follow the = sign", equals.start, equals.end)
        return parse(blank, scope)

    def equations(
        self, lines: list[tuple[Item, Text, str, int | None, str]], lefts: list[Ref],
        loops: list[Loop], scope: Scope,
    ) -> list[Equation]:  # fmt: skip
        out = []
        closed: set[int] = set()
        for (item, math, meaning, opened, part), left in zip(lines, lefts, strict=True):
            loop = None
            if opened is not None and opened not in closed:
                if Idx(loops[opened].index) in left.index:
                    loop = loops[opened]
                else:
                    closed.add(opened)  # an equation without the index ends its loop
            if loop is None and (loose := {x.name for x in left.index if isinstance(x, Idx)} &
                                 {x.index for x in loops}):  # fmt: skip
                raise math.error(
                    f"the index {loose.pop()} is bound to nothing here: this equation stands after "
                    f"the end of its loop (a loop ends at the first equation without its index)"
                )
            stated, stated_text = None, Text("")
            for note in item.notes:
                if m := _SHAPE.match(note.text):
                    stated_text = note.cut(*m.span(1))
                    stated = self.shape(stated_text, batch=True)
                else:
                    meaning = meaning or note.text
            out.append(Equation(left, self.right(math, scope), loop, part, meaning, stated, math, stated_text))
        return out


def closing(text: str) -> int | None:
    """The offset after the brace that closes the one ``text`` begins with (``{`` or ``\\{``)."""
    if text.startswith("\\{"):
        end = text.find("\\}")
        return None if end < 0 else end + 2
    depth = 0
    for k, c in enumerate(text if text.startswith("{") else ""):
        depth += (c == "{") - (c == "}")
        if depth == 0:
            return k + 1
    return None


def is_range(text: str) -> bool:
    return any(dots in text for dots in ("…", "...", "\\dots", "\\ldots", "\\cdots"))


def member_index(symbol: Symbol, family: Symbol) -> tuple[Expr, ...] | None:
    """The index at which ``symbol`` (x^0) is a member of ``family`` (x^i), or None."""
    if symbol.base != family.base:
        return None
    index: list[Expr] = []
    for slots, pattern in ((symbol.sub, family.sub), (symbol.sup, family.sup)):
        if len(slots) != len(pattern):
            return None
        for slot, place in zip(slots, pattern, strict=True):
            if place.index and slot.text.isdigit():
                index.append(parse(slot.text, Scope()))
            elif slot != place:
                return None
    return tuple(index)


def alternatives(tensor: str, count: int) -> list[str]:
    """``norm.{weight,bias}`` for two symbols is ``norm.weight`` and ``norm.bias``."""
    m = re.search(r"\{([^{}]*,[^{}]*)\}", tensor)
    names = m[1].split(",") if m else []
    if m and len(names) == count:
        return [tensor[: m.start()] + name.strip() + tensor[m.end() :] for name in names]
    return [tensor] * count


__all__ = ["Slot", "build", "read", "reads"]
