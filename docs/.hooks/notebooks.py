"""The notebooks as pages of the site, with their outputs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_NESTED = re.compile(r"(?m)^ {2,3}(?=[-*] )")  # a list in a list, for which the site wants four
_HEADING = re.compile(r"(?m)^#+ (.+)$")  # of an output: no heading of the page


def on_files(files: Any, config: Any) -> Any:
    """Beside each notebook a page of it, and its pictures."""
    for notebook in [f for f in files if f.src_uri.endswith(".ipynb")]:
        place = notebook.src_uri.removesuffix(".ipynb")
        cells = json.loads(Path(notebook.abs_src_path).read_text("utf-8"))["cells"]
        pictures: dict[str, str] = {}
        text = "\n\n".join(part for cell in cells for part in parts(cell, place, pictures))
        text += f'\n\n<a href="{Path(place).name}.ipynb" download>Download this notebook</a>\n'
        files.append(File.generated(config, f"{place}.md", content=text))
        for uri, picture in pictures.items():
            files.append(File.generated(config, uri, content=picture))
    return files


def parts(cell: Any, place: str, pictures: dict[str, str]) -> Iterator[str]:
    """A cell as Markdown: its text, or its code and what that shows."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield fenced(source, "python")
    for output in cell["outputs"]:
        data = {kind: "".join(lines) for kind, lines in output.get("data", {}).items()}
        if "image/svg+xml" in data:
            uri = f"{place}-{len(pictures) + 1}.svg"
            pictures[uri] = data["image/svg+xml"]
            yield f"![{data['text/plain'].strip('<>')}]({Path(uri).name})"
        elif "text/markdown" in data:
            yield _HEADING.sub(r"**\1**", _NESTED.sub("    ", data["text/markdown"]))
        else:
            yield fenced("".join(output.get("text", "")) or data["text/plain"], "text")


def fenced(text: str, language: str) -> str:
    """Text in a fence that it does not hold."""
    fence = "`" * max(3, *(len(x) + 1 for x in re.findall("`+", text)), 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to notebooks as links to their pages."""
    return re.sub(r"(\]\([\w./-]+)\.ipynb\)", r"\1.md)", markdown)
