"""OLMo: norms that learn nothing, clipped queries, keys and values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.families.peers import Case, check, holds, network, tokens_of

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
         "intermediate_size": 20, "max_position_embeddings": 64, "eos_token_id": 2}  # fmt: skip
LINEAR = {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0}
CASES = [
    Case("OlmoForCausalLM"),
    Case("OlmoForCausalLM", {"clip_qkv": 0.7}),
    Case("OlmoForCausalLM", {"tie_word_embeddings": True, "num_key_value_heads": 2}),
    Case("OlmoForCausalLM", {"hidden_size": 20, "num_attention_heads": 5, "clip_qkv": 8.0,
                             "attention_bias": True}),
    Case("OlmoForCausalLM", {"num_attention_heads": 3, "rope_parameters": LINEAR}, 33),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_transformers(case: Case, tmp_path: Path) -> None:
    check(case, SMALL, tmp_path)


def test_claims(tmp_path: Path) -> None:
    network(CASES[1], SMALL).save_pretrained(tmp_path)
    holds(tmp_path, tokens_of(CASES[1]))
