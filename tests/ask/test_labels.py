"""What the axes of an answer are called: tokens at their places, words, heads, blocks."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from markdown_it import MarkdownIt

pytest.importorskip("tokenizers")

import viete as vt
from tests.ask.vocabularies import KINDS, reader, vocabulary
from viete.document.rendering import render
from viete.evaluate.answer_page import tokens_table
from viete.notation.words import quoted, unquoted
from viete.text.words import TokenizerWords

SENTENCE = "I live in Dublin"


@pytest.mark.parametrize("kind", KINDS)
def test_the_name_of_a_token_is_read_as_that_token(kind: str) -> None:
    words = TokenizerWords(vocabulary(kind))
    names = [words.name(k) for k in range(len(words))]
    assert all(name is not None and words.name(words[name]) == name for name in names)
    assert list(words) == names
    assert all(unquoted(quoted(name)) == name for name in names)
    assert words.name(len(words)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_labels_spell_the_text(kind: str) -> None:
    model = reader(kind)
    run = model.run(SENTENCE)
    ids, words = model.lens.to_tokens(SENTENCE)[0], model.words
    positions = [f"{j} {quoted(words.name(int(k)))}" for j, k in enumerate(ids)]
    scores = run.labels("logits")[-1]
    assert list(run.labels("logits")[0]) == positions
    assert len(scores) == len(words) + 3 and scores[-1] == str(len(scores) - 1)
    assert scores[:4] == [quoted(words.name(k)) for k in range(4)]
    spelled = "".join(words.name(int(k)) for k in ids)
    if kind != "wordpiece":
        assert spelled.lstrip() == SENTENCE


def test_labels_are_those_of_the_axes() -> None:
    run = reader("bytes").run([SENTENCE, SENTENCE])
    for question in ("A^{i,h}", "x^i", "A^{2,h}_{0}", "x^2_3", "W_E", "logits_3", "W_Q^{1,h}"):
        labels, value = run.labels(question), run[question]
        assert tuple(map(len, labels)) == np.shape(value)
        assert len(labels) == len(run.axes(question))
    assert list(run.labels("A^{2,h}")[1]) == ["1 = L1H0", "2 = L1H1"]
    assert list(run.labels("A^{i,h}")[1:3]) == [["1", "2"], ["1", "2"]]
    assert list(run.labels("x^i")[1]) == ["0", "1", "2"]
    assert list(run.labels("A^{1,1} - A^{2,h}")[1]) == ["1 = L1H0", "2 = L1H1"]
    assert list(run.labels("A^{1,h} - A^{2,h}")[1]) == ["1", "2"]
    assert list(run.labels("A^{1,h'}_{j,0}")[1]) == ["1 = L0H0", "2 = L0H1"]
    assert run.labels("A^{1,h'}_{j,0}")[2] == run.labels("x^1")[1]
    assert run.labels("logits_{-1,k}")[1][:5] == run.labels("logits")[2][:5]


def test_a_place_where_texts_differ_has_its_number_alone() -> None:
    run = reader("characters").run(["cat sat", "cat mat"])
    assert list(run.labels("x^1")[1])[3:6] == ['3 " "', "4", '5 "a"']


def test_heads_of_grouped_queries_count_on() -> None:
    card = vt.read("llama").bind(V=9, d=8, N=2, H=4, G=2, d_f=12, n_max=8)
    run = card.run([1, 2, 3], card.initial_weights(seed=0))
    assert run.labels("A^{2,2,r}")[0] == ["1 = L1H2", "2 = L1H3"]
    assert run.labels("K^{1,g}")[0] == ["1 = L0H0 to H1", "2 = L0H2 to H3"]
    assert run.labels("A^{2,g,r}")[:2] == (["1", "2"], ["1", "2"])


def test_a_card_s_own_words() -> None:
    card = vt.read("exact-lesson")
    run = card.run([0, 1], card.initial_weights())
    assert list(run.labels("logits")[0]) == ['0 "a"', '1 "b"']
    assert list(run.labels("logits")[1]) == ['"a"', '"b"', '"c"']


def test_the_words_of_one_model_are_not_another_s() -> None:
    """Runs of one card share what they have read, but no tokens."""
    card = reader("characters").card
    one, other = (card.with_weights(seed=0) for _ in range(2))
    one.__dict__["tokenizer"] = reader("characters").tokenizer
    with pytest.raises(vt.VieteError, match="there is no tokenizer; write the number"):
        other.run([1, 2])['W_E["a"]']
    k = one.words["a"]
    assert np.array_equal(one.run([1, 2])['W_E["a"]'], one.weights["W_E"][k])
    with pytest.raises(vt.VieteError, match="there is no tokenizer"):
        other.run([1, 2])['W_E["a"]']


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_in_words_reads_back(kind: str) -> None:
    run = reader(kind).run("I live")
    name = quoted(run.scope.words().name(7))
    for question, plain in (
        (f"\\overline{{{name}}} - U_5", f"U[{name}] - U[{quoted(run.scope.words().name(5))}]"),
        (f"<\\underline{{{name}}}, x^1_0>", f"<W_E[{name}], x_0^1>"),
        (f"logits_{{-1, {name}}}", f"logits[-1, {name}]"),
        (f"sum_{{j=0}}^1 (logits_{{j, {name}}})", f"sum_{{j=0}}^1 logits[j, {name}]"),
    ):  # fmt: skip
        assert run.in_words(question) == plain
        for style in ("plain", "latex", "unicode"):
            assert run.parse(run.in_words(question, style)) == run.parse(question)


def test_both_texts_of_an_encoder_and_a_decoder() -> None:
    sizes = {"d": 8, "N": 1, "N_e": 1, "H": 2, "d_k": 4, "d_f": 12, "n_max": 8}
    card = vt.read("t5").bind(V=5, **sizes)
    card = replace(card, vocabulary=("a", "b", "c", "d", "e"))
    run = card.run(s=[0, 1, 2], t=[3, 4], weights=card.initial_weights(seed=0))
    source, target = ['0 "a"', '1 "b"', '2 "c"'], ['0 "d"', '1 "e"']
    assert run.labels("x_e^1")[0] == source and run.labels("x^1")[0] == target
    assert run.labels("A_c^{1,h}")[1:] == (target, source)
    assert run.labels("A_c^{1,h}")[0] == ["1 = L0H0", "2 = L0H1"]


@pytest.mark.parametrize("token", ["`", "<|endoftext|>", "$", "*", "_a_", "a|b", "\\|"])
def test_a_table_shows_a_token_as_it_is(token: str) -> None:
    blocks = tokens_table([quoted("a"), quoted(token)])
    assert f" {quoted(token)}" in render(blocks, "text")
    page = MarkdownIt("commonmark").enable("table").render(render(blocks, "md"))
    cells = [unescape(re.sub("<.*?>", "", x)) for x in re.findall("<t[dh]>(.*?)</t[dh]>", page)]
    assert cells[-3:] == ["token", quoted("a"), quoted(token)]


def test_a_head_that_is_not_there_is_named_by_its_number() -> None:
    card = vt.read("llama").bind(V=9, d=8, N=2, H=4, G=2, d_f=12, n_max=8)
    with pytest.raises(vt.VieteError, match="index 5 is outside 1 to 4"):
        card.with_weights(seed=0).run([1, 2])["A^{1,5}"]
