"""Phi: attention and MLP side by side, partial rotation, normed queries and keys."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
         "intermediate_size": 20, "max_position_embeddings": 64}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "partial_rotary_factor": 0.5,
        "original_max_position_embeddings": 16}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
          "partial_rotary_factor": 0.5}  # fmt: skip
CASES = [
    Case("PhiForCausalLM"),
    Case("PhiForCausalLM", {"qk_layernorm": True, "layer_norm_eps": 1e-2}),
    Case("PhiForCausalLM", {"hidden_size": 50, "num_attention_heads": 5,
                            "partial_rotary_factor": 0.4, "tie_word_embeddings": True}),
    Case("PhiForCausalLM", {"num_attention_heads": 6, "num_key_value_heads": 2,
                            "hidden_act": "gelu", "partial_rotary_factor": 1.0}),
    Case("PhiForCausalLM", {"rope_parameters": YARN, "hidden_size": 48}, 33),
    Case("PhiForCausalLM", {"rope_parameters": LLAMA3, "hidden_size": 48,
                            "hidden_act": "relu"}, 33),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[0])
