"""The equations of simple-transformer.md, written by hand as people write them.

Each function takes the weights by their names in the card (heads stacked in front) and the token
ids, batch × n, and gives the logits. The fastest of a library is the peer to compare with; the
others show the range.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any
Weights = dict[str, Array]


def hidden(n: int) -> Array:
    """What attention may not see: 0 up to one's own position, −∞ after it."""
    return np.triu(np.full((n, n), -np.inf, np.float32), 1)


def softmax(s: Array) -> Array:
    """Along the last axis, in place."""
    s -= s.max(-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(-1, keepdims=True)
    return s


def head(w: Weights, c: Array) -> Array:
    """From the heads' outputs to the logits, for rows of all sequences at once."""
    x = c @ w["W_O"]
    x += w["b_O"]
    f = x @ w["W_1"]
    f += w["b_1"]
    np.maximum(f, 0, out=f)
    x = f @ w["W_2"]
    x += w["b_2"]
    out = x @ w["W_lm"]
    out += w["b_lm"]
    return out


def batched(w: Weights, t: Array) -> Array:
    """Heads projected together, attention as batched products, temporaries reused."""
    W_Q, W_K, W_V = (np.concatenate(list(w[k]), axis=1) for k in ("W_Q^h", "W_K^h", "W_V^h"))
    (h, _, k), (b, n) = w["W_Q^h"].shape, t.shape
    x = w["E"][t]
    x += w["P"][:n]
    flat = x.reshape(b * n, -1)
    q, key, v = ((flat @ W).reshape(b, n, h, k).transpose(0, 2, 1, 3) for W in (W_Q, W_K, W_V))
    s = q @ key.transpose(0, 1, 3, 2)
    s /= math.sqrt(k)
    s += hidden(n)
    c = (softmax(s) @ v).transpose(0, 2, 1, 3).reshape(b * n, h * k)
    return head(w, c).reshape(b, n, -1)


def one_by_one(w: Weights, t: Array) -> Array:
    """A loop over the sequences, so that every temporary fits the cache."""
    W_Q, W_K, W_V = (np.concatenate(list(w[k]), axis=1) for k in ("W_Q^h", "W_K^h", "W_V^h"))
    (h, _, k), (b, n) = w["W_Q^h"].shape, t.shape
    out, mask = np.empty((b, n, len(w["b_lm"])), np.float32), hidden(n)
    for tokens, logits in zip(t, out, strict=True):
        x = w["E"][tokens] + w["P"][:n]
        q, key, v = ((x @ W).reshape(n, h, k).transpose(1, 0, 2) for W in (W_Q, W_K, W_V))
        s = q @ key.transpose(0, 2, 1)
        s /= math.sqrt(k)
        s += mask
        logits[:] = head(w, (softmax(s) @ v).transpose(1, 0, 2).reshape(n, h * k))
    return out


def by_heads(w: Weights, t: Array) -> Array:
    """A loop over the heads, as the equations are read."""
    (h, _, k), (b, n) = w["W_Q^h"].shape, t.shape
    x, mask, out = w["E"][t] + w["P"][:n], hidden(n), []
    for i in range(h):
        q, key, v = (x @ w[name][i] for name in ("W_Q^h", "W_K^h", "W_V^h"))
        s = q @ key.transpose(0, 2, 1)
        s /= math.sqrt(k)
        s += mask
        out.append(softmax(s) @ v)
    return head(w, np.concatenate(out, axis=-1).reshape(b * n, h * k)).reshape(b, n, -1)


def einsum(w: Weights, t: Array) -> Array:
    """Index by index."""
    (h, _, k), (b, n) = w["W_Q^h"].shape, t.shape
    x = w["E"][t] + w["P"][:n]
    q, key, v = (
        np.einsum("bnd,hdk->bhnk", x, w[name], optimize=True)
        for name in ("W_Q^h", "W_K^h", "W_V^h")
    )
    s = np.einsum("bhnk,bhmk->bhnm", q, key, optimize=True) / math.sqrt(k) + hidden(n)
    c = np.einsum("bhnm,bhmk->bnhk", softmax(s), v, optimize=True)
    return head(w, c.reshape(b * n, h * k)).reshape(b, n, -1)


def plain(w: Weights, t: Array) -> Array:
    """As many write it the first time: nothing in place, a boolean mask."""
    W_Q, W_K, W_V = (np.concatenate(list(w[k]), axis=1) for k in ("W_Q^h", "W_K^h", "W_V^h"))
    (h, _, k), (b, n) = w["W_Q^h"].shape, t.shape
    x = w["E"][t] + w["P"][:n]
    q, key, v = ((x @ W).reshape(b, n, h, k).transpose(0, 2, 1, 3) for W in (W_Q, W_K, W_V))
    s = q @ key.swapaxes(-1, -2) / math.sqrt(k)
    s = np.where(np.tri(n, dtype=bool), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    a = e / e.sum(-1, keepdims=True)
    x = (a @ v).swapaxes(1, 2).reshape(b, n, h * k) @ w["W_O"] + w["b_O"]
    x = np.maximum(x @ w["W_1"] + w["b_1"], 0) @ w["W_2"] + w["b_2"]
    return x @ w["W_lm"] + w["b_lm"]


def torch_written_out(w: Weights, t: Array) -> Array:
    """Eager PyTorch, attention as the card writes it."""
    import torch

    W_Q, W_K, W_V = (torch.cat(list(w[k]), dim=1) for k in ("W_Q^h", "W_K^h", "W_V^h"))
    (h, _, k), (b, n) = w["W_Q^h"].shape, t.shape
    x = w["E"][t] + w["P"][:n]
    q, key, v = ((x @ W).view(b, n, h, k).transpose(1, 2) for W in (W_Q, W_K, W_V))
    s = q @ key.transpose(-2, -1) / math.sqrt(k)
    mask = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
    c = (s.masked_fill(mask, -math.inf).softmax(-1) @ v).transpose(1, 2).reshape(b, n, h * k)
    x = c @ w["W_O"] + w["b_O"]
    x = (x @ w["W_1"] + w["b_1"]).relu() @ w["W_2"] + w["b_2"]
    return x @ w["W_lm"] + w["b_lm"]


def torch_linear(w: Weights, t: Array) -> Array:
    """Eager PyTorch as modules have it: linear layers with their bias, in-place mask and ReLU."""
    import torch
    from torch.nn.functional import embedding, linear

    (h, d, k), (b, n) = w["W_Q^h"].shape, t.shape
    W = torch.stack([w["W_Q^h"], w["W_K^h"], w["W_V^h"]]).transpose(2, 3).reshape(-1, d)
    x = embedding(t, w["E"]).add_(w["P"][:n])
    q, key, v = linear(x, W).view(b, n, 3, h, k).permute(2, 0, 3, 1, 4)
    s = (q @ key.transpose(-2, -1)).mul_(1 / math.sqrt(k))
    s.masked_fill_(torch.ones(n, n, dtype=torch.bool).triu_(1), -math.inf)
    c = (s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, h * k)
    x = linear(c, w["W_O"].T, w["b_O"])
    x = linear(linear(x, w["W_1"].T, w["b_1"]).relu_(), w["W_2"].T, w["b_2"])
    return linear(x, w["W_lm"].T, w["b_lm"])


def torch_fused(w: Weights, t: Array) -> Array:
    """Linear layers and PyTorch's fused attention, which never holds the scores."""
    from torch.nn.functional import embedding, linear, scaled_dot_product_attention

    (h, d, k), (b, n) = w["W_Q^h"].shape, t.shape
    x = embedding(t, w["E"]).add_(w["P"][:n])
    q, key, v = (
        linear(x, w[name].transpose(1, 2).reshape(-1, d)).view(b, n, h, k).transpose(1, 2)
        for name in ("W_Q^h", "W_K^h", "W_V^h")
    )
    c = scaled_dot_product_attention(q, key, v, is_causal=True).transpose(1, 2).reshape(b, n, h * k)
    x = linear(c, w["W_O"].T, w["b_O"])
    x = linear(linear(x, w["W_1"].T, w["b_1"]).relu_(), w["W_2"].T, w["b_2"])
    return linear(x, w["W_lm"].T, w["b_lm"])


PEERS = {
    "numpy": {
        "batched": batched, "one sequence at a time": one_by_one, "one head at a time": by_heads,
        "einsum": einsum, "plain": plain,
    },
    "torch": {
        "written out": torch_written_out, "linear layers": torch_linear,
        "fused attention": torch_fused,
    },
}  # fmt: skip
