r"""The formulas in a sentence, as a terminal and a docstring show them: in Unicode, with no TeX.

``a factor $1 / \sqrt{d_k}$ of $\tilde{A}^i$`` becomes ``a factor 1 / √(d_k) of Ãⁱ``. Such formulas
are prose: they may name what no card declares, so they are not parsed but spelled anew.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from viete.notation.lexer import (
    COMBINING,
    COMMANDS,
    FONTS,
    GREEK,
    IGNORED,
    SUBSCRIPTS,
    SUPERSCRIPTS,
    VARIANTS,
)

_MATH = re.compile(r"\$([^$]*)\$")
_GROUP = r"\s*(?:\{([^{}]*)\}|([^\s\\{}]))"
_MARKS = {name: mark for mark, name in COMBINING.items()}
_MARKS |= {"widetilde": _MARKS["tilde"], "widehat": _MARKS["hat"]}
_LETTERS = {name: letter for letter, name in reversed(GREEK.items())}
_SMALL = {
    "_": {plain: c for c, plain in SUBSCRIPTS.items()},
    "^": {plain: c for c, plain in SUPERSCRIPTS.items()},
}
_KEPT = str.maketrans("❴❵", "{}")  # braces that are done with
_SIGNS = {
    "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "dots": "…",
    "ldots": "…", "cdots": "…", "partial": "∂", "Delta": "Δ",
}  # fmt: skip
_SIGNS |= {"{": "{", "}": "}", "_": "_", "$": "$", "%": "%", "&": "&", "#": "#", "\\": " "}


def readable(text: str) -> str:
    """A sentence with its formulas spelled in Unicode, without the dollar signs."""
    return _MATH.sub(lambda m: spelled(m[1]), text)


def spelled(tex: str) -> str:
    """The inside of a formula without TeX's commands; what has none, as our own, stays as it is."""
    if "\\" not in tex:
        return tex
    group: list[tuple[str, Callable[[re.Match[str]], str]]] = [
        (rf"\\({'|'.join(FONTS)})\*?\s*\{{([^{{}}]*)\}}", lambda m: m[2].replace(r"\_", "_")),
        (rf"\\({'|'.join(_MARKS)}){_GROUP}", accented),
        (rf"\\sqrt{_GROUP}", lambda m: f"√{bracketed(m[1] or m[2])}"),
        (
            r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}",
            lambda m: f"{bracketed(m[1])}/{bracketed(m[2])}",
        ),
        (r"([_^])\s*(?:\{([^{}]*)\}|([^\W_]+|[^\s\\{}❴❵_^]))", script),
    ]
    tex = re.sub(r"\^\s*(\{\s*)?\\(?:top|intercal)\b(?(1)\s*\})", "ᵀ", tex)
    for _ in range(tex.count("{") + 1):  # from the innermost braces out
        for pattern, change in group:
            tex = re.sub(pattern, change, tex)
    tex = re.sub(r"(?<!\\)\{((?:[^{},❴❵\\]|❴[^❵]*❵)*)\}", r"\1", tex)  # a group, and no set
    return re.sub(r"\\([A-Za-z]+|.)", sign, tex).translate(_KEPT)


def accented(m: re.Match[str]) -> str:
    """Every letter with the mark above or below it."""
    inner = m[2] or m[3]
    return unicodedata.normalize("NFC", "".join(c + _MARKS[m[1]] for c in inner))


def bracketed(inner: str) -> str:
    """In parentheses, unless it is one name or number."""
    return inner if re.fullmatch(r"\w+|\\[A-Za-z]+", inner) else f"({inner})"


def script(m: re.Match[str]) -> str:
    """Small letters where Unicode has all of them, else without braces around one word."""
    inner = re.sub(r" ?([-+−/]) ?", r"\1", (m[2] if m[2] is not None else m[3]).strip())
    table = _SMALL[m[1]]
    if inner and all(c in table for c in inner.replace("−", "-")) and not inner.isalpha():
        return "".join(table[c] for c in inner.replace("−", "-"))
    if len(inner) == 1 and inner in table:
        return table[inner]
    return m[1] + (inner if re.fullmatch(r"\w+", inner) else f"❴{inner}❵")


def sign(m: re.Match[str]) -> str:
    """The character that a command stands for; a command of no known one is its name."""
    name = VARIANTS.get(m[1], m[1])
    if name in _LETTERS:
        return _LETTERS[name]
    if name in _SIGNS:
        return _SIGNS[name]
    known = COMMANDS.get(name, "" if name in IGNORED or not name.isalpha() else name)
    return known.lstrip("\\")


__all__ = ["readable"]
