"""Sorts a card's blocks into its sections, and finds the cells and formulas in them.

Headings, column names and markup are read tolerantly here, so no other module has to. A row or item
that is a link, ``| [rotation](shared/rotation.md) | | |``, stands for the section of the same name
on that page, which several cards share.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from viete.document.markdown import check_shown, read_markdown
from viete.document.tree import Block, CodeBlock, Heading, ListItem, Paragraph, TextTable
from viete.errors import Text, VieteError

FORMULA = re.compile("[$`]")
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
LINK = re.compile(r"\[[^\[\]]+\]\(([^()\s]+\.md)\)")  # to a shared page
FACT = re.compile(r"^\*\*(.+?)\*\*\s*:\s*(.*)$")
LISTS = ("inputs", "functions", "forward", "derived", "claims")  # of formulas
TABLES = {  # and what a row looks like
    "dimensions": "| $d$ | 64 |",
    "parameters": "| $W$ | $d × d$ |",
    "choices": "| key | value | $y = x$ |",
}
# name = …, in any markup: **Q** = `x W`, $Q = x W$, `Q = x W`, Q = x W, $$Q = x W$$
_NAME = r"(?:\*\*[^*=]+\*\*|\$[^$=]*\$|`[^`=]*`|\${1,2}[^$=:]*|`[^`=:]*|[^\s=:$`*]{1,40})"
EQUATION = re.compile(rf"^[>\s]*(?:\d+[.)]\s+|[-*+]\s+)?{_NAME}\s*(?<![<>!])=(?!=)|\\\[|\\begin\{{")
_INLINE = re.compile(r"\$[^$]*[^$<>!=:]=(?!=)[^$]*\$")  # a formula with an equals sign
_NESTED = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s")
# Where and for whom a change holds: $x^3_j = 0$ in $Q^{5,1}$ for $j ≥ 5$, $j ≤ 7$
_HOLDS = re.compile(r"(?:[\s,]*(?:\b(?:for|in|and)\b)?[\s,]*(?<=[\s,])\$[^$]*\$)+")
_BARE = re.compile(r"[\s,]*for\s+(\w+\s*(?:[≥≤<>=≠∈]|in\s*\{).*)")
_AND = re.compile(r"^[\s,;.&]*(?:and\b|where\b|with\b)?[\s,;]*(?=[$`])")


Pages = Mapping[str, tuple[str, str]]  # a link to a shared page: its file, and its text


class Sections:
    """Title, prose and facts of a document, and the blocks under each heading.

    ``pages`` are the shared pages by the links to them: the file of each, and its text.
    """

    def __init__(self, blocks: list[Block], file: str, pages: Pages | None = None) -> None:
        self.file, self.pages = file, pages or {}
        self.title = ""
        self.about: list[str] = []
        self.facts: list[tuple[str, str]] = []
        self.fact_lines: list[tuple[str, str, Text]] = []  # outside all sections, and their lines
        self.sections: dict[str, list[Block]] = {name: [] for name in SECTIONS}
        self.loose: list[tuple[Text, str]] = []  # outside all sections, and the heading above
        self.sort(blocks)

    def sort(self, blocks: list[Block]) -> None:
        section, unknown = "preamble", ""
        for block in blocks:
            if isinstance(block, Heading) and (block.level <= 2 or section == "preamble"):
                if block.level == 1 and not self.title:
                    self.title = block.text.text
                    continue
                section, unknown = self.section(block, blocks), block.text.text
            elif section == "preamble" or section == "prose":
                if isinstance(block, Paragraph):
                    self.about.append(block.text.text)
                elif isinstance(block, ListItem) and (m := FACT.match(block.text.text)):
                    self.facts.append((m[1], m[2]))
                    self.fact_lines.append((m[1], m[2], block.text))
                elif isinstance(block, ListItem):
                    self.about.append(block.text.text)
                elif isinstance(block, TextTable) and section == "preamble":
                    raise (block.header or [Text("", self.file)])[0].error(
                        "this table stands under no heading; cards have the sections Dimensions, "
                        "Inputs, Parameters, Functions, Forward pass, Derived and Claims"
                    )
            else:
                self.sections[section].append(block)
            if section in ("preamble", "prose") and isinstance(block, ListItem | Paragraph):
                self.loose += [
                    (text, unknown) for text in (block.text, *getattr(block, "notes", ()))
                ]
        if not self.title:
            self.title = Path(self.file).stem
        for section, blocks in self.sections.items():
            if section in (*LISTS, *TABLES):
                self.sections[section] = list(self.included(section, blocks))
            self.check_layout(section, self.sections[section])

    def included(self, section: str, blocks: list[Block]) -> Iterator[Block]:
        """A section's blocks, with those of a shared page instead of the link to it."""
        for block in blocks:
            if isinstance(block, ListItem) and (link := LINK.fullmatch(block.text.text)):
                yield from self.page(section, block.text, link[1])
            elif isinstance(block, TextTable):
                rows: list[list[Text]] = []
                for row in block.rows:
                    if not (row and (link := LINK.fullmatch(row[0].text))):
                        rows.append(row)
                        continue
                    if more := next((cell for cell in row[1:] if cell.text), None):
                        raise more.error("a row that is a link to a shared page has no other cells")
                    yield TextTable(block.header, rows)
                    yield from self.page(section, row[0], link[1])
                    rows = []
                yield TextTable(block.header, rows)
            else:
                yield block

    def page(self, section: str, text: Text, link: str) -> list[Block]:
        """The blocks of a section of a shared page.

        Raises VieteError at the link if the page does not exist or has no such section, and in the
        page for a mistake there.
        """
        if link not in self.pages:
            raise text.error(
                f"there is no page {link} in the folder of this card; viete show prints a "
                "shipped card with every page that it includes"
            )
        file, content = self.pages[link]
        page = read_page(content, file)
        self.loose += page.loose
        if not page.sections[section]:
            raise text.error(f"{file} has no section {section.title()}")
        return page.sections[section]

    def check_layout(self, section: str, blocks: list[Block]) -> None:
        """Check that a section's blocks are of the kinds that the section allows.

        Raises VieteError at a block that a page shows and that would be ignored.
        """
        for before, block in zip([None, *blocks], blocks, strict=False):
            at = block.at if isinstance(block, CodeBlock) else None
            if isinstance(block, Paragraph) and block.text.text.startswith(">"):
                at = block.text
            if at is not None and section in (*LISTS, *TABLES):
                what = {"<": "raw HTML", ">": "a quotation"}.get(at.text[:1], "code")
                raise at.error(
                    f"{what} is not a part of a card's {section.title()}; remove it, or move it "
                    f"under a heading of its own"
                )
            if isinstance(block, TextTable) and section not in TABLES:
                cell = next(iter([*block.header, *(c for r in block.rows for c in r)]), Text(""))
                raise cell.error(f"the section {section.title()} has a list, and no table")
            if isinstance(block, ListItem) and section in TABLES and FORMULA.match(block.text.text):
                raise block.text.error(
                    f"the section {section.title()} has a table, and this item would not be read; "
                    f"make it a row: {TABLES[section]}"
                )
            if isinstance(block, Paragraph) and block.text.text.startswith("|"):
                if isinstance(before, TextTable):
                    raise block.text.error("a blank line ends a table; remove it above this row")
                raise block.text.error(
                    "a table has a row of dashes below its header, one for each column: | --- |"
                )

    def check_equations(self, loops: Callable[[Paragraph], object]) -> None:
        """Check that every equation on the page is in a place where equations are read.

        Raises VieteError at one that does not. ``loops`` says which paragraphs open one.
        """
        for section, blocks in self.sections.items():
            for block in blocks:
                if section in LISTS and (
                    isinstance(block, Heading)
                    or (isinstance(block, Paragraph) and not loops(block))
                ):
                    self.check_words(block.text)
                if not isinstance(block, ListItem | Paragraph):
                    continue
                if section not in LISTS and EQUATION.match(block.text.text):
                    raise block.text.error(
                        f"the section {section.title()} has no equations, so this one would not "
                        f"be read; list it under Forward pass or Derived"
                    )
                for note in getattr(block, "notes", ()):
                    if EQUATION.match(note.text) and "shape" not in note.text.lower()[:14]:
                        raise note.error(
                            "this equation stands below another item and would be read as a note "
                            "on it; give it an item of its own"
                        )
        for text, heading in self.loose:
            if EQUATION.match(text.text):
                raise text.error(
                    f"{heading} is not a section of a card, so this equation would not be read; "
                    f"for a part of the forward pass write ### {heading}"
                    if heading else
                    "this equation stands in front of all sections, so it would not be read"
                )  # fmt: skip

    def check_words(self, text: Text) -> None:
        """Check that text between the equations is not an equation."""
        if not (EQUATION.match(text.text) or _INLINE.search(text.text)):
            return
        if "…" in text.text or "..." in text.text or "dots" in text.text:
            raise text.error("a loop is written For $i = 1, …, N$:")
        raise text.error(
            "this equation is not an item of the list, so it would not be read; write it as "
            "1. $name = expression$"
        )

    def section(self, heading: Heading, blocks: list[Block]) -> str:
        name = re.sub(r"[^a-z ]", "", heading.text.text.lower()).strip()
        for section, names in SECTIONS.items():
            if name in names:
                return section
        known = [n for names in SECTIONS.values() for n in names]
        if near := difflib.get_close_matches(name, known, 1, 0.8):
            raise heading.text.error(f"no section has this name; did you mean {near[0].title()}?")
        return "prose"

    def items(self, section: str) -> list[ListItem]:
        return [b for b in self.sections[section] if isinstance(b, ListItem)]

    def split(self, text: Text) -> tuple[Text, str]:
        """Split ``$math$: meaning`` or bare ``math``."""
        t = text.text
        if (t.count("$") - t.count("\\$")) % 2:
            last = t.rindex("$")
            raise text.error(
                "this $ is never closed; a formula stands between two $", last, last + 1
            )
        not_struck(text)
        if nested := _NESTED.match(t):
            raise text.error("an item cannot begin with the mark of another", *nested.span())
        mark = next((m for m in ("$$", "$", "`") if t.startswith(m)), "")
        if mark and (end := t.find(mark, len(mark))) > 0:
            rest = t[end + len(mark) :]
            if re.match(r"[\s,]*(?:for|in)\s", rest) and (holds := _HOLDS.match(rest)):
                stop = end + len(mark) + holds.end()
                return plain_math(text.cut(len(mark), stop)), t[stop:].lstrip(" :—-.").strip()
            if loose := _BARE.match(rest):
                at = end + len(mark) + loose.start(1)
                raise text.error("a condition is a formula: for $j ≥ 5$", at, len(t))
            self.check_alone(text, end + len(mark))
            return text.cut(len(mark), end), t[end + len(mark) :].lstrip(" :—-.").strip()
        bare = unmarked(text)
        if (cut := bare.text.find(": ")) > 0:
            return bare.cut(0, cut), bare.text[cut + 2 :].strip()
        return bare.cut(0), ""

    def check_alone(self, text: Text, end: int) -> None:
        """Check that the formula that ends there is the only one of its item.

        After a colon the item continues in words, which may contain formulas too.
        """
        rest = text.text[end:].lstrip()
        said = rest.startswith((":", "—", "–"))
        after = rest[1:] if said else rest
        other = EQUATION.match(after.lstrip()) if said else _INLINE.search(after)
        if other or (not said and _AND.match(after)):
            if said:
                at = len(text.text) - len(after.lstrip())
            else:
                at = text.text.index("$" if "$" in after else "`", end)
            raise text.error(
                "a second formula in one item would not be read; give it an item of its own", at,
                len(text.text),
            )  # fmt: skip

    def rows(self, section: str, needed: str) -> list[dict[str, Text]]:
        out = []
        for block in self.sections[section]:
            if not isinstance(block, TextTable):
                continue
            columns = self.columns(block, needed)
            for row in block.rows:
                if not row:  # a lone bar
                    continue
                for cell in row:
                    if (cell.text.count("$") - cell.text.count("\\$")) % 2:
                        raise cell.error("the $ signs in this cell do not pair up")
                if len(row) > len(block.header):
                    raise row[-1].error("this row has more cells than the table has columns")
                if len(row) < len(block.header):
                    raise row[0].error(
                        f"this row has {len(row)} of the table's {len(block.header)} cells; an "
                        f"empty cell is written | |"
                    )
                out.append({c: row[k] for c, k in columns.items() if k < len(row)})
                if "symbol" in needed and not out[-1].get("symbol", Text("")).text:
                    raise row[0].error("a row needs a symbol in its symbol column")
        return out

    def columns(self, table: TextTable, needed: str) -> dict[str, int]:
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
        not_struck(text)
        t = text.text
        if len(t) > 1 and t[0] == t[-1] and t[0] in "$`" and t.count(t[0]) == 2:
            return text.cut(1, len(t) - 1)
        return text

    def names(self, text: Text) -> list[Text]:
        """The names in one cell: ``$W_1, W_2$`` or ``$γ$, $β$``."""
        return pieces(unmarked(text), ",")


