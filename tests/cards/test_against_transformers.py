"""The decoder cards against the classes of `transformers` that the released weights run in.

Random weights of small sizes; logits, the stream after every block and every attention pattern.
How a tensor of the checkpoint becomes the card's matrices is written here by hand, so that the
cards' `checkpoint` column is tested too and takes no part in the comparison.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
einops = pytest.importorskip("einops")

from einops import rearrange  # noqa: E402
from safetensors import safe_open  # noqa: E402
from transformers.models.gpt2 import modeling_gpt2  # noqa: E402
from transformers.models.gpt_neox import modeling_gpt_neox  # noqa: E402
from transformers.models.llama import modeling_llama  # noqa: E402

import viete.cards.reader as reader  # noqa: E402
from viete.algebra.model import Model  # noqa: E402
from viete.cards.config import bind_config  # noqa: E402
from viete.interpret.run import parameter_shapes, run  # noqa: E402

SHIPPED = Path(reader.__file__).parent / "shipped"
Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A card, the peer's class, and the settings that differ from the small ones in FAMILIES."""

    card: str
    settings: dict[str, Any]
    length: int = 7

    def __str__(self) -> str:
        return " ".join([self.card, *(f"{k}={v}" for k, v in self.settings.items())])


# -- the peer ------------------------------------------------------------------------------------


class Doubled:
    """`torch`, except that float32 is float64.

    `transformers` computes the rotary angles, the softmax of attention and RMSNorm in float32 even
    in a float64 model. Given this in place of torch, the very same code does them in float64.
    """

    float32 = float = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (modeling_gpt2, modeling_gpt_neox, modeling_llama):
        monkeypatch.setattr(module, "torch", Doubled())
    yield


FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"n_embd": 24, "n_layer": 2, "n_head": 4,
        "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0}),
    "pythia": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {"hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 16}),
    "gpt-neox-sequential": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {"hidden_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
        "max_position_embeddings": 16, "use_parallel_residual": False}),
    "llama": ("LlamaConfig", "LlamaForCausalLM", {"hidden_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 20,
        "max_position_embeddings": 16}),
}  # fmt: skip

NEOX = [
    {},
    {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 20, "num_hidden_layers": 3,
     "layer_norm_eps": 1e-2},
    {"rope_parameters": {"rope_theta": 500.0, "partial_rotary_factor": 0.5}},
    {"num_attention_heads": 1, "rope_parameters": {"partial_rotary_factor": 1.0}},
]  # fmt: skip
CASES = [
    Case("gpt2", {}),
    Case("gpt2", {"n_head": 3, "n_inner": 40, "n_layer": 3, "layer_norm_epsilon": 1e-2}),
    Case("gpt2", {"n_head": 1, "activation_function": "gelu_pytorch_tanh"}, length=16),
    Case("gpt2", {"n_layer": 1}, length=1),
    *(Case("pythia", settings) for settings in NEOX),
    Case("pythia", {}, length=16),
    *(Case("gpt-neox-sequential", settings) for settings in NEOX),
    Case("llama", {}),
    Case("llama", {"num_key_value_heads": 6, "rms_norm_eps": 1e-2, "num_hidden_layers": 3}),
    Case("llama", {"hidden_size": 20, "num_attention_heads": 5, "num_key_value_heads": 1}),
    Case("llama", {"hidden_size": 36, "num_attention_heads": 9, "num_key_value_heads": 3,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}, length=16),
    Case("llama", {"head_dim": 10}, length=1),
]  # fmt: skip
FIRST = [next(c for c in CASES if c.card == name) for name in FAMILIES]


def peer(case: Case, dtype: torch.dtype) -> Any:
    """The peer's model with every weight random, biases and norms too."""
    config, cls, settings = FAMILIES[case.card]
    settings = {"vocab_size": 29, "attn_implementation": "eager", **settings, **case.settings}
    settings = copy.deepcopy(settings)  # since the peer's config writes into its dictionaries
    model = getattr(transformers, cls)(getattr(transformers, config)(**settings))
    model = model.to(dtype).eval()
    generator = torch.Generator().manual_seed(7)
    for name, p in model.named_parameters():
        around = 1.0 if p.ndim == 1 and name.endswith("weight") else 0.0  # a norm's scale
        with torch.no_grad():
            p.copy_(around + 0.4 * torch.randn(p.shape, generator=generator, dtype=torch.float64))
    return model


def token_ids(case: Case) -> np.ndarray:
    batch = 2 + len(case.settings) % 2
    return np.random.default_rng(11).integers(0, 29, (batch, case.length))


# -- from its weights to the card's, by hand -----------------------------------------------------


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


