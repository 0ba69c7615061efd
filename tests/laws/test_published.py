"""The derived backward pass of a pre-norm block beside published derivations, line by line.

Each formula is written here as its source has it, over the values of the forward pass and the
derivatives that come before it; docs/reference/backward.md shows the two in a table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny

DIALOGS = Path(__file__).parents[3] / "shared/references/dialog-transformer.md"


@pytest.fixture(scope="module")
def system() -> tuple[Any, dict, np.ndarray]:
    """The run of the card's backward equations, its weights and its tokens."""
    model = tiny(next(p for p in shipped() if Path(p).stem == "pre-norm-pythia"))
    drawn = random_weights(model, 7, scale=0.3)
    weights = {k: v + 0.7 if v.ndim == 1 else v for k, v in drawn.items()}
    inputs = random_inputs(model, 8)
    run = model.grad("cross_entropy(logits; t)").run(None, weights, **inputs)
    return run, weights, np.asarray(inputs["t"])


def close(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-13)


def test_cross_entropy_as_bishop(system: tuple) -> None:
    """Pattern Recognition and Machine Learning, eq. 4.109: dE/da = y − t, for each position."""
    run, _, tokens = system
    y = run["softmax(logits)"].copy()
    y[np.arange(len(tokens)), tokens] -= 1
    close(run["∂logits"], y / len(tokens))


def test_attention_as_flash_attention(system: tuple) -> None:
    """Dao et al. 2022, appendix B.2; the softmax's Jacobian, Bishop's eq. 4.106, written out."""
    run, weights, _ = system
    for h in range(run["A^{1,h}"].shape[0]):
        p, v = run["A^{1,h}"][h], run["V^{1,h}"][h]
        q, k = run["Q^{1,h}"][h], run["K^{1,h}"][h]
        do = run["∂\\tilde{A}^1"] @ weights["W_O^{1,h}"][h].T
        dp = do @ v.T
        ds = np.array([(np.diag(p[i]) - np.outer(p[i], p[i])) @ dp[i] for i in range(len(p))])
        total = np.array([p[i] @ dp[i] for i in range(len(p))])
        close(ds, p * (dp - total[:, None]))
        scale = 1 / np.sqrt(q.shape[-1])
        close(run["∂A^{1,h}"][h], dp)
        close(run["∂V^{1,h}"][h], p.T @ do)
        close(run["∂Q^{1,h}"][h], scale * ds @ k)
        close(run["∂K^{1,h}"][h], scale * ds.T @ q)


def test_weights_as_goodfellow_bengio_and_courville(system: tuple) -> None:
    """Deep Learning, sec. 6.5.6: of C = A B, ∂A = G Bᵀ and ∂B = Aᵀ G."""
    run, weights, _ = system
    u = 0
    for name in "QKV":
        g = run[f"∂{name}^{{1,h}}"]
        close(run[f"∂W_{name}^{{1,h}}"], run["u^1"].T @ g)
        u = u + sum(a @ b.T for a, b in zip(g, weights[f"W_{name}^{{1,h}}"], strict=True))
    close(run["∂u^1"], u)


def test_layer_norm_as_ioffe_and_szegedy(system: tuple) -> None:
    """Batch Normalization 2015, sec. 3, after algorithm 1, with a row's entries for the batch."""
    run, weights, _ = system
    x, dy, gamma = run["x^0"], run["∂u^1"], weights["gamma_A^1"]
    m, mu = x.shape[1], x.mean(1, keepdims=True)
    spread = x.var(1, keepdims=True) + 1e-5
    hat = (x - mu) / np.sqrt(spread)
    d_hat = dy * gamma
    d_var = (d_hat * (x - mu) * -0.5 * spread**-1.5).sum(1, keepdims=True)
    d_mu = (-d_hat / np.sqrt(spread)).sum(1, keepdims=True)
    d_mu = d_mu + d_var * (-2 * (x - mu)).sum(1, keepdims=True) / m
    dx = d_hat / np.sqrt(spread) + d_var * 2 * (x - mu) / m + d_mu / m
    close(run["∂\\hat{u}^1"], d_hat)
    close(run["∂gamma_A^1"], (dy * hat).sum(0))
    close(run["∂beta_A^1"], dy.sum(0))
    close(run["∂x^0"] - run["∂\\tilde{A}^1"], dx)


@pytest.mark.skipif(not DIALOGS.exists(), reason="the document is not here")
def test_the_dialog_transformer_s_program() -> None:
    """What the Ruby program's document lists under manual backpropagation and Adam is written."""
    document = DIALOGS.read_text("utf-8")
    text = vt.read("dialog-transformer").export("numpy")
    for listed, line in (
        ("**Cross-entropy loss** gradients", "dlogits = (softmax(logits) - np.eye(V)[y]) / n"),
        ("**Softmax** Jacobian-vector products", "dS = A * (dA - (dA * A).sum(-1, keepdims=True))"),
        ("**Matrix multiplications** gradient flow", "dW_O = O.T @ dZ"),
        ("**Embedding** gradient updates", "np.add.at(dE, t, dX)"),
        ("β₁=0.9, β₂=0.999, ε=1e-8", "beta_1=0.9, beta_2=0.999, tiny=1e-8"),
    ):
        assert listed in document and line in text
