"""The built site from a disk: for everyone, on a phone and on a desk, in the light and in the dark.

`make browser` runs these; they need Chromium, Node and, for axe-core, `npm ci` in page/.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.browser.devtools import look_at, look_at_each
from tests.browser.test_explore import AXE

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
PHONE, DESK = 390, 1366
AT_A_TIME = 12  # pages that one browser opens
BY_ITSELF = ("embedded", "404.html")  # what is no page in the site's frame


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as CI builds it."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return folder


def pages(site: Path) -> list[Path]:
    """The pages that have the site's frame."""
    return [
        page for page in sorted(site.rglob("*.html"))
        if not set(page.relative_to(site).parts) & set(BY_ITSELF)
    ]  # fmt: skip


LOOK = """(async () => {
    await new Promise((done) => setTimeout(done, 300));
    const root = document.documentElement;
    const {violations} = await axe.run(document,
      {iframes: false, preload: false, resultTypes: ["violations"]});
    return {wide: root.scrollWidth - root.clientWidth, violations: violations.map((v) =>
      [v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200))])};
})()"""


@pytest.mark.parametrize(("width", "dark"), [(PHONE, True), (DESK, False)])
def test_every_page_is_for_everyone(site: Path, width: int, dark: bool) -> None:
    """axe-core finds nothing; nothing is wider than the screen, or fetched from elsewhere."""
    visits = [
        {"page": p.as_uri(), "width": width, "height": 900, "dark": dark} for p in pages(site)
    ]  # fmt: skip
    parts = [visits[k : k + AT_A_TIME] for k in range(0, len(visits), AT_A_TIME)]
    looking = partial(look_at_each, expression=AXE.read_text("utf-8") + ";\n" + LOOK, seconds=400)
    found: dict[str, Any] = {}
    with ThreadPoolExecutor(2) as browsers:
        looks = [look for part in browsers.map(looking, parts) for look in part]
    for visit, look in zip(visits, looks, strict=True):
        fetched = [x for x in look["requests"] if not x.startswith(("file:", "data:", "blob:"))]
        if look["value"] != {"wide": 0, "violations": []} or fetched or look["events"]:
            found[visit["page"]] = look["value"], fetched, look["events"]
    assert found == {}


FIRST = {  # what a reader types, and the page that should come first
    "circuits": "guides/circuits", "probing": "guides/probing", "exact": "guides/exact",
    "head": "learn/6-heads-and-blocks", "induction": "learn/6-heads-and-blocks",
    "lesson": "teach/index", "tutorial": "learn/index", "glossary": "reference/glossary",
    "logit lens": "guides/interventions", "ablation": "guides/interventions",
    "train": "guides/training", "tokenizer": "guides/checkpoints", "KV cache": "guides/sampling",
    "pythia": "reference/cards/pythia", "softmax": "learn/1-next-letter",
}  # fmt: skip


def test_the_search_finds_from_a_disk_what_a_reader_wants(site: Path) -> None:
    home = (site / "index.html").as_uri()
    look = look_at(home, width=DESK, dark=False, expression=f"""(async () => {{
        const field = document.querySelector(".md-search__input");
        const type = (text) => {{
          field.value = text;
          field.dispatchEvent(new KeyboardEvent("keyup", {{bubbles: true}}));
        }};
        const found = () => document.querySelector(".md-search-result__link")?.pathname;
        const until = async (ready) => {{
          for (let k = 0; k < 100 && !ready(); k++)
            await new Promise((done) => setTimeout(done, 50));
        }};
        const first = {{}};
        field.focus();
        for (const word of {json.dumps([*FIRST])}) {{
          type("");
          await until(() => !found());
          await until(() => (type(word), found()));
          first[word] = found();
        }}
        return first;
    }})()""")  # fmt: skip
    root = site.as_posix()
    assert {w: x.removeprefix(f"{root}/") for w, x in look["value"].items()} == {
        word: f"{page}.html" for word, page in FIRST.items()
    }


def test_a_frame_follows_the_page_into_the_dark(site: Path) -> None:
    home = (site / "index.html").as_uri()
    look = look_at(home, width=DESK, dark=False, expression="""(async () => {
        const frame = document.querySelector(".embedded iframe");
        frame.scrollIntoView();
        const asked = [];
        addEventListener("message", ({data, source}) =>
          source === frame.contentWindow && asked.push(data));
        for (let k = 0; k < 50 && !asked.length; k++)
          await new Promise((done) => setTimeout(done, 60));
        const before = frame.name;
        document.querySelector("[data-md-component=palette] label:not([hidden])").click();
        await new Promise((done) => setTimeout(done, 300));
        return [asked.length > 0, before, frame.name];
    })()""")  # fmt: skip
    assert look["value"] == [True, "light", "dark"]
