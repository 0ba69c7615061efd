"""Checks of the built site: a warning, which `mkdocs build --strict` takes for an error.

Every link to a file of the site, and to a place in one, must lead somewhere, in embedded pages too;
and no page may show a formula's dollar signs.
"""

import logging
import re
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

log = logging.getLogger("mkdocs.hooks.checks")
_LINK = re.compile(r'\s(?:href|src)="([^"]*)"')
_ID = re.compile(r'\sid="([^"]*)"')
_NO_TEXT = re.compile(r"<(code|pre|script|style|svg|math|textarea)\b.*?</\1>|<[^>]*>", re.S)
_DOLLARS = re.compile(r"\$[^$\n]+\$|\$\$")
ELSEWHERE = ("http:", "https:", "mailto:", "data:", "javascript:")


def on_post_build(config: Any, **_: Any) -> None:
    """Logs what is wrong with each page."""
    site = Path(config["site_dir"])
    for page in sorted(site.rglob("*.html")):
        if page.name != "404.html":  # whose links begin at the root of a server
            html = page.read_text("utf-8")
            for found in (*dead_links(page, html), *dollars(html)):
                log.warning("%s: %s", page.relative_to(site), found)
    ids.cache_clear()


def dead_links(page: Path, html: str) -> list[str]:
    """Links within the site that lead nowhere."""
    out = []
    for link in dict.fromkeys(map(unescape, _LINK.findall(without_scripts(html)))):
        if link.startswith(ELSEWHERE):
            continue
        path, _, place = link.partition("#")
        target = page.parent.joinpath(unquote(path.partition("?")[0])) if path else page
        if not target.exists():
            out.append(f"the link {link} leads to no file")
        elif place and target.suffix == ".html" and unquote(place) not in ids(target.resolve()):
            out.append(f"the link {link} leads to no place of that page")
    return out


def without_scripts(html: str) -> str:
    """A page without its programs, which hold HTML of their own."""
    return re.sub(r"<script\b[^>]*>.*?</script>", "", html, flags=re.S)


@cache
def ids(page: Path) -> frozenset[str]:
    """The places of a page that a link can name."""
    return frozenset(map(unescape, _ID.findall(page.read_text("utf-8"))))


def dollars(html: str) -> list[str]:
    """Formulas that are shown as they are written."""
    return [f"shows {m!r}" for m in _DOLLARS.findall(_NO_TEXT.sub("", html))]
