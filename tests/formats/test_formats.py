"""Files of other programs: nanoGPT's ckpt.pt, llama2.c's .bin, TransformerLens' state dicts.

Each is written here by a few lines of its own, and run by a network of PyTorch written after the
program's source. With `transformer_lens` installed its own models are compared as well.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from viete.errors import VieteError
from viete.formats.files import open_tensors

torch = pytest.importorskip("torch")
functional = torch.nn.functional
TOKENS = np.random.default_rng(0).integers(1, 19, (3, 6))


def drawn(state: dict[str, Any], seed: int = 3) -> dict[str, Any]:
    """Random numbers of the same shapes, near 1 for the scales of norms."""
    made = torch.Generator().manual_seed(seed)
    return {
        k: 0.4 * torch.randn(v.shape, generator=made, dtype=torch.float64)
        + float(v.ndim == 1 and bool((v == 1).all()))
        for k, v in state.items()
    }  # fmt: skip


def close(found: Any, wanted: Any, by: float = 1e-10) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= by * np.abs(wanted).max()


# -- nanoGPT ---------------------------------------------------------------------------------------


class Block(torch.nn.Module):
    """nanoGPT's `Block`, whose attention and MLP are modules with these names."""

    def __init__(self, d: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = (torch.nn.LayerNorm(d, bias=bias) for _ in range(2))
        self.attn, self.mlp = torch.nn.Module(), torch.nn.Module()
        self.attn.c_attn = torch.nn.Linear(d, 3 * d, bias=bias)
        self.attn.c_proj = torch.nn.Linear(d, d, bias=bias)
        self.mlp.c_fc = torch.nn.Linear(d, 4 * d, bias=bias)
        self.mlp.c_proj = torch.nn.Linear(4 * d, d, bias=bias)

    def forward(self, x: Any) -> Any:
        q, k, v = self.attn.c_attn(self.ln_1(x)).chunk(3, -1)
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in (q, k, v))
        z = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn.c_proj(z.transpose(1, 2).flatten(2))
        return x + self.mlp.c_proj(functional.gelu(self.mlp.c_fc(self.ln_2(x))))


