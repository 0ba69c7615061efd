"""What the users of other libraries bring: type checkers, trainers, adapters on every layer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import viete as vt
from viete.errors import VieteError

HOUSE = Path(__file__).parents[2]
TYPED = """import viete as vt

def card_of(model: vt.Model) -> vt.Card:
    return model.card
"""


@pytest.mark.slow
def test_a_model_without_type_arguments_is_strictly_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "mine.py").write_text(TYPED)
    options = "--strict", "--follow-imports=silent", f"--config-file={HOUSE / 'pyproject.toml'}"
    made = subprocess.run(
        [sys.executable, "-m", "mypy", *options, f"--cache-dir={tmp_path}", "mine.py"],
        cwd=tmp_path, env={"MYPYPATH": str(HOUSE)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr


def test_a_module_without_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "viete.train.module", raising=False)
    card: Any = vt.read("letters-causal")
    for noun in card, card.with_weights(seed=0):
        with pytest.raises(VieteError, match=r"^for a PyTorch module you need torch: pip install"):
            noun.to_torch()
