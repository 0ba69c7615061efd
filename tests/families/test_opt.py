"""OPT: positions from 2, norms before or after, a narrow embedding, no biases, bare norms."""

from __future__ import annotations

from tests.families.peers import Case, family_tests

KIND = "OPTForCausalLM"
SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 20,
         "max_position_embeddings": 16, "bos_token_id": 0, "eos_token_id": 0}  # fmt: skip
CASES = [
    Case(KIND),
    Case(KIND, {"num_attention_heads": 3, "num_hidden_layers": 3}, 16),
    Case(KIND, {"do_layer_norm_before": False, "word_embed_proj_dim": 10}),
    Case(KIND, {"word_embed_proj_dim": 10, "tie_word_embeddings": False}),
    Case(KIND, {"_remove_final_layer_norm": True}),
    Case(KIND, {"enable_bias": False, "activation_function": "gelu"}),
    Case(KIND, {"layer_norm_elementwise_affine": False}),
    Case(KIND, {"layer_norm_elementwise_affine": False, "do_layer_norm_before": False,
                "enable_bias": False, "num_attention_heads": 1}, 1),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[0, 2])
