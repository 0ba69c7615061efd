"""``viete tour``: a story of what Viète does, in parts of less than a screen."""

from __future__ import annotations

import io
import random
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from shutil import rmtree
from typing import Annotated, Any, NamedTuple

import typer

from viete.cli.help import broken
from viete.cli.train import set_threads
from viete.document.columns import fitting_lines, terminal_width, wrapped
from viete.errors import VieteError, os_refusals

MOST = 16  # lines of one output; a longer one is shown without its blank lines
MARK = "drifted.safetensors"  # the first file of a tour: a folder that has it is a tour's
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


class StoryPart(NamedTuple):
    """A part of the story: what it is about, the commands, and the piece of output to show.

    The piece goes from the line ``start`` to the line that begins with ``stop``, if they are given.
    """

    title: str
    words: str
    commands: tuple[str, ...]
    start: str = ""
    stop: str = ""


def story(folder: str) -> list[StoryPart]:
    """The parts, in their order; each command is run as it stands there."""
    aba = "letters-attention -t 'a b a'"
    return [
        StoryPart("Three letters",
             "A model is a card: a page of equations, which you can read and which run. This card "
             "reads letters and predicts the next one. Its forward pass, with the shape of every "
             "value:",
             ("show letters-attention",), "Forward pass", "Derived"),
        StoryPart("The equations run",
             "The text is a b a. A says which letters each letter looks at, and y is the predicted "
             "next letter at each position. After the last a it is letter 1, the b.",
             (f"run {aba} --show A,logits,y",)),
        StoryPart("Nothing is rounded",
             "The same run in exact numbers. The last row of A is made of powers of e, and b is "
             "predicted because e > 2, which is proved, not measured:",
             (f"run {aba} --meaning exact --show A_2 --digits 12",
              f"check {aba} --meaning exact 'A_{{2,1}} > 1/2'")),
        StoryPart("The lesson",
             "Every step of that run with its numbers put in, as a page. Open it in your browser.",
             (f"lesson {aba} -o {folder}/lesson.html",)),
        StoryPart("Learning",
             "A card with two blocks and random weights reads random words, each repeated, such "
             "as badgebadgebadge. The backward pass is derived from its equations.",
             (f"train letters-learned --data {folder}/letters.txt --kind lines -o {folder}/run "
              "--steps 600 --batch 16 --lr 0.02 --schedule cosine --log-every 100",)),
        StoryPart("The loss",
             "The loss falls while the model learns that words repeat. Then it stays near 1.2, "
             "because the letters of a new word are random.", (f"plot {folder}/run",)),
        StoryPart("What it has learned", "A word that it has never seen is continued as it began:",
             (f"sample {folder}/run --text badgebad --greedy --most 8 --echo",)),
        StoryPart("A picture",
             "The data flow of Pythia, drawn from its card.",
             (f"show pythia -o {folder}/pythia.svg",)),
        StoryPart("A trained model, asked",
             "A model of two layers comes with Viète. What does it predict after planktonpl, "
             "which letters does a head of layer 2 look at, and what becomes of the logit of a "
             "when each head of that layer is switched off?",
             ("ask two-layers --text planktonpl 'top_3(logits_{-1})' 'top_3(A^{2,1}_{-1})' "
              "'logits_{-1,\"a\"} with A^{2,h} = 0'",), "top_3(logits_{-1})  (top = 3)"),
        StoryPart("Part two: what it costs",
             "Parameters, operations and bytes are counted from the equations, with the card's "
             "symbols. The operations of GPT-2 on 128 tokens:",
             ("show gpt2 --costs -T 128",), "Operations", "matrix products"),
        StoryPart("A file of weights that does not fit",
             "Does a card describe a file? This file was made by a slightly different model:",
             (f"check symbolic-transformer --weights {folder}/{MARK}",)),
        StoryPart("A mistake",
             "An error says where it is, what is wrong, and what would be right:",
             (f"show {folder}/wrong.md",)),
    ]  # fmt: skip


def tour(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The folder for the files.")] = Path("viete-tour"),
) -> None:
    """See what Viète does: a story in the terminal that takes a few seconds."""
    with os_refusals(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / MARK).exists():
            raise VieteError(f"{folder} holds other files; give the name of a new folder")
    set_threads(None)  # as the command does: NumPy is told before it is first imported
    rmtree(folder / "run", ignore_errors=True)
    prepare(folder)
    viete, width = context.find_root().command, terminal_width()
    for part in story(shlex.quote(str(folder))):
        print(f"\n\n━━ {part.title} ━━\n", flush=True)
        print("\n".join(wrapped(part.words, min(width, 80))), flush=True)
        for line in part.commands:
            print(f"\n$ {broken(line, width)}\n", flush=True)
            play(viete, line, part)
    end = (
        f"That was the tour. Open {folder / 'lesson.html'} and {folder / 'pythia.svg'}.",
        "viete --help lists the commands, and viete COMMAND --help has examples of each.",
    )
    print("", *fitting_lines(end, width), sep="\n")


def play(viete: Any, line: str, part: StoryPart) -> None:
    """Run a command, and show the piece of what it prints that its part wants."""
    output = io.StringIO()
    try:
        with redirect_stdout(output):
            viete(shlex.split(line), standalone_mode=False)
    except VieteError as error:
        print("\n".join(fitting_lines(f"viete: {error}".splitlines(), terminal_width())))
    except typer.Exit:  # a check that fails
        pass
    shown = piece(output.getvalue().splitlines(), part.start, part.stop)
    shown = [x for x in shown if x] if len(shown) > MOST else shown
    print("\n".join(shown), flush=True)


def piece(lines: list[str], start: str, stop: str) -> list[str]:
    """The lines from ``start`` up to the first that begins with ``stop``, without blank ends."""
    first = lines.index(start) if start and start in lines else 0
    last = next((k for k, x in enumerate(lines[first:], first)
                 if stop and x.lstrip().startswith(stop)), len(lines))  # fmt: skip
    return "\n".join(lines[first:last]).strip("\n").split("\n")


def prepare(folder: Path) -> None:
    """The files that the story reads: words that repeat themselves, two files with mistakes."""
    import numpy as np

    from viete import read
    from viete.formats.files import save_safetensors

    weights = read("symbolic-transformer").initial_weights(0, "float32")
    weights["W^O"] = np.zeros((5, 6), np.float32)
    weights["gamma_2"] = np.ones(5, np.float32)
    weights["lm_head"] = weights.pop("W^out").T.copy()
    save_safetensors(folder / MARK, weights)
    draw = random.Random(0)
    words = ("".join(draw.choices("abcdefgh", k=draw.randint(4, 12))) for _ in range(4000))
    (folder / "letters.txt").write_text("".join(f"{(w * 6)[:24]}\n" for w in words), "utf-8")
    (folder / "wrong.md").write_text(WRONG, "utf-8")
