"""``viete sample``: texts in, texts out, and a sentence for what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.formats.files import save_safetensors
from viete.sampling.texts import GrowingTexts, sample_texts
from viete.text.vocabulary import Characters, save_vocabulary

CARD = """
# Counter

The next digit, by a table of pairs.

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 12 |
| $n_{max}$ | 6 |
| $n$ | $≤ n_{max}$ |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$: characters

## Parameters

| symbol | shape |
| --- | --- |
| $B$ | $V × V$ |

## Forward pass

1. $logits = B[t]$
"""
VOCABULARY = Characters("0123456789", ["<end>", "<|endoftext|>"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A card after which every digit is followed by the next one, and 9 by the end."""
    (tmp_path / "card.md").write_text(CARD)
    table = 20 * np.eye(12)[[*range(1, 11), 0, 5]]
    save_safetensors(tmp_path / "model.safetensors", {"B": table})
    save_vocabulary(VOCABULARY, tmp_path / "tokenizer.json")
    return tmp_path


def test_a_folder_is_opened(folder: Path) -> None:
    model = vt.load(folder)
    vocabulary = model.read_tokenizer()
    assert model.card.title == "Counter" and model.weights["B"].shape == (12, 12)
    assert vocabulary is not None and len(vocabulary) == 12


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--text", "12", "--most", 3], "345\n"),
        (["--text", "12", "--most", 3, "--echo"], "12345\n"),
        (["--text", "1", "--greedy", "--stop", "45"], "2345\n"),
        (["--text", "1", "--stop", "9x", "--stop", "67"], None),
        (["--text", "1", "--stop-token", "<end>"], "23456789<end>\n"),
        (["--text", "1", "--stop-token", "4", "--stop", "9"], "234\n"),
        (["--text", "0123456789<end>", "--most", 2], "01\n"),
        (["--most", 2], "56\n"),  # after the end of a text
        (["--text", "3", "--count", 2, "--most", 2], "--- 1\n45\n--- 2\n45\n"),
        (["--tokens", "1,2", "--most", 2], "3 4 \n"),
        (["--tokens", "1", "--stop-token", "3", "--no-cache"], "2 3 \n"),
        (["--text", "8", "--top-k", 1, "--temperature", 0.5, "--top-p", 0.9, "--most", 1], "9\n"),
    ],
)
def test_what_it_prints(folder: Path, options: list[Any], said: str | None) -> None:
    code, out, err = viete("sample", folder, *options, code=None)
    if said is None:
        assert code == 2 and "cannot be spelled" in err
        return
    assert (code, out, err) == (0, said, "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--text", "a"], "the prompt cannot be spelled: the character 'a'"),
        (["--text", "1", "--temperature", "0"], "temperature must be a number above 0"),
        (["--text", "1", "--temperature", "-2"], "temperature must be a number above 0"),
        (["--text", "1", "--top-p", "0"], "top_p must be a probability"),
        (["--text", "1", "--revision", "best"], "one model.safetensors and no checkpoints"),
        (["--text", "1", "--top-p", "1.5"], "top_p must be a probability"),
        (["--text", "1", "--top-k", "0"], "top_k must be a whole number"),
        (["--text", "1", "--greedy", "--top-k", "2"], "greedy takes the likeliest"),
        (["--text", "1", "--stop-token", "12"], "not a single token"),
        (["--text", "1", "--stop-token", "<eot>"], "cannot be spelled"),
        (["--text", "1", "--stop", ""], "cannot be empty"),
        (["--text", "1", "--count", "0"], "count must be a whole number"),
        (["--text", "1", "--most", "-1"], "most must be a whole number"),
        (["--text", "1", "--seed", "-1"], "seed must be a whole number"),
        (["--text", "1", "--keep", "7"], "keep must be a number of tokens up to the context of 6"),
        (["--text", "1", "--tokens", "1"], "either --text or --tokens"),
        (["--tokens", "1,12"], "not among the ids 0 … 11"),
        (["--tokens", "1,2/3,4"], "takes one sequence"),
    ],
)
def test_bad_input_gets_one_sentence(folder: Path, options: list[str], said: str) -> None:
    _, out, err = viete("sample", folder, *options, code=2)
    assert out == ""
    assert said in err and err.startswith("viete: ")


