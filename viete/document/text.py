"""Documents as plain text for the terminal: formulas, shapes and meanings in columns."""

from __future__ import annotations

from collections.abc import Iterable

from viete.document.columns import (
    aligned,
    fitting_steps,
    fitting_table,
    table_width,
    terminal_width,
    wrapped,
)
from viete.document.tex import to_unicode
from viete.document.tree import (
    Block,
    Chain,
    CodeBlock,
    Equations,
    Heading,
    ItemList,
    ListItem,
    Matrix,
    Panel,
    Paragraph,
    Pipeline,
    SideBySide,
    StepsBeside,
    TextTable,
    set_in,
    with_lists,
    with_one_pipeline,
)
from viete.printable import display_width


def write_text(blocks: Iterable[Block]) -> str:
    """The document, with formulas in Unicode, within the columns of the terminal."""
    return "\n".join(lines(blocks, terminal_width())) + "\n"


def lines(blocks: Iterable[Block], width: int) -> list[str]:
    """The lines of a document, with a blank line between blocks."""
    out: list[str] = []
    for block in with_lists(blocks):
        match block:
            case Heading():
                title = wrapped(plain(block.text.text), width)
                rule = {1: "═", 2: "─"}.get(block.level, "") * max(map(display_width, title))
                out += ["", *title] + [rule] * bool(rule)
            case Paragraph():
                out += ["", *wrapped(plain(block.text.text), width)]
            case Pipeline():
                stages = (f"[{c.text}]" if c.now else c.text for c in block.chips)
                out += ["", *wrapped(plain(" → ".join(stages)), width)]
            case CodeBlock():
                out += ["", block.text.rstrip("\n")]
            case TextTable():
                out += ["", *wrapped(plain(block.caption), width)] * bool(block.caption)
                out += ["", *tabulated(block, room(width))]
            case Equations():
                rows = [[f"{left} = {right}", plain(said)] for left, right, said in block.rows]
                out += ["", *fitting_steps(rows, room(width), 72, "  ")]
            case ItemList():
                out += ["", *listed(block, width)]
            case SideBySide():
                for side in block.sides:
                    out += ["", *wrapped(plain(side.title), width)] * bool(side.title)
                    out += ["", *lines(side.lines, width)]
            case Matrix():
                out += ["", *bracketed(block, room(width))]
            case StepsBeside():
                out += ["", *lines(with_one_pipeline(block.panels), width)]
                if new := block.whole.new():
                    rows = [["value", *map(plain, block.whole.columns)]]
                    rows += [[e.name, *e.cells] for e in new]
                    out += ["", *fitting_table(rows, 1, room(width), "   ")]
            case Panel():
                inner = lines(block.blocks, width - 3)
                out += ["", *wrapped(f"{block.number}. {plain(block.title)}", width, "", "   ")]
                out += [f"   {line}" if line else "" for line in inner]
    return out[1:]


def room(width: int) -> int:
    """The columns available to a table or formulas, where prose has ``width``."""
    return max(width, table_width() - terminal_width() + width)


def listed(block: ItemList, width: int) -> list[str]:
    """Formulas with their shapes and meanings in columns; other items as prose."""
    marks = [f" {n:>3}." if block.first else "   ·" for n, _ in enumerate(block.items, block.first)]
    items = [i for i in block.items if isinstance(i, ListItem)]
    if items and all(i.notes or i.text.text[:1] == "$" for i in items):
        rows = [[mark, *columns(i)] for mark, i in zip(marks, items, strict=True)]
        return fitting_steps(rows, room(width), 72)
    out = []
    texts = [chained(i) if isinstance(i, Chain) else plain(i.text.text) for i in block.items]
    for mark, text in zip(marks, texts, strict=True):
        out += wrapped(text, width, f"{mark}  ", " " * (len(mark) + 2))
    return out


def columns(item: ListItem) -> list[str]:
    """A formula, its shape and its meaning."""
    formula, colon, meaning = item.text.text.partition("$: ")
    notes = "; ".join(plain(n.text).removeprefix("Shape: ") for n in item.notes)
    return [plain(formula + "$" * bool(colon)), notes, plain(meaning)]


def chained(chain: Chain) -> str:
    """One line of numbers, with its name in front and a note on omitted entries behind."""
    text = chain.formula("≈")
    mark = f"({chain.number}) " * bool(chain.number)
    text = f"{text}   ({plain(chain.note)})" if text and chain.note else text or plain(chain.note)
    return mark + text


def bracketed(matrix: Matrix, width: int) -> list[str]:
    """A matrix in brackets, its name before them and the labels of its rows behind.

    A name or a caption for which a line is too short stands above.
    """
    count = len(matrix.rows)
    left, right = ("(", ")") if count == 1 else ("⎛⎜⎝", "⎞⎟⎠")
    body = aligned(matrix.rows, numbers=True)
    wide = max(map(display_width, body), default=0)
    rows = []
    for k, row in enumerate(body):
        edge = 0 if k == 0 else -1 if k == count - 1 else 1
        label = f"  {plain(matrix.labels[k])}" if matrix.labels else ""
        rows.append(f"{left[edge]}{row}{' ' * (wide - display_width(row))}{right[edge]}{label}")
    name, caption, above, middle = f"{matrix.name} = ", plain(matrix.caption), [], (count - 1) // 2
    if caption and 7 + sum(map(display_width, (name, rows[middle], caption))) > width:
        above, caption = wrapped(f"{caption}:", width, "    ", "    "), ""
    if 4 + display_width(name) + max(map(display_width, rows)) > width:
        above, name = [*above, *wrapped(name, width, "    ", "    ")], "    "
    said = ["    " + (name if k == middle else " " * display_width(name)) + row
            for k, row in enumerate(rows)]  # fmt: skip
    said[middle] += f"   {caption}" * bool(caption)
    return [*above, *(line.rstrip() for line in said)]


def tabulated(table: TextTable, width: int) -> list[str]:
    """A table with a rule below its header; without a header, numbers under their caption."""
    rows = [[plain(t.text) for t in row] for row in (table.header, *table.rows) if row]
    count = max(map(len, rows), default=0)
    rows = [row + [""] * (count - len(row)) for row in rows]
    if not table.header:
        return aligned(rows, "    ", numbers=True)
    return fitting_table(rows, 1, width)


def plain(text: str) -> str:
    """A text without inline markup, with formulas in Unicode."""
    return set_in(text, {"math": to_unicode, "strong": plain, "stress": plain})
