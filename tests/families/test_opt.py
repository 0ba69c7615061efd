"""OPT: positions from 2, norms before or after, a narrow embedding, no biases, bare norms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.families.peers import Case, check, holds, network, tokens_of

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


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_transformers(case: Case, tmp_path: Path) -> None:
    check(case, SMALL, tmp_path)


@pytest.mark.parametrize("case", [CASES[0], CASES[2]], ids=str)
def test_claims(case: Case, tmp_path: Path) -> None:
    network(case, SMALL).save_pretrained(tmp_path)
    holds(tmp_path, tokens_of(case))
