"""Documents as one HTML page without scripts: formulas are MathML, and nothing is fetched.

All text from a card is escaped, or is converted and parsed before use.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import zip_longest

from viete.document.colours import sheet
from viete.document.columns import is_amount
from viete.document.formulas import math, with_punctuation
from viete.document.text import plain
from viete.document.tree import (
    Block,
    Chain,
    CodeBlock,
    Equations,
    Heading,
    ItemList,
    Kinds,
    ListItem,
    Matrix,
    Panel,
    Paragraph,
    Pipeline,
    Register,
    SideBySide,
    StepsBeside,
    TextTable,
    WriterBlock,
    inline,
    set_in,
    with_lists,
)

MOST_LINKS = 12  # sections that are listed above a page


def write_html(blocks: Iterable[Block]) -> str:
    """The document, written in LaTeX style, as a complete page."""
    found = list(with_lists(blocks))
    titles = [b.text.text for b in found if isinstance(b, Heading)]
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(plain(titles[0] if titles else ''))}</title>\n"
        f"<style>\n{sheet()}</style>\n</head>\n<body>\n"
    )
    body = "\n".join(parts(found))
    return f"{head}<main>\n{body}\n</main>\n</body>\n</html>\n"


def parts(blocks: list[WriterBlock]) -> Iterable[str]:
    """The elements of a page; links lead to its sections, and from each step to its neighbours."""
    sections = [b for b in blocks if isinstance(b, Heading) and b.level == 2]
    links = [f'<a href="#s{k}">{prose(b.text.text)}</a>' for k, b in enumerate(sections, 1)]
    count = panels = 0
    steps = [p for b in blocks if isinstance(b, StepsBeside) for p in b.panels]
    for block in blocks:
        if isinstance(block, StepsBeside):
            for p, beside in zip(block.panels, block.registers, strict=True):
                panels += 1
                step = panel(p, panels, panels > 1, panels < len(steps))
                yield f'<section class="stage">{step}{register(beside)}</section>'
        elif isinstance(block, Panel):
            panels += 1
            yield panel(block, panels, False, False)
        elif isinstance(block, Heading):
            level, anchor = min(block.level, 6), ""
            if level == 2:
                count += 1
                anchor = f' id="s{count}"'
            yield f"<h{level}{anchor}>{prose(block.text.text)}</h{level}>"
            if level == 1 and 1 < len(links) <= MOST_LINKS:
                yield f"<nav>{''.join(links)}</nav>"
        else:
            yield element(block)


def element(block: WriterBlock) -> str:
    """One block."""
    match block:
        case Paragraph():
            alone = [kind for kind, _ in inline(block.text.text)] == ["math"]
            tag, end = ('div class="equation"', "div") if alone else ("p", "p")
            return f"<{tag}>{prose(block.text.text)}</{end}>"
        case Pipeline():
            return pipeline(block)
        case ItemList() if isinstance(block.items[0], Chain):
            return chains([c for c in block.items if isinstance(c, Chain)])
        case ItemList() if block.first and all(i.text.text[:1] == "$" for i in texts(block)):
            return formulas(block)
        case ItemList():
            kind, start = ("ol", f' start="{block.first}"') if block.first else ("ul", "")
            items = []
            for i in texts(block):
                notes = "".join(f"<li>{prose(n.text)}</li>" for n in i.notes)
                items.append(f"<li>{prose(i.text.text)}{f'<ul>{notes}</ul>' * bool(notes)}</li>")
            return f"<{kind}{start}>{''.join(items)}</{kind}>"
        case TextTable():
            return tabulated(block)
        case Equations():
            return "\n".join(
                f'<div class="equation">{math(f"{left} = {right}", True)} {prose(said)}</div>'
                for left, right, said in block.rows
            )
        case SideBySide():
            return sides(block)
        case Matrix():
            return bracketed(block)
        case CodeBlock():
            drawing = f'<div class="drawing">{block.picture}</div>' if block.picture else ""
            return drawing or f"<pre>{escape(block.text)}</pre>"
    raise TypeError(block)


def texts(block: ItemList) -> list[ListItem]:
    """The texts among the items of a list."""
    return [i for i in block.items if isinstance(i, ListItem)]


def formulas(block: ItemList) -> str:
    """Numbered formulas, each with its meaning and shape below it."""
    out = []
    for i in texts(block):
        formula, colon, meaning = i.text.text.partition("$: ")
        alone = colon or formula.count("$") == 2
        shown = math(formula.strip("$"), True) if alone else prose(formula)
        notes = [n.text.removeprefix("Shape: ") for n in i.notes]
        below = "".join(f'<span class="meaning">{prose(t)}</span>' for t in [meaning, *notes] if t)
        out.append(f'<li><div class="formula">{shown}</div>{below}</li>')
    return f'<ol class="formulas" start="{block.first}">{"".join(out)}</ol>'


def tabulated(table: TextTable) -> str:
    """A table with its header, or numbers with their caption; amounts are right-aligned."""
    columns = zip_longest(*([t.text for t in row] for row in table.rows), fillvalue="")
    kinds = [' class="number"' * all(map(is_amount, filter(None, c))) for c in columns]
    rows = ""
    for row in table.rows:
        cells = zip(kinds, row, strict=False)
        rows += f"<tr>{''.join(f'<td{kind}>{prose(t.text)}</td>' for kind, t in cells)}</tr>"
    if not table.header:
        caption = f"<figcaption>{prose(table.caption)}</figcaption>"
        return f"<figure>{caption}<table>{rows}</table></figure>"
    head = "".join(f"<th>{prose(t.text)}</th>" for t in table.header)
    return (
        f'<div class="columns"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def panel(step: Panel, number: int, before: bool, after: bool) -> str:
    """A step as a panel, with links to the steps before and after it."""
    back = f'<a href="#p{number - 1}" aria-label="previous step">←</a>' * before
    on = f'<a href="#p{number + 1}" aria-label="next step">→</a>' * after
    return "\n".join([
        f'<article id="p{number}">',
        f'<header><span class="number">{step.number}</span><h3>{prose(step.title)}</h3>'
        f'<span class="jump">{back}{on}</span></header>',
        *map(element, with_lists(step.blocks)), "</article>",
    ])  # fmt: skip


def pipeline(block: Pipeline) -> str:
    """The stages as boxes in a row."""
    out = []
    for c in block.chips:
        kind = "now" if c.now else "done" if c.done else ""
        current = ' aria-current="step"' if c.now else ""
        out.append(f'<li><span class="{kind}"{current}>{prose(c.text)}</span></li>')
    return f'<ol class="pipe" aria-label="pipeline">{"".join(out)}</ol>'


def chains(lines: list[Chain]) -> str:
    """Lines of numbers: a name and, below each other, its derivation, its value and its digits."""
    out = []
    for line in lines:
        kinds = ["came"] * (len(line.sides) - 1) + ["result"]
        rows = [f'<div class="{kind}">{math("= " + text)}</div>'
                for kind, text in zip(kinds, line.sides, strict=False)]  # fmt: skip
        if line.blanks:
            rows.append(f'<div class="result">{fields(line)}</div>')
        if line.digits:
            rows.append(f'<div class="digits">{math("≈ " + line.digits)}</div>')
        mark = f'<span class="ask">{line.number}</span>' * bool(line.number)
        name = f"<div>{mark}{math(line.name)}</div>" if line.name else ""
        note = f'<div class="note">{prose(line.note)}</div>' if line.note else ""
        chain = f'<div class="chain">{"".join(rows)}</div>' if rows else ""
        out.append(f"<li>{name}{chain}{note}</li>")
    return f'<ul class="lines{" parts" if lines[0].part else ""}">{"".join(out)}</ul>'


def fields(line: Chain) -> str:
    """Fields to fill in, on paper or in the browser."""
    out = []
    for k, letters in enumerate(line.blanks, 1):
        which = f", entry {k}" * (len(line.blanks) > 1)
        out.append(f'<input size="{letters}" aria-label="answer {line.number}{which}" '
                   'autocomplete="off" spellcheck="false">')  # fmt: skip
    inner = ", ".join(out)
    return f"= ({inner})" if line.row else f"= {inner}"


def sides(block: SideBySide) -> str:
    """Positions side by side, each with its lines."""
    out = []
    for side in block.sides:
        title = f"<h4>{prose(side.title)}</h4>" if side.title else ""
        out.append(f"<div>{title}{''.join(map(element, with_lists(side.lines)))}</div>")
    return f'<div class="sides">{"".join(out)}</div>'


def bracketed(block: Matrix) -> str:
    """A matrix in brackets, with its row labels outside."""
    last = [f'<th scope="row">{prose(x)}</th>' for x in block.labels] or [""] * len(block.rows)
    rows = "".join(
        f"<tr>{''.join(f'<td>{math(x)}</td>' for x in row)}{label}</tr>"
        for row, label in zip(block.rows, last, strict=True)
    )
    caption = f"<figcaption>{prose(block.caption)}</figcaption>" if block.caption else ""
    body = f"{math(f'{block.name} =')}<table>{rows}</table>"
    if not block.labels and [len(row) for row in block.rows] == [1]:  # a single number
        body = math(f"{block.name} = {block.rows[0][0]}")
    return f'<figure class="matrix"><div>{body}</div>{caption}</figure>'


def register(found: Register) -> str:
    """The values computed so far, shown beside each step."""
    head = "".join(f'<th scope="col">{prose(c)}</th>' for c in found.columns)
    rows = []
    for e in found.entries:
        now = ' class="now" aria-current="step"' if e.now else ""
        name = f'<th scope="row"><a href="#p{e.step}">{math(e.name)}</a></th>'
        rows.append(f"<tr{now}>{name}{''.join(f'<td>{math(c)}</td>' for c in e.cells)}</tr>")
    more = f"<p>{found.earlier} earlier values stand with their steps.</p>" * bool(found.earlier)
    return (
        '<aside class="register" aria-label="values so far" tabindex="0"><div>'
        f"<h3>Values so far</h3>{more}<table><thead><tr><td></td>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div></aside>"
    )


def prose(text: str) -> str:
    """Prose with formulas as MathML."""
    return with_punctuation(set_in(text, KINDS))


KINDS: Kinds = {
    "text": escape, "math": math, "code": lambda piece: f"<code>{escape(piece)}</code>",
    "strong": lambda piece: f"<strong>{set_in(piece, KINDS)}</strong>",
    "stress": lambda piece: f"<em>{set_in(piece, KINDS)}</em>",
}  # fmt: skip
