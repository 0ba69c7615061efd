"""Questions and circuits over the checkpoints of a run are those of each checkpoint by itself."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.circuits.history import CircuitHistory, CircuitStep
from viete.model.checkpoints import steps
from viete.report.pictures.multiples import LinePanel, StepAxis, multiples
from viete.train.settings import Settings

HEADS, NUMBER = "A^{i,h}_{-1,0}", "logsoftmax(logits_{-1})[1]"
TEXTS = [[0, 1, 2, 0], [2, 2, 1, 0], [1, 0, 0, 2]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps, with the checkpoints that --save-at log keeps."""
    home = tmp_path_factory.mktemp("dynamics")
    (home / "data.txt").write_text("abab baba abba " * 30)
    small = [x for s in ("d=8", "H=2", "n_max=16") for x in ("--set", s)]
    viete("train", "attention-only-2", "--data", home / "data.txt", "--steps", 4, "--save-every", 0,
          "--save-at", "log", "--keep", 1, "--batch", 2, "--lr", 0.1, *small,
          "-o", home / "run")  # fmt: skip
    return home / "run"


def test_chosen_steps_stay(run: Path) -> None:
    assert steps(run) == [0, 1, 2, 4]
    assert Settings(save_at="log,3,100", steps=9).steps_saved == {0, 1, 2, 3, 4, 8, 100}
    assert Settings(steps=9).steps_saved == frozenset()
    drawn = vt.load(run, revision="0").card.initial_weights(seed=0, dtype="float32")
    start = vt.load(run, revision="0").weights
    assert all(np.array_equal(drawn[name], start[name]) for name in drawn)
    with pytest.raises(vt.VieteError, match="--save-at is log, steps such as 0,50,100, or both"):
        Settings(save_at="soon")


def test_answers_are_each_checkpoints_own(run: Path) -> None:
    comparison = f"{NUMBER} > -1.5"
    over = vt.load(run).checkpoints().ask(HEADS, NUMBER, comparison, texts=TEXTS)
    assert over.steps == [0, 1, 2, 4] and over[HEADS].shape == (4, 2, 2)
    found = []
    for k, step in enumerate(over.steps):
        model = vt.load(run, revision=str(step))
        runs = [model.run(ids) for ids in TEXTS]
        np.testing.assert_allclose(over[HEADS][k], np.mean([r[HEADS] for r in runs], 0), rtol=1e-6)
        found.append([float(r[NUMBER]) for r in runs])
        assert over[comparison][k] == all(x > -1.5 for x in found[-1])
    np.testing.assert_allclose(over[NUMBER], np.mean(found, 1), rtol=1e-6)
    holds = [s for s, each in zip(over.steps, found, strict=True) if min(each) > -1.5]
    assert over.first(comparison) == (holds[0] if holds else None)
    with pytest.raises(vt.VieteError, match="is not a comparison"):
        over.first(NUMBER)
    with pytest.raises(vt.VieteError, match="has no checkpoints; write changes behind a question"):
        vt.load(run).put("A^{2,1} = 0").checkpoints()


def test_the_command_writes_rows_curves_and_data(run: Path, tmp_path: Path) -> None:
    asked = ("ask", run, "--text", "abab", "--revision")
    rows = viete(*asked, "all", NUMBER, f"{NUMBER} < 9").out.splitlines()
    assert f"{NUMBER} < 9 first holds at step 0, and at each later one." in "\n".join(rows)
    assert [x.split()[0] for x in rows if x.strip()][-4:] == ["0", "1", "2", "4"]
    own = float(vt.load(run, revision="4").run("abab")[NUMBER])
    assert float(rows[-1].split()[1]) == pytest.approx(own, abs=1e-3)
    out = {x: tmp_path / f"answers.{x}" for x in ("csv", "json", "html", "svg")}
    for path in out.values():
        viete(*asked, "all", HEADS, "A^{2,1}", "x^2", f"{NUMBER} < 9", "-o", path)
    table = list(csv.reader(out["csv"].open()))
    assert [row[0] for row in table] == ["revision", "0", "1", "2", "4"]
    values = json.loads(out["json"].read_text())["rows"][3]["answers"][0]["value"]
    np.testing.assert_allclose(np.ravel(values), [float(x) for x in table[4][1:5]])
    drawing = out["svg"].read_text()
    assert drawing.count("<circle") == 4 * 4  # a panel for each head, a dot for each step
    assert drawing.count("step 4</text>") == 2 and "<polyline" in out["html"].read_text()
    sparks = viete(*asked, "0,4", HEADS, "--draw").out
    assert "i 2, h 2" in sparks and "steps 0 to 4" in sparks
    assert "<circle" not in viete(*asked, "4", HEADS, "--draw").out


