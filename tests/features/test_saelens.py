"""Folders of SAELens against what SAELens computes, written here from its description."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import viete as vt
from tests.laws.strategies import random_weights
from viete.model.coders import read_coders
from viete.report.attribution_json import read_attribution

D, F, TEXT = 8, 10, [3, 1, 4, 1, 5]
SIZES = {"d": D, "N": 2, "H": 2, "V": 11, "d_f": 12, "n_max": 16}
HOOK = "blocks.1.hook_resid_post"


@pytest.fixture(scope="module")
def model() -> vt.Model:
    card = vt.read("gpt2").bind(**SIZES)
    rng = np.random.default_rng(3)
    return card.with_weights(
        {k: a + 0.3 * rng.normal(size=a.shape) for k, a in card.initial_weights(seed=1).items()}
    )


def written(folder: Path, config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Random weights of a folder's features."""
    rng, out = np.random.default_rng(7), {}
    kind = str(config["architecture"])
    shapes = {"W_enc": (D, F), "W_dec": (F, D), "b_dec": D}
    shapes |= {"b_gate": F, "b_mag": F, "r_mag": F} if kind == "gated" else {"b_enc": F}
    shapes |= {"threshold": F} if "jumprelu" in kind else {}
    shapes |= {"W_skip": (D, D)} if "skip" in kind else {}
    shapes |= {"finetuning_scaling_factor": F} if "finetuning_scaling_factor" in config else {}
    for name, shape in shapes.items():
        out[name] = rng.normal(size=shape)
    if "threshold" in out:
        out["threshold"] = abs(out["threshold"])
    folder.mkdir(exist_ok=True)
    save_file(out, folder / "sae_weights.safetensors")
    (folder / "cfg.json").write_text(json.dumps(config))
    return out


def forward(w: dict[str, np.ndarray], c: dict[str, Any], x: np.ndarray) -> np.ndarray:
    """What SAELens gives for rows x."""
    kind, norm = c["architecture"], c.get("normalize_activations", "none")
    mean, size = np.zeros((len(x), 1)), np.ones((len(x), 1))
    if norm == "layer_norm":
        mean, size = x.mean(-1, keepdims=True), x.std(-1, keepdims=True, ddof=1)
        z = (x - mean) / (size + 1e-5)
    else:
        if norm == "constant_norm_rescale":
            size = np.linalg.norm(x, axis=-1, keepdims=True) / np.sqrt(D)
        if norm == "expected_average_only_in":
            size = size / c["norm_scaling_factor"]
        z = x / size
    z = z - w["b_dec"] * c.get("apply_b_dec_to_input", "transcoder" not in kind)
    if kind == "gated":
        features = np.maximum(z @ (w["W_enc"] * np.exp(w["r_mag"])) + w["b_mag"], 0)
        features = features * (z @ w["W_enc"] + w["b_gate"] > 0)
    else:
        features = z @ w["W_enc"] + w["b_enc"]
        length = np.linalg.norm(w["W_dec"], axis=-1)
        if c.get("rescale_acts_by_decoder_norm"):
            features = features * length
        if "threshold" in w:
            features = features * (features > w["threshold"])
        if "k" in c:
            features = features * (features >= np.sort(features)[:, -c["k"]][:, None])
        features = np.maximum(features, 0)
        if c.get("rescale_acts_by_decoder_norm"):
            features = features / length
    if c.get("finetuning_scaling_factor"):
        features = features * w["finetuning_scaling_factor"]
    out = (features @ w["W_dec"] + w["b_dec"]) * size + mean
    return out + x @ w["W_skip"].T if "W_skip" in w else out


KINDS: list[dict[str, Any]] = [
    {"architecture": "standard"},
    {"architecture": "gated"},
    {"architecture": "standard", "normalize_activations": "layer_norm"},
    {"architecture": "jumprelu", "normalize_activations": "constant_norm_rescale"},
    {"architecture": "standard", "normalize_activations": "expected_average_only_in",
     "norm_scaling_factor": 0.7},
    {"architecture": "topk", "k": 3, "rescale_acts_by_decoder_norm": True},
    {"architecture": "standard", "finetuning_scaling_factor": True},
    {"architecture": "skip_transcoder"},
    {"architecture": "jumprelu_skip_transcoder", "normalize_activations": "layer_norm"},
]  # fmt: skip


