"""Formulas of the pages as MathML; as Unicode in the contents of a page and in the search index.

``$…$`` stands in a line, ``$$…$$`` by itself. Code is left alone, and a dollar is ``\\$``.
"""

import re
from html import escape
from typing import Any

from mkdocs.plugins import CombinedEvent, event_priority

from viete.document.formulas import math, with_punctuation
from viete.document.tex import to_unicode

_CODE = r"(?P<code>^ *(?P<fence>```+)[^\n]*\n.*?^ *(?P=fence)[^\n]*$|(?P<ticks>`+).+?(?P=ticks))"
_HEADING = r"(?P<heading>^#+ [^\n]*$)"
_INLINE = r"(?<![\w$\\])\$(?P<inline>[^\s$](?:[^$\n]*[^\s$\\])?)\$(?!\w)"
_FORMULA = re.compile(rf"(?ms){_CODE}|{_HEADING}|\$\$(?P<shown>[^$]+)\$\$|{_INLINE}")
_IN_HEADING = re.compile(rf"(?P<ticks>`+).+?(?P=ticks)|{_INLINE}")
_PLACE = re.compile(r'\ue000(\d+)\ue001|<span data-formula="(\d+)">.*?</span>')
_FOR_MARKDOWN = str.maketrans({c: f"&#{ord(c)};" for c in r"_*\`[]{}^~"})


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Places for the formulas, which Markdown would change."""
    formulas = page.meta["formulas"] = list[tuple[str, bool]]()

    def place(m: re.Match[str]) -> str:
        if m["code"]:
            return m[0]
        if m["heading"]:
            return _IN_HEADING.sub(in_heading, m[0])
        formulas.append((m["shown"] or m["inline"], m["shown"] is not None))
        return f"\ue000{len(formulas) - 1}\ue001"

    def in_heading(m: re.Match[str]) -> str:
        if not m["inline"]:
            return m[0]
        formulas.append((m["inline"], False))
        words = escape(to_unicode(m["inline"])).translate(_FOR_MARKDOWN)
        return f'<span data-formula="{len(formulas) - 1}">{words}</span>'

    return _FORMULA.sub(place, markdown)


@event_priority(100)  # before the search plugin
def for_search(context: Any, page: Any, **_: Any) -> Any:
    """The page in words for the search index, whose titles and excerpts are plain text."""
    formulas = page.meta["formulas"]
    page.meta["words"] = page.content
    page.content = _PLACE.sub(lambda m: escape(to_unicode(formulas[of(m)][0])), page.content)
    return context


@event_priority(-100)  # after it
def for_readers(context: Any, page: Any, **_: Any) -> Any:
    """The formulas as MathML, in their places."""
    formulas = page.meta["formulas"]

    def typeset(m: re.Match[str]) -> str:
        formula, shown = formulas[of(m)]
        kind = "equation" if shown else "formula long" if long(formula) else "formula"
        return f'<span class="{kind}">{math(formula, shown)}</span>'

    page.content = with_punctuation(_PLACE.sub(typeset, page.meta.pop("words")))
    return context


def long(formula: str) -> bool:
    """Whether a formula may be wider than a phone."""
    return len(to_unicode(formula)) > 28


def of(m: re.Match[str]) -> int:
    """The number of a place."""
    return int(next(filter(None, m.groups())))


on_page_context = CombinedEvent(for_search, for_readers)
