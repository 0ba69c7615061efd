"""Mistral: a sliding window or none, heads of any width, stretched rotation, tied unembedding."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
         "num_key_value_heads": 2, "intermediate_size": 20,
         "max_position_embeddings": 64}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
        "original_max_position_embeddings": 16}  # fmt: skip
CASES = [
    Case("MistralForCausalLM"),
    Case("MistralForCausalLM", {"sliding_window": 3}, 9),
    Case("MistralForCausalLM", {"sliding_window": None, "head_dim": 10}),
    Case("MistralForCausalLM", {"hidden_size": 20, "num_attention_heads": 5,
                                "num_key_value_heads": 5, "tie_word_embeddings": True,
                                "sliding_window": 1}),
    Case("MistralForCausalLM", {"num_attention_heads": 3, "num_key_value_heads": 1,
                                "rms_norm_eps": 1e-2, "sliding_window": 20}, 33),
    Case("MistralForCausalLM", {"rope_parameters": YARN, "head_dim": 16, "sliding_window": 5}, 33),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[1])
