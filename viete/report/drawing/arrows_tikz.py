"""The graph of an expansion as a TikZ picture, in an article that LaTeX compiles unchanged."""

from __future__ import annotations

from viete.ask.arrows import Arrows
from viete.document.colours import INK, LINE, NEGATIVE, POSITIVE, SOFT
from viete.document.tex import declarations, escape
from viete.report.drawing.arrow_layout import (
    LEFT,
    MARGIN,
    ArrowLayout,
    folded_words,
    wide,
)

SCALE = 0.75  # points for each unit of the layout
COLOURS = {"ink": INK, "soft": SOFT, "line": LINE, "adds": POSITIVE, "takes": NEGATIVE}
PREAMBLE = r"""\documentclass[tikz,border=4pt]{standalone}
\usepackage[T1]{fontenc}
\usepackage{amsmath,amssymb}"""


def arrows_tikz(graph: Arrows) -> str:
    """The graph, as `viete.report.drawing.arrows.arrows_svg` draws it."""
    lay = ArrowLayout(graph)
    out = [
        rf"\definecolor{{{name}}}{{HTML}}{{{hexa[1:].upper()}}}" for name, hexa in COLOURS.items()
    ]
    out += [r"\begin{tikzpicture}[x=1pt, y=1pt, font=\footnotesize]"]
    named = {n.block: n for n in reversed(lay.nodes) if n.name in lay.stream}
    for block in lay.blocks:
        y = lay.height_of(block)
        out.append(rf"\draw[line] {at(LEFT - 12, y)} -- {at(lay.right, y)};")
        label = lay.graph.rows.get(block, str(block))
        if block in named:
            label = tex_of(named[block].tex, named[block].label)
        out.append(rf"\node[left, soft] at {at(LEFT - 14, y)} {{{label}}};")
    for x in [] if lay.side_by_side else lay.lefts[:-1]:
        out.append(rf"\draw[line, line width=2pt] {at(x, lay.base)} -- {at(x, MARGIN + 17)};")
    for f in lay.folded:
        x, y = lay.at(graph.nodes[f.end])
        width = wide(f.mass, lay.most) * SCALE
        share = rf" node[pos=0, left, soft] {{{f.share * 100:.0f}\%}}" if lay.tells(f) else ""
        out.append(
            rf"\draw[soft, dashed, line width={width:.2f}pt] {at(*lay.beginning(f))} -- "
            rf"{at(x, y)}{share}; % {folded_words(f)}"
        )
    for a, curve in reversed(lay.curves):
        start, one, two, end = (at(*p) for p in curve)
        colour, width = "adds" if a.value >= 0 else "takes", wide(a.mass, lay.most) * SCALE
        out.append(
            rf"\draw[{colour}, line width={width:.2f}pt] {start} .. controls {one} "
            rf"and {two} .. {end}; % {a.by} {a.value:+.4f}"
        )
    for n in lay.nodes:
        out.append(rf"\fill[ink] {at(*lay.at(n))} circle[radius=2pt];")
        if n.block is None:
            out.append(rf"\node[above, ink] at {at(*lay.at(n))} {{{tex_of(n.tex, n.label)}}};")
        elif n.name in lay.rank:
            side = "below" if lay.side_by_side else "right"
            out.append(rf"\node[{side}, ink] at {at(*lay.at(n))} {{{tex_of(n.tex, n.label)}}};")
    for k, position in enumerate(lay.columns):
        token = escape(lay.tokens.get(position) or str(position))
        out.append(rf"\node[ink] at {at(lay.middle(k), lay.below - 4)} {{{token}}};")
    body = "\n".join(out)
    known = declarations(body)
    head = f"{PREAMBLE}\n{known}" if known else PREAMBLE
    return f"{head}\n\\begin{{document}}\n{body}\n\\end{{tikzpicture}}\n\\end{{document}}\n"


def at(x: float, y: float) -> str:
    """A point of the layout, whose heights count downwards."""
    return f"({x * SCALE:.1f},{-y * SCALE:.1f})"


def tex_of(tex: str, label: str) -> str:
    """A formula, or a label that is not a formula, for TeX."""
    return f"${tex}$" if tex else escape(label)


__all__ = ["arrows_tikz"]
