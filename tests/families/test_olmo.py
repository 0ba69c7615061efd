"""OLMo: norms that learn nothing, clipped queries, keys and values."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

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

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[1])
