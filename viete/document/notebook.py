"""Documents in a notebook cell: a fragment of HTML whose styles apply only to itself.

It runs no script and fetches nothing, so a saved notebook shows it again. A long document is cut
after its first blocks and a long table after its first and last rows, and the fragment says what it
leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from viete.document.colours import sheet
from viete.document.html import element, prose
from viete.document.latex import write_block
from viete.document.rendering import render
from viete.document.tree import (
    Block,
    CodeBlock,
    Heading,
    ListItem,
    Panel,
    Paragraph,
    TextTable,
    WriterBlock,
    heading,
    paragraph,
    simple,
    with_lists,
)
from viete.errors import Text

ROWS = 40  # of a table that a notebook shows
BLOCKS = 240  # of a document
CHARACTERS = 2_000  # of a text
MARKS = str.maketrans("$`*", "＄ˋ∗")  # as signs that are not markup


# -- short enough ----------------------------------------------------------------------------------


def in_short(blocks: Sequence[Block]) -> list[Block]:
    """The document without the middle of long tables, and with only its first blocks."""
    out = list(map(short, blocks[:BLOCKS]))
    if rest := len(blocks) - BLOCKS:
        out += [paragraph(f"… ({rest:,} more)")] * (rest > 0)
    return out


def short(block: Block) -> Block:
    """A block without the middle of a long table, or the beginning of a long text."""
    match block:
        case TextTable() if len(block.rows) > ROWS:
            half, rest = ROWS // 2, len(block.rows) - ROWS + 1
            columns = len(block.header) or len(block.rows[0])
            gap = [Text(f"… ({rest:,} more)"), *[Text("")] * (columns - 1)]
            return short(replace(block, rows=[*block.rows[:half], gap, *block.rows[-half + 1 :]]))
        case TextTable():
            return replace(block, rows=[list(map(cut, row)) for row in block.rows])
        case Panel():
            return replace(block, blocks=in_short(block.blocks))
        case Heading() | Paragraph() | ListItem():
            return replace(block, text=cut(block.text))
        case CodeBlock():
            return replace(block, text=beginning(block.text, 10 * CHARACTERS))
    return block


def cut(text: Text) -> Text:
    """A text, or the beginning of a long one; the cut may be inside a formula."""
    if len(text.text) <= CHARACTERS:
        return text
    return Text(beginning(text.text, CHARACTERS).translate(MARKS))


def beginning(text: str, most: int) -> str:
    """The first characters of a text."""
    return text if len(text) <= most else f"{text[:most]}…"


def lower(block: Block, levels: int) -> Block:
    """A heading lowered by some ``levels``; any other block unchanged."""
    return heading(block.level + levels, block.text.text) if isinstance(block, Heading) else block


# -- HTML and LaTeX --------------------------------------------------------------------------------


def html_part(blocks: Iterable[Block]) -> str:
    """The document as one HTML element with its style."""
    parts = map(html_block, with_lists(lower(b, 2) for b in blocks))
    return f'<div class="viete"><style>{style()}</style>\n' + "\n".join(parts) + "\n</div>"


def html_block(block: WriterBlock) -> str:
    """One block; steps have no links, since each output of a notebook has its own step 1."""
    if isinstance(block, Panel):
        inside = map(html_block, with_lists(block.blocks))
        return (f"<article><header><h3>{block.number}. {prose(block.title)}</h3></header>"
                f"{''.join(inside)}</article>")  # fmt: skip
    if isinstance(block, Heading):
        level = min(block.level, 6)
        return f"<h{level}>{prose(block.text.text)}</h{level}>"
    return element(block)


def markdown_part(blocks: Iterable[Block]) -> str:
    """The document as Markdown, with headings below those of the notebook."""
    return render([lower(b, 2) for b in blocks], "md")


def latex_part(blocks: Iterable[Block]) -> str:
    """The document as LaTeX without a preamble, for one that loads amsmath and longtable."""
    return "\n\n".join(latex_blocks(blocks))


def latex_blocks(blocks: Iterable[Block]) -> Iterator[str]:
    """The blocks of the document as LaTeX; its title becomes a section."""
    for block in with_lists(simple(blocks)):
        if isinstance(block, Heading):
            block = heading(block.level + 1, block.text.text)
        text = write_block(block)
        yield re.sub(r"^(\\begin\{enumerate\})\[resume\]", r"\1", text)


@cache
def style() -> str:
    """The style sheet of our pages, restricted to one element.

    The class is written twice, so that it overrides a notebook's own rules for tables.
    """
    inside = re.sub(r"(?<![\w-]):root|(?<![\w.#-])(?:html|body|main)(?=\s*[{,])", "&", sheet())
    return f".viete.viete {{ {inside}\n{OUTPUT} }}"


# In an output there is no page to fill, and rows are not striped as the notebook has them.
OUTPUT = """& { padding: .6rem 1rem; border-radius: 8px; margin: 0; max-width: 60rem;
  overflow-x: auto; } tr, th, td { background: none; } h3 { margin: .4rem 0 .6rem; }
h4 { margin: 1.1rem 0 .4rem; } h5 { margin: .8rem 0 .3rem; }"""


__all__ = ["html_part", "in_short", "latex_part", "markdown_part"]
