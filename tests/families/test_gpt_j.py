"""GPT-J: neighbouring columns turned together, on part of a head or all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.families.peers import Case, check, holds, network, tokens_of

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


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_transformers(case: Case, tmp_path: Path) -> None:
    check(case, SMALL, tmp_path)


def test_claims(tmp_path: Path) -> None:
    network(CASES[0], SMALL).save_pretrained(tmp_path)
    holds(tmp_path, tokens_of(CASES[0]))
