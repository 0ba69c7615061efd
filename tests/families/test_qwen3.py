"""Qwen 3: queries and keys normed head by head, heads of any width, windows block by block."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

SMALL = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6, "head_dim": 8,
         "num_key_value_heads": 2, "intermediate_size": 20,
         "max_position_embeddings": 64}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0,
        "original_max_position_embeddings": 16}  # fmt: skip
CASES = [
    Case("Qwen3ForCausalLM"),
    Case("Qwen3ForCausalLM", {"tie_word_embeddings": True, "attention_bias": True}),
    Case("Qwen3ForCausalLM", {"use_sliding_window": True, "sliding_window": 4,
                              "max_window_layers": 1}, 9),
    Case("Qwen3ForCausalLM", {"hidden_size": 22, "num_attention_heads": 5, "head_dim": 6,
                              "num_key_value_heads": 1, "rms_norm_eps": 1e-2}),
    Case("Qwen3ForCausalLM", {"num_attention_heads": 3, "num_key_value_heads": 3,
                              "rope_parameters": YARN, "head_dim": 16}, 33),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[2])
