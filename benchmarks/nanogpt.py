"""nanoGPT's model, optimiser and batches, written out by hand in PyTorch: the peer to be measured.

After Karpathy's nanoGPT (2022), `model.py` and `train.py`, with ``bias=False`` and no dropout.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Norm(nn.Module):
    """A layer norm without shift, which ``nn.LayerNorm`` had not when nanoGPT was written."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class Block(nn.Module):
    """Attention and MLP, each after a norm and added to the stream."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = Norm(d), Norm(d)
        self.c_attn = nn.Linear(d, 3 * d, bias=False)
        self.c_proj = nn.Linear(d, d, bias=False)
        self.c_fc = nn.Linear(d, 4 * d, bias=False)
        self.mlp_proj = nn.Linear(4 * d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, n, d = x.shape
        parts = self.c_attn(self.ln_1(x)).split(d, dim=2)
        q, k, v = (z.view(batch, n, self.heads, d // self.heads).transpose(1, 2) for z in parts)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(o.transpose(1, 2).contiguous().view(batch, n, d))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    """(batch, n) tokens and targets → logits and the mean loss."""

    def __init__(self, words: int, d: int, blocks: int, heads: int, context: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, d), nn.Embedding(context, d)
        self.h = nn.ModuleList(Block(d, heads) for _ in range(blocks))
        self.ln_f = Norm(d)
        self.lm_head = nn.Linear(d, words, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                into = name.endswith("proj.weight")
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * blocks) if into else 0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(places)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def adamw(net: nn.Module, lr: float, betas: tuple[float, float], decay: float, fused: bool) -> Any:
    """Matrices and embeddings decay, gains do not."""
    wide = [p for p in net.parameters() if p.dim() >= 2]
    thin = [p for p in net.parameters() if p.dim() < 2]
    groups = [{"params": wide, "weight_decay": decay}, {"params": thin, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=betas, fused=fused)


def get_batch(
    data: np.ndarray[Any, Any], batch: int, n: int, device: str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Windows of n + 1 tokens at random places."""
    ix = torch.randint(len(data) - n, (batch,))
    x = torch.stack([torch.from_numpy(data[i : i + n].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + n].astype(np.int64)) for i in ix])
    if device == "cpu":
        return x, y
    return (x.pin_memory().to(device, non_blocking=True),
            y.pin_memory().to(device, non_blocking=True))  # fmt: skip


def learning_rate(k: int, lr: float, least: float, warmup: int, steps: int) -> float:
    """nanoGPT's ``get_lr``."""
    if k < warmup:
        return lr * (k + 1) / (warmup + 1)
    done = (k - warmup) / (steps - warmup)
    return least + 0.5 * (1 + math.cos(math.pi * done)) * (lr - least)
