"""Cards from JSON: the same declarations as fields, with formulas in the plain spelling."""

from __future__ import annotations

import json
import re
from typing import Any

from viete.document.markdown import read_markdown
from viete.document.tree import Block, Heading, ListItem, Paragraph, TextTable
from viete.errors import Text, VieteError, Where
from viete.printable import STEERING
from viete.regular import decoded

SCHEMA = "viete-card/1"
MOST_TEXTS = 10_000
TABLES = {
    "dimensions": ("symbol", "value", "config", "meaning"),
    "parameters": ("symbol", "shape", "dtype", "value", "init", "checkpoint", "meaning"),
}
LISTS = {"inputs": "input", "functions": "definition", "derived": "equation", "claims": "claim"}


def read_json(content: str, file: str) -> list[Block]:
    """Blocks of a JSON card. Raises VieteError for text that is not JSON or not a card."""
    try:
        card = decoded(content)
    except json.JSONDecodeError as error:
        raise VieteError(
            f"this is not JSON: {error.msg}", Where(file, error.lineno, error.colno, "")
        ) from None
    except ValueError:
        raise VieteError(f"{file}: this JSON is nested too deep to be a card") from None
    return FieldReader(content, file).blocks(card)


class FieldReader:
    """Reads a decoded card: checks the types of its entries and gives its texts their lines."""

    def __init__(self, content: str, file: str) -> None:
        self.content, self.file, self.read = content, file, 0

    def wrong(self, what: str) -> VieteError:
        return VieteError(f"{self.file}: {what}")

    def check(self, value: Any, what: str) -> str:
        """A string of one line without invisible characters."""
        if not isinstance(value, str):
            raise self.wrong(f"{what} must be a string, not {json.dumps(value)[:60]}")
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise self.wrong(f"{what} holds half a character (a lone surrogate)")
        if found := STEERING.search(value) or re.search("\n", value):
            code = f"U+{ord(found[0]):04X}"
            raise self.wrong(f"{what} holds the character {code}; it must be one line that shows")
        return value

    def text(self, value: Any, what: str) -> Text:
        """A string, with its line."""
        self.check(value, what)
        self.read += 1
        if self.read > MOST_TEXTS:
            raise self.wrong(f"this holds more than {MOST_TEXTS:,} texts; a card is a page or two")
        at = max(self.content.find(json.dumps(value, ensure_ascii=False)), 0)
        line = self.content.count("\n", 0, at) + 1
        start = self.content.rfind("\n", 0, at) + 1
        end = self.content.find("\n", start)
        whole = self.content[start : end if end >= 0 else len(self.content)]
        return Text(value, self.file, line, at - start + 2, whole)

    def many(self, card: dict[str, Any], name: str, kind: type) -> list[Any]:
        values = card.get(name, [])
        if not isinstance(values, list) or not all(isinstance(v, kind) for v in values):
            raise self.wrong(
                f'"{name}" must be a list of {"objects" if kind is dict else "strings"}'
            )
        return values

    def blocks(self, card: Any) -> list[Block]:
        if not isinstance(card, dict) or card.get("schema") != SCHEMA:
            keys = card.keys() if isinstance(card, dict) else set()
            hint = ""
            if "weight_map" in keys:
                hint = "; this is the index of a model's tensors: give the folder that it is in"
            elif {"model_type", "architectures"} & keys:
                hint = ("; this is the config of a model: give the folder that it is in, or a card "
                        "with --config")  # fmt: skip
            raise self.wrong(f'a JSON card is an object with "schema": "{SCHEMA}"{hint}')
        known = {"schema", "title", "about", "facts", "vocabulary", "notation", "forward", *TABLES,
                 *LISTS}  # fmt: skip
        if unknown := [k for k in card if k not in known]:
            raise self.wrong(
                f'a card has no field "{unknown[0]}"; there are {", ".join(sorted(known))}'
            )
        out: list[Block] = [Heading(1, self.text(card.get("title", ""), '"title"'))]
        for text in self.many(card, "about", str):
            if list(map(type, read_markdown(text, self.file))) != [Paragraph] * bool(text.strip()):
                raise self.wrong('"about" holds paragraphs, no heading, list, table or code')
            out.append(Paragraph(self.text(text, '"about"')))
        for fact in self.many(card, "facts", dict):
            key, value = (self.text(fact.get(k, ""), f'"{k}"').text for k in ("key", "value"))
            out.append(ListItem(Text(f"**{key}**: {value}", self.file)))
        if words := [self.check(w, '"vocabulary"') for w in self.many(card, "vocabulary", str)]:
            out += [Heading(2, Text("Vocabulary")),
                    Paragraph(Text(" ".join(f"`{w}`" for w in words), self.file))]  # fmt: skip
        if listed := self.many(card, "notation", dict):
            out.append(Heading(2, Text("Notation")))
            for row in listed:
                names, said = (self.text(row.get(k, ""), f'"{k}"') for k in ("names", "meaning"))
                out.append(ListItem(Text(f"`{names.text}`: {said.text}", self.file)))
        for name, columns in TABLES.items():
            rows = self.many(card, name, dict)
            if not rows:
                continue
            out.append(Heading(2, Text(name.title())))
            for row in rows:
                if extra := row.keys() - set(columns):
                    raise self.wrong(f'"{name}" has no column "{min(extra)}"')
            cells = [[self.text(row.get(c, ""), f'"{c}"') for c in columns] for row in rows]
            out.append(TextTable([Text(c) for c in columns], cells))
        out += self.forward(card)
        for name, key in LISTS.items():
            if entries := self.many(card, name, dict):
                out.append(Heading(2, Text(name.title())))
                out += [self.item(e, key) for e in entries]
        return out

    def item(self, e: dict[str, Any], key: str, numbered: bool = False) -> ListItem:
        formula = self.text(e.get(key), f'"{key}"')
        if "$" in formula.text or "\n" in formula.text:
            raise formula.error("a formula in JSON is one line without dollar signs")
        meaning = self.text(e.get("meaning", ""), '"meaning"').text
        text = f"${formula.text}$" + (f": {meaning}" if meaning else "")
        place = Text(text, formula.file, formula.line, formula.column - 1, formula.whole)
        return ListItem(place, numbered)

    def forward(self, card: dict[str, Any]) -> list[Block]:
        out: list[Block] = [Heading(2, Text("Forward pass"))]
        opened, part = None, ""
        for e in self.many(card, "forward", dict):
            loop = None if "for" not in e else (self.text(e["for"], '"for"').text, e.get("loop"))
            if loop is not None and loop != opened:
                line = self.text(e["for"], '"for"').line
                out.append(Paragraph(Text(f"For ${loop[0]}$:", self.file, line)))
            opened = loop
            title = self.text(e.get("part", ""), '"part"')
            if title.text != part:
                out.append(Heading(3, title))
                part = title.text
            equation = self.item(e, "equation", numbered=True)
            if "shape" in e:
                shape = self.text(e["shape"], '"shape"')
                equation.notes.append(Text(
                    f"Shape: {shape.text}", shape.file, shape.line, shape.column - 7, shape.whole
                ))  # fmt: skip
            out.append(equation)
        return out
