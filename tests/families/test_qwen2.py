"""Qwen 2: biases of queries, keys and values; windows block by block, listed or counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import viete as vt
from tests.families.peers import Case, family_tests, network, tokens_of
from viete.errors import VieteError

SMALL = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6,
         "num_key_value_heads": 2, "intermediate_size": 20,
         "max_position_embeddings": 64}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0,
        "original_max_position_embeddings": 16}  # fmt: skip
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
WINDOW = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 2}
CASES = [
    Case("Qwen2ForCausalLM"),
    Case("Qwen2ForCausalLM", {"tie_word_embeddings": True, "num_key_value_heads": 6}),
    Case("Qwen2ForCausalLM", WINDOW, 9),
    Case("Qwen2ForCausalLM", WINDOW | {"layer_types": MIXED, "hidden_size": 20,
                                       "num_attention_heads": 5, "num_key_value_heads": 1}, 9),
    Case("Qwen2ForCausalLM", WINDOW | {"layer_types": [MIXED[0]] * 3}, 9),
    Case("Qwen2ForCausalLM", {"num_attention_heads": 3, "num_key_value_heads": 3,
                              "rms_norm_eps": 1e-2, "rope_parameters": YARN}, 33),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[2])


@pytest.mark.parametrize("settings", [{}, WINDOW, WINDOW | {"max_window_layers": 0}], ids=str)
def test_blocks_counted_as_listed(settings: dict[str, object], tmp_path: Path) -> None:
    """A released config counts the blocks without a window, and `transformers` lists them."""
    case = Case("Qwen2ForCausalLM", settings, 9)
    network(case, SMALL).save_pretrained(tmp_path)
    listed = vt.load(tmp_path).run(tokens_of(case))["logits"]
    config = json.loads((tmp_path / "config.json").read_text())
    del config["layer_types"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert abs(vt.load(tmp_path).run(tokens_of(case))["logits"] - listed).max() <= 1e-12


def test_an_unknown_kind_of_block_is_refused(tmp_path: Path) -> None:
    network(CASES[0], SMALL).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["layer_types"][1] = "chunked_attention"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(VieteError, match=r"layer_types\.1 is chunked_attention"):
        vt.load(tmp_path)
