"""A lesson or a card as one page of HTML: nothing is fetched, formulas are MathML, no script.

Whatever comes from a card is escaped, or goes through the converter and is parsed before use.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from xml.etree import ElementTree

from viete.cards.document import Block, Code, Heading, Item, Paragraph, Table
from viete.report.lesson.data import Chip, Grid, Lesson, Line, Section, Step, Substep

_INLINE = re.compile(r"(\$[^$]+\$|`[^`]+`|\*\*.+?\*\*)")
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

STYLE = """
:root { --ink: #1d2a35; --soft: #5d6b78; --paper: #fbfaf7; --card: #ffffff; --line: #e2ded4;
  --now: #0b6e6e; --now-ink: #ffffff; --done: #d9ebe8; --named: #8a5a12; --wash: #f3f1ea; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --soft: #9aa7b3; --paper: #14191e;
  --card: #1b2229; --line: #2e3841; --now: #4fb8b0; --now-ink: #0d1418; --done: #21393a;
  --named: #e0b36a; --wash: #202931; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 17px/1.6 Charter, "Iowan Old Style", Georgia, "Times New Roman", serif; }
main { max-width: 54rem; margin: 0 auto; padding: 2.5rem 1.1rem 5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1.2rem; font-weight: 600; }
h2 { font-size: 1.35rem; margin: 3rem 0 1rem; padding-bottom: .35rem;
  border-bottom: 1px solid var(--line); font-weight: 600; }
h3 { font-size: 1.08rem; margin: 0; font-weight: 600; }
p { margin: .6rem 0; } p { overflow-x: auto; overflow-y: hidden; } a { color: var(--now); }
nav { display: flex; flex-wrap: wrap; gap: .4rem 1.1rem; font-size: .95rem; margin: 1.2rem 0; }
article { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.1rem .9rem; margin: 1.1rem 0; scroll-margin-top: 1rem; }
article > header { display: flex; gap: .7rem; align-items: baseline; }
.number { color: var(--soft); font-variant-numeric: tabular-nums; min-width: 1.4rem; }
.jump { margin-left: auto; white-space: nowrap; font: .85rem system-ui, sans-serif; }
.jump a { text-decoration: none; padding: .1rem .35rem; }
.pipe { display: flex; flex-wrap: wrap; gap: .3rem .15rem; align-items: center; list-style: none;
  padding: 0; margin: .7rem 0; font: .8rem/1.3 system-ui, sans-serif; color: var(--soft); }
.pipe li { display: flex; align-items: center; }
.pipe li + li::before { content: "→"; margin: 0 .3rem 0 .15rem; opacity: .6; }
.pipe span { padding: .14rem .5rem; border: 1px solid var(--line); border-radius: 6px; }
.pipe .done { background: var(--done); color: var(--ink); }
.pipe .now { background: var(--now); border-color: var(--now); color: var(--now-ink);
  font-weight: 600; }
.equation { margin: .8rem 0; padding: .55rem .8rem; background: var(--wash); border-radius: 7px;
  overflow-x: auto; font-size: 1.08rem; }
.lines { margin: .5rem 0 0; padding: 0; list-style: none; }
.lines > li { display: grid; grid-template-columns: minmax(5.5rem, max-content) minmax(0, 1fr);
  gap: 0 .55rem; padding: .3rem 0; border-top: 1px dotted var(--line); overflow-x: auto;
  align-items: baseline; }
.lines > li:first-child { border-top: 0; }
.lines .chain { overflow-x: auto; overflow-y: hidden; }
.lines .chain > div { padding: .08rem 0; white-space: nowrap; }
.lines .came { color: var(--soft); } .lines .result { font-weight: 500; }
.lines.parts { font-size: .95rem; }
.lines.result-of { border-top: 1px solid var(--line); margin-top: .35rem; padding-top: .2rem; }
.about { grid-column: 1 / -1; color: var(--soft); }
.note { grid-column: 1 / -1; font-size: .9rem; color: var(--soft); overflow-x: auto; }
.digits { font-variant-numeric: tabular-nums; color: var(--named); }
.status { font-size: .92rem; color: var(--soft); margin: .6rem 0 0; }
.grids { display: flex; flex-wrap: wrap; gap: 1rem 2rem; margin: 1.2rem 0; }
figure { margin: 0; max-width: 100%; overflow-x: auto; }
figcaption { font-size: .92rem; color: var(--soft); margin-bottom: .25rem; max-width: 24rem; }
table { border-collapse: collapse; }
td { padding: .1rem .6rem; text-align: right; border-left: 1px solid var(--line); }
td:first-child { border-left: 2px solid var(--soft); }
td:last-child { border-right: 2px solid var(--soft); }
.columns { overflow-x: auto; margin: 1rem 0; } pre { overflow-x: auto; font-size: .75rem; }
.columns th, .columns td { border: 0; border-bottom: 1px solid var(--line); text-align: left;
  padding: .3rem 1.2rem .3rem 0; vertical-align: baseline; font-weight: inherit; }
.columns th { color: var(--soft); font-size: .92rem; }
li { margin: .35rem 0; } li > ul { color: var(--soft); } svg { max-width: 100%; height: auto; }
code { font: .9em ui-monospace, Menlo, Consolas, monospace; background: var(--wash);
  border-radius: 4px; padding: .05rem .3rem; }
math { font-size: 1.06em; }
@media (max-width: 34rem) { body { font-size: 16px; } main { padding-top: 1.4rem; }
  .lines > li { grid-template-columns: minmax(0, 1fr); } .lines .chain { padding-left: .9rem; } }
@media print { article { break-inside: avoid; } .jump, nav { display: none; } }
"""


def write_page(lesson: Lesson) -> str:
    """The page, from a lesson made in latex style."""
    title = inline(lesson.title)
    links = "".join(f'<a href="#p{k}">{inline(s.title)}</a>'
                    for k, s in enumerate(lesson.sections))  # fmt: skip
    body = [
        f"<h1>{title}</h1>", paragraphs(lesson.intro), f'<nav>{links}<a href="#end">What was '
        "shown</a></nav>", '<div class="grids">', *map(grid, lesson.grids), "</div>",
        "<h2>How far each position stays rational</h2>", bullets(lesson.positions),
        *(section(s, k) for k, s in enumerate(lesson.sections)),
        '<h2 id="end">What was shown</h2>', bullets(lesson.closing),
    ]  # fmt: skip
    return whole_page(lesson.title, body)


def whole_page(title: str, body: list[str]) -> str:
    """The body's parts as a page, with our style."""
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(plain(title))}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    )
    return head + "<main>\n" + "\n".join(body) + "\n</main>\n</body>\n</html>\n"


