"""The document tree: headings, paragraphs, lists, tables, equations, drawings, lesson steps.

Texts hold Markdown's inline markup: formulas between dollar signs, code between backticks,
``**strong**`` and ``*stressed*`` words. A text that was read remembers its line and column, so an
error in a table cell can point to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from viete.errors import Text


@dataclass
class Heading:
    """A title; ``level`` is 1 for the document's title and greater for sections."""

    level: int
    text: Text


@dataclass
class Paragraph:
    """Running text, or a formula on a line of its own."""

    text: Text


@dataclass
class ListItem:
    """A bullet or a numbered item; ``notes`` are the bullets below it."""

    text: Text
    numbered: bool = False
    notes: list[Text] = field(default_factory=list)


@dataclass
class TextTable:
    """Rows of cells; a row as written may be shorter or longer than the header.

    A table of numbers has a ``caption`` and no header.
    """

    header: list[Text]
    rows: list[list[Text]]
    caption: str = ""


@dataclass
class CodeBlock:
    """Lines shown unchanged, such as a drawing; ``at`` is their place in a source.

    A drawing may have an SVG ``picture``, or be an image in a ``file``, for formats that show one.
    """

    text: str
    at: Text = field(default_factory=lambda: Text(""))
    picture: str = ""
    file: str = ""


@dataclass
class Equations:
    """Numbered equations, aligned: left side, right side, and a note on each."""

    rows: list[tuple[str, str, str]]


@dataclass(frozen=True)
class Chip:
    """One stage of a pipeline; ``now`` is true for the stage of the current step."""

    text: str
    now: bool = False
    done: bool = False


@dataclass
class Pipeline:
    """Stages in order, with the current one marked."""

    chips: list[Chip]


@dataclass(frozen=True)
class Chain:
    """A line of numbers: ``name = row = put_in = value ≈ digits``, each a formula or empty.

    ``rows`` are formulas of rows, ``note`` says what is left out; a ``part`` is on the way to a
    step's value. ``decimals`` are what is put in and the value once more, each with its sign, and
    ``decimal_note`` is the note beside them. ``entries`` are the numbers of the value one by one,
    "" for one that has only digits.

    ``heads`` are the letters of a family with their numbers, where the line is about one member.

    A question of a worksheet has a number, and ``blanks`` in place of its value: fields to write
    in, each for so many letters. Its answer in the key has the number too.
    """

    name: str
    rows: tuple[str, ...] = ()
    put_in: str = ""
    value: str = ""
    digits: str = ""
    note: str = ""
    part: bool = False
    decimals: tuple[tuple[str, str], ...] = ()
    decimal_note: str = ""
    entries: tuple[str, ...] = ()
    number: int = 0
    blanks: tuple[int, ...] = ()
    row: bool = True  # whether the value stands in brackets
    heads: tuple[tuple[str, int], ...] = ()

    @property
    def sides(self) -> list[str]:
        """The sides of the equality, each once."""
        found = dict.fromkeys(t for t in (*self.rows, self.put_in, self.value) if t)
        return [t for t in found if t != self.name]

    def formula(
        self, about: str, blank: Callable[[int], str] = "_".__mul__, brackets: str = "({})"
    ) -> str:
        """The line as one formula; ``about`` is the sign before the digits.

        ``blank`` makes a place to write in, for so many letters, and ``brackets`` stand around
        several.
        """
        out = " = ".join([self.name, *self.sides])
        if self.blanks:
            fields = ", ".join(map(blank, self.blanks))
            out += " = " + (brackets.format(fields) if self.row else fields)
        return out + (f" {about} {self.digits}" if self.digits else "")


@dataclass
class Column:
    """A step's content at one place, such as a position of the text; ``place`` is its number."""

    title: str
    lines: list[Chain]
    place: int | None = None


@dataclass
class SideBySide:
    """Places side by side."""

    sides: list[Column]


@dataclass
class Panel:
    """A numbered step with a title."""

    number: int
    title: str
    blocks: list[Block]


@dataclass
class Matrix:
    """``name = [rows]``, of formulas; ``labels`` are outside the brackets, one for each row."""

    name: str
    rows: list[list[str]]
    labels: list[str]
    caption: str = ""


@dataclass(frozen=True)
class RegisterRow:
    """One row of a register: a value's name, and its entry in each column.

    ``now``: it was computed last; ``step`` is its step's number; ``heads`` as in `Chain`.
    """

    name: str
    cells: tuple[str, ...]
    step: int
    now: bool = False
    heads: tuple[tuple[str, int], ...] = ()


