"""When does the induction circuit form? The run and the circuit of docs/guides/dynamics.md, timed.

python benchmarks/dynamics.py
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

import viete as vt

HOME = Path(__file__).parents[1]
NOTEBOOK = HOME / "docs" / "notebooks" / "induction.ipynb"
OPTIONS = """--length 64 --batch 24 --steps 350 --lr 0.008 --seed 0 --log-every 0 --eval-every 0
             --save-at log --save-every 25 --keep 30"""
BEFORE = r"\sum_{j=1}^{n-1} A^{1,h}_{j,j-1} / (n - 1)"
INDUCTION = r"\sum_{j=16}^{n-1} A^{2,h}_{j,j-15} / (n - 16)"
SCORE = r"\sum_{j=16}^{n-2} logsoftmax(logits)_{j,t_{j+1}} / (n - 17)"


def trained(home: Path) -> vt.Model:
    """The model of the notebook, trained on its text with checkpoints."""
    cells = ["".join(c["source"]) for c in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]]
    card = next(c for c in cells if c.startswith("CARD")).split('r"""')[1].split('"""')[0]
    (home / "two-layers.md").write_text(card, encoding="utf-8")
    draw = random.Random(0)

    def letters(count: int) -> str:
        return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(count))

    text = " ".join((letters(draw.randint(6, 16)) * 4)[:40] for _ in range(8000))
    (home / "text.txt").write_text(text)
    probes = ["".join(draw.sample("abcdefghijklmnopqrstuvwxyz", 16)) * 3 for _ in range(12)]
    (home / "probes.txt").write_text("\n".join(probes) + "\n")
    command = [sys.executable, "-m", "viete", "train", str(home / "two-layers.md"), "--data",
               str(home / "text.txt"), "-o", str(home / "run"), *OPTIONS.split()]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return vt.load(home / "run")


def main() -> None:
    home = Path(tempfile.mkdtemp())
    begun = monotonic()
    model = trained(home)
    print(f"trained in {monotonic() - begun:.0f} s")
    begun = monotonic()
    probes, steps = str(home / "probes.txt"), model.checkpoints()
    steps.ask(BEFORE, INDUCTION, SCORE, texts=probes)
    history = steps.circuit(SCORE, probes, edges=9)
    print(f"{len(steps)} checkpoints asked in {monotonic() - begun:.0f} s")
    print(history)


if __name__ == "__main__":
    main()
