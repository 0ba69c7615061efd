"""The page before and the page after, for pages that stand in no menu: cards, modules.

They follow each other in the order in which their hooks have added them. The list of them all comes
before the first.
"""

from itertools import groupby, pairwise
from typing import Any


def on_nav(nav: Any, files: Any, **_: Any) -> Any:
    """Chains the pages of each folder that the navigation does not have."""
    listed = {page.file.src_uri for page in nav.pages}
    left = [file for file in files.documentation_pages() if file.src_uri not in listed]
    for folder, found in groupby(left, lambda file: file.src_uri.rpartition("/")[0]):
        lists = map(files.get_file_from_path, (f"{folder}/index.md", f"{folder}.md"))
        chain = [*filter(None, lists), *found]
        for before, after in pairwise(chain):
            after.page.previous_page = before.page
            if before.src_uri not in listed:
                before.page.next_page = after.page
    return nav
