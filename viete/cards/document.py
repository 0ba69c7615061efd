"""Headings, paragraphs, lists and tables: what a card is before anything in it has a meaning.

Every piece of text remembers its line and column, so that an error in a table cell can point
there. Three formats share this form: Markdown here, LaTeX in latex.py, JSON in structured.py.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

from viete.cards.visible import Line, visible_lines
from viete.errors import Text
from viete.notation.readable import readable
from viete.printable import display_width


@dataclass
class Heading:
    """A title; ``level`` is 1 for the card's own and greater for what stands below it."""

    level: int
    text: Text


@dataclass
class Paragraph:
    """Running text, or a formula on a line of its own."""

    text: Text


@dataclass
class Item:
    """A bullet or a numbered item; ``notes`` are the bullets below it."""

    text: Text
    numbered: bool = False
    notes: list[Text] = field(default_factory=list)


@dataclass
class Table:
    """Rows of cells; a row as written may be shorter or longer than the header."""

    header: list[Text]
    rows: list[list[Text]]


@dataclass
class Code:
    """Lines to be shown as they are, such as a drawing; ``at`` is where they begin in a source."""

    text: str
    at: Text = field(default_factory=lambda: Text(""))


Block = Heading | Paragraph | Item | Table | Code

_HEADING = re.compile(r"^ {0,3}(#{1,6})(?=[ \t]|$)")
_CLOSING = re.compile(r"(?:[ \t]+#+)?[ \t]*$")  # of a heading: as many # as one likes
_UNDERLINE = re.compile(r"^ {0,3}(=+|-+)[ \t]*$")  # makes the paragraph above it a heading
_BREAK = re.compile(r"^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
MAX_LINE = 10_000  # characters of a line or a paragraph
_ITEM = re.compile(r"^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*\S)\s*$")
# Opens a loop, blank line before it or not, or tries to.
_FOR = re.compile(r"^\**for\b.*(=|\bfrom\b|\.\.).*:\**\s*$", re.I)
_RULE = re.compile(r"\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?")


def read_markdown(content: str, file: str) -> list[Block]:
    """Split Markdown into blocks: what is no list, table or heading is a paragraph.

    What a reader of the page sees as code, or does not see, is no part of a list or a table.
    """
    blocks: list[Block] = []
    lines = list(visible_lines(content, file))
    indent: int | None = None  # of the item that notes belong to
    offset = 0  # where the text of the last item or note begins
    k = 0
    while k < len(lines):
        text, line = lines[k].text, lines[k].text.text
        if not line.strip() and lines[k].kind == "text":
            k += 1
            continue
        before = lines[k - 1].text.text if k and lines[k - 1].kind == "text" else ""
        last = blocks[-1] if blocks else None
        goes_on = bool(before.strip()) and isinstance(last, Item | Paragraph)
        if line.lstrip().startswith(">") and not before.lstrip().startswith(">"):
            goes_on = False  # a quotation begins
        if not goes_on and column(line) < offset:
            offset = 0
        if lines[k].kind != "text" or (not goes_on and column(line) >= offset + 4):
            if isinstance(last, Code) and k and lines[k - 1].kind == lines[k].kind:
                last.text += f"\n{line}"
            else:
                blocks.append(Code(line, text.cut(0)))
                indent = None
        elif goes_on and isinstance(last, Paragraph) and _UNDERLINE.match(line):
            blocks[-1] = Heading(1 if "=" in line else 2, last.text)
        elif _BREAK.match(line):
            indent, offset = None, 0
        elif m := _HEADING.match(line):
            title = text.cut(m.end(1))
            blocks.append(Heading(len(m[1]), replace(title, text=_CLOSING.sub("", title.text))))
            indent, offset = None, 0
        elif k + 1 < len(lines) and "|" in line and rule(lines[k + 1], len(cells(text)), offset):
            if goes_on and isinstance(last, Item):
                raise text.error("a table needs a blank line above it, to end the list")
            table = Table(cells(text), [])
            k += 2
            while k < len(lines) and is_row(lines[k], offset):
                table.rows.append(cells(lines[k].text))
                k += 1
            blocks.append(table)
            indent = None
            continue
        elif m := _ITEM.match(line):
            body = text.cut(m.start(3), m.end(3))
            offset = len(line[: m.start(3)].expandtabs(4))
            if indent is not None and column(line) > indent and isinstance(last, Item):
                last.notes.append(body)
            else:
                indent = column(line)
                blocks.append(Item(body, m[2] is not None))
        elif goes_on and not _FOR.match(line):
            # A line that goes on from the one before: prose may wrap, a formula may not.
            if isinstance(last, Item) and last.notes:
                last.notes[-1] = joined(last.notes[-1], text)
            elif isinstance(last, Item | Paragraph):
                last.text = joined(last.text, text)
        else:
            blocks.append(Paragraph(text.cut(0)))
            indent = None
        k += 1
    for block in blocks:
        match block:
            case Table():
                block.rows = [[unmarked(cell) for cell in row] for row in block.rows]
            case Item():
                block.text, block.notes = unmarked(block.text), list(map(unmarked, block.notes))
            case Heading() | Paragraph():
                block.text = unmarked(block.text)
    return blocks


def column(line: str) -> int:
    """Where a line's text begins; a tab goes to the next multiple of four."""
    wide = line.expandtabs(4)
    return len(wide) - len(wide.lstrip())


def rule(line: Line, columns: int, offset: int) -> bool:
    """Whether this is the row of dashes below the header of a table with so many columns."""
    text = line.text.text.strip()
    return (
        is_row(line, offset) and "|" in text and _RULE.fullmatch(text) is not None
        and len(cells(line.text)) == columns
    )  # fmt: skip


def is_row(line: Line, offset: int) -> bool:
    """Whether a line below a table belongs to it: all do up to a blank one or another block."""
    text = line.text.text
    other = _HEADING.match(text) or _ITEM.match(text) or _BREAK.match(text)
    return (
        line.kind == "text" and bool(text.strip()) and not other and column(text) < offset + 4
        and not text.lstrip().startswith(">")
    )  # fmt: skip


def joined(a: Text, b: Text) -> Text:
    """Two lines of a paragraph as one text, placed where the first stands."""
    if len(a.text) > MAX_LINE:
        raise a.error(f"this paragraph goes on for more than {MAX_LINE:,} characters", 0, 1)
    return Text(f"{a.text} {b.text.strip()}", a.file, a.line, a.column, a.whole)


def cells(row: Text) -> list[Text]:
    """A row's cells; a bar inside ``$…$`` or backticks, or after a backslash, is no border."""
    out, start, inside, escaped = list[Text](), 0, "", -1
    text = row.text
    for m in _BORDER.finditer(text):
        c, k = m[0], m.start()
        if k == escaped:
            continue
        if c == "\\" and not inside:
            escaped = k + 1
        elif c in "$`" and (not inside or inside == c):
            inside = "" if inside else c
        elif c == "|" and not inside:
            out.append(row.cut(start, k))
            start = k + 1
    if text[start:].strip():
        out.append(row.cut(start))
    out = out[1:] if text.lstrip().startswith("|") else out
    return [replace(c, text=c.text.replace("\\|", "|")) if "\\|" in c.text else c for c in out]


def barred(text: str) -> str:
    """A cell's text with its bars marked, where they would be taken for borders."""
    pieces = _MATH_OR_CODE.split(text)
    return "".join(p if k % 2 else p.replace("|", "\\|") for k, p in enumerate(pieces))


# In CommonMark (sec. 6.5 and 6.6): a tag, the beginning of a comment or a declaration, a link.
_HTML = re.compile(
    r"<(?:[A-Za-z][A-Za-z0-9-]*(?:\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:[^\s\"'=<>`]+|'[^']*'|"
    r"\"[^\"]*\"))?)*\s*/?>|/[A-Za-z][A-Za-z0-9-]*\s*>|!--|[!?]|"
    r"[A-Za-z][A-Za-z0-9+.-]+:[^\s<>]*>)"
)
_MATH = re.compile(r"\$[^$]*\$")
_MATH_OR_CODE = re.compile(r"(\$[^$]*\$|`[^`]*`)")
_BORDER = re.compile(r"[\\$`|]")  # between cells, or what keeps a bar from being one


def markdown(text: str) -> str:
    """A card's text in Markdown: what a page would take for HTML is shown as it is."""
    return prose(text, lambda s: re.sub("<(?=[A-Za-z/!?])", "&lt;", re.sub(_ENTITY, "&amp;", s)))


def unmarked(text: Text) -> Text:
    """The inverse of `markdown`."""
    if "&" not in text.text:
        return text
    said = prose(text.text, lambda s: re.sub("&(lt|amp);", lambda m: "<&"[m[1] == "amp"], s))
    return replace(text, text=said)


_ENTITY = "&(?=(?:lt|amp);)"


def check_shown(blocks: list[Block]) -> None:
    """Refuse a formula that a page of Markdown would take for HTML, and so would not show."""
    for text in texts(blocks):
        for m in _MATH.finditer(text.text):
            for at in range(m.start(), m.end()):
                if text.text[at] == "<" and (found := _HTML.match(text.text, at)):
                    raise text.error(
                        "a page of Markdown takes this for HTML; in a formula put a space after <",
                        at, found.end(),
                    )  # fmt: skip


def texts(blocks: list[Block]) -> Iterator[Text]:
    """Every text of a document but its drawings."""
    for block in blocks:
        match block:
            case Table():
                yield from (cell for row in [block.header, *block.rows] for cell in row)
            case Item():
                yield from (block.text, *block.notes)
            case Heading() | Paragraph():
                yield block.text


def prose(text: str, change: Callable[[str], str]) -> str:
    """``text`` with what is neither a formula nor code changed."""
    ticks = re.findall(r"\\?`+", text)
    crossed = any("`" in m[0] for m in _MATH.finditer(text))
    if crossed or len(ticks) % 2 or any(t != "`" for t in ticks):
        return change(text)  # where code begins here, not every page would say alike
    pieces = _MATH_OR_CODE.split(text)
    return "".join(p if k % 2 else change(p) for k, p in enumerate(pieces))


def write_markdown(blocks: list[Block]) -> str:
    """The inverse of `read_markdown`, in one canonical layout."""
    out: list[str] = []
    number, before = 0, None
    for block in blocks:
        if before is not None and not (isinstance(block, Item) and isinstance(before, Item)):
            out.append("")
        match block:
            case Heading():
                out.append("#" * block.level + " " + markdown(block.text.text))
                number = 0 if block.level <= 2 else number
            case Paragraph():
                out.append(markdown(block.text.text))
            case Item():
                number += block.numbered
                mark = f"{number}." if block.numbered else "-"
                out.append(f"{mark} {markdown(block.text.text)}")
                out += [" " * (len(mark) + 1) + f"- {markdown(n.text)}" for n in block.notes]
            case Table():
                rows = [[barred(markdown(t.text)) for t in row] for row in block.rows]
                rows = [[t.text for t in block.header], ["---"] * len(block.header), *rows]
                out += ["| " + " | ".join(row) + " |" for row in rows]
            case Code():
                fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", block.text)), 0)
                out += [fence, block.text.rstrip("\n"), fence]
        before = block
    return "\n".join(out) + "\n"


def write_text(blocks: list[Block]) -> str:
    """For the terminal: no markup; formulas, shapes and meanings in columns."""
    out: list[str] = []
    number = 0
    for kind, run in groupby(blocks, key=lambda b: isinstance(b, Item) or id(b)):
        group = list(run)
        if kind is True:
            items = [b for b in group if isinstance(b, Item)]
            rows = []
            for item in items:
                number += item.numbered
                mark = f"{number:>3}." if item.numbered else "  ·"
                formula, colon, meaning = item.text.text.partition("$: ")
                notes = "; ".join(plain(n.text).removeprefix("Shape: ") for n in item.notes)
                rows.append([mark, plain(formula + "$" * bool(colon)), notes, plain(meaning)])
            out += ["", *aligned(rows, " ", cap=72)]
            continue
        block = group[0]
        match block:
            case Heading():
                title = plain(block.text.text)
                rule = {1: "═", 2: "─"}.get(block.level)
                out += ["", title] + ([rule * display_width(title)] if rule else [])
                number = 0 if block.level <= 2 else number
            case Paragraph():
                out += ["", *textwrap.wrap(plain(block.text.text), 100)]
            case Code():
                out += ["", block.text.rstrip("\n")]
            case Table():
                cells = [[plain(t.text) for t in row] for row in [block.header, *block.rows]]
                columns = max(map(len, cells), default=0)
                cells = [row + [""] * (columns - len(row)) for row in cells]
                widths = [max(display_width(row[c]) for row in cells) for c in range(columns)]
                cells.insert(1, ["─" * w for w in widths])
                out += ["", *aligned(cells, "  ", header=2)]
    return "\n".join(out).lstrip("\n") + "\n"


def aligned(rows: list[list[str]], indent: str, header: int = 0, cap: int = 200) -> list[str]:
    """Rows with their columns lined up; below ``header`` rows, columns of numbers to the right.

    A cell wider than ``cap`` pushes what follows.
    """
    columns = range(len(rows[0]))
    sizes = [[display_width(c) for c in r] for r in rows]
    widths = [max((size[c] for size in sizes if size[c] <= cap), default=0) for c in columns]
    body = [[r[c] for r in rows[header:] if r[c]] if header else [] for c in columns]
    right = [bool(b) and all(map(_AMOUNT.fullmatch, b)) for b in body]
    out = []
    for row, size in zip(rows, sizes, strict=True):
        cells = zip(row, size, widths, right, strict=True)
        padded = [" " * (w - n) + s if r else s + " " * (w - n) for s, n, w, r in cells]
        out.append((indent + "  ".join(padded)).rstrip())
    return out


_AMOUNT = re.compile(r"[\d,]+(\.\d+)?( [KMGTP]?i?B)?")


def plain(text: str) -> str:
    """Inline markup taken off: ``$…$``, backticks, bold."""
    return readable(text).replace("`", "").replace("**", "")
