"""Mends what Markdown and the theme write, and pictures of notebooks.

Tables go into boxes that scroll, the search gets a name, and drawings their colours in the dark.
"""

import re
from typing import Any

from viete.document.colours import svg_file

_TABLE = re.compile(r"<table>(.*?)</table>", re.S)
_NO_HEAD = re.compile(r"<thead>\s*<tr>(?:\s*<th[^>]*></th>)+\s*</tr>\s*</thead>\s*")
_SHORT = re.compile(r"<code>([^<]{1,14})</code>")
_SECTION = re.compile(
    r'aria-labelledby="__nav_\w+"( aria-expanded="\w+">\s*<label [^>]*>\s*<span [^>]*></span>\s*)'
    r"([^<]+?)(\s*</label>)"
)  # of the navigation: its label is empty where the section has a page of its own
_EMPTY = re.compile(r"<th([^>]*)></th>")


def on_files(files: Any, **_: Any) -> Any:
    """Drawings that stood in a notebook, whose page gave them their colours, as files."""
    for file in files:
        svg = file.content_string if file.src_uri.endswith(".svg") else ""
        if 'role="img"' in svg and "viete-drawing" not in svg:
            file.content_string = svg_file(svg)
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Tables in boxes that scroll, with bars in their code; a header without words is none."""

    def boxed(m: re.Match[str]) -> str:
        inside = _EMPTY.sub(r"<td\1></td>", _NO_HEAD.sub("", m[1]))
        inside = inside.replace(r"\|", "|")  # which in code would keep its backslash
        return f'<div class="columns"><table class="plain">{inside}</table></div>'

    return _SHORT.sub(r'<code class="short">\1</code>', _TABLE.sub(boxed, html))


def on_post_page(output: str, **_: Any) -> str:
    """Names for the theme's search dialog and for the sections of its navigation."""
    output = output.replace('role="dialog">', 'role="dialog" aria-label="Search">')
    return _SECTION.sub(r'aria-label="\2"\1\2\3', output)