def test_a_claim_is_held_to_every_step(run: Path) -> None:
    """It holds at a step where the command holds it to that step alone."""
    claim = f"{NUMBER} ≥ -1.1 for texts of random(4)"
    said = viete("check", run, claim, "--revision", "all", code=None).out
    rows = [line for line in said.splitlines() if line.strip()][-4:]
    assert [row.split()[0] for row in rows] == ["0", "1", "2", "4"]
    for row in rows:
        step, holds = row.split()
        assert vt.load(run, revision=step).check(claim).ok == (holds == "True")
    always = viete("check", run, f"{NUMBER} ≤ 0 for texts of random(4)", "--revision", "1,4").out
    assert "first holds at step 1, and at each later one." in always
    refused = viete("check", run, claim, "--revision", "all", "-t", "1,2", code=2).err
    assert "cannot be combined with --weights, --against or --tokens" in refused


def test_a_circuit_is_held_to_every_step(run: Path, tmp_path: Path) -> None:
    model = vt.load(run)
    history = model.checkpoints("1", "4").circuit(NUMBER, TEXTS, edges=5)
    edges = model.circuits(NUMBER, TEXTS).largest(5)
    assert history.edges == edges and history.texts == f"{len(TEXTS)} texts"
    for found in history.steps:
        search = vt.load(run, revision=str(found.step)).circuits(NUMBER, TEXTS)
        numbers = search.of_model, search.measured(()), search.measured(edges)
        expected = tuple(float(x.mean()) for x in numbers)
        assert (found.of_model, found.of_none, found.value) == pytest.approx(expected, rel=1e-6)
    scored = model.checkpoints("4").circuit(NUMBER, TEXTS, 5, score="patching")
    assert scored.edges == model.circuits(NUMBER, TEXTS, score="patching").largest(5)
    for of, edges, said in (("log(-1 - logits_{-1,1}^2)", 5, "is nan"), (NUMBER, [], "take more")):
        with pytest.raises(vt.VieteError, match=said):
            model.checkpoints("4").circuit(of, TEXTS, edges)
    path = tmp_path / "curves.csv"
    other = model.checkpoints("4").circuit(NUMBER, TEXTS, edges=5, score="patching", confirm=True)
    assert set(other.edges) == set(model.circuits(NUMBER, TEXTS, score="patching").confirmed(5))
    asked = ("circuit", run, "--revision", "1,4", "--of", NUMBER, "--texts", "random(4)",
             "--edges", 5)  # fmt: skip
    viete(*asked, "-o", path)
    assert [row["step"] for row in csv.DictReader(path.open())] == ["1", "4"]
    viete(*asked, "-o", path.with_suffix(".svg"))
    assert path.with_suffix(".svg").read_text().count("<polyline") == 4
    assert "one number of edges" in viete(*asked[:-1], "1,2", code=2).err


def test_there_is_no_share_of_nothing() -> None:
    def at(step: int, model: float, value: float) -> CircuitStep:
        return CircuitStep(step, model, 1.0, value)

    made = vt.read("attention-only-2").bind(V=3, d=4, H=2, n_max=8).with_weights(seed=0)
    of = made.circuits(NUMBER, TEXTS).of
    history = CircuitHistory(of, "texts", (), (at(0, 1.1, 9), at(5, 2.0, 1.5), at(9, 5.0, 4.8)))
    np.testing.assert_allclose(history.faithfulness, [np.nan, 0.5, 0.95])
    assert history.first(0.9) == 9 and history.first(0.99) is None
    assert "nothing to explain" in str(history)


def test_steps_that_double_are_on_a_logarithmic_axis() -> None:
    assert StepAxis([0, *(2**k for k in range(12))], 100.0).log
    assert not StepAxis(range(0, 400, 25), 100.0).log
    panels = [LinePanel("p", {"one": np.arange(3.0), "two": np.array([np.nan, 1.0, 2.0])})]
    picture = multiples("", [1, 2, 4], panels)
    assert picture.svg.count("<circle") == 5 and "two" in picture.svg


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--revision", "0,", "x^1", "--text", "ab"], "with commas"),
        (["--revision", "0,3", "x^1", "--text", "ab"], "there is no checkpoint of step 3"),
        (["--revision", "0,4", "1 > 0", "--text", "ab", "-o", "a.svg"], "no curve"),
    ],
)
def test_what_is_refused(run: Path, options: list[str], message: str) -> None:
    assert message in viete("ask", run, *options, code=2).err
