"""What the users of other libraries bring: type checkers, trainers, adapters on every layer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import viete as vt
from tests.code.exported import bound
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


def adapted(module: Any) -> list[Any]:
    """Freeze a module, and put LoRA of rank 2 around its layers as PEFT does: the new parameters.

    They are A and B of ``x W^⊤ + x A^⊤ B^⊤``, and B = 0 at first.
    """
    torch = pytest.importorskip("torch")

    class Lora(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, base: Any) -> None:
            super().__init__()
            self.base, like = base, {"dtype": base.weight.dtype}
            self.A = torch.nn.Parameter(torch.randn(2, base.in_features, **like))
            self.B = torch.nn.Parameter(torch.zeros(base.out_features, 2, **like))

        def forward(self, x: Any) -> Any:
            return self.base(x) + x @ self.A.T @ self.B.T

    module.requires_grad_(False)
    own = []
    for name, layer in list(module.named_modules()):
        if isinstance(layer, torch.nn.Linear):
            owner, _, last = name.rpartition(".")
            setattr(module.get_submodule(owner), last, new := Lora(layer))
            own += [new.A, new.B]
    return own


@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral"])
def test_lora_on_every_layer(name: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = bound(name).to_torch(bound(name).initial_weights(seed=0))
    base = module.weights()
    before = {k: w.clone() for k, w in base.items()}
    t = torch.randint(0, 11, (4, 6))
    logits = module(t)
    own = adapted(module)
    assert torch.equal(module(t), logits)
    losses = []
    for _ in range(5):
        loss = module(t[:, :-1], t[:, 1:])[1]
        grads = torch.autograd.grad(loss, own)  # which raises for a layer that is not called
        with torch.no_grad():
            for x, g in zip(own, grads, strict=True):
                x -= 0.1 * g
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0], losses
    for k, w in before.items():
        assert torch.equal(base[k], w), k