class GPT(torch.nn.Module):
    """nanoGPT's `GPT`, with ``model_args`` as its `train.py` keeps them."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__()
        d, bias = args["n_embd"], args["bias"]
        self.transformer = torch.nn.ModuleDict({
            "wte": torch.nn.Embedding(args["vocab_size"], d),
            "wpe": torch.nn.Embedding(args["block_size"], d),
            "h": torch.nn.ModuleList(
                Block(d, args["n_head"], bias) for _ in range(args["n_layer"])),
            "ln_f": torch.nn.LayerNorm(d, bias=bias),
        })  # fmt: skip
        self.lm_head = torch.nn.Linear(d, args["vocab_size"], bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, t: Any) -> Any:
        x = self.transformer["wte"](t) + self.transformer["wpe"](torch.arange(t.shape[1]))
        for block in self.transformer["h"]:
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_nanogpt(bias: bool, compiled: bool, tmp_path: Path) -> None:
    args = {"n_layer": 2, "n_head": 3, "n_embd": 12, "block_size": 8, "bias": bias,
            "vocab_size": 19, "dropout": 0.2}  # fmt: skip
    net = GPT(args).double()
    state = drawn(net.state_dict())
    state["lm_head.weight"] = state["transformer.wte.weight"]
    net.load_state_dict(state)
    prefix = "_orig_mod." * compiled
    torch.save({
        "model": {prefix + k: v for k, v in net.state_dict().items()},
        "optimizer": {"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.zeros(2)}},
                      "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.95)}]},
        "model_args": args, "iter_num": 2000, "best_val_loss": torch.tensor(1.5),
        "config": {"batch_size": 12, "n_layer": 2, "dataset": "shakespeare_char"},
    }, tmp_path / "ckpt.pt")  # fmt: skip
    for place in (tmp_path, tmp_path / "ckpt.pt"):
        model = vt.load(place)
        assert model.card.title == "NanoGPT"
        with torch.no_grad():
            close(model.run(TOKENS)["logits"], net(torch.as_tensor(TOKENS)))
    assert ("b_O^1" in model.weights) == bias
    count = sum(p.numel() for p in net.parameters())
    assert sum(w.size for w in model.weights.values()) == count


def test_an_unembedding_that_is_not_the_embedding(tmp_path: Path) -> None:
    args = {"n_layer": 1, "n_head": 2, "n_embd": 8, "block_size": 8, "bias": False, "vocab_size": 7}
    state = GPT(args).state_dict()
    state["lm_head.weight"] = state["lm_head.weight"] + 1
    torch.save({"model": state, "model_args": args}, tmp_path / "ckpt.pt")
    with pytest.raises(VieteError, match=r"unused: lm_head\.weight"):
        _ = vt.load(tmp_path).weights
    torch.save({"model": state}, tmp_path / "ckpt.pt")
    with pytest.raises(VieteError, match=r"n_head is missing|vocab_size is missing"):
        vt.load(tmp_path)


# -- llama2.c --------------------------------------------------------------------------------------


def llama2c(sizes: tuple[int, ...], tied: bool, version: int, seed: int = 5) -> tuple[bytes, Any]:
    """A `.bin` as `export.py` writes it, and the network that it is of, in float64.

    `run.c` turns neighbouring columns, so that the rows of wq and wk are in another order than in
    `transformers`, whose network this is.
    """
    transformers = pytest.importorskip("transformers")
    dim, hidden, layers, heads, groups, vocabulary, length = sizes
    config = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=dim, intermediate_size=hidden, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=groups, max_position_embeddings=length,
        tie_word_embeddings=tied, rms_norm_eps=1e-5, attn_implementation="eager",
    )  # fmt: skip
    net = transformers.LlamaForCausalLM(config).eval()
    net.load_state_dict(drawn(net.state_dict(), seed))
    if tied:
        net.tie_weights()

    def turned(w: Any, count: int) -> Any:
        return w.unflatten(0, (count, 2, -1)).transpose(1, 2).reshape(w.shape)

    def each(get: Any) -> list[Any]:
        return [get(block) for block in net.model.layers]

    attention = [
        each(lambda b: turned(b.self_attn.q_proj.weight, heads)),
        each(lambda b: turned(b.self_attn.k_proj.weight, groups)),
        each(lambda b: b.self_attn.v_proj.weight), each(lambda b: b.self_attn.o_proj.weight),
    ]  # fmt: skip
    mlp = [each(lambda b, n=n: getattr(b.mlp, n).weight)
           for n in ("gate_proj", "down_proj", "up_proj")]  # fmt: skip
    first, second = (each(lambda b, n=n: getattr(b, n).weight)
                     for n in ("input_layernorm", "post_attention_layernorm"))  # fmt: skip
    embedding, norm = [net.model.embed_tokens.weight], [net.model.norm.weight]
    head = [] if tied else [net.lm_head.weight]
    if version:
        start = struct.pack("<Ii7iB", 0x616B3432, version, *sizes, tied).ljust(256, b"\0")
        order = [first, second, norm, embedding, *attention, *mlp, head]
    else:
        start = struct.pack("<7i", *sizes[:5], vocabulary if tied else -vocabulary, length)
        table = [torch.zeros(length, dim // heads // 2)]
        order = [embedding, first, *attention, second, *mlp, norm, table, table, head]
    numbers = b"".join(x.detach().numpy().astype("<f4").tobytes() for g in order for x in g)
    return start + numbers, net


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("sizes", [(24, 20, 2, 6, 2, 19, 16), (8, 16, 1, 2, 2, 19, 8),
                                   (128, 32, 1, 4, 1, 19, 8)])  # fmt: skip
def test_llama2c(version: int, tied: bool, sizes: tuple[int, ...], tmp_path: Path) -> None:
    """Sizes whose first byte is another format's, too."""
    data, net = llama2c(sizes, tied, version)
    (tmp_path / "model.bin").write_bytes(data)
    model = vt.load(tmp_path / "model.bin")
    assert ("W_U" in model.weights) != tied
    with torch.no_grad():  # both in float32
        close(model.run(TOKENS)["logits"], net(torch.as_tensor(TOKENS)).logits, 2e-5)
    assert sum(w.size for w in model.weights.values()) == net.num_parameters()


def test_llama2c_that_is_damaged(tmp_path: Path) -> None:
    data, _ = llama2c((24, 20, 2, 6, 2, 19, 16), True, 1)
    path = tmp_path / "model.bin"
    for damaged, why in [
        (data[:-4], "ends at byte"), (data + b"\0" * 4, "its tensors end at byte"),
        (data[:4] + struct.pack("<i", 2) + data[8:], "version 2"),
        (data[:8] + struct.pack("<i", -1) + data[12:], "sizes are impossible"),
        (data[:40], "damaged|sizes|byte"),
    ]:  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(VieteError, match=why):
            vt.load(path)


