"""The `init` and `dtype` columns of a card's parameters: their permitted entries."""

from __future__ import annotations

import re

from viete.errors import Text

DTYPES = ("float64", "float32", "float16", "bfloat16")
_DRAW = re.compile(r"(normal|uniform)\s*\((.*)\)")
_WORD = re.compile(r"[A-Za-z]{2,}(?!\w)")


def read_init(text: Text, name: str, axes: int) -> tuple[str, Text]:
    """A parameter's initialization ('normal', 'uniform', 'xavier' or 'fill') and its number's text.

    ``axes`` is how many sizes the parameter ``name`` has. Raises VieteError for anything else.
    """
    if text.text == "xavier":
        if axes != 2:
            raise text.error(
                f"xavier needs a matrix, and {name} is not one; write normal(s), "
                f"uniform(a) or a number"
            )
        return "xavier", Text("0")
    if m := _DRAW.fullmatch(text.text):
        return m[1], text.cut(*m.span(2))
    if _WORD.match(text.text) and not text.text.startswith("sqrt"):
        raise text.error("init must be normal(s), uniform(a), xavier or a number")
    return "fill", text


def check_dtype(text: Text) -> None:
    """Raise VieteError for a text that is not a dtype of a parameter."""
    if text.text and text.text not in DTYPES:
        raise text.error(f"dtype must be one of {', '.join(DTYPES)}, not {text.text!r:.40}")


__all__ = ["check_dtype", "read_init"]
