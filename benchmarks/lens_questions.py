"""Questions held against TransformerLens and `transformers`, on the same random networks.

    python -m benchmarks.lens_questions

A row is a question in the notation, a column a family: the greatest difference, as a share of the
greatest entry, in float64. Needs what `benchmarks.transformer_lens` needs.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks.transformer_lens import FAMILIES, V, differ, lens, network, opened
from viete.ask.recipes import recipes

TOKEN, WITHIN = 5, 1e-9
ASKED = {r.name: r.question for r in recipes()}


def normed(norm: Any, x: Any, scale: Any) -> Any:
    """A share of what a norm reads, with the scale of the whole: by its own weights."""
    if hasattr(norm, "b"):
        x = x - x.mean(-1, keepdim=True)
    return x / scale * norm.w


def heads(theirs: Any, cache: Any) -> Any:
    """What each head adds to the stream at the last position, (blocks, heads, d)."""
    out = []
    for k, block in enumerate(theirs.blocks):
        x = cache[f"blocks.{k}.attn.hook_result"][0, -1]
        if theirs.cfg.use_normalization_before_and_after:
            x = normed(block.ln1_post, x, cache[f"blocks.{k}.ln1_post.hook_scale"][0, -1])
        out.append(x)
    return torch.stack(out)


def direct(theirs: Any, cache: Any) -> Any:
    """Direct logit attribution of every head, (blocks, heads)."""
    scale = cache["ln_final.hook_scale"][0, -1]
    return normed(theirs.ln_final, heads(theirs, cache), scale) @ theirs.W_U[:, TOKEN]


def logit_lens(theirs: Any, cache: Any) -> Any:
    """The logits after each block, (blocks + 1, positions, V)."""
    names = ["blocks.0.hook_resid_pre"]
    names += [f"blocks.{k}.hook_resid_post" for k in range(theirs.cfg.n_layers)]
    logits = torch.stack([theirs.unembed(theirs.ln_final(cache[x]))[0] for x in names])
    cap = theirs.cfg.output_logits_soft_cap
    return cap * torch.tanh(logits / cap) if cap > 0 else logits


def patched(theirs: Any, name: str, ids: Any, other: Any) -> Any:
    """Gradient × (clean − corrupt) of a value of each block, entry by entry."""
    names = [f"blocks.{k}.{name}" for k in range(theirs.cfg.n_layers)]
    kept: dict[str, Any] = {}

    def keep(value: Any, hook: Any) -> Any:
        value.retain_grad()
        kept[hook.name] = value

    logits = theirs.run_with_hooks(ids, fwd_hooks=[(x, keep) for x in names])
    logits[0, -1, TOKEN].backward()
    with torch.no_grad():
        _, corrupt = theirs.run_with_cache(other)
        return torch.stack([(kept[x].grad * (kept[x] - corrupt[x]))[0] for x in names])


def direct_of(run: Any) -> Any:
    """The same attribution by an expansion: its terms of each block and head, and their biases."""
    found: dict[tuple[float, ...], float] = {}
    e = run.expand(ASKED["direct logit attribution"], "block, head")
    for term in [*e.terms, *e.constants]:
        place = tuple(m.number for m in term.marks)
        if len({m.word for m in term.marks} & {"block", "head"}) == 2:
            found[place] = found.get(place, 0.0) + float(term.value)
    return np.reshape([found[k] for k in sorted(found)], (run["A^{i,h}"].shape[:2]))


def compare(run: Any, other: Any, theirs: Any, ids: Any, beside: Any) -> dict[str, float]:
    """The difference of every question."""
    with torch.no_grad():
        _, cache = theirs.run_with_cache(ids)
        out = {
            "logit lens": differ(run[ASKED["logit lens"]], logit_lens(theirs, cache)),
            "direct logit attribution": differ(direct_of(run), direct(theirs, cache)),
        }
        results = [cache[f"blocks.{k}.attn.hook_result"][0] for k in range(theirs.cfg.n_layers)]
        out["per-head results"] = differ(
            run["A^{i,h} V^{i,h} W_O^{i,h}"], torch.stack(results).transpose(1, 2)
        )
        ov, qk = theirs.OV.AB, theirs.QK.AB
        e = torch.as_tensor(run["W_E"])  # theirs has the root of d in it in Gemma 2
        out["OV circuit"] = differ(run[ASKED["OV circuit"]], e @ ov[1] @ theirs.W_U)
        out["QK circuit"] = differ(run[ASKED["QK circuit"]], e @ qk[1] @ e.T)
        copying = torch.einsum("lhvv->lh", e @ ov @ theirs.W_U)
        out["copying"] = differ(run[ASKED["copying"]], copying)
        later = np.triu(np.ones((len(ov), len(ov)), bool), 1)[:, None, :, None]
        for mode in "QKV":
            scores = theirs.all_composition_scores(mode)
            ours = np.where(later, run[ASKED[f"{mode}-composition"]], 0)
            out[f"{mode}-composition"] = differ(ours, getattr(scores, "scores", scores))
    of = f"logits_{{-1, {TOKEN}}}"
    for by, name in (("A^{i,h}", "attn.hook_pattern"), ("x^i", "hook_resid_post")):
        entries = patched(theirs, name, ids, beside).sum((-2, -1))
        estimate = run.attribute(of, by=by, against=other).estimate  # of x^0 too
        out[f"attribution to {by}"] = differ(estimate[-len(entries) :], entries)
    return out


def wrong(net: Any, theirs: Any, processed: Any, ids: Any) -> dict[str, float]:
    """What TransformerLens makes of Gemma 2, against `transformers`."""
    with torch.no_grad():
        _, cache = theirs.run_with_cache(ids)
        added = sum(cache[f"blocks.{k}.hook_attn_out"] for k in range(theirs.cfg.n_layers))
        stacked = cache.stack_head_results().sum(0)
        logits = net(ids).logits
        return {
            "stack_head_results, summed, and what attention adds": differ(stacked, added),
            "logits with the unembedding centred, and the network's": differ(
                processed(ids), logits),
            "their probabilities": differ(processed(ids).softmax(-1), logits.softmax(-1)),
            "W_E and the file's": differ(theirs.W_E, net.get_input_embeddings().weight),
        }  # fmt: skip


def check() -> bool:
    """Print the table; whether everything agrees that should."""
    tokens = np.random.default_rng(1).integers(0, V, (2, 9))
    ids = torch.as_tensor(tokens)
    columns: dict[str, dict[str, float]] = {}
    beside: dict[str, float] = {}
    for title, family in FAMILIES.items():
        with tempfile.TemporaryDirectory() as folder:
            net = network(family)
            model = opened(net, folder)
            theirs = lens(net, family, False)
            runs = [model.run(list(map(int, text))) for text in tokens]
            columns[title] = compare(*runs, theirs, ids[:1], ids[1:])
            if title == "Gemma 2":
                beside = wrong(net, theirs, lens(net, family, True), ids)
    print("| | " + " | ".join(columns) + " |")
    print("| --- |" + " --- |" * len(columns))
    for name in next(iter(columns.values())):
        print(f"| {name} | " + " | ".join(
            f"{c[name]:.1e}" if name in c else "" for c in columns.values()) + " |")  # fmt: skip
    for name, value in beside.items():
        print(f"Gemma 2 in TransformerLens: {name}: {value:.1e}")
    return all(value < WITHIN for c in columns.values() for value in c.values())


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    sys.exit(not check())