# -- TransformerLens -------------------------------------------------------------------------------

SMALL = {"n_layers": 2, "d_model": 12, "n_heads": 4, "d_head": 5, "n_ctx": 8, "d_vocab": 19,
         "d_mlp": 10, "act_fn": "gelu"}  # fmt: skip
CASES: list[dict[str, Any]] = [
    {},
    {"normalization_type": "LNPre", "act_fn": "relu"},
    {"normalization_type": "RMS", "gated_mlp": True, "act_fn": "silu", "n_key_value_heads": 2,
     "positional_embedding_type": "rotary", "rotary_dim": 4, "rotary_base": 500},
    {"normalization_type": None, "attn_only": True, "positional_embedding_type": "shortformer"},
    {"attn_only": True, "d_vocab_out": 7, "n_layers": 1},
    {"parallel_attn_mlp": True, "positional_embedding_type": "rotary", "rotary_dim": 2,
     "rotary_base": 10000, "rotary_adjacent_pairs": True, "act_fn": "gelu_new"},
    {"act_fn": "solu_ln", "final_rms": True, "use_attn_scale": False},
    {"attn_scale": 1.5, "scale_attn_by_inverse_layer_idx": True, "attention_dir": "bidirectional",
     "normalization_type": "RMSPre"},
]  # fmt: skip


