"""Wrong uses of ``viete train``, ``viete sample`` and ``viete plot``."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command_line import instead, viete
from viete.formats.files import open_tensors, save_safetensors
from viete.model.checkpoints import STATE, described, digest_of
from viete.regular import regular

TINY = Path(__file__).with_name("tiny.md")
ROSE = "a rose is a rose is a rose. " * 40
SMALL = ("--set", "d=8", "--batch", "2", "--steps", "2", "--log-every", "0")
TEXT = ("train", "dialog-transformer", "--data", "rose.txt", *SMALL, "--length", "16", "-o", "new")

pytestmark = pytest.mark.filterwarnings("error::ResourceWarning")  # a lock that is not given up


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps with a checkpoint of each."""
    run = tmp_path_factory.mktemp("trained") / "run"
    given = ["train", "dialog-transformer", "--data", "dialogs", *SMALL, "--save-every", "1"]
    viete(*given, "-o", run)
    return run


@pytest.fixture(autouse=True)
def place(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with data, and with a run."""
    for library in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM"):  # put back what `train` sets
        monkeypatch.setenv(f"{library}_NUM_THREADS", "1")
    (tmp_path / "rose.txt").write_text(ROSE)
    (tmp_path / "empty").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "card.md").write_text("what a person wrote")
    shutil.copytree(trained, tmp_path / "run")


# -- data ------------------------------------------------------------------------------------------

DATA = [
    ("nothing", b"", "this file is empty"),
    ("binary", bytes(range(256)) * 10, "this is a binary file"),
    ("Latin-1", ("a rose " * 9 + "schön").encode("latin-1"), "byte 66 (0xf6) is not UTF-8"),
    ("UTF-16", ROSE.encode("utf-16"), "binary file"),
    ("cut in a character", "schö".encode()[:-1], "is not UTF-8"),
    ("short", b"abc", "its train part has 2 tokens, and a window takes 513"),
]


@pytest.mark.parametrize(("content", "words"), [pytest.param(*c, id=i) for i, *c in DATA])
def test_data(content, words, tmp_path, refused) -> None:
    (tmp_path / "data.txt").write_bytes(content)
    said = refused("train", "dialog-transformer", "--data", "data.txt", *SMALL, "-o", "new")
    assert "data.txt: " in said and words in said


JSONL = [
    ("cut", '{"text": "a"}\n{"text": \n', "data.jsonl:2:10: this line is not JSON"),
    ("a number", '{"text": "a"}\n{"text": 3}\n', "data.jsonl:2:1: 'text' is text, not int"),
    ("another field", '{"words": "a"}\n', "needs 'text' or 'messages', and this line has neither"),
    ("a list", "[1]\n", "a line of data is a JSON object, not list"),
    ("blank", "\n\n", "only blank lines"),
    ("half a pair", '{"text": "\\ud800"}\n', "half of a surrogate pair"),
    ("no answer", '{"messages": [{"role": "user", "content": "hi"}]}\n', "before the assistant"),
    ("a stranger", '{"messages": [{"role": "bard", "content": "hi"}]}\n', "no role 'bard'"),
]


@pytest.mark.parametrize(("content", "words"), [pytest.param(*c, id=i) for i, *c in JSONL])
def test_json_lines(content, words, tmp_path, refused) -> None:
    (tmp_path / "data.jsonl").write_text(content)
    assert words in refused("train", "gpt2", "--data", "data.jsonl", "-o", "new")


def test_folders_of_data(tmp_path, refused) -> None:
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "a.txt").write_text(ROSE)
    (tmp_path / "both" / "b.txt").write_text("System: <system>Be kind.</system>\n")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(b"\x89PNG\0")
    for name, words in (
        ("both", "b.txt holds dialogs and a.txt plain text"),
        ("pictures", "holds no text files (only 1 that are not text)"),
        ("empty", "holds no text files (no files with anything in them)"),
        ("/dev/null", "neither a file nor a folder"),
        ("nowhere", "no such file or folder"),
    ):
        assert words in refused("train", "dialog-transformer", "--data", name, "-o", "new")
    (tmp_path / "both" / "b.txt").unlink()
    for run in "both", "both/new/run":
        words = "into its own data" if "/" in run else "is not empty (a.txt is in it)"
        assert words in refused("train", "dialog-transformer", "--data", "both", "-o", run)


# -- settings --------------------------------------------------------------------------------------

SETTINGS = [
    ("--steps -3", "--steps is a whole number from 1, not -3"),
    ("--steps 0", "--steps is a whole number from 1"),
    ("--batch 0", "--batch is a whole number from 1"),
    ("--accumulate 0", "--accumulate is a whole number from 1"),
    ("--threads 0", "--threads is a whole number from 1"),
    ("--keep 0", "--keep is a whole number from 1"),
    ("--length 0", "--length is a whole number from 1"),
    ("--length 2000", "its train part has 1008 tokens, and a window takes 2001"),
    ("--lr nan", "--lr is a number from 0, not nan"),
    ("--lr inf", "--lr is a number from 0, not inf"),
    ("--lr -1", "--lr is a number from 0"),
    ("--min-lr 1", "--min-lr is at most --lr"),
    ("--warmup -1", "--warmup is a whole number from 0"),
    ("--schedule linear", "--schedule is one of constant, cosine, not linear"),
    ("--optimiser sgd", "--optimiser is one of adamw, adam, not sgd"),
    ("--beta1 1", "--beta1 is a number from 0, below 1"),
    ("--beta2 nan", "--beta2 is a number from 0, below 1"),
    ("--eps -1", "--eps is a number from 0"),
    ("--clip nan", "--clip is a number from 0"),
    ("--seed -1", "--seed is a whole number from 0"),
    ("--dtype float16", "--dtype is one of float32, float64"),
    ("--validation 1", "--validation is a share of the data, from 0, below 1, not 1.0"),
    ("--validation nan", "--validation is a share of the data"),
    ("--validation 0.001", "its validation part has 2 tokens, and a window takes 17"),
    ("--kind poems", "unknown kind of data 'poems'; the kinds are text, lines, dialogs, jsonl"),
    ("--kind jsonl", "rose.txt:1:1: this line is not JSON"),
    ("--kind dialogs", "rose.txt:1:1: "),
    ("--loss-on user", "--loss-on is one of all, assistant"),
    ("--loss-on assistant", "is plain text, so it has no assistant"),
    ("--engine jax", "--engine is one of numpy, torch, module, not jax"),
    ("--compile", "--compile needs --engine module"),
    ("--bf16", "--bf16 needs --engine module"),
    ("--shard --engine torch", "--shard needs --engine module"),
    ("--device cpu", "--device needs --engine torch or module"),
    ("--engine torch --device abacus", "PyTorch cannot use the device abacus"),
    ("--engine module --device meta", "PyTorch cannot use the device meta"),
    ("--vocabulary 50", "a character vocabulary has as many tokens as there are characters"),
    ("--tokenizer nowhere.json", "nowhere.json: cannot be read"),
    ("--tokenizer rose.txt", "rose.txt: not a tokenizer.json"),
    ("--tokenizer bpe", "a byte-pair vocabulary needs its size"),
    ("--tokenizer bpe --vocabulary 10", "it needs at least 257"),
    ("--tokenizer bpe --vocabulary 99999999999999999999", "has fewer than 2^32 tokens"),
    ("--text rose", "--text needs --sample-every"),
    ("--min-lr 0.0001", "--min-lr needs --schedule cosine"),
    ("--set V=500", "--set V=500 contradicts the data, since the data or --length make it 8"),
    ("--set n_max=8", "--set n_max=8 contradicts the data, since the data or --length make it 16"),
    ("--sample-every 1 --text Zebra", "--text cannot be spelled: the character 'Z'"),
    ("--set q=3", "has no dimension q"),
    ("--set d=zero", "d must be a number"),
    ("--set d=-1", "d is -1"),
    ("--config rose.txt", "rose.txt"),
]


@pytest.mark.parametrize(("options", "words"), SETTINGS)
def test_settings(options, words, refused) -> None:
    if "--engine torch" in options or "--engine module" in options:
        pytest.importorskip("torch")
    if "bpe" in options:
        pytest.importorskip("tokenizers")
    assert words in refused(*instead(TEXT, *options.split()))


# -- cards and folders -----------------------------------------------------------------------------

CARDS = [
    ("gtp2", "no file gtp2 and no shipped card of that name; did you mean gpt2"),
    ("nowhere.md", "there is no file nowhere.md"),
    ("rose.txt", "rose.txt: no equations"),
    (str(TINY), "Tiny has no loss to train by, and no logits"),
    ("exact-lesson", "this matrix is 3 × 2, but E is 8 × 2"),
    ("transformer-2017", "needs its input t, and a text gives tokens and targets"),
]


@pytest.mark.parametrize(("card", "words"), CARDS)
def test_cards(card, words, refused) -> None:
    assert words in refused("train", card, "--data", "rose.txt", "--steps", "1", "-o", "new")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("= X W_Q", "= dropout(X; 3/2) W_Q", "dropout's p must be"),
        ("| xavier |", "| foo |", "init must be"),
    ],
)
def test_mistakes_are_shown_where_a_person_wrote_them(old, new, words, tmp_path, refused) -> None:
    text = resources.files("viete.cards.shipped").joinpath("dialog-transformer.md").read_text()
    (tmp_path / "card.md").write_text(text.replace(old, new, 1))
    said = refused("train", "card.md", *TEXT[2:])
    assert said.startswith("viete: card.md:") and words in said


FOLDERS = [
    ("run", "the folder has a run, at step 2; continue it with --resume"),
    ("mine", "mine: this folder is not empty (card.md is in it)"),
    ("rose.txt", "cannot be written to (File exists)"),
    ("rose.txt/run", "cannot be written to (Not a directory)"),
    ("/dev/null", "cannot be written to (File exists)"),
    ("/proc/run", "cannot be written to"),
]


@pytest.mark.parametrize(("folder", "words"), FOLDERS)
def test_folders(folder, words, refused) -> None:
    assert words in refused("train", "gpt2", "--data", "rose.txt", "-o", folder)


def test_what_is_not_given(refused) -> None:
    assert "give -o RUN/" in refused("train")
    assert "give -o RUN/" in refused("train", "gpt2", "--data", "rose.txt")
    assert "give a CARD and --data FILE" in refused("train", "gpt2", "-o", "new")
    assert "leave out CARD" in refused("train", "gpt2", "--resume", "-o", "run")
    assert "leave out CARD" in refused("train", "--resume", "-o", "run", "--set", "d=9")


# -- going on --------------------------------------------------------------------------------------


def changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        (run / name).write_bytes(change((run / name).read_bytes()))

    return damage


def gone(name: str) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()

    return damage


def device(name: str) -> Callable[[Path], None]:
    """A link to a device, where a careless reader waits for ever or reads without end."""

    def damage(run: Path) -> None:
        (run / name).unlink()
        (run / name).symlink_to("/dev/null")

    return damage


def sized(name: str, size: int) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        os.truncate(run / name, size)

    return damage


def resealed(**said: Any) -> Callable[[Path], None]:
    """Another state, with the digest that it needs; ``_`` stands for a space, None for nothing."""

    def damage(run: Path) -> None:
        file = run / LAST / STATE
        state = json.loads(file.read_text()) | {k.replace("_", " "): v for k, v in said.items()}
        kept = {k: v for k, v in state.items() if v is not None and k != "digest"}
        file.write_text(json.dumps({**kept, "digest": digest_of(kept)}))

    return damage


def retyped(
    kind: str, change: Callable[[Any], Any], **more: Any
) -> Callable[[Path], None]:  # fmt: skip
    """Other tensors, with the digests that they need; None takes one away."""

    def damage(run: Path) -> None:
        path = run / LAST / f"{kind}.safetensors"
        file = open_tensors(path)
        found = {name: change(file.load(name).copy()) for name in file.infos} | more
        save_safetensors(path, {k: v for k, v in found.items() if v is not None})
        said = json.loads((run / LAST / STATE).read_text())["files"]
        resealed(files={**said, path.name: described(path)})(run)

    return damage


LAST = "checkpoints/step-000002"
OTHER = "(state.json holds something else); that of step 1 is whole"
RUNS = [
    ("weights cut short", changed(f"{LAST}/model.safetensors", lambda b: b[:-9]),
     "(model.safetensors is cut short: 19,967 of 19,976 bytes); that of step 1 is whole: go on "
     "from it with --revision previous"),
    ("moments changed", changed(f"{LAST}/optimiser.safetensors", lambda b: b[:-1] + b"?"),
     "(optimiser.safetensors was changed); that of step 1 is whole"),
    ("state cut short", changed(f"{LAST}/state.json", lambda b: b[:-9]), "(state.json is cut"),
    ("state changed", changed(f"{LAST}/state.json", lambda b: b.replace(b'p": 2', b'p": 3')),
     "(state.json was changed)"),
    ("weights gone", gone(f"{LAST}/model.safetensors"), "(model.safetensors is missing)"),
    ("another card", changed("card.md", lambda b: b.replace(b"softmax", b"causal")),
     "this checkpoint belongs to another card (Dialog transformer)"),
    ("no card", gone("card.md"), "card.md: cannot be read"),
    ("no checkpoints", gone("checkpoints"), "the run has no checkpoint yet"),
    ("no vocabulary", gone("tokenizer.json"), "tokenizer.json: cannot be read"),
    ("half a vocabulary", changed("tokenizer.json", lambda b: b[:99]), "not a tokenizer.json"),
    ("another vocabulary", changed("tokenizer.json", lambda b: b.replace(b'"y"', '"é"'.encode())),
     "vocabulary"),
    ("no settings", gone("config.json"), "it has no config.json"),
    ("other settings", changed("config.json", lambda b: b'{"d_model": 3}'), "no setting 'd_model'"),
    ("a word for steps", changed("config.json", lambda b: b'{"steps": "many"}'),
     "the value of steps is of the wrong kind"),
    ("half a sequence", changed("config.json", lambda b: b.replace(b'"batch": 2', b'"batch": 2.5')),
     "the value of batch is of the wrong kind"),
    ("no path", changed("config.json", lambda b: b'{"data": null}'),
     "the value of data is of the wrong kind"),
    ("settings in Latin-1", changed("config.json", lambda b: b"\xff{}"), "config.json: cannot be"),
    ("data gone", changed("config.json", lambda b: b.replace(b"dialogs.txt", b"gone.txt")),
     "gone.txt: there is no such file"),
    *((f"a device for {name}", device(name), f"{name}: cannot be read (it is a pipe or a device)")
      for name in (f"{LAST}/model.safetensors", f"{LAST}/state.json", "card.md", "config.json",
                   "tokenizer.json", "metrics.jsonl")),
    ("a device for a lock", device(".lock"), "run: cannot be written to (it is a pipe"),
    ("settings of 10 GB", sized("config.json", 10**10), "at most 16,000,000 are read"),
    ("a state of 10 GB", sized(f"{LAST}/state.json", 10**10), "at most 16,000,000 are read"),
    ("weights of other shapes", retyped("model", lambda w: w.reshape(-1)),
     "model.safetensors: does not fit the run's card: E is float32 of shape (240,)"),
    ("whole numbers", retyped("model", lambda w: w.astype("int64")), "E is int64 of shape (30, 8)"),
    ("moments of other shapes", retyped("optimiser", lambda w: w.reshape(-1)),
     "optimiser.safetensors: does not fit the run's card: m/E is float32 of shape (240,)"),
    ("a weight too many", retyped("model", lambda w: w, odd=np.ones(2)), "odd is nobody's"),
    ("a weight too few", retyped("model", lambda w: w, E=None), "E is missing"),
    ("no measurements", changed("metrics.jsonl", lambda b: b"step 1\n"), "is not a measurement"),
    *((f"a state of {x}", resealed(**x), OTHER)
      for x in ({"step": 10**30}, {"step": -2}, {"step": "2"}, {"step": 1}, {"step": None},
                {"files": {}}, {"files": []}, {"batches": None}, {"optimiser_steps": "x"},
                {"tokens": 0.5}, {"loss": "low"}, {"validation": [1]}, {"lowest": 3})),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "words"), [pytest.param(*c, id=i) for i, *c in RUNS])
def test_runs_that_are_damaged(damage, words, tmp_path, refused) -> None:
    damage(tmp_path / "run")
    assert words in refused("train", "--resume", "-o", "run", "--steps", "4")


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    """Those that the shell makes are: ``viete show <(command)`` names one in /dev."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a pipe or a device"):
        regular(tmp_path / "pipe")
    read, write = os.pipe()
    assert regular(Path(f"/dev/fd/{read}")) == Path(f"/dev/fd/{read}")
    os.close(read)
    os.close(write)


