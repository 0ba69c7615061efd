"""Embedding: a page or picture that a command writes, shown in place of the command's block.

A fenced block ``embed`` holds commands, one a line. They run once, when the site is built:

    ```embed
    viete lesson letters-attention -t "a b a"
    title: One row of attention
    ```

The last command's output file (``-o``; an HTML page where it names none) becomes a file of the
site, in ``embedded/``. An HTML page is shown in a frame, an SVG as a picture. Optional lines:
``title`` names the frame or describes the picture, ``height`` is the most height of a frame
(``38rem``), ``at`` the id of the element that a frame scrolls to. The commands run in an empty
folder whose ``docs`` is this one. A block with a title, ```` ```markdown title="card.md" ````, is a
file there, as for the test of what pages show.

With ``VIETE_EMBED=none`` in the environment no command runs, and the files are empty: the links and
formulas of the pages can be checked without them.
"""

import contextlib
import hashlib
import io
import os
import re
import shlex
import tempfile
from base64 import b64encode
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

from viete.cli.app import command as viete
from viete.cli.main import collect_seldom
from viete.errors import VieteError

collect_seldom()
DOCS = Path(__file__).parents[1]
CACHE = DOCS.parent / ".cache" / "embedded"
HERE = Path(__file__).parent
FRAMED = HERE / "static" / "framed.js"
FENCE = re.compile(r"^```embed\n(.*?)^```$", re.M | re.S)
TITLED = re.compile(r'^```(?!diff)\w+ title="([^"]+)"\n(.*?)^```$', re.M | re.S)
OPTION = re.compile(r"(title|height|at): +(.+)")
UNBROKEN = re.compile(r"(?<= )-[\w-]+")  # an option of a command: kept on one line
FRAME = (
    '<figure class="embedded"><iframe src="{url}" title="{title}" loading="lazy" '
    'style="height: {height}" data-height="{height}" data-at="{at}"></iframe>'
    '<figcaption><code>{command}</code> <a href="{url}">Open this page</a></figcaption></figure>'
)
PICTURE = (
    '<figure class="embedded"><div class="picture"><img src="{url}" alt="{title}" loading="lazy">'
    '</div><figcaption><code>{command}</code> <a href="{url}">Open this picture</a></figcaption>'
    "</figure>"
)  # fmt: skip


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any, **_: Any) -> str:
    """Each block ``embed`` as HTML; what it shows becomes a file of the site."""
    titled = tuple(TITLED.findall(markdown))

    def embedded(m: re.Match[str]) -> str:
        lines = [x.strip() for x in m[1].splitlines() if x.strip()]
        options = dict(o.groups() for x in lines if (o := OPTION.fullmatch(x)))
        commands = [x for x in lines if not OPTION.fullmatch(x)]
        try:
            commands[-1], name = with_output(commands[-1])
            content = made(tuple(commands), titled, name)
        except (VieteError, ValueError, OSError, IndexError) as error:
            raise PluginError(f"{page.file.src_uri}: {m[0]}\n{error}") from None
        uri = f"embedded/{slug(commands[-1], Path(name).suffix)}"
        if (file := files.get_file_from_path(uri)) is None:
            files.append(file := File.generated(config, uri, content=content))
        elif file.content_string != content:
            raise PluginError(f"{page.file.src_uri}: {m[0]}\n{uri} is made by another block too")
        return (FRAME if name.endswith(".html") else PICTURE).format(
            url=escape(get_relative_url(file.url, page.file.url)),
            command=UNBROKEN.sub(r'<span class="unbroken">\g<0></span>', escape(commands[-1])),
            title=escape(options.get("title") or title_of(content)), at=options.get("at", ""),
            height=options.get("height", "38rem"),
        )  # fmt: skip

    return FENCE.sub(embedded, markdown)


def with_output(command: str) -> tuple[str, str]:
    """A command that writes a file, and the file's name."""
    words = shlex.split(command)
    for option in ("-o", "--output"):
        if option in words:
            return command, words[words.index(option) + 1]
    forms = [y for x, y in pairwise(words) if x in ("-f", "--format")]
    name = f"{words[1]}.{(forms or ['html'])[0]}"
    return f"{command} -o {name}", name


def slug(command: str, suffix: str) -> str:
    """A file's name from the words of a command."""
    words = command.removeprefix("viete ").rsplit(" -o ", 1)[0]
    return re.sub(r"[^\w]+", "-", words).strip("-").lower() + suffix


def title_of(content: str) -> str:
    """What an HTML page or an SVG says that it is."""
    found = re.search(r"<title>([^<]*)</title>", content)
    return found[1] if found else "Picture"


def made(commands: tuple[str, ...], titled: tuple[tuple[str, str], ...], name: str) -> str:
    """The file that the commands write; from the cache if nothing that they read has changed."""
    if os.environ.get("VIETE_EMBED") == "none":
        return f"<title>{escape(commands[-1])}</title>"
    read = [file for file in titled if any(file[0] in command for command in commands)]
    key = hashlib.sha256(repr((commands, read, sources())).encode()).hexdigest()
    cached = CACHE / f"{key}{Path(name).suffix}"
    if not cached.exists():
        content = framed(run(commands, read, name))
        CACHE.mkdir(parents=True, exist_ok=True)
        cached.write_text(content, "utf-8")
    return cached.read_text("utf-8")


@cache
def sources() -> str:
    """What may change a command's output: the program, the models of docs/, this folder."""
    folders = (DOCS.parent / "viete", DOCS / "models", HERE)
    files = sorted(p for f in folders for p in f.rglob("*") if p.is_file() and p.suffix != ".pyc")
    return hashlib.sha256(
        b"".join(hashlib.sha256(p.read_bytes()).digest() for p in files)
    ).hexdigest()


def run(commands: tuple[str, ...], files: list[tuple[str, str]], name: str) -> str:
    """Run commands in a folder with these files, and read the file that they leave."""
    with (
        tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()),
    ):  # fmt: skip
        Path("docs").symlink_to(DOCS)
        for file, text in files:
            Path(file).write_text(text, "utf-8")
        for command in commands:
            viete()(shlex.split(command)[1:], standalone_mode=False)
        return Path(name).read_text("utf-8")


def framed(content: str) -> str:
    """A page with the script that lets it follow the site, and which its own policy allows."""
    if not content.startswith("<!doctype html>"):
        return content
    script = FRAMED.read_text("utf-8")
    allowed = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    content = content.replace("script-src ", f"script-src 'sha256-{allowed}' ", 1)
    return content.replace("</head>", f"<script>{script}</script>\n</head>", 1)
