"""An expansion's terms add up to what was expanded: every family, every word, random cards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import viete as vt
from tests.command_line import viete
from tests.laws.strategies import Card, cards, random_inputs, random_weights, shipped, tiny
from viete.ask.arrows import arrows
from viete.ask.expansion import Expansion
from viete.report.drawing.arrows import arrows_svg

KINDS = ["term", "hidden", "unopened", "constant", "rounding"]
INTO = ["block", "sublayer", "head", "head, source", "neuron", "head, path", "source, path"]


def run_of(name: str, n: int = 4) -> Any:
    card = tiny(next(path for path in shipped() if Path(path).stem == name))
    return card.run(**random_inputs(card, 1, n), weights=random_weights(card, 1))


def check(e: Expansion, whole: Any) -> None:
    """All that is iterated over adds up, says its kind, and a share is one of all sizes."""
    assert np.max(np.abs(sum(t.value for t in e) - whole)) <= 1e-12 * max(e.mass, 1.0)
    assert sum(t.share for t in e) == pytest.approx(1.0 if e.mass else 0.0)
    found = {kind: [t for t in e if t.kind == kind] for kind in KINDS}
    assert sum(map(len, found.values())) == len(e) and len(found["rounding"]) == 1
    assert found["term"] == e.terms and all(t.size for t in e.terms)
    assert (found["unopened"], found["constant"]) == (e.unopened, e.constants)


def last(run: Any) -> str:
    """The scores, or the last value that is real."""
    return (
        "logits"
        if "logits" in run
        else next(name for name in reversed(list(run)) if run[name].dtype.kind == "f")
    )


@pytest.mark.parametrize("path", shipped(), ids=lambda path: Path(path).stem)
def test_terms_add_up_for_every_family(path: str) -> None:
    run = run_of(Path(path).stem)
    name = last(run)
    row = name if np.ndim(run[name]) < 2 else f"{name}_{{-1}}"
    for into in INTO:
        check(e := run.expand(row, into, top=3), run[row])
        for t in (*e.terms, *e.constants, *e.unopened):
            assert (t.stopped is not None) == (t.kind == "unopened")
            assert t.stopped is None or np.isreal(run[t.stopped.within]).all()


@pytest.mark.parametrize("name", ["pythia", "gpt2", "llama", "gemma2", "formal-decoder", "t5"])
def test_a_term_is_an_expression_of_the_run(name: str) -> None:
    run = run_of(name)
    place = "x^2_{-1}" if name not in ("formal-decoder", "t5") else f"{last(run)}_{{-1}}"
    for into in ("block", "sublayer", "head, source", "head, source, path", "neuron"):
        e = run.expand(place, into, top=2)
        others = [e.hidden] * (e.hidden.count < 9) + [e.rounding]
        for term in [*e.terms, *e.unopened[:1], *e.constants[:1], *others]:
            np.testing.assert_allclose(run[term.expression], term.value, atol=1e-12)
            finer = term.expand("sublayer")
            check(finer, term.value)


@given(cards())
@settings(max_examples=6)
def test_terms_of_random_cards_add_up(card: Card) -> None:
    run = card.model.run(weights=card.weights(), **card.given(4))
    for into in ("block", "head, source", "head, path", "neuron"):
        check(run.expand("logits_{-1}", into), run["logits_{-1}"])


@pytest.mark.parametrize("change", ["x^1_2 = 2 x^1_2", "V^{2,1}_2 = 0", "m^1_j = 0 for j ≥ 2"])
def test_terms_behind_a_change_of_rows_add_up(change: str) -> None:
    card = tiny(next(path for path in shipped() if Path(path).stem == "gpt2"))
    run = card.put(change).run(**random_inputs(card, 1, 4), weights=random_weights(card, 1))
    for into in ("source", "source, path", "neuron"):
        check(run.expand("x^2_{-1}", into), run["x^2_{-1}"])


def test_terms_of_a_batch_of_one_text_are_numbers_with_a_sign() -> None:
    alone = run_of("gpt2")
    batch = alone.of.run(t=np.asarray(alone["t"])[None], weights=random_weights(alone.of, 1))
    for question in ("logits_{-1, 3}", "⟨U_3, x^2_{-1}⟩", "x^2_{-1}", "x^2"):
        sums = question in ("⟨U_3, x^2_{-1}⟩", "x^2_{-1}")
        e, f = (r.expand(question, "head", cumulative=sums) for r in (batch, alone))
        assert str(e) == str(f) and e.terms[0].value.shape == f.terms[0].value.shape


def test_attribution_of_gpt2_by_hand() -> None:
    run = run_of("gpt2")
    w, n = run.weights_of if hasattr(run, "weights_of") else run, 4
    u, x = run["W_E"][3], run["x^2"][-1]
    scale = np.sqrt(x.var() + 1e-5)
    by_hand = {}
    for i in (1, 2):
        for h in (1, 2):
            for k in range(n):
                v = run[f"A^{{{i},{h}}}"][-1, k] * run[f"V^{{{i},{h}}}"][k] @ w[f"W_O^{{{i},{h}}}"]
                by_hand[i, h, k] = u @ (w["γ"] * (v - v.mean()) / scale)
    e = run.expand("logits_{-1, 3}", "block, head, source")
    found = {(t.family.block[1], *t.letters.values()): t.value for t in e.terms if t.letters}
    assert found.keys() == by_hand.keys()
    for place, value in by_hand.items():
        assert found[place] == pytest.approx(value, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", ["gpt2", "pythia", "llama", "qwen3"])
def test_a_score_is_query_times_key(name: str) -> None:
    run = run_of(name)
    h = "1" if name in ("gpt2", "pythia") else "1,1"
    g = h[:1]
    score = f"(Q^{{2,{h}}} {{K^{{2,{g}}}}}^T)_{{-1, 1}}"
    e = run.expand(score, "query, key")
    if name != "qwen3":  # which norms both, by scales that are held
        assert "scale" in e.held
    check(e, run[score])
    query = run.expand(score, "query")
    check(query, run[score])
    assert len(query.terms) < len(e.terms)


def test_what_is_not_held_is_named_and_stops_the_expansion() -> None:
    run = run_of("gpt2")
    e = run.expand("logits_{-1, 3}", "head", held="A")
    assert [t.kind for t in e.unopened] == ["unopened"] and e.held == ()
    check(e, run["logits_{-1, 3}"])
    capped = run_of("gemma2").expand("logits_{-1, 3}", "head")
    assert [t.expression for t in capped.unopened] == ["logits_{-1,3}"]
    (cap,), (norm,) = capped.unopened, e.unopened
    assert (cap.stopped.function, norm.stopped.function) == ("softcap", "LN")
    before = run_of("gemma2").expand(cap.stopped.within, "head")
    np.testing.assert_allclose(30 * np.tanh(before.total / 30), capped.total)
    assert before.terms and not before.unopened and norm.stopped.within == "x_{-1}^2"
    assert "softcap is not linear; expand <RMSNorm(" in str(capped)
    inside = run_of("gemma2").expand("⟨U_3, RMSNorm(x^2_{-1}; 1 + γ, ε)⟩", "head")
    assert not inside.unopened and inside.held == ("A^{i,g,r}", "scale")


@pytest.mark.parametrize("name", ["gpt2", "pythia", "gemma2", "t5"])
def test_any_value_can_be_held_and_is_a_term_then(name: str) -> None:
    run = run_of(name)
    head = {"gemma2": "A^{2,1,1}"}.get(name, "A^{2,1}")
    row = "x^2_{-1}"
    for held in ("A, scale, x^1", "A, scale, x^i", f"{head}, scale"):
        e = run.expand(row, "head, source, path", held=held)
        check(e, run[row])
        assert e.held[-1] in held
    alone = run.expand(row, "path", held="A, scale, x^i")
    np.testing.assert_allclose(max(alone, key=lambda t: t.size).value, run[row], atol=1e-12)


def test_a_zero_is_not_listed() -> None:
    run = run_of("gpt2")
    e = run.expand("x^2_1", "head, source")
    late = [t for t in e.hidden.terms if t.marks[-1].word == "source" and t.letters["k"] > 1]
    assert late and not e.hidden.size and e.hidden.label == f"{e.hidden.count} zero terms"


def test_a_soft_cap_with_directions_is_named() -> None:
    card = tiny(next(p for p in shipped() if Path(p).stem == "gemma2")).put("dublin = U_5 - U_3")
    run = card.run(**random_inputs(card, 1, 4), weights=random_weights(card, 1))
    e = run.expand("logits_{-1, 3}", "dublin")
    check(e, run["logits_{-1, 3}"])
    assert [t.expression for t in e.unopened] == ["logits_{-1,3}"] and not e.terms


def test_exact_terms_add_up_exactly() -> None:
    card = tiny(next(p for p in shipped() if Path(p).stem == "attention-only-1"))
    weights = {k: np.round(4 * v) / 4 for k, v in random_weights(card, 1).items()}
    run = card.run(**random_inputs(card, 1, 3), weights=weights, meaning="exact")
    e = run.expand("x^1_{-1, 0}", "head, source")
    assert float(sum(t.value for t in e) - run["x^1_{-1, 0}"]) == 0


def test_values_of_ones_own_and_options() -> None:
    run = run_of("gpt2")
    probe = np.arange(16.0)
    e = run.expand("⟨probe, x^2_{-1}⟩", "head", probe=probe, top=2)
    assert len(e.terms) == 2 and e.hidden.count > 0
    check(e, probe @ run["x^2"][-1])
    with pytest.raises(vt.VieteError, match="into 'blocks'; use block"):
        run.expand("x^2_{-1}", "blocks")
    with pytest.raises(vt.VieteError, match="cut takes a value of GPT-2, such"):
        run.expand("x^2_{-1}", held="W_E")
    rows = run.expand("⟨U_3, x^2_j⟩", "head, source")
    check(rows, run["⟨U_3, x^2_j⟩"])
    assert rows.total.shape == (4,)
    for block in (
        "\\tilde{A}^2(x^1)_{-1}",
        "Δx^2_{-1}",
        "x^0 + \\sum_{i=1}^{N} Δx^i",
        "B_2(x^1)_0",
    ):
        check(run.expand(block, "head, source"), run[block])
    with pytest.raises(vt.VieteError, match="asked of all blocks i"):
        run.expand("x^i_{-1}")


SAE = """# An autoencoder

