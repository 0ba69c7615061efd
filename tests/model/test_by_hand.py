"""How a file's tensors become a card's matrices, written by hand, beside the checkpoint column.

The networks are `transformers`' own, the weights as they lie in its modules. With the arrays made
here the cards also run on PyTorch and JAX, and at two precisions one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from einops import rearrange

import viete as vt
from tests.families import test_gpt2, test_gpt_neox, test_llama
from tests.families.peers import Case, network, relative, tokens_of
from viete.evaluate.schedule import parameter_shapes
from viete.formats.files import open_tensors
from viete.meanings.run import run
from viete.model.mapping import load_weights

torch = pytest.importorskip("torch")
Weights = dict[str, np.ndarray]


def gpt2_weights(w: Weights, config: Any) -> Weights:
    out = {"W_E": w["transformer.wte.weight"], "W_P": w["transformer.wpe.weight"],
           "gamma": w["transformer.ln_f.weight"], "beta": w["transformer.ln_f.bias"]}  # fmt: skip
    for i in range(1, config.n_layer + 1):
        block = f"transformer.h.{i - 1}"
        # Conv1D keeps its weight as (in, out): x W, and all queries stand before all keys.
        thirds = np.split(w[f"{block}.attn.c_attn.weight"], 3, axis=1)
        biases = np.split(w[f"{block}.attn.c_attn.bias"], 3)
        for letter, weight, bias in zip("QKV", thirds, biases, strict=True):
            out[f"W_{letter}^{{{i},h}}"] = rearrange(weight, "d (h k) -> h d k", h=config.n_head)
            out[f"b_{letter}^{{{i},h}}"] = rearrange(bias, "(h k) -> h k", h=config.n_head)
        out[f"W_O^{{{i},h}}"] = rearrange(
            w[f"{block}.attn.c_proj.weight"], "(h k) d -> h k d", h=config.n_head
        )
        out[f"b_O^{i}"] = w[f"{block}.attn.c_proj.bias"]
        for letter, norm in (("A", "ln_1"), ("M", "ln_2")):
            out[f"gamma_{letter}^{i}"] = w[f"{block}.{norm}.weight"]
            out[f"beta_{letter}^{i}"] = w[f"{block}.{norm}.bias"]
        for number, layer in ((1, "c_fc"), (2, "c_proj")):
            out[f"W_{number}^{i}"] = w[f"{block}.mlp.{layer}.weight"]
            out[f"b_{number}^{i}"] = w[f"{block}.mlp.{layer}.bias"]
    return out


def neox_weights(w: Weights, config: Any) -> Weights:
    out = {"W_E": w["gpt_neox.embed_in.weight"], "W_U": w["lm_head.weight"].T,
           "gamma": w["gpt_neox.final_layer_norm.weight"],
           "beta": w["gpt_neox.final_layer_norm.bias"]}  # fmt: skip
    H, k = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    for i in range(1, config.num_hidden_layers + 1):
        block = f"gpt_neox.layers.{i - 1}"
        # A head's query, key and value stand side by side, then come the next head's.
        heads = w[f"{block}.attention.query_key_value.weight"].reshape(H, 3 * k, -1)
        biases = w[f"{block}.attention.query_key_value.bias"].reshape(H, 3 * k)
        for c, letter in enumerate("QKV"):
            part = slice(c * k, (c + 1) * k)
            out[f"W_{letter}^{{{i},h}}"] = rearrange(heads[:, part], "h k d -> h d k")
            out[f"b_{letter}^{{{i},h}}"] = biases[:, part]
        out[f"W_O^{{{i},h}}"] = rearrange(
            w[f"{block}.attention.dense.weight"], "d (h k) -> h k d", h=H
        )
        out[f"b_O^{i}"] = w[f"{block}.attention.dense.bias"]
        for letter, norm in (("A", "input_layernorm"), ("M", "post_attention_layernorm")):
            out[f"gamma_{letter}^{i}"] = w[f"{block}.{norm}.weight"]
            out[f"beta_{letter}^{i}"] = w[f"{block}.{norm}.bias"]
        for number, layer in ((1, "dense_h_to_4h"), (2, "dense_4h_to_h")):
            out[f"W_{number}^{i}"] = w[f"{block}.mlp.{layer}.weight"].T
            out[f"b_{number}^{i}"] = w[f"{block}.mlp.{layer}.bias"]
    return out


def llama_weights(w: Weights, config: Any) -> Weights:
    out = {"W_E": w["model.embed_tokens.weight"], "W_U": w["lm_head.weight"].T,
           "gamma": w["model.norm.weight"]}  # fmt: skip
    G = config.num_key_value_heads
    R = config.num_attention_heads // G
    for i in range(1, config.num_hidden_layers + 1):
        block = f"model.layers.{i - 1}"
        attention = f"{block}.self_attn"
        # `repeat_kv` gives query heads g R … g R + R − 1 the key head g.
        out[f"W_Q^{{{i},g,r}}"] = rearrange(
            w[f"{attention}.q_proj.weight"], "(g r k) d -> g r d k", g=G, r=R
        )
        out[f"W_O^{{{i},g,r}}"] = rearrange(
            w[f"{attention}.o_proj.weight"], "d (g r k) -> g r k d", g=G, r=R
        )
        for letter, name in (("K", "k_proj"), ("V", "v_proj")):
            out[f"W_{letter}^{{{i},g}}"] = rearrange(
                w[f"{attention}.{name}.weight"], "(g k) d -> g d k", g=G
            )
        out[f"gamma_A^{i}"] = w[f"{block}.input_layernorm.weight"]
        out[f"gamma_M^{i}"] = w[f"{block}.post_attention_layernorm.weight"]
        for letter, name in (("G", "gate_proj"), ("1", "up_proj"), ("2", "down_proj")):
            out[f"W_{letter}^{i}"] = w[f"{block}.mlp.{name}.weight"].T
    return out


FAMILIES = {
    "gpt2": (Case(test_gpt2.KIND, {"n_head": 3}), test_gpt2.SMALL, gpt2_weights),
    "neox": (Case(test_gpt_neox.KIND, test_gpt_neox.ODD), test_gpt_neox.SMALL, neox_weights),
    "sequential": (Case(test_gpt_neox.KIND, {"use_parallel_residual": False}),
                   test_gpt_neox.SMALL, neox_weights),
    "llama": (Case("LlamaForCausalLM"), test_llama.SMALL, llama_weights),
}  # fmt: skip
each = pytest.mark.parametrize("name", FAMILIES)


@cache
def opened(name: str) -> tuple[vt.Card, Weights, Weights]:
    """A family's card, the weights as its checkpoint column finds them, and those made by hand."""
    case, small, by_hand = FAMILIES[name]
    net = network(case, small)
    state = {n: p.detach().numpy() for n, p in net.named_parameters()}
    with TemporaryDirectory() as folder:
        net.save_pretrained(folder)
        model = vt.read("llama" if name == "llama" else "gpt2" if name == "gpt2" else "pythia",
                        config=folder)  # fmt: skip
        file = open_tensors(Path(folder) / "model.safetensors")
        found = {n: np.array(w) for n, w in load_weights(model, file).items()}
    return model, found, by_hand(state, net.config)


