"""Lists of texts: a file with one text a line, or one JSON object a line.

A JSON object may carry words and numbers beside its text, which a question can name: ``answer``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from viete.errors import Text, VieteError, os_refusals
from viete.notation.words import Words
from viete.regular import decoded, regular

MOST_BYTES = 1_000_000_000


@dataclass(frozen=True)
class Example:
    """A text or token ids, perhaps another text, and the words or numbers that questions name."""

    text: Any
    against: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    place: Text = field(default_factory=lambda: Text(""))


def read_examples(path: Path) -> list[Example]:
    """The texts of a file, as plain or JSON lines.

    In JSON lines ``text`` is a string or a list of ids, or ``tokens`` are ids, and ``against`` is
    another text; any other key names a token by its word, or numbers, for questions.

    Raises VieteError, with the line, for anything but such an object, and for a file without a
    text.
    """
    with os_refusals(path):
        content = regular(path, MOST_BYTES).read_bytes()
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise VieteError(f"{path}: the file is not UTF-8; write one text a line in UTF-8") from None
    read = from_json if path.suffix.lower() in (".jsonl", ".ndjson") else from_line
    found = [
        read(Text(line, str(path), k, 1, line)) for k, line in enumerate(lines, 1) if line.strip()
    ]
    if not found:
        raise VieteError(f"{path}: the file has no text; write one text a line")
    return found


def example_of(given: Any) -> Example:
    """An `Example` from a text, token ids, or an object as in a line of JSON."""
    if isinstance(given, Example):
        return given
    if isinstance(given, Mapping):
        return from_object(dict(given), Text("", "<texts>"))
    return Example(given)


def named_in(text: str, examples: Iterable[Example]) -> list[str]:
    """The names in a formula for which some example has words or numbers."""
    names = set[str]().union(*(e.values for e in examples))
    return [name for name in sorted(names) if re.search(rf"\b{re.escape(name)}\b", text)]


def numbers_of(example: Example, names: Iterable[str], words: Words) -> dict[str, Any]:
    """The tokens and numbers of an example for some names.

    Raises VieteError, with its line, for a missing name, and for a word that is not a token.
    """
    out: dict[str, Any] = {}
    for name in names:
        if name not in example.values:
            raise example.place.error(
                f"the question uses {name}, and this line has no {name}; write it beside the "
                f'text: {{"text": "I live in", "{name}": " D"}}'
            )
        value = example.values[name]
        if isinstance(value, str):
            token = words.get(value)
            if token is None:
                raise example.place.error(f"{name}: {words.unknown(value)}")
            value = token
        out[name] = value
    return out


def from_line(line: Text) -> Example:
    """A line as an example, unchanged."""
    return Example(line.text, place=line)


def from_json(line: Text) -> Example:
    """The example of a JSON object: ``{"text": "…", "against": "…", "answer": " Mary"}``."""
    try:
        said = decoded(line.text)
    except ValueError as error:
        raise line.error(f"this is not JSON ({error})") from None
    return from_object(said, line)


def from_object(said: object, line: Text) -> Example:
    """The example of a decoded line of JSON."""
    if not isinstance(said, dict) or len(said.keys() & {"text", "tokens"}) != 1:
        raise line.error(
            'a line is an object with a text or with tokens, such as {"text": "I live in D"} or '
            '{"tokens": [3, 1, 4]}'
        )
    if "tokens" in said and not are_ids(said["tokens"]):
        raise line.error("tokens are a list of token ids")
    text, against = said.pop("text" if "text" in said else "tokens"), said.pop("against", None)
    for given in (text, against):
        if not (isinstance(given, str) or given is None or are_ids(given)) or text is None:
            raise line.error("a text is a string, or a list of token ids")
    for name, value in said.items():
        if not (isinstance(value, str | int | float) or are_numbers(value)):
            raise line.error(f"{name} is a token's word or a number, not {value!r:.40}")
    return Example(text, against, said, line)


def are_ids(given: object) -> bool:
    """Whether these are token ids."""
    return isinstance(given, list) and all(type(k) is int for k in given) and bool(given)


def are_numbers(given: object) -> bool:
    """Whether these are several numbers, for example one for each position."""
    return isinstance(given, list) and bool(given) and all(type(k) in (int, float) for k in given)


__all__ = ["Example", "example_of", "named_in", "numbers_of", "read_examples"]
