"""GPT-NeoX and Pythia: parallel or not, part of a head rotated, stretched, without biases, tied."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

KIND = "GPTNeoXForCausalLM"
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 128, "max_position_embeddings": 16}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
        "original_max_position_embeddings": 16, "partial_rotary_factor": 0.5}  # fmt: skip
LONG = {"max_position_embeddings": 64}
ODD = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 20,
       "num_hidden_layers": 3, "layer_norm_eps": 1e-2}  # fmt: skip
CASES = [
    Case(KIND),
    Case(KIND, {"use_parallel_residual": False}, 16),
    Case(KIND, ODD),
    Case(KIND, ODD | {"use_parallel_residual": False, "hidden_act": "gelu_fast"}),
    Case(KIND, {"rope_parameters": {"rope_theta": 500.0, "partial_rotary_factor": 0.5}}, 1),
    Case(KIND, {"rope_parameters": {"partial_rotary_factor": 1.0}, "num_attention_heads": 1}),
    Case(KIND, {"attention_bias": False, "tie_word_embeddings": True, "hidden_act": "relu"}),
    Case(KIND, LONG | {"rope_parameters": {"rope_type": "linear", "factor": 4.0}}, 20),
    Case(KIND, {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0,
                                   "partial_rotary_factor": 0.5}}, 16),
    Case(KIND, LONG | {"rope_parameters": LLAMA3 | {"partial_rotary_factor": 1.0}}, 33),
    Case(KIND, LONG | {"rope_parameters": YARN, "use_parallel_residual": False}, 33),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[0, 1])
