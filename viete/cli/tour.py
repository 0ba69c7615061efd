"""``viete tour``: the main job on the shipped cards, step by step."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Annotated

import typer

from viete.cli import check, doc, export, grad, lesson, plot, run, sample, show, train
from viete.errors import VieteError

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


def tour(
    folder: Annotated[Path, typer.Argument(help="Where the documents go.")] = Path("viete-tour"),
) -> None:
    """See the main job done on the shipped cards, in under a minute."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VieteError(f"{folder}: cannot be made ({error.strerror})") from None
    train.set_threads(None)  # as the command does: NumPy is told before it is first imported
    step("A card is a page of equations", "viete show symbolic-transformer")
    show.show("symbolic-transformer")
    step("The same card is a model that runs",
         "viete run symbolic-transformer --tokens 3,1,4,1,5 --seed 0 --show S,A,y")  # fmt: skip
    run.run("symbolic-transformer", "3,1,4,1,5", seed=0, show="S,A,y")
    step("Any expression of the notation can be asked for",
         "viete run pre-norm-pythia --set V=50 --set d=16 --set L=2 --set H=2 --tokens 3,1,4,1 "
         "--seed 0 --show '<x^2_3, x^2_3 - x^1_3>'")  # fmt: skip
    small = ["V=50", "d=16", "L=2", "H=2"]
    run.run("pre-norm-pythia", "3,1,4,1", seed=0, sets=small, show="<x^2_3, x^2_3 - x^1_3>")
    step("Weights written by hand: the lesson's three letters",
         "viete run exact-lesson --tokens 'a b' --show A,logits,y")  # fmt: skip
    run.run("exact-lesson", "a b", show="A,logits,y")
    step("The same pass in exact numbers: nothing is rounded, equality is decided",
         "viete run exact-lesson --tokens 'a b' --exact --show S,A,r,u,logits,y "
         "--digits 12")  # fmt: skip
    run.run("exact-lesson", "a b", exact=True, show="S,A,r,u,logits,y", digits=12)
    lesson_page = folder / "lesson.html"
    step("A lesson, written from the equations",
         f"viete lesson exact-lesson --tokens 'a b' -o {lesson_page}")  # fmt: skip
    lesson.lesson("exact-lesson", "a b", output=lesson_page)
    step("The derivative, by rewriting: equations again, with the reason of each",
         "viete grad dialog-transformer --by W_Q")  # fmt: skip
    grad.grad("dialog-transformer", by="W_Q")
    script = folder / "dialog.py"
    step("Equations, backward pass and Adam as a page of NumPy that needs no Viète",
         f"viete export dialog-transformer --to numpy -o {script}\n$ python {script}")  # fmt: skip
    export.export("dialog-transformer", export.Target.numpy, output=script)
    lines = script.read_text("utf-8").splitlines()
    begin = lines.index("    # -- Backward: Attention")
    print("\n".join(["    …", *lines[begin : begin + 11], "    …"]), flush=True)
    print(subprocess.run([sys.executable, script], capture_output=True, text=True).stdout, end="")
    trained = folder / "dialogs"
    rmtree(trained, ignore_errors=True)
    step("Three dialogs learned with NumPy: Adam at 0.01, 3000 epochs, entries clipped at 5",
         f"viete train dialog-transformer --data dialogs -o {trained} --steps 3000 --lr 0.01 "
         "--clip 0 --clip-entries 5 --log-every 500")  # fmt: skip
    train.train("dialog-transformer", "dialogs", trained, steps=3000, lr=0.01, clip=0.0,
                clip_entries=5.0, log_every=500)  # fmt: skip
    for question in ("hi", "what is 2+2?", "color of sky?"):
        prompt = f"<system>You are helpful.</system><user>{question}</user><assistant>"
        step("What it answers: computed position by position, from a cache that was derived",
             f"viete sample {trained} --greedy --stop '<eot>' --prompt '{prompt}'")  # fmt: skip
        sample.sample(str(trained), prompt, greedy=True, stop=["<eot>"])
    step("How it learned", f"viete plot {trained}")
    plot.plot([trained])
    step("Parameters, operations and bytes, counted from the equations",
         "viete show simple-transformer --costs -B 64")  # fmt: skip
    show.show("simple-transformer", costs=True, batch=64)
    page = folder / "simple-transformer.md"
    step("An architecture document, written from the card",
         f"viete doc simple-transformer -o {page}")  # fmt: skip
    doc.doc("simple-transformer", output=page)
    print(f"written: {page} and {page.with_suffix('.svg')}")
    other = folder / "drifted.safetensors"
    step("Card against weights: the file was made by another model",
         f"viete check symbolic-transformer --weights {other}")  # fmt: skip
    drifted(other)
    with suppress(typer.Exit):
        check.check("symbolic-transformer", other)
    step("A mistake is shown where it stands", f"viete show {folder / 'wrong.md'}")
    (folder / "wrong.md").write_text(WRONG, "utf-8")
    try:
        show.show(str(folder / "wrong.md"))
    except VieteError as error:
        print(f"viete: {error}")
    print(
        f"\nThat was the tour. Its files are in {folder}/; `viete cards` lists the shipped cards."
    )


def step(title: str, command: str) -> None:
    """Announce what comes, and the command that shows it again."""
    print(f"\n\n━━ {title} ━━\n$ {command}\n", flush=True)


def drifted(path: Path) -> None:
    """A file such as a card drifts from: renamed, missing and extra tensors."""
    import numpy as np

    from viete import initial_weights, read
    from viete.formats.files import save_safetensors

    weights = initial_weights(read("symbolic-transformer"), 0, "float32")
    weights["W^O"] = np.zeros((5, 6), np.float32)
    weights["gamma_2"] = np.ones(5, np.float32)
    weights["lm_head"] = weights.pop("W^out").T.copy()
    save_safetensors(path, weights)
