"""Words as vectors: bars, quotes and entries of the text, on every family, against the weights."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny
from viete.analysis.next_token import vocabulary_size
from viete.analysis.token_vectors import question_scope
from viete.errors import VieteError
from viete.notation.parser import parse
from viete.notation.printer import STYLES, show
from viete.notation.words import quoted

BERT = {"model_type": "bert", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 12, "type_vocab_size": 2,
        "layer_norm_eps": 1e-5, "max_position_embeddings": 8, "hidden_act": "gelu",
        "architectures": ["BertForMaskedLM"]}  # fmt: skip
T5 = {"model_type": "t5", "vocab_size": 9, "d_model": 8, "num_layers": 1, "num_decoder_layers": 1,
      "num_heads": 2, "d_kv": 4, "d_ff": 12, "relative_attention_num_buckets": 4,
      "relative_attention_max_distance": 6, "layer_norm_epsilon": 1e-6,
      "feed_forward_proj": "relu"}  # fmt: skip
MEMBERS = {
    "a masked BERT": ("bert", BERT),
    "an untied one": ("bert", BERT | {"tie_word_embeddings": False}),
    "T5 1.1": ("t5", T5 | {"tie_word_embeddings": False}),
}  # fmt: skip


def with_words(card: vt.Card, seed: int = 0) -> vt.Card:
    """The card with random words for all of its tokens."""
    rng, found = Random(seed), dict[str, None]()
    while len(found) < vocabulary_size(card):  # as many as there are tokens
        word = "".join(rng.choice("abcdeAB é日-;'") for _ in range(rng.randint(1, 6)))
        found[word.replace("'", "", word.count("'") - 1)] = None
    return replace(card, vocabulary=tuple(found))


def embedded(weights: dict[str, np.ndarray], k: int) -> np.ndarray:
    """The embedding of a token, by hand."""
    (name,) = weights.keys() & {"W_E", "E", "W_e"}
    return weights[name][k]


def unembedded(card: vt.Card, weights: dict[str, np.ndarray], k: int) -> np.ndarray:
    """The unembedding of a token, by hand."""
    own = weights.keys() & {"W_U", "W_out", "W_lm", "W_u", "W^out"}
    scale = float(card.sizes["d"]) ** -0.5 if card.title.startswith("T5") and not own else 1
    if not own:
        return embedded(weights, k) * scale
    (name,) = own
    rows = card.title.startswith("Pre-norm")  # W_U has the tokens' rows there
    return weights[name][k] if rows else weights[name][:, k]


def check(card: vt.Card) -> None:
    """Both vectors of some tokens, in several spellings."""
    card = with_words(card)
    weights: dict[str, Any] = random_weights(card, 3)
    run = card.run(None, weights, **random_inputs(card, 4))
    for k in (0, 1, len(card.vocabulary) - 1):
        word = card.vocabulary[k]
        for bar in (f"{{{word}}}", f"{{\\text{{{word}}}}}", f"{{{quoted(word)}}}"):
            assert np.array_equal(run[f"\\underline{bar}"], embedded(weights, k))
            assert np.array_equal(run[f"underline{bar}"], embedded(weights, k))
            if "logits" in run.program.computed:
                found, wanted = run[f"\\overline{bar}"], unembedded(card, weights, k)
                assert np.allclose(found, wanted, rtol=1e-14, atol=0)
            else:
                with pytest.raises(VieteError, match="none of its values scores the tokens"):
                    run[f"\\overline{bar}"]


@pytest.mark.parametrize(
    "path", [p for p in shipped() if "letters-table" not in p], ids=lambda p: Path(p).stem
)
def test_shipped_cards(path: str) -> None:
    check(tiny(path))


@pytest.mark.parametrize("member", MEMBERS)
def test_members_of_families(member: str) -> None:
    family, config = MEMBERS[member]
    check(vt.read(family, config=config))


# -- spellings -------------------------------------------------------------------------------------

CARD = vt.read("attention-only-2").bind(V=9, d=8, H=2, n_max=8)
PLAIN = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Mn"), exclude_characters='{}\\"'), min_size=1
)


@settings(max_examples=60)
@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), st.integers(0, 8))
def test_a_quoted_text_is_a_number(word: str, k: int) -> None:
    words = [f"{j}{word}" for j in range(9)]
    words[k] = word
    scope = question_scope(replace(CARD, vocabulary=tuple(words)))
    q = quoted(word)
    assert q.isprintable()
    for written, plain in (
        (f"W_E[{q}]", f"W_{{E,{k}}}"), (f"W_U[:, {q}]", f"W_U[:, {k}]"),
        (f"logits_{{-1, {q}}}", f"logits_{{-1,{k}}}"), (f"W_E_{{{q}}}", f"W_{{E,{k}}}"),
        (f"{q} + 1", f"{k} + 1"), (f"max(logits_0, {q})", f"max(logits_0, {k})"),
        (f"\\overline{{{q}}}", f"U_{k}"), (f"underline{{ {q} }}", f"W_{{E,{k}}}"),
    ):  # fmt: skip
        e = parse(written, scope)
        assert show(e) == plain
        assert all(parse(show(e, style), scope) == e for style in STYLES)


@settings(max_examples=60)
@given(PLAIN, st.sampled_from(("overline", "underline")))
def test_a_text_under_a_bar_is_taken_as_it_stands(word: str, bar: str) -> None:
    assume(not re.match(r"\s*\w+_.", word) and word.strip())
    scope = question_scope(replace(CARD, vocabulary=("x1", word)))
    expected = {"overline": "U_1", "underline": "W_{E,1}"}[bar]
    for text in (word, f"\\text{{{word}}}", f" \\mathrm{{{word}}} "):
        for written in (f"\\{bar}{{{text}}}", f"{bar} {{{text}}}"):
            assert show(parse(written, scope)) == expected, written
        assert show(parse(f"<\\{bar}{{{text}}}, x^0_{{-1}}>", scope)).startswith(f"<{expected}")


def test_what_stands_under_a_bar() -> None:
    scope = question_scope(replace(CARD, vocabulary=("a", " a", "5", "don't", "t", "{", "}")))
    for written, plain in {
        r"\overline{a}": "U_0", r"\overline{ a}": "U_1", r"\overline a": "U_0",
        "a\u0305": "U_0", "a\u0332": "W_{E,0}", r"\overline{5}": "U_2", r"U_5": "U_5",
        r"\underline{\text{don't}}": "W_{E,3}", r"\overline{t}": "U_4", r"\overline{\{}": "U_5",
        r"\overline{\text{\}}}": "U_6", r"\overline{a}_0": "U_0[0]",
        r"U_{\text{ a}}": "U_1", r"logits_{-1, \text{ a}}": "logits_{-1,1}",
        r"\text{logit}_{\text{ a}}(x^1_0)": "logit_1(x^1_0)",
        r"\underline{t_0}": "W_E[t[0]]", r"\underline{\text{token}_{-1}}": "W_E[t[-1]]",
        r"\overline{token_{1 + 1}}": "U[t[1 + 1]]", r"\overline{a} - \overline{ a}": "U_0 - U_1",
    }.items():  # fmt: skip
        assert parse(written, scope) == parse(plain, scope), written


def test_a_name_with_a_bar_is_that_name() -> None:
    text = CARD.write().replace(
        "- $U =", "- $\\overline{\\text{ublin}} = W_U[:, 3]$: a direction\n- $U ="
    )
    card = replace(vt.read(text), vocabulary=("ublin", "b"))
    scope = question_scope(card)
    for written in (r"\overline{ublin}", r"\overline{\text{ublin}}", "overline{ublin}"):
        assert show(parse(written, scope)) == "overline{ublin}"
    assert show(parse(r"\underline{ublin}", scope)) == "W_{E,0}"
    assert show(parse(r"\overline{b}", scope)) == "U_1"


@pytest.mark.parametrize(("written", "message"), [
    (r"\overline{cats", "this { is never closed"),
    (r"\overline", "a token must stand under the bar"),
    (r"\overline{}", "a token must stand under the bar"),
    (r"\overline{cat}", '"cat" is not a word of the vocabulary; did you mean "cats" or " cat"?'),
    (r"\overline{z}", '"z" is not a word of the vocabulary; it has cats'),
    (r'x^1_{\text{last}}', '"last" is not a word of the vocabulary'),
    ('x^1_{"cats"}', "a token cannot be an index here: this axis does not run over the vocabulary"),
    ('W_U["b", 0]', "a token cannot be an index here"),
    ('A^{1,h}_{0, "b"}', "a token cannot be an index here"),
    ('A^{1,"cats"}', "a token is neither a block nor a head"),
    ('W_E["cat]', "the notation has no character '\"' alone"),
    ('W_E["cats" "b"]', "two numbers stand side by side"),
])  # fmt: skip
def test_what_is_wrong(written: str, message: str) -> None:
    scope = question_scope(replace(CARD, vocabulary=("cats", " cat", "b")))
    with pytest.raises(VieteError, match=re.escape(message)):
        parse(written, scope)


def test_a_text_of_several_tokens_names_them() -> None:
    pytest.importorskip("tokenizers")
    from tests.ask.vocabularies import reader

    model = reader("bytes")
    run = model.run("I live in Dublin")
    with pytest.raises(
        VieteError, match='"Dublin" is 2 tokens and not one: "Du" "blin"; " Dublin" is one'
    ):
        run[r"\overline{Dublin}"]
    k = model.lens.to_single_token(" Dublin")
    assert np.array_equal(run[r"\overline{ Dublin}"], model.weights["W_E"][k])
    assert np.array_equal(run['logits_{-1, " Dublin"}'], run["logits"][-1, k])
    only = model.run("I live", names=['logits_{-1, " Dublin"}', r"⟨\overline{ Mary}, x^1_0⟩"])
    assert np.array_equal(
        only['logits_{-1, " Dublin"}'], model.run("I live")[f"logits_{{-1, {k}}}"]
    )


def test_a_word_beside_a_second_run_is_one_of_the_first() -> None:
    card, other = with_words(CARD, 1), with_words(CARD, 2)
    weights = card.initial_weights(seed=0)
    one, two = card.run([1, 2, 3], weights), other.run([3, 4, 5], weights)
    word = card.vocabulary[4]
    found = one.ask(f"<\\overline{{{word}}}, x^1_0 - x'^1_0> * a", against=two, a=2.0)
    wanted = 2 * weights["W_U"][:, 4] @ (one["x^1_0"] - two["x^1_0"])
    assert np.allclose(found, wanted, rtol=1e-12)


def test_words_in_what_is_put_derived_and_claimed() -> None:
    pytest.importorskip("tokenizers")
    from tests.ask.vocabularies import reader

    model = reader("bytes", "attention-only-2", d=4)
    k, run = model.words[" Mary"], model.run("I live")
    named = model.put(r"mary = \overline{ Mary}").run("I live")
    assert np.array_equal(named["<mary, x^2_1>"], run[r"<\overline{ Mary}, x^2_1>"])
    derived = model.grad(of='logits_{-1, " Mary"}', by=["W_U"]).run("I live")["∂W_U"]
    assert np.array_equal(derived[:, k], run["x^2_{-1}"])
    claims = model.check(r"logits_{j, \text{ Mary}} = <\overline{ Mary}, x^2_j>")
    assert claims.ok


# -- cards of one's own ----------------------------------------------------------------------------

OWN = """# Own
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $d$ | 4 |
| $r$ | 2 |
| $n$ | $≤ 8$ |
## Inputs
- $t ∈ \\{0, …, V-1\\}^n$
## Parameters
| symbol | shape |
| --- | --- |
| $A$ | $V × r$ |
| $B$ | $r × d$ |
| $W$ | $d × r$ |
| $C$ | $r × V$ |
| $b$ | $V$ |
| $s$ | $1$ |
## Forward pass
1. $F = A B$
2. $z = tanh(F[t])$
3. $y = OUT$
4. $logits = LAST$
"""


@pytest.mark.parametrize(("out", "last", "by_hand"), [
    ("z W C", "softcap(y + b; 2)", "W C"), ("(C^⊤ W^⊤ z^⊤)^⊤", "y + b", "W C"),
    ("z (W C)", "3 * y", "W C"), ("z", "y (A B)^⊤ + b", "(A B)^⊤"),
    ("tanh(z W)", "y C / 2", "C"),
])  # fmt: skip
def test_the_unembedding_is_found_by_what_makes_the_scores(
    out: str, last: str, by_hand: str
) -> None:
    card = vt.read(OWN.replace("OUT", out).replace("LAST", last))
    run = card.run([1, 2, 3], card.initial_weights(seed=0))
    matrix = run[by_hand]
    scope = question_scope(replace(card, vocabulary=tuple("abcde")))
    for k, word in enumerate("abcde"):
        e = parse(f"\\overline{{{word}}}", scope)
        assert np.allclose(run[show(e)], matrix[:, k], rtol=1e-14, atol=0)
        assert parse(show(e), card.scope) == e
        assert show(parse(f"\\underline{{{word}}}", scope)) == f"A_{k}"


def test_a_card_without_such_vectors_says_so() -> None:
    entries = "tanh(table_{j<n, v<V}(sum_{c=0}^{1}(b_v * z_{j,c})))"
    for last, message in (("z", "none of its values scores the tokens"), (entries, "no product")):
        card = vt.read(OWN.replace("OUT", "z").replace("LAST", last))
        with pytest.raises(VieteError, match=message):
            parse(r"\overline{a}", question_scope(replace(card, vocabulary=("a",))))
