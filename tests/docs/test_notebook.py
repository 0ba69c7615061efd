"""The notebooks of the documentation run from the first cell to the last; they check themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    names: dict[str, Any] = {}
    for k, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}, cell {k}", "exec"), names)
    claims = names["claims"]
    assert len(claims.verdicts) == 3 and claims.ok
    assert "FALSE" in capsys.readouterr().out  # of the model without its first head