AGAIN = [
    ("--seed 3", "began with --seed 0 and cannot resume with --seed 3;"),
    ("--dtype float64", "began with --dtype float32"),
    ("--accumulate 2", "began with --accumulate 1"),
    ("--batch 3", "began with --batch 2"),
    ("--length 9", "began without --length"),
    ("--loss-on assistant", "began with --loss-on all"),
    ("--data rose.txt", "rose.txt: the data has grown, from 364 bytes to 1,120"),
    ("--data nowhere", "no such file"),
    ("--revision soon", "latest, previous, best or a step, not 'soon'"),
    ("--revision 77", "no checkpoint of step 77; there are 1, 2"),
    ("--revision -1", "latest, previous, best or a step"),
    ("--revision best", "no checkpoint has a validation loss"),
    ("--lr nan", "--lr is a number from 0"),
    ("--device cuda", "--device needs"),
]


@pytest.mark.parametrize(("options", "words"), AGAIN)
def test_a_run_goes_on_as_itself(options, words, refused) -> None:
    assert words in refused("train", "--resume", "-o", "run", "--steps", "4", *options.split())


def test_no_run_to_go_on_with(refused) -> None:
    for folder in "empty", "nowhere", "rose.txt":
        assert folder in refused("train", "--resume", "-o", folder)
    assert "not a run of `viete train`" in refused("train", "--resume", "-o", "mine")


