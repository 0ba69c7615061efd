"""Mixtral: the k best of E experts for every position, in both layouts of their tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import viete as vt
from tests.families.peers import (
    Case,
    doubled,
    family_tests,
    network,
    relative,
    tokens_of,
    torch,
)

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
         "num_key_value_heads": 2, "intermediate_size": 10, "max_position_embeddings": 64,
         "num_local_experts": 4, "num_experts_per_tok": 2}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
        "original_max_position_embeddings": 16}  # fmt: skip
CASES = [
    Case("MixtralForCausalLM"),
    Case("MixtralForCausalLM", {"num_local_experts": 5, "num_experts_per_tok": 1,
                                "sliding_window": 3}, 9),
    Case("MixtralForCausalLM", {"num_local_experts": 3, "num_experts_per_tok": 3,
                                "tie_word_embeddings": True}),
    Case("MixtralForCausalLM", {"hidden_size": 20, "num_attention_heads": 5,
                                "num_key_value_heads": 1, "head_dim": 6, "rms_norm_eps": 1e-2}),
    Case("MixtralForCausalLM", {"rope_parameters": YARN, "head_dim": 16}, 33),
]  # fmt: skip

test_against_transformers, test_claims = family_tests(CASES, SMALL, claims=[1])


def test_experts_in_two_tensors(tmp_path: Path) -> None:
    """As `transformers` keeps them in memory, and writes them when asked for no conversion."""
    net, tokens = network(CASES[0], SMALL), tokens_of(CASES[0])
    net.save_pretrained(tmp_path / "released")
    net.save_pretrained(tmp_path / "packed", save_original_format=False)
    released, packed = vt.load(tmp_path / "released"), vt.load(tmp_path / "packed")
    assert any(n.endswith("experts.gate_up_proj") for n in packed.tensors.infos)
    assert not any("gate_up_proj" in n for n in released.tensors.infos)
    for name, weight in released.weights.items():
        np.testing.assert_array_equal(packed.weights[name], weight)
    assert relative(packed.run(tokens)["logits"], released.run(tokens)["logits"]) == 0


def test_gradient_agrees_with_autograd(tmp_path: Path) -> None:
    """Who is chosen does not change under a small step, so it has no part in the gradient."""
    net, tokens = network(CASES[0], SMALL), tokens_of(CASES[0])[0]
    net.save_pretrained(tmp_path / "weights")
    with doubled(type(net)):
        logits = net(torch.as_tensor(tokens)[None]).logits[0]
        torch.nn.functional.cross_entropy(logits, torch.as_tensor(tokens)).backward()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(p.grad)
    net.save_pretrained(tmp_path / "gradients")
    model = vt.load(tmp_path / "weights")
    run = model.card.grad("cross_entropy(logits; t)").run(tokens, model.weights)
    for name, truth in vt.load(tmp_path / "gradients").weights.items():
        assert relative(run[f"∂{name}"], truth) <= 1e-10, name