def write_blocks(blocks: list[Block], picture: str = "") -> str:
    """A document's blocks, made in latex style, as a page.

    ``picture``, an SVG of ours, stands where the document has a drawing in characters.
    """
    body, number, before, title = list[str](), 0, "", ""
    for block in blocks:
        kind = ("ol" if block.numbered else "ul") if isinstance(block, Item) else ""
        if before and kind != before:
            body.append(f"</{before}>")
        match block:
            case Heading():
                level = min(block.level, 6)
                title = title or block.text.text
                body.append(f"<h{level}>{inline(block.text.text)}</h{level}>")
                number = 0 if block.level <= 2 else number
            case Paragraph():
                body.append(f"<p>{inline(block.text.text)}</p>")
            case Item():
                if kind != before:
                    body.append(f'<ol start="{number + 1}">' if kind == "ol" else "<ul>")
                number += block.numbered
                notes = bullets([n.text for n in block.notes]) if block.notes else ""
                body.append(f"<li>{inline(block.text.text)}{notes}</li>")
            case Table():
                body.append(columns(block))
            case Code():
                body.append(picture or f"<pre>{escape(block.text)}</pre>")
                picture = ""
        before = kind
    return whole_page(title, [*body, f"</{before}>"] if before else body)


def columns(table: Table) -> str:
    """A table with its header."""
    head = "".join(f"<th>{inline(t.text)}</th>" for t in table.header)
    rows = ["".join(f"<td>{inline(t.text)}</td>" for t in row) for row in table.rows]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="columns"><table><tr>{head}</tr>{body}</table></div>'


def section(s: Section, k: int) -> str:
    """One followed position."""
    steps = "\n".join(step(x, k, len(s.steps)) for x in s.steps)
    return f'<h2 id="p{k}">{inline(s.title)}</h2>\n{paragraphs(s.intro)}\n{steps}'