def said(config: dict[str, Any]) -> str:
    return "-".join(map(str, config.values()))


@pytest.mark.parametrize("config", KINDS, ids=said)
def test_every_kind_of_folder(tmp_path: Path, model: vt.Model, config: dict[str, Any]) -> None:
    if "transcoder" in config["architecture"]:
        hooks = {"hook_name": "blocks.1.hook_resid_mid", "hook_name_out": "blocks.1.hook_mlp_out"}
        reads = "y^2"
    else:
        hooks, reads = {"hook_name": HOOK}, "x^2"
    config = {**config, "metadata": hooks}
    w = written(tmp_path / "sae", config)
    run = model.put(read_coders(tmp_path / "sae")).run(TEXT)
    plain = model.run(TEXT)
    np.testing.assert_allclose(run["logits"], plain["logits"], atol=1e-9)
    np.testing.assert_allclose(run["decoded^2"], forward(w, config, plain[reads]), atol=1e-9)


HEADS = "blocks.1.attn.hook_z"
BARE = """# Heads

## Dimensions

| symbol | value |
| --- | --- |
| $d$ | 8 |
| $k$ | 4 |
| $V$ | 11 |
| $N$ | 2 |
| $H$ | 2 |
| $n$ | $≤ 16$ |
| $h$ | $1, …, H$ |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $W_E$ | $V × d$ |
| $W_V^{i,h}$ | $d × k$ |
| $W_O^{i,h}$ | $k × d$ |

## Forward pass

1. $x^0 = W_E[t]$

For $i = 1, …, N$:

2. $V^{i,h} = x^{i-1} W_V^{i,h}$
3. $A^{i,h} = softmax(causal(x^{i-1} {x^{i-1}}^⊤))$
4. $x^i = x^{i-1} + \\sum_h A^{i,h} V^{i,h} W_O^{i,h}$
"""


@pytest.mark.parametrize(
    ("card", "config"),
    [*(("gpt2", c) for c in KINDS[:7]), *(("llama", c) for c in KINDS[1:3])],
    ids=lambda x: x if isinstance(x, str) else said(x),
)
def test_features_of_all_heads_together(card: str, tmp_path: Path, config: dict[str, Any]) -> None:
    """On hook_z: the heads side by side; and each head then reads its part of what is decoded."""
    sizes = SIZES if card == "gpt2" else {**SIZES, "H": 4, "G": 2}
    bound = vt.read(card).bind(**sizes)
    model = bound.with_weights(random_weights(bound, 3))
    metadata = {"hook_name": HEADS, "reshape_activations": "hook_z"}
    w = written(tmp_path / "sae", {**config, **metadata})
    run, plain = (m.run(TEXT) for m in (model.put(read_coders(tmp_path / "sae")), model))
    np.testing.assert_allclose(run["logits"], plain["logits"], atol=1e-9)
    heads = plain["z^{2,h}"]
    together = np.concatenate(list(heads), axis=-1)
    decoded = forward(w, config, together)
    np.testing.assert_allclose(run["decoded^2"], decoded, atol=1e-9)
    alone = model.put(read_coders(tmp_path / "sae")).put("error^i = 0").run(TEXT)
    parts = np.stack(np.split(decoded, len(heads), axis=-1))
    np.testing.assert_allclose(alone["z^{2,h}"], parts, atol=1e-9)
    changes = ", ".join(f"z^{{2,{h}}} = p{h}" for h in range(1, len(parts) + 1))
    given = {f"p{h}": part for h, part in enumerate(parts, 1)}
    replaced = plain.ask(f"logits with {changes}", **given)
    np.testing.assert_allclose(alone["logits"], replaced, atol=1e-9)