def not_struck(text: Text) -> None:
    """Raise VieteError for what a page shows struck through, but a card would read."""
    if m := re.match(r"~~.*~~", text.text):
        raise text.error("what is struck through is no part of a card; delete it, or the ~~ around "
                         "it", *m.span())  # fmt: skip


def unmarked(text: Text) -> Text:
    """Bold, code and formula marks as spaces, which keeps columns right: **Q** = `h_0 W^Q`."""
    return replace(text, text=re.sub(r"[$`]|\*\*", lambda m: " " * len(m[0]), text.text))


def pieces(text: Text, separators: str) -> list[Text]:
    """A text cut at the separators outside all brackets."""
    cuts, depth = [-1], 0
    for k, c in enumerate(text.text):
        depth += (c in "{([") - (c in "})]")
        if c in separators and depth == 0:
            cuts.append(k)
    return [text.cut(a + 1, b) for a, b in pairwise([*cuts, len(text.text)])]


@lru_cache(maxsize=16)
def read_page(content: str, file: str) -> Sections:
    """The sections of a shared page, which includes no other page."""
    blocks = read_markdown(content, file)
    check_shown(blocks)
    return Sections(blocks, file)


def plain_math(text: Text) -> Text:
    """A formula in several pieces, ``x = 0$ for $j ≥ 5$``, without the marks between them."""
    return replace(text, text=re.sub(r"[$`]", " ", text.text))
