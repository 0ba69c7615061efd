"""The site in the colours and letters of the design sheet, viete/document/look.css."""

from pathlib import Path
from typing import Any

from viete.document.colours import MONO, SANS, SCHEMES, SERIF, colours

THEMES = dict(zip(SCHEMES, ("default", "slate"), strict=True))
ROLES = {
    "primary-fg-color": "paper", "primary-bg-color": "ink", "primary-bg-color--light": "soft",
    "accent-fg-color": "now", "typeset-a-color": "now", "default-bg-color": "paper",
    "default-fg-color": "ink", "default-fg-color--light": "soft",
    "default-fg-color--lighter": "line-strong", "default-fg-color--lightest": "line",
    "code-bg-color": "wash", "code-fg-color": "ink", "typeset-color": "ink",
    "footer-bg-color": "wash", "footer-bg-color--dark": "wash", "footer-fg-color": "ink",
    "footer-fg-color--light": "soft", "footer-fg-color--lighter": "soft",
}  # fmt: skip
LAYOUT = f"""
body {{ --md-text-font-family: {SERIF}; --md-code-font-family: {MONO}; }}
.md-header, .md-nav, .md-search, .md-footer {{ font-family: {SANS}; }}
.md-header {{ box-shadow: none; border-bottom: 1px solid var(--md-default-fg-color--lightest); }}
.md-search__form {{ background: var(--md-code-bg-color); }}
.md-typeset {{ font-size: .82rem; line-height: 1.6; }}
.md-typeset :is(h1, h2, h3) {{ font-weight: 600; letter-spacing: 0; color: inherit; }}
.md-typeset h2 {{ padding-bottom: .3rem;
  border-bottom: 1px solid var(--md-default-fg-color--lightest); }}
.md-typeset del math {{
  background: linear-gradient(#0000 49%, currentcolor 49% 54%, #0000 54%); }}
.md-typeset table:not([class]) {{ border: 0; font-size: inherit; background: none; }}
.md-typeset table:not([class]) :is(th, td) {{ padding: .3rem 1.2rem .3rem 0; border: 0;
  border-bottom: 1px solid var(--md-default-fg-color--lightest); }}
.md-typeset table:not([class]) th {{ font: .65rem {SANS};
  color: var(--md-default-fg-color--light); }}
[data-md-color-scheme="default"] {{ color-scheme: light; }}
.md-typeset .embedded {{ display: block; width: auto; max-width: none; margin: 1.5rem 0; }}
.embedded iframe {{ display: block; width: 100%; max-height: 90vh; border-radius: .4rem;
  border: 1px solid var(--md-default-fg-color--lightest); color-scheme: normal; }}
.embedded .picture {{ overflow-x: auto; }}
.md-typeset .embedded figcaption {{ display: flex; flex-wrap: wrap; gap: .2rem 1rem;
  margin: .4rem 0 0; justify-content: space-between; max-width: none; font: .65rem {SANS}; }}
"""


def on_post_build(config: Any, **_: Any) -> None:
    """Writes the sheet that mkdocs.yml names."""
    schemes = "".join(
        f'[data-md-color-scheme="{theme}"] {{ '
        + " ".join(f"--md-{name}: {colours(scheme)[role]};" for name, role in ROLES.items())
        + " }\n"
        for scheme, theme in THEMES.items()
    )
    Path(config["site_dir"], "look.css").write_text(schemes + LAYOUT, "utf-8")
