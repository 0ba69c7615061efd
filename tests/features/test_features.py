"""Features on a corpus: what is counted and kept, by hand; what they do, by puts and autograd."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.features.contexts import TOP, FeatureStatistics
from viete.features.study import FeatureStudy
from viete.model.coder import Coder, Coders
from viete.nouns.feature_effects import FeatureEffects
from viete.text.windows import alike, line_windows, running_windows

torch = pytest.importorskip("torch")
D, F, SIZES = 8, 12, {"V": 30, "d": 8, "N": 2, "H": 2, "n_max": 24}
MORE = {"pythia": {"rho": "1"}, "gemma2": {"d_k": 4, "G": 1}}
TEXTS = np.random.default_rng(7).integers(0, 30, (6, 9))


def coded(writes: str = "x^2", reads: str = "", kind: str = "relu", name: str = "gpt2") -> vt.Model:
    """A small model with random features of a place."""
    rng = np.random.default_rng(5)
    card = vt.read(name)
    card = card.bind(**{k: v for k, v in SIZES.items() if k in card.symbols}, **MORE.get(name, {}))
    drawn = card.initial_weights(seed=2)
    weights = {k: a + 0.3 * rng.normal(size=a.shape) for k, a in drawn.items()}
    arrays = {"W_enc": rng.normal(size=(D, F)), "b_enc": rng.normal(size=F) - 1,
              "W_dec": 0.3 * rng.normal(size=(F, D)), "b_dec": rng.normal(size=D)}  # fmt: skip
    if kind == "jumprelu":
        arrays["threshold"] = abs(rng.normal(size=F))
    coder = Coder(arrays, Path(kind), 3 if kind == "topk" else 0)
    return card.with_weights(weights).put(Coders({-1: coder}, reads or writes, writes))


def test_what_is_counted_and_kept_is_what_was_there() -> None:
    rng, texts, values = np.random.default_rng(0), [], []
    statistics = FeatureStatistics(5)
    for _ in range(12):
        count, n = int(rng.integers(1, 5)), int(rng.integers(2, 40))
        ids = rng.integers(0, 99, (count, n))
        some = np.maximum(rng.normal(size=(count, n, 5)) * np.exp(2 * rng.normal()) - 1, 0)
        some[..., 4] = 0
        statistics.add(ids, some.astype(np.float32))
        texts += list(ids)
        values += list(some.astype(np.float32))
    flat = np.concatenate(values)
    assert np.array_equal(statistics.counts, (flat > 0).sum(0))
    assert np.allclose(statistics.squares, (flat.astype(float) ** 2).sum(0), rtol=1e-5)
    for k in range(5):
        own, (bins, wide) = flat[flat[:, k] > 0, k], statistics.histogram(k)
        assert bins.sum() == len(own)
        if len(own):
            assert np.array_equal(bins, np.bincount((own / wide).astype(int), minlength=len(bins)))
        peaks = sorted((v[:, k].max() for v in values), reverse=True)[:TOP]
        found = statistics.top.of(k)
        assert [c.value for c in found] == [p for p in peaks if p > 0]
        for c in (*found, *statistics.drawn.of(k)):
            assert c.value > 0
            assert any(
                np.array_equal(t[c.before : c.before + len(c.tokens)], c.tokens)
                and np.array_equal(v[c.before : c.before + len(c.tokens), k], c.values)
                for t, v in zip(texts, values, strict=True)
            )
    assert not statistics.top.of(4) and not statistics.drawn.of(4)


@pytest.mark.parametrize(
    ("writes", "reads", "kind"),
    [("m^2", "x^1", "topk"), ("Q^{2,1}", "", "jumprelu")],
)  # fmt: skip
def test_measures_and_effects_are_those_of_puts(writes: str, reads: str, kind: str) -> None:
    model = narrow_coded(kind) if writes[0] == "Q" else coded(writes, reads, kind)
    block = 2
    study = FeatureStudy(model.card, model.weights)
    study.add(TEXTS[:4])
    study.add(TEXTS[4:])
    run = model.run(TEXTS)
    value, f = run[writes], run[f"feature^{block}"]
    error = (value - run[f"decoded^{block}"]).reshape(-1, value.shape[-1])
    flat = value.reshape(-1, value.shape[-1])
    m = study.measures
    assert m.active == pytest.approx((f > 0).sum(-1).mean())
    assert m.lacking == pytest.approx((error**2).sum() / ((flat - flat.mean(0)) ** 2).sum())
    assert m.dead == ((f.reshape(-1, F) > 0).sum(0) == 0).sum()

    def surprise(other: vt.Model) -> float:
        log = other.run(TEXTS)["logsoftmax(logits)"]
        return -np.mean([log[i, j, TEXTS[i, j + 1]] for i in range(6) for j in range(8)])

    own = vt.read("gpt2").bind(**SIZES)
    plain = own.with_weights({k: model.weights[k] for k in own.parameter_shapes})
    assert m.loss == pytest.approx(surprise(plain))
    assert m.spliced == pytest.approx(surprise(model.put(f"error^{block} = 0")))
    assert m.without == pytest.approx(surprise(plain.put(f"{writes} = 0")))

    effects, k, text = FeatureEffects(study, TEXTS), study.ranked(1)[0], TEXTS[0]
    way = study.directions[k]
    change = f"{writes}_j = {writes}_j + (aim - feature^{block}_{{j,{k}}}) * way"
    without = model.put(change, aim=0.0, way=way).run(text)["logsoftmax(logits_{-1})"]
    wanted = without - model.run(text)["logsoftmax(logits_{-1})"]
    before, after = effects.without(k, text) or ((), ())
    assert np.allclose(np.subtract(after, before), wanted, atol=1e-9)
    steered = model.put(change, aim=9.0, way=way)
    assert effects.course(k, 9.0, text, 5) == [
        t for (t,) in steered.sample(text, most=5, greedy=True)
    ]
    assert effects.usual_course(text, 5) == [t for (t,) in plain.sample(text, most=5, greedy=True)]
    weights = effects.logit_weights([k])
    if writes[0] == "Q":
        assert weights is None  # it is not in the stream
        return
    own = (effects.rows, *(model.weights[name] for name in ("W_E", "gamma", "beta")))
    x, u, g, b = (torch.tensor(np.asarray(a)) for a in own)

    def scores(a: object) -> object:
        moved = x + a * torch.tensor(way)
        return torch.nn.functional.layer_norm(moved, (D,), g, b, 1e-5).mean(0) @ u.T

    one = torch.ones((), dtype=float)
    slope = torch.autograd.functional.jvp(scores, 0 * one, one)[1]
    assert weights is not None and np.allclose(weights[0], slope, rtol=1e-3, atol=1e-5)


def narrow_coded(kind: str) -> vt.Model:
    """Features of the queries of one head."""
    rng, width = np.random.default_rng(5), D // 2
    arrays = {"W_enc": rng.normal(size=(width, F)), "b_enc": rng.normal(size=F),
              "W_dec": rng.normal(size=(F, width)), "b_dec": rng.normal(size=width),
              "threshold": abs(rng.normal(size=F))}  # fmt: skip
    weights = coded().weights
    card = vt.read("gpt2").bind(**SIZES)
    model = card.with_weights({k: weights[k] for k in card.parameter_shapes})
    return model.put(Coders({-1: Coder(arrays, Path(kind))}, "Q^{2,1}", "Q^{2,1}"))


@pytest.mark.parametrize("name", ["pythia", "gemma2"])
def test_families(name: str) -> None:
    """A page of each feature of a family's stream."""
    model = coded("x^1", name=name)
    found = model.features(list(TEXTS))
    page = found[found.ranked(1)[0]]
    assert page.raised and page.steered and page.changes and page.top
    assert page.top[0].value == pytest.approx(page.greatest)


