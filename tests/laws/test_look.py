"""One look: the design sheet's colours are legible, told apart by all, and the only ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from math import dist
from pathlib import Path

import pytest

import viete
from viete.document.colours import SCHEMES, colours, sheet, svg_file

PAPERS = ("paper", "card", "wash", "now-wash", "done", "input-wash", "output-wash", "stream-wash")
TEXTS = ("ink", "value", "soft", "input", "parameter", "gradient", "stream", "now")
ROLES = ("ink", "input", "parameter", "gradient", "stream", "now")
# How people who lack one of the three cones see: Machado, Oliveira and Fernandes 2009, severity 1.
EYES = {
    "all three": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "deuteranopia": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "tritanopia": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}


def linear(colour: str) -> list[float]:
    shares = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]


def contrast(a: str, b: str) -> float:
    """As WCAG 2 defines it."""
    low, high = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in map(linear, (a, b)))
    return (high + 0.05) / (low + 0.05)


def oklab(rgb: Sequence[float]) -> tuple[float, ...]:
    """After Ottosson 2020: equal distances look equally far apart."""
    cones = ((0.4122, 0.5363, 0.0514), (0.2119, 0.6807, 0.1074), (0.0883, 0.2817, 0.6300))
    axes = ((0.2105, 0.7936, -0.0041), (1.9780, -2.4286, 0.4506), (0.0259, 0.7828, -0.8087))
    found = [max(0.0, times(row, rgb)) ** (1 / 3) for row in cones]
    return tuple(times(row, found) for row in axes)


def times(row: Sequence[float], column: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(row, column, strict=True))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_is_legible_on_every_paper(scheme: str) -> None:
    found = colours(scheme)
    for paper in PAPERS:
        for text in TEXTS[: 3 if paper not in PAPERS[:3] else None]:
            assert contrast(found[text], found[paper]) >= 4.5, (text, paper)
    assert contrast(found["now-ink"], found["now"]) >= 4.5
    assert contrast(found["ink"], found["lit"]) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("eyes", EYES)
def test_roles_are_told_apart(scheme: str, eyes: str) -> None:
    def seen(role: str) -> tuple[float, ...]:
        rgb = linear(colours(scheme)[role])
        return oklab([times(row, rgb) for row in EYES[eyes]])

    for a, b in combinations(ROLES, 2):
        assert dist(seen(a), seen(b)) > 0.1, (a, b)
    assert dist(seen("heat-positive"), seen("heat-negative")) > 0.1


def test_both_schemes_have_every_role() -> None:
    light, dark = map(colours, SCHEMES)
    assert light.keys() == dark.keys()
    used = set(re.findall(r"var\(--([\w-]+)\)", sheet())) - {"serif", "sans", "mono"}
    assert used <= light.keys()


def test_the_sheet_is_the_source_of_the_colours() -> None:
    """No other file of Python writes a colour: it takes that of a role."""
    house = Path(viete.__file__).parent
    own = re.compile(r"#[0-9a-fA-F]{6}\b")
    found = {
        str(path.relative_to(house)): colour
        for path in house.rglob("*.py")
        for colour in own.findall(path.read_text("utf-8"))
    }
    assert not found.keys() - {"document/colours.py"}, found


def test_a_picture_in_a_file_has_the_colours_of_the_dark_too() -> None:
    drawn = svg_file(viete.read("exact-lesson").draw().svg)
    style, body = re.findall(r"(?s)<style>(.*?)</style>(.*)", drawn)[0]
    dark = {(what, light): now for what, light, now in re.findall(
        r'\[(fill|stroke)="(#\w+)"\] \{ \1: (#\w+); \}', style)}  # fmt: skip
    assert {*re.findall(r'\b(fill|stroke)="(#\w+)"', body)} == {*dark}
    light = {colour: name for name, colour in [*colours("light").items()][::-1]}
    assert all(now == colours("dark")[light[colour]] for (_, colour), now in dark.items())
