"""Kill a training run at random instants, and hold what is left to a run that nobody disturbed.

    python benchmarks/faults.py [--kills 100] [--seed 0]

Every process saves a checkpoint after every step, so that most of the kills fall into a save. After
each, all checkpoints are read and checked byte for byte; at the end, losses and weights must be
those of the undisturbed run, bit for bit. No network, one core, less than a second a kill.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.train.launching import TRAINING, Launched, Launcher
from tests.train.test_faults import COMMAND, STEPS, killed_until_done, losses
from viete.model.checkpoints import load, path_of


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    said = parser.parse_args()
    rng, kills, runs = random.Random(said.seed), 0, 0
    launcher = Launcher(TRAINING)
    viete = partial(Launched, launcher)
    with tempfile.TemporaryDirectory() as folder:
        right = Path(folder) / "right"
        assert viete(*COMMAND, "-o", str(right)).wait(60) == 0
        end = load(path_of(right, STEPS)).weights
        while kills < said.kills:
            run = Path(folder) / f"run-{runs}"
            kills, runs = kills + killed_until_done(viete, run, rng, 0.05, math.inf), runs + 1
            assert losses(run) == losses(right), run
            found = load(path_of(run, STEPS)).weights
            assert all(np.array_equal(found[k], w) for k, w in end.items()), run
            print(
                f"{kills} kills, {runs} runs: every checkpoint whole, losses the same", flush=True
            )
    launcher.close()


if __name__ == "__main__":
    main()