## Dimensions

| symbol | value | meaning |
| --- | --- | --- |
| $F$ | 6 | features |

## Parameters

| symbol | shape | meaning |
| --- | --- | --- |
| $W_{enc}$ | $d × F$ | into features |
| $b_{enc}$ | $F$ | their bias |
| $W_{dec}$ | $F × d$ | back |
| $b_{dec}$ | $d$ | its bias |

## Equations

"""
DECODED = "ReLU((VALUE - b_{dec}) W_{enc} + b_{enc}) W_{dec}"


@pytest.mark.parametrize("name", ["gpt2", "pythia", "llama"])
@pytest.mark.parametrize("value", ["x^2", "m^2"])
def test_features_and_their_error_by_hand(name: str, value: str, tmp_path: Path) -> None:
    decoded = DECODED.replace("VALUE", value)
    page = tmp_path / "sae.md"
    page.write_text(
        f"{SAE}- ${value} = {decoded} + b_{{dec}} + ({value} - {decoded} - b_{{dec}})$\n"
    )
    card = tiny(next(p for p in shipped() if Path(p).stem == name)).put(page)
    w = random_weights(card, 1)
    run = card.run(**random_inputs(card, 1, 4), weights=w)
    features = np.maximum((run[value][-1] - w["b_dec"]) @ w["W_enc"] + w["b_enc"], 0)
    e = run.expand("x^2_{-1}", "feature")
    check(e, run["x^2_{-1}"])
    terms = [*e.terms, *e.hidden.terms]  # an inactive feature is 0
    found = {t.letters["f"]: t.value for t in terms
             if t.marks[-1].word == "feature" and "W_{dec" in t.expression}  # fmt: skip
    assert sorted(found) == list(range(6))
    for k, term in found.items():
        np.testing.assert_allclose(term, features[k] * w["W_dec"][k], atol=1e-12)
    (error,) = (t.value for t in e.terms if t.marks[-1].word == "error")
    old = run[value][-1] - features @ w["W_dec"] - w["b_dec"]
    np.testing.assert_allclose(error, old, atol=1e-12)


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_directions_by_least_squares(name: str) -> None:
    card = tiny(next(p for p in shipped() if Path(p).stem == name))
    card = card.put("dublin = U_5 - U_3", "london = 2 U_1 + U_5")
    run = card.run(**random_inputs(card, 1, 4), weights=random_weights(card, 1))
    rng = np.random.default_rng(0)
    third = rng.normal(size=len(run["dublin"]))
    e = run.expand("x^2_{-1}", "directions", directions=("dublin", "london", "third"), third=third)
    check(e, x := run["x^2_{-1}"])
    basis = np.stack([run["dublin"], run["london"], third])
    by_hand = np.linalg.lstsq(basis.T, x, rcond=None)[0][:, None] * basis
    found = {t.label: t.value for t in e}
    for k, label in enumerate(("dublin", "london", "third")):
        np.testing.assert_allclose(found[f"direction {label}"], by_hand[k], atol=1e-10)
    rest = found["beside the directions"]
    np.testing.assert_allclose(basis @ rest, 0, atol=1e-10)
    logit = "⟨U_5, norm(x^2_{-1})⟩"
    for into in ("directions", "dublin", "block, london", "head, source, directions"):
        e = run.expand(logit, into, top=5)
        check(e, run[logit])
        np.testing.assert_allclose(run[e[0].expression], e[0].value, atol=1e-12)
    check(e[0].expand("dublin"), e[0].value)
    for wrong, why in (("3 dublin", "not independent"), ("U", "a direction is a vector")):
        with pytest.raises(vt.VieteError, match=why):
            run.expand(logit, "dublin", directions=wrong)
    with pytest.raises(vt.VieteError, match="no name for a direction"):
        run_of("gpt2").expand(logit, "directions")


def test_the_command_prints_terms_and_what_was_held() -> None:
    options = "--seed 0 --set d=16 --set N=2 --set H=2 --set V=9 --tokens 1,2,3".split()
    command = ["expand", "gpt2", *options, "--of", "logits_{-1, 4}", "--into"]
    told = viete(*command, "block,head,source", "--top", 2).out
    assert "block 0, W_{P,n−1}" in told and "the total" in told
    assert "held constant: A" in told and "remainder: " in told
    named = viete(*command, "directions", "--put", "way = U_5 - U_3", "--held", "A, scale, m^2").out
    assert "direction way" in named and "held constant: scale, m^2" in named
    which = viete(*command, "directions", "--directions", "U_5 - U_3, U_1").out
    assert "direction U₅ − U₃" in which and "direction U₁" in which
    wrong = viete("expand", "exact-lesson", "--tokens", "1,2", "--of", "logits", "--into", "x",
                  code=2).err  # fmt: skip
    assert "cannot expand into 'x'" in wrong


def test_terms_are_opened_by_their_numbers() -> None:
    options = "--seed 1 --set d=16 --set N=2 --set H=2 --set V=9 --tokens 1,2,3 -i".split()
    command = ["expand", "gpt2", *options, "--of", "logits_{-1, 4}"]
    told = viete(*command, stdin="b\n99\n1\n1\nwhat\nb\n\nq\n").out
    assert "1. block" in told and "this is the first" in told
    assert "99 is not the number of a term; those are 1 to 3" in told
    assert told.count("the total") >= 3
    assert viete(*command).out.rstrip().endswith("q quit:")  # the end of the input
    assert "give none of" in viete(*command, "-o", "x.json", code=2).err


def test_tokens_of_terms_are_words() -> None:
    run = vt.read("exact-lesson").run([0, 1], vt.read("exact-lesson").initial_weights())
    assert 'E["b"]' in str(run.expand("⟨E_1, x^1_{-1}⟩")).replace("E_b", 'E["b"]')


def test_partial_sums_end_at_the_whole_and_its_angle(tmp_path: Path) -> None:
    run = run_of("gpt2")
    e = run.expand("⟨U_3, LN(x^2_{-1}; γ, β, ε)⟩", "sublayer", cumulative=True)
    u, x = run["U_3"], run["LN(x^2_{-1}; γ, β, ε)"]
    end = e.partial_sums.sums[-1]
    assert end.inner == pytest.approx(u @ x) and end.length == pytest.approx(np.linalg.norm(x))
    assert end.angle == pytest.approx(np.arccos(u @ x / np.linalg.norm(u) / np.linalg.norm(x)))
    steps = np.diff([0.0, *(s.inner for s in e.partial_sums.sums)])
    terms = [t.value for t in run.expand("logits_{-1, 3}", "sublayer").every_term()]
    assert sorted(steps) == pytest.approx(sorted(terms))
    assert "θ" in str(e)
    with pytest.raises(vt.VieteError, match="partial sums are of a vector or of a product"):
        run.expand("x^2", cumulative=True).partial_sums  # noqa: B018


def test_the_largest_terms_open_until_a_share_is_in_the_last() -> None:
    run = run_of("gpt2")
    for share in (0.5, 0.9, 1.0):
        e = run.expand("logits_{-1, 3}", explain=share)
        check(e, run["logits_{-1, 3}"])
    assert all(t.family.marks[-1].word != "head" for t in e.terms if t.family.marks)
    with pytest.raises(
        vt.VieteError,
        match="explain, the share of the number to account for, must be between 0 and 1",
    ):
        run.expand("x^2_0", explain=2)


def test_attribution_against_differences_and_exact_effects() -> None:
    card = tiny(next(p for p in shipped() if Path(p).stem == "gpt2"))
    weights = random_weights(card, 1)
    run, other = (card.run(np.array(t), weights) for t in ([1, 2, 3, 4], [1, 5, 3, 2]))
    logit, by = "logits_{-1, 5}", "A^{i,h}"
    found = run.attribute(logit, by, other, exact=True)
    step = 1e-6
    for i, h in ((1, 1), (2, 2)):

        def nearer(a: Any, i: int = i, h: int = h, part: float = step) -> Any:
            a[h - 1] += part * (other[f"A^{{{i},h}}"][h - 1] - a[h - 1])
            return a

        def patched(part: float, i: int = i) -> float:
            name = f"A^{{{i},h}}"
            put = {name: lambda a: nearer(a, part=part)}
            return float(run[logit] - card.run(np.array([1, 2, 3, 4]), weights, put=put)[logit])

        assert found.estimate[i - 1, h - 1] == pytest.approx(patched(step) / step, rel=1e-4)
        assert found.exact is not None
        assert found.exact[i - 1, h - 1] == pytest.approx(patched(1.0), rel=1e-9)
    assert found.entries.shape == (2, 2, 4, 4)
    assert next(iter(found)).name.startswith("A^{")
    whole = run.attribute(logit, "x^0", other, steps=4)
    assert whole.estimate.sum() == pytest.approx(run[logit] - other[logit], rel=1e-2)
    frozen = run.attribute(logit, "V^{i,h}", held=["A^{i,h}", "m^i"])
    assert frozen.estimate.sum() != pytest.approx(run.attribute(logit, "V^{i,h}").estimate.sum())
    rows = run.attribute(logit, "x^i_j", other, exact=True)
    assert rows.exact is not None and rows.exact.shape == (3, 4)
    np.testing.assert_allclose(rows.exact[2, :3], 0, atol=1e-12)
    assert rows.exact[0].sum() != 0 and rows.exact[2, 3] == pytest.approx(run[logit] - other[logit])
    with pytest.raises(vt.VieteError, match="is to a value, such as"):
        run.attribute(logit, "W_E")


def test_integrated_gradients_of_a_model_with_a_loss() -> None:
    """Its targets are not given, and nothing that is asked needs them."""
    model = vt.load("two-layers")
    run, other = model.run("abcab"), model.run("adcad")
    found = run.attribute("logits_{-1,2}", "x^2", other, steps=2)
    change = run["logits_{-1,2}"] - other["logits_{-1,2}"]
    assert found.estimate.sum() == pytest.approx(change, rel=1e-5)


def test_attribution_of_texts_is_the_sum_of_theirs() -> None:
    one = run_of("gpt2")
    card, weights = one.of, random_weights(one.of, 1)
    ids = np.asarray(one["t"])
    runs = [card.run(t=t, weights=weights) for t in (ids, ids[::-1])]
    both = card.run(t=np.stack([ids, ids[::-1]]), weights=weights)
    for by in ("A^{i,h}", "x^i_j"):
        found, *each = (r.attribute("logits_{-1,3}", by, exact=True) for r in (both, *runs))
        assert found.axes == each[0].axes
        np.testing.assert_allclose(found.estimate, sum(a.estimate for a in each), atol=1e-12)
        np.testing.assert_allclose(found.exact, sum(a.exact for a in each), atol=1e-12)


def test_a_graph_has_the_terms_as_arrows(tmp_path: Path) -> None:
    import json
    from xml.etree import ElementTree

    options = "--seed 1 --set d=16 --set N=2 --set H=2 --set V=9 --tokens 1,2,3".split()
    into = ["--of", "logits_{-1, 4}", "--into", "block,head,source,path", "--graph"]
    graph = json.loads(viete("expand", "attention-only-2", *options, *into, "--top", 99).out)
    (end,) = {a["end"] for a in graph["arrows"]} & {graph["of"]}
    assert end == graph["of"]
    by = {a["by"] for a in graph["arrows"]}
    assert {"A^{1,1}", "A^{2,2}", "W_U"} <= by
    last = sum(a["value"] for a in graph["arrows"] if a["end"] == end)
    run = json.loads(
        viete("expand", "attention-only-2", *options, *into[:-1], "--top", 99, "-f", "json").out
    )
    assert last == pytest.approx(sum(t["value"] for t in run["terms"] if t["kind"] == "term"))
    for kind in (["--graph"], ["--cumulative", "--into", "block"]):
        picture = tmp_path / "picture.svg"
        viete("expand", "gpt2", *options, "--of", "logits_{-1, 4}", *kind, "-o", picture)
        ElementTree.fromstring(picture.read_text())
    tikz = tmp_path / "picture.tex"
    viete("expand", "gpt2", *options, "--of", "logits_{-1, 4}", "--graph", "-o", tikz)
    assert r"\begin{tikzpicture}" in tikz.read_text()
    page = tmp_path / "graph.html"
    viete("expand", "attention-only-2", *options, *into, "--top", 99, "-o", page)
    assert "<svg" in page.read_text() and page.read_text().count("<tr>") == 1 + len(graph["arrows"])
    plain = ("expand", "gpt2", *options, "--of", "logits_{-1, 4}")
    for other in (["-o", tmp_path / "graph.md"], ["-f", "text"]):
        assert "html" in viete(*plain, "--graph", *other, code=2).err
    viete(*plain, "-o", picture)
    card = vt.read("gpt2").bind(d=16, N=2, H=2, V=9)
    run = card.run([1, 2, 3], card.initial_weights(seed=1))
    drawn = run.draw(run.expand("logits_{-1, 4}", top=12))
    assert picture.read_text() == drawn.save(tmp_path / "same.svg").read_text()
    data = tmp_path / "terms.json"
    viete(*plain, "-o", data)
    assert viete(*plain, "--json").out == data.read_text() == viete(*plain, "-f", "json").out
    assert (
        "belongs to a block, so there is no arrow"
        in viete(*plain, "--graph", "--held", "A", code=2).err
    )


def test_a_graph_and_bars_have_words() -> None:
    from dataclasses import replace

    card = vt.read("gpt2").bind(d=8, N=2, H=2, V=3, d_f=4)
    card = replace(card, vocabulary=("a", " Mary", "c"))
    run = card.run([1, 2], card.initial_weights(seed=1))
    e = run.expand('logits_{-1, " Mary"}', "head, source, path")
    assert arrows(e).of == run.draw(e).title == 'logits[−1, " Mary"]'
    nodes = arrows(run.expand("⟨U_0, x^2_0⟩", "source", directions="U_1")).nodes
    assert any('U[" Mary"]' in name for name in nodes)


def test_an_embedding_in_a_graph_is_that_of_the_token_at_its_position() -> None:
    graph = arrows(run_of("gpt2").expand("⟨U_3, norm(x^N_{-1})⟩", "sublayer", top=30))
    assert {"W_{E,t₃}", "W_{P,3}"} <= {*graph.nodes}


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "mixtral"])
def test_names_in_a_graph_stand_apart(name: str) -> None:
    import re

    run = run_of(name)
    graph = arrows(run.expand("⟨U_3, norm(x^N_{-1})⟩", "head, source, path", top=30))
    drawn = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>', arrows_svg(graph))
    places = [(float(x), float(y)) for x, y in drawn]
    width, height = (
        float(x) for x in re.findall(r'viewBox="0 0 (\d+) (\d+)"', arrows_svg(graph))[0]
    )
    assert len({*places}) == len(places) and len(places) > len(graph.nodes)
    assert all(0 < x < width and 0 < y < height for x, y in places)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_drawn_graph_loses_nothing(name: str) -> None:
    """What is drawn, folded and not listed is all that there is; TikZ draws the same arrows."""
    from viete.report.drawing.arrow_layout import ArrowLayout
    from viete.report.drawing.arrows_tikz import arrows_tikz

    e = run_of(name).expand("⟨U_3, norm(x^N_{-1})⟩", "head, source, path", top=40)
    graph, lay = arrows(e), ArrowLayout(arrows(e))
    drawn, every = sum(a.mass for a in lay.drawn), sum(a.mass for a in graph.arrows.values())
    assert drawn + sum(f.mass for f in lay.folded) == pytest.approx(every + e.hidden.size)
    assert sum(f.count for f in lay.folded) == (
        len(graph.arrows) - len(lay.drawn) + len(e.hidden.terms)
    )
    into = sum(a.value for a in graph.arrows.values() if a.end == graph.of)
    constant = sum(t.value for t in (*e.constants, *e.unopened))
    assert graph.hidden is not None
    assert into + graph.hidden.value + constant == pytest.approx(float(e.total))
    svg, tex = arrows_svg(graph), arrows_tikz(graph)
    assert svg.count("data-value") == len(lay.drawn) + len(lay.folded)
    assert tex.count(r".. controls") == len(lay.drawn)


def test_a_head_of_grouped_queries_is_one_head() -> None:
    card = tiny("llama").bind(H=4, G=2)
    run = card.with_weights(random_weights(card)).run([1, 3, 2])
    e = run.expand("logits_{-1,3}", into="block, head")
    by_label = {t.label: t for t in e}
    for i, h in ((1, 1), (1, 2), (1, 3), (2, 4)):
        wanted = f"A_{{-1}}^{{{i},{(h + 1) // 2},{(h + 1) % 2 + 1}}}"
        assert wanted in by_label[f"block {i}, head {h}"].expression


def test_what_a_change_puts_in_is_a_term_beside_those_of_the_blocks() -> None:
    """Of a row the condition is settled, so that the old value goes on into its own blocks."""
    card = vt.read("gpt2").bind(V=9, d=8, N=3, H=2, d_f=8, n_max=8)
    model = card.with_weights(random_weights(card, 2))
    changed = model.put("x^2_j = x^2_j + 4 W_E[3] for j ≥ 2", "A^{3,1} = 0")
    blocks = model.run([1, 2, 3, 4]).expand("logits_{-1, 4}")
    for row, more in ((-1, 1), (1, 0)):
        e = changed.run([1, 2, 3, 4]).expand(f"logits_{{{row}, 4}}")
        assert {t.label.split(",")[0] for t in e} == {t.label.split(",")[0] for t in blocks}
        assert sum("W_{E,3}" in t.expression for t in e.constants) == more
        assert not any("where" in t.expression or "table" in t.expression for t in e)
        assert e.held == ("scale",) and abs(e.rest) < 1e-12


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_paths_are_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many the largest are opened, and all terms add up to the same."""
    run, of, into = run_of(name, 3), "logits_{-1,1}", "head, source, path"

    def by_label(e: Expansion) -> dict[str, float]:
        found: dict[str, float] = {}
        for t in e:
            found[t.label] = found.get(t.label, 0.0) + float(t.value)
        return {label: value for label, value in found.items() if abs(value) > 1e-12}

    every = by_label(run.expand(of, into))
    monkeypatch.setattr("viete.ask.expansion.MOST", 10)
    some = run.expand(of, into)
    assert not some.note and by_label(some) == pytest.approx(every, abs=1e-12)
    monkeypatch.setattr("viete.ask.paths.OPENED", 2)
    few = run.expand(of, into, top=4)
    assert "terms of heads are not" in few.note and few.note in " ".join(str(few).split())
    assert sum(float(t.value) for t in few) == pytest.approx(float(few.total), abs=1e-12)