# -- sampling --------------------------------------------------------------------------------------

SAMPLES = [
    ("--text Zürich", "the prompt cannot be spelled: the character 'Z' (U+005A)"),
    ("", "the prompt is empty"),
    ("--tokens 999", "the prompt holds 999, which is not among the ids 0 … 29"),
    ("--tokens x", "'x' is not a token"),
    ("--tokens 1/2", "--tokens takes one sequence"),
    ("--tokens 1 --text h", "give either --text or --tokens"),
    ("--text h --temperature -1", "the temperature must be a number above 0"),
    ("--text h --temperature nan", "the temperature must be a number above 0"),
    ("--text h --greedy --temperature 2", "greedy takes the likeliest"),
    ("--text h --top-k 0", "top_k must be a whole number from 1"),
    ("--text h --top-p 0", "top_p must be a probability above 0"),
    ("--text h --top-p 1.5", "top_p must be a probability above 0 and up to 1"),
    ("--text h --most -1", "most must be a whole number from 0"),
    ("--text h --count 0", "count must be a whole number from 1"),
    ("--text h --seed -1", "seed must be a whole number from 0"),
    ("--text h --keep 0", "keep must be a number of tokens up to the context of 512"),
    ("--text h --stop Ü", "the text to stop at cannot be spelled"),
    ("--text h --stop-token ab", "'ab' is not a single token"),
    ("--text h --revision 9", "no checkpoint of step 9; there are 1, 2"),
    ("--text h --revision soon", "latest, previous, best or a step"),
    ("--text h --accept x", "a run has its own card"),
    ("--text h --bos", "--bos is for released models"),
]


