"""OLMo 2: norms of what is written, and of the queries and keys of all heads together."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
         "intermediate_size": 20, "max_position_embeddings": 64, "eos_token_id": 2}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
        "original_max_position_embeddings": 16}  # fmt: skip
CASES = [
    Case("Olmo2ForCausalLM"),
    Case("Olmo2ForCausalLM", {"num_key_value_heads": 2, "rms_norm_eps": 1e-2}),
    Case("Olmo2ForCausalLM", {"tie_word_embeddings": True, "attention_bias": True}),
    Case("Olmo2ForCausalLM", {"hidden_size": 20, "num_attention_heads": 5,
                              "num_key_value_heads": 1}),
    Case("Olmo2ForCausalLM", {"hidden_size": 48, "num_attention_heads": 3,
                              "rope_parameters": YARN}, 33),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[1])
