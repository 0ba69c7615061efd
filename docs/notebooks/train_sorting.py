"""Trains the model of `sorting.ipynb`: `python docs/notebooks/train_sorting.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import viete as vt
from viete.formats.files import save_safetensors

HOME = Path(__file__).parent / "sorting"
SEED, STEPS, BATCH, EVERY = 0, 2000, 256, 250
NUMBERS, BELOW = 6, 32


def lists(count: int) -> torch.Tensor:
    """Lists of different numbers, the sign, and the lists in order."""
    rows = torch.rand(count, BELOW).argsort(-1)[:, :NUMBERS]
    return torch.cat([rows, torch.full((count, 1), BELOW), rows.sort(-1).values], -1)


def main(steps: int = STEPS) -> None:
    """Trains on lists that are drawn anew in each step."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    card = vt.read(HOME / "card.md")
    module = card.to_torch(card.initial_weights(SEED, "float32"))
    adam = torch.optim.AdamW(module.parameters(), lr=3e-3, weight_decay=0.3)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for step in range(1, steps + 1):
        adam.zero_grad()
        loss = module(lists(BATCH))[1]
        loss.backward()
        adam.step()
        rate.step()
        if step % EVERY == 0:
            print(f"step {step:5}  loss {loss:.5f}", flush=True)
    weights = {name: w.detach().half().numpy() for name, w in module.weights().items()}
    save_safetensors(HOME / "model.safetensors", weights, {})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
