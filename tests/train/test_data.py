"""Training data as it is read: what is there comes out, and what is wrong is named by its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viete.errors import Text, VieteError
from viete.text import files
from viete.text.data import SHIPPED, read_data
from viete.text.dialogs import MARKUP, Dialog, from_messages, read_dialogs

ONE = """System: <system>You are helpful.</system>
User: <user>hi</user>
Assistant: <assistant>hello!</assistant>
End: <eot>
"""


def texts(path: Path, kind: str | None = None) -> list[str]:
    return list(read_data(path, kind).texts())


# Dialogs ------------------------------------------------------------------------------------------


def test_the_references_dialogs() -> None:
    """Three prompts and the answers that the reference document expects."""
    said = {d.prompt: d.answer for d in read_data("dialogs").conversations()}
    start = "<system>You are helpful.</system><user>"
    assert said == {
        f"{start}hi</user><assistant>": "hello!</assistant><eot>",
        f"{start}what is 2+2?</user><assistant>": "4</assistant><eot>",
        f"{start}color of sky?</user><assistant>": "blue</assistant><eot>",
    }
    assert [len(str(d)) for d in read_dialogs(SHIPPED / "dialogs.txt")] == [82, 87, 91]
    lines = (SHIPPED / "dialogs.txt").read_text("utf-8").split("\n")
    together = "\n".join(line.partition(": ")[2] for line in lines if line)
    assert len(together) == 271  # the corpus as one sequence, which the reference trains on


said = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r"), max_size=20)
exchange = st.tuples(said, said).filter(
    lambda pair: not any(tag in text or ": <" in text for text in pair for tag in MARKUP)
)


@given(st.lists(st.lists(exchange, min_size=1, max_size=3), min_size=1, max_size=3), st.booleans())
def test_dialogs_read_back(tmp_path_factory, dialogs, system) -> None:  # type: ignore[no-untyped-def]
    """Whatever people say, over several lines or not, as lines of a file and as messages."""
    path, wanted, lines = tmp_path_factory.mktemp("d") / "a.txt", [], ""
    for pairs in dialogs:
        turns = [("system", "Be\nbrief.")] if system else []
        for user, assistant in pairs:
            turns += [("user", user), ("assistant", assistant)]
        wanted.append(tuple(turns))
        lines += "".join(f"{r.capitalize()}: <{r}>{t}</{r}>\n" for r, t in turns) + "End: <eot>\n\n"
    path.write_text(lines, "utf-8")
    found = list(read_data(path, "dialogs").conversations())
    assert [d.turns for d in found] == wanted
    messages = [{"role": r, "content": t} for r, t in wanted[0]]
    dialog = from_messages(messages, Text("", "a.jsonl", 1))
    assert dialog.turns == wanted[0]
    assert "".join(text for text, _ in dialog.parts) == str(dialog)
    own = [text for text, own in dialog.parts if own]
    assert len(own) == len(dialogs[0]) and own[-1].endswith("</assistant><eot>")


def test_dialogs_in_a_code_fence(tmp_path: Path) -> None:
    """As the reference shows them, copied with what stands around them."""
    plain = (SHIPPED / "dialogs.txt").read_text()
    (tmp_path / "a.md").write_text("```text\n" + plain + "```\n\n```\n" + plain + "\n```")
    found = read_data(tmp_path / "a.md")
    assert list(found.texts()) == texts(SHIPPED / "dialogs.txt") * 2


def test_who_says_what() -> None:
    turns = (("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
    assert Dialog(turns).parts == (
        ("<user>a</user><assistant>", False), ("b</assistant>", True),
        ("<user>c</user><assistant>", False), ("d</assistant><eot>", True),
    )  # fmt: skip


WRONG_DIALOGS = [
    ("User: <user>hi</user>\nBot: <bot>x</bot>\n", r":2:1: there is no role Bot"),
    ("User: <user>hi</user>\nhello\n", r":2:1: a line of a dialog begins with System:, User:"),
    ("User: <user>a</user>\nEnd: <eot>\n", r":2:1: End is out of order: after User comes Assist"),
    (ONE.replace("User", "Assistant", 1).replace("user", "assistant"), r":2:1: Assistant is out"),
    ("User: <user>a</user>\n" + ONE, r":2:1: System is out of order: after User comes Assistant"),
    ("Assistant: <assistant>a</assistant>\n", r":1:1: Assistant is out of order: at the begin"),
    (ONE.replace("<user>hi", "<usr>hi"), r":2:1: the user's words must stand between <user> and"),
    (ONE.replace("hi</user>", "hi"), r":2:1: <user> is not closed with </user>"),
    (ONE.replace("</assistant>", ""), r":3:1: <assistant> is not closed"),
    (ONE.replace("hi</user>", "hi</user> there"), r":2:1: nothing may follow </user>"),
    (ONE.replace("hi<", "<eot><"), r":2:1: <eot> cannot stand inside a turn"),
    (ONE.replace("<eot>", "<end>"), r":4:1: a dialog's last line is 'End: <eot>'"),
    (
        ONE + "\n" + ONE.replace("End: <eot>\n", ""),
        r":8:1: the dialog that begins in line 6 does not",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG_DIALOGS)
def test_wrong_dialogs(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "d.txt"
    path.write_text(text)
    with pytest.raises(VieteError, match=r"d\.txt" + message):
        texts(path, "dialogs")


# Plain text and folders ---------------------------------------------------------------------------


@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r"), min_size=1),
       st.integers(1, 5))  # fmt: skip
def test_pieces_make_the_file(tmp_path_factory, text, size) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("t") / "a.txt"
    path.write_text(text, "utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PIECE", size)
        found = list(files.pieces(path))
        assert "".join(piece for _, piece in found) == text.removeprefix("\ufeff")
        begun = 1
        for line, piece in found:
            assert line == begun
            begun += piece.count("\n")
        split = text.removeprefix("\ufeff").split("\n")
        whole = [line for _, line in files.lines(path)]
        assert whole == (split if split[-1] else split[:-1])


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.txt").write_text("two")
    (tmp_path / "a.md").write_text("one")
    (tmp_path / ".hidden").write_text("no")
    (tmp_path / "empty").write_text("")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    found = read_data(tmp_path)
    assert list(found.texts()) == ["one", "two"] and found.several and not found.dialogs
    assert [path.name for path in found.skipped] == ["picture.png"]
    (tmp_path / "talk.txt").write_text(ONE)
    with pytest.raises(VieteError, match=r"talk\.txt holds dialogs and a\.md plain text"):
        read_data(tmp_path)
    assert texts(tmp_path, "text") == ["one", "two", ONE]


def test_a_folder_of_dialogs_and_messages(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(ONE)
    turns = next(read_dialogs(tmp_path / "a.txt")).turns
    message = {"messages": [{"role": r, "content": t} for r, t in turns]}
    (tmp_path / "b.jsonl").write_text(json.dumps(message) + "\n\n")
    first, second = read_data(tmp_path).conversations()
    assert first.turns == second.turns


def test_the_digest_follows_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("some text")
    before = read_data(path).digest
    assert read_data(path).digest == before
    path.write_text("some tex")
    assert read_data(path).digest != before
    (tmp_path / "b.txt").write_text("t")
    assert read_data(tmp_path).digest != before  # the same bytes, and two documents


NO_TEXT = [
    (b"", "is empty"),
    (b"abc\xff\xfe", r"byte 3 \(0xff\) is not UTF-8"),
    ("naïve".encode("latin-1"), r"byte 2 \(0xef\) is not UTF-8"),
    (b"x" * 3_000_000 + "é".encode()[:1], r"byte 3,000,000 \(0xc3\) is not UTF-8"),
    (b"\xc3\xa9" * 800_001 + b"\xff" + b"y" * 10, r"byte 1,600,002 \(0xff\)"),
    (b"a\0b", "is a binary file"),
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is a binary file"),
]


@pytest.mark.parametrize(("content", "message"), NO_TEXT)
def test_not_text(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(VieteError, match=message):
        texts(path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(VieteError, match="no such file or folder"):
        read_data(tmp_path / "missing")
    with pytest.raises(VieteError, match=r"holds no text files .no files with anything"):
        read_data(tmp_path)
    (tmp_path / "x.bin").write_bytes(b"\0\1")
    with pytest.raises(VieteError, match=r"holds no text files .only 1 that are not"):
        read_data(tmp_path)
    with pytest.raises(VieteError, match="unknown kind of data 'csv'"):
        read_data(tmp_path, "csv")


# JSON lines ---------------------------------------------------------------------------------------

WRONG_LINES = [
    ('{"text": "a"}\n{"text": \n', r":2:10: this line is not JSON \(Expecting value\)"),
    ('{"text": "a"}\n\n["b"]\n', r":3:1: a line of data is a JSON object, not list"),
    ('{"text": "a"}\n{"messages": []}\n', r":2:1: the lines before this one have 'text'"),
    ('{"body": "a"}\n', r":1:1: a line of data needs 'text' or 'messages'"),
    ('{"text": 3}\n', r":1:1: 'text' is text, not int"),
    ('{"text": "\\ud83d"}\n', r":1:1: this line holds half of a surrogate pair"),
    ("[" * 100_000 + "\n", r":1:1: this line is not JSON"),
    ("\n \n", "only blank lines"),
    ('{"messages": []}\n', ":1:1: 'messages' is a list"),
    ('{"messages": [{"role": "bot", "content": "x"}]}', ":1:1: there is no role 'bot'"),
    ('{"messages": [{"role": "user", "content": 3}]}', "'content' is text, not int"),
    ('{"messages": [{"role": "user", "content": "a"}]}', "ends before the assistant answers"),
    ('{"messages": [{"role": "assistant", "content": "a"}]}', "Assistant is out of order"),
    ('{"messages": ["hi"]}', "there is no role None"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG_LINES)
def test_wrong_lines(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(VieteError, match=message):
        texts(path)


def test_lines_of_text(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text('{"text": "a\\nb", "id": 1}\n\n{"text": "\\ud83d\\ude00\u2028"}')
    assert texts(path) == ["a\nb", "😀\u2028"]