def step(s: Step, k: int, count: int) -> str:
    """One of ``count`` steps of section ``k``."""
    before = f'<a href="#s{k}-{s.number - 1}" aria-label="previous step">←</a>' if (
        s.number > 1) else ""  # fmt: skip
    after = f'<a href="#s{k}-{s.number + 1}" aria-label="next step">→</a>' if (
        s.number < count) else ""  # fmt: skip
    out = [
        f'<article id="s{k}-{s.number}">',
        f'<header><span class="number">{s.number}</span><h3>{inline(s.title)}</h3>'
        f'<span class="jump">{before}{after}</span></header>',
        pipeline(s.pipeline),
        f"<p>{inline(' '.join(s.why))}</p>" if s.why else "",
        f'<div class="equation">{math(s.formula)}</div>' if s.formula else "",
    ]
    if s.parts:
        out.append(f'<ul class="lines parts">{"".join(map(substep, s.parts))}</ul>')
    if s.lines:
        apart = " result-of" if s.parts else ""
        out.append(f'<ul class="lines{apart}">{"".join(map(item, s.lines))}</ul>')
    if s.status:
        out.append(f'<p class="status">{inline(" ".join(s.status))}</p>')
    return "\n".join(x for x in [*out, "</article>"] if x)


def pipeline(chips: list[Chip]) -> str:
    """The stages as boxes in a row."""
    out = []
    for c in chips:
        kind = "now" if c.now else "done" if c.done else ""
        current = ' aria-current="step"' if c.now else ""
        out.append(f'<li><span class="{kind}"{current}>{inline(c.text)}</span></li>')
    return f'<ol class="pipe" aria-label="pipeline">{"".join(out)}</ol>'


def substep(part: Substep) -> str:
    """A part of a step: its lines, and above the first what its letter stands for."""
    about = math(part.formula) if part.formula else ""
    return "".join(item(line, about if k == 0 else "") for k, line in enumerate(part.lines))


def item(line: Line, about: str = "") -> str:
    """``name``, and one below the other how it came about, what it is and its digits."""
    rows = []
    if line.put_in and line.put_in != line.value:
        rows.append(f'<div class="came">{math("= " + line.put_in)}</div>')
    if line.value:
        rows.append(f'<div class="result">{math("= " + line.value)}</div>')
    if line.digits:
        rows.append(f'<div class="digits">{math(chr(92) + "approx " + line.digits)}</div>')
    above = f'<div class="about">{about}</div>' if about else ""
    name = f"<div>{math(line.name)}</div>" if line.name else ""
    note = f'<div class="note">{inline(line.note)}</div>' if line.note else ""
    chain = f'<div class="chain">{"".join(rows)}</div>' if rows else ""
    return f"<li>{above}{name}{chain}{note}</li>"


def grid(g: Grid) -> str:
    """A small table of numbers."""
    rows = "".join("<tr>" + "".join(f"<td>{inline(c)}</td>" for c in r) + "</tr>" for r in g.rows)
    return f"<figure><figcaption>{inline(g.caption)}</figcaption><table>{rows}</table></figure>"


def paragraphs(texts: list[str]) -> str:
    """Running text."""
    return "\n".join(f"<p>{inline(t)}</p>" for t in texts)


def bullets(texts: list[str]) -> str:
    """A list."""
    return "<ul>" + "".join(f"<li>{inline(t)}</li>" for t in texts) + "</ul>"


def inline(text: str) -> str:
    """Prose with formulas between dollar signs, code between backticks and bold."""
    out = []
    for k, piece in enumerate(_INLINE.split(text)):
        if k % 2 == 0:
            out.append(escape(piece))
        elif piece[0] == "$":
            out.append(math(piece[1:-1]))
        elif piece[0] == "`":
            out.append(f"<code>{escape(piece[1:-1])}</code>")
        else:
            out.append(f"<strong>{escape(piece[2:-2])}</strong>")
    return "".join(out)


def plain(text: str) -> str:
    """Prose without its markup."""
    return re.sub(r"[$`]|\*\*", "", text)


@cache
def math(latex: str) -> str:
    """LaTeX as MathML; what the converter cannot read is shown as it stands."""
    from latex2mathml.converter import convert

    try:
        root = ElementTree.fromstring(convert(latex))
    except Exception:  # of whatever kind: a card's prose may hold any LaTeX
        return f"<code>{escape(latex)}</code>"
    return written(root)


def written(e: ElementTree.Element, first: bool = False) -> str:
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
        inner += written(child, opens) + escape(child.tail or "")
        before = child.text if child.tag.removeprefix(NAMESPACE) == "mo" else ""
    if name not in _ELEMENTS:
        return inner
    kept = "".join(f' {k}="{escape(v)}"' for k, v in attributes.items())
    return f"<{name}{kept}>{inner}</{name}>"
