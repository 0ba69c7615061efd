"""Trains the model of `brackets.ipynb`: `python docs/notebooks/train_brackets.py`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import torch

import viete as vt
from viete.formats.files import save_safetensors

HOME = Path(__file__).parent / "brackets"
SEED, STEPS, BATCH, EVERY = 0, 3000, 256, 250


def balanced(draw: random.Random, pairs: int) -> list[int]:
    """A balanced text of so many pairs: 0 opens, 1 closes."""
    text, open_, left = list[int](), 0, 2 * pairs
    while left:
        closes = open_ == left or (open_ > 0 and draw.random() < 0.5)
        text.append(int(closes))
        open_ += -1 if closes else 1
        left -= 1
    return text


def example(draw: random.Random, pairs: int) -> list[int]:
    """A text with its sign at the end: balanced, of brackets changed or exchanged, or any."""
    text = balanced(draw, pairs)
    kind = draw.random()
    if 0.45 < kind <= 0.65:  # as many of each, in any order
        draw.shuffle(text)
    elif 0.65 < kind <= 0.85:  # one bracket is the other
        text[draw.randrange(2 * pairs)] ^= 1
    elif kind > 0.85:
        text = [draw.randrange(2) for _ in text]
    return [*text, 2]


def main(steps: int = STEPS) -> None:
    """Trains on texts of 1 to 12 pairs; those of one step have one length."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    draw = random.Random(SEED)
    card = vt.read(HOME / "card.md")
    module = card.to_torch(card.initial_weights(SEED, "float32"))
    adam = torch.optim.AdamW(module.parameters(), lr=2e-3, weight_decay=0.1)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for step in range(1, steps + 1):
        pairs = draw.randint(1, 12)
        texts = torch.tensor([example(draw, pairs) for _ in range(BATCH)])
        adam.zero_grad()
        loss = module(texts)[1]
        loss.backward()
        adam.step()
        rate.step()
        if step % EVERY == 0:
            print(f"step {step:5}  loss {loss:.5f} of {pairs} pairs", flush=True)
    weights = {name: w.detach().half().numpy() for name, w in module.weights().items()}
    save_safetensors(HOME / "model.safetensors", weights, {})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
