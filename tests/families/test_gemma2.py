"""Gemma 2: norms before and after, soft caps or none, windows by turns or as listed."""

from __future__ import annotations

import json
from pathlib import Path

import viete as vt
from tests.families.peers import Case, family_tests, network, tokens_of

SMALL = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6, "head_dim": 8,
         "num_key_value_heads": 2, "intermediate_size": 20, "max_position_embeddings": 64,
         "sliding_window": 4, "query_pre_attn_scalar": 6}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0,
        "original_max_position_embeddings": 16}  # fmt: skip
LISTED = ["full_attention", "full_attention", "sliding_attention"]
CASES = [
    Case("Gemma2ForCausalLM", {}, 9),
    Case("Gemma2ForCausalLM", {"attn_logit_softcapping": None, "tie_word_embeddings": False}),
    Case("Gemma2ForCausalLM", {"final_logit_softcapping": None, "attention_bias": True,
                               "attn_logit_softcapping": 2.0}),
    Case("Gemma2ForCausalLM", {"hidden_size": 15, "num_attention_heads": 5, "head_dim": 4,
                               "num_key_value_heads": 1, "final_logit_softcapping": 3.5}),
    Case("Gemma2ForCausalLM", {"layer_types": LISTED, "sliding_window": 2,
                               "num_attention_heads": 3, "num_key_value_heads": 3}, 9),
    Case("Gemma2ForCausalLM", {"rope_parameters": YARN, "head_dim": 16,
                               "query_pre_attn_scalar": 64}, 33),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[0])


def test_a_config_without_a_list_takes_turns(tmp_path: Path) -> None:
    network(CASES[0], SMALL).save_pretrained(tmp_path)
    listed = vt.load(tmp_path).run(tokens_of(CASES[0]))["logits"]
    config = json.loads((tmp_path / "config.json").read_text())
    del config["layer_types"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert abs(vt.load(tmp_path).run(tokens_of(CASES[0]))["logits"] - listed).max() <= 1e-12