@dataclass
class Register:
    """The values computed so far, with a column for each place."""

    columns: list[str]
    entries: list[RegisterRow]
    earlier: int = 0  # values before the first that is written

    def new(self) -> list[RegisterRow]:
        """The values that were computed last, where a table says more than the only line."""
        found = [e for e in self.entries if e.now]
        return found if len(found) > 1 else []


@dataclass
class StepsBeside:
    """Steps, each with the register at that step; ``whole`` is the register after the last step.

    On paper and in a terminal, a table of the values that they made stands below them.
    """

    panels: list[Panel]
    registers: list[Register]
    whole: Register


@dataclass
class ItemList:
    """Consecutive items of one kind; ``first`` is the number of the first item."""

    items: list[ListItem] | list[Chain]
    first: int = 0


Block = (
    Heading | Paragraph | ListItem | TextTable | CodeBlock | Equations | Pipeline | Chain | Panel
    | SideBySide | Matrix | StepsBeside
)  # fmt: skip
WriterBlock = (
    Heading | Paragraph | ItemList | TextTable | CodeBlock | Equations | Pipeline | Panel
    | SideBySide | Matrix | StepsBeside
)  # fmt: skip
# what a writer meets


# -- nodes that stand in no source -----------------------------------------------------------------


def heading(level: int, text: str) -> Heading:
    """A heading."""
    return Heading(level, Text(text))


def paragraph(text: str) -> Paragraph:
    """Plain prose."""
    return Paragraph(Text(text))


def item(text: str, meaning: str = "", numbered: bool = False) -> ListItem:
    """``text: meaning``, or only the text if it has no meaning."""
    return ListItem(Text(f"{text}: {meaning}" if meaning else text), numbered)


def fact(title: str, text: str) -> ListItem:
    """A bullet with a title."""
    return item(f"**{title}:** {text}")


def table(header: list[str], rows: list[list[str]]) -> TextTable:
    """A table without the columns that are empty in every row."""
    used = [c for c in range(len(header)) if any(row[c] for row in rows)]
    return TextTable([Text(header[c]) for c in used], [[Text(row[c]) for c in used]
                                                       for row in rows])  # fmt: skip


def listed(words: Iterable[str]) -> str:
    """``a, b and c``."""
    *most, last = [*words] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def capital(text: str) -> str:
    """A phrase with a capital letter, unless it begins with a symbol."""
    word = text.split(" ")[0].rstrip(",;:")
    return text[0].upper() + text[1:] if word.isalpha() and len(word) > 1 else text


# -- what every writer does ------------------------------------------------------------------------


def with_lists(blocks: Iterable[Block]) -> Iterator[WriterBlock]:
    """The blocks with consecutive items as lists; numbers restart after a heading."""

    def kind(block: Block) -> tuple[type, bool] | None:
        match block:
            case ListItem():
                return ListItem, block.numbered
            case Chain():
                return Chain, block.part
        return None

    number = 0
    for _, group in groupby(blocks, kind):
        run = list(group)
        items = [b for b in run if isinstance(b, ListItem)]
        chains = [b for b in run if isinstance(b, Chain)]
        if items and items[0].numbered:
            yield ItemList(items, number + 1)
            number += len(items)
        elif items or chains:
            yield ItemList(items or chains)
        else:
            for block in run:
                assert not isinstance(block, ListItem | Chain)
                if isinstance(block, Heading) and block.level <= 2:
                    number = 0
                yield block


def simple(blocks: Iterable[Block], typst: bool = False) -> Iterator[Block]:
    """Steps, pipelines and chains as headings, paragraphs and items, for formats that lack them.

    Formulas are in LaTeX's style, or in that of ``typst``.
    """
    for block in blocks:
        match block:
            case Panel():
                yield heading(3, f"{block.number}. {block.title}")
                yield from simple(block.blocks, typst)
            case Pipeline():
                yield paragraph(" → ".join(marked(c, typst) for c in block.chips))
            case Chain():
                # a row of blanks stays on one line
                signs = (("≈", typst_blank, '"("{}")"') if typst
                         else (r"\approx", latex_blank, "{{({})}}"))  # fmt: skip
                text = f"${block.formula(*signs)}$"
                text = text if block.name else ""
                mark = f"**({block.number})** " * bool(block.number)
                yield item(
                    mark + (f"{text} ({block.note})" if text and block.note else text or block.note)
                )
            case SideBySide():
                for side in block.sides:
                    yield from [paragraph(f"*{side.title}*")] * bool(side.title)
                    yield from simple(side.lines, typst)
            case Matrix():
                words = [x.strip("`") for x in block.labels]
                rows = f"rows {', '.join(block.labels)}" if not is_plain(words) else ""
                said = "; ".join(filter(None, (block.caption, rows)))
                said = f": {said}" if said else ""
                yield paragraph(f"${matrix(block, typst)}${said}")
            case StepsBeside():
                yield from simple(with_one_pipeline(block.panels), typst)
                if new := block.whole.new():
                    yield registered(block.whole.columns, new)
            case _:
                yield block


