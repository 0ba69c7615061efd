"""Gradients over a batch, a few sequences at a time: the mean of what each sequence has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.evaluate.evaluated import EvaluatedGradients
from tests.laws.strategies import random_inputs, shipped, tiny
from viete.rewrite.adjoint import grad
from viete.train.inputs import loss_equations

torch = pytest.importorskip("torch")


@pytest.mark.slow
@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_a_batch_is_the_mean_of_its_sequences(path: str) -> None:
    model = tiny(path)
    names = {e.name for e in model.equations}
    text = model.inputs[Path(path).stem in ("transformer-2017", "t5")].name
    of = None if "L" in names else f"cross_entropy(logits; {text})"
    of = of if "logits" in names else "<pooled, pooled> + <x^1_0, x^1_1>"
    rng = np.random.default_rng(1)
    weights = {
        k: v + 0.3 * rng.standard_normal(v.shape) for k, v in model.initial_weights(3).items()
    }
    batch = random_inputs(model, 2, batch=3)
    runs = [
        grad(model, of).run(None, weights, **{k: v[j] for k, v in batch.items()}) for j in range(3)
    ]
    for make in np.asarray, torch.from_numpy:
        with torch.no_grad():
            loss, found = EvaluatedGradients(model, of, piece=1)(
                None, {k: make(v) for k, v in weights.items()}, **batch
            )
        scale = max(np.abs(np.asarray(g)).max() for g in found.values())
        assert found and np.isfinite(float(loss))
        for key, g in found.items():
            wanted = np.mean([run["∂" + key] for run in runs], axis=0)
            assert g.shape == weights[key].shape
            np.testing.assert_allclose(np.asarray(g), wanted, rtol=1e-9, atol=1e-11 * scale)


DECAYED = """
# Decayed

## Dimensions

