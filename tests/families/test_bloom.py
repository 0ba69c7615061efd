"""BLOOM: ALiBi for any number of heads, the residual before or after the norm."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

KIND = "BloomForCausalLM"
SMALL = {"hidden_size": 24, "n_layer": 2, "n_head": 4}
CASES = [
    Case(KIND),
    Case(KIND, {"n_head": 3, "layer_norm_epsilon": 1e-2}, 16),
    Case(KIND, {"n_head": 12, "n_layer": 3}, 16),
    Case(KIND, {"n_head": 1}, 1),
    Case(KIND, {"n_head": 6, "apply_residual_connection_post_layernorm": True}),
    Case(KIND, {"tie_word_embeddings": False, "n_head": 8}),
    Case(KIND, {"slow_but_exact": True}),
    Case(KIND, {"slow_but_exact": True, "pretraining_tp": 2}),
    Case(KIND, {"pretraining_tp": 4}),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[0, 4])
