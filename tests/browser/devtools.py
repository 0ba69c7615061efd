"""Headless Chromium, asked over the DevTools protocol by Node, which has a WebSocket of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

ASK = Path(__file__).with_name("ask.mjs")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def look(page: Path, *, width: int, dark: bool, expression: str) -> dict[str, Any]:
    """What an expression is in a page, and what the browser complained of while it opened it."""
    return look_at(page.resolve().as_uri(), width=width, dark=dark, expression=expression)


def look_at(address: str, *, width: int, dark: bool, expression: str) -> dict[str, Any]:
    """The same of an address; of a promise what it gives."""
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert browser and shutil.which("node"), (
        "install Chromium and Node 22: apt-get install chromium"
    )
    asked = {"browser": browser, "page": address, "width": width, "dark": dark,
             "expression": expression}  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        node = subprocess.Popen(
            ["node", "--no-warnings", "--experimental-websocket", ASK, file.name],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            out, complaint = node.communicate(timeout=120)
        finally:
            with suppress(ProcessLookupError):  # a browser outlives a Node that is stopped
                os.killpg(node.pid, signal.SIGKILL)
    assert node.returncode == 0, complaint
    return json.loads(out)
