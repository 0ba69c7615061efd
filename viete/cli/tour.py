"""``viete tour``: the main job on the shipped cards, step by step."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from shutil import rmtree
from typing import Annotated

import typer

from viete.cli.train import set_threads
from viete.errors import VieteError, os_refusals

WRONG = """# A card with a mistake

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 10 |
| $d$ | 8 |
| $d_f$ | 32 |
| $n$ | ≤ 16 |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V \\times d$ |
| $W_1, W_2$ | $d \\times d_f$ |

## Forward pass

1. $x = E[t]$
2. $y = x + GELU(x W_1) W_2$
"""


def story(folder: str) -> list[tuple[str, str]]:
    """What the tour shows: a title, and the command that is run as it stands there."""
    asked = [
        ("What it answers: computed position by position, from a cache that was derived",
         f"sample {folder}/dialogs --greedy --stop '<eot>' --text '<system>You are helpful."
         f"</system><user>{question}</user><assistant>'")
        for question in ("hi", "what is 2+2?", "color of sky?")
    ]  # fmt: skip
    return [
        ("A card is a page of equations", "show symbolic-transformer"),
        ("The same card is a model that runs",
         "run symbolic-transformer --tokens 3,1,4,1,5 --seed 0 --show S,A,y"),
        ("Any expression of the notation can be asked for",
         "run pre-norm-pythia --set V=50 --set d=16 --set L=2 --set H=2 --tokens 3,1,4,1 "
         "--seed 0 --show '<x^2_3, x^2_3 - x^1_3>'"),
        ("Weights written by hand: the lesson's three letters",
         "run exact-lesson --tokens 'a b' --show A,logits,y"),
        ("The same pass in exact numbers: nothing is rounded, equality is decided",
         "run exact-lesson --tokens 'a b' --meaning exact --show S,A,r,u,logits,y --digits 12"),
        ("A lesson, written from the equations",
         f"lesson exact-lesson --tokens 'a b' -o {folder}/lesson.html"),
        ("The derivative, by rewriting: equations again, with the reason of each",
         "grad dialog-transformer --by W_Q"),
        ("Equations, backward pass and Adam as a page of NumPy that needs no Viète",
         f"export dialog-transformer --to numpy -o {folder}/dialog.py"),
        ("Three dialogs learned with NumPy: Adam at 0.01, 3000 epochs, entries clipped at 5",
         f"train dialog-transformer --data dialogs -o {folder}/dialogs --steps 3000 --lr 0.01 "
         "--clip 0 --clip-entries 5 --log-every 500"),
        *asked,
        ("How it learned", f"plot {folder}/dialogs"),
        ("Parameters, operations and bytes, counted from the equations",
         "show simple-transformer --costs -B 64"),
        ("An architecture document, written from the card",
         f"doc simple-transformer -o {folder}/simple-transformer.md"),
        ("Card against weights: the file was made by another model",
         f"check symbolic-transformer --weights {folder}/drifted.safetensors"),
        ("A mistake is shown where it stands", f"show {folder}/wrong.md"),
    ]  # fmt: skip


def tour(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Where the documents go.")] = Path("viete-tour"),
) -> None:
    """See the main job done on the shipped cards, in under a minute."""
    with os_refusals(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
    set_threads(None)  # as the command does: NumPy is told before it is first imported
    rmtree(folder / "dialogs", ignore_errors=True)
    drifted(folder / "drifted.safetensors")
    (folder / "wrong.md").write_text(WRONG, "utf-8")
    viete, script, page = context.find_root().command, "dialog.py", "simple-transformer"
    for title, line in story(shlex.quote(str(folder))):
        more = f"\n$ python {folder / script}" if line.endswith(script) else ""
        print(f"\n\n━━ {title} ━━\n$ viete {line}{more}\n", flush=True)
        try:
            viete(shlex.split(line), standalone_mode=False)
        except VieteError as error:
            print(f"viete: {error}")
        if line.endswith(script):
            run_script(folder / script)
        if line.endswith(f"{page}.md"):
            print(f"written: {folder / page}.md and {folder / page}.svg")
    print(
        f"\nThat was the tour. Its files are in {folder}/; `viete cards` lists the shipped cards."
    )


def run_script(script: Path) -> None:
    """Show some of a program, and what it prints."""
    lines = script.read_text("utf-8").splitlines()
    begin = lines.index("    # -- Backward: Attention")
    print("\n".join(["    …", *lines[begin : begin + 11], "    …"]), flush=True)
    print(subprocess.run([sys.executable, script], capture_output=True, text=True).stdout, end="")


def drifted(path: Path) -> None:
    """A file such as a card drifts from: renamed, missing and extra tensors."""
    import numpy as np

    from viete import read
    from viete.formats.files import save_safetensors

    weights = read("symbolic-transformer").initial_weights(0, "float32")
    weights["W^O"] = np.zeros((5, 6), np.float32)
    weights["gamma_2"] = np.ones(5, np.float32)
    weights["lm_head"] = weights.pop("W^out").T.copy()
    save_safetensors(path, weights)
