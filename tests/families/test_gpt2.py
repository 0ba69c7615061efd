"""GPT-2: activations, scores divided in four ways, an unembedding of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.families.peers import Case, check, holds, network, tokens_of

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


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_transformers(case: Case, tmp_path: Path) -> None:
    check(case, SMALL, tmp_path)


def test_claims(tmp_path: Path) -> None:
    network(CASES[0], SMALL).save_pretrained(tmp_path)
    holds(tmp_path, tokens_of(CASES[0]))
