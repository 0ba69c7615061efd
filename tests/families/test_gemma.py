"""Gemma: scaled embedding, norms that scale by 1 + γ, heads wider than the stream, one group."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.families.peers import Case, check, holds, network, tokens_of

SMALL = {"hidden_size": 22, "num_hidden_layers": 2, "num_attention_heads": 6, "head_dim": 8,
         "num_key_value_heads": 2, "intermediate_size": 20,
         "max_position_embeddings": 64}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip
CASES = [
    Case("GemmaForCausalLM"),
    Case("GemmaForCausalLM", {"num_key_value_heads": 1, "attention_bias": True}),
    Case("GemmaForCausalLM", {"tie_word_embeddings": False, "hidden_act": "gelu"}),
    Case("GemmaForCausalLM", {"hidden_size": 15, "num_attention_heads": 5, "head_dim": 2,
                              "num_key_value_heads": 5, "rms_norm_eps": 1e-2}),
    Case("GemmaForCausalLM", {"rope_parameters": LLAMA3, "head_dim": 16}, 33),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_transformers(case: Case, tmp_path: Path) -> None:
    check(case, SMALL, tmp_path)


def test_claims(tmp_path: Path) -> None:
    network(CASES[0], SMALL).save_pretrained(tmp_path)
    holds(tmp_path, tokens_of(CASES[0]))
