"""A loop over the positions of a text: a recurrent network as a card, beside PyTorch's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from tests.evaluate.evaluated import EvaluatedGradients
from viete.errors import VieteError
from viete.evaluate.plan.engine import Engine
from viete.train.fitting import with_loss_weights
from viete.train.inputs import training_inputs

CARD = """# RNN

## Dimensions

| symbol | value | meaning |
| --- | --- | --- |
| $V$ | 30 | vocabulary |
| $d$ | 6 | width |
| $n$ | ≤ 96 | length |

## Inputs

- $t ∈ {0, …, V-1}^n$: tokens
- $y ∈ {0, …, V-1}^n$: the tokens one further

## Parameters

| symbol | shape | meaning |
| --- | --- | --- |
| $E$ | V × d | embedding |
| $W_x$ | d × d | from the token |
| $W_h$ | d × d | from the state before |
| $b$ | d | bias |
| $s$ | d | the first state |
| $U$ | d × V | unembedding |

## Forward pass

1. $x = E[t]$
2. $h^0 = s$

For $j = 1, …, n$:

3. $h^j = tanh(x_{j-1} W_x + h^{j-1} W_h + b)$

Then:

4. $R = table_{k<n, c<d}(sum_{j=1}^{n}(where(k = j - 1, h^j_c, 0)))$
5. $logits = R U$
6. $L = cross_entropy(logits; y)$
"""


def made(n: int, batch: int = 2) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    model = vt.read(CARD)
    rng = np.random.default_rng(n)
    text = rng.integers(0, 30, (batch, n + 1))
    return model, model.initial_weights(0), {"t": text[:, :-1], "y": text[:, 1:]}


@pytest.mark.parametrize("n", [1, 2, 5])
def test_it_is_pytorch_s_network(n: int) -> None:
    torch = pytest.importorskip("torch")
    model, weights, given = made(n)
    net = torch.nn.RNN(6, 6, batch_first=True, dtype=torch.float64)
    w = {k: torch.tensor(v, requires_grad=True) for k, v in weights.items()}
    own = {"weight_ih_l0": w["W_x"].T, "weight_hh_l0": w["W_h"].T, "bias_ih_l0": w["b"],
           "bias_hh_l0": torch.zeros(6, dtype=torch.float64)}  # fmt: skip
    states, _ = torch.func.functional_call(
        net, own, (w["E"][torch.tensor(given["t"])], w["s"].expand(1, 2, 6))
    )
    logits = states @ w["U"]
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), torch.tensor(given["y"]).flatten()
    )
    loss.backward()
    run = model.run(None, weights, **given)
    np.testing.assert_allclose(run["logits"], logits.detach(), atol=1e-14)
    assert run[f"h^{n}"].shape == (2, 6)
    with pytest.raises(VieteError, match=rf"there is no h\^j at block {n + 1}|h\^{n + 1}"):
        run[f"h^{n + 1}"]
    for found in (
        EvaluatedGradients(model)(None, weights, **given),
        planned(model, weights, given),
    ):
        np.testing.assert_allclose(found[0], loss.item(), atol=1e-14)
        for name, gradient in found[1].items():
            np.testing.assert_allclose(gradient, w[name].grad, atol=1e-13, err_msg=name)


def planned(model: Any, weights: Any, given: Any) -> tuple[float, dict[str, Any]]:
    """The loss and gradients of an engine that has seen a text of another length before."""
    engine = Engine(model, weights)
    engine(None, **{k: v[:, :1] for k, v in given.items()})
    return engine(None, **given), engine.gradients


def test_exact_and_exported() -> None:
    model, weights, given = made(2, batch=1)
    one = {k: v[0] for k, v in given.items()}
    names: dict[str, Any] = {"__name__": "exported"}
    exec(model.export("numpy"), names)
    wanted = model.run(None, weights, **one)["logits"]
    logits, *_ = names["forward"](**weights, **one)
    np.testing.assert_allclose(logits, wanted, atol=1e-14)
    exact = model.run(None, weights, meaning="exact", names=["h^1", "h^2"], **one)
    found = [[float(x.decimal(20)) for x in exact[f"h^{j}"]] for j in (1, 2)]
    np.testing.assert_allclose(found, model.run(None, weights, **one)["R"], atol=1e-15)


@pytest.mark.parametrize("state", ["x_{j-1}", "x_{n-j}"])
def test_what_a_block_s_number_picks_is_not_called_causal(state: str) -> None:
    """From the end backwards every state has seen the last token; dialogs are then not padded."""
    model = with_loss_weights(vt.read(CARD.replace("x_{j-1}", state)))
    assert training_inputs(model).weights and not training_inputs(model).padded
    plain = with_loss_weights(vt.read("dialog-transformer"))
    assert training_inputs(plain).padded


def test_it_trains_on_dialogs_and_is_sampled(tmp_path: Path) -> None:
    """Each dialog at its own length; and sampled at every length."""
    (tmp_path / "rnn.md").write_text(CARD)
    dialog = "User: <user>{}</user>\nAssistant: <assistant>b</assistant>\nEnd: <eot>\n\n"
    data = tmp_path / "data.txt"
    data.write_text(dialog.format("a") + dialog.format("aa"))
    said = viete("train", tmp_path / "rnn.md", "--data", data, "-o", tmp_path / "run",
                 "--steps", 3, "--log-every", 1)  # fmt: skip
    assert "2 batches per epoch" in said.out and "3 steps done" in said.out
    answer = viete("sample", tmp_path / "run", "--greedy", "--text", "<user>", "--count", 1,
                   "--most", 3)  # fmt: skip
    assert "RNN has no incremental form" in answer.err and len(answer.out.strip()) >= 3


def test_a_loaded_one_is_hooked_changed_and_folded() -> None:
    """Its states are not blocks of a stream, and how many there are is known with a text only."""
    model, weights, given = made(3)
    loaded = vt.load(weights, card=model)
    wanted = model.run(None, weights, **given)
    np.testing.assert_array_equal(loaded.run(given["t"])["R"], wanted["R"])
    folded = loaded.folded().run(given["t"], y=given["y"])
    np.testing.assert_allclose(folded["L"], wanted["L"], atol=1e-14)
    assert not loaded.lens.hook_dict
    loaded.lens.add_hook("h^2", lambda value, hook: 0 * value)
    changed = model.run(None, weights, put={"h^2": np.zeros((2, 6))}, **given)
    np.testing.assert_array_equal(loaded.run(given["t"])["logits"], changed["logits"])
    assert (changed["R"][:, 1] == 0).all() and (changed["R"][:, 2] != wanted["R"][:, 2]).any()