def card_and_weights(case: Case, model: Any) -> tuple[Model, Weights]:
    """The card with the peer's dimensions, and the peer's weights under the card's names."""
    card = bind_config(reader.read(SHIPPED / f"{case.card}.md"), model.config.to_dict())
    by_hand = {"gpt2": gpt2_weights, "llama": llama_weights}.get(case.card, neox_weights)
    state = {name: p.detach().numpy() for name, p in model.named_parameters()}
    if "lm_head.weight" in model.state_dict():
        state.setdefault("lm_head.weight", model.lm_head.weight.detach().numpy())
    weights = by_hand(state, model.config)
    assert {n: x.shape for n, x in weights.items()} == parameter_shapes(card)
    return card, weights


# -- the comparison ------------------------------------------------------------------------------


def relative(ours: Any, theirs: Any) -> float:
    """The greatest difference, as a share of the greatest entry."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    return float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))


def differences(case: Case, dtype: torch.dtype) -> dict[str, float]:
    """Relative errors of the logits, the streams and the attention patterns."""
    model = peer(case, dtype)
    tokens = token_ids(case)
    with torch.no_grad():
        theirs = model(torch.as_tensor(tokens), output_hidden_states=True, output_attentions=True)
    card, weights = card_and_weights(case, model)
    ours = run(card, tokens, weights)
    N = len(theirs.attentions)
    out = {"logits": relative(ours["logits"], theirs.logits)}
    for i in range(N):
        out[f"x^{i}"] = relative(ours[f"x^{i}"], theirs.hidden_states[i])
    # The peer's last hidden state is the normed one.
    norm = "RMSNorm(x^N; γ, ε)" if case.card == "llama" else "LN(x^N; γ, β, ε)"
    out[norm] = relative(ours[norm], theirs.hidden_states[N])
    for i, pattern in enumerate(theirs.attentions, 1):
        if case.card == "llama":
            G = model.config.num_key_value_heads
            pattern = rearrange(pattern.numpy(), "b (g r) n m -> b g r n m", g=G)
            out[f"A^{i}"] = relative(ours[f"A^{{{i},g,r}}"], pattern)
        else:
            out[f"A^{i}"] = relative(ours[f"A^{{{i},h}}"], pattern)
    return out


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float64(case: Case, doubled: None) -> None:
    wrong = {name: x for name, x in differences(case, torch.float64).items() if not x <= 1e-12}
    assert not wrong


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float32(case: Case) -> None:
    wrong = {name: x for name, x in differences(case, torch.float32).items() if not x <= 2e-5}
    assert not wrong


def agree(case: Case, convert: Callable[[np.ndarray], Any]) -> None:
    """Every named value on other arrays equals the one on NumPy's."""
    card, weights = card_and_weights(case, peer(case, torch.float64))
    tokens = token_ids(case)
    wanted = run(card, tokens, weights)
    found = run(card, convert(tokens), {name: convert(w) for name, w in weights.items()})
    assert list(found) == list(wanted)
    assert max(relative(found[name], wanted[name]) for name in wanted) <= 1e-12


@pytest.mark.parametrize("case", CASES, ids=str)
def test_torch_agrees_with_numpy(case: Case) -> None:
    agree(case, torch.tensor)


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_jax_agrees_with_numpy(case: Case) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        agree(case, jax.numpy.asarray)


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_one_card_at_two_precisions(case: Case) -> None:
    """Masks and rotary angles kept from a run in float64 do not widen a later one in float32."""
    card, weights = card_and_weights(case, peer(case, torch.float64))
    wide = run(card, token_ids(case), weights)
    narrow = run(card, token_ids(case), {n: w.astype(np.float32) for n, w in weights.items()})
    for name in wide:
        assert relative(narrow[name], wide[name].astype(np.float32)) <= 1e-4


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_checkpoint_column(case: Case, tmp_path: Path) -> None:
    """It names just the tensors that `transformers` writes, and takes them apart as we do here."""
    model = peer(case, torch.float32)
    model.save_pretrained(tmp_path)
    card = bind_config(reader.read(SHIPPED / f"{case.card}.md"), tmp_path)
    _, weights = card_and_weights(case, model)
    with safe_open(tmp_path / "model.safetensors", "numpy") as file:
        saved = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    letters = {"h": "H", "g": "G", "k": "d_k"}
    used = set()
    for parameter in card.parameters:
        sharing = [p for p in card.parameters if p.checkpoint == parameter.checkpoint]
        name, _, pattern = parameter.checkpoint.partition(" : ")
        sizes = {
            a: int(card.sizes[s]) for a, s in letters.items() if a in re.findall(r"\w+", pattern)
        }
        for i in range(1, int(card.sizes["N"]) + 1):
            tensor = name.replace("{i-1}", str(i - 1))
            used.add(tensor)
            found = rearrange(saved[tensor], pattern, **sizes) if pattern else saved[tensor]
            if len(sharing) > 1:
                found = found[sharing.index(parameter)]
            slots = ",".join(str(i) if s == "i" else s for s in parameter.symbol.slots)
            key = parameter.name.partition("^")[0]
            key += f"^{{{slots}}}" if "," in slots else f"^{slots}" if slots else ""
            np.testing.assert_array_equal(found, weights[key])
    assert used == set(saved)
