"""A notebook from its first cell to its last: `python -m tests.notebooks.running NOTEBOOK…`.

It runs as Jupyter would run it, in its own folder, and writes what the cells show into the file.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
VARIES = "nbval-ignore-output"  # a cell's tag: its numbers differ from machine to machine
SHOWN = {"image/svg+xml": "_repr_svg_", "text/markdown": "_repr_markdown_"}
_TEMPORARY = re.compile(r"/\S*/tmp\w{8}\b")  # folders that have another name each time
_NUMBER = re.compile(r"[+−-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def read(path: Path) -> dict[str, Any]:
    """The notebook as its file has it."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def executed(path: Path, names: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs that it has now; its cells leave their names in ``names``."""
    found = read(path)
    count = 0
    with chdir(path.parent):
        for k, cell in enumerate(found["cells"]):
            if cell["cell_type"] == "code":
                count += 1
                where = f"{path.name}, cell {k}"
                cell["outputs"] = list(outputs("".join(cell["source"]), where, names, count))
                cell["execution_count"] = count
    return found


def outputs(source: str, where: str, names: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """What a cell prints, and what its last line is, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        exec(compile(tree, where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    if text := _TEMPORARY.sub("/tmp", printed.getvalue()):
        yield {"name": "stdout", "output_type": "stream", "text": text.splitlines(True)}
    if value is not None:
        data = {"text/plain": repr(value)}
        for kind, name in SHOWN.items():
            if hasattr(value, name):
                data[kind] = getattr(value, name)()
        yield {
            "data": {kind: text.splitlines(True) for kind, text in data.items()},
            "execution_count": count,
            "metadata": {},
            "output_type": "execute_result",
        }


def varies(cell: Mapping[str, Any]) -> bool:
    """Whether a cell's numbers differ from machine to machine, as behind training."""
    return VARIES in cell["metadata"].get("tags", ())


def text_of(cell: Mapping[str, Any]) -> str:
    """What a cell shows, as text."""
    made = (x.get("text") or x["data"]["text/plain"] for x in cell["outputs"])
    return "".join("".join(lines) for lines in made)


def words_and_numbers(text: str) -> tuple[list[str], list[float]]:
    """A text without its numbers and spaces, and the numbers."""
    numbers = [float(x.replace(",", "").replace("−", "-")) for x in _NUMBER.findall(text)]
    return _NUMBER.sub("", text).split(), numbers


def write(path: Path) -> None:
    """Run a notebook and write it with its outputs."""
    text = json.dumps(executed(path, {}), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for each in sys.argv[1:]:
        write(Path(each).resolve())
