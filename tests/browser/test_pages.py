"""Pages as a browser shows them: no complaint, nothing too wide, legible in the light and the dark.

`make browser` runs these; they need Chromium and Node.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.devtools import look
from tests.command_line import viete

pytestmark = pytest.mark.browser

LESSONS = {
    "exact-lesson": ["-t", "a b"],
    "symbolic-transformer": ["-t", "1,2", "--seed", "3", "--set", "V=3", "--set", "d=2"],
}
SEEN = """(() => {
  const colour = (e, name) => getComputedStyle(e).getPropertyValue(name);
  const shown = [...document.querySelectorAll("math")].filter(e => e.getClientRects().length);
  return {
    title: document.title,
    words: document.body.innerText.length,
    raw: document.body.innerText.match(/\\$|\\\\[a-z]+\\{|<\\w+>/g) ?? [],
    formulas: document.querySelectorAll("math").length,
    flat: shown.filter(e => !(e.getBoundingClientRect().height > 4)).length,
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    ink: colour(document.body, "color"),
    paper: colour(document.body, "background-color"),
    root: colour(document.documentElement, "background-color"),
    scheme: colour(document.documentElement, "color-scheme"),
  };
})()"""


@pytest.fixture(scope="module", params=LESSONS)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / "lesson.html"
    viete("lesson", request.param, *LESSONS[request.param], "-o", file)
    return file


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_lesson(page: Path, width: int, dark: bool) -> None:
    found = look(page, width=width, dark=dark, expression=SEEN)
    assert not found["events"] and found["thrown"] is None
    seen = found["value"]
    assert seen["title"] and seen["words"] > 1000 and seen["formulas"] > 20
    assert seen["flat"] == 0 and seen["raw"] == []
    assert seen["wide"] <= 0, f"{seen['wide']} pixels wider than the window"
    assert contrast(seen) > 7, seen


def contrast(seen: dict[str, str]) -> float:
    """Of the ink on the paper, as WCAG 2 counts it; a page that has no colour is the browser's."""
    paper = next((c for c in (seen["paper"], seen["root"]) if not c.startswith("rgba(0, 0, 0, 0")),
                 "rgb(255, 255, 255)")  # fmt: skip
    light, dark = sorted(map(luminance, (seen["ink"], paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [float(x) / 255 for x in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