def test_folders_that_hold_no_run(folder: Path) -> None:
    def fails(what: Path, *options: str) -> str:
        _, out, err = viete("sample", what, *options, code=2)
        assert out == ""
        return err

    assert "there is no file" in fails(folder / "gone")
    (folder / "empty").mkdir()
    assert "the folder has no weights" in fails(folder / "empty")
    (folder / "tokenizer.json").rename(folder / "kept.json")
    assert "has no tokenizer" in fails(folder, "--text", "1")
    (folder / "kept.json").rename(folder / "tokenizer.json")
    save_vocabulary(Characters("0123456789abc"), folder / "tokenizer.json")
    assert "the vocabulary has 13 tokens, but the card only 12" in fails(folder, "--text", "1")
    save_vocabulary(Characters("0123456789"), folder / "tokenizer.json")
    assert "the prompt is empty" in fails(folder)
    save_safetensors(folder / "model.safetensors", {"B": np.zeros((3, 3))})
    assert "B" in fails(folder, "--text", "1")
    (folder / "model.safetensors").unlink()
    assert "the run has no weights yet" in fails(folder, "--text", "1")


def test_a_card_without_a_cache_says_why(folder: Path) -> None:
    card = CARD.replace("$logits = B[t]$", "$X = B[t]$\n2. $logits = softmax(X X^⊤) X$")
    (folder / "card.md").write_text(card)
    _, out, err = viete("sample", folder, "--text", "3", "--most", "2")
    assert len(out) == 3
    assert "every token runs the whole text: Counter has no incremental form: in equation 2" in err


class Bytes:
    """A vocabulary of bytes, of which several make a character."""

    special: tuple[str, ...] = ()
    end = None

    def __len__(self) -> int:
        return 256

    def decode(self, ids: Any) -> str:
        return bytes(ids).decode("utf-8", "replace")


def test_a_character_is_shown_when_all_its_bytes_are_there() -> None:
    text = "aé€b"
    texts = GrowingTexts(Bytes(), 1, (), set())  # type: ignore[arg-type]
    pieces = [p for _, p in texts.pieces([(b,) for b in text.encode()])]
    assert pieces == ["a", "é", "€", "b"]
    texts = GrowingTexts(Bytes(), 1, (), set())  # type: ignore[arg-type]
    cut = [p for _, p in texts.pieces([(b,) for b in "€".encode()[:2]])]
    assert "".join(cut) == "\ufffd"  # what never came is shown as such at the end


def test_a_text_to_stop_at_may_end_within_a_token() -> None:
    class Pairs(Bytes):
        def decode(self, ids: Any) -> str:
            return "".join(f"{k}{k}." for k in ids)

    texts = GrowingTexts(Pairs(), 1, ("2",), set())  # type: ignore[arg-type]
    assert not texts.ended([1]) and texts.ended([1, 2])
    assert "".join(p for _, p in texts.pieces([(1,), (2,)])) == "11.2"


def test_samples_of_texts_are_those_of_tokens(folder: Path) -> None:
    opened = vt.load(folder)
    model, weights, vocabulary = opened.card, opened.weights, opened.read_tokenizer()
    assert vocabulary is not None
    weights = {k: v / 20 for k, v in weights.items()}
    texts = ["", "", ""]
    for k, piece in sample_texts(model, weights, vocabulary, "12", count=3, most=9, seed=2):
        texts[k] += piece
    tokens = zip(*model.sample([1, 2], weights, count=3, most=9, seed=2), strict=True)
    assert texts == [vocabulary.decode(t) for t in tokens]


def test_a_card_is_sampled_by_its_own_weights_or_random_ones() -> None:
    """A card's words are printed, where it lists any."""
    followed = ["--tokens", "a b c a", "--greedy", "--most", 3]
    assert viete("sample", "letters-induction", *followed).out == "b c a \n"
    tiny = ["attention-only-2", "--set", "V=9", "--set", "d=4", "--set", "H=2", "--tokens", "3,1"]
    draws = [viete("sample", *tiny, "--seed", k, "--most", 9).out for k in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert "is a card without weights: give --seed N" in viete("sample", *tiny, code=2).err
    asked = viete("sample", "letters-table", "--text", "ab", code=2).err
    assert "has no tokenizer: give the tokens, such as --tokens 'a b c'" in asked
