"""The built page is that of the sources beside it, small, and fetches nothing."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from viete.errors import VieteError
from viete.explore import page_file

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "page"
STATIC = ROOT / "viete" / "explore" / "static"
BUILT = ("page.js", "page.esm.js", "page.css")


def hash_of_sources() -> str:
    """As page/build.mjs counts it."""
    made = sha256()
    for file in (*sorted((PAGE / "src").iterdir()), PAGE / "package-lock.json"):
        name = f"src/{file.name}" if file.parent.name == "src" else file.name
        text = file.read_bytes()
        made.update(f"{name}\0{len(text)}\0".encode() + text)
    return made.hexdigest()


@pytest.mark.parametrize("name", BUILT)
def test_is_built_from_its_sources(name: str) -> None:
    first = (STATIC / name).read_text("utf-8").partition("\n")[0]
    assert hash_of_sources() in first, "page/src has changed: run `make page`"


def test_is_small_and_fetches_nothing() -> None:
    files: list[Path] = [STATIC / name for name in BUILT]
    assert all(f.stat().st_size < 200_000 for f in files)
    fetched = re.compile(r"https?://(?!www\.w3\.org/)|@import|url\((?!data:)")
    assert not any(fetched.search(f.read_text("utf-8")) for f in files)


def test_without_it_there_is_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_file.resources, "files", lambda _: tmp_path)
    with pytest.raises(VieteError, match="make page"):
        page_file.style()


@pytest.mark.parametrize("name", BUILT[:2])
def test_says_what_its_numbers_count(name: str) -> None:
    built = (STATIC / name).read_text("utf-8")
    assert "`equations ${" in built and not re.search(
        r"(used|defined) in \$\{\w+\.\w+\.join", built
    )
