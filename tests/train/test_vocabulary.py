"""Vocabularies: decode ∘ encode = identity, in our hands and in those of the tokenizers library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viete.errors import VieteError
from viete.text.data import Piece, read_data
from viete.text.dialogs import MARKUP
from viete.text.vocabulary import (
    END,
    Characters,
    digest,
    load_vocabulary,
    make_vocabulary,
    save_vocabulary,
)  # fmt: skip

tokenizers = pytest.importorskip("tokenizers")

from viete.text.vocabulary import BytePairs  # noqa: E402

any_text = st.text(st.characters(blacklist_categories=["Cs"]), max_size=40)
special = st.lists(st.sampled_from([*MARKUP, END]), unique=True, max_size=3)
WORDS = ["the cat sat on the mat", " and the dog, it's 42!\n\n", "naïve café 日本語 😀"]
PAIRS = BytePairs.of(WORDS, 300, [END, *MARKUP])


# Laws ---------------------------------------------------------------------------------------------


@given(st.lists(any_text, min_size=1), special)
def test_characters_round_trip(texts: list[str], special: list[str]) -> None:
    v = Characters.of([*texts, "<eot>/"], special)
    text = special[0].join(texts) if special else "".join(texts)
    ids = v.encode(text)
    assert v.decode(ids) == text and (ids < len(v)).all()
    if not special:
        assert list(ids) == [sorted(set("".join([*texts, "<eot>/"]))).index(c) for c in text]
    library = tokenizers.Tokenizer.from_str(v.dumps())
    assert library.encode(text, add_special_tokens=False).ids == ids.tolist()
    assert library.decode(ids.tolist(), skip_special_tokens=False) == text
    assert library.get_vocab_size() == len(v)


@given(any_text, st.lists(st.sampled_from([END, *MARKUP]), max_size=2))
def test_byte_pairs_round_trip(text: str, between: list[str]) -> None:
    text = text + "".join(token + text for token in between)
    assert PAIRS.decode(PAIRS.encode(text)) == text
    again = BytePairs.loads(PAIRS.dumps())
    assert (again.encode(text) == PAIRS.encode(text)).all() and digest(again) == digest(PAIRS)


@given(st.lists(st.sampled_from(["a", "the", " ", "\n", "\n\n", "'s", "3", "é", ".", "\t"])),
       st.integers(1, 6))  # fmt: skip
def test_byte_pairs_do_not_join_across_pieces(tmp_path_factory, words, size) -> None:  # type: ignore[no-untyped-def]
    """A file in pieces is encoded as a whole one is: cuts are where no token could be."""
    from viete.text import files

    text = "".join(words)
    path = tmp_path_factory.mktemp("p") / "a.txt"
    path.write_text(text + "x", "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PIECE", size)
        pieces = [piece for _, piece in files.pieces(path)]
    apart = np.concatenate([PAIRS.encode(piece) for piece in pieces])
    if all(len(p) <= 64 * size for p in pieces):
        assert apart.tolist() == PAIRS.encode(text + "x").tolist()


@given(st.lists(any_text, min_size=1), special)
def test_saved_and_read_back(tmp_path_factory, texts, special) -> None:  # type: ignore[no-untyped-def]
    v = Characters.of([*texts, "a"], special)
    path = tmp_path_factory.mktemp("v")
    save_vocabulary(v, path / "tokenizer.json")
    found = load_vocabulary(path)
    assert isinstance(found, Characters)
    assert (found.tokens, found.special, found.end) == (v.tokens, v.special, v.end)
    assert digest(found) == digest(v)


# Cases --------------------------------------------------------------------------------------------


def test_the_dialogs_have_thirty_characters() -> None:
    v = make_vocabulary(read_data("dialogs"))
    assert len(v) == 30 and v.end is None
    ids = v.encode("hello!</assistant><eot>")
    assert len(ids) == 23  # markup is spelled, as the reference does


def test_byte_pairs_have_the_markup_whole() -> None:
    v = make_vocabulary(read_data("dialogs"), "bpe", 270)
    assert len(v.encode("<assistant></assistant><eot>")) == 3 and len(v) <= 270
    save = v.dumps()
    assert save == make_vocabulary(read_data("dialogs"), "bpe", 270).dumps()  # deterministic


def test_an_unknown_character_has_a_place() -> None:
    v = Characters("ab\n")
    piece = Piece("ab\nabé\n", "mine.txt", 7, True)
    with pytest.raises(VieteError, match=r"mine\.txt:8:3: the character 'é' \(U\+00E9\) is not"):
        v.encode(piece.text, piece.where)
    with pytest.raises(VieteError, match=r"<text>:1:1: the character '\\ud800'"):
        v.encode("\ud800")
    with pytest.raises(VieteError, match="not among the 0"):
        Characters("", ["<eot>"]).encode("<eot>x")
    assert Characters("").encode("").tolist() == []


def test_ids_that_there_are_not() -> None:
    for v, size in (Characters("ab"), 2), (PAIRS, len(PAIRS)):
        for k in (-1, size):
            with pytest.raises(VieteError, match=f"there is no token {k}; .* 0 … {size - 1}"):
                v.decode([0, k])


def test_wrong_vocabularies() -> None:
    with pytest.raises(VieteError, match="single characters, each once"):
        Characters(["a", "bc"])
    with pytest.raises(VieteError, match="is too small for the 256 bytes and the"):
        BytePairs.of(WORDS, 200, [END])
    documents = read_data("dialogs")
    with pytest.raises(VieteError, match="unknown vocabulary 'words'"):
        make_vocabulary(documents, "words")
    with pytest.raises(VieteError, match="as many tokens as there are characters"):
        make_vocabulary(documents, "characters", 100)
    with pytest.raises(VieteError, match="needs its size"):
        make_vocabulary(documents, "bpe")
    with pytest.raises(VieteError, match="cannot be encoded"):
        PAIRS.encode("\ud800")


SEEMS = '"pre_tokenizer": {"type": "Split"}, "model": {"type": "WordLevel", "vocab": '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[1]", "it has no 'model'"),
        ('{"model": {"type": "Nonsense"}}', "not a tokenizer.json"),
        ("{" + SEEMS + '{"a": 1}}}', "looks like a character vocabulary, but is not one"),
        ("{" + SEEMS + '{"ab": 0}}}', "looks like a character vocabulary, but is not one"),
        ("{" + SEEMS + "3}}", "looks like a character vocabulary, but is not one"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(VieteError, match=message):
        load_vocabulary(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(VieteError, match="cannot be read"):
        load_vocabulary(tmp_path)
