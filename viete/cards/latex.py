"""Documents as LaTeX: written to be compiled as it is, and read back.

The reader knows sections, lists and tables (tabular, longtable) with one row a line, which is what
the writer makes and what most people write; it is no TeX.
"""

from __future__ import annotations

import re

from viete.cards.document import Block, Code, Heading, Item, Paragraph, Table, joined
from viete.cards.visible import lines_of
from viete.errors import Text
from viete.notation.tex import ESCAPES, SYMBOLS, declared, escape, first, formula

HEAD = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{amsmath,amssymb,booktabs,enumitem,longtable}
\usepackage[margin=2.5cm]{geometry}
"""
# Lines and arrows of a drawing, in the letters that every font has.
DRAWN = str.maketrans("│┊─┄┌┐└┘├┤┬┴┼╭╮╰╯▼►◄⊙×", "|:-.+++++++++++++v><*x")
HEADINGS = {1: "title", 2: "section*", 3: "subsection*"}
_SECTION = re.compile(r"^\s*\\(title|(?:sub)*section)\*?\{(.*)\}\s*$")
_TABLE = re.compile(r"^\s*\\begin\{(?:tabular|longtable|tabularx)\*?\}")
_SKIP = re.compile(
    r"^\s*\\(documentclass|usepackage|begin\{document|end\{document|maketitle|toprule|midrule|"
    r"bottomrule|hline|centering|begin\{table|end\{table|end\{tabular|end\{longtable|endhead|"
    r"medskip|noindent|ifdefined|DeclareUnicodeCharacter|fi)\b"
)


def prose(text: str) -> str:
    """Prose to LaTeX; what stands between dollar signs and is no formula becomes text."""
    out = []
    for k, piece in enumerate(re.split(r"(\$[^$]*\$|`[^`]*`|\*\*.+?\*\*)", text)):
        if k % 2 == 0:
            out.append(escape(piece))
        elif piece[0] == "$":
            inside = formula(piece[1:-1])
            out.append(escape(piece) if inside is None else f"${inside}$")
        else:
            command, inner = ("texttt", piece[1:-1]) if piece[0] == "`" else ("textbf", piece[2:-2])
            out.append(f"\\{command}{{{escape(inner)}}}")
    return first("".join(out))


_UNESCAPED = {v: c for c, v in (ESCAPES | SYMBOLS).items()}
_ESCAPED = re.compile("|".join(re.escape(v) for v in sorted(_UNESCAPED, key=len, reverse=True)))
_SIGN = re.compile("|".join(map(re.escape, [*SYMBOLS.values(), ESCAPES["…"]])))
_INNER = r"((?:[^{}\\]|\\[^a-z]|\\(?:text[a-z]+|dots)\{\}|\\ensuremath\{[^{}]*(?:\{.\})?\})*)"


def unescape(text: str) -> str:
    """The inverse of `prose`."""
    out = []
    text = re.sub(r"^\{([\[*])\}", r"\1", text)
    for k, piece in enumerate(re.split(r"((?<!\\)\$[^$]*\$)", text)):
        if k % 2:
            out.append(_SIGN.sub(lambda m: _UNESCAPED[m[0]], piece))
            continue
        piece = re.sub(rf"\\texttt\{{{_INNER}\}}", r"`\1`", piece)
        piece = re.sub(rf"\\(?:textbf|emph)\{{{_INNER}\}}", r"**\1**", piece)
        out.append(_ESCAPED.sub(lambda m: _UNESCAPED[m[0]], piece))
    return "".join(out)


def write_latex(blocks: list[Block]) -> str:
    """A complete LaTeX document."""
    out: list[str] = []
    environment, started = "", False
    for block in blocks:
        wanted = ("enumerate" if block.numbered else "itemize") if isinstance(block, Item) else ""
        if environment and environment != wanted:
            out.append(f"\\end{{{environment}}}")
        match block:
            case Heading():
                level = min(block.level, 3)
                out.append(f"\n\\{HEADINGS[level]}{{{prose(block.text.text)}}}")
                if level == 1:
                    out.append("\\maketitle")
                started = started and level > 2
            case Paragraph():
                out.append(f"\n{prose(block.text.text)}\n")
            case Item():
                if wanted != environment:
                    resume = "[resume]" if started and wanted == "enumerate" else ""
                    out.append(f"\\begin{{{wanted}}}{resume}")
                    started = started or wanted == "enumerate"
                out.append(f"\\item {prose(block.text.text)}")
                if block.notes:
                    notes = [f"  \\item {prose(n.text)}" for n in block.notes]
                    out += ["  \\begin{itemize}", *notes, "  \\end{itemize}"]
            case Table():
                out.append(f"\\begin{{longtable}}{{{'l' * len(block.header)}}}\n\\toprule")
                for k, row in enumerate([block.header, *block.rows]):
                    out.append(" & ".join(prose(t.text) for t in row) + r" \\")
                    if k == 0:
                        out.append("\\midrule")
                out.append("\\bottomrule\n\\end{longtable}")
            case Code():
                drawn = block.text.rstrip("\n").translate(DRAWN).replace("\\end{v", "\\end {v")
                out.append(f"{{\\scriptsize\n\\begin{{verbatim}}\n{drawn}\n\\end{{verbatim}}}}")
        environment = wanted
    if environment:
        out.append(f"\\end{{{environment}}}")
    body = "\n".join([*out, "\n\\end{document}", ""])
    return f"{HEAD}{declared(body)}\\begin{{document}}\n\n{body}"


_HIDDEN = {r"\begin{comment}": r"\end{comment}", r"\iffalse": r"\fi"}


def read_latex(content: str, file: str) -> list[Block]:
    """Split LaTeX into blocks; what is no section, list or table is a paragraph."""
    blocks: list[Block] = []
    environments: list[str] = []
    table: Table | None = None
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
            blocks.append(Heading(level, said(text, m.start(2), m.end(2))))
            fresh = True
        elif _TABLE.match(bare):
            table = Table([], [])
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
            body = said(text, m.end(), len(bare))
            last = blocks[-1] if blocks else None
            if len(environments) > 1 and isinstance(last, Item):
                last.notes.append(body)
            else:
                blocks.append(Item(body, environments[-1:] == ["enumerate"]))
            fresh = False
        elif not fresh and isinstance(last := blocks[-1], Paragraph | Item):
            last.text = joined(last.text, said(text, 0, len(bare)))
        else:
            blocks.append(Paragraph(said(text, 0, len(bare))))
            fresh = False
    return blocks


def said(text: Text, start: int, end: int) -> Text:
    """A stretch of the source with its escapes undone, placed where it stands."""
    piece = text.cut(start, end)
    return Text(unescape(piece.text), piece.file, piece.line, piece.column, piece.whole)


def cells(text: Text) -> list[Text]:
    """A row's cells; an ampersand inside a formula or after a backslash is no border."""
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
    return [said(text, a + 1, b) for a, b in zip(cuts, [*cuts[1:], len(line)], strict=True)]
