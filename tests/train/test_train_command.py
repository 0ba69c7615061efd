"""``viete train`` and ``viete plot`` as a person types them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.command_line import instead, viete
from viete.cli.app import command
from viete.errors import VieteError
from viete.train.diagnosis import Divergence
from viete.train.metrics import METRICS
from viete.train.plot_text import plot_text
from viete.train.settings import Settings

SMALL = ["train", "dialog-transformer", "--data", "dialogs", "--set", "d=8", "--batch", "2",
         "--log-every", "2"]  # fmt: skip


def refused(*arguments: object) -> str:
    with pytest.raises(VieteError) as error:
        command()([str(a) for a in arguments], standalone_mode=False)
    return str(error.value)


def test_train_go_on_and_plot(tmp_path: Path) -> None:
    said = viete(*SMALL, "-o", tmp_path, "--steps", 4, "--tensorboard").out
    assert "30 tokens in its vocabulary; 260 tokens of" in said
    assert "step      2  loss 3." in said and "4 steps done" in said
    assert "batches per epoch" in said and f"saved in {tmp_path}" in said
    assert list((tmp_path / "tensorboard").iterdir())
    said = viete("train", "--resume", "-o", tmp_path, "--steps", 6).out
    assert "going on after step 4" in said and "6 steps done" in said
    assert "has already taken its 6 steps" in viete("train", "--resume", "-o", tmp_path).out
    assert str(tmp_path / "loss.svg") in viete("plot", tmp_path).err
    assert (tmp_path / "loss.svg").read_text().startswith("<svg")
    viete("plot", tmp_path, tmp_path, "-o", tmp_path / "two.svg")
    assert {p.name for p in tmp_path.iterdir()} >= {
        "card.md", "config.json", "tokenizer.json", "metrics.jsonl", "checkpoints"
    }  # fmt: skip


def test_the_legend_of_a_plot_names_what_is_drawn(tmp_path: Path) -> None:
    for key, sign in (("loss", "● training loss"), ("validation", "○ validation loss")):
        (tmp_path / METRICS).write_text(f'{{"step": 1, "{key}": 2.0}}\n')
        *_, legend = plot_text(tmp_path)
        assert legend.strip() == sign


def test_a_plot_fits_the_terminal(tmp_path: Path) -> None:
    steps = (f'{{"step": {k}, "loss": {1 / k}}}\n' for k in range(1, 90))
    (tmp_path / METRICS).write_text("".join(steps))
    assert [max(map(len, plot_text(tmp_path, w))) for w in (40, 60, 200)] == [40, 60, 67]
    said = refused("plot", tmp_path, "-o", tmp_path / "loss.png")
    assert "writes no .png files; give .svg" in said
    assert [x.name for x in tmp_path.iterdir()] == [METRICS]


def test_a_loss_that_ends_far_above_its_lowest(tmp_path: Path) -> None:
    """The last steps are compared, also with what a run had before it went on; rates that learn
    are left in peace."""
    said = viete(*SMALL, "-o", tmp_path / "a", "--steps", 60, "--lr", 0.01).out
    assert "far above" not in said
    said = viete("train", "--resume", "-o", tmp_path / "a", "--steps", 90, "--lr", 3).out
    last = said.splitlines()[-1]
    assert last.startswith("the loss of the last 20 steps is ") and "far above its lowest, " in last
    assert "at step 60" in last and "try --lr 1 in place of 3, or keep it with --warmup 100" in last


def losses(*parts: tuple[int, float]) -> Divergence:
    found = Divergence()
    for step, loss in enumerate((loss for steps, loss in parts for _ in range(steps)), 1):
        found.add(step, loss)
    return found


def test_the_advice_is_of_what_the_run_has_not() -> None:
    """What is set already is not advised, and a loss that never rose gets no advice."""
    bold = losses((40, 1.0), (40, 0.1), (40, 0.5))
    said = bold.sentence(Settings(lr=0.03))
    assert said.endswith("keep it with --warmup 100 --schedule cosine --clip 0 --eps 0.001")
    said = bold.sentence(Settings(lr=0.03, warmup=100))
    assert said.endswith("0.03, or keep it with --schedule cosine --clip 0 --eps 0.001")
    every = Settings(lr=0.03, warmup=200, schedule="cosine", clip=0.0, eps=1e-3)
    assert bold.sentence(every).endswith("try --lr 0.01 in place of 0.03")
    came_down = losses((40, 1.0), (40, 0.2), (40, 0.9), (60, 0.15))
    said = came_down.sentence(Settings(), floor=0.0128)
    assert "far above the floor of these texts, 0.0128: it rose to 0.9 at step" in said
    assert came_down.sentence(Settings(), floor=0.12) == ""
    assert came_down.sentence(Settings()) == ""
    assert losses((40, 1.0), (40, 0.2), (60, 0.15)).sentence(Settings(), floor=0.0128) == ""


def test_a_texts_own_special_tokens(tmp_path: Path) -> None:
    """One token each, in no vocabulary as letters, and what a sample can end with."""
    (tmp_path / "a.txt").write_text("ab ba<END>" * 20)
    given = ["train", "simple-transformer", "--set", "d=8", "--set", "d_h=8", "--set", "H=2",
             "--data", tmp_path / "a.txt", "--length", 5, "--lr", 0.05]  # fmt: skip
    said = viete(*given, "--special", "<END>", "-o", tmp_path / "run", "--steps", 150).out
    assert "4 tokens in its vocabulary" in said  # a, b, the space, and <END>
    sample = ["sample", tmp_path / "run", "--greedy", "--most", 12]
    assert viete(*sample, "--text", "ab", "--stop-token", "<END>").out == " ba<END>\n"
    again = viete("train", "--resume", "-o", tmp_path / "run", "--steps", 151).out
    assert "151 steps done" in again
    assert "the special token <eot> is not in it" in refused(
        *given, "--special", "<eot>", "-o", tmp_path / "other"
    )
    assert "--special needs a new vocabulary" in refused(
        *given, "--special", "<END>", "--tokenizer", tmp_path / "run" / "tokenizer.json",
        "-o", tmp_path / "other",
    )  # fmt: skip


def test_a_run_may_be_called_like_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    viete(*SMALL, "-o", "dialogs", "--steps", 2)
    assert "4 steps done" in viete("train", "--resume", "-o", "dialogs", "--steps", 4).out


def test_files_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("a rose is a rose. " * 20)
    (tmp_path / "data" / "b.png").write_bytes(b"\x89PNG\0")
    given = instead(SMALL, "--data", tmp_path / "data", "--length", 8, "--steps", 1)
    assert "left out, as no text: b.png\n" in viete(*given, "-o", tmp_path / "run").out


def test_samples_as_it_learns(tmp_path: Path) -> None:
    given = [*SMALL, "--set", "d=16", "--steps", 120, "--lr", 0.03, "--sample-every", 60]
    said = viete(*given, "-o", tmp_path / "a").out
    shown = [line for line in said.splitlines() if "▸" in line]
    assert [line[:14] for line in shown] == ["step     60  <", "step    120  <"]
    assert shown[-1].split("  ")[-1].startswith("<system>You are helpful.</system><user>hi</user>")
    assert [x for x in viete(*given, "-o", tmp_path / "b").out.splitlines() if "▸" in x] == shown
    said = viete(*given, "-o", tmp_path / "c", "--text", "<system>You").out
    assert "<system>You▸" in said


def test_the_runs_card_runs_on_the_runs_weights(tmp_path: Path) -> None:
    viete(*SMALL, "-o", tmp_path, "--steps", 1)
    weights = tmp_path / "checkpoints" / "step-000001" / "model.safetensors"
    said = viete("run", tmp_path / "card.md", "-t", "1,2", "-w", weights, "--show", "logits").out
    assert "logits  (n = 2 × V = 30)" in said


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    assert "give -o RUN/" in refused(*SMALL)
    assert "give a CARD and --data" in refused("train", "-o", tmp_path)
    assert "leave out CARD" in refused(*SMALL, "-o", tmp_path, "--resume")
    assert "not a run of `viete train`" in refused("train", "-o", tmp_path, "--revision", "best")
    assert "--lr is a number from 0" in refused(*SMALL, "-o", tmp_path, "--lr", -1)
    assert "there is no such file" in refused(
        "train", "gpt2", "--data", tmp_path / "nothing.txt", "-o", tmp_path
    )
    assert "there is no loss" in refused("plot", tmp_path)
    assert not list(tmp_path.iterdir())


def test_new_parameters_of_a_changed_run_begin_as_their_init_says(tmp_path: Path) -> None:
    page = """# A change

