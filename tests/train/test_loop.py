"""Training from settings to a folder: what a run does, keeps and says."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from viete.errors import VieteError
from viete.model import checkpoints
from viete.text.data import read_data
from viete.train.loop import Outcome, Training, train
from viete.train.metrics import RunMetrics, masked, read_metrics
from viete.train.plot import plot_runs
from viete.train.progress import Progress
from viete.train.settings import Settings
from viete.train.setup import Job, begin, resume

SMALL = {"d": 16, "n_max": 96}


def started(run: Path, **given: Any) -> Job:
    chosen = {"data": "dialogs", "steps": 12, "batch": 3, "lr": 0.01, "log_every": 1,
              "save_every": 4, **given}  # fmt: skip
    card = vt.read("dialog-transformer").bind(**SMALL)
    return begin(Settings(card="dialog-transformer", **chosen), card, run)


def trained(run: Path, **given: Any) -> Outcome:
    return train(started(run, **given))


def losses(run: Path) -> list[float]:
    return [row["loss"] for row in read_metrics(run) if "loss" in row]


@pytest.fixture
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_text("a rose is a rose is a rose. " * 40)
    return str(path)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_the_same_command_gives_the_same_losses(tmp_path: Path, engine: str) -> None:
    if engine == "torch":
        pytest.importorskip("torch")
    trained(tmp_path / "a", engine=engine)
    trained(tmp_path / "b", engine=engine)
    assert losses(tmp_path / "a") == losses(tmp_path / "b")
    assert len(losses(tmp_path / "a")) == 12
    trained(tmp_path / "c", seed=1)
    assert losses(tmp_path / "c") != losses(tmp_path / "a")


def test_engines_agree(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for engine in "numpy", "torch":
        trained(tmp_path / engine, engine=engine, dtype="float64", weight_decay=0.1)
    np.testing.assert_allclose(losses(tmp_path / "numpy"), losses(tmp_path / "torch"), rtol=1e-9)


def test_a_step_is_that_of_plain_numpy(tmp_path: Path) -> None:
    """The loop against the formulas written out once more, with accumulation and clipping."""
    job = started(tmp_path, dtype="float64", accumulate=2, batch=2, clip=0.3, steps=3)
    weights = {k: w.copy() for k, w in job.engine.weights.items()}
    backward = vt.Card.of(job.model).grad()
    m = {k: 0 * w for k, w in weights.items()}
    v = {k: 0 * w for k, w in weights.items()}
    for step in range(3):
        sums, targets = {k: 0 * w for k, w in weights.items()}, 0.0
        for micro in range(2):
            batch = job.batches.batch(2 * step + micro)
            run = backward.run(batch["t"], weights, y=batch["y"], w=batch["w"])
            counts = batch["w"].sum(axis=1)
            targets += counts.sum()
            for k in sums:
                sums[k] += np.tensordot(counts, run[f"∂{k}"], 1)
        sums = {k: g / targets for k, g in sums.items()}
        length = math.sqrt(sum((g**2).sum() for g in sums.values()))
        for k, g in sums.items():
            g = g * min(1, 0.3 / (length + 1e-6))
            m[k] = 0.9 * m[k] + 0.1 * g
            v[k] = 0.999 * v[k] + 0.001 * g * g
            by = (m[k] / (1 - 0.9 ** (step + 1))) / (
                np.sqrt(v[k] / (1 - 0.999 ** (step + 1))) + 1e-8
            )
            weights[k] = weights[k] - 0.01 * by
    train(job)
    for name, w in weights.items():
        np.testing.assert_allclose(job.engine.weights[name], w, rtol=1e-9, atol=1e-12)


def test_a_run_that_goes_on_is_the_run_that_was_not_stopped(tmp_path: Path, text: str) -> None:
    given = {"data": text, "length": 24, "schedule": "cosine", "eval_every": 3, "warmup": 3}
    trained(tmp_path / "whole", **given)
    job = started(tmp_path / "parts", **given)
    part = Training(job)
    genuine, handler = part.take_step, signal.getsignal(signal.SIGINT)

    def interrupted() -> None:
        genuine()
        if part.step == 7:
            os.kill(os.getpid(), signal.SIGINT)

    part.take_step = interrupted  # type: ignore[method-assign]
    found = part.run()
    assert (found.step, found.stopped) == (7, True)
    assert checkpoints.steps(tmp_path / "parts") == [4, 6, 7]
    assert signal.getsignal(signal.SIGINT) is handler
    # What was measured after the checkpoint goes, and so does a line cut short.
    with open(tmp_path / "parts" / "metrics.jsonl", "a") as file:
        file.write('{"step": 8, "loss": 99.0}\n{"step": 9, "lo')
    train(resume({}, tmp_path / "parts", "latest"))
    assert measured(tmp_path / "parts") == measured(tmp_path / "whole")
    ends = [checkpoints.load(checkpoints.path_of(tmp_path / name, 12)) for name in
            ("whole", "parts")]  # fmt: skip
    for name, w in ends[0].weights.items():
        np.testing.assert_array_equal(ends[1].weights[name], w)
    assert (tmp_path / "whole" / "card.md").read_text() == (
        tmp_path / "parts" / "card.md").read_text()  # fmt: skip


def measured(run: Path) -> list[tuple[Any, ...]]:
    """What a run measured, without the times."""
    return [(r["step"], r.get("loss"), r.get("validation"), r.get("norm"), r.get("tokens"))
            for r in read_metrics(run)]  # fmt: skip


def test_going_on_from_an_earlier_step_sets_later_ones_aside(tmp_path: Path) -> None:
    trained(tmp_path)
    before = losses(tmp_path)
    model = tmp_path / "checkpoints" / "step-000012" / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1])
    with pytest.raises(VieteError, match=r"cut short: .*that of step 8 is whole"):
        resume({}, tmp_path, "latest")
    train(resume({}, tmp_path, "previous"))
    assert losses(tmp_path) == before
    names = {p.name for p in (tmp_path / "checkpoints").iterdir()}
    assert {"step-000012", "set-aside-step-000012"} <= names


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seed": 1}, "began with --seed 0"),
        ({"dtype": "float64"}, "began with --dtype float32"),
        ({"batch": 2}, "began with --batch 3 and cannot resume with --batch 2;"),
    ],
)
def test_a_run_goes_on_as_itself(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    trained(tmp_path)
    with pytest.raises(VieteError, match=said):
        train(resume(given, tmp_path, "latest"))


def test_a_run_that_is_done_has_nothing_to_do(tmp_path: Path) -> None:
    first = trained(tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert train(resume({}, tmp_path, "latest")) == first
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_data_that_shrank_is_refused(tmp_path: Path, text: str) -> None:
    trained(tmp_path / "run", data=text, length=16)
    Path(text).write_text("a rose is a rose is a rose. " * 30)
    with pytest.raises(VieteError, match="the data has shrunk, from 1,120 bytes to 840"):
        resume({"steps": 20}, tmp_path / "run", "latest")


def test_a_card_changed_since_is_refused(tmp_path: Path) -> None:
    trained(tmp_path)
    card = tmp_path / "card.md"
    card.write_text(card.read_text().replace("softmax", "causal"))
    with pytest.raises(VieteError, match="this checkpoint belongs to another card"):
        resume({"steps": 20}, tmp_path, "latest")


def test_a_run_is_not_begun_over_another(tmp_path: Path) -> None:
    trained(tmp_path)
    with pytest.raises(VieteError, match=r"at step 12; continue it with --resume"):
        started(tmp_path)
    with pytest.raises(VieteError, match=r"not a run of `viete train`"):
        resume({}, tmp_path / "elsewhere", "latest")


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "card.md"
    mine.write_text("what a person wrote")
    with pytest.raises(VieteError, match=r"not empty \(card\.md is in it\)"):
        started(tmp_path)
    (tmp_path / "config.json").write_text('{"d_model": 64}')
    with pytest.raises(VieteError, match="not empty"):
        started(tmp_path)
    assert mine.read_text() == "what a person wrote" and len(list(tmp_path.iterdir())) == 2


def test_a_run_without_a_checkpoint_is_begun_anew(tmp_path: Path) -> None:
    """It was killed before the first one; so are half written files of it, which go."""
    job = started(tmp_path, seed=1)
    assert job.lock is not None
    job.lock.close()
    (tmp_path / "tokens").mkdir()
    for left in tmp_path / ".viete-1.tmp", tmp_path / "tokens" / ".viete-2.tmp":
        left.write_bytes(b"half")
    trained(tmp_path)
    assert not list(tmp_path.rglob(".viete-*"))
    assert json.loads((tmp_path / "config.json").read_text())["seed"] == 0


@pytest.mark.parametrize("nth", range(3))
def test_a_disk_that_is_full_at_the_start_holds_no_half_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    genuine, calls = os.fsync, []

    def full(number: int) -> None:
        calls.append(number)
        if len(calls) == nth + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        genuine(number)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(VieteError, match="No space left on device"):
        started(tmp_path / "a" / "run")
    assert not list(tmp_path.iterdir())


def test_measurements_that_do_not_fit_the_disk(tmp_path: Path) -> None:
    """The last line is left out, not cut short, and the next run goes on after those before."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    metrics = RunMetrics(tmp_path)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(VieteError, match=r"metrics\.jsonl: cannot be written"):
            for step in range(1, 100):
                metrics(step, loss=1 / 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        metrics.close()
    there = read_metrics(tmp_path)
    assert 10 < len(there) == step - 1
    assert (tmp_path / "metrics.jsonl").read_text().endswith("}\n")
    RunMetrics(tmp_path, 5).close()
    assert len(read_metrics(tmp_path)) == 5


def test_lines_that_nobody_reads_end_a_run_with_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*said: object, **more: object) -> None:
        raise BrokenPipeError

    job = started(tmp_path, log_every=3, save_every=0)
    monkeypatch.setattr("builtins.print", closed)
    found = train(job)  # the first step has a line too
    assert (found.step, found.stopped) == (1, True)
    assert checkpoints.steps(tmp_path) == [1]


