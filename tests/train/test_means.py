"""The loss of a batch: every target counts alike, and a text without a target for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.errors import VieteError

torch = pytest.importorskip("torch")

CARD = r"""
# Targets, of which some are none, and weights
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 4 |
| $d$ | 3 |
| $n$ | $≤ 6$ |
## Inputs
- $t ∈ \{0, …, V-1\}^n$
- $y ∈ \{-100, …, V-1\}^n$
- $w ∈ ℝ^n = 1$
## Parameters
| symbol | shape | init |
| --- | --- | --- |
| $E$ | $V × d$ | normal(1) |
| $U$ | $d × V$ | normal(1) |
## Forward pass
1. $logits = E[t] U$
2. $L = LOSS$
"""
TOKENS = np.array([[0, 1, 2, 3], [3, 2, 1, 0], [1, 1, 2, 2]])
TARGETS = np.array([[1, -100, -100, -100], [-100] * 4, [1, 2, 3, -100]])
WEIGHTS = np.array([[0.5, 1, 1, 1], [1, 0, 1, 0], [1, 0, 2, 1]])
LOSSES = ["cross_entropy(logits; y)", "weighted_loss(logits; y, w)",
          "2 cross_entropy(logits; y) + 1"]  # fmt: skip


def by_hand(loss: str, weights: Any) -> tuple[float, dict[str, np.ndarray]]:
    """PyTorch's mean over all targets, and its gradients."""
    E, U = (torch.tensor(weights[k], requires_grad=True) for k in "EU")
    y = torch.as_tensor(TARGETS)
    each = torch.nn.functional.cross_entropy(
        (E[torch.as_tensor(TOKENS)] @ U).flatten(0, 1), y.flatten(), reduction="none"
    ).reshape(y.shape)
    w = (torch.as_tensor(WEIGHTS) if "weighted" in loss else 1) * (y != -100)
    found = (w * each).sum() / w.sum()
    found = 2 * found + 1 if "2" in loss else found
    found.backward()
    return float(found.detach()), {"E": E.grad.numpy(), "U": U.grad.numpy()}


@pytest.mark.parametrize("loss", LOSSES)
def test_every_engine_takes_the_mean_over_all_targets(loss: str) -> None:
    card = vt.read(CARD.replace("LOSS", loss))
    weights = card.initial_weights(seed=1)
    given = {"y": TARGETS, **({"w": WEIGHTS} if "weighted" in loss else {})}
    wanted, gradients = by_hand(loss, weights)
    for own in (weights, {k: torch.tensor(w) for k, w in weights.items()}):
        step = card.planned(own)
        assert step(TOKENS, **given) == pytest.approx(wanted)
        for name, g in gradients.items():
            np.testing.assert_allclose(np.asarray(step.gradients[name]), g, atol=1e-12)
    module = card.to_torch(weights)
    found = module(*map(torch.as_tensor, (TOKENS, *given.values())))[1]
    found.backward()
    assert float(found.detach()) == pytest.approx(wanted)
    for name, p in module.gradients().items():
        np.testing.assert_allclose(p, gradients[name], atol=1e-12)


def test_the_mean_over_texts_is_one_word() -> None:
    card = vt.read(CARD.replace("LOSS", LOSSES[0]))
    weights, two = card.initial_weights(seed=1), [0, 2]
    each = [float(card.run(TOKENS[k], weights, y=TARGETS[k])["L"]) for k in two]
    step = card.planned(weights, mean="texts")
    assert step(TOKENS[two], y=TARGETS[two]) == pytest.approx(np.mean(each))
    module = card.to_torch(weights, mean="texts")
    found = module(torch.as_tensor(TOKENS[two]), torch.as_tensor(TARGETS[two]))[1]
    assert float(found.detach()) == pytest.approx(np.mean(each))


def test_a_card_weights_its_texts_itself() -> None:
    """Its own equation stands: an input that is a number for each text."""
    text = CARD.replace("LOSS", "c cross_entropy(logits; y)").replace("- $w", "- $c ∈ ℝ = 1$\n- $w")
    card, two, c = vt.read(text), [0, 2], np.array([3.0, 5.0])
    weights = card.initial_weights(seed=1)
    each = card.run(TOKENS[two], weights, y=TARGETS[two], c=c)["L"]
    assert card.planned(weights)(TOKENS[two], y=TARGETS[two], c=c) == pytest.approx(each.mean())
    given = (torch.as_tensor(x) for x in (TOKENS[two], TARGETS[two], c))
    assert float(card.to_torch(weights)(*given)[1].detach()) == pytest.approx(each.mean())


def test_no_loss_of_one_text_without_a_target() -> None:
    card = vt.read(CARD.replace("LOSS", LOSSES[0]))
    weights = card.initial_weights(seed=1)
    assert np.isnan(card.run(TOKENS[1], weights, y=TARGETS[1])["L"])
    found = card.to_torch(weights)(torch.as_tensor(TOKENS[1]), torch.as_tensor(TARGETS[1]))[1]
    assert torch.isnan(found)


@pytest.mark.parametrize("size", [3, 128], ids=["few", "as many as -100 from the end"])
@pytest.mark.parametrize("command", ["lesson", "explore"])
def test_a_target_that_is_none_is_no_token(command: str, size: int, tmp_path: Path) -> None:
    words = " ".join(f"`w{k}`" for k in range(size))
    text = CARD.replace("LOSS", LOSSES[0]).replace("| $V$ | 4 |", f"| $V$ | {size} |")
    card, out = tmp_path / "card.md", tmp_path / "out.html"
    card.write_text(text.replace("## Dimensions", f"## Vocabulary\n\n{words}\n\n## Dimensions"))
    found = viete(command, str(card), "-t", "0,1,2", "--input", "y=-100,1,2", "--seed", "0",
                  "-o", str(out))  # fmt: skip
    assert found.code == 0, found.err
    assert "w28" not in out.read_text().partition("y = (")[0][-400:]
    if command == "lesson":
        assert "no target" in out.read_text()


def test_a_trained_card_keeps_l_for_its_layers() -> None:
    from viete.train.fitting import with_loss

    card = vt.Card.of(with_loss(vt.read("gpt2")))
    assert card.equations[-1].name == "loss"


@pytest.mark.parametrize("to", ["numpy", "torch", "jax", "js"])
def test_an_exported_init_is_finite(to: str) -> None:
    text = CARD.replace("LOSS", LOSSES[0]).replace("normal(1)", "normal(1e400)")
    with pytest.raises(VieteError, match="not one finite number"):
        vt.read(text).export(to)