def shapes(c: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The state dict of a HookedTransformer, buffers aside."""
    d, h, k, f = c["d_model"], c["n_heads"], c["d_head"], c["d_mlp"]
    g, under = c.get("n_key_value_heads") or h, "_" * ("n_key_value_heads" in c)
    kind = c.get("normalization_type", "LN")
    norm = {"LN": {"w", "b"}, "RMS": {"w"}}.get(kind, set())
    rotary = c.get("positional_embedding_type") == "rotary"
    out = {"embed.W_E": (c["d_vocab"], d)} | (
        {} if rotary else {"pos_embed.W_pos": (c["n_ctx"], d)}
    )
    for i in range(c["n_layers"]):
        b = f"blocks.{i}"
        out |= {f"{b}.ln1.{n}": (d,) for n in norm}
        out |= {f"{b}.attn.W_Q": (h, d, k), f"{b}.attn.W_O": (h, k, d), f"{b}.attn.b_Q": (h, k),
                f"{b}.attn.b_O": (d,)}  # fmt: skip
        for n in "KV":
            out |= {f"{b}.attn.{under}W_{n}": (g, d, k), f"{b}.attn.{under}b_{n}": (g, k)}
        if c.get("attn_only"):
            continue
        out |= {f"{b}.ln2.{n}": (d,) for n in norm}
        out |= {f"{b}.mlp.W_in": (d, f), f"{b}.mlp.b_in": (f,), f"{b}.mlp.W_out": (f, d),
                f"{b}.mlp.b_out": (d,)}  # fmt: skip
        out |= {f"{b}.mlp.W_gate": (d, f)} if c.get("gated_mlp") else {}
        if c["act_fn"] == "solu_ln":
            out |= {f"{b}.mlp.ln.{n}": (f,) for n in norm}
    out |= {f"ln_final.{n}": (d,) for n in (norm - {"b"} if c.get("final_rms") else norm)}
    v = c.get("d_vocab_out", c["d_vocab"])
    return out | {"unembed.W_U": (d, v), "unembed.b_U": (v,)}


def state_of(c: dict[str, Any]) -> dict[str, Any]:
    ones = {"w"}
    made = {k: torch.ones(s) if k.rsplit(".", 1)[-1] in ones else torch.zeros(s)
            for k, s in shapes(c).items()}  # fmt: skip
    return drawn(made)


def buffers(c: dict[str, Any]) -> dict[str, Any]:
    """What a HookedTransformer keeps beside its weights."""
    n, out = c["n_ctx"], dict[str, Any]()
    for i in range(c["n_layers"]):
        out[f"blocks.{i}.attn.mask"] = torch.ones(n, n, dtype=torch.bool).tril()
        out[f"blocks.{i}.attn.IGNORE"] = torch.tensor(-math.inf)
        if c.get("positional_embedding_type") == "rotary":
            sin, cos = rotary(c, n)
            out |= {f"blocks.{i}.attn.rotary_sin": sin, f"blocks.{i}.attn.rotary_cos": cos}
    return out


def rotary(c: dict[str, Any], n: int) -> tuple[Any, Any]:
    r = c["rotary_dim"]
    turns = c["rotary_base"] ** (torch.arange(r // 2).double() / (r / 2))
    angles = torch.arange(n)[:, None] / turns
    both = angles.repeat_interleave(2, -1) if c.get("rotary_adjacent_pairs") else (
        torch.cat([angles, angles], -1))  # fmt: skip
    return both.sin(), both.cos()


def hooked(c: dict[str, Any], w: dict[str, Any], t: Any) -> Any:
    """The forward pass of `HookedTransformer`, after its components."""
    kind, place = c.get("normalization_type", "LN"), c.get("positional_embedding_type", "standard")

    def norm(x: Any, name: str, rms: bool = False) -> Any:
        if kind is None:
            return x
        plain = rms or kind.startswith("RMS")
        x = x if plain else x - x.mean(-1, keepdim=True)
        x = x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return x * w.get(f"{name}.w", 1) + (0 if plain else w.get(f"{name}.b", 0))

    def turn(x: Any) -> Any:
        if place != "rotary":
            return x
        r, (sin, cos) = c["rotary_dim"], rotary(c, t.shape[1])
        y = x[..., :r]
        if c.get("rotary_adjacent_pairs"):
            other = torch.stack([-y[..., 1::2], y[..., ::2]], -1).flatten(-2)
        else:
            other = torch.cat([-y[..., r // 2 :], y[..., : r // 2]], -1)
        return torch.cat([y * cos[:, None] + other * sin[:, None], x[..., r:]], -1)

    act = {
        "relu": torch.relu, "gelu": functional.gelu, "silu": functional.silu,
        "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
        "solu_ln": lambda x: x * x.softmax(-1),
    }[c["act_fn"]]  # fmt: skip
    x = w["embed.W_E"][t]
    learned = 0 if place == "rotary" else w["pos_embed.W_pos"][: t.shape[1]]
    x = x + (learned if place == "standard" else 0)
    for i in range(c["n_layers"]):
        b = f"blocks.{i}"
        u = norm(x, f"{b}.ln1")
        s = u + (learned if place == "shortformer" else 0)
        grouped = f"{b}.attn._W_K" in w
        times = c["n_heads"] // (c.get("n_key_value_heads") or c["n_heads"])

        def qkv(y: Any, n: str, b: str = b, grouped: bool = grouped, times: int = times) -> Any:
            under = "_" * (grouped and n != "Q")
            found = torch.einsum("bnd,hdk->bnhk", y, w[f"{b}.attn.{under}W_{n}"])
            found = found + w[f"{b}.attn.{under}b_{n}"]
            return found.repeat_interleave(times if under else 1, 2)

        q, k, v = turn(qkv(s, "Q")), turn(qkv(s, "K")), qkv(u, "V")
        scale = c.get("attn_scale", math.sqrt(c["d_head"])) if c.get("use_attn_scale", True) else 1
        scale *= i + 1 if c.get("scale_attn_by_inverse_layer_idx") else 1
        scores = torch.einsum("bqhk,bphk->bhqp", q, k) / scale
        if c.get("attention_dir", "causal") == "causal":
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        z = torch.einsum("bhqp,bphk->bqhk", scores.softmax(-1), v)
        a = torch.einsum("bqhk,hkd->bqd", z, w[f"{b}.attn.W_O"]) + w[f"{b}.attn.b_O"]
        if c.get("attn_only"):
            x = x + a
            continue
        y = norm(x if c.get("parallel_attn_mlp") else x + a, f"{b}.ln2")
        into, bias = y @ w[f"{b}.mlp.W_in"], w[f"{b}.mlp.b_in"]
        gated = c.get("gated_mlp")
        m = act(y @ w[f"{b}.mlp.W_gate"]) * into + bias if gated else act(into + bias)
        if c["act_fn"] == "solu_ln":
            m = norm(m, f"{b}.mlp.ln")
        x = x + a + m @ w[f"{b}.mlp.W_out"] + w[f"{b}.mlp.b_out"]
    return norm(x, "ln_final", c.get("final_rms", False)) @ w["unembed.W_U"] + w["unembed.b_U"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: " ".join(map(str, c.values())) or "plain")
def test_transformerlens(case: dict[str, Any], tmp_path: Path) -> None:
    """A state dict with its config in the same file, beside it, and given."""
    c = {**SMALL, **case}
    state = state_of(c)
    wanted = hooked(c, state, torch.as_tensor(TOKENS))
    said = c | {"dtype": torch.float32, "model_name": "custom", "seed": 1, "device": "cpu"}
    torch.save({"config": said, "model": state | buffers(c)}, tmp_path / "toy.pt")
    close(vt.load(tmp_path / "toy.pt").run(TOKENS)["logits"], wanted)
    (tmp_path / "config.json").write_text(json.dumps(c))
    torch.save(state | buffers(c), tmp_path / "model_final.pth")
    model = vt.load(tmp_path)
    close(model.run(TOKENS)["logits"], wanted)
    assert sum(x.size for x in model.weights.values()) == sum(x.numel() for x in state.values())
    from safetensors.torch import save_file

    save_file({k: v.contiguous() for k, v in state.items()}, tmp_path / "toy.safetensors")
    (tmp_path / "config.json").unlink()
    close(vt.load(tmp_path / "toy.safetensors", config=c).run(TOKENS)["logits"], wanted)
    for claim in model.card.claims:
        assert claim.meaning


def test_a_state_dict_alone(tmp_path: Path) -> None:
    """What shapes and names say; the rest is asked for."""
    path = tmp_path / "toy.pt"
    toy = {**SMALL, **CASES[4]}
    torch.save(state_of(toy) | buffers(toy), path)
    close(vt.load(path).run(TOKENS)["logits"], hooked(toy, state_of(toy), torch.as_tensor(TOKENS)))
    torch.save(state_of(SMALL), path)
    with pytest.raises(VieteError, match="act_fn is missing"):
        vt.load(path)
    found = vt.load(path, config={"act_fn": "gelu"})
    close(found.run(TOKENS)["logits"], hooked(SMALL, state_of(SMALL), torch.as_tensor(TOKENS)))
    torch.save(state_of({**SMALL, "normalization_type": "LNPre"}), path)
    with pytest.raises(VieteError, match=r"ln1\.b is absent"):
        vt.load(path)


@pytest.mark.parametrize("key, value", [
    ("use_local_attn", True), ("num_experts", 4), ("attn_scores_soft_cap", 30.0),
    ("positional_embedding_type", "alibi"), ("act_fn", "xielu"), ("unheard_of", 1),
])  # fmt: skip
def test_what_the_card_does_not_say(key: str, value: Any, tmp_path: Path) -> None:
    torch.save({"cfg": {**SMALL, key: value}, "state_dict": state_of(SMALL)}, tmp_path / "a.pt")
    with pytest.raises(VieteError, match=key):
        vt.load(tmp_path / "a.pt")


@pytest.mark.parametrize("case", CASES, ids=lambda c: " ".join(map(str, c.values())) or "plain")
def test_transformerlens_itself(case: dict[str, Any], tmp_path: Path) -> None:
    lens = pytest.importorskip("transformer_lens", exc_type=ImportError)
    if not hasattr(lens, "HookedTransformer"):
        pytest.skip("this transformer_lens has no HookedTransformer")
    cfg = lens.HookedTransformerConfig(**{**SMALL, **case}, dtype=torch.float64, device="cpu")
    net = lens.HookedTransformer(cfg)
    weights = {k: v for k, v in net.state_dict().items() if v.ndim and ".mask" not in k}
    weights = drawn({k: v for k, v in weights.items() if "rotary" not in k})
    net.load_state_dict(weights, strict=False)
    said = {k: float(v) if isinstance(v, np.floating) else v for k, v in cfg.to_dict().items()}
    torch.save({"config": said, "state_dict": net.state_dict()}, tmp_path / "net.pt")
    with torch.no_grad():
        wanted = net(torch.as_tensor(TOKENS))
    close(vt.load(tmp_path / "net.pt").run(TOKENS)["logits"], wanted)


def test_the_formats_open_as_tensor_files(tmp_path: Path) -> None:
    data, _ = llama2c((24, 20, 2, 6, 2, 19, 16), False, 0)
    (tmp_path / "a.bin").write_bytes(data)
    file = open_tensors(tmp_path / "a.bin")
    assert file.format == "llama2.c"
    assert file.infos["wk"].shape == (2, 8, 24)
    assert file.metadata["config"]["shared_classifier"] is False