def test_features_of_heads_that_a_card_does_not_name(tmp_path: Path) -> None:
    card = vt.read(BARE)
    model = card.with_weights(random_weights(card, 3))
    w = written(tmp_path / "sae", {"architecture": "standard", "hook_name": HEADS})
    plain, run = model.run(TEXT), model.put(read_coders(tmp_path / "sae")).run(TEXT)
    together = np.concatenate([plain[f"A^{{2,{h}}} V^{{2,{h}}}"] for h in (1, 2)], axis=-1)
    decoded = forward(w, {"architecture": "standard"}, together)
    np.testing.assert_allclose(run["decoded_{attn,z}^2"], decoded, atol=1e-9)
    np.testing.assert_allclose(run["x^2"], plain["x^2"], atol=1e-9)


ODD = [1, -3, 1.5, True, [], {}, "\u2028", None, float("nan"), float("inf"), 10**400, [[1]]]


def test_a_field_of_another_type_is_one_sentence(tmp_path: Path, model: vt.Model) -> None:
    base = {
        "architecture": "topk", "k": 3, "activation_fn_kwargs": {"k": 3}, "activation_fn": "topk",
        "apply_b_dec_to_input": True, "normalize_activations": "none", "hook_name": HOOK,
        "reshape_activations": "none", "rescale_acts_by_decoder_norm": False, "metadata": {},
        "hook_name_out": HOOK,
    }  # fmt: skip
    written(tmp_path / "sae", base)
    file = tmp_path / "sae/cfg.json"
    tried = [{**base, key: odd} for key in base for odd in ODD]
    for said in [*map(json.dumps, [*tried, *ODD]), "[" * 10**5, '{"a": ', '{"k": "\\ud800"}']:
        file.write_text(said)
        try:
            read_coders(file.parent).put(model.card)
        except vt.VieteError as error:
            assert len(str(error)) < 500
    file.write_bytes(b"\xff\xfe{}")
    with pytest.raises(vt.VieteError, match="not JSON"):
        read_coders(file.parent)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(vt.VieteError, match="a pipe or a device"):
        read_coders(file.parent)


def test_graphs_with_fields_of_other_types(tmp_path: Path) -> None:
    node = {"node_id": "0_5_1", "feature": 5, "layer": "0", "ctx_idx": 1, "jsNodeId": "a",
            "feature_type": "cross layer transcoder", "clerp": "", "activation": 1.0,
            "influence": 0.5, "token_prob": 0.0}  # fmt: skip
    link = {"source": "0_5_1", "target": "0_5_1", "weight": 1.0}
    words = {"slug": "s", "scan": "m", "prompt_tokens": ["a", "b"], "prompt": "ab"}

    def graph(**changes: Any) -> dict[str, Any]:
        return {"metadata": words, "qParams": {}, "nodes": [node], "links": [link], **changes}

    tried: list[Any] = [*ODD]
    for odd in [*ODD, "a_b_c", "1", "E_x_1"]:
        tried += [graph(**{key: odd}) for key in graph()]
        tried += [graph(metadata={**words, key: odd}) for key in words]
        tried += [graph(metadata={**words, "prompt_tokens": [odd]})]
        tried += [graph(nodes=[{**node, key: odd}], links=[]) for key in node]
        tried += [graph(links=[{**link, key: odd}]) for key in link]
        tried += [graph(nodes=[odd]), graph(links=[odd])]
        tried += [
            graph(nodes=[{**node, "feature_type": kind, key: odd}], links=[])
            for kind in ("logit", "embedding", "mlp reconstruction error") for key in node
        ]  # fmt: skip
    assert len(read_attribution(json.dumps(graph())).edges) == 1
    for said in tried:
        try:
            read_attribution(json.dumps(said)).arrows()
        except vt.VieteError as error:
            assert len(str(error)) < 500
    os.mkfifo(tmp_path / "graph.json")
    with pytest.raises(vt.VieteError, match="a pipe or a device"):
        read_attribution(tmp_path / "graph.json")
