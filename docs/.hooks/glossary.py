"""Words of the glossary in the pages: the first time that a page uses one, it has its meaning.

docs/reference/glossary.md is the one source: a definition list. Each word there becomes a heading,
so that the search finds it; in the other pages its first occurrence becomes a link to it, whose
title is the meaning. The front matter of the glossary lists under ``everyday`` the words that have
another sense as well, such as a key of a dictionary, each with the folders whose pages mean ours.
"""

import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.utils import get_relative_url, meta

from viete.document.tex import without_tex

PAGE = "reference/glossary.md"
_ENTRY = re.compile(r"^(?P<word>\w[^\n]*)\n:   (?P<meaning>[^\n]*)", re.M)
_TAG = re.compile(r"(<[^>]+>)")
_NAME = re.compile(r"</?(\w+)")
# What holds no running text, or text that is a link or a name already.
_HEADINGS = frozenset("h1 h2 h3 h4 h5 h6 strong summary th".split())
_LEFT_OUT = _HEADINGS | frozenset("a abbr button code figure math pre script style svg".split())


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A heading with an anchor for each word of the glossary itself."""
    if page.file.src_uri != PAGE:
        return markdown
    return _ENTRY.sub(
        lambda m: f"## {m['word']} {{ #{anchor(m['word'])} }}\n\n{m['meaning']}\n", markdown
    )


def on_page_content(html: str, page: Any, config: Any, files: Any, **_: Any) -> str:
    """A page whose words of the glossary are links to it."""
    words = words_of(Path(config["docs_dir"], PAGE), str(Path(page.file.src_uri).parent))
    if page.file.src_uri in (PAGE, "index.md") or 'class="doc doc-' in html:
        return html
    url = get_relative_url(files.get_file_from_path(PAGE).url, page.file.url)
    linked = set[str]()

    def link(m: re.Match[str]) -> str:
        word, meaning = words[(m.lastindex or 0) - 1]
        if word in linked:
            return m[0]
        linked.add(word)
        return f'<a class="term" href="{url}#{anchor(word)}" title="{escape(meaning)}">{m[0]}</a>'

    any_word = re.compile("|".join(f"({form(word)})" for word, _ in words))
    parts, inside = _TAG.split(html), 0
    for k, part in enumerate(parts):
        if part.startswith("<"):
            name = _NAME.match(part)
            if name and name[1] in _LEFT_OUT:
                inside += -1 if part.startswith("</") else 1
        elif not inside:
            parts[k] = any_word.sub(link, part)
    return "".join(parts)


@cache
def words_of(glossary: Path, folder: str) -> tuple[tuple[str, str], ...]:
    """The words that pages of a folder link, with their meanings; the longest words first."""
    text, front = meta.get_data(glossary.read_text("utf-8"))
    found = {m["word"]: plain(m["meaning"]) for m in _ENTRY.finditer(text)}
    everyday = front["everyday"]
    chosen = [(w, x) for w, x in found.items() if folder in everyday.get(w.lower(), [folder])]
    return tuple(sorted(chosen, key=lambda entry: -len(entry[0])))


def plain(meaning: str) -> str:
    """A definition without its markup."""
    meaning = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", meaning)
    return without_tex(" ".join(re.sub("[`*]", "", meaning).split()))


def anchor(word: str) -> str:
    """The id of a word's entry."""
    return re.sub(r"\W+", "-", word.lower()).strip("-")


def form(word: str) -> str:
    """A word as a pattern; an abbreviation keeps its capitals."""
    stem = re.escape(word)
    stem = stem if word[1:2].isupper() else f"[{word[0]}{word[0].lower()}]{stem[1:]}"
    return rf"(?<![\w-]){stem}s?(?![\w-])"