def test_two_processes_do_not_write_to_one_run(tmp_path: Path) -> None:
    job = started(tmp_path)
    with pytest.raises(VieteError, match="another process is training in it"):
        started(tmp_path)
    job.lock.close()


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.filterwarnings("error")
def test_a_loss_that_is_no_number_names_the_equation(tmp_path: Path, engine: str) -> None:
    if engine == "torch":
        pytest.importorskip("torch")
    job = started(tmp_path, lr=1e12, clip=0.0, engine=engine)
    with pytest.raises(VieteError) as error:
        train(job)
    assert str(error.value).startswith("the loss of step 2 is nan; equation ")
    assert "is the first whose value is not finite: S = Q K^T / sqrt(d)" in str(error.value)


@pytest.mark.parametrize("validation", [0.4, 0.0])
def test_a_run_without_a_first_step_leaves_nothing(tmp_path: Path, validation: float) -> None:
    """Neither where the first validation fails nor where the first step does."""
    job = started(tmp_path / "in" / "run", validation=validation)
    assert (tmp_path / "in" / "run" / "config.json").is_file()
    job.engine.weights["W_K"][0, 0] = math.inf
    with pytest.raises(VieteError, match="the weight W_K is not finite"):
        train(job)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_does_not_go_on_is_as_it_was(tmp_path: Path) -> None:
    """Its settings, its measurements and the checkpoints after the one that it goes on from."""

    def files() -> dict[Path, bytes]:
        return {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    trained(tmp_path, steps=3, save_every=1)
    before = files()
    job = resume({"lr": 0.5, "steps": 9, "keep": 1}, tmp_path, "1")
    job.engine.weights["W_K"][0, 0] = math.inf
    with pytest.raises(VieteError, match="the weight W_K is not finite"):
        train(job)
    assert files() == before
    train(resume({"lr": 0.5, "steps": 2}, tmp_path, "1"))
    assert json.loads((tmp_path / "config.json").read_text())["lr"] == 0.5
    assert checkpoints.steps(tmp_path) == [1, 2] and len(losses(tmp_path)) == 2


@pytest.mark.parametrize("validation", [0.4, 0.0])
def test_weights_that_are_no_numbers_are_not_saved(tmp_path: Path, validation: float) -> None:
    """The last step's loss is fine, and what it leaves is not."""
    job = started(tmp_path, steps=1, lr=1e300, clip=0.0, validation=validation)
    with pytest.raises(VieteError, match="equation 1 is the first whose value is not finite"):
        train(job)
    assert checkpoints.steps(tmp_path) == []


def test_answers_are_learned(tmp_path: Path) -> None:
    """The three dialogs of the references, each from position 0, as any run would do it."""
    card = vt.read("dialog-transformer")
    job = begin(Settings(data="dialogs", steps=250, batch=3, lr=0.01, log_every=0), card, tmp_path)
    assert job.model.sizes["V"] == 30
    found = train(job)
    assert found.loss < 0.02
    for dialog in read_data("dialogs").conversations():
        ids = list(job.vocabulary.encode(dialog.prompt))
        for _ in dialog.answer:
            run = vt.Card.of(job.model).run([ids], dict(job.engine.weights), names=["logits"])
            ids.append(int(run["logits"][0, -1].argmax()))
        assert job.vocabulary.decode(ids) == str(dialog)


def test_a_card_without_a_loss_gets_one_and_the_length_asked_for(tmp_path: Path, text: str) -> None:
    card = vt.read("symbolic-transformer")
    job = begin(Settings(data=text, steps=2, batch=2, length=7, save_every=0), card, tmp_path)
    train(job)
    assert "cross" in (tmp_path / "card.md").read_text()
    assert job.batches.batch(0)[job.model.inputs[0].name].shape == (2, 7)


def test_validation_is_the_mean_over_what_was_set_aside(tmp_path: Path, text: str) -> None:
    job = started(tmp_path, data=text, length=24, steps=4, eval_every=2, eval_sequences=7)
    train(job)
    rows = [r for r in read_metrics(tmp_path) if "validation" in r]
    assert [r["step"] for r in rows] == [0, 2, 4]
    assert job.validation is not None
    weights = dict(job.engine.weights)
    found = [
        vt.Card.of(job.model).run(b["t"], weights, y=b["y"])["L"]
        for b in job.validation.evaluation(7)
    ]
    assert list(map(len, found)) == [3, 3, 1]
    assert rows[-1]["validation"] == pytest.approx(np.mean(np.concatenate(found)), rel=1e-5)
    assert checkpoints.read_state(tmp_path / "checkpoints" / "step-000004")["validation"] == (
        rows[-1]["validation"])  # fmt: skip


@pytest.mark.parametrize("data", ["text", "dialogs"])
def test_the_validation_loss_is_the_same_for_every_batch(
    tmp_path: Path, text: str, data: str
) -> None:
    if data == "dialogs":
        dialogs = [f"<user>{k}</user><assistant>{'so ' * k}</assistant><eot>" for k in range(12)]
        (tmp_path / "dialogs.txt").write_text("\n".join(dialogs))
    given = {"data": text, "length": 24} if data == "text" else {
        "data": str(tmp_path / "dialogs.txt"), "validation": 0.6}  # fmt: skip
    found = []
    for batch in 1, 2, 5, 12:
        job = started(
            tmp_path / str(batch), batch=batch, eval_sequences=5, dtype="float64", **given
        )
        training = Training(job)
        training.validate()
        found.append(training.validation)
        assert sum(len(b["t"]) for b in job.validation.evaluation(5)) == 5
        job.lock.close()
    np.testing.assert_allclose(found, found[0], rtol=1e-12)


def test_the_best_is_the_least_validation_loss_that_was_measured(tmp_path: Path, text: str) -> None:
    """Also where no checkpoint is due; and a run that goes on knows the best before."""
    losses = iter([9.0, 3.0, 1.0, 2.0, 4.0, 5.0, 1.5, 0.5])  # of steps 0, 1, …

    def measure(run: Training) -> None:
        run.mean_loss = lambda batches: next(losses)  # type: ignore[method-assign]
        run.run()

    given = {"data": text, "length": 24, "eval_every": 1, "save_every": 0, "keep": 1}
    measure(Training(started(tmp_path, steps=5, **given)))
    assert checkpoints.steps(tmp_path) == [2, 5]
    assert checkpoints.choose(tmp_path, "best").state["validation"] == 1.0
    measure(Training(resume({"steps": 6}, tmp_path, "latest")))
    assert checkpoints.steps(tmp_path) == [2, 6]
    measure(Training(resume({"steps": 7}, tmp_path, "latest")))
    assert checkpoints.steps(tmp_path) == [7] and checkpoints.best(tmp_path) == 7


def test_a_run_off_the_main_thread(tmp_path: Path) -> None:
    done: list[Outcome] = []
    thread = threading.Thread(target=lambda: done.append(trained(tmp_path, steps=2)))
    thread.start()
    thread.join()
    assert done[0].step == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"steps": 0}, "--steps is a whole number from 1, not 0"),
        ({"lr": math.nan}, "--lr is a number from 0, not nan"),
        ({"beta1": 1.0}, "--beta1 is a number from 0, below 1"),
        ({"engine": "jax"}, "--engine is one of numpy, torch"),
        ({"schedule": "linear"}, "--schedule is one of constant, cosine"),
        ({"min_lr": 1.0}, "--min-lr is at most --lr"),
    ],
)
def test_settings_that_mean_nothing(given: dict[str, Any], said: str) -> None:
    with pytest.raises(VieteError, match=said):
        Settings(**given)