def with_one_pipeline(panels: Iterable[Panel]) -> Iterator[Panel]:
    """Steps in which only the first of several at one stage shows the pipeline, for paper."""
    for k, p in enumerate(panels):
        yield replace(p, blocks=[b for b in p.blocks if k == 0 or not isinstance(b, Pipeline)])


def latex_blank(letters: int) -> str:
    """A blank to fill in, in LaTeX."""
    return r"\underline{" + r"\qquad" * (1 + letters // 4) + "}"


def typst_blank(letters: int) -> str:
    """A blank to fill in, in Typst."""
    return f"#box(width: {0.6 * letters:g}em, height: 1.6em, stroke: (bottom: 0.5pt))"


def matrix(block: Matrix, typst: bool = False) -> str:
    """A matrix in brackets in LaTeX or Typst, with its labels behind it."""
    labels = [x.strip("`") for x in block.labels]
    plain = is_plain(labels)  # else a word might be read as a command
    if typst:
        out = f"{block.name} = display({matrix_formula(block.rows, True)})"
        words = "; ".join(f'"{x}"' for x in labels)
        return f"{out} display(mat(delim: #none, {words}))" if labels and plain else out
    out = f"{block.name} = {matrix_formula(block.rows)}"
    words = r" \\ ".join(rf"\text{{{x}}}" for x in labels)
    return rf"{out} \begin{{matrix}} {words} \end{{matrix}}" if labels and plain else out


def registered(columns: Sequence[str], entries: Sequence[RegisterRow]) -> TextTable:
    """Values of a register as a table, with a column for each place."""
    rows = [[f"${t}$" if t else "" for t in (e.name, *e.cells)] for e in entries]
    return TextTable([Text(t) for t in ("value", *columns)],
                     [[Text(c) for c in row] for row in rows])  # fmt: skip


def matrix_formula(rows: list[list[str]], typst: bool = False) -> str:
    """Rows in round brackets as LaTeX or Typst."""
    if typst:
        return f"mat({'; '.join(map(', '.join, rows))})"
    inner = r" \\ ".join(map(" & ".join, rows))
    return rf"\begin{{pmatrix}} {inner} \end{{pmatrix}}"


def is_plain(labels: list[str]) -> bool:
    """Whether labels are letters and digits only, so that a formula can contain them unchanged."""
    return all(x.isascii() and x.isalnum() for x in labels)


def marked(chip: Chip, typst: bool = False) -> str:
    """A stage of the pipeline; the current one is in a box or in bold."""
    if not chip.now:
        return chip.text
    if not chip.text.startswith("$"):
        return f"**{chip.text}**"
    inner = chip.text[1:-1]
    return f"$bold({inner})$" if typst else rf"$\boxed{{{inner}}}$"


_INLINE = re.compile(r"(\$[^$]+\$|`[^`]+`|\*\*(?=\S).+?\*\*|\*(?=[^\s*])[^*]*(?<=\S)\*)")


Kinds = Mapping[str, Callable[[str], str]]  # how a format writes the kinds of `inline`


def inline(text: str) -> Iterator[tuple[str, str]]:
    """A text's pieces, each with its kind: 'text', 'math', 'code', 'strong' or 'stress'."""
    for k, piece in enumerate(_INLINE.split(text)):
        if k % 2 == 0:
            if piece:
                yield "text", piece
        elif piece[0] in "$`":
            yield "math" if piece[0] == "$" else "code", piece[1:-1]
        elif piece.startswith("**"):
            yield "strong", piece[2:-2]
        else:
            yield "stress", piece[1:-1]


def set_in(text: str, kinds: Kinds) -> str:
    """A text whose pieces are each written by the function of their kind, if ``kinds`` has one."""
    return "".join(kinds.get(kind, str)(piece) for kind, piece in inline(text))


def marked_items(block: ItemList, prose: Callable[[str], str]) -> str:
    """Items after dashes or numbers, with their notes below, as in Markdown and Typst."""
    out = []
    for number, item in enumerate(block.items, block.first):
        assert isinstance(item, ListItem)
        mark = f"{number}." if block.first else "-"
        out.append(f"{mark} {prose(item.text.text)}")
        out += [f"{' ' * len(mark)} - {prose(note.text)}" for note in item.notes]
    return "\n".join(out)
