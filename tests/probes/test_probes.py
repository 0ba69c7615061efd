"""A probe is the least of its loss, is measured on other texts, and is an equation of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax
from scipy.stats import binomtest

import viete as vt
from tests.command_line import viete
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny
from viete.errors import VieteError
from viete.probes.card import save_held_out
from viete.probes.effects import probe_effects
from viete.probes.fits import Standard, logistic, nearest_means, ridge
from viete.probes.probing import wilson, without

CARD = vt.read("attention-only-2").bind(V=7, d=8, H=2, n_max=12)
MODEL = CARD.with_weights(random_weights(CARD))


def data(seed: int, count: int, m: int = 40, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    x = draw.normal(3, 2, (m, d))
    y = np.concatenate([np.arange(count), draw.integers(0, count, m - count)])
    x[:, 0] += y
    return x, y


# -- fits ------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 99), st.integers(2, 4), st.sampled_from((0.1, 1.0, 10.0)))
def test_a_logistic_probe_has_the_least_loss(seed: int, count: int, penalty: float) -> None:
    x, y = data(seed, count)
    found, standard = logistic(x, y, count, penalty), Standard.of(x)
    z, w, s = standard(x), found.directions * standard.unit, found(x)
    p = expit(s) if count == 2 else softmax(s, axis=1)
    wanted = y[:, None] if count == 2 else np.eye(count)[y]
    assert np.abs(z.T @ (p - wanted) + penalty * w).max() < 1e-3  # the loss is convex
    assert np.abs((p - wanted).sum(0)).max() < 1e-3


def test_probes_are_those_of_scikit_learn() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    for count in (2, 3):
        x, y = data(count, count)
        z = Standard.of(x)(x)
        wanted = linear.LogisticRegression(C=0.5, tol=1e-10, max_iter=5000).fit(z, y)
        scores = wanted.decision_function(z).reshape(len(x), -1)
        np.testing.assert_allclose(logistic(x, y, count, 2.0)(x), scores, atol=1e-4)
    number = linear.Ridge(alpha=2.0).fit(z, x[:, 1] + y)
    np.testing.assert_allclose(ridge(x, x[:, 1] + y, 0, 2.0)(x)[:, 0], number.predict(z))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 99), st.sampled_from((0.1, 3.0)), st.sampled_from((3, 60)))
def test_ridge_solves_its_equations(seed: int, penalty: float, d: int) -> None:
    x, y = data(seed, 2, 20, d)
    y = y + x[:, 1] ** 2
    standard = Standard.of(x)
    z = standard(x)
    w = np.linalg.solve(z.T @ z + penalty * np.eye(d), z.T @ (y - y.mean()))
    np.testing.assert_allclose(ridge(x, y, 0, penalty)(x)[:, 0], z @ w + y.mean(), atol=1e-8)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 99))
def test_without_the_difference_of_means_nothing_can_be_learned(seed: int) -> None:
    """Equal class means are what leaves every linear probe at chance (Belrose et al. 2023)."""
    x, y = data(seed, 2)
    w = nearest_means(x, y, 2).directions
    np.testing.assert_allclose(w[:, 0], x[y == 1].mean(0) - x[y == 0].mean(0))
    rest = without(x, w / np.linalg.norm(w), x.mean(0))
    again = logistic(rest, y, 2, 1.0)
    assert np.abs(again.directions).max() < 1e-5
    np.testing.assert_allclose(expit(again.offsets + rest.mean(0) @ again.directions), y.mean())


@settings(max_examples=20)
@given(st.integers(1, 60), st.data())
def test_the_interval_is_wilsons(count: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, count))
    known = binomtest(right, count).proportion_ci(0.95, "wilson")
    np.testing.assert_allclose(wilson(right / count, count), known, atol=1e-12)


# -- of models -------------------------------------------------------------------------------------


def texts(count: int = 24, length: int = 6) -> list[np.ndarray]:
    draw = np.random.default_rng(3)
    return [draw.integers(0, 7, length + k % 2) for k in range(count)]


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_the_probe_in_a_model_reads_what_was_fitted(path: str) -> None:
    """For every family, of the value of its first equation that is a matrix of positions."""
    card = tiny(path)
    model, inputs = card.with_weights(random_weights(card)), random_inputs(card)
    (first, ids), *rest = inputs.items()
    ids = np.asarray(ids).reshape(-1)
    name = next(
        n
        for n, a in model.run(ids, **dict(rest)).items()
        if getattr(a, "ndim", 0) == 2 and len(a) == len(ids) and a.dtype.kind == "f"
    )
    label = [k % 2 for k in range(8)]
    shifted = [np.roll(ids, k) for k in range(8)]
    found = model.probes(f"{name}_{{-1}}", shifted, label, held=0.5, **dict(rest))
    made = model.with_probe(found)
    x = np.asarray(model.run(ids, **dict(rest))[name])[-1].astype(float)
    wanted = expit(x @ found.one.directions[:, 0] + found.one.offsets[0])
    np.testing.assert_allclose(made.run(ids, **dict(rest))["probe"], wanted, rtol=1e-5)
    assert first and vt.read(made.card.write()) == made.card


def test_a_label_may_be_a_formula_of_positions(tmp_path: Path) -> None:
    found = MODEL.probes("x^i_j", texts(), "t_{j-1}")
    assert found.places == 3 and found.count == 7
    k = found.held[0]
    run = MODEL.run(found.examples.texts[k].text)
    np.testing.assert_allclose(found.examples.vectors[k].values[1], run["x^1"][1:])
    assert found.examples.codes[k].tolist() == np.asarray(run["t"])[:-1].tolist()
    one = MODEL.probes("x^1_j", texts(), "t_{j-1}")
    assert one.scores[0] == found.scores[1]
    rows = MODEL.probes("x^1", texts(), "t")
    for name, probes in ("one", one), ("rows", rows):
        file = tmp_path / f"{name}.jsonl"
        save_held_out(probes, file)
        made = MODEL.with_probe(probes, str(file))
        assert made.check().ok
        right = [np.mean(np.argmax(made.run(e["text"])["probe"], -1)[j := np.array(e["label"]) >= 0]
                         == np.array(e["label"])[j])
                 for e in map(json.loads, file.read_text().splitlines())]  # fmt: skip
        np.testing.assert_allclose(np.mean(right), probes.scores[0].value)


def test_numbers_are_read_by_ridge_regression(tmp_path: Path) -> None:
    found = MODEL.probes("x^1_{-1}", texts(), "t_{-1} / 2 + t_{-2} / 8")
    held = [found.examples.texts[k].text for k in found.held]
    wanted = np.array([t[-1] / 2 + t[-2] / 8 for t in held])
    made = MODEL.with_probe(found, str(tmp_path / "held.jsonl"))
    read = np.array([made.run(t)["probe"] for t in held])
    mean = np.mean([t[-1] / 2 + t[-2] / 8 for k in found.train
                    for t in [found.examples.texts[k].text]])  # fmt: skip
    r2 = 1 - np.square(read - wanted).sum() / np.square(mean - wanted).sum()
    np.testing.assert_allclose(found.scores[0].value, r2)
    save_held_out(found, tmp_path / "held.jsonl")
    assert made.check().ok


def test_without_its_direction_the_model_has_nothing_to_read() -> None:
    label = [int(t[-1] > 2) for t in texts()]
    found = MODEL.probes("x^1_{-1}", texts(), label)
    model = MODEL.with_probe(found)
    erased = model.put(
        "x^1_{-1} = x^1_{-1} - (x^1_{-1} - middle) basis basis^T", middle=found.middle,
        basis=found.basis,
    )  # fmt: skip
    read = [float(erased.run(t)["probe"]) for t in texts()]
    assert np.ptp(read) < 1e-12
    share = np.mean([(read[0] >= 0.5) == label[k] for k in found.held])
    assert found.erased()[0] == pytest.approx(share)
    (effect,) = probe_effects(model, found, ["probe"])
    assert effect.values["without"] == pytest.approx(read[0])
    assert effect.values["a step back"] < effect.values["as it is"] < effect.values["a step on"]
    score = found.scores[0]
    assert score.low <= score.value <= score.high


# -- the command -----------------------------------------------------------------------------------


def options(*more: Any) -> list[Any]:
    sizes = [y for x in ("V=7", "d=8", "H=2", "n_max=12") for y in ("--set", x)]
    return ["probe", "attention-only-2", *sizes, "--seed", 0, *more]


def test_a_probe_is_written_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ({"text": t.tolist(), "label": "odd" if t[-1] % 2 else "even"} for t in texts())
    Path("parity.jsonl").write_text("".join(f"{json.dumps(x)}\n" for x in lines))
    about = ["--of", "x^1_{-1}", "--texts", "parity.jsonl"]
    out = viete(*options(*about, "--effect", "logits_{-1,3}", "-o", "parity.md")).out
    assert "always the most frequent class" in out and "a step on" in out
    assert "holds" in viete("check", "parity.md").out
    assert "probe = " in viete("ask", "parity.md", "-t", "1,2,3", "probe").out
    held = Path("parity.held-out.jsonl")
    turned = [
        {**x, "label": 1 - x["label"]} for x in map(json.loads, held.read_text().splitlines())
    ]
    held.write_text("".join(f"{json.dumps(x)}\n" for x in turned))
    assert "✗ false" in viete("check", "parity.md", code=1).out
    for name in ("page.html", "row.svg"):
        viete(*options(*about, "-o", name))
    viete(*options("--of", "x^i_{-1}", "--texts", "parity.jsonl", "-o", "curve.svg"))
    assert "odd" in Path("row.svg").read_text() and "<polygon" in Path("curve.svg").read_text()
    assert "<math" in Path("page.html").read_text() and "<circle" in Path("page.html").read_text()


@pytest.mark.parametrize(("more", "said"), [
    (["--of", "x^1_{-1}", "--label", "t_{-1} ≥ 0"], "has 1 value in these texts"),
    (["--of", "|x^1_{-1}|", "--label", "t_{-1}"], "is one number"),
    (["--of", "x^1_{-1}", "--label", "t_j"], "give both the same letter"),
    (["--of", "x^i_{-1}", "--label", "t_{-1}", "-o", "a.md"], "write a number for i"),
    (["--of", "x^1_{-1}", "--label", "t_{-1}", "-o", "a.pdf"], "a probe is written to"),
    (["--of", "x^1_{-1}", "--label", "t_{-1}", "--held", "2"], "between 0 and 1"),
    (["--of", "x^1_{-1}", "--label", "t_{-1}", "--penalty", "0"], "above 0"),
    (["--of", "x^1_{-1}", "--label", "sqrt(t_{-1})", "--kind", "classes", "--effect", "x^1"],
     "ask for one"),
])  # fmt: skip
def test_what_is_no_probe_is_refused(more: list[str], said: str, tmp_path: Path) -> None:
    assert said in viete(*options("--texts", "random(6)", *more), code=2).err


def test_labels_are_of_every_text() -> None:
    with pytest.raises(VieteError, match="24 texts and 3 labels"):
        MODEL.probes("x^1_{-1}", texts(), [0, 1, 0])
    with pytest.raises(VieteError, match="has different shapes on texts"):
        MODEL.probes("x^1_j", texts(), [k % 2 for k in range(24)])


def test_rounding_is_no_knowledge() -> None:
    """Vectors that differ in their last digits alone have no direction."""
    draw = np.random.default_rng(0)
    x, y = 3 + 1e-8 * draw.normal(size=(20, 4)), np.arange(20) % 2
    for fit in logistic, nearest_means, ridge:
        found = fit(x, y, 2, 1.0)
        assert not found.directions.any() and np.ptp(found(x)) == 0
    same = MODEL.probes("x^1_0", [[1, k, k % 3] for k in range(7)] * 2, [0, 1] * 7)
    assert same.scores[0].value == same.erased()[0] == 0.5
    with pytest.raises(VieteError, match="has no direction"):
        probe_effects(MODEL, same, ["logits_{-1,3}"])


def test_each_class_is_held_out_alike() -> None:
    found = MODEL.probes("x^1_{-1}", texts(40), ["rare"] * 8 + ["frequent"] * 32)
    assert [found.examples.codes[k][0] for k in found.held].count(1) == 2 and len(found.held) == 10
    assert found.scores[0].constant == 0.8


def test_a_line_may_say_which_position_is_read(tmp_path: Path) -> None:
    lines = [{"text": t.tolist(), "label": int(t[k % 4] > 2), "place": k % 4, "word": 3}
             for k, t in enumerate(texts())]  # fmt: skip
    file, held = tmp_path / "some.jsonl", tmp_path / "held.jsonl"
    file.write_text("".join(f"{json.dumps(x)}\n" for x in lines))
    found = MODEL.probes("x^0_{place}", str(file))
    for k, line in enumerate(lines):
        x = MODEL.run(line["text"])["x^0"][line["place"]]
        np.testing.assert_allclose(found.examples.vectors[k].values[0, 0], x)
    made = MODEL.with_probe(found, str(held))
    save_held_out(found, held)
    assert made.check().ok and made.run([1, 2, 3], place=2)["probe"].shape == ()
    (effect,) = probe_effects(MODEL, found, ["logits_{-1,word}"])
    assert effect.values["as it is"] != effect.values["a step on"]
    with pytest.raises(VieteError, match="they have label, place, word"):
        MODEL.probes("x^0_{place}", str(file), "nothing")
