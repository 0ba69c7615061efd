"""BERT: with and without the pooler, each head of pretraining, as a decoder, and old spellings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.families.peers import (
    Case,
    by_block,
    check,
    family_tests,
    network,
    relative,
    tokens_of,
    torch,
)
from viete.errors import VieteError

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 20, "max_position_embeddings": 16}  # fmt: skip
CASES = [
    Case("BertModel"),
    Case("BertModel", {"num_attention_heads": 3, "hidden_act": "relu", "type_vocab_size": 3}, 16),
    Case("BertModel", {"hidden_act": "gelu_new", "num_hidden_layers": 3}, 1),
    Case("BertForMaskedLM"),
    Case("BertForMaskedLM", {"hidden_size": 20, "num_attention_heads": 5, "layer_norm_eps": 1e-2,
                             "hidden_act": "silu"}),
    Case("BertForPreTraining", {"num_attention_heads": 1, "num_hidden_layers": 1}),
    Case("BertLMHeadModel", {"is_decoder": True}),
]  # fmt: skip


def encoder(net: Any, tokens: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Whatever the class gives, with padding and two segments."""
    rng = np.random.default_rng(5)
    a = (np.arange(tokens.shape[1]) < rng.integers(1, tokens.shape[1] + 1, (len(tokens), 1))) * 1
    s = rng.integers(0, net.config.type_vocab_size, tokens.shape)
    out = net(
        torch.as_tensor(tokens), attention_mask=torch.as_tensor(a),
        token_type_ids=torch.as_tensor(s), output_hidden_states=True, output_attentions=True,
    )  # fmt: skip
    values = by_block("resid_pre", out.hidden_states, "A", out.attentions)
    values[f"resid_post^{net.config.num_hidden_layers}"] = out.hidden_states[-1]
    names = {"pooler_output": "pooled", "logits": "logits", "prediction_logits": "logits",
             "seq_relationship_logits": "next"}  # fmt: skip
    return values | {names[k]: v for k, v in out.items() if k in names}, {"a": a, "s": s}


test_against_transformers, test_claims = family_tests(CASES, SMALL, [3], encoder)


def test_an_unembedding_of_its_own(tmp_path: Path) -> None:
    """The bias beside the untied matrix does nothing there, and is passed over."""
    case = Case("BertForMaskedLM", {"tie_word_embeddings": False})
    check(case, SMALL, tmp_path, encoder, spare=29)


def test_without_the_pooler(tmp_path: Path) -> None:
    net = network(CASES[0], SMALL)
    net.pooler = None
    net.save_pretrained(tmp_path)
    names = [e.name for e in vt.load(tmp_path).card.equations]
    assert "pooled" not in names
    assert names[-1] == "x^i"


def test_as_the_hub_has_it(tmp_path: Path) -> None:
    """bert-base-uncased: all heads in one file, norms spelled gamma and beta, a stray buffer."""
    net, tokens = network(Case("BertForPreTraining"), SMALL), tokens_of(CASES[0])
    net.config.architectures = ["BertForMaskedLM"]
    net.config.save_pretrained(tmp_path)
    state = {
        k.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): v
        for k, v in net.state_dict().items()
    }  # fmt: skip
    state["bert.embeddings.position_ids"] = torch.arange(16)[None]
    torch.save(state, tmp_path / "pytorch_model.bin")
    with torch.no_grad():
        theirs = net(torch.as_tensor(tokens))
    run = vt.load(tmp_path).run(tokens)
    assert relative(run["logits"], theirs.prediction_logits) <= 1e-10
    assert relative(run["next"], theirs.seq_relationship_logits) <= 1e-10


@pytest.mark.parametrize("key, value", [
    ("position_embedding_type", "relative_key"), ("hidden_act", "mish"),
    ("add_cross_attention", True), ("architectures", ["BertForTokenClassification"]),
])  # fmt: skip
def test_what_the_card_does_not_say(key: str, value: Any, tmp_path: Path) -> None:
    network(CASES[0], SMALL).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(VieteError, match=key):
        vt.load(tmp_path)
