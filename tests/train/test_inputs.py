"""What a card takes for learning, read off its equations; and cards made to fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.laws.strategies import shipped
from viete.cards.catalogue import find
from viete.errors import VieteError
from viete.text.vocabulary import Characters
from viete.train.fitting import with_loss, with_loss_weights, with_vocabulary, with_words
from viete.train.inputs import training_inputs

DIALOG = Path(find("dialog-transformer")).read_text("utf-8")
LOSS = "cross_entropy(logits; y)"
TARGETS = "- $y ∈ \\{0, …, V-1\\}^n$: targets: the next characters\n"


def card(loss: str = LOSS, inputs: str = TARGETS, functions: str = "") -> vt.Card:
    assert TARGETS in DIALOG and LOSS in DIALOG
    text = DIALOG.replace(LOSS, loss).replace(TARGETS, inputs)
    if functions:
        text = text.replace("## Forward pass", f"## Functions\n\n{functions}\n\n## Forward pass")
    return vt.read(text)


def test_the_dialog_transformer() -> None:
    found = training_inputs(vt.read("dialog-transformer"))
    assert (found.tokens, found.targets, found.weights) == ("t", "y", None)
    assert (found.context, found.vocabulary, found.fixed, found.padded) == (512, 37, False, False)
    assert training_inputs(with_loss_weights(vt.read("dialog-transformer"))).padded


REFUSED = dict.fromkeys(("bert", "roberta"), "no logits to make one from")
REFUSED |= dict.fromkeys(("transformer-2017", "t5"), "needs its input t")


@pytest.mark.parametrize("name", [Path(path).stem for path in shipped()])
def test_shipped_cards(name: str) -> None:
    """Every card that is fed by one text can be trained, and weighted, and is still a card."""
    model = vt.read(name)
    if name in REFUSED:
        with pytest.raises(VieteError, match=REFUSED[name]):
            training_inputs(with_loss(model))
        return
    made = with_loss_weights(with_vocabulary(with_loss(model), 100))
    found = training_inputs(made)
    assert found.targets is not None and found.weights is not None and found.optional
    assert found.vocabulary == 100 and found.padded == (name not in SEE_ALL)
    assert vt.read(made.write()) == made


SEE_ALL = {"formal-encoder", "symbolic-transformer", "letters-attention"}

M = "- $m ∈ \\{0, 1\\}^n$: where the loss counts\n"
BY_HAND = [
    "weighted_loss(logits; y, m)",
    "-sum(m ⊙ table_{j<n}(logsoftmax(logits)_{j,y_j})) / sum(m)",
    "nll(logits; y, m)",
]


@pytest.mark.parametrize("loss", BY_HAND)
@pytest.mark.parametrize("kind", [M, M.replace("\\{0, 1\\}", "ℝ")])
def test_weights_however_they_are_written(loss: str, kind: str) -> None:
    own = "- $nll(z: n × V; t, m) = -sum_{j=0}^{n - 1}(m_j * logsoftmax(z)_{j,t_j}) / sum(m)$"
    model = card(loss, TARGETS + kind, own if "nll" in loss else "")
    found = training_inputs(model)
    assert (found.targets, found.weights, found.optional) == ("y", "m", False)
    assert with_loss_weights(model) is model
    rng = np.random.default_rng(0)
    t, y = rng.integers(0, 37, (2, 4, 9))
    m = rng.integers(0, 2, (4, 9)) | (np.arange(9) == 3)
    weights = model.initial_weights(0)
    plain = card()
    wanted = with_loss_weights(plain).run(t, weights, y=y, w=m)["L"]
    np.testing.assert_allclose(model.run(t, weights, y=y, m=m)["L"], wanted, rtol=1e-12)


def test_weights_of_one_are_the_plain_loss() -> None:
    plain = card()
    model = with_loss_weights(plain)
    rng = np.random.default_rng(0)
    t, y = rng.integers(0, 37, (2, 4, 9))
    weights = model.initial_weights(0)
    wanted = plain.run(t, weights, y=y)["L"]
    np.testing.assert_allclose(model.run(t, weights, y=y)["L"], wanted, rtol=1e-12)
    np.testing.assert_allclose(
        model.grad().run(t, weights, y=y)["∂W_Q"], plain.grad().run(t, weights, y=y)["∂W_Q"],
        rtol=1e-9, atol=1e-15,
    )  # fmt: skip


def test_a_padding_mask_is_no_weight() -> None:
    """What a position may see is used before the targets are, so it is not the loss's."""
    text = DIALOG.replace(TARGETS, TARGETS + "- $a ∈ \\{0, 1\\}^n = 1$: who is seen\n")
    model = vt.read(text.replace("causal(S)", "visible(S; a)"))
    assert training_inputs(model).weights is None


def test_a_loss_that_shifts_by_itself() -> None:
    model = card("cross_entropy(logits[:n-1]; t[1:])", "")
    assert (training_inputs(model).targets, training_inputs(model).padded) == (None, False)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (vt.read("pythia"), None),
        (vt.read("gpt2"), "GPT-2 has no loss to train by"),
        (card(inputs=TARGETS + "- $z ∈ ℝ^{n × d}$\n"), "needs its input z"),
        (card("<q, q>", "- $q ∈ ℝ^n$: a vector\n"), "needs its input q"),
    ],
)
def test_what_text_cannot_train(model: vt.Card, message: str | None) -> None:
    if message is None:
        training_inputs(with_loss(model))
        return
    with pytest.raises(VieteError, match=message):
        training_inputs(model)


def test_vocabularies() -> None:
    model = vt.read("dialog-transformer")
    other = with_vocabulary(model, 30)
    assert training_inputs(other).vocabulary == 30
    # What the card said of its own vocabulary is not said of another.
    meant = {m.sizes["V"]: d.meaning for m in (model, other) for d in m.dims if d.name == "V"}
    assert meant[30] == "vocabulary of the training data" != meant[model.sizes["V"]]
    assert with_vocabulary(model, int(model.sizes["V"])) == model
    fixed = vt.read(DIALOG.replace("V-1", "36"))
    assert with_vocabulary(fixed, 37) == fixed
    with pytest.raises(VieteError, match="has a vocabulary of 37, and the data one of 30"):
        with_vocabulary(fixed, 30)


def test_words_of_a_card_stay_where_they_are_the_tokens() -> None:
    learned = vt.read("letters-learned")
    assert with_words(learned, Characters("abcdefgh")) == learned
    assert with_words(learned, Characters(" abcdefgh")).vocabulary == ()


def test_a_loss_of_its_own_kind_cannot_be_weighted() -> None:
    model = card("-mean(table_{j<n}(logsoftmax(logits)_{j,y_j}))")
    assert training_inputs(model).targets == "y"
    with pytest.raises(VieteError, match="cannot choose which positions count: its loss is L ="):
        with_loss_weights(model)
