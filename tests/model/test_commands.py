"""The commands on a released model: a folder wherever a card is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers")

import viete as vt
from tests import command_line
from tests.model.released import save_weights, saved
from viete.text.vocabulary import BytePairs, Characters

END = "<|endoftext|>"
WORDS = "the cat sat on the mat and the dog sat on the log\n" * 4
PAIRS = BytePairs.of([WORDS], 280, [END])
CARD = vt.read("llama").bind(V=280, d=16, N=2, H=4, G=2, d_k=4, d_f=24, n_max=32)
TABLE = """# Table
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 3 |
| $n$ | ≤ 4 |
## Inputs
- $t ∈ \\{0, …, V-1\\}^n$: tokens
## Parameters
| symbol | shape | init |
| --- | --- | --- |
| $T$ | $V × V$ | 1 |
## Forward pass
1. $logits = T[t]$
"""
W = CARD.initial_weights(5, "float32")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A released Llama with a tokenizer, in the folder that commands are run in."""
    monkeypatch.chdir(tmp_path)
    made = saved(CARD, tmp_path / "model", W)
    (made / "tokenizer.json").write_text(PAIRS.dumps())
    (made / "tokenizer_config.json").write_text(json.dumps({"bos_token": END, "eos_token": END}))
    return made


@pytest.fixture
def viete() -> Any:
    def run(*argv: Any, code: int = 0) -> str:
        ended = command_line.viete(*argv, code=code)
        return ended.err if code else ended.out

    return run


def test_show_doc_grad_and_export(folder: Path, viete: Any) -> None:
    shown = viete("show", folder)
    assert shown.startswith("Llama") and "config model_type: llama" in shown.replace("*", "")
    assert "4,480" in viete("show", folder, "--costs")  # 280 × 16
    assert "RMSNorm" in viete("doc", folder)
    assert "∂γ" in viete("grad", folder, "--of", "cross_entropy(logits; t)", "--by", "γ")
    assert "class " in viete("export", folder, "--to", "torch")
    assert "99" in viete("show", folder, "--costs", "--set", "n_max=99", "-T", "99")