def test_a_config_changed_by_hand_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, steps=1)
    path = tmp_path / "config.json"
    for bad in "{", "[]", '{"colour": 1}':
        path.write_text(bad)
        with pytest.raises(VieteError, match=r"config\.json"):
            resume({}, tmp_path, "latest")


def test_events_are_those_of_tensorboard(tmp_path: Path) -> None:
    metrics = RunMetrics(tmp_path, 0, tensorboard=True)
    for step in range(1, 300):
        metrics(step, loss=1 / step, lr=0.5)
    metrics.close()
    RunMetrics(tmp_path, 100, tensorboard=True).close()
    assert len(read_metrics(tmp_path)) == 100
    # The checksum that RFC 3720, B.4, gives for 32 zero bytes, masked as TFRecord does.
    crc = 0x8A9136AA
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    assert masked(bytes(32)) == ((rotated + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard here"
    )
    found = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert found.Tags()["scalars"] == ["loss", "lr"]
    points = [(e.step, e.value) for e in found.Scalars("loss")]
    assert [s for s, _ in points] == list(range(1, 101))
    np.testing.assert_allclose([v for _, v in points], [1 / s for s, _ in points], rtol=1e-6)


def test_a_plot_shows_both_losses(tmp_path: Path, text: str) -> None:
    import xml.etree.ElementTree as ET

    trained(tmp_path / "one", data=text, length=24, eval_every=4)
    trained(tmp_path / "two", data=text, length=24, seed=2)
    root = ET.fromstring(plot_runs([tmp_path / "one"]))
    said = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    title = f"Loss of {vt.read(tmp_path / 'one' / 'card.md').title}"
    assert {"step", "loss, nats a token", "training", "validation", title} <= set(said)
    (floor,) = {r["floor"] for r in read_metrics(tmp_path / "one") if "floor" in r}
    assert any(t and t.startswith(f"floor {floor:.4g}") for t in said)
    both = plot_runs([tmp_path / "one", tmp_path / "two"])
    assert both.count("<polyline") == 4 and "two, training" in both
    with pytest.raises(VieteError, match="there is no loss"):
        plot_runs([tmp_path])


def test_a_steep_loss_is_drawn_over_a_logarithmic_axis(tmp_path: Path) -> None:
    rows = [{"step": k, "loss": 10.0 ** (-k / 20)} for k in range(1, 101)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    picture = plot_runs([tmp_path])
    assert "logarithmic" in picture and ">0.001<" in picture
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": NaN}\n{"step": 2, "loss": 1}\n')
    assert "nan" not in plot_runs([tmp_path])


def test_validating_does_not_slow_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    progress = Progress(0, 9, quiet=True)
    with progress.aside():
        now += 7
    now += 2
    assert progress.rate(100) == 50
    now += 1
    with progress.aside():
        now += 7
    now += 1
    assert progress.rate(200) == 50


@pytest.mark.parametrize("columns", [20, 60, 200])
def test_the_bar_fits_on_a_line(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("train.progress", "printable"):
        monkeypatch.setattr(f"viete.{module}.columns", lambda: columns)
    progress = Progress(0, 300_000)
    progress.live = True
    progress.draw(1234, 2.5, 10**6)
    line = capsys.readouterr().err.removeprefix("\r\033[K")
    assert len(line) < columns and (columns < 200 or line.startswith("╌" * 24 + " 1234/300000 "))
