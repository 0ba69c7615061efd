"""Documents as LaTeX, which compiles unchanged and can be read back.

The reader knows sections, lists and tables (tabular, longtable) with one row a line. The writer
makes these, and most people write them; the reader is not a TeX engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from viete.document.commonmark import lines_of
from viete.document.markdown import joined
from viete.document.tex import ESCAPES, SYMBOLS, declarations, escape, formula, guarded
from viete.document.text import plain
from viete.document.tree import (
    Block,
    CodeBlock,
    Equations,
    Heading,
    ItemList,
    Kinds,
    ListItem,
    Paragraph,
    TextTable,
    WriterBlock,
    set_in,
    simple,
    with_lists,
)
from viete.errors import Text
from viete.printable import display_width

HEAD = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage{amsmath,amssymb,array,booktabs,enumitem,longtable}
\usepackage[margin=2cm]{geometry}
\setlength\emergencystretch{3em}
\setlist{before=\raggedright}
\makeatletter\def\@maketitle{\begin{center}\LARGE\@title\end{center}}\makeatother
\allowdisplaybreaks
\setcounter{MaxMatrixCols}{99}
\setcounter{LTchunksize}{999}
"""
# Lines and arrows of a drawing, in the letters that every font has.
DRAWN = str.maketrans("│┊─┄┌┐└┘├┤┬┴┼╭╮╰╯▼►◄⊙×", "|:-.+++++++++++++v><*x")
LINE, GAP = 92, 2.5  # characters of a line at 10 points, and between two columns
DRAWING = 920  # points of a drawing's letters times the letters of a line
LONG, BREAK = 60, r",\allowbreak "  # TeX by itself breaks a formula after = and + alone
HEADINGS = {1: "title", 2: "section*", 3: "subsection*"}
_FORMULA = re.compile(r"\$[^$]*\$")
_SECTION = re.compile(r"^\s*\\(title|(?:sub)*section)\*?\{(.*)\}\s*$")
_TABLE = re.compile(r"^\s*\\begin\{(?:tabular|longtable|tabularx)\*?\}")
_SKIP = re.compile(
    r"^\s*\\(documentclass|usepackage|allowdisplaybreaks|setlist|setcounter|setlength|makeatletter|date|begin\{document|end\{document|"
    r"maketitle|toprule|midrule|bottomrule|hline|centering|begin\{table|end\{table|end\{tabular|"
    r"end\{longtable|endhead|medskip|noindent|ifdefined|IfFileExists|DeclareUnicodeCharacter|fi)\b"
)


def prose(text: str) -> str:
    """Prose as LaTeX; text between dollar signs that is not a formula stays text."""
    return guarded(set_in(text, KINDS))


def math(tex: str) -> str:
    """A formula; if it is not one, its text."""
    inside = formula(tex)
    if inside is None:
        return escape(f"${tex}$")
    return f"${inside.replace(', ', BREAK) if len(inside) > LONG else inside}$"


KINDS: Kinds = {
    "text": escape, "math": math, "code": lambda piece: f"\\texttt{{{escape(piece)}}}",
    "strong": lambda piece: f"\\textbf{{{set_in(piece, KINDS)}}}",
    "stress": lambda piece: f"\\emph{{{set_in(piece, KINDS)}}}",
}  # fmt: skip
_UNESCAPED = {v: c for c, v in (ESCAPES | SYMBOLS).items()}
_ESCAPED = re.compile("|".join(re.escape(v) for v in sorted(_UNESCAPED, key=len, reverse=True)))
_SIGN = re.compile("|".join(map(re.escape, [*SYMBOLS.values(), ESCAPES["…"]])))
_INNER = (r"((?:[^{}\\$]|\\[^a-z]|\$[^$]*\$|\\(?:text[a-z]+|dots)\{\}|"
          r"\\ensuremath\{[^{}]*(?:\{.\})?\})*)")  # fmt: skip


