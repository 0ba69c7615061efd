"""BLOOM: ALiBi for any number of heads, the residual before or after the norm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.families.peers import Case, check, holds, network, tokens_of

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


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_transformers(case: Case, tmp_path: Path) -> None:
    check(case, SMALL, tmp_path)


@pytest.mark.parametrize("case", [CASES[0], CASES[4]], ids=str)
def test_claims(case: Case, tmp_path: Path) -> None:
    network(case, SMALL).save_pretrained(tmp_path)
    holds(tmp_path, tokens_of(case))
