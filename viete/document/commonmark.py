"""The visible part of a Markdown source: comments blanked, code and raw HTML set apart.

After CommonMark 0.31, sections 4.4 to 4.6 and 6.6: https://spec.commonmark.org/0.31.2
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from viete.errors import Text

MOST_COMMENTS = 50  # in one line
LINE_END = re.compile(r"\r\n|\n|\r")  # Python's splitlines knows eight more
_FENCE = re.compile(r"^\s*(`{3,}(?=[^`]*$)|~{3,})")
_MARKER = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+")
# HTML that goes on to its own end, whatever stands in it.
_RAW = (
    *((re.compile(rf"^ {{0,3}}<{tag}(?=[\s>]|$)", re.I), f"</{tag}>")
      for tag in ("script", "pre", "style", "textarea")),
    (re.compile(r"^ {0,3}<\?"), "?>"),
    (re.compile(r"^ {0,3}<!\[CDATA\["), "]]>"),
    (re.compile(r"^ {0,3}<![A-Za-z]"), ">"),
)  # fmt: skip
_TAG = re.compile(r"^ {0,3}</?([a-z][a-z0-9]*)(?=[\s/>]|$)", re.I)
_ALONE = re.compile(r"^ {0,3}(</[a-z][\w-]*\s*>|<[a-z][\w-]*(\s[^<>]*)?/?>)\s*$", re.I)
_BLOCKS = frozenset(
    "address article aside base basefont blockquote body caption center col colgroup dd details "
    "dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 "
    "head header hr html iframe legend li link main menu menuitem nav noframes ol optgroup option "
    "p param search section summary table tbody td tfoot th thead title tr track ul".split()
)


class SourceLine(NamedTuple):
    """One line of a source, as a page shows it; ``kind`` is 'text', 'code' or 'html'."""

    kind: str
    text: Text


def lines_of(content: str) -> list[str]:
    """The lines of a text, split at Markdown's line endings."""
    lines = LINE_END.split(content)
    return lines if lines[-1] else lines[:-1]


def visible_lines(content: str, file: str) -> Iterator[SourceLine]:
    """The lines of a Markdown source with comments blanked, so that columns stay right.

    Raises VieteError for a fence or a comment that is never closed, and for one that pages show in
    part.
    """
    blank = Text("", file)
    lines = [
        Text(line, file, k, 1, line) if line and not line.isspace() else blank
        for k, line in enumerate(lines_of(content), 1)
    ]
    k, before = 0, ""
    while k < len(lines):
        line, kind, end = lines[k], "text", k + 1
        if "<" not in line.text and "`" not in line.text and "~" not in line.text:
            pass  # as most lines
        elif _FENCE.match(line.text):
            kind, end = "code", end_of_fence(lines, k)
        elif closing := next((c for opens, c in _RAW if opens.match(line.text)), ""):
            kind = "html"
            end = next((n + 1 for n in range(k, len(lines)) if closing in lines[n].text.lower()),
                       len(lines))  # fmt: skip
        elif ((tag := _TAG.match(line.text)) and tag[1].lower() in _BLOCKS) or (
            not before.strip() and _ALONE.match(line.text)
        ):
            kind = "html"
            end = next((n for n in range(k, len(lines)) if not lines[n].text.strip()), len(lines))
        elif (start := comment_at(line.text)) >= 0:
            if line.text.count("<!--") > MOST_COMMENTS:
                raise line.error(f"this line has more than {MOST_COMMENTS} comments")
            hide_comment(lines, k, start)
            continue
        for x in lines[k:end]:
            yield SourceLine(kind, x)
        before = lines[end - 1].text if kind == "text" else ""
        k = end


def end_of_fence(lines: list[Text], k: int) -> int:
    """The line after the code that the fence in line ``k`` opens."""
    fence = _FENCE.match(lines[k].text)
    assert fence is not None
    close = re.compile(rf"^\s*{fence[1][0]}{{{len(fence[1])},}}\s*$")
    for n in range(k + 1, len(lines)):
        if close.match(lines[n].text):
            return n + 1
        if lines[n].text.strip() and lines[n].text[: fence.start(1)].strip():
            raise lines[n].error(
                f"this stands to the left of the code fence of line {k + 1}, which is never closed"
            )
    raise lines[k].error("this code fence is never closed", *fence.span(1))


def comment_at(line: str) -> int:
    """The start of the line's first comment outside code, or -1."""
    if (at := line.find("<!--")) < 0:
        return -1
    ticks = [m.span() for m in re.finditer("`+", line)]
    closing: dict[int, int] = {}  # by a run's length, the next of that length to the right
    ends = [0] * len(ticks)
    for k in reversed(range(len(ticks))):
        start, end = ticks[k]
        ends[k] = closing.get(end - start, 0)
        closing[end - start] = end
    code = 0  # where the last code ends
    for (start, _), end in zip(ticks, ends, strict=True):
        if start < code or not end:
            continue
        at = line.find("<!--", code)
        if at < start:
            break
        code = end
    return line.find("<!--", code) if at >= 0 else -1


def hide_comment(lines: list[Text], k: int, start: int) -> None:
    """Blank the comment that begins at ``start`` of line ``k``, on all its lines."""
    first = lines[k]
    opening = start, start + 4
    block = not first.text[:start].strip()  # a comment that begins a line is a block of its own
    inside = block or _MARKER.fullmatch(first.text[:start])
    end = next((n for n in range(k, len(lines)) if "-->" in lines[n].text[start * (n == k) :]), -1)
    if not block and "|" in first.text:
        raise first.error("in a table a comment may be a cell; write it above the table", *opening)
    if end < 0:
        raise first.error("this comment is never closed; expected -->", *opening)
    for n in range(k, end + 1):
        text = lines[n].text
        outside = start and (not block or not text.strip() or text[:start].strip())
        if n > k and outside:
            raise first.error(
                "pages may show a part of this comment; write it as lines of its own that begin "
                "with no space", *opening,
            )  # fmt: skip
        begin = start if n == k else 0
        upto = text.index("-->", begin) + 3 if n == end else len(text)
        if n == end and inside and text[upto:].strip():
            raise lines[n].error(
                "pages do not read what follows a comment in its line as Markdown; begin a new "
                "line after -->", upto, len(text),
            )  # fmt: skip
        shown = text[:begin] + " " * (upto - begin) + text[upto:]
        lines[n] = Text(shown, first.file, first.line + n - k, 1, lines[n].whole)
