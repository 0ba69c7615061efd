"""Held against TransformerLens, name by name: values, weights, hooks, stacks, and time.

    python -m benchmarks.transformer_lens [--speed]

Random networks of `transformers` are opened by both. TransformerLens is asked for its
``HookedTransformer``, which versions before 4 have (``pip install "transformer_lens<4"``).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
import transformers

import viete as vt
from viete.model import patching as own_patching

V = 61
SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6,
         "intermediate_size": 40, "max_position_embeddings": 32}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A class of `transformers`, a config, what TransformerLens calls the family and its parts."""

    kind: str
    config: dict[str, Any]
    converter: str
    settings: dict[str, Any]


FAMILIES = {
    "GPT-2": Family(
        "GPT2LMHeadModel", {"n_embd": 24, "n_layer": 3, "n_head": 6, "n_positions": 32},
        "gpt2", {"act_fn": "gelu_new", "d_mlp": 96},
    ),
    "Pythia": Family(
        "GPTNeoXForCausalLM", {**SIZES, "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
        "neox", {"act_fn": "gelu", "parallel_attn_mlp": True, "rotary_dim": 2,
                 "positional_embedding_type": "rotary", "rotary_adjacent_pairs": False},
    ),
    "Pythia, sequential": Family(
        "GPTNeoXForCausalLM", {**SIZES, "use_parallel_residual": False, "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
        "neox", {"act_fn": "gelu", "rotary_dim": 2, "positional_embedding_type": "rotary",
                 "rotary_adjacent_pairs": False},
    ),
    "Llama, grouped": Family(
        "LlamaForCausalLM", {**SIZES, "num_key_value_heads": 2},
        "llama", {"act_fn": "silu", "gated_mlp": True, "normalization_type": "RMS",
                  "n_key_value_heads": 2, "rotary_dim": 4, "final_rms": True,
                  "positional_embedding_type": "rotary", "rotary_adjacent_pairs": False},
    ),
    "Gemma 2": Family(
        "Gemma2ForCausalLM", {**SIZES, "hidden_size": 36, "num_key_value_heads": 2, "head_dim": 4,
                              "query_pre_attn_scalar": 4, "sliding_window": 32},
        "gemma", {"act_fn": "gelu_pytorch_tanh", "gated_mlp": True, "normalization_type": "RMS",
                  "n_key_value_heads": 2, "rotary_dim": 4, "final_rms": True, "window_size": 32,
                  "positional_embedding_type": "rotary", "rotary_adjacent_pairs": False,
                  "use_local_attn": True, "attn_types": ["local", "global", "local"],
                  "attn_scores_soft_cap": 50.0, "output_logits_soft_cap": 30.0,
                  "use_normalization_before_and_after": True},
    ),
}  # fmt: skip


def network(family: Family, dtype: Any = torch.float64, **more: Any) -> Any:
    """A network with every weight random."""
    cls = getattr(transformers, family.kind)
    config = cls.config_class(vocab_size=V, **{**family.config, **more})
    config._attn_implementation = "eager"
    net = cls(config).to(dtype).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, p in net.named_parameters():
            around = 1.0 if p.ndim == 1 and name.endswith("weight") else 0.0
            drawn = 0.3 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
            # TransformerLens takes all weights through float32, and some scales plus one: these
            # are the same there.
            p.copy_(around + (drawn * 4096).round() / 4096)
    return net


def lens(
    net: Any, family: Family, process: bool, dtype: Any = torch.float64, capped: bool = False
) -> Any:
    """The network as TransformerLens has it; with ``process`` as it does by default.

    Where logits are ``capped`` the unembedding is left as it is.
    """
    tl = import_module("transformer_lens")
    c = net.config
    cfg = tl.HookedTransformerConfig(**{
        "n_layers": c.num_hidden_layers, "d_model": c.hidden_size,
        "n_ctx": c.max_position_embeddings,
        "n_heads": c.num_attention_heads,
        "d_head": getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads,
        "d_mlp": getattr(c, "intermediate_size", None), "d_vocab": c.vocab_size,
        "normalization_type": "LN", "original_architecture": family.kind, "device": "cpu",
        "eps": getattr(c, "layer_norm_epsilon", None) or getattr(c, "layer_norm_eps", None)
        or c.rms_norm_eps, "dtype": dtype, "use_attn_result": True, **family.settings,
    })  # fmt: skip
    module = import_module(f"transformer_lens.pretrained.weight_conversions.{family.converter}")
    with torch.no_grad():
        state = getattr(module, f"convert_{family.converter}_weights")(net, cfg)
    model = tl.HookedTransformer(cfg)
    model.load_and_process_state_dict(
        {k: v.detach().clone().to(dtype) for k, v in state.items()}, fold_ln=process,
        center_writing_weights=process, center_unembed=process and not capped,
        fold_value_biases=process,
    )  # fmt: skip
    if cfg.positional_embedding_type == "rotary":  # these went through float32 with the weights
        for block in model.blocks:
            attn = block.attn
            own = getattr(attn, "_rotary_base", None)  # which older versions do not have
            attn.rotary_sin, attn.rotary_cos = attn.calculate_sin_cos_rotary(
                cfg.rotary_dim, cfg.n_ctx, base=own() if own else cfg.rotary_base, dtype=dtype
            )
    return model


def differ(ours: Any, theirs: Any) -> float:
    """The greatest difference, as a share of the greatest finite entry."""
    a, b = (np.asarray(x.detach() if hasattr(x, "detach") else x) for x in (ours, theirs))
    if a.shape != b.shape:
        return float("inf")
    finite = np.isfinite(b)
    if (finite != np.isfinite(a)).any():
        return float("inf")
    apart = np.abs(a[finite] - b[finite])
    return float(np.max(apart) / max(np.max(np.abs(b[finite])), 1e-300))


def compare(ours: Any, theirs: Any, tokens: np.ndarray) -> dict[str, float]:
    """Every name that TransformerLens has: its value, and what hooking into it does to logits."""
    ids = torch.as_tensor(tokens)
    out: dict[str, float] = {}
    with torch.no_grad():
        their_logits, their_cache = theirs.run_with_cache(ids)
        our_logits, our_cache = ours.run_with_cache(tokens)
        out["logits"] = differ(our_logits, their_logits)
        for name in their_cache:
            out[name] = differ(our_cache[name], their_cache[name])
            if "pattern" in name or "scores" in name:
                continue  # a mask of -inf stays; patterns are changed below
            hooks = [(name, lambda value, hook: value * 1.25 + 0.1)]
            out[f"hook {name}"] = differ(
                ours.run_with_hooks(tokens, fwd_hooks=hooks),
                theirs.run_with_hooks(ids, fwd_hooks=hooks),
            )
        for k in range(ours.cfg.n_layers):
            hooks = [(f"blocks.{k}.attn.hook_pattern", lambda value, hook: value * value)]
            out[f"hook {hooks[0][0]}"] = differ(
                ours.run_with_hooks(tokens, fwd_hooks=hooks),
                theirs.run_with_hooks(ids, fwd_hooks=hooks),
            )
        for name in ("W_E", "W_U", "b_U", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O",
                     "W_in", "W_out", "b_in", "b_out"):  # fmt: skip
            out[name] = differ(getattr(ours, name), getattr(theirs, name))
        for name in ("QK", "OV"):
            out[name] = differ(getattr(ours, name).AB, getattr(theirs, name).AB)
        for k in ("loss", "both"):
            a, b = ours(tokens, return_type=k), theirs(ids, return_type=k)
            out[k] = differ(a if k == "loss" else a[1], b if k == "loss" else b.loss)
        out["loss per token"] = differ(
            ours(tokens, return_type="loss", loss_per_token=True),
            theirs(ids, return_type="loss", loss_per_token=True),
        )
        out["stop_at_layer"] = differ(ours(tokens, stop_at_layer=2), theirs(ids, stop_at_layer=2))
        stream = theirs(ids, stop_at_layer=1)
        out["start_at_layer"] = differ(ours(stream.numpy(), start_at_layer=1),
                                       theirs(stream, start_at_layer=1))  # fmt: skip
        out["loss_fn"] = differ(ours.loss_fn(our_logits, tokens, per_token=True),
                                theirs.loss_fn(their_logits, ids, per_token=True))  # fmt: skip
        for mode in "QKV":
            out[f"all_composition_scores {mode}"] = differ(
                ours.all_composition_scores(mode), theirs.all_composition_scores(mode)
            )
        out |= compare_split(ours, theirs, tokens) | compare_patching(ours, theirs, tokens)
    return out


def compare_split(ours: Any, theirs: Any, tokens: np.ndarray) -> dict[str, float]:
    """Inputs of queries, keys, values and MLPs that are copies: values, and hooks into them."""
    ids, out = torch.as_tensor(tokens), {}
    theirs.set_use_split_qkv_input(True)
    theirs.set_use_hook_mlp_in(True)
    ours.set_use_split_qkv_input(True)
    _, a = ours.run_with_cache(tokens)
    _, b = theirs.run_with_cache(ids)
    for key in (n for n in b if n.endswith(("_input", "mlp_in"))):
        out[key] = differ(a[key], b[key])
        hooks = [(key, lambda value, hook: value * value)]
        out[f"hook {key}"] = differ(ours.run_with_hooks(tokens, fwd_hooks=hooks),
                                    theirs.run_with_hooks(ids, fwd_hooks=hooks))  # fmt: skip
    ours.set_use_split_qkv_input(False)
    theirs.set_use_split_qkv_input(False)
    theirs.set_use_hook_mlp_in(False)
    return out


PATCHINGS = (
    "resid_pre", "attn_out", "attn_head_out_by_pos", "attn_head_pattern_by_pos",
    "attn_head_pattern_all_pos", "attn_head_all_pos_every", "block_every",
)  # fmt: skip


def compare_patching(ours: Any, theirs: Any, tokens: np.ndarray) -> dict[str, float]:
    """Activation patching, on texts of four tokens."""
    patching = import_module("transformer_lens.patching")
    patching.tqdm = list
    ids = torch.as_tensor(tokens[:, :4])
    other = (ids + 1) % V
    caches = [m.run_with_cache(t)[1] for m, t in ((ours, ids.numpy()), (theirs, ids))]
    out = {}
    for name in (f"get_act_patch_{n}" for n in PATCHINGS):
        a = getattr(own_patching, name)(ours, other.numpy(), caches[0], lambda x: x[0, -1, 3])
        b = getattr(patching, name)(theirs, other, caches[1], lambda x: x[0, -1, 3])
        out[name] = differ(a, b)
    return out


def compare_backward(ours: Any, theirs: Any, tokens: np.ndarray) -> dict[str, float]:
    """Hooks on the way back, with both on PyTorch: the gradient at every value.

    TransformerLens applies ln1 thrice, for queries, keys and values: its three gradients add up.
    """
    ids, found = torch.as_tensor(tokens), []
    for model in (ours, theirs):
        gradients: dict[str, Any] = {}

        def keep(gradient: Any, hook: Any, into: dict[str, Any] = gradients) -> None:
            into[hook.name] = into.get(hook.name, 0) + gradient

        model.reset_hooks()
        model.add_hook(lambda name: "_in" not in name, keep, "bwd")
        model(ids)[:, -1, 3].sum().backward()
        model.reset_hooks()
        found.append(gradients)
    return {f"gradient {n}": differ(found[0][n], g) for n, g in found[1].items()}


def compare_stacks(ours: Any, theirs: Any, tokens: np.ndarray) -> dict[str, float]:
    """What a cache makes of its values."""
    ids, out = torch.as_tensor(tokens), {}
    with torch.no_grad():
        _, b = theirs.run_with_cache(ids)
        _, a = ours.run_with_cache(tokens)
        out["stack_activation"] = differ(a.stack_activation("z"), b.stack_activation("z"))
        for options in (
            {}, {"layer": 2}, {"mode": "attn", "layer": 1}, {"mlp_input": True, "layer": 1},
            {"apply_ln": True}, {"apply_ln": True, "layer": 2},
            {"pos_slice": -1, "incl_embeds": False},
        ):  # fmt: skip
            x, labels = a.decompose_resid(return_labels=True, **options)
            y, theirs_too = b.decompose_resid(return_labels=True, **options)
            assert labels == theirs_too, (labels, theirs_too)
            out[f"decompose_resid {options}"] = differ(x, y)
        middle = {} if theirs.cfg.parallel_attn_mlp else {"incl_mid": True}
        for options in (middle, {"layer": 1}, {"apply_ln": True}, {"apply_ln": True, "layer": 1}):
            x, labels = a.accumulated_resid(return_labels=True, **options)
            y, theirs_too = b.accumulated_resid(return_labels=True, **options)
            assert labels == theirs_too
            out[f"accumulated_resid {options}"] = differ(x, y)
        for options in ({"incl_remainder": True}, {"layer": 2, "apply_ln": True}):
            x, labels = a.stack_head_results(return_labels=True, **options)
            y, theirs_too = b.stack_head_results(return_labels=True, **options)
            assert labels == theirs_too
            out[f"stack_head_results {options}"] = differ(x, y)
        onto = np.random.default_rng(2).standard_normal((theirs.cfg.d_model, 2))
        for options in (
            {}, {"expand_neurons": False, "layer": 2}, {"apply_ln": True, "pos_slice": -1},
            {"project_output_onto": onto[:, 0], "apply_ln": True},
        ):  # fmt: skip
            as_torch = {k: torch.as_tensor(v) if k.startswith("proj") else v
                        for k, v in options.items()}  # fmt: skip
            x, labels = a.get_full_resid_decomposition(return_labels=True, **options)
            y, theirs_too = b.get_full_resid_decomposition(return_labels=True, **as_torch)
            assert labels == theirs_too
            out[f"get_full_resid_decomposition {list(options)}"] = differ(x, y)
        for options in ({"incl_remainder": True}, {"neuron_slice": (2, 5), "apply_ln": True}):
            x, labels = a.stack_neuron_results(2, return_labels=True, **options)
            y, theirs_too = b.stack_neuron_results(2, return_labels=True, **options)
            assert labels == theirs_too
            out[f"stack_neuron_results {options}"] = differ(x, y)
        x, y = a.decompose_resid(), b.decompose_resid()
        answers = np.roll(tokens, 1, axis=1)
        out["logit_attrs"] = differ(a.logit_attrs(x, answers),
                                    b.logit_attrs(y, torch.as_tensor(answers)))  # fmt: skip
        out["logit_attrs, of two"] = differ(
            a.logit_attrs(x, answers, tokens),
            b.logit_attrs(y, torch.as_tensor(answers), torch.as_tensor(tokens)),
        )
        out["logit_attrs, one"] = differ(
            a.logit_attrs(x[:, :, -1], 5, pos_slice=-1), b.logit_attrs(y[:, :, -1], 5, pos_slice=-1)
        )
    return out


def opened(net: Any, folder: str, **options: Any) -> Any:
    """The network as Viète has it."""
    net.save_pretrained(folder)
    return vt.load(folder, **options)


# What TransformerLens has otherwise, and why that is not ours.
KNOWN = {
    "W_E": "theirs has the embedding's factor, the root of d, in it; ours is the file's",
    "get_full_resid_decomposition": "theirs leave out the norms behind attention and MLP",
    "stack_neuron_results": "theirs leave out the norm behind the MLP, and do not add up to it",
    "stack_head_results": "theirs leave out the norm behind attention, and do not add up to it",
}


def check() -> bool:
    """Print the greatest difference of each family, plain and folded.

    Folded weights went through float32 in TransformerLens, so that they agree to 1e-5.
    """
    tokens = np.random.default_rng(1).integers(0, V, (2, 9))
    good = True
    for title, family in FAMILIES.items():
        with tempfile.TemporaryDirectory() as folder:
            net = network(family)
            ours = opened(net, folder)
            folded = ours.folded()
            found = compare(ours.lens, lens(net, family, False), tokens)
            # A soft cap sees what centring the unembedding takes away, so that ours leaves it.
            processed = lens(net, family, True, capped=title == "Gemma 2")
            found |= {f"folded: {k}": v for k, v in compare(folded.lens, processed, tokens).items()}
            found |= compare_backward(
                opened(net, folder, framework="torch").lens, lens(net, family, False), tokens
            )
            stacks = compare_stacks(folded.lens, processed, tokens)
            found |= {f"folded: {k}": v for k, v in stacks.items()}
        known = {k: w for k in found for w in KNOWN
                 if title == "Gemma 2" and k.removeprefix("folded: ").startswith(w)}  # fmt: skip
        for k, why in known.items():
            print(f"    {k}: {found.pop(k):.1e}: {KNOWN[why]}")
        worst = max(found, key=lambda k: found[k])
        # Their patchings are float32.
        wrong = {k: v for k, v in found.items()
                 if not v < (1e-5 if "folded" in k or "act_patch" in k else 1e-9)}  # fmt: skip
        good &= not wrong
        print(f"{title:20} {len(found):4} compared, worst {found[worst]:.1e} ({worst})", flush=True)
        for name, value in wrong.items():
            print(f"    {name}: {value:.1e}")
    return good


def speed(width: int = 768, layers: int = 12, length: int = 256) -> None:
    """Time of a run with every value kept, of one name, and of a hook, on a GPT-2 small."""
    family = FAMILIES["GPT-2"]
    net = network(family, torch.float32, n_embd=width, n_layer=layers, n_head=12, n_positions=512)
    family.settings["d_mlp"] = 4 * width
    theirs = lens(net, family, False, torch.float32)
    theirs.cfg.use_attn_result = False
    tokens = np.random.default_rng(1).integers(0, V, (1, length))
    ids = torch.as_tensor(tokens)
    hooks = [(f"blocks.{layers // 2}.attn.hook_z", lambda value, hook: value * 0)]
    one = [f"blocks.{layers // 2}.attn.hook_pattern"]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        ours = opened(net, folder, framework="torch").lens
        rows = {
            "logits": lambda m, t: m(t),
            "everything cached": lambda m, t: m.run_with_cache(t),
            "one pattern cached": lambda m, t: m.run_with_cache(
                t, names_filter=one, return_type=None, stop_at_layer=layers // 2 + 1),
            "a hook": lambda m, t: m.run_with_hooks(t, fwd_hooks=hooks),
        }  # fmt: skip
        for name, job in rows.items():
            times = [best(job, m, ids) for m in (ours, theirs)]
            print(f"{name:22} Viète {1e3 * times[0]:7.1f} ms   TransformerLens "
                  f"{1e3 * times[1]:7.1f} ms   ratio {times[1] / times[0]:.2f}")  # fmt: skip


def best(job: Any, model: Any, ids: Any, rounds: int = 5) -> float:
    """The shortest of several times, after one that does not count."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        job(model, ids)
        times.append(time.perf_counter() - start)
    return min(times[1:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--speed", action="store_true")
    transformers.logging.set_verbosity_error()
    if parser.parse_args().speed:
        speed()
    else:
        sys.exit(not check())
