"""A run in functions that a library transforms: derivatives forward and back, `vmap`, `jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import viete as vt
from viete.errors import VieteError
from viete.evaluate.inputs import host
from viete.evaluate.schedule import program

torch = pytest.importorskip("torch")
CARD = vt.read("gpt2").bind(V=11, d=8, N=1, H=2, n_max=8, d_f=12)
WEIGHTS = {k: v + 0.1 for k, v in CARD.initial_weights(0).items()}
NAME, TOKENS = "W_1^1", np.array([3, 1, 4])
DIRECTION = np.random.default_rng(0).standard_normal(WEIGHTS[NAME].shape)
OPTIONS: list[dict[str, Any]] = [{}, {"names": ["logits"]}, {"exact_definitions": True}]


def logits(w: Any, t: Any = TOKENS, **options: Any) -> Any:
    return CARD.run(t, w, **options)["logits"]


def slope(h: float = 1e-5) -> float:
    """How the sum of squares changes in the direction, by two more runs."""
    ends = ({**WEIGHTS, NAME: WEIGHTS[NAME] + s * h * DIRECTION} for s in (1, -1))
    above, below = (float((logits(w) ** 2).sum()) for w in ends)
    return (above - below) / (2 * h)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "".join(o) or "all")
def test_derivatives_of_torch(options: dict[str, Any]) -> None:
    """The run before was replayed, and so is the one after."""
    from torch.autograd import forward_ad

    weights = {k: torch.tensor(v) for k, v in WEIGHTS.items()}
    along = torch.tensor(DIRECTION)
    plain = logits(weights, **options)

    def loss(w: Any) -> Any:
        return (logits({**weights, NAME: w}, **options) ** 2).sum()

    with torch.no_grad():
        loss(weights[NAME])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(weights[NAME], along)
        tangents = [forward_ad.unpack_dual(loss(dual)).tangent]
    tangents += [torch.func.jvp(loss, (weights[NAME],), (along,))[1]]
    tangents += [(torch.func.grad(loss)(weights[NAME]) * along).sum()]
    assert [float(t) for t in tangents] == pytest.approx([slope()] * 3, rel=1e-6)
    several = torch.stack([torch.tensor(TOKENS), torch.tensor([5, 0, 2])])
    each = torch.func.vmap(lambda t: logits(weights, t, **options))(several)
    torch.testing.assert_close(each, logits(weights, several, **options))
    torch.testing.assert_close(logits(weights, **options), plain)


def test_functions_of_jax() -> None:
    """Of weights and of tokens; nothing of a function that was transformed stays in the card."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    weights = {k: jnp.asarray(v, jnp.float32) for k, v in WEIGHTS.items()}
    tokens, several = jnp.asarray(TOKENS), jnp.asarray([TOKENS, [5, 0, 2]])
    plain, both = logits(weights), logits(weights, several)

    def loss(w: Any) -> Any:
        return (logits({**weights, NAME: w}) ** 2).sum()

    program(CARD).memo.clear()
    along = jnp.asarray(DIRECTION, jnp.float32)
    tangents = [(jax.jit(jax.grad(loss))(weights[NAME]) * along).sum()]
    tangents += [jax.jit(lambda w: jax.jvp(loss, (w,), (along,))[1])(weights[NAME])]
    assert [float(t) for t in tangents] == pytest.approx([slope()] * 2, rel=2e-2)
    found: list[Callable[[], Any]] = [
        lambda: jax.jit(lambda w: logits(w))(weights),
        lambda: jax.jit(lambda t: logits(weights, t))(tokens),
        lambda: jax.jit(lambda t: CARD.with_weights(weights).lens(t))(tokens)[0],
        lambda: logits(weights),
    ]
    for f in found:
        np.testing.assert_allclose(f(), plain, atol=1e-5)
    each = jax.jit(jax.vmap(lambda t: logits(weights, t)))(several)
    np.testing.assert_allclose(each, both, atol=1e-5)
    moved = jax.vmap(lambda a: logits(weights, put={"x^1": lambda x: x + a}))
    np.testing.assert_allclose(moved(jnp.zeros(2))[1], plain, atol=1e-5)


def test_tokens_without_values_for_weights_of_another_library() -> None:
    with pytest.raises(VieteError, match="the input t has no values while its function"):
        torch.func.vmap(lambda t: torch.tensor(logits(WEIGHTS, t)))(
            torch.tensor(np.array([TOKENS] * 2))
        )


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
def test_a_value_of_another_library(kind: str) -> None:
    """An array put there, and what a hook gives: of any library, in the numbers of the run."""
    kinds = {"numpy": np.asarray, "torch": torch.tensor}
    if kind == "jax":
        kinds["jax"] = pytest.importorskip("jax.numpy").asarray
    weights = {k: kinds[kind](np.float32(v)) for k, v in WEIGHTS.items()}
    model, new = CARD.with_weights(weights), np.linspace(0, 1, 24).reshape(3, 8)
    truth = host(logits(weights, put={"x^1": kinds[kind](np.float32(new))}))
    for make in kinds.values():
        other = make(new)
        for options in OPTIONS:
            for put in (other, lambda a, other=other: other):
                found = logits(weights, put={"x^1": put}, **options)
                assert type(found) is type(weights[NAME]) and found.dtype == weights[NAME].dtype
                np.testing.assert_allclose(host(found), truth, atol=1e-6)
        hooked = model.lens.run_with_hooks(
            TOKENS, fwd_hooks=[("x^1", lambda a, hook, other=other: other[None])]
        )
        np.testing.assert_allclose(host(hooked)[0], truth, atol=1e-6)
    for odd in (torch.ones(3, 8, dtype=torch.bfloat16), np.ones((3, 8), object)):
        one = logits(weights, put={"x^1": kinds[kind](np.ones((3, 8), np.float32))})
        np.testing.assert_array_equal(host(logits(weights, put={"x^1": odd})), host(one))
    for wrong in (new + 0j, new.astype(str), new.astype(str).astype(object) + "x"):
        with pytest.raises(VieteError, match=r"place of x\^1 must be real numbers"):
            logits(weights, put={"x^1": lambda a, wrong=wrong: wrong})


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
def test_a_run_keeps_its_inputs(kind: str) -> None:
    """What is computed later is of the tokens as they were."""
    make: Any = {"numpy": np.asarray, "torch": torch.tensor}.get(kind)
    make = make or pytest.importorskip("jax.numpy").asarray
    weights = {k: make(v) for k, v in WEIGHTS.items()}
    for buffer in (TOKENS.copy(), torch.tensor(TOKENS)):
        runs = [CARD.run(buffer, weights) for _ in range(2)]
        buffer[:] = 0
        for run in runs:
            np.testing.assert_allclose(host(run["x^0 - W_P[:n]"]), host(run["W_E[t]"]), atol=1e-6)
            np.testing.assert_array_equal(host(run["W_E[t]"]), host(weights["W_E"])[TOKENS])
