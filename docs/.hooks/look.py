"""The site's own files: its style sheet, its scripts, its mark; the version and the repository.

Colours and typefaces are those of the design sheet, viete/document/look.css; `static/site.css`
is the layout.
"""

import os
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from viete.document.colours import MONO, SANS, SCHEMES, SERIF, colours

STATIC = Path(__file__).parent / "static"
IN_PAGES = ("framed.js",)  # written into embedded pages, no file of the site
THEMES = dict(zip(SCHEMES, ("default", "slate"), strict=True))
ROLES = {
    "primary-fg-color": "paper", "primary-bg-color": "ink", "primary-bg-color--light": "soft",
    "accent-fg-color": "now", "typeset-a-color": "now", "default-bg-color": "paper",
    "default-fg-color": "ink", "default-fg-color--light": "soft",
    "default-fg-color--lighter": "line-strong", "default-fg-color--lightest": "line",
    "code-bg-color": "wash", "code-fg-color": "ink", "typeset-color": "ink",
    "footer-bg-color": "wash", "footer-bg-color--dark": "wash", "footer-fg-color": "ink",
    "footer-fg-color--light": "soft", "footer-fg-color--lighter": "soft",
    "code-hl-keyword-color": "input", "code-hl-string-color": "parameter",
    "code-hl-number-color": "parameter", "code-hl-constant-color": "parameter",
    "code-hl-special-color": "parameter", "code-hl-function-color": "ink",
    "code-hl-name-color": "ink", "code-hl-variable-color": "ink", "code-hl-operator-color": "ink",
    "code-hl-punctuation-color": "soft", "code-hl-comment-color": "soft",
    "code-hl-generic-color": "soft",
}  # fmt: skip


def on_config(config: Any, **_: Any) -> Any:
    """The version of the package, and the repository that this clone has come from."""
    config.extra["package_version"] = version("viete")
    config.copyright = f"Viète {version('viete')} · {config.copyright}"
    if not config.repo_url and (address := repository()):
        config.repo_url, config.repo_name = address, address.split("/", 3)[-1]
    return config


def repository() -> str | None:
    """The address of the repository for a browser: the workflow's, or that of git's ``origin``."""
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    asked = ["git", "-C", str(STATIC), "remote", "get-url", "origin"]
    try:
        url = subprocess.run(asked, capture_output=True, text=True, timeout=5).stdout.strip()
    except OSError:
        return None
    found = re.fullmatch(r"(?:https://|git@|ssh://git@)([\w.-]+)[:/]([\w./-]+?)(?:\.git)?/?", url)
    return found and f"https://{found[1]}/{found[2]}"


def on_files(files: Any, config: Any) -> Any:
    """Adds the site's own files."""
    for path in STATIC.iterdir():
        if path.name not in (*IN_PAGES, "site.css"):
            files.append(File.generated(config, path.name, content=path.read_text("utf-8")))
    files.append(File.generated(config, "look.css", content=sheet()))
    return files


def sheet() -> str:
    """The style sheet: Material's variables in the colours of the design sheet, and the layout."""
    schemes = "".join(
        f'[data-md-color-scheme="{theme}"] {{ color-scheme: {scheme};\n'
        + " ".join(f"--md-{name}: {colours(scheme)[role]};" for name, role in ROLES.items())
        + "\n" + " ".join(f"--{role}: {colour};" for role, colour in colours(scheme).items())
        + " }\n"
        for scheme, theme in THEMES.items()
    )  # fmt: skip
    fonts = (
        f":root {{ --sans: {SANS}; --serif: {SERIF}; --mono: {MONO};\n"
        f'--version: "{version("viete")}"; }}\n'
    )
    return schemes + fonts + (STATIC / "site.css").read_text("utf-8")
