"""Encoded once: the file that is mapped is what was encoded; what changed is encoded anew."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from viete.errors import VieteError
from viete.text.data import read_data
from viete.text.vocabulary import END, Characters, make_vocabulary
from viete.train import tokens as module
from viete.train.tokens import tokenize


def text_file(folder: Path, text: str = "to be, or not to be\n") -> Path:
    path = folder / "a.txt"
    path.write_text(text, "utf-8")
    return path


def test_a_text(tmp_path: Path) -> None:
    data = read_data(text_file(tmp_path, "to be\n" * 100_000))
    v = make_vocabulary(data)
    memory = tokenize(data, v)
    mapped = tokenize(data, v, tmp_path / "new" / "cache")
    assert isinstance(mapped.ids, np.memmap) and mapped.ids.dtype == np.uint16
    assert v.decode(memory.ids) == "to be\n" * 100_000 and (memory.ids == mapped.ids).all()
    assert memory.starts is None and mapped.own is None
    assert len(mapped) == 600_000 and mapped.source == data.digest


def test_it_is_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = text_file(tmp_path)
    v = make_vocabulary(read_data(path))
    first = tokenize(read_data(path), v, tmp_path / "cache")
    calls = []
    encode = v.encode
    monkeypatch.setattr(v, "encode", lambda *a: calls.append(1) or encode(*a))
    assert (tokenize(read_data(path), v, tmp_path / "cache").ids == first.ids).all()
    assert not calls
    path.write_text("not to be, or to be\n")  # as long as before
    assert v.decode(tokenize(read_data(path), v, tmp_path / "cache").ids) == path.read_text()
    assert calls
    wider = Characters([*v.tokens, "x"])
    assert len(list((tmp_path / "cache").glob("*.json"))) == 2
    tokenize(read_data(path), wider, tmp_path / "cache")
    assert len(list((tmp_path / "cache").glob("*.json"))) == 3


@pytest.mark.parametrize("damage", ["cut", "gone", "note", "empty"])
def test_damaged_files_are_written_anew(tmp_path: Path, damage: str) -> None:
    data = read_data("dialogs")
    v = make_vocabulary(data)
    whole = tokenize(data, v)
    tokenize(data, v, tmp_path)
    path = next(tmp_path.glob("starts-*.bin" if damage == "gone" else "tokens-*.bin"))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-2])
    elif damage == "gone":
        path.unlink()
    else:
        note = next(tmp_path.glob("*.json"))
        note.write_text('{"bytes": ' if damage == "note" else "[]")
    found = tokenize(data, v, tmp_path)
    for name in ("ids", "starts", "own"):
        assert (getattr(found, name) == getattr(whole, name)).all()


def test_dialogs(tmp_path: Path) -> None:
    data = read_data("dialogs")
    v = make_vocabulary(data)
    found = tokenize(data, v, tmp_path)
    assert found.starts is not None and found.own is not None
    dialogs = list(data.conversations())
    for a, b, dialog in zip(found.starts, found.starts[1:], dialogs, strict=False):
        assert v.decode(found.ids[a:b]) == str(dialog)
        assert v.decode(found.ids[a:b][found.own[a:b] == 1]) == dialog.answer
    assert len(found.starts) == 4 and found.starts[-1] == len(found)


def test_documents_are_parted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "ab"}\n{"text": "ba"}\n')
    v = make_vocabulary(read_data(path))
    assert v.decode(tokenize(read_data(path), v).ids) == f"ab{END}ba"
    with pytest.raises(VieteError, match="holds several documents, and the vocabulary has no tok"):
        tokenize(read_data(path), Characters("ab"))


def test_large_vocabularies_take_four_bytes(tmp_path: Path) -> None:
    v = Characters([chr(0x10000 + k) for k in range(70_000)])
    found = tokenize(read_data(text_file(tmp_path, chr(0x10000 + 66_000) * 3)), v, tmp_path / "c")
    assert found.ids.dtype == np.uint32 and found.ids.tolist() == [66_000] * 3


def test_an_unknown_character_leaves_nothing(tmp_path: Path) -> None:
    path = text_file(tmp_path, "abc\nabx")
    with pytest.raises(VieteError, match=r"a\.txt:2:3: the character 'x' \(U\+0078\) is not among"):
        tokenize(read_data(path), Characters("abc\n"), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    with pytest.raises(VieteError, match=r"dialogs\.txt:1:1: the character"):
        tokenize(read_data("dialogs"), Characters("abc\n"))


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    data = read_data("dialogs")
    v = make_vocabulary(data)
    monkeypatch.setattr("viete.atomic.os.fsync", full)
    with pytest.raises(VieteError, match=r"cannot be written .No space left"):
        tokenize(data, v, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_data_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = text_file(tmp_path)
    data = read_data(path)
    v = make_vocabulary(data)
    encode = v.encode

    def meddled(*args):  # type: ignore[no-untyped-def]
        path.write_text("to be")
        return encode(*args)

    v.encode = meddled  # type: ignore[method-assign]
    with pytest.raises(VieteError, match="the data changed while it was read"):
        tokenize(data, v, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    shown: list[str] = []
    data = read_data(text_file(tmp_path, "to be\n" * 100_000))
    tokenize(data, make_vocabulary(data), None, shown.append)
    assert shown[0].endswith("a.txt: 0.3 M characters of 0.6 MB are 262,142 tokens")
    assert shown[-1] == ""


def test_nothing_to_learn(tmp_path: Path) -> None:
    data = read_data(text_file(tmp_path, "\n\n"), "dialogs")
    with pytest.raises(VieteError, match="it has nothing to train on"):
        tokenize(data, Characters("ab"))
