"""Documents as one page of HTML: nothing is fetched, formulas are MathML, no script.

Whatever comes from a card is escaped, or goes through the converter and is parsed before use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib import resources
from xml.etree import ElementTree

from viete.document.text import plain
from viete.document.tree import (
    Block,
    Chain,
    CodeBlock,
    Equations,
    Heading,
    ItemList,
    Kinds,
    Panel,
    Paragraph,
    Pipeline,
    TextTable,
    WriterBlock,
    inline,
    set_in,
    with_lists,
)

_ELEMENTS = frozenset(
    "math mrow mi mn mo ms mtext mspace msub msup msubsup munder mover munderover mfrac msqrt "
    "mroot mtable mtr mtd mstyle mpadded mphantom menclose mfenced".split()
)
_ATTRIBUTES = frozenset(
    "display mathvariant stretchy fence form separator accent linethickness columnalign width "
    "lspace rspace minsize maxsize movablelimits notation columnspacing rowspacing".split()
)
OPENING = ("(", "[", ",", "=", "\u2248", "\u22c5")
NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
MOST_LINKS = 12  # sections that are listed above a page


def write_html(blocks: Iterable[Block]) -> str:
    """The document, made in LaTeX style, as a page of its own."""
    found = list(with_lists(blocks))
    titles = [b.text.text for b in found if isinstance(b, Heading)]
    style = resources.files("viete.document").joinpath("page.css").read_text("utf-8")
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(plain(titles[0] if titles else ''))}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n"
    )
    body = "\n".join(parts(found))
    return f"{head}<main>\n{body}\n</main>\n</body>\n</html>\n"


def parts(blocks: list[WriterBlock]) -> Iterable[str]:
    """The elements of a page; sections are listed below its title, steps know their neighbours."""
    sections = [b for b in blocks if isinstance(b, Heading) and b.level == 2]
    links = [f'<a href="#s{k}">{prose(b.text.text)}</a>' for k, b in enumerate(sections, 1)]
    count = panels = 0
    for k, block in enumerate(blocks):
        if isinstance(block, Panel):
            panels += 1
            near = [k > 0 and isinstance(blocks[k - 1], Panel),
                    k + 1 < len(blocks) and isinstance(blocks[k + 1], Panel)]  # fmt: skip
            yield panel(block, panels, *near)
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
        case ItemList():
            kind, start = ("ol", f' start="{block.first}"') if block.first else ("ul", "")
            items = []
            for i in block.items:
                assert not isinstance(i, Chain)
                notes = "".join(f"<li>{prose(n.text)}</li>" for n in i.notes)
                items.append(f"<li>{prose(i.text.text)}{f'<ul>{notes}</ul>' * bool(notes)}</li>")
            return f"<{kind}{start}>{''.join(items)}</{kind}>"
        case TextTable():
            return tabulated(block)
        case Equations():
            return "\n".join(
                f'<div class="equation">{math(f"{left} = {right}")} {prose(said)}</div>'
                for left, right, said in block.rows
            )
        case CodeBlock():
            return block.picture or f"<pre>{escape(block.text)}</pre>"
    raise TypeError(block)


def tabulated(table: TextTable) -> str:
    """A table with its header, or numbers under their caption."""
    rows = "".join(f"<tr>{''.join(f'<td>{prose(t.text)}</td>' for t in row)}</tr>"
                   for row in table.rows)  # fmt: skip
    if not table.header:
        caption = f"<figcaption>{prose(table.caption)}</figcaption>"
        return f"<figure>{caption}<table>{rows}</table></figure>"
    head = "".join(f"<th>{prose(t.text)}</th>" for t in table.header)
    return (
        f'<div class="columns"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def panel(step: Panel, number: int, before: bool, after: bool) -> str:
    """A step as a card of its own, with links to those before and after it."""
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
    """Lines of numbers; ``name``, and one below the other how it came about, what it is, digits."""
    out, label = [], ""
    for line in lines:
        rows = []
        if line.put_in and line.put_in != line.value:
            rows.append(f'<div class="came">{math("= " + line.put_in)}</div>')
        if line.value:
            rows.append(f'<div class="result">{math("= " + line.value)}</div>')
        if line.digits:
            rows.append(f'<div class="digits">{math(chr(92) + "approx " + line.digits)}</div>')
        about = f'<div class="about">{math(line.label)}</div>' if line.label != label else ""
        name = f"<div>{math(line.name)}</div>" if line.name else ""
        note = f'<div class="note">{prose(line.note)}</div>' if line.note else ""
        chain = f'<div class="chain">{"".join(rows)}</div>' if rows else ""
        out.append(f"<li>{about}{name}{chain}{note}</li>")
        label = line.label
    return f'<ul class="lines{" parts" if lines[0].part else ""}">{"".join(out)}</ul>'


def prose(text: str) -> str:
    """Prose with formulas as MathML."""
    return set_in(text, KINDS)


# The name of an operator with a low line in it comes out of the converter in italics.
_WITH_LOW_LINE = re.compile(r"\\operatorname(?=\{\w*\\_)")


@cache
def math(latex: str) -> str:
    """LaTeX as MathML; what the converter cannot read is shown as it stands."""
    from latex2mathml.converter import convert

    upright = _WITH_LOW_LINE.sub(r"\\mathrm", latex)
    try:
        root = ElementTree.fromstring(convert(upright))
    except Exception:  # of whatever kind: a card's prose may hold any LaTeX
        return f"<code>{escape(latex)}</code>"
    return checked(root)


KINDS: Kinds = {
    "text": escape, "math": math, "code": lambda piece: f"<code>{escape(piece)}</code>",
    "strong": lambda piece: f"<strong>{prose(piece)}</strong>",
    "stress": lambda piece: f"<em>{prose(piece)}</em>",
}  # fmt: skip


def checked(e: ElementTree.Element, first: bool = False) -> str:
    """One element of MathML, from the elements and attributes that are known to be harmless.

    ``first``: nothing stands before it that a minus could be taken from.
    """
    name, text = e.tag.removeprefix(NAMESPACE), e.text or ""
    attributes = {k: v for k, v in e.attrib.items() if k in _ATTRIBUTES}
    if name == "mo" and len(text) > 1 and text.isalpha():
        name, attributes = "mi", {}  # a function's name, without an operator's spaces
    if name == "mo" and first and text in ("-", "\u2212"):
        attributes["form"] = "prefix"
    inner, before = escape(text), None
    for child in e:
        opens = before is None or before in OPENING
        inner += checked(child, opens) + escape(child.tail or "")
        before = child.text if child.tag.removeprefix(NAMESPACE) == "mo" else ""
    if name not in _ELEMENTS:
        return inner
    kept = "".join(f' {k}="{escape(v)}"' for k, v in attributes.items())
    return f"<{name}{kept}>{inner}</{name}>"