| symbol | value |
| --- | --- |
| $n$ | 4 |
| $d$ | 3 |
| $V$ | 5 |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$
- $y ∈ \\{0, …, V-1\\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $W$ | $V × d$ |
| $β$ | $d$ |
| $U$ | $d × V$ |

## Forward pass

1. $c = β ⊙ β$
2. $L = cross_entropy(W[t] U, y) + sum(c ⊙ c) + <W_1, W_2>$
"""


@pytest.mark.parametrize("piece", [4, 100])
def test_a_term_that_no_text_changes_counts_for_every_sequence(piece: int) -> None:
    model = vt.read(DECAYED)
    weights = model.initial_weights(1)
    rng = np.random.default_rng(0)
    t, y = rng.integers(0, 5, (2, 3, 4))
    wanted = 4 * weights["beta"] ** 3
    assert np.abs(wanted).max() > 0.1
    loss, found = EvaluatedGradients(model, piece=piece)(t, weights, y=y)
    engine = model.planned(weights)
    assert engine(t, y=y) == pytest.approx(float(loss))
    np.testing.assert_allclose(found["beta"], wanted)
    np.testing.assert_allclose(engine.gradients["beta"], wanted)
    run = model.grad().run(t, weights, y=y)
    assert run["∂β"].shape == run["partial{beta}"].shape == (3, 3)  # as every other ∂
    np.testing.assert_allclose(run["2 * ∂β"], 2 * np.broadcast_to(wanted, (3, 3)))
    for name, g in found.items():
        np.testing.assert_allclose(g, run[f"∂{name}"].mean(0), err_msg=name)
        np.testing.assert_allclose(engine.gradients[name], g, err_msg=name)
    assert run["c"].shape == (3,)
    assert model.grad().run(t[0], weights, y=y[0])["∂β"].shape == (3,)


FAMILY = r"""# A family of two letters
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $r$ | 1, …, R |
| $s$ | 1, …, S |
| $R$ | 2 |
| $S$ | 3 |
## Inputs
- $t ∈ \{0, …, V - 1\}^2$
## Parameters
| symbol | shape |
| --- | --- |
| $W^{r,s}$ | $2 × 1$ |
| $b^{r,s}$ | $2$ |
## Forward pass
1. $x^s = t / s$
2. $y^{r,s} = x^s W^{r,s} {W^{r,s}}^⊤ + b^{r,s}$
3. $L = \sum_r \sum_s sum(y^{r,s} ⊙ y^{r,s})$
"""


@pytest.mark.parametrize("sizes", [(2, 3), (3, 3)])
def test_gradients_have_the_letters_of_their_weights_in_order(sizes: tuple[int, int]) -> None:
    """Whichever letter the product behind a gradient begins with, also where both are as long."""
    model = vt.read(FAMILY).bind(R=sizes[0], S=sizes[1])
    weights = model.initial_weights(1)
    t = np.array([[3, 1], [0, 4]])
    run, engine = model.grad().run(t, weights), model.planned(weights)
    engine(t)
    for name, g in engine.gradients.items():
        np.testing.assert_allclose(g, run[f"∂{name}"].mean(0), err_msg=name)


ACCURATE = r"""# Accurate
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 4 |
| $n$ | ≤ 6 |
## Inputs
- $t ∈ \{0, …, V - 1\}^n$
- $y ∈ \{0, …, V - 1\}^n$
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × V$ |
## Forward pass
1. $logits = E[t]$
2. $L = cross_entropy(logits; y)$
3. $right = mean(argmax(logits) = y)$: has no derivative
"""


def test_an_accuracy_behind_the_loss_is_no_loss() -> None:
    """Of gradients, plans, modules, programs and training alike."""
    model = vt.read(ACCURATE)
    weights = model.initial_weights(0)
    given = {"t": np.array([[1, 2]]), "y": np.array([[2, 0]])}
    wanted = model.run(None, weights, **given)["L"].mean()
    assert model.grad().equations == model.grad("L").equations
    for loss in (
        EvaluatedGradients(model)(None, weights, **given)[0],
        model.planned(weights)(None, **given),
        model.to_torch(weights)(*map(torch.tensor, given.values()))[1].item(),
    ):
        np.testing.assert_allclose(loss, wanted)
    assert "partial" in model.export("latex")
    assert [e.name for e in loss_equations(model)] == ["L", "logits"]


SHARED = r"""# Shared
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $d$ | 3 |
| $N$ | 3 |
| $H$ | 2 |
| $n$ | ≤ 6 |
| $h$ | 1, …, H |
## Inputs
- $t ∈ \{0, …, V - 1\}^n$
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W^i$ | $d × d$ |
| $U^{i,h}$ | $d × d$ |
## Forward pass
1. $x^0 = E[t] FIRST$

For $i = 1, …, N$:

2. $x^i = x^{i-1} + tanh(x^{i-1} U^{i,1}) + LOOP$

3. $L = ⟨x^N_0 LAST, x^N_1⟩$
"""


@pytest.mark.parametrize(("first", "loop", "last"), [
    ("", "tanh(x^{i-1} W^i) + sin(x^0 W^1)", ""), ("", "tanh(x^{i-1} W^2)", ""),
    ("W^1", "tanh(x^{i-1} W^{N-1} W^i) W^1", "W^2"), ("", "tanh(x^{i-1} W^N) W^{⌈i/2⌉}", ""),
    ("W^3", r"\sum_h (tanh(x^{i-1} U^{1,h} + x^0 U^{i,h}) W^1)", "W^3"),
    ("U^{2,1}", r"\sum_h (tanh(x^{i-1} W^N) U^{2,h})", ""),
])  # fmt: skip
def test_a_weight_of_one_block_that_all_blocks_read(first: str, loop: str, last: str) -> None:
    """Only its own block gets a derivative, and it gets what all of them hand back."""
    model = vt.read(
        SHARED.replace("FIRST", first).replace("LOOP", loop).replace("LAST", last)
    )  # fmt: skip
    weights = {k: torch.tensor(v, requires_grad=True)
               for k, v in model.initial_weights(3).items()}  # fmt: skip
    tokens = np.array([1, 4, 2])
    model.run(tokens, weights)["L"].backward()
    plain = {k: v.detach().numpy() for k, v in weights.items()}
    found = grad(model).run(tokens, plain)
    step = model.planned(plain)
    step(tokens[None])
    for name, w in weights.items():
        wanted = np.zeros(w.shape) if w.grad is None else w.grad
        np.testing.assert_allclose(found["∂" + name], wanted, atol=1e-13, err_msg=name)
        np.testing.assert_allclose(step.gradients[name], wanted, atol=1e-13, err_msg=name)
