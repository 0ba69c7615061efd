"""Headless Chromium, asked over the DevTools protocol by Node."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ASK = Path(__file__).with_name("ask.mjs")
SECONDS = 110  # that a page may take; then Chromium is ended
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def look(page: Path, **asked: Any) -> dict[str, Any]:
    """What an expression is in a page, and what the browser complained of while it opened it."""
    return look_at(page.resolve().as_uri(), **asked)


def look_at(
    address: str,
    *,
    width: int,
    dark: bool,
    expression: str,
    height: int = 900,
    permissions: tuple[str, ...] = (),
    picture: Path | None = None,
) -> dict[str, Any]:
    """The same of an address; of a promise what it gives. ``picture`` is a WebP of it then."""
    visit = {"page": address, "width": width, "height": height, "dark": dark,
             "picture": picture and str(picture)}  # fmt: skip
    return look_at_each([visit], expression, permissions)[0]


def look_at_each(
    visits: Sequence[Mapping[str, Any]],
    expression: str,
    permissions: tuple[str, ...] = (),
    seconds: int = SECONDS,
) -> list[dict[str, Any]]:
    """The same of several visits, in one browser: ``page``, ``width``, ``height``, ``dark``."""
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert browser and shutil.which("node"), (
        "install Chromium and Node 22: apt-get install chromium"
    )
    asked = {"browser": browser, "visits": visits, "expression": expression,
             "permissions": permissions, "seconds": seconds}  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        made = subprocess.run(["node", ASK, file.name],
                              capture_output=True, text=True, timeout=seconds + 10)  # fmt: skip
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)
