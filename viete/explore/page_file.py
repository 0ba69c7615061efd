"""The page as one file: its data, its program and its style; nothing is fetched."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from importlib import resources
from typing import Any

from viete.document.colours import palette
from viete.errors import VieteError

SURROGATES = re.compile("[\ud800-\udfff]")  # halves of characters, which no file can hold
ENDS = re.compile("<(/(?=script|style)|!(?=--))", re.IGNORECASE)  # what HTML sees in a script
# Formulas and prose of a page are in its data, so that the card can be read without a program.
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="page"></div>
<noscript>{document}</noscript>
<script type="application/json" id="page-data">{data}</script>
<script>{program}</script>
<script>{start}</script>
</body>
</html>
"""
# What a notebook is to its widget.
START = """
const data = JSON.parse(document.getElementById("page-data").textContent);
const model = { get: (name) => (name === "data" ? data : undefined) };
vietePage.default.render({ model, el: document.getElementById("page") });
"""


def page_html(data: Mapping[str, Any]) -> str:
    """The page of `page_data` as HTML that opens from a disk, without a network."""
    program = part("page.js")
    return PAGE.format(
        policy=policy((program, START), data["server"]), title=escape(data["title"]),
        style=style(), document=data["document"], data=json_text(data), program=program,
        start=START,
    )  # fmt: skip


def style() -> str:
    """The page's style: the colours of the design sheet for it alone, and its layout."""
    return palette(".viete-page") + part("page.css")


def policy(scripts: Iterable[str], server: Any) -> str:
    """The content security policy: only these scripts, and no address but the server's."""
    hashes = (b64encode(sha256(s.encode()).digest()).decode() for s in scripts)
    address = "'self'" if server else "'none'"
    own = " ".join(f"'sha256-{h}'" for h in hashes)
    return (
        f"default-src 'none'; script-src {own} 'unsafe-eval' blob: data:; "
        f"style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
        f"connect-src {address}"
    )


def json_text(data: Mapping[str, Any]) -> str:
    """JSON that can be put into HTML: no tag begins or ends in it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # without which nothing begins or ends in a script
    return SURROGATES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def part(name: str) -> str:
    """A built file that all pages share, escaped so that no tag ends in it.

    Raises VieteError where it was not built.
    """
    found = resources.files("viete.explore").joinpath("static", name)
    if not found.is_file():
        raise VieteError(
            f"viete/explore/static/{name} is missing, so no page can be written: `make page` "
            "builds it, and installing viete again restores it"
        )
    return ENDS.sub(r"<\\\1", found.read_text("utf-8"))


__all__ = ["page_html"]
