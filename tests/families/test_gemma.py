"""Gemma: scaled embedding, norms that scale by 1 + γ, heads wider than the stream, one group."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

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

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[0])
