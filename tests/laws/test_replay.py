"""A replayed run gives the values that evaluating its equations gives, again and again."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import cards, random_inputs, random_weights, shipped, tiny
from viete.errors import VieteError
from viete.evaluate import execution, inputs, sparse
from viete.evaluate.execution import execute
from viete.evaluate.inputs import host
from viete.evaluate.labelled import COL, ROW
from viete.evaluate.plan import replay
from viete.evaluate.plan.workers import Workers
from viete.evaluate.run import Run
from viete.evaluate.schedule import program
from viete.graph.card import CardData

torch = pytest.importorskip("torch")
KINDS: dict[str, Any] = {"numpy": np.asarray, "torch": torch.from_numpy}


@contextmanager
def evaluating() -> Iterator[None]:
    """Without replay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "replayed", lambda *args: None)
        yield


def values(run: Run) -> dict[Any, np.ndarray]:
    """What was computed, in NumPy, in memory of its own."""
    return {m: np.array(host(run.ordered(v, sorted({*v.axes} - {ROW, COL}))))
            for m, v in run.store.items() if m[0] in run.program.computed}  # fmt: skip


def close(found: dict[Any, np.ndarray], truth: dict[Any, np.ndarray]) -> None:
    """The same values, shapes and kinds, to rounding."""
    assert found.keys() == truth.keys()
    for m, a in truth.items():
        assert found[m].shape == a.shape and found[m].dtype == a.dtype, m
        scale = np.max(np.abs(a), where=np.isfinite(a), initial=1e-300)
        np.testing.assert_allclose(found[m], a, rtol=1e-9, atol=1e-10 * scale, err_msg=str(m))


def same(found: dict[Any, np.ndarray], truth: dict[Any, np.ndarray]) -> None:
    """The same to the last bit."""
    for m, a in found.items():
        np.testing.assert_array_equal(a, truth[m], err_msg=str(m))