@each
def test_the_checkpoint_column(name: str) -> None:
    """It takes a file's tensors apart as we do here."""
    model, found, wanted = opened(name)
    assert {n: x.shape for n, x in wanted.items()} == parameter_shapes(model)
    assert found.keys() == wanted.keys()
    for n, w in wanted.items():
        np.testing.assert_array_equal(found[n], w)


def agree(
    name: str,
    convert: Callable[[np.ndarray], Any],
    compiled: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda f: f,
) -> None:
    """Every named value on other arrays equals the one on NumPy's."""
    model, _, weights = opened(name)
    tokens = tokens_of(FAMILIES[name][0])
    wanted = run(model, tokens, weights)
    names: list[str] = []

    def values(t: Any, w: Weights) -> list[Any]:
        found = run(model, t, w)
        names[:] = found
        return [*found.values()]

    arrays = {n: convert(np.array(w)) for n, w in weights.items()}
    found = compiled(values)(convert(tokens), arrays)
    assert names == list(wanted)
    assert max(map(relative, found, wanted.values())) <= 1e-12


@each
def test_torch_agrees_with_numpy(name: str) -> None:
    agree(name, torch.tensor)


@pytest.mark.slow
@each
def test_jax_agrees_with_numpy(name: str) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):  # one program compiles faster than its parts
        agree(name, jax.numpy.asarray, compiled=jax.jit)


@each
def test_one_card_at_two_precisions(name: str) -> None:
    """Masks and rotary angles kept from a run in float64 do not widen a later one in float32."""
    model, _, weights = opened(name)
    tokens = tokens_of(FAMILIES[name][0])
    wide = run(model, tokens, weights)
    narrow = run(model, tokens, {n: w.astype(np.float32) for n, w in weights.items()})
    for n in wide:
        assert np.asarray(narrow[n]).dtype == np.float32
        assert relative(narrow[n], wide[n].astype(np.float32)) <= 1e-4
