"""LongRoPE (Ding et al. 2024) in every family that turns: from a list, a factor each frequency."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.families import (
    test_gemma,
    test_gemma2,
    test_gpt_neox,
    test_llama,
    test_mistral,
    test_mixtral,
    test_olmo,
    test_olmo2,
    test_phi,
    test_qwen2,
    test_qwen3,
)
from tests.families.peers import (
    Case,
    check,
    decoder,
    differences,
    doubled,
    network,
    tokens_of,
    torch,
)
from viete.errors import VieteError
from viete.train.settings import Settings
from viete.train.setup import begin

FAMILIES = {
    "Gemma": test_gemma, "Gemma2": test_gemma2, "GPTNeoX": test_gpt_neox, "Llama": test_llama,
    "Mistral": test_mistral, "Mixtral": test_mixtral, "Olmo": test_olmo, "Olmo2": test_olmo2,
    "Phi": test_phi, "Qwen2": test_qwen2, "Qwen3": test_qwen3,
}  # fmt: skip
SHARE = {"Phi": 0.5, "GPTNeoX": 0.5}  # of a head that turns


def settings(family: str, **more: Any) -> dict[str, Any]:
    """Its config, with a factor for each frequency."""
    small = FAMILIES[family].SMALL
    width = small.get("head_dim", small["hidden_size"] // small["num_attention_heads"])
    share = SHARE.get(family, 1.0)
    rng = np.random.default_rng(0)
    short, long = (1 + rng.uniform(0, k, int(width * share) // 2) for k in (1, 9))
    rope = {"rope_type": "longrope", "rope_theta": 100.0, "original_max_position_embeddings": 8,
            "short_factor": short.tolist(), "long_factor": long.tolist(), **more}  # fmt: skip
    if share < 1:
        rope["partial_rotary_factor"] = share
    return {"rope_parameters": rope, **({"head_dim": width} if family == "Mixtral" else {})}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_on_both_sides_of_the_length(family: str, tmp_path: Path) -> None:
    small = FAMILIES[family].SMALL
    for k, (n, more) in enumerate([(8, {}), (13, {"factor": 3.0})]):
        case = Case(f"{family}ForCausalLM", settings(family, **more), n)
        (tmp_path / str(k)).mkdir()
        check(case, small, tmp_path / str(k), rounding=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["longrope", "yarn"])
def test_a_gain_that_the_config_gives(family: str, kind: str, tmp_path: Path) -> None:
    given = settings(family, attention_factor=0.7, factor=2.0)
    if kind == "yarn":
        rope = given["rope_parameters"]
        rope["rope_type"] = kind
        del rope["short_factor"], rope["long_factor"]
    case = Case(f"{family}ForCausalLM", given, 12)
    net = network(case, FAMILIES[family].SMALL)
    net.save_pretrained(tmp_path)
    with doubled(type(net)):
        found = differences(net, tmp_path, tokens_of(case), decoder)
    assert max(found.values()) <= 1e-10, found


def test_what_it_is_like(tmp_path: Path) -> None:
    """The factors are the card's numbers: in no file, not counted, not learned, written again."""
    case = Case("LlamaForCausalLM", settings("Llama"), 12)
    net = network(case, test_llama.SMALL, torch.float32)
    net.save_pretrained(tmp_path / "one")
    model = vt.load(tmp_path / "one")
    said = json.loads((tmp_path / "one" / "config.json").read_text())["rope_parameters"]
    for name, key in ("lambda_s", "short_factor"), ("lambda_l", "long_factor"):
        np.testing.assert_allclose(model.weights[name], said[key], rtol=1e-7)
    assert vt.read(model.card.write()) == model.card
    model.card.save(tmp_path / "two", model.weights)  # of the card alone
    again = json.loads((tmp_path / "two" / "config.json").read_text())["rope_parameters"]
    assert {k: again[k] for k in said} == said
    module = model.card.to_torch(model.weights)
    assert dict(module.named_buffers()).keys() == {"lambda_s", "lambda_l"}
    theirs = net(torch.as_tensor(tokens_of(case))).logits.detach()
    made = module(torch.as_tensor(tokens_of(case)))
    torch.testing.assert_close(made, theirs, rtol=1e-4, atol=1e-4)
    with pytest.raises(VieteError, match=r"no incremental form: .* where\(n > n_0"):
        model.card.incremental()
    (tmp_path / "text.txt").write_text("to be or not to be " * 40)
    with pytest.raises(VieteError, match="lambda_s is given by a config and is not learned"):
        begin(Settings(data=str(tmp_path / "text.txt"), length=12, batch=2), model.card,
              tmp_path / "run")  # fmt: skip


@pytest.mark.parametrize("wrong, says", [
    ({"long_factor": None}, "rope_parameters.long_factor or .* is missing, so lambda_l has no"),
    ({"long_factor": 2.0}, "long_factor gives lambda_l, so it must be a list of numbers, not 2.0"),
    ({"short_factor": [1.0, "2"]}, "short_factor gives lambda_s, so it must be a list of numbers"),
    ({"short_factor": [1.0, float("nan")]}, "short_factor gives lambda_s, so it must be a list"),
    ({"short_factor": [1.0] * 3}, "this matrix is 1 × 3, but lambda_s is 4"),
], ids=str)  # fmt: skip
def test_other_lists(wrong: dict[str, Any], says: str) -> None:
    rope = settings("Llama")["rope_parameters"]
    size = {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8}
    config = network(Case("LlamaForCausalLM", {}, 4), test_llama.SMALL).config.to_dict()
    with pytest.raises(VieteError, match=says):
        model = vt.read("llama", config={**config, **size, "rope_parameters": {**rope, **wrong}})
        model.initial_weights(0)
