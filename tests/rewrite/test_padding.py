"""Padded models against `transformers`' attention_mask, and against texts without padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import viete as vt
from tests.laws.strategies import Card, cards, random_inputs, shipped, tiny
from viete.analysis.next_token import text_of
from viete.errors import VieteError

LLAMA = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
         "num_key_value_heads": 2, "intermediate_size": 20}  # fmt: skip
NEOX = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "rotary_pct": 0.5,
        "intermediate_size": 20}  # fmt: skip
GPT2 = {"n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 16}
NEO = {"hidden_size": 24, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 16,
       "attention_types": [[["global", "local"], 1]], "intermediate_size": 20}  # fmt: skip
MISTRAL = {**LLAMA, "sliding_window": 4}
BLOOM = {"hidden_size": 24, "n_layer": 2, "n_head": 4}
OPT = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 20,
       "max_position_embeddings": 16, "word_embed_proj_dim": 24}  # fmt: skip
CASES = [("LlamaForCausalLM", LLAMA), ("GPT2LMHeadModel", GPT2), ("GPTNeoXForCausalLM", NEOX),
         ("MistralForCausalLM", MISTRAL), ("BloomForCausalLM", BLOOM),
         ("OPTForCausalLM", OPT), ("GPTNeoForCausalLM", NEO)]  # fmt: skip
# Families whose bare forward pass counts padding as a position, and whose `generate` does not.
COUNTS = ("GPT2LMHeadModel", "GPTNeoForCausalLM")


def masks(n: int) -> dict[str, np.ndarray]:
    """Padding behind the texts, and before them."""
    lengths = np.array([[n], [3], [1], [5]])
    return {"right": (np.arange(n) < lengths) * 1, "left": (np.arange(n)[::-1] < lengths) * 1}


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind, small", CASES, ids=[k for k, _ in CASES])
def test_against_transformers(kind: str, small: dict[str, Any], side: str, tmp_path: Path) -> None:
    peers = pytest.importorskip("tests.families.peers")
    net = peers.network(peers.Case(kind), small)
    net.save_pretrained(tmp_path)
    a = masks(7)[side]
    tokens = np.random.default_rng(3).integers(1, 29, a.shape)
    model = vt.load(tmp_path)
    places = peers.torch.as_tensor(np.maximum(a.cumsum(1) - 1, 0))  # as `generate` gives them
    for counts in (False, True) if kind in COUNTS else (False,):
        more = {"position_ids": places} if kind in COUNTS and not counts else {}
        with peers.torch.no_grad(), peers.doubled(type(net)):
            theirs = net(
                peers.torch.as_tensor(tokens), attention_mask=peers.torch.as_tensor(a), **more
            ).logits.numpy()
        found = model.card.padded(counts).run(tokens, model.weights, a=a)["logits"]
        assert np.all(np.isfinite(found))
        assert peers.relative(found[a == 1], theirs[a == 1]) <= 1e-10, counts


OWN = ("bert.md", "roberta.md")  # a mask of their own
NO_ATTENTION = ("letters-table.md", "letters-vectors.md")
HIDE = [p for p in shipped() if not p.endswith(OWN + NO_ATTENTION)]


@pytest.mark.parametrize("path", HIDE, ids=lambda p: Path(p).stem)
def test_what_is_padding_changes_nothing(path: str) -> None:
    """The shipped cards, with other tokens where there is padding."""
    hides_padding(tiny(path))


@settings(max_examples=8, deadline=None)
@given(cards())
def test_random_cards(card: Card) -> None:
    if card.model.inputs and card.causal:
        try:
            card.model.padded()
        except VieteError:
            return
        hides_padding(card.model, 4)


def hides_padding(model: vt.Card, seed: int = 3) -> None:
    """Values at other positions do not depend on it; without any, all is as it was."""
    made, tokens = model.padded(), text_of(model).name
    given = random_inputs(model, seed)
    rng = np.random.default_rng(seed)
    weights = {k: rng.normal(0, 0.5, s) for k, s in model.parameter_shapes.items()}
    plain, none = (m.run(None, weights, **given) for m in (model, made))
    last = [e.name for e in model.equations if not e.left.symbol.slots][-1]
    np.testing.assert_allclose(none[last], plain[last], rtol=1e-12, atol=1e-12)
    n = len(given[tokens])
    a = np.ones(n, int)
    a[n // 2] = 0
    other = np.where(a == 1, given[tokens], (given[tokens] + 1) % 2)
    name = next(i.name for i in made.inputs if i not in model.inputs)
    one, two = (
        np.asarray(made.run(None, weights, **{**given, name: a, tokens: t})["logits"])
        for t in (given[tokens], other)
    )
    np.testing.assert_allclose(one[a == 1], two[a == 1], rtol=1e-9, atol=1e-9)


def test_a_padded_card_is_a_card_and_has_a_cache() -> None:
    for name in "llama", "gemma2", "bloom", "opt":
        model = tiny(next(p for p in shipped() if p.endswith(f"/{name}.md"))).padded()
        assert vt.read(model.write()) == model
        assert "a_past" in {i.name for i in model.incremental().inputs}


@pytest.mark.parametrize("card, why", [
    ("bert", "already has a padding mask"), ("dialog-norm", None),
])  # fmt: skip
def test_what_cannot_be_padded(card: str, why: str | None) -> None:
    model = vt.read(card)
    if why is None:
        model = model.padded()
        why = "already has a padding mask"
    with pytest.raises(VieteError, match=why):
        model.padded()
