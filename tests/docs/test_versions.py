"""The table of docs/guides/versions.md is what pyproject.toml and constraints.txt say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PURPOSES = {
    "numpy": "arrays, training", "scipy": "erf, in GELU",
    "python-flint": "exact numbers, intervals",
    "einops": "layouts of checkpoints", "torch": "`viete[torch]`: speed, GPUs, PyTorch files",
    "jax": "`viete[jax]`", "onnx": "`viete[onnx]`: ONNX files", "gguf": "`viete[gguf]`: GGUF files",
    "tokenizers": "`viete[train]`, `viete[hub]`: byte-pair vocabularies",
    "huggingface_hub": "`viete[hub]`: models by their ids",
    "starlette": "`viete[explore]`: served pages", "anywidget": "`viete[notebook]`: widgets",
    "transformers": "`vt.from_transformers`, `model.to_transformers()`; the tests compare with it",
}  # fmt: skip


def table() -> str:
    """A row for each library: what it is for, the oldest version admitted, the one tested with."""
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    required = [*project["dependencies"], *(x for extra in extras for x in extra)]
    oldest = dict(x.split(">=") for x in required if ">=" in x)
    pinned = dict(re.findall(r"^(\S+)==(\S+)$", Path("constraints.txt").read_text("utf-8"), re.M))
    rows = ["| library | used for | oldest | tested with |", "| --- | --- | --- | --- |"]
    rows += [f"| {x} | {why} | {oldest[x]} | {pinned[x]} |" for x, why in PURPOSES.items()]
    return "\n".join(rows)


def test_the_versions_are_those_of_the_project() -> None:
    page = Path("docs/guides/versions.md").read_text("utf-8")
    assert table() in page
    assert "Python 3.11, 3.12 and 3.13" in page
    workflow = Path(".github/workflows/ci.yml").read_text("utf-8")
    assert 'python: ["3.11", "3.12", "3.13"]' in workflow
