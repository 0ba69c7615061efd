"""What a row of a table says that one writes here, runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

PAGE = Path(__file__).parents[2] / "docs/guides/nnsight-pyvene.md"


def test_every_row_runs() -> None:
    text = PAGE.read_text("utf-8")
    space: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], space)
    text = re.sub(r"^## What can go wrong\n.*?(?=^## )", "", text, flags=re.DOTALL | re.MULTILINE)
    rows = [line.strip("| ").split(" | ")[-1] for line in text.splitlines() if line[:3] == "| `"]
    assert len(rows) >= 19
    before = space["model"].run(space["ids"])["logits"]
    for row in rows:
        code = re.fullmatch(r"`(.*)`", row)
        assert code is not None, row
        space.pop("y", None)
        exec(code[1], space)
        if "put=" in row:  # and changes something
            assert abs(space["y"] - before).max() > 1e-6, row
