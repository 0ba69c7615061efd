"""Documents as Markdown: reading, with lines and columns, and writing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from viete.document.commonmark import SourceLine, visible_lines
from viete.document.tree import (
    Block,
    CodeBlock,
    Equations,
    Heading,
    ItemList,
    ListItem,
    Paragraph,
    TextTable,
    WriterBlock,
    marked_items,
    simple,
    with_lists,
)
from viete.errors import Text

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
    """Split Markdown into blocks: what is not a list, table or heading is a paragraph.

    Code and comments are not part of a list or a table.
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
        goes_on = bool(before.strip()) and isinstance(last, ListItem | Paragraph)
        if line.lstrip().startswith(">") and not before.lstrip().startswith(">"):
            goes_on = False  # a quotation begins
        if not goes_on and column(line) < offset:
            offset = 0
        if lines[k].kind != "text" or (not goes_on and column(line) >= offset + 4):
            if isinstance(last, CodeBlock) and k and lines[k - 1].kind == lines[k].kind:
                last.text += f"\n{line}"
            else:
                blocks.append(CodeBlock(line, text.cut(0)))
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
            if goes_on and isinstance(last, ListItem):
                raise text.error("a table needs a blank line above it, to end the list")
            table = TextTable(cells(text), [])
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
            if indent is not None and column(line) > indent and isinstance(last, ListItem):
                last.notes.append(body)
            else:
                indent = column(line)
                blocks.append(ListItem(body, m[2] is not None))
        elif goes_on and not _FOR.match(line):
            # A line that goes on from the one before: prose may wrap, a formula may not.
            if isinstance(last, ListItem) and last.notes:
                last.notes[-1] = joined(last.notes[-1], text)
            elif isinstance(last, ListItem | Paragraph):
                last.text = joined(last.text, text)
        else:
            blocks.append(Paragraph(text.cut(0)))
            indent = None
        k += 1
    for block in blocks:
        match block:
            case TextTable():
                block.rows = [[unmarked(cell) for cell in row] for row in block.rows]
            case ListItem():
                block.text, block.notes = unmarked(block.text), list(map(unmarked, block.notes))
            case Heading() | Paragraph():
                block.text = unmarked(block.text)
    return blocks


def column(line: str) -> int:
    """The column where a line's text begins; a tab goes to the next multiple of four."""
    wide = line.expandtabs(4)
    return len(wide) - len(wide.lstrip())


def rule(line: SourceLine, columns: int, offset: int) -> bool:
    """Whether a line is the row of dashes below a table's header with that many columns."""
    text = line.text.text.strip()
    return (
        is_row(line, offset) and "|" in text and _RULE.fullmatch(text) is not None
        and len(cells(line.text)) == columns
    )  # fmt: skip


def is_row(line: SourceLine, offset: int) -> bool:
    """Whether a line continues a table: every line does until a blank line or another block."""
    text = line.text.text
    other = _HEADING.match(text) or _ITEM.match(text) or _BREAK.match(text)
    return (
        line.kind == "text" and bool(text.strip()) and not other and column(text) < offset + 4
        and not text.lstrip().startswith(">")
    )  # fmt: skip


def joined(a: Text, b: Text) -> Text:
    """Two lines of a paragraph as one text, with the place of the first."""
    if len(a.text) > MAX_LINE:
        raise a.error(f"this paragraph goes on for more than {MAX_LINE:,} characters", 0, 1)
    return Text(f"{a.text} {b.text.strip()}", a.file, a.line, a.column, a.whole)


def cells(row: Text) -> list[Text]:
    """A row's cells; a bar in ``$…$`` or backticks, or after a backslash, does not end a cell."""
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
    """A cell's text with escaped bars where a page would end the cell, also in code."""
    pieces = _MATH_OR_CODE.split(text)
    return "".join(p if p.startswith("$") else p.replace("|", "\\|") for p in pieces)


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
    """A card's text as Markdown; text that a page would read as HTML is escaped."""
    shown = prose(text, lambda s: re.sub("<(?=[A-Za-z/!?])", "&lt;", re.sub(_ENTITY, "&amp;", s)))
    return _MATH_OR_CODE.sub(lambda m: no_html(m[0]) if m[0][0] == "$" else m[0], shown)


def no_html(formula: str) -> str:
    """A formula with tokens such as <b> escaped, which a page would read as HTML."""
    return _HTML.sub(lambda m: f"\\lt {m[0][1:]}", formula)


def unmarked(text: Text) -> Text:
    """The inverse of `markdown`."""
    if "&" not in text.text:
        return text
    said = prose(text.text, lambda s: re.sub("&(lt|amp);", lambda m: "<&"[m[1] == "amp"], s))
    return replace(text, text=said)


_ENTITY = "&(?=(?:lt|amp);)"


def check_shown(blocks: list[Block]) -> None:
    """Raise VieteError for a formula that a page would read as HTML, and so would not show."""
    for text in texts(blocks):
        for m in _MATH.finditer(text.text):
            for at in range(m.start(), m.end()):
                if text.text[at] == "<" and (found := _HTML.match(text.text, at)):
                    raise text.error(
                        "a page of Markdown takes this for HTML; in a formula put a space after <",
                        at, found.end(),
                    )  # fmt: skip


def texts(blocks: list[Block]) -> Iterator[Text]:
    """Every text of a document except its drawings."""
    for block in blocks:
        match block:
            case TextTable():
                yield from (cell for row in [block.header, *block.rows] for cell in row)
            case ListItem():
                yield from (block.text, *block.notes)
            case Heading() | Paragraph():
                yield block.text


def prose(text: str, change: Callable[[str], str]) -> str:
    """``text`` with a function applied to everything but formulas and code."""
    ticks = re.findall(r"\\?`+", text)
    crossed = any("`" in m[0] for m in _MATH.finditer(text))
    if crossed or len(ticks) % 2 or any(t != "`" for t in ticks):
        return change(text)  # where code begins here, not every page would say alike
    pieces = _MATH_OR_CODE.split(text)
    return "".join(p if k % 2 else change(p) for k, p in enumerate(pieces))


def write_markdown(blocks: Iterable[Block]) -> str:
    """The inverse of `read_markdown`, in one canonical layout."""
    return "\n\n".join(map(write_block, with_lists(simple(blocks)))) + "\n"


def write_block(block: WriterBlock) -> str:
    """One block, without the blank lines around it."""
    out: list[str] = []
    match block:
        case Heading():
            out.append("#" * block.level + " " + markdown(block.text.text))
        case Paragraph():
            out.append(markdown(block.text.text))
        case ItemList():
            out.append(marked_items(block, markdown))
        case TextTable():
            out += [markdown(block.caption), ""] * bool(block.caption)
            rows = [[barred(markdown(t.text)) for t in row] for row in block.rows]
            header = [t.text for t in block.header] or [""] * max(map(len, rows), default=1)
            rows = [header, ["---"] * len(header), *rows]
            out += ["| " + " | ".join(row) + " |" for row in rows]
        case CodeBlock():
            out += [f"![data flow]({block.file})", ""] * bool(block.file)
            fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", block.text)), 0)
            out += [fence, block.text.rstrip("\n"), fence]
        case Equations():
            out += [f"- ${left} = {right}$" + f": {markdown(said)}" * bool(said)
                    for left, right, said in block.rows]  # fmt: skip
    return "\n".join(out)