def test_run(folder: Path, viete: Any) -> None:
    ids = [PAIRS.end, *map(int, PAIRS.encode("the cat"))]
    wanted = CARD.run(ids, W)["logits"]
    viete("run", folder, "--text", "the cat", "--save", "out.npz", "--dtype", "float64")
    found = np.load("out.npz")["logits"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    viete("run", folder, "--text", "the cat", "--no-bos", "--save", "out.npz")
    assert np.load("out.npz")["logits"].shape[0] == len(ids) - 1
    viete("run", folder, "--tokens", ",".join(map(str, ids)), "--save", "out.npz")
    assert np.load("out.npz")["logits"].dtype == np.float32
    np.testing.assert_allclose(np.load("out.npz")["logits"], wanted, rtol=1e-4, atol=1e-6)
    shown = viete("run", folder, "--text", "the cat", "--show", "A^{1,1,1},resid_mid^2")
    assert "A^{1,1,1}" in shown and "resid_mid^2" in shown
    # With random weights, it is the card of the model that runs.
    assert viete("run", folder, "--seed", 1, "-t", "1,2") != viete("run", folder, "-t", "1,2")
    assert "either as --tokens" in viete("run", folder, "--text", "a", "-t", "1", code=2)
    assert "either as --tokens" in viete("run", folder, code=2)
    said = viete("run", "llama", "--text", "the cat", "--seed", 0, code=2)
    assert "is a card, and has no tokenizer" in said


def test_lesson(tmp_path: Path, viete: Any) -> None:
    """With the folder's own weights, as with its file of weights."""
    card = CARD.bind(V=5, d=4, N=1, H=1, G=1, d_k=2, d_f=4)
    folder = saved(card, tmp_path / "model", card.initial_weights(5, "float32"))
    told, other = (
        " ".join(viete("lesson", folder, "--tokens", "3", *more).split())
        for more in ([], ["--weights", folder / "model.safetensors"])
    )
    assert told == other.replace("of model.safetensors.", "of model.") != other


def test_lesson_of_a_text(tmp_path: Path, viete: Any) -> None:
    """It names the tokens as the tokenizer does."""
    card = vt.read(TABLE)
    card.save(tmp_path / "model", card.initial_weights(0))
    (tmp_path / "model" / "tokenizer.json").write_text(Characters("abc").dumps())
    told = viete("lesson", tmp_path / "model", "--text", "cab")
    assert "The model reads c a b, as the numbers t = (2, 0, 1)." in told


def test_run_on_pytorch(folder: Path, viete: Any) -> None:
    pytest.importorskip("torch")
    on_pytorch = viete("run", folder, "--text", "the cat", "--show", "logits", "--device", "cpu")
    on_numpy = viete("run", folder, "--text", "the cat", "--show", "logits")
    assert on_pytorch.splitlines()[0] == on_numpy.splitlines()[0]
    assert "cannot use the device" in viete("run", folder, "-t", "1", "--device", "no", code=2)


def test_sample(folder: Path, viete: Any) -> None:
    first = viete("sample", folder, "--text", "the cat", "-n", 4, "--seed", 3)
    ids = [PAIRS.end, *map(int, PAIRS.encode("the cat"))]
    drawn = [k for (k,) in CARD.sample(ids, W, most=4, seed=3)]
    assert first == PAIRS.decode(drawn) + "\n"
    begun = viete("sample", folder, "-n", 4, "--seed", 3)
    drawn = [k for (k,) in CARD.sample([PAIRS.end], W, most=4, seed=3)]
    assert begun == PAIRS.decode(drawn) + "\n"
    alone = viete("sample", folder, "--text", "the cat", "-n", 4, "--seed", 3, "--no-bos")
    drawn = [k for (k,) in CARD.sample(ids[1:], W, most=4, seed=3)]
    assert alone == PAIRS.decode(drawn) + "\n"
    assert "at least one token" in viete("sample", folder, "--no-bos", code=2)


def test_a_sample_ends_where_the_model_ends_it(folder: Path, viete: Any) -> None:
    saved(CARD, folder, W | {"W_U": np.zeros_like(W["W_U"])})
    # All scores are equal, so that the likeliest is the first: the end of a text.
    assert PAIRS.end == 0
    assert viete("sample", folder, "--text", "the", "--greedy", "-n", 9) == END + "\n"
    assert viete("sample", folder, "--text", "the", "--greedy", "-n", 3, "--stop-token", "t") == (
        END * 3 + "\n"
    )


def test_check(folder: Path, viete: Any) -> None:
    assert "Every tensor has its parameter" in viete("check", folder)
    other = saved(CARD.bind(V=300), folder.parent / "other", CARD.bind(V=300).initial_weights(0))
    said = command_line.viete("check", folder, "--weights", other / "model.safetensors", code=1).out
    assert "280" in said and "300" in said
    large = viete("check", "llama", code=2)
    assert "too many to draw for its claims" in large and "theta" not in large


def test_going_on_knowingly(folder: Path, viete: Any) -> None:
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | {"secret_sauce": 3}))
    for command in (["show"], ["run", "-t", "1,2"], ["sample", "-n", 1], ["check"]):
        said = viete(command[0], folder, *command[1:], code=2)
        assert "secret_sauce is 3" in said and "accept secret_sauce" in said
        viete(command[0], folder, *command[1:], "--accept", "secret_sauce")
    own = folder.parent / "own.md"
    own.write_text(CARD.write().replace("SiLU", "ReLU"))
    a = viete("run", folder, "-t", "1,2", "--accept", "secret_sauce")
    b = viete("run", folder, "-t", "1,2", "--card", own, "--accept", "secret_sauce")
    assert a != b
    assert "is for released models" in viete("show", "llama", "--card", own, code=2)
    assert "is for released models" in viete("show", "llama", "--accept", "x", code=2)
    assert "has no revision step3" in viete("show", folder, "--revision", "step3", code=2)


def test_a_run_of_training_is_a_model_too(folder: Path, viete: Any) -> None:
    run = folder.parent / "run"
    run.mkdir()
    (run / "card.md").write_text(CARD.write())
    save_weights(CARD, W, run / "model.safetensors")
    (run / "tokenizer.json").write_text(PAIRS.dumps())
    assert viete("show", run).startswith("Llama")
    assert viete("run", run, "-t", "1,2") == viete("run", folder, "-t", "1,2")
    assert viete("run", run, "--text", "the cat", "--show", "logits") == viete(
        "run", folder, "--text", "the cat", "--no-bos", "--show", "logits"
    )
    assert vt.load(run).weights.keys() == W.keys()


def test_a_shipped_card_goes_before_a_folder(folder: Path, viete: Any) -> None:
    folder.rename(folder.parent / "llama")
    assert "n = 4,096" in viete("show", "llama", "--costs")
    assert "n = 32" in viete("show", "./llama", "--costs")


def test_a_text_beyond_the_context_is_refused_as_tokens_are(folder: Path, viete: Any) -> None:
    long = "cat " * 40
    said = viete("run", folder, "--text", long, code=2)
    ids = ",".join(map(str, [PAIRS.end, *map(int, PAIRS.encode(long))]))
    assert said == viete("run", folder, "--tokens", ids, code=2)
    model = vt.load(folder)
    with pytest.raises(vt.VieteError, match="42 long, and n is at most 32"):
        model.lens(long)
    assert model.lens.to_tokens(long).shape == (
        1,
        32,
    )  # as TransformerLens truncates, where asked for
