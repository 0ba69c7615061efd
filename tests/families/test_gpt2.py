"""GPT-2: activations, scores divided in four ways, an unembedding of its own."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

KIND = "GPT2LMHeadModel"
SMALL = {"n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 16, "bos_token_id": 0,
         "eos_token_id": 0}  # fmt: skip
CASES = [
    Case(KIND),
    Case(KIND, {"n_head": 3, "n_inner": 40, "n_layer": 3, "layer_norm_epsilon": 1e-2}),
    Case(KIND, {"n_head": 1, "activation_function": "gelu_pytorch_tanh"}, 16),
    Case(KIND, {"n_layer": 1, "scale_attn_by_inverse_layer_idx": True}, 1),
    Case(KIND, {"scale_attn_weights": False, "activation_function": "relu"}),
    Case(KIND, {"scale_attn_by_inverse_layer_idx": True, "n_layer": 3}),
    Case(KIND, {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False,
                "n_layer": 3}),
    Case(KIND, {"tie_word_embeddings": False, "activation_function": "gelu"}),
    *(Case(KIND, {"activation_function": name, "n_layer": 1})
      for name in ("silu", "tanh", "gelu_fast", "quick_gelu", "relu2")),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[0])
