"""Llama 1, 2 and 3: grouped queries, stretched rotation, biases, tied unembedding."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
         "num_key_value_heads": 2, "intermediate_size": 20,
         "max_position_embeddings": 64}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip
CASES = [
    Case("LlamaForCausalLM"),
    Case("LlamaForCausalLM", {"tie_word_embeddings": True, "num_key_value_heads": 6}),
    Case("LlamaForCausalLM", {"attention_bias": True, "mlp_bias": True, "head_dim": 10}),
    Case("LlamaForCausalLM", {"hidden_size": 20, "num_attention_heads": 5,
                              "num_key_value_heads": 1, "rms_norm_eps": 1e-2}),
    Case("LlamaForCausalLM", {"rope_parameters": LLAMA3, "head_dim": 16}, 33),
    Case("LlamaForCausalLM", {"rope_parameters": {"rope_type": "linear", "factor": 4.0,
                                                  "rope_theta": 100.0}}, 20),
    # Up to the context, which is the card's limit, it is the plain rotation.
    Case("LlamaForCausalLM", {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0,
                                                  "rope_theta": 100.0}}, 20),
    Case("LlamaForCausalLM", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0,
                              "rope_theta": 100.0, "original_max_position_embeddings": 16},
                              "head_dim": 16}, 33),
    Case("LlamaForCausalLM", {"rope_parameters": {"rope_type": "yarn", "factor": 0.5,
                              "rope_theta": 100.0, "original_max_position_embeddings": 32}}, 33),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[0])