def unescape(text: str) -> str:
    """The inverse of `prose`."""
    out = []
    text = re.sub(r"^\{([\[*])\}", r"\1", text)
    for command, mark in (("texttt", "`"), ("emph", "*"), ("textbf", "**")):
        text = re.sub(rf"\\{command}\{{{_INNER}\}}", rf"{mark}\1{mark}", text)
    text = text.replace(BREAK, ", ")
    for k, piece in enumerate(re.split(r"((?<!\\)\$[^$]*\$)", text)):
        table = _SIGN if k % 2 else _ESCAPED
        out.append(table.sub(lambda m: _UNESCAPED[m[0]], piece))
    return "".join(out)


def write_latex(blocks: Iterable[Block]) -> str:
    """A complete LaTeX document."""
    body = "\n\n".join([*map(write_block, with_lists(simple(blocks))), "\\end{document}\n"])
    room = "\\setlist*{itemsep=1.5ex}\n" * (r"\underline{\qquad" in body)  # to write by hand
    return f"{HEAD}{room}{declarations(body)}\\begin{{document}}\n\n{body}"


def write_block(block: WriterBlock) -> str:
    """One block without the blank lines around it."""
    match block:
        case Heading():
            title = f"\\{HEADINGS[min(block.level, 3)]}{{{prose(block.text.text)}}}"
            return f"{title}\n\\date{{}}\n\\maketitle" if block.level == 1 else title
        case Paragraph():
            return prose(block.text.text)
        case ItemList():
            environment = "enumerate" if block.first else "itemize"
            out = [f"\\begin{{{environment}}}" + "[resume]" * (block.first > 1)]
            for item in block.items:
                assert isinstance(item, ListItem)
                out.append(f"\\item {prose(item.text.text)}")
                if item.notes:
                    notes = [f"  \\item {prose(n.text)}" for n in item.notes]
                    out += ["  \\begin{itemize}", *notes, "  \\end{itemize}"]
            return "\n".join([*out, f"\\end{{{environment}}}"])
        case TextTable():
            return tabulated(block)
        case Equations():
            lines = []
            for left, right, said in block.rows:
                note = rf" && \parbox{{0.28\linewidth}}{{\raggedright\footnotesize {prose(said)}}}"
                lines.append(f"{left} &= {right}{note if said else ''}")
            return "\n".join([r"\begin{align}", " \\\\\n".join(lines), r"\end{align}"])
        case CodeBlock():
            drawn = block.text.rstrip("\n").translate(DRAWN).replace("\\end{v", "\\end {v")
            widest = max(map(len, drawn.split("\n")))
            size = f"{min(7, DRAWING / max(1, widest)):.2g}"
            font = f"\\fontsize{{{size}}}{{{size}}}\\selectfont"
            return f"{{{font}\n\\begin{{verbatim}}\n{drawn}\n\\end{{verbatim}}}}"
    raise TypeError(block)


def tabulated(table: TextTable) -> str:
    """A table that may break across pages; columns that are too wide for it wrap.

    TeX sets it in one piece (LTchunksize) with its header, so columns align in its first run.
    """
    widths = columns([table.header, *table.rows])
    kinds = [
        rf">{{\raggedright\arraybackslash}}p{{{w:.3f}\linewidth}}" if w else "l" for w in widths
    ]

    def line(row: list[Text]) -> str:
        cells = [prose(t.text) for t in row]
        broken = [_FORMULA.sub(lambda m: m[0].replace(", ", BREAK), c) for c in cells]
        narrow = [*widths, *[0.0] * len(row)]
        return (
            " & ".join(b if w else c for c, b, w in zip(cells, broken, narrow, strict=False))
            + r" \\"
        )

    top = [line(table.header), r"\midrule"] if table.header else []
    return "\n".join([*filter(None, [prose(table.caption)]),
                      f"\\begin{{longtable}}{{{''.join(kinds)}}}", r"\toprule", *top,
                      *map(line, table.rows), r"\bottomrule", r"\end{longtable}"])  # fmt: skip


