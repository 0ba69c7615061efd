"""A page for each module that the index of the Python reference lists."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from mkdocs.structure.files import File

INDEX = Path(__file__).parents[1] / "reference/python/index.md"
ROW = re.compile(r"^\| \[`(viete[\w.]*)`\]\(\1\.md\) \|(.*?)\| (.*?) \|$", re.M)


class Module(NamedTuple):
    """A row of the index: a module, its public names, and what they are for."""

    name: str
    members: list[str]
    purpose: str


def modules() -> list[Module]:
    """The rows of the index."""
    return [
        Module(name, re.findall(r"`(\w+)`", members), purpose)
        for name, members, purpose in ROW.findall(INDEX.read_text("utf-8"))
    ]


def on_files(files: Any, config: Any) -> Any:
    """The pages of the modules."""
    for module in modules():
        uri = f"reference/python/{module.name}.md"
        files.append(File.generated(config, uri, content=page(module)))
    return files


def page(module: Module) -> str:
    """The page of a module: its docstring, and each public name."""
    members = f"\n      members: [{', '.join(module.members)}]" if module.members else ""
    return (
        f"---\ntitle: {module.name}\nsearch:\n  boost: 0.3\n---\n"
        f"# {module.name.replace('.', '.<wbr>')}\n\n[All modules](index.md)\n\n"
        f"::: {module.name}\n    options:\n"
        f"      show_root_heading: false\n      heading_level: 2{members}\n"
    )
