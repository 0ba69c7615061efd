"""Law: a product of two thin matrices is what it is multiplied out."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from viete.errors import VieteError
from viete.evaluate.factored import FactoredMatrix, composition_scores

SIZES = st.integers(1, 6)


@st.composite
def products(draw: Any, square: bool = False) -> FactoredMatrix:
    """A product, perhaps many at once, of one of two libraries."""
    lead = draw(st.sampled_from([(), (3,), (2, 3)]))
    left, middle, right = draw(SIZES), draw(SIZES), draw(SIZES)
    right = left if square else right
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    a, b = rng.standard_normal((*lead, left, middle)), rng.standard_normal((*lead, middle, right))
    if draw(st.booleans()):
        torch = pytest.importorskip("torch")
        return FactoredMatrix(torch.as_tensor(a), torch.as_tensor(b))
    return FactoredMatrix(a, b)


def out(m: FactoredMatrix) -> np.ndarray:
    return np.asarray(m.A) @ np.asarray(m.B)


def same(a: Any, b: Any) -> None:
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


@settings(max_examples=60, deadline=None)
@given(products())
def test_shape_and_parts(m: FactoredMatrix) -> None:
    full = out(m)
    assert m.shape == full.shape and m.ndim == full.ndim
    same(m.AB, full)
    same(m.T.AB, np.swapaxes(full, -1, -2))
    same((2 * m).AB, 2 * full)
    same(m.get_corner(2), full[(slice(2),) * full.ndim])
    same(m.make_even().AB, full)
    assert m.unsqueeze(0).shape == (1, *full.shape)
    same(m.pair[0] @ m.pair[1], full)
    assert str(m) == f"<product of shape {m.shape} and rank at most {m.mdim}>"


@settings(max_examples=60, deadline=None)
@given(products())
def test_singular_values(m: FactoredMatrix) -> None:
    full = out(m)
    values = np.linalg.svd(full, compute_uv=False)
    same(np.asarray(m.S)[..., : values.shape[-1]], values[..., : np.asarray(m.S).shape[-1]])
    u, s, vh = (np.asarray(x) for x in (m.U, m.S, m.Vh))
    same((u * s[..., None, :]) @ vh, full)
    u, s, v = (np.asarray(x) for x in m.svd())
    same((u * s[..., None, :]) @ np.swapaxes(v, -1, -2), full)
    same(np.swapaxes(u, -1, -2) @ u, np.broadcast_to(np.eye(u.shape[-1]), (*u.shape[:-2], *[
        u.shape[-1]] * 2)))  # fmt: skip
    same(m.norm(), np.linalg.norm(full, axis=(-2, -1)))
    grown = np.asarray(m.collapse_l())
    same(np.swapaxes(grown, -1, -2) @ grown, np.swapaxes(full, -1, -2) @ full)
    grown = np.asarray(m.collapse_r())
    same(grown @ np.swapaxes(grown, -1, -2), full @ np.swapaxes(full, -1, -2))


@settings(max_examples=40, deadline=None)
@given(products(square=True))
def test_eigenvalues(m: FactoredMatrix) -> None:
    """Their power sums are the traces of the powers of the product."""
    full, found = out(m), np.asarray(m.eigenvalues)
    assert found.shape == (*full.shape[:-2], m.mdim)
    for k in (1, 2, 3):
        trace = np.trace(np.linalg.matrix_power(full, k), axis1=-2, axis2=-1)
        same((found**k).sum(-1).real, trace)
    same(m.BA, np.asarray(m.B) @ np.asarray(m.A))


@settings(max_examples=60, deadline=None)
@given(products(), st.integers(1, 6))
def test_products(m: FactoredMatrix, width: int) -> None:
    full, rng = out(m), np.random.default_rng(width)
    kind = type(m.A)

    def array(*shape: int) -> Any:
        made = rng.standard_normal(shape)
        if kind is np.ndarray:
            return made
        import torch

        return torch.as_tensor(made)

    right, left = array(m.rdim, width), array(width, m.ldim)
    same((m @ right).AB, full @ np.asarray(right))
    same((left @ m).AB if kind is np.ndarray else m.__rmatmul__(left).AB, np.asarray(left) @ full)
    v = array(m.rdim)
    same(m @ v, full @ np.asarray(v))
    v = array(m.ldim)
    same(m.__rmatmul__(v), np.asarray(v) @ full)
    other = FactoredMatrix(array(m.rdim, 2), array(2, width))
    same((m @ other).AB, full @ out(other))
    thin = (m @ other).pair
    assert min(x.shape[-1] for x in thin[:1]) <= max(m.mdim, m.rdim)


@settings(max_examples=60, deadline=None)
@given(products())
def test_indexing(m: FactoredMatrix) -> None:
    full = out(m)
    if m.ndim > 2:
        same(m[0].AB, full[0])
        same(m[..., :2, 0].AB, full[..., :2, :1])
        same(m[-1, ..., -1].AB, full[-1, ..., -1:])
        same(m[:1].AB, full[:1])
    if m.ndim == 4:
        same(m[1, 2].AB, full[1, 2])
        same(m[:, 1].AB, full[:, 1])
        same(m[0, 1, 0].AB, full[0, 1, :1])
        same(m[None, 0, 1].AB, full[None, 0, 1])
        some = np.arange(full[..., 0, 0].size).reshape(full.shape[:2]) % 2 == 1
        for mask in (some, some.tolist()):
            same(m[mask, :, 0].AB, full[some][..., :1])
            same(m[None, mask, ..., -1, :].AB, full[None, some][..., -1:, :])
    if m.ndim == 2:
        same(m[0].AB, full[:1])
        same(m[-1, :1].AB, full[-1:, :1])
    same(m[..., np.int64(0), :].AB, full[..., :1, :])
    same(m[..., np.array(-1)].AB, full[..., -1:])
    same(m[..., [0, -1], (0, -1)].AB, full[..., [0, -1], :][..., [0, -1]])
    same(m[..., None].AB, full[..., None])
    same(m[..., None, 0].AB, full[..., None, :1])
    same(m[..., None, :, :1].AB, full[..., None, :, :1])
    same(m[..., None, :, None].AB, full[..., None, :, None])
    same(m[..., None, None].AB, full[..., None, None])


def test_a_factor_for_many() -> None:
    rng = np.random.default_rng(0)
    m = FactoredMatrix(rng.standard_normal((3, 4, 2)), rng.standard_normal((5, 1, 2, 4)))
    assert m.shape == (5, 3, 4, 4)
    same(m.AB, m.A @ m.B)


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (lambda a: FactoredMatrix(a, a), "(3, 2) and (3, 2) cannot be multiplied"),
        (lambda a: FactoredMatrix(a, a[0]), "cannot be multiplied"),
        (lambda a: FactoredMatrix(a, a.T) @ a.T, "shapes (3, 3) and (2, 3) cannot be multiplied"),
        (lambda a: a @ FactoredMatrix(a, a.T), "shapes (3, 2) and (3, 3) cannot be multiplied"),
        (lambda a: FactoredMatrix(a, np.ones((2, 5))).eigenvalues, "not 3 × 5"),
        (lambda a: FactoredMatrix(a, a.T) * a, "with @, not *"),
        (lambda a: FactoredMatrix(a, a.T)[0, 0, 0], "has no part (0, 0, 0)"),
        (lambda a: FactoredMatrix(a, a.T)[..., ...], "has no part (Ellipsis, Ellipsis)"),
        (lambda a: FactoredMatrix(np.ones((2, 3, 2)), np.ones((3, 2, 3))),
         "(2,) and (3,) are different batch shapes"),
    ],
)  # fmt: skip
def test_wrong(job: Any, sentence: str) -> None:
    with pytest.raises(VieteError, match=re.escape(sentence)):
        job(np.ones((3, 2)))


def test_numbers_of_16_bits_are_decomposed_in_float32() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 6, 3)), rng.normal(size=(2, 3, 6))
    halves = [FactoredMatrix(torch.tensor(a, dtype=t), torch.tensor(b, dtype=t))
              for t in (torch.bfloat16, torch.float16)]  # fmt: skip
    for m in (*halves, FactoredMatrix(a.astype(np.float16), b.astype(np.float16))):
        wide = FactoredMatrix(*(np.asarray(m.single(x), np.float64) for x in m.pair))
        np.testing.assert_allclose(m.S, wide.S, rtol=1e-4)
        values = [np.sort(np.abs(np.asarray(x.eigenvalues))) for x in (m, wide)]
        np.testing.assert_allclose(*values, rtol=1e-3)
        np.testing.assert_allclose(
            composition_scores(m, m), composition_scores(wide, wide), rtol=1e-4
        )
        u, s, v = (np.asarray(x) for x in m.svd())
        np.testing.assert_allclose((u * s[:, None]) @ v.swapaxes(-1, -2), wide.AB, atol=1e-4)