def columns(rows: list[list[Text]]) -> list[float]:
    """The share of the line for each column that has to wrap; 0 for one as wide as its cells."""
    count = max(map(len, rows), default=0) or 1
    cells = [[display_width(plain(t.text)) for t in row] for row in rows if len(row) == count]
    wide = [max(column) for column in zip(*cells, strict=True)] or [1] * count
    room = list(wide)
    while sum(room) + GAP * count > LINE and max(room) > 1:
        room[room.index(max(room))] -= 1
    return [0.0 if have == want else have / LINE for have, want in zip(room, wide, strict=True)]


_HIDDEN = {r"\begin{comment}": r"\end{comment}", r"\iffalse": r"\fi"}


def read_latex(content: str, file: str) -> list[Block]:
    """Split LaTeX into blocks; what is not a section, list or table is a paragraph."""
    blocks: list[Block] = []
    environments: list[str] = []
    table: TextTable | None = None
    fresh = True  # whether the next prose line begins a paragraph
    hidden = ""  # what ends a comment of several lines
    for number, line in enumerate(lines_of(content), 1):
        bare = re.sub(r"(?<!\\)%.*$", "", line)
        if hidden:
            hidden = "" if bare.strip() == hidden else hidden
            continue
        if hidden := _HIDDEN.get(bare.strip(), ""):
            continue
        text = Text(bare, file, number, 1, line)
        if not bare.strip():
            fresh = True
        elif m := _SECTION.match(bare):
            level = {"title": 1, "section": 2}.get(m[1], 3)
            blocks.append(Heading(level, unescaped(text, m.start(2), m.end(2))))
            fresh = True
        elif _TABLE.match(bare):
            table = TextTable([], [])
        elif table is not None and re.match(r"^\s*\\end\{(tabular|longtable)", bare):
            if table.header:
                blocks.append(table)
            table = None
        elif _SKIP.match(bare):
            continue
        elif m := re.match(r"^\s*\\(begin|end)\{(enumerate|itemize)\}", bare):
            environments = environments + [m[2]] if m[1] == "begin" else environments[:-1]
            fresh = True
        elif table is not None:
            row = cells(text)
            if not table.header:
                table.header = row
            else:
                table.rows.append(row)
        elif m := re.match(r"^\s*\\item\s*", bare):
            body = unescaped(text, m.end(), len(bare))
            last = blocks[-1] if blocks else None
            if len(environments) > 1 and isinstance(last, ListItem):
                last.notes.append(body)
            else:
                blocks.append(ListItem(body, environments[-1:] == ["enumerate"]))
            fresh = False
        elif not fresh and isinstance(last := blocks[-1], Paragraph | ListItem):
            last.text = joined(last.text, unescaped(text, 0, len(bare)))
        else:
            blocks.append(Paragraph(unescaped(text, 0, len(bare))))
            fresh = False
    return blocks


def unescaped(text: Text, start: int, end: int) -> Text:
    """Part of the source without its escapes, with its place."""
    piece = text.cut(start, end)
    return Text(unescape(piece.text), piece.file, piece.line, piece.column, piece.whole)


def cells(text: Text) -> list[Text]:
    """A row's cells; an ampersand inside a formula or after a backslash does not end a cell."""
    line = re.sub(r"\\\\(\[.*?\])?\s*$", "", text.text.rstrip())
    cuts, inside, k = [-1], False, 0
    while k < len(line):
        if line[k] == "\\":
            k += 1
        elif line[k] == "$":
            inside = not inside
        elif line[k] == "&" and not inside:
            cuts.append(k)
        k += 1
    return [unescaped(text, a + 1, b) for a, b in zip(cuts, [*cuts[1:], len(line)], strict=True)]
