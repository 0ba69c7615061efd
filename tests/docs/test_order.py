"""Pages that stand in no menu have a page before and a page after, as the others have."""

from __future__ import annotations

from types import SimpleNamespace

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import get_navigation

from tests.docs.hooks import hook


def test_pages_of_a_folder_follow_each_other() -> None:
    config = MkDocsConfig()
    config.load_dict({"site_name": "Site", "nav": ["index.md", "cards.md", "python/index.md"]})
    config.validate()
    uris = ["index.md", "cards.md", "python/index.md", "cards/b.md", "cards/a.md", "python/m.md"]
    files = Files([File(uri, "docs", "site", False) for uri in uris])
    nav = hook("order").on_nav(get_navigation(files, config), files=files)
    pages = {uri: SimpleNamespace(**vars(files.src_uris[uri].page)) for uri in uris}
    around = {
        uri: tuple(x and x.file.src_uri for x in (page.previous_page, page.next_page))
        for uri, page in pages.items()
    }
    assert around == {
        "index.md": (None, "cards.md"),
        "cards.md": ("index.md", "python/index.md"),
        "python/index.md": ("cards.md", None),
        "cards/b.md": ("cards.md", "cards/a.md"),
        "cards/a.md": ("cards/b.md", None),
        "python/m.md": ("python/index.md", None),
    }
    assert len(nav.pages) == 3
