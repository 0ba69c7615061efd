"""GPT-J: neighbouring columns turned together, on part of a head or all of it."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

KIND = "GPTJForCausalLM"
SMALL = {"n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 16, "rotary_dim": 4,
         "bos_token_id": 0, "eos_token_id": 0}  # fmt: skip
CASES = [
    Case(KIND),
    Case(KIND, {"rotary_dim": 6}, 16),
    Case(KIND, {"n_head": 3, "rotary_dim": 2, "n_layer": 3, "layer_norm_epsilon": 1e-2}),
    Case(KIND, {"n_inner": 20, "activation_function": "gelu"}),
    Case(KIND, {"tie_word_embeddings": True, "n_head": 1, "rotary_dim": 24}),
    Case(KIND, {"activation_function": "silu", "n_layer": 1}, 1),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[0])