## Parameters

| symbol | shape | init |
| --- | --- | --- |
| $B$ | $n_{max} × d$ | INIT |

## Forward pass

1. $Z = O W_O + B[:n]$
"""
    new, bare = tmp_path / "new.md", tmp_path / "bare.md"
    new.write_text(page.replace("INIT", "0"))
    bare.write_text(page.replace("INIT", ""))
    given = ("--data", "dialogs", "--batch", "3", "--steps", "1", "--lr", "0", "--log-every", "0")
    viete("train", "dialog-transformer", *given, "-o", tmp_path / "old")
    viete("train", tmp_path / "old", "--put", new, *given, "-o", tmp_path / "run")
    old, run = (vt.load(tmp_path / name) for name in ("old", "run"))
    for name, w in old.weights.items():
        np.testing.assert_array_equal(run.weights[name], w)
    assert run.weights["B"].shape == (512, 64) and not run.weights["B"].any()
    options = (tmp_path / "old", "--put", bare, *given, "-o", tmp_path / "no")
    said = viete("train", *options, code=2).err
    assert "bare.md:7:4: B is new, so it needs an init" in said
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("name", ["gpt2", "llama", "pythia", "attention-only-2"])
def test_lines_train_cards_with_operators(name: str, tmp_path: Path) -> None:
    """Targets are counted by a card without values, so without operators of values, too."""
    lines = tmp_path / "lines.txt"
    lines.write_text("abcabc\nabcabd\nab\n", "utf-8")
    small = [] if name == "attention-only-2" else ["d=16", "N=1", "H=2", "d_f=16"]
    sizes = [word for x in small for word in ("--set", x)]
    viete("train", name, *sizes, "--length", 8, "--validation", 0, "--steps", 1, "--data", lines,
          "--kind", "lines", "-o", tmp_path / "run")  # fmt: skip
    assert (tmp_path / "run" / METRICS).exists()
