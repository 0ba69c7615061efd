"""The parts of plans that have laws of their own: stretches for threads, weights in memory."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.laws.strategies import shipped, tiny
from viete.evaluate.plan import workers
from viete.evaluate.plan.engine import Engine
from viete.evaluate.plan.layout import orders, split
from viete.evaluate.plan.workers import Workers
from viete.evaluate.schedule import program

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("library", [False, True], ids=["numpy", "torch"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 7, 100])
def test_stretches_cover_all_once(
    library: bool, threads: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MANY", 50)
    seen, lock, before = np.zeros(count), threading.Lock(), torch.get_num_threads()

    def mark(part: slice) -> None:
        with lock:
            seen[part] += 1

    Workers(library, threads).spread(mark, count)
    assert (seen == 1).all()
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_weights_are_seen_as_the_card_has_them(path: str) -> None:
    model = tiny(path)
    shapes = model.parameter_shapes
    order = orders(program(model))
    size = sum(int(np.prod(s)) for s in shapes.values())
    flat = np.arange(size)
    views = split(flat, shapes, order)
    assert {name: w.shape for name, w in views.items()} == shapes
    assert sorted(np.concatenate([w.ravel() for w in views.values()])) == list(range(size))
    for name, axes in order.items():  # the heads of a row next to each other
        laid = views[name].transpose(axes)
        assert laid.flags.c_contiguous and laid.shape[0] == shapes[name][-2]


def test_heads_lie_side_by_side_where_one_product_serves_them() -> None:
    found = orders(program(vt.read("nanogpt").bind(N=1)))
    assert set(found) == {"W_Q^{1,h}", "W_K^{1,h}", "W_V^{1,h}"}  # and not W_O


@pytest.mark.parametrize("threads", [1, 2])
def test_as_many_threads_as_one_likes(threads: int) -> None:
    """The same gradients to rounding, and the same to the last bit when asked again."""
    model = vt.read("nanogpt").bind(V=9, d=16, N=1, H=2, n_max=8)
    weights = model.initial_weights(0, "float64")
    rng = np.random.default_rng(0)
    t, y = rng.integers(0, 9, (2, 5, 8))
    one, more = (Engine(model, weights, piece=16, threads=k) for k in (1, threads))
    assert more(t, y=y) == pytest.approx(one(t, y=y), rel=1e-12)
    np.testing.assert_allclose(more.flat_gradient, one.flat_gradient, rtol=1e-9, atol=1e-12)
    before = more.flat_gradient.copy()
    more(t, y=y)
    np.testing.assert_array_equal(more.flat_gradient, before)