@pytest.mark.parametrize(("options", "words"), SAMPLES)
def test_samples(options, words, refused) -> None:
    assert words in refused("sample", "run", *options.split())


@pytest.mark.parametrize(("damage", "words"), [pytest.param(*c, id=i) for i, *c in RUNS[:6]])
def test_samples_of_runs_that_are_damaged(damage, words, tmp_path, refused) -> None:
    damage(tmp_path / "run")
    assert words in refused("sample", "run", "--text", "y")


@pytest.mark.parametrize("name", ["card.md", "checkpoints", "tokenizer.json"])
def test_samples_of_half_a_run(name, tmp_path, refused) -> None:
    gone(name)(tmp_path / "run")
    assert refused("sample", "run", "--text", "y").startswith("viete: run")


@pytest.mark.parametrize("folder", ["./nowhere", "rose.txt", "empty", "mine"])
def test_nothing_to_sample_from(folder, refused) -> None:
    assert Path(folder).name in refused("sample", folder, "--text", "h")


# -- plots, and an output that takes nothing -------------------------------------------------------


def test_plots(tmp_path, refused) -> None:
    assert "nowhere: there is no such folder" in refused("plot", "nowhere")
    assert "there is no loss in its metrics.jsonl" in refused("plot", "empty")
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_text(json.dumps({"step": 1, "loss": 2.0}) + "\nno measurement\n")
    assert "metrics.jsonl:2: this line is not a measurement" in refused("plot", "run")
    metrics.write_text(json.dumps({"step": 1, "loss": "low"}) + "\n")
    assert "metrics.jsonl:1: this line is not a measurement" in refused("plot", "run")
    metrics.write_text(json.dumps({"step": 1, "loss": float("nan")}) + "\n")
    assert "there is no loss in its metrics.jsonl" in refused("plot", "run")
    metrics.write_text(json.dumps({"step": 1, "loss": 2.0}) + "\n")
    assert "x.svg: cannot be written" in refused("plot", "run", "-o", "nowhere/x.svg")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", [("sample", "run", "--text", "h"), ("show", "gpt2")])
def test_an_output_on_a_full_disk(command, refused) -> None:
    with open("/dev/full", "w") as full:
        said = refused(*command, stdout=full)
    assert "the output: cannot be written (No space left on device)" in said
