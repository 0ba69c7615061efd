"""A diagram in Mermaid's notation, for pages that render it themselves."""

from __future__ import annotations

import re

from viete.document.colours import INK, colours
from viete.report.drawing.diagram import Box, Diagram, check, cleaned

_SHAPES = {"input": ('("', '")'), "output": ('("', '")')}


def to_mermaid(d: Diagram) -> str:
    """A flowchart from top to bottom; groups become subgraphs, the residual stream thick arrows."""
    check(d)
    d = cleaned(d)
    names = _names([b.id for b in d.boxes])
    out = ["---", f"title: {_quoted(d.title)}", "---"] if d.title else []
    out.append("flowchart TD")
    out += [_box(b, names) for b in d.boxes if b.group is None]
    for n, g in enumerate(d.groups):
        mine = [b for b in d.boxes if b.group == g.id]
        if mine:
            out.append(f'  subgraph group{n}["{_escaped(g.title)}"]')
            out += ["  " + _box(b, names) for b in mine]
            out.append("  end")
    for a in d.arrows:
        line = "-.->" if a.back else "==>" if a.residual else "-->"
        words = ": ".join(filter(None, (a.label, a.step)))
        label = f'|"{_escaped(words)}"|' if words else ""
        out.append(f"  {names[a.source]} {line}{label} {names[a.target]}")
    for kind, edge in (("input", "input"), ("output", "parameter")):
        fill, stroke = colours()[f"{kind}-wash"], colours()[edge]
        out.append(f"  classDef {kind} fill:{fill},stroke:{stroke},color:{INK}")
    return "\n".join(out) + "\n"


def _names(ids: list[str]) -> dict[str, str]:
    """Names without a meaning in Mermaid (a box called 'end' would break it)."""
    names: dict[str, str] = {}
    used: set[str] = set()
    for n, i in enumerate(ids):
        name = "b_" + re.sub(r"[^A-Za-z0-9]+", "_", i).strip("_")
        names[i] = name if name not in used else f"{name}_x{n}"
        used.add(names[i])
    return names


def _box(b: Box, names: dict[str, str]) -> str:
    opening, closing = _SHAPES.get(b.kind, ('["', '"]'))
    text = "<br/>".join(_escaped(line) for line in (b.title, *b.lines))
    kind = f":::{b.kind}" if b.kind in _SHAPES else ""
    return f"  {names[b.id]}{opening}{text or ' '}{closing}{kind}"


# ASCII signs that could close a label or that Markdown would read; and the beginnings of a list.
_SPECIAL = re.compile(r"[!-'*\-;<>?@\[-\]_`{-~]|^[+=]|^\d(?=\d*[.)])")


def _escaped(text: str) -> str:
    """Text escaped as #35; for each character that Mermaid could read otherwise."""
    return _SPECIAL.sub(lambda c: f"#{ord(c[0])};", text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
