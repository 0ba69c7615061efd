"""Colours and fonts of the design sheet `look.css`, for drawings and plots outside HTML pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

SCHEMES = ("light", "dark")
DARK = "@media screen and (prefers-color-scheme: dark)"
_COLOUR = re.compile(r"--([\w-]+): (#[0-9a-f]{6});")
_TYPE = re.compile(r"--(serif|sans|mono): (.*?);", re.S)
_ROOT = re.compile(r":root \{(.*?)\}", re.S)


@cache
def sheet() -> str:
    """The design sheet, with the dark colours for drawings in a page."""
    return f"{look()}{drawings_in_the_dark()}\n"


@cache
def palette(within: str) -> str:
    """Only the colours and type of the sheet, for a selector and the drawings in it."""
    light, dark, printed = (f"{within} {{{m}}}" for m in _ROOT.findall(look()))
    return (
        f"{light}\n{DARK} {{ {dark} }}\n{drawings_in_the_dark(f'{within} ')}\n"
        f"@media print {{ {printed} }}\n"
    )


def drawings_in_the_dark(before: str = "") -> str:
    """Rules that map the light colours of a drawing's attributes to the dark colours."""
    rules = " ".join(
        f'{before}svg [{what}="{colour}"] {{ {what}: var(--{name}); }}'
        for colour, name in roles().items() for what in ("fill", "stroke")
    )  # fmt: skip
    return f"{DARK} {{ {rules} }}"


def roles() -> Mapping[str, str]:
    """The first role that has each light colour."""
    return {colour: name for name, colour in [*colours().items()][::-1]}


def svg_file(drawing: str) -> str:
    """An SVG file with its own dark colours, since no page's sheet reaches it."""
    dark = colours("dark")
    rules = " ".join(
        f'.viete-drawing [{what}="{colour}"] {{ {what}: {dark[name]}; }}'
        for colour, name in roles().items() for what in ("fill", "stroke")
        if f'{what}="{colour}"' in drawing
    )  # fmt: skip
    head, inside = drawing.split(">", 1)
    return f'{head} class="viete-drawing">\n<style>{DARK} {{ {rules} }}</style>{inside}'


@cache
def look() -> str:
    """The text of the design sheet."""
    return resources.files("viete.document").joinpath("look.css").read_text("utf-8")


@cache
def colours(scheme: str = "light") -> Mapping[str, str]:
    """The colour of each role, as ``#1d2a35``, in one of `SCHEMES`."""
    return of_sheet(look())[scheme]


def of_sheet(sheet: str) -> Mapping[str, Mapping[str, str]]:
    """The colours of a sheet by scheme: its first two sets of colours."""
    sets = (dict(_COLOUR.findall(m)) for m in _ROOT.findall(sheet))
    return dict(zip(SCHEMES, sets, strict=False))


_LIGHT = colours()
INK, SOFT, PAPER, CARD, WASH = (_LIGHT[k] for k in ("ink", "soft", "paper", "card", "wash"))
LINE, LINE_STRONG, STREAM, NOW = (_LIGHT[k] for k in ("line", "line-strong", "stream", "now"))
POSITIVE, NEGATIVE = _LIGHT["heat-positive"], _LIGHT["heat-negative"]
# Of curves and bars that stand beside each other.
SERIES = tuple(_LIGHT[k] for k in ("heat-positive", "heat-negative", "now", "stream", "gradient",
                                   "parameter"))  # fmt: skip

# Families of letters, as an attribute in double quotes has them.
SERIF, SANS, MONO = (
    dict(_TYPE.findall(look()))[k].replace('"', "'") for k in ("serif", "sans", "mono")
)

__all__ = [
    "CARD", "INK", "LINE", "LINE_STRONG", "MONO", "NEGATIVE", "NOW", "PAPER", "POSITIVE", "SANS",
    "SCHEMES", "SERIES", "SERIF", "SOFT", "STREAM", "WASH", "colours", "palette", "sheet",
    "svg_file",
]  # fmt: skip