def test_texts_come_as_windows(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("abc\n\nab\nabcdefgh\nxyz\n")

    def encode(text: str) -> list[int]:
        return [ord(c) for c in text]

    found = ["".join(map(chr, w)) for w in line_windows(path, encode, 5)]
    assert found == ["abc", "ab", "abcde", "fgh", "xyz"]
    together = [x.tolist() for x in alike(line_windows(path, encode, 5), lambda n: 2)]
    assert sorted("".join(map(chr, row)) for x in together for row in x) == sorted(found)
    assert any(len(x) == 2 for x in together)
    assert all(len(x) == 1 for x in alike(line_windows(path, encode, 5), lambda n: 9, held=0))
    from viete.text.vocabulary import Characters

    known = Characters.of([path.read_text()])
    running = list(running_windows(str(path), known, 4))
    assert known.decode(np.concatenate(running)) == path.read_text()
    assert [len(x) for x in running[:-1]] == [4] * (len(running) - 1)


def test_pages_of_features(tmp_path: Path) -> None:
    from viete.text.vocabulary import Characters, save_vocabulary

    model = coded("x^1")
    rng = np.random.default_rng(1)
    characters = 'abcdefghijklmnopqrstuvwxy<>&"\n'
    text = "".join(rng.choice(list(characters), 300))
    (tmp_path / "text.txt").write_text(text)
    card = vt.read("gpt2").bind(**SIZES)
    card.with_weights({k: model.weights[k] for k in card.parameter_shapes}).save(tmp_path / "model")
    save_vocabulary(Characters(sorted(characters)), tmp_path / "model" / "tokenizer.json")
    arrays = {name: model.weights[f"{name}^1"] for name in ("W_enc", "b_enc", "W_dec", "b_dec")}
    np.savez(tmp_path / "sae.npz", **arrays)
    put = ["features", tmp_path / "model", "--put", f"x^1 = {tmp_path}/sae.npz(x^1)"]
    ended = viete(*put, "--data", tmp_path / "text.txt", "--length", 16, "--top", 3,
                  "-o", tmp_path / "out")  # fmt: skip
    assert "of 12 features are active at a position (L0)" in ended.out
    pages = {p.name: p.read_text() for p in (tmp_path / "out").iterdir()}
    assert "index.html" in pages and len(pages) == 4
    for name, page in pages.items():
        assert "<script" not in page and "http" not in page, name
        assert page.count("<section") == page.count("</section>")
    first = next(p for n, p in pages.items() if n != "index.html")
    assert "⏎" in first and "&lt;" in first
    told = json.loads(viete(*put, "--texts", tmp_path / "text.txt", "--json").out)
    assert told["measures"]["features"] == len(told["each"]) == 12
    assert told["measures"]["active"] == pytest.approx(
        sum(x["active"] for x in told["each"]) / told["tokens"]
    )
    said = viete(*put, "--texts", tmp_path / "text.txt", "--feature", "3").out
    assert said.startswith("Feature 3") and "Set to a value" in said
    for options, message in (
        (["--feature", "99"], "there is no feature 99; they are 0 to 11"),
        (["--feature", "x"], "--feature takes one number from 0 up"),
        (["-o", "a.html"], "a folder, with a page for each"),
        (["--data", "b"], "give the texts as --texts FILE"),
    ):
        err = viete(*put, "--texts", tmp_path / "text.txt", *options, code=2).err
        assert message in err
    bare = viete("features", tmp_path / "model", "--texts", tmp_path / "text.txt", code=2).err
    assert "has no features; add a run of viete train" in bare
    for put, message in (
        ("nowhere", "--put nowhere: there is no file or folder of this name, and a change is an"),
        ("", "a change is empty; write an equation"),
    ):
        err = viete("ask", "gpt2", "-t", "1", "--put", put, "x^1", code=2).err
        assert message in err


def test_a_page_says_in_one_line_which_feature_it_is() -> None:
    page = coded().features(TEXTS)[3]
    assert repr(page).startswith(f"FeaturePage(number=3, count={page.count}, tokens=54, ")
    assert len(repr(page)) < 200 and page.top and page.bins.size
