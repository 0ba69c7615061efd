"""What an article is made of, in LaTeX and in Typst."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from viete.notation import tex
from viete.notation.printer import Printer, show
from viete.notation.tree import Expr
from viete.notation.typst import Typst, show_typst

Rows = Sequence[tuple[str, str, str]]  # left side, right side, what is said about it


class Markup:
    """One language of documents."""

    signs: ClassVar[dict[str, str]]
    tail = ""

    def show(self, e: Expr) -> str:
        """An expression as a formula, without the dollar signs."""
        raise NotImplementedError

    def shape(self, sizes: Sequence[Expr]) -> str:
        """Sizes as a formula, with × between them."""
        raise NotImplementedError

    def function(self, name: str) -> str:
        """The name of a function in a formula."""
        raise NotImplementedError

    def prose(self, text: str) -> str:
        """Words, escaped."""
        raise NotImplementedError

    def verbatim(self, text: str) -> str:
        """Characters as they are."""
        raise NotImplementedError

    def formula(self, text: str) -> str | None:
        """LaTeX's mathematics as a formula of this language, where it can stand there as it is."""
        return None

    def above(self, power: str) -> str:
        """A power in a formula."""
        raise NotImplementedError

    def head(self, title: str, body: str) -> str:
        """What stands before the ``body``."""
        raise NotImplementedError

    def section(self, title: str) -> str:
        """A heading."""
        raise NotImplementedError

    def subsection(self, title: str) -> str:
        """A heading below a section's."""
        raise NotImplementedError

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """A table."""
        raise NotImplementedError

    def items(self, items: Sequence[str]) -> str:
        """A list."""
        raise NotImplementedError

    def equations(self, rows: Rows) -> str:
        """Numbered equations, their equals signs in line."""
        raise NotImplementedError


class Latex(Markup):
    """LaTeX with amsmath, for pdflatex as for the others."""

    signs: ClassVar = {"le": r"\le", "dots": r"\dots", "times": r"\times", "in": r"\in",
             "real": r"\mathbb{R}", "open": r"\{", "close": r"\}"}  # fmt: skip
    tail = "\\end{document}\n"

    def show(self, e: Expr) -> str:
        return show(e, "latex")

    def shape(self, sizes: Sequence[Expr]) -> str:
        return Printer("latex").shape(sizes)

    def function(self, name: str) -> str:
        return Printer("latex").function(name)

    def prose(self, text: str) -> str:
        text = re.sub(r"\*\*(.+?)\*\*", r"\\textbf{\1}", tex.escape(text))
        text = re.sub(r"\*(.+?)\*", r"\\emph{\1}", text)
        return re.sub(r"`(.+?)`", r"\\texttt{\1}", text)

    def verbatim(self, text: str) -> str:
        return f"\\texttt{{{tex.escape(text)}}}"

    def formula(self, text: str) -> str | None:
        return tex.formula(text)

    def above(self, power: str) -> str:
        return f"^{{{power}}}"

    def head(self, title: str, body: str) -> str:
        return "\n".join([
            r"\documentclass{article}",
            r"\usepackage[T1]{fontenc}",
            r"\usepackage{amsmath,amssymb,booktabs,longtable}",
            r"\usepackage[margin=2.5cm]{geometry}",
            r"\allowdisplaybreaks",
            *filter(None, [tex.declared(title + body).rstrip()]),
            rf"\title{{{title}}}",
            r"\date{}",
            r"\begin{document}",
            r"\maketitle",
        ])  # fmt: skip

    def section(self, title: str) -> str:
        return f"\\section*{{{title}}}"

    def subsection(self, title: str) -> str:
        return f"\\subsection*{{{title}}}"

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        width = "l" * (len(header) - 1) + r"p{0.5\linewidth}"
        lines = [" & ".join(map(tex.first, row)) + r" \\" for row in rows]
        top = " & ".join(header) + r" \\"
        return "\n".join([f"\\begin{{longtable}}{{{width}}}", r"\toprule", top, r"\midrule",
                          r"\endhead", *lines, r"\bottomrule", r"\end{longtable}"])  # fmt: skip

    def items(self, items: Sequence[str]) -> str:
        return "\n".join(
            [r"\begin{itemize}", *(f"\\item {tex.first(x)}" for x in items), r"\end{itemize}"]
        )

    def equations(self, rows: Rows) -> str:
        lines = []
        for left, right, said in rows:
            note = rf" && \parbox{{0.28\linewidth}}{{\raggedright\footnotesize {said}}}"
            lines.append(f"{left} &= {right}{note if said else ''}")
        return "\n".join([r"\begin{align}", " \\\\\n".join(lines), r"\end{align}"])


class TypstMarkup(Markup):
    """Typst."""

    signs: ClassVar = {"le": "≤", "dots": "…", "times": "×", "in": "∈", "real": "ℝ", "open": "{",
             "close": "}"}  # fmt: skip

    def show(self, e: Expr) -> str:
        return show_typst(e)

    def shape(self, sizes: Sequence[Expr]) -> str:
        return Typst().shape(sizes)

    def function(self, name: str) -> str:
        return Typst().function(name)

    def prose(self, text: str) -> str:
        out = []
        for k, piece in enumerate(re.split(r"`([^`]*)`", text)):
            if k % 2:
                out.append(self.verbatim(piece))
                continue
            piece = re.sub(r"([\\#$_@<>\[\]~`=/+-])", r"\\\1", piece)
            piece = re.sub(r"\*\*(.+?)\*\*", r"#strong[\1]", piece)
            piece = re.sub(r"\*(.+?)\*", r"#emph[\1]", piece)
            out.append(piece.replace("*", r"\*"))
        return "".join(out)

    def verbatim(self, text: str) -> str:
        return '#raw("' + text.replace("\\", "\\\\").replace('"', '\\"') + '")'

    def above(self, power: str) -> str:
        return f"^({power})"

    def head(self, title: str, body: str) -> str:
        return "\n".join([
            "#set page(margin: 2.5cm)",
            '#set math.equation(numbering: "(1)")',
            '#show math.equation.where(block: false): set math.equation(numbering: none)',
            "#show math.equation: set block(breakable: true)",
            "",
            f"#align(center, text(size: 17pt)[{title}])",
        ])  # fmt: skip

    def section(self, title: str) -> str:
        return f"= {title}"

    def subsection(self, title: str) -> str:
        return f"== {title}"

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        width = ", ".join(["auto"] * (len(header) - 1) + ["1fr"])
        lines = ["  " + ", ".join(f"[{cell}]" for cell in row) + "," for row in rows]
        top = ", ".join(f"[{x}]" for x in header)
        return "\n".join([f"#table(\n  columns: ({width}), stroke: none,",
                          f"  table.header({top}),", *lines, ")"])  # fmt: skip

    def items(self, items: Sequence[str]) -> str:
        return "\n".join(f"- {x}" for x in items)

    def equations(self, rows: Rows) -> str:
        lines = []
        for left, right, said in rows:
            note = f" quad #text(size: 0.8em)[{said}]" if said else ""
            lines.append(f"$ {left} = {right}{note} $")
        return "\n".join(lines)


LATEX, TYPST = Latex(), TypstMarkup()
