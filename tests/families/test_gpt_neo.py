"""GPT-Neo: global and local blocks in any order, unscaled attention."""

from __future__ import annotations

from typing import Any

from tests.families.peers import Case, family_tests

KIND = "GPTNeoForCausalLM"


def blocks(*kinds: str) -> dict[str, Any]:
    return {"attention_types": [[list(kinds), 1]], "num_layers": len(kinds)}


SMALL = {"hidden_size": 24, "num_heads": 4, "max_position_embeddings": 16, "window_size": 3,
         "bos_token_id": 0, "eos_token_id": 0, **blocks("global", "local")}  # fmt: skip
CASES = [
    Case(KIND),
    Case(KIND, {"num_heads": 3, "intermediate_size": 20, "layer_norm_epsilon": 1e-2}, 16),
    Case(KIND, {"attention_types": [[["global", "local"], 2]], "num_layers": 4}),
    Case(KIND, blocks("local", "local", "global")),
    Case(KIND, blocks("global", "local", "local", "global", "local")),
    Case(KIND, blocks("local") | {"window_size": 1, "tie_word_embeddings": False}),
    Case(KIND, blocks("global") | {"activation_function": "relu", "num_heads": 1}, 1),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[0])
