"""Breaks statements at brackets and operators into lines of at most 100 columns."""

from __future__ import annotations

import re
import textwrap
from functools import cache

from viete.document.tex import without_tex

WIDTH = 100
STEP = "    "
_HEAD = re.compile(r"(?:return |yield |[\w\[\]., '\"{}+-]+? = )?")
# Loose to tight: where a formula is broken first.
OPERATORS = ((" if ", " else "), (" + ", " - "), (" * ", " / ", " // ", " % ", " @ "))


def statement(text: str, depth: int = 0, tail: str = "") -> list[str]:
    """One statement and its ``tail``, on as many lines as needed, indented ``depth`` steps."""
    indent = STEP * depth
    if len(indent + text + tail) <= WIDTH:
        return [indent + text + tail]
    found = _HEAD.match(text)
    head = found[0] if found else ""
    return broken(head, text[len(head) :], tail, indent, inside=False)


def broken(head: str, body: str, tail: str, indent: str, inside: bool) -> list[str]:
    """``head body tail`` on several lines; inside brackets (``inside``) a line may simply end."""
    if len(indent + head + body + tail) <= WIDTH:
        return [indent + head + body + tail]
    for signs in OPERATORS:
        parts = split(body, signs)
        if len(parts) > 1:
            deeper = indent if inside else indent + STEP
            lines = [] if inside else [f"{indent}{head}("]
            for k, (sign, part) in enumerate(parts):
                start = f"{sign.strip()} " if sign else head if inside else ""
                end = tail if inside and k == len(parts) - 1 else ""
                lines += broken(start, part, end, deeper, inside=True)
            return lines if inside else [*lines, f"{indent}){tail}"]
    opened, closed = longest(body)
    if opened < 0:
        return [indent + head + body + tail]
    content = body[opened + 1 : closed]
    lines = [indent + head + body[: opened + 1]]
    items = [part for _, part in split(content, (", ",))]
    if len(items) > 1 and " for " not in content:
        for part in items:
            lines += broken("", part, ",", indent + STEP, inside=True)
    else:
        lines += broken("", content, "", indent + STEP, inside=True)
    return lines + broken("", body[closed:], tail, indent, inside=True)


def split(text: str, signs: tuple[str, ...]) -> list[tuple[str, str]]:
    """The parts between operators outside brackets, each with the operator before it."""
    out, depth, start, before = list[tuple[str, str]](), 0, 0, ""
    k, pattern = 0, brackets_or(signs)
    while found := pattern.search(text, k):
        sign, k = found[0], found.start() + 1
        if sign in ("(", "[", "{"):
            depth += 1
        elif sign in (")", "]", "}"):
            depth -= 1
        elif depth == 0 and found.start() > start:
            out.append((before, text[start : found.start()]))
            before, start, k = sign, found.end(), found.end()
    return [*out, (before, text[start:])]


@cache
def brackets_or(signs: tuple[str, ...]) -> re.Pattern[str]:
    """A bracket, or the first of these operators that fits."""
    return re.compile("|".join(("[][(){}]", *map(re.escape, signs))))


def longest(text: str) -> tuple[int, int]:
    """Where the longest outermost pair of brackets opens and closes; −1 if there is none."""
    best, depth, opened = (-1, -1), 0, -1
    for k, c in enumerate(text):
        if c in "([{":
            opened = k if depth == 0 else opened
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0 and k - opened > max(best[1] - best[0], 1):
                best = opened, k
    return best


def comment(text: str, depth: int = 0) -> list[str]:
    """A comment, continued further in."""
    indent = STEP * depth
    return textwrap.wrap(
        without_tex(text), WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}#     ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def docstring(paragraphs: list[str], depth: int = 0) -> list[str]:
    """A docstring of paragraphs; the first is its summary."""
    indent = STEP * depth
    texts = [without_tex(p).replace("\\", "/").replace('"""', "'''") for p in paragraphs if p]
    texts[0] = texts[0][:1].upper() + texts[0][1:]
    texts[0] += "" if texts[0].endswith((".", "?", "!")) else "."
    lines = []
    for k, text in enumerate(texts):
        first = indent + '"""' if k == 0 else indent
        room = WIDTH - 3 if len(texts) == 1 else WIDTH
        lines += [*([""] if k else []), *textwrap.wrap(
            text, room, initial_indent=first, subsequent_indent=indent,
            break_long_words=False, break_on_hyphens=False,
        )]  # fmt: skip
    if len(lines) == 1:
        return [lines[0] + '"""']
    return [*lines, indent + '"""']


def filled(items: list[str], depth: int = 0) -> list[str]:
    """``a, b, c,`` on as few lines as possible, without breaking an item."""
    lines = [""]
    for item in items:
        more = f"{lines[-1]} {item}," if lines[-1] else f"{STEP * depth}{item},"
        lines = [*lines[:-1], more] if len(more) <= WIDTH else [*lines, f"{STEP * depth}{item},"]
    return lines


def joined(items: list[str], opening: str, closing: str, depth: int = 0) -> list[str]:
    """``opening a, b, c closing``, wrapped if one line is too short."""
    indent = STEP * depth
    line = indent + opening + ", ".join(items) + closing
    if len(line) <= WIDTH:
        return [line]
    inner = textwrap.wrap(
        ", ".join(items), WIDTH, initial_indent=indent + STEP, subsequent_indent=indent + STEP
    )
    return [indent + opening, *inner, indent + closing]
