"""T("…") is the last residual vector of a run of the same model on that text."""

from __future__ import annotations

import numpy as np
import pytest

import viete as vt

pytest.importorskip("tokenizers")

from tests.ask.vocabularies import reader


def test_a_text_stands_for_its_last_residual_vector() -> None:
    model = reader("bytes")
    run, other = model.run("I live in D"), model.run("Mary lives in L")
    wanted = other["x^N"][-1]
    np.testing.assert_allclose(run['T("Mary lives in L")'], wanted)
    np.testing.assert_allclose(run['cos(T("I live in D"), x^N_{-1})'], 1)
    both = run.ask('⟨T("Mary lives in L") - T("I live in D"), probe⟩', probe=np.ones(8))
    terms = run.expand('⟨T("Mary lives in L"), x^N_{-1}⟩', "sublayer").terms
    assert all(t.expression.startswith('<T("Mary lives in L"), ') for t in terms)
    assert float(run[terms[0].expression]) == pytest.approx(float(terms[0].value))
    own = run["x^N"][-1]
    np.testing.assert_allclose(both, (wanted - own).sum(), atol=1e-12)
    np.testing.assert_allclose(np.squeeze(run['logits(T("Mary lives in L"))']), other["logits"][-1])
    bounds = model.run("I live in D", meaning="interval")['T("Mary lives in L")']
    assert (bounds["lower"] <= wanted).all() and (wanted <= bounds["upper"]).all()


def test_a_decoder_s_last_stream_is_that_of_the_card() -> None:
    model = reader("bytes", "llama", d=16, G=1, d_k=4, d_f=8)
    run = model.run("I live")
    np.testing.assert_allclose(run['T("I live")'], run["x^N"][-1])


def test_what_has_no_text_says_so() -> None:
    model = reader("bytes")
    with pytest.raises(vt.VieteError, match="a text without tokens"):
        model.run("I live")['T("")']
    with pytest.raises(vt.VieteError, match="needs a model with a tokenizer"):
        model.card.run([1, 2], model.weights)['T("I")']


def test_a_claim_names_its_tokens() -> None:
    model = reader("bytes")
    claims = 'logits_{-1, " in"} ≤ 99', 'U_{" in"} = U_{" in"} and |U_{" in"}| > 90'
    said = str(model.check(*claims, texts=["I live in D"]))
    assert '  holds   logits[−1, " in"] ≤ 99' in said
    assert '✗ false   U[" in"] = U[" in"] and |U[" in"]| > 90' in said
    assert '          |U[" in"]| > 90: left' in said
