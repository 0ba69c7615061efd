"""Trains the model of `addition.ipynb`: `python docs/notebooks/train_addition.py`.

The recipe is that of Nanda et al. 2023: all pairs of the training set in each step, AdamW with a
weight decay of 1. It prints both losses, so that one sees the model learn by heart first.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import viete as vt
from viete.formats.files import save_safetensors

HOME = Path(__file__).parent / "addition"
SHARE, SEED, STEPS, EVERY = 0.5, 0, 1500, 100


def main(steps: int = STEPS) -> None:
    """Trains on a share of all pairs and tests on the others."""
    card = vt.read(HOME / "card.md")
    torch.manual_seed(SEED)
    p = 113
    pairs = torch.cartesian_prod(torch.arange(p), torch.arange(p))
    pairs = pairs[torch.randperm(len(pairs))]
    seen, unseen = pairs.tensor_split([int(SHARE * len(pairs))])
    module = card.to_torch(card.initial_weights(SEED, "float32"))
    torch.set_num_threads(1)
    adam = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=1, betas=(0.9, 0.98))
    for step in range(1, steps + 1):
        adam.zero_grad()
        loss = module(seen)[1]
        loss.backward()
        adam.step()
        if step % EVERY == 0:
            with torch.no_grad():
                print(f"step {step:6}  seen {loss:.6f}  unseen {module(unseen)[1]:.6f}", flush=True)
    weights = {name: w.detach().half().numpy() for name, w in module.weights().items()}
    save_safetensors(HOME / "model.safetensors", weights, {})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
