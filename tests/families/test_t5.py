"""T5: v1.0 and v1.1, buckets of distances, encoder and decoder of different depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.families.peers import (
    VOCABULARY,
    Case,
    by_block,
    check,
    doubled,
    network,
    put,
    relative,
    tokens_of,
    torch,
)  # fmt: skip
from viete.model.folder import open_folder
from viete.notation.printer import show
from viete.notation.tree import Apply

KIND = "T5ForConditionalGeneration"
SMALL = {"d_model": 24, "d_kv": 6, "d_ff": 20, "num_layers": 2, "num_heads": 4}
CASES = [
    Case(KIND),
    Case(KIND, {"num_heads": 3, "d_kv": 5, "num_decoder_layers": 3}, 40),
    Case(KIND, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    Case(KIND, {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20,
                "feed_forward_proj": "gated-silu"}, 30),
    Case(KIND, {"relative_attention_num_buckets": 6}, 20),
    Case(KIND, {"relative_attention_num_buckets": 7, "relative_attention_max_distance": 9}, 20),
    Case(KIND, {"dense_act_fn": "silu"}),
    Case(KIND, {"dense_act_fn": "gelu", "is_gated_act": True}),
    Case(KIND, {"num_layers": 1, "num_heads": 1, "layer_norm_epsilon": 1e-2}, 1),
    Case("T5Model", {"num_decoder_layers": 1, "feed_forward_proj": "gelu"}),
    Case("MT5ForConditionalGeneration", {"feed_forward_proj": "gated-gelu"}),
]  # fmt: skip


def both(net: Any, tokens: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Encoder, decoder and what is between them, on a target of another length, with padding."""
    rng = np.random.default_rng(5)
    m = tokens.shape[1]
    t = rng.integers(1, VOCABULARY, (len(tokens), m + 2))
    a = (np.arange(m) < rng.integers(1, m + 1, (len(tokens), 1))).astype(int)
    out = net(
        input_ids=torch.as_tensor(tokens), attention_mask=torch.as_tensor(a),
        decoder_input_ids=torch.as_tensor(t), output_hidden_states=True,
        output_attentions=True, use_cache=False,
    )  # fmt: skip
    values = by_block("resid_{pre,e}", out.encoder_hidden_states, "A_e", out.encoder_attentions)
    values |= by_block("resid_pre", out.decoder_hidden_states, "A", out.decoder_attentions)
    values |= {f"A_c^{i + 1}": x for i, x in enumerate(out.cross_attentions)}
    values |= {"z": out.encoder_last_hidden_state, "y_out": out.decoder_hidden_states[-1]}
    return values | ({"logits": out.logits} if "logits" in out else {}), {"t": t, "a": a}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_transformers(case: Case, tmp_path: Path) -> None:
    # Scores that nothing scales down: `transformers` itself is 4e-5 off in float32.
    check(case, SMALL, tmp_path, both, rounding=2e-4)


def test_an_unembedding_of_its_own(tmp_path: Path) -> None:
    """T5 v1.1 as the hub has it; 5.23 of `transformers` unties it when it finds one."""
    net = network(CASES[2], SMALL)
    head = torch.nn.Parameter(torch.randn(VOCABULARY, 24, dtype=torch.float64))
    net.lm_head.weight = head
    state = {**net.state_dict(), "lm_head.weight": head.detach()}
    net.config.save_pretrained(tmp_path)
    torch.save(state, tmp_path / "pytorch_model.bin")
    tokens = tokens_of(CASES[2])
    with torch.no_grad(), doubled(type(net)):
        theirs, inputs = both(net, tokens)
    model = vt.load(tmp_path)
    assert "W_U" in model.weights
    assert relative(model.run(tokens, **inputs)["logits"], theirs["logits"]) <= 1e-10


@pytest.mark.parametrize("buckets, furthest", [(32, 128), (8, 20), (64, 1000)])
def test_buckets(buckets: int, furthest: int) -> None:
    """Every distance falls where `transformers` puts it, which computes in float32."""
    from transformers.models.t5.modeling_t5 import T5Attention

    model = vt.read("t5").bind(n_b=buckets, D=furthest, N_e=0, N=0, V=2, d=2, H=1, d_k=1, d_f=1)
    n = min(3 * furthest, 600)
    shapes = model.parameter_shapes
    weights = {k: np.ones(s) for k, s in shapes.items()}
    weights["B_e^h"] = weights["B_d^h"] = np.arange(buckets, dtype=float)[None]
    run = model.run(np.zeros(n, int), weights, t=np.zeros(n, int))
    distance = torch.arange(n)[None] - torch.arange(n)[:, None]
    for name, two_sided in ("R_e", True), ("R_d", False):
        theirs = T5Attention._relative_position_bucket(distance, two_sided, buckets, furthest)
        np.testing.assert_array_equal(run[f"{name}^1"], theirs)


def test_claims(tmp_path: Path) -> None:
    network(CASES[1], SMALL).save_pretrained(tmp_path)
    model, tokens = vt.load(tmp_path), tokens_of(CASES[1])
    run = model.run(tokens, t=tokens)
    for claim in open_folder(tmp_path).model.claims:
        assert isinstance(claim.statement, Apply)
        for i in 1, 2:
            sides = (show(put(put(side, i), i, "l")) for side in claim.statement.args)
            left, right = (run[side] for side in sides)
            assert relative(left, right) <= 1e-10
