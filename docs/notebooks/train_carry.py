"""Trains the model of `carry.ipynb`: `python docs/notebooks/train_carry.py`."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import viete as vt
from viete.formats.files import save_safetensors

HOME = Path(__file__).parent / "carry"
SEED, LINES, STEPS = 0, 60_000, 3000


def line(a: int, b: int) -> str:
    """`864+394=8521`: the sum from its last digit to its first."""
    return f"{a:03}+{b:03}=" + f"{a + b:04}"[::-1]


def main(steps: int = STEPS) -> None:
    """Trains on a part of all pairs, and keeps the weights in half precision."""
    draw = random.Random(SEED)
    with TemporaryDirectory() as folder:
        data, run = Path(folder, "sums.txt"), Path(folder, "run")
        lines = [line(draw.randrange(1000), draw.randrange(1000)) for _ in range(LINES)]
        data.write_text("\n".join(lines))
        command = [sys.executable, "-m", "viete", "train", str(HOME / "card.md"), "--kind", "lines"]
        options = f"""--batch 256 --lr 0.003 --schedule cosine --warmup 100 --steps {steps}
                      --seed {SEED} --log-every 100 --eval-every 500 --save-every 0"""
        command += ["--data", str(data), "-o", str(run), *options.split()]
        subprocess.run(command, check=True)
        weights = {k: np.asarray(w, np.float16) for k, w in vt.load(run).weights.items()}
        save_safetensors(HOME / "model.safetensors", weights, {})
        shutil.copy(run / "tokenizer.json", HOME)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
