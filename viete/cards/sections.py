"""A card's blocks sorted into its sections, and the cells and formulas found in them.

Headings, column names and markup are read tolerantly here, so that nothing below has to.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from viete.cards.document import Block, Heading, Item, Paragraph, Table
from viete.errors import Text, VieteError

SECTIONS = {
    "about": ("model architecture", "architecture", "model", "configuration", "hyperparameters"),
    "notation": ("notation", "symbols"),
    "vocabulary": ("vocabulary", "tokens"),
    "dimensions": ("dimensions", "dims", "sizes", "constants", "indices"),
    "inputs": ("inputs", "input"),
    "parameters": ("parameters", "weights", "parameter table"),
    "functions": ("functions", "definitions"),
    "choices": ("choices", "variants"),
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
    "is": ("is",),
    "then": ("then",),
    "dtype": ("dtype", "type"),
    "init": ("init", "initialisation", "initialization"),
    "checkpoint": ("checkpoint", "tensor"),
    "meaning": ("meaning", "description", "note", "notes"),
}
FACT = re.compile(r"^\*\*(.+?)\*\*\s*:\s*(.*)$")


class Sections:
    """Title, prose and facts of a document, and the blocks that stand under each heading."""

    def __init__(self, blocks: list[Block], file: str) -> None:
        self.file = file
        self.title = ""
        self.about: list[str] = []
        self.facts: list[tuple[str, str]] = []
        self.sections: dict[str, list[Block]] = {name: [] for name in SECTIONS}
        self.sort(blocks)

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
                elif isinstance(block, Item) and (m := FACT.match(block.text.text)):
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
                if "symbol" in needed and not out[-1].get("symbol", Text("")).text:
                    raise row[0].error("a row needs a symbol in its symbol column")
        return out

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
                raise cell.error(
                    f"no column is called {cell.text!r}; there are {', '.join(COLUMNS)}"
                )
        for column in needed.split():
            if column not in found and not table.header:
                raise VieteError(
                    f"{self.file}: a table has no columns; it needs a column '{column}'"
                )
            if column not in found:
                raise table.header[0].error(f"this table needs a column '{column}'")
        return found

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
