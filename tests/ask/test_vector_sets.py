"""Singular vectors, principal components and maps of cosines are NumPy's, with names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.command_line import viete
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny
from viete.errors import VieteError

CARD = vt.read("attention-only-2").bind(V=7, d=8, H=2, n_max=12)
MODEL = CARD.with_weights(random_weights(CARD))
RUN = MODEL.run([3, 1, 4, 1, 5])
SIZES = [y for x in ("V=7", "d=8", "H=2", "n_max=12") for y in ("--set", x)]


def oriented(vectors: np.ndarray) -> bool:
    """Whether the entry of the greatest size of each column is positive."""
    return bool((np.take_along_axis(vectors, np.abs(vectors).argmax(0)[None], 0) > 0).all())


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99), st.integers(1, 3), st.integers(1, 4))
def test_singular_vectors_are_those_of_the_product(seed: int, narrow: int, count: int) -> None:
    draw = np.random.default_rng(seed)
    a, b, c = (draw.normal(size=s) for s in ((6, narrow), (narrow, 5), (4, 5)))
    found = RUN.ask(f"svd_{count}(a (b c^T))", a=a, b=b, c=c)
    matrix = a @ b @ c.T
    values = np.linalg.svd(matrix, compute_uv=False)
    size = found.array.shape[-1]
    assert size == min(count, narrow, 4)
    np.testing.assert_allclose(found.array, values[:size])
    np.testing.assert_allclose(matrix @ found.right, found.left * found.array, atol=1e-12)
    np.testing.assert_allclose(found.left.T @ found.left, np.eye(size), atol=1e-12)
    np.testing.assert_allclose(found.shares, (values**2 / (values**2).sum())[:size])
    assert oriented(found.left)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99), st.integers(2, 9), st.integers(2, 5))
def test_principal_components_diagonalise_the_covariance(seed: int, m: int, d: int) -> None:
    x = np.random.default_rng(seed).normal(size=(m, d))
    found = RUN.ask("pca_2(x)".replace("x", "mine"), mine=x)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(x.T)))
    np.testing.assert_allclose(found.variances, values[::-1][:2], atol=1e-12)
    np.testing.assert_allclose(found.shares, values[::-1][:2] / values.sum(), atol=1e-12)
    first = vectors[:, -1]
    assert abs(found.directions[:, 0] @ first) == pytest.approx(1)
    np.testing.assert_allclose(found.array, (x - x.mean(0)) @ found.directions, atol=1e-12)
    assert oriented(found.directions)


def test_components_are_those_of_scikit_learn() -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    x = RUN["x^2"]
    known, found = decomposition.PCA(3).fit(x), RUN["pca_3(x^2)"]
    np.testing.assert_allclose(np.abs(known.components_), np.abs(found.directions.T), atol=1e-8)
    np.testing.assert_allclose(known.explained_variance_ratio_, found.shares)


@pytest.mark.parametrize("path", shipped()[::3], ids=lambda p: Path(p).stem)
def test_every_family_has_directions_in_tokens(path: str) -> None:
    card = tiny(path)
    (_, ids), *rest = random_inputs(card).items()
    ids = np.asarray(ids).reshape(-1)
    run = card.with_weights(random_weights(card)).run(ids, names=[], **dict(rest))
    names = [n for n in ("W_E", "E") if n in run and np.ndim(run[n]) == 2]
    if not names:
        pytest.skip("it has no one embedding of tokens")
    name, e = names[0], np.asarray(run[names[0]], float)
    found = run[f"svd_2({name}^T {name})"]
    np.testing.assert_allclose(found.array, np.linalg.svd(e, compute_uv=False)[:2] ** 2, rtol=1e-5)
    for end, vectors in zip(found.ends, (found.left, found.right), strict=True):
        if end.matrix is not None:
            order = np.argsort(-(end.matrix @ vectors[:, 0]), kind="stable")
            assert end.top(vectors[:, 0], 3) == [str(end.names[int(k)]) for k in order[:3]]
    cosines = run[f"cosines({name})"]
    unit = e / np.linalg.norm(e, axis=1, keepdims=True)
    np.testing.assert_allclose(cosines, unit @ unit.T, atol=1e-6)
    np.testing.assert_allclose(run[f"pca_1({name})"].mean, e.mean(0), rtol=1e-5)


def test_an_end_is_read_or_written_by_where_it_stands() -> None:
    ov, qk = RUN["svd_2(W_V^{2,1} W_O^{2,1})"], RUN["svd_2(W_Q^{2,h} W_K^{2,h}^T)"]
    assert [e.word for e in ov.ends] == ["reads", "writes"]
    assert [e.word for e in qk.ends] == ["reads", "reads"]
    assert qk.axes == ("h", "direction") and qk.labels[0] == RUN.labels("A^{2,h}")[0]
    for h in range(2):
        matrix = RUN[f"W_Q^{{2,{h + 1}}} W_K^{{2,{h + 1}}}^T"]
        np.testing.assert_allclose(qk.array[h], np.linalg.svd(matrix, compute_uv=False)[:2])
    assert [e.word for e in RUN["svd_2(A^{1,1})"].ends] == ["has", "has"]
    assert [e.word for e in RUN["svd_2(W_V^{2,1})"].ends] == ["reads", ""]


def test_a_set_of_vectors_has_all_axes_but_the_last() -> None:
    found = RUN.answer("cosines(W_V^{i,h}_0, W_V^{1,1}_0)")
    assert list(found.labels[0]) == ["i 1, h 1", "i 1, h 2", "i 2, h 1", "i 2, h 2", "W_V^{1,1}_0"]
    assert found.array[0, 4] == pytest.approx(1) == found.array[3, 3]
    changed = RUN["pca_2(x^2) with A^{1,1} = 0"]
    without = MODEL.put("A^{1,1} = 0").run([3, 1, 4, 1, 5])["pca_2(x^2)"]
    np.testing.assert_allclose(changed.array, without.array, atol=1e-12)
    steered = MODEL.put("x^1_j = x^1_j + 2 way", way=without.directions[:, 0])
    moved = steered.run([3, 1])["x^1"] - MODEL.run([3, 1])["x^1"]
    np.testing.assert_allclose(moved @ without.directions, [[2, 0], [2, 0]], atol=1e-12)


def test_components_are_of_all_texts_together(tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    texts = [[3, 1, 4], [1, 5], [2, 6, 5, 3]]
    file.write_text("".join(f'{{"text": {t}}}\n' for t in texts))
    weights = [*SIZES, "--seed", 0]
    out = viete("ask", "attention-only-2", *weights, "--texts", file, "pca_1(x^1)").out
    assert "9 vectors of 8 entries" in out and "text 3, n 3" in out
    model = CARD.with_weights(seed=0)
    x = np.concatenate([model.run(t)["x^1"] for t in texts])
    assert f"{np.linalg.eigvalsh(np.cov(x.T))[-1]:.4g}" in out
    for name in "page.html", "picture.svg":
        viete("ask", "attention-only-2", *weights, "--texts", file, "pca_2(x^1)", "--draw",
              "-o", tmp_path / name)  # fmt: skip
    assert "component 1" in (tmp_path / "picture.svg").read_text()
    page = (tmp_path / "page.html").read_text()
    assert page.count("<circle") == 9 and "The card" in page
    viete("ask", "attention-only-2", *weights, "-t", "1,2", "svd_2(W_OV^{1,h})", "cosines(E)",
          "--draw", "-o", tmp_path / "two.html")  # fmt: skip
    assert "reads" in (tmp_path / "two.html").read_text()


@pytest.mark.parametrize(("question", "said"), [
    ("svd_2(x^1_{-1})", "is not a matrix"),
    ("svd_2(x^1, x^2)", "takes one matrix"),
    ("svd_0(x^1)", "the number of entries must be at least 1, as in top_5"),
    ("svd_2(x^1) + 1", "so nothing can follow it"),
    ("svd_2(x^1", "never closed"),
    ("pca_2(x^1_{-1})", "one vector, which has no variance"),
    ("pca_2(x^1, x^2)", "takes one family"),
    ("cosines(|x^1_0|)", "is one number"),
    ("cosines(x^1, A^{1,1})", "vectors have 5 and 8 entries"),
])  # fmt: skip
def test_what_has_no_directions_is_refused(question: str, said: str) -> None:
    with pytest.raises(VieteError, match=said):
        RUN.answer(question)


def test_exact_numbers_have_cosines_by_their_formula() -> None:
    card = vt.read("exact-lesson")
    run = card.run([0, 1], card.exact_weights, meaning="exact")
    for question in "svd_1(A)", "pca_1(x)", "cosines(x)":
        with pytest.raises(VieteError, match="in floats; leave out the meaning"):
            run.answer(question)
