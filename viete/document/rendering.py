"""Rendering: a document tree in one of its formats, and the table of formats."""

from __future__ import annotations

from collections.abc import Sequence

from viete.document.tree import Block
from viete.errors import VieteError

# A file's suffix, and the spelling of the formulas in a tree that is written in this format.
SUFFIXES = {"text": ".txt", "md": ".md", "latex": ".tex", "html": ".html", "typst": ".typ",
            "pdf": ".pdf", "json": ".json", "csv": ".csv", "npz": ".npz", "svg": ".svg",
            "mermaid": ".mmd"}  # fmt: skip
STYLES = {"text": "unicode", "md": "latex", "latex": "latex", "html": "mathml", "typst": "typst"}
PAGES = ("text", "md", "latex", "html")  # of every document whose formulas are ours or LaTeX's
PRINTED = (*PAGES, "typst", "pdf")  # of documents that are made for paper too


def check_format(what: str, form: str, forms: Sequence[str] = PAGES) -> None:
    """Raise VieteError if ``form`` is not a format in which ``what`` is written."""
    if form not in forms:
        known = f"{', '.join(forms[:-1])} or {forms[-1]}"
        raise VieteError(f"the format of {what} must be {known}, not {form!r:.60}")


def render(blocks: Sequence[Block], form: str) -> str:
    """A document in a format of `STYLES`, with its formulas already in ``STYLES[form]``."""
    match form:
        case "text":
            from viete.document.text import write_text as write
        case "md":
            from viete.document.markdown import write_markdown as write
        case "latex":
            from viete.document.latex import write_latex as write
        case "html":
            from viete.document.html import write_html as write
        case "typst":
            from viete.document.typst import write_typst as write
        case _:
            check_format("a document", form, tuple(STYLES))
    return write(blocks)