def check(model: CardData, weights: dict[str, np.ndarray], inputs: list[dict[str, Any]]) -> None:
    """Inputs of one shape, one after the other."""
    ready = program(model)
    for kind in KINDS.values():
        own = {k: kind(v.copy()) for k, v in weights.items()}
        with evaluating():
            truths = [values(execute(ready, i, own)) for i in inputs]
        ready.recordings.clear()
        runs = [execute(ready, i, own) for i in (*inputs, *inputs)]
        for k, run in enumerate(runs):
            close(values(run), truths[k % len(inputs)])
        for a, b in zip(runs, runs[len(inputs) :], strict=False):
            same(values(a), values(b))
            assert all(a.store[m].axes == b.store[m].axes for m in a.store)
        last = list(ready.names)[-1]
        some = execute(ready, inputs[0], own, [last])
        same(values(some), values(runs[0]))


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_shipped_cards(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing of a run may stay for the next."""
    model = tiny(path)
    weights = {k: v + 0.3 * np.random.default_rng(2).standard_normal(v.shape)
               for k, v in random_weights(model).items()}  # fmt: skip
    for stays, batch in ((2**23, None), (2**23, 3), (0, 3)):
        monkeypatch.setattr(replay, "STAYS", stays)
        check(model, weights, [random_inputs(model, seed, batch=batch) for seed in (2, 3)])


def test_experts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each expert on the rows that keep it, in every block and in a batch."""
    monkeypatch.setattr(sparse, "LEAST", 0)
    model = tiny("mixtral")
    for batch in (None, 3):
        check(model, random_weights(model), [random_inputs(model, k, batch=batch) for k in (2, 3)])
    assert any(r is not None for r in program(model).recordings.values())


@given(st.data())
def test_random_cards(data: st.DataObject) -> None:
    card = data.draw(cards())
    check(card.model, card.weights(), [card.given(batch=data.draw(st.integers(1, 3)))])


class Forgetful(dict[Any, Any]):
    """A memo that another thread empties after every look at it and after every entry."""

    def __contains__(self, key: object) -> bool:
        there = super().__contains__(key)
        self.clear()
        return there

    def __setitem__(self, key: object, value: object) -> None:
        super().__setitem__(key, value)
        if self.emptied:
            self.clear()

    emptied = False


@pytest.mark.slow
@given(st.data())
def test_memos_may_be_emptied_at_any_time(data: st.DataObject) -> None:
    """As by a run of another length in another thread."""
    card = data.draw(cards())
    ready, weights, given = program(card.model), card.weights(), card.given(batch=2)
    truth = values(execute(ready, given, weights, again=False))
    for name in ("memo", "questions", "programs", "recordings", "queries"):
        for emptied in (False, True):
            memo = Forgetful(getattr(ready, name))
            memo.emptied = emptied
            setattr(ready, name, memo)
            with evaluating():
                same(values(execute(ready, given, weights)), truth)
            close(values(execute(ready, given, weights)), truth)
            setattr(ready, name, {})


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_interventions(path: str) -> None:
    """One that changes nothing leaves every bit; one that does gives what evaluation gives."""
    model = tiny(path)
    ready, weights = program(model), random_weights(model)
    inputs = random_inputs(model, 2, batch=2)
    plain = values(execute(ready, inputs, weights))
    names = [n for n in ready.names if n in list(execute(ready, inputs, weights))]
    for name in names[:: max(1, len(names) // 4)]:
        if plain[ready.names[name]].dtype.kind != "f":
            continue
        same(values(model.run(weights=weights, inputs=inputs, put={name: lambda a: a})), plain)
        twice = [values(model.run(weights=weights, inputs=inputs, put={name: double}))
                 for _ in range(2)]  # fmt: skip
        same(twice[1], twice[0])
        with evaluating():
            close(twice[0], values(model.run(weights=weights, inputs=inputs,
                                             put={name: double})))  # fmt: skip


def double(a: Any) -> Any:
    return 2 * a + 0.1


MODEL = vt.read("gpt2").bind(N=2, d=8, H=2, V=11, n_max=8)
READY = program(MODEL)


def recorded() -> list[Any]:
    return [r for r in READY.recordings.values() if r is not None]


def test_what_was_handed_out_stays() -> None:
    weights = MODEL.initial_weights(0, "float32")
    first = execute(READY, {"t": np.array([1, 2, 3])}, weights)
    before = values(first)
    execute(READY, {"t": np.array([4, 5, 6])}, weights)
    same(values(first), before)
    first["logits"][:] = 0  # nor does it matter what a caller writes to it
    again = values(execute(READY, {"t": np.array([1, 2, 3])}, weights))
    same(again, before)


def test_weights_that_change_in_place() -> None:
    for kind in KINDS.values():
        weights = {k: kind(v) for k, v in MODEL.initial_weights(0, "float64").items()}
        execute(READY, {"t": [1, 2, 3]}, weights)
        weights["W_E"][2] += 1
        found = values(execute(READY, {"t": [1, 2, 3]}, weights))
        with evaluating():
            close(found, values(execute(READY, {"t": [1, 2, 3]}, weights)))


def test_a_tensor_that_gets_other_memory() -> None:
    weights = {k: torch.from_numpy(v) for k, v in MODEL.initial_weights().items()}
    execute(READY, {"t": [1, 2, 3]}, weights)
    weights["W_E"].data = weights["W_E"] + 1
    found = values(execute(READY, {"t": [1, 2, 3]}, weights))
    with evaluating():
        close(found, values(execute(READY, {"t": [1, 2, 3]}, weights)))


@pytest.mark.parametrize("stays", [True, False])
def test_a_weight_that_lies_otherwise(stays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers at the same place or another, in another order; then of another shape."""
    if not stays:
        monkeypatch.setattr(inputs, "SMALL", 0)
    weights = {k: torch.from_numpy(v) for k, v in MODEL.initial_weights().items()}
    weights["W_O^{1,h}"] = torch.zeros(2, 4, 8, dtype=torch.float64) + weights["W_O^{1,h}"]
    first = [values(execute(READY, {"t": [1, 2, 3]}, weights)) for _ in range(2)][1]
    w = weights["W_O^{1,h}"]
    w.data = w.data.transpose(1, 2).contiguous().transpose(1, 2)
    close(values(execute(READY, {"t": [1, 2, 3]}, weights)), first)
    w.data = w.data.as_strided((2, 4, 8), (32, 8, 1))  # as in memory, so that it is other numbers
    found = values(execute(READY, {"t": [1, 2, 3]}, weights))
    with evaluating():
        close(found, values(execute(READY, {"t": [1, 2, 3]}, weights)))
    w.data = w.data[:1]
    with pytest.raises(VieteError, match=r"has shape \(1, 4, 8\), but the card says \(2, 4, 8\)"):
        execute(READY, {"t": [1, 2, 3]}, weights)


def test_a_weight_of_numpy_that_gets_another_shape() -> None:
    weights = MODEL.initial_weights()
    for _ in range(2):
        execute(READY, {"t": [1, 2, 3]}, weights)
    weights["W_E"].shape = (8, 11)
    with pytest.raises(VieteError, match=r"has shape \(8, 11\), but the card says \(11, 8\)"):
        execute(READY, {"t": [1, 2, 3]}, weights)


def test_derivatives_are_taken_of_evaluated_runs() -> None:
    weights = {k: torch.from_numpy(v).requires_grad_() for k, v in MODEL.initial_weights().items()}
    for _ in range(2):
        MODEL.run([1, 2, 3], weights)["logits"].sum().backward()
        assert weights["W_E"].grad is not None
    with torch.no_grad():
        assert MODEL.run([1, 2, 3], weights)["logits"].grad_fn is None
    plain = {k: v.detach() for k, v in weights.items()}
    patch = torch.ones(3, 8, requires_grad=True, dtype=torch.float64)
    MODEL.run([1, 2, 3], plain, put={"x^1": lambda a: a + patch})["logits"].sum().backward()
    assert patch.grad is not None


def test_few_recordings_of_few_bytes() -> None:
    weights = MODEL.initial_weights(0, "float32")
    for _ in range(2):
        for n in range(1, 9):
            for names in (None, ["logits"]):
                execute(READY, {"t": np.arange(n)}, weights, names)
    assert 0 < len(READY.recordings) <= replay.RECORDINGS
    held = sum(sum(o.array.nbytes for o in b.outputs.values())
               for r in recorded() for b in r.idle)  # fmt: skip
    assert 0 < held <= replay.RECORDINGS * replay.STAYS


@pytest.mark.parametrize("kind", KINDS)
def test_no_weight_of_a_large_model_stays(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "STAYS", 0)
    monkeypatch.setattr(inputs, "SMALL", 0)
    gc.freeze()  # what other tests have left is not to be looked through
    arrays = MODEL.initial_weights(0, "float32")
    there = [weakref.ref(a) for a in arrays.values()]
    weights = {k: KINDS[kind](v) for k, v in arrays.items()}
    for _ in range(2):
        execute(READY, {"t": np.arange(4)}, weights, ["logits"])
    assert recorded()
    del arrays, weights
    gc.collect()
    assert not any(r() is not None for r in there)


def test_a_choice_that_depends_on_values() -> None:
    """A place that must be looked at: refused with the place, the value and the equation."""
    weights = MODEL.initial_weights()
    for _ in range(2):
        with pytest.raises(VieteError, match="not among"):
            MODEL.run([1, 2, 30], weights)


PLACES = """# Places

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 4 |
| $n$ | $≤ 9$ |

## Inputs

- $a ∈ ℝ^n$

## Parameters

| symbol | shape |
| --- | --- |
| $W$ | $V \\times 3$ |

## Forward pass

1. $p = floor(a)$
2. $y = W[p]$
"""


def test_an_error_of_a_replayed_run_names_its_equation() -> None:
    """A place that only a run knows, right at first, then wrong, then right again."""
    card = vt.read(PLACES)
    weights = card.initial_weights(0)
    for a in ([0.0, 1, 2], [0.0, 1, 7], [3.0, 1, 2], [0.0, 1, 7]):
        if max(a) > 3:
            with pytest.raises(VieteError, match=r"index 7 is outside 0 to 3\n +2. \$y = W\[p\]"):
                card.run(None, weights, a=a)
        else:
            np.testing.assert_array_equal(
                card.run(None, weights, a=a)["y"], weights["W"][np.int64(a)]
            )
    assert all(r is not None for r in program(card).recordings.values())


def test_threads_do_not_meet() -> None:
    weights = MODEL.initial_weights(0, "float32")
    texts = [np.array([k, k + 1, k + 2]) for k in range(8)]
    truths = [values(execute(READY, {"t": t}, weights)) for t in texts]
    wrong: list[Any] = []

    def work(k: int) -> None:
        for _ in range(20):
            found = values(execute(READY, {"t": texts[k]}, weights))
            if any(not np.array_equal(a, truths[k][m]) for m, a in found.items()):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_in_pieces(kind: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few sequences at a time, on one thread and on several; the last piece is a smaller one."""
    monkeypatch.setattr(replay, "crew_of", lambda like: Workers(kind == "torch", threads))
    weights = {k: KINDS[kind](v) for k, v in MODEL.initial_weights().items()}
    tokens = np.random.default_rng(0).integers(0, 11, (1000, 8))
    names = ["logits", "W_P"]
    first, again = (values(execute(READY, {"t": tokens}, weights, names)) for _ in range(2))
    same(again, first)
    with evaluating():
        close(first, values(execute(READY, {"t": tokens}, weights, names)))
