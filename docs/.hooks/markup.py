"""Mends what Markdown and the theme write, and pictures of notebooks.

Tables go into boxes that scroll, sentences within code wrap, the search gets a name, and drawings
their colours in the dark.
"""

import html as entities
import re
from itertools import pairwise
from typing import Any

from pygments.lexers.shell import BashSessionLexer

from viete.document.colours import svg_file

# The only prompt is $: a line with # is one of a program that a command has printed.
BashSessionLexer._ps1rgx = re.compile(r"^(\$ )(.*\n?)")

_TABLE = re.compile(r"<table>(.*?)</table>", re.S)
_NO_HEAD = re.compile(r"<thead>\s*<tr>(?:\s*<th[^>]*></th>)+\s*</tr>\s*</thead>\s*")
_NAME = re.compile(r"(?<=<code>)[\w./]{15,}(?=</code>)")  # of a module or a file: breaks in it
_JOINT = re.compile(r"[._/](?=\w)(?!(?:py|md)$)")
_SHORT = re.compile(r"<code>([^<]{1,14})</code>")
_SECTION = re.compile(
    r'aria-labelledby="__nav_\w+"( aria-expanded="\w+">\s*<label [^>]*>\s*<span [^>]*></span>\s*)'
    r"([^<]+?)(\s*</label>)"
)  # of the navigation: its label is empty where the section has a page of its own
_EMPTY = re.compile(r"<th([^>]*)></th>")
_CODE = re.compile(r"(<pre[^>]*>(?:<span></span>)?<code[^>]*>)(.*?)(</code></pre>)", re.S)
_TAG = re.compile(r"<(/?)(\w+)[^>]*>")
_GAP = re.compile(r"(?<=\S)  +(?=\S)")
_RULES = re.compile("[─-╿]")
_WORDS = re.compile(r"(?<=<code)>[^<]{15,}(?=</code>)")  # code within a sentence
_DASHED = re.compile(r"(?<=[>\s])--?\w[\w-]*")  # an option of a command: kept on one line
_POINTER = re.compile(r" *\^+ *")
_WIDE = 40  # letters of code that a phone has room for


def on_files(files: Any, **_: Any) -> Any:
    """Drawings that stood in a notebook, whose page gave them their colours, as files."""
    for file in files:
        svg = file.content_string if file.src_uri.endswith(".svg") else ""
        if 'role="img"' in svg and "viete-drawing" not in svg:
            file.content_string = svg_file(svg)
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Tables in boxes that scroll, with bars in their code; long sentences in code wrap."""

    def boxed(m: re.Match[str]) -> str:
        inside = _EMPTY.sub(r"<td\1></td>", _NO_HEAD.sub("", m[1]))
        inside = inside.replace(r"\|", "|")  # which in code would keep its backslash
        inside = _NAME.sub(lambda m: _JOINT.sub(r"\g<0><wbr>", m[0]), inside)
        return f'<div class="columns"><table class="plain">{inside}</table></div>'

    html = _CODE.sub(fitted, _TABLE.sub(boxed, html))
    html = _WORDS.sub(lambda m: options(m[0]), html)
    return _SHORT.sub(r'<code class="short">\1</code>', html)


def options(code: str) -> str:
    """Code whose options, such as --loss-on, are kept on one line."""
    return _DASHED.sub(r'<span class="unbroken">\g<0></span>', code)


def fitted(m: re.Match[str]) -> str:
    """A block of code whose long lines wrap, and how many columns the others need."""
    code = wrapped(m[2])
    needed = max((len(plain(x)) for x in code.split("\n") if 'class="wraps"' not in x), default=0)
    style = f' style="--columns: {needed}"' if needed > _WIDE else ""
    return f"{m[1][:-1]}{style}>{code}{m[3]}"


def plain(line: str) -> str:
    """A line of highlighted code without its tags."""
    return entities.unescape(_TAG.sub("", line))


def wrapped(code: str) -> str:
    """Code whose long lines may wrap, each below its own beginning.

    A line of several columns keeps its width. So do ^^^ and the line that they point into.
    """
    written = []
    for line, after in pairwise([*lines(code), ""]):
        text, below = plain(line), plain(after)
        gaps = [gap.end() for gap in _GAP.finditer(text)]
        begin = gaps[0] if gaps else len(text) - len(text.lstrip()) + 2
        whole = _RULES.search(text) or any(map(_POINTER.fullmatch, (text, below)))
        if len(text) > _WIDE and begin < _WIDE / 2 and len(gaps) < 2 and not whole:
            line = options(line)
            line = f'<span class="wraps" style="--indent: {begin}ch">{line}</span>'
        written.append(line)
    return "\n".join(written)


def lines(code: str) -> list[str]:
    """The lines of highlighted code, each with whole tags."""
    found, opened = [], []
    for line in code.split("\n"):
        begin = "".join(tag[0] for tag in opened)
        for tag in _TAG.finditer(line):
            opened = opened[:-1] if tag[1] else [*opened, tag]
        found.append(begin + line + "".join(f"</{tag[2]}>" for tag in reversed(opened)))
    return found


def on_post_page(output: str, **_: Any) -> str:
    """Names for the theme's search dialog and for the sections of its navigation."""
    output = output.replace('role="dialog">', 'role="dialog" aria-label="Search">')
    return _SECTION.sub(r'aria-label="\2"\1\2\3', output)
