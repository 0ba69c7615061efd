"""Law 11, messages: whatever stands in a file's names, a message is one line of printable text."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import viete as vt
from tests.command_line import viete
from viete.errors import Text, VieteError
from viete.formats.files import save_safetensors
from viete.formats.tensors import bar
from viete.printable import (
    ERASED,
    LONGEST,
    STEERING,
    Screen,
    display_width,
    overwrite,
    print_coloured,
    printable,
    shortened,
)

TINY = Path(__file__).parents[1] / "bad_input" / "tiny.md"
CARD = TINY.read_text("utf-8")


class Name(str):
    """A text whose failing examples are short to read."""

    def __repr__(self) -> str:
        return repr(shortened(str(self), 80))


STRANGE = ["\0", "\x1b[31m", "\x1b]0;title\x07", "\n", "\r", "\r\x1b[Kviete: done", "\t", "\x9b2J",
           "\u202e", "\u2066", "\u2028", "\x85", "\ufeff", "é\u0301", "水", "a" * 100_000,
           "x y " * 30_000, "W_Q", "'", '"', "`", "$", "|", "%s", "{0}", "../", "<b>",
           "\\"]  # fmt: skip
parts = st.lists(st.sampled_from(STRANGE) | st.characters(), min_size=1, max_size=5)
WORST = Name("".join(STRANGE))
PLACES = ["Tiny", "what a head writes", "| $E$ |", "Forward pass", "W_O", "d"]
names = parts.map(lambda found: Name("".join(found)))
few = settings(
    max_examples=5,
    phases=[Phase.explicit, Phase.generate],  # each example is several commands
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def is_message(text: str) -> bool:
    """One line, even of a place and what is said of it."""
    return text.isprintable() and len(text) <= 2 * LONGEST


def check_command(*argv: object) -> None:
    """The command ends by itself; what it prints steers no terminal and floods none."""
    ended = viete(*argv, code=None)
    assert ended.code in (0, 1, 2), argv
    for line in (ended.out + ended.err).split("\n"):
        assert not STEERING.search(line) and len(line) < 10_000, line[:300]
    if ended.code == 2:
        first, *more = ended.err.rstrip("\n").split("\n")
        assert first.startswith("viete: ") and is_message(first)
        assert all(line.startswith("  ") for line in more), more


# -- the one function ------------------------------------------------------------------------------


@given(names)
def test_whatever_is_said_is_one_line(name: str) -> None:
    assert is_message(printable(name))
    error = VieteError(f"{name} is not a name; say d", Text(f"  {name} = 1", name).where(2, 5))
    assert is_message(error.message) and error.message.endswith(" is not a name; say d")
    head, line, caret = str(error).split("\n")
    assert all(map(is_message, (head, line))) and set(caret) == {" ", "^"}
    listed = VieteError("these are missing:", lines=[name, name])
    assert str(listed).split("\n") == ["these are missing:", printable(name), printable(name)]


def test_what_shows_stays_as_it_is() -> None:
    assert printable("γ₁ W_Q^{1,h} = x̃ ∈ ℝ^{n × d}, 水") == "γ₁ W_Q^{1,h} = x̃ ∈ ℝ^{n × d}, 水"
    assert printable("a\x1b[1m\nb\u202e") == r"a\x1b[1m\nb\u202e"
    assert printable("a" * 9 + "b" * 9, 9) == "aaaaaa … bbb"


@pytest.mark.parametrize(("before", "columns"), [
    ("", 0), ("abc = ", 6), ("水水", 4), ("x\u0302 = ", 4), ("\t\x1b", 2), ("a" * 500, 114)
])  # fmt: skip
def test_a_caret_stands_below_what_it_means(before: str, columns: int) -> None:
    """In the columns that a terminal takes for what stands before it, none for an accent."""
    said = str(Text(f"{before}?? + 1").error("wrong", len(before), len(before) + 2))
    _, line, caret = said.split("\n")
    at = 4 + columns
    assert caret == " " * at + "^^"
    cells = [c for c in line if display_width(c) for _ in range(display_width(c))]
    assert cells[at : at + 2] == ["?", "?"]


@given(names)
def test_what_a_command_prints_steers_no_terminal(text: str) -> None:
    for encoding in ("utf-8", "ascii"):
        raw = io.BytesIO()
        with io.TextIOWrapper(raw, encoding) as stream:
            print(text, file=Screen(stream))
            stream.flush()
            shown = raw.getvalue().decode(encoding)
        assert not STEERING.search(shown)
    assert (
        STEERING.search(text) or shown == text.encode("ascii", "backslashreplace").decode() + "\n"
    )


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_progress_and_colours_reach_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Viète itself writes to steer a terminal is no text on it; names are."""
    out, err = Terminal(), Terminal()
    monkeypatch.setattr("viete.formats.tensors.PATIENCE", 0)
    with redirect_stdout(Screen(out)), redirect_stderr(Screen(err)):
        with bar(4, "a\x1b[31mb") as tell:
            tell(1)
        print_coloured("\x1b[48;2;1;2;3m  \x1b[0m c\x1b[31md\n")
    assert err.getvalue() == rf"{ERASED} 25% a\x1b[31mb{ERASED}"
    assert out.getvalue() == "\x1b[48;2;1;2;3m  \x1b[0m " + r"c\x1b[31md" + "\n"


def test_a_line_that_is_overwritten_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viete.printable.columns", lambda: 10)
    with redirect_stderr(Screen(err := Terminal())):
        overwrite("水" * 9)
    assert err.getvalue() == ERASED + "水" * 4


def test_a_drawing_has_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    asked = ["ask", "letters-attention", "-t", "a b a", "A", "--draw"]
    viete(*asked, stdout=(terminal := Terminal()))
    assert terminal.getvalue().count("\x1b[48;2;") == 9 + 3 and r"\x1b" not in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    viete(*asked, stdout=(plain := Terminal()))
    assert plain.getvalue() == viete(*asked).out and "\x1b" not in plain.getvalue()


@pytest.mark.parametrize("output", ["| true", ">&-"])
def test_nobody_needs_to_read_the_output(output: str) -> None:
    program = f"{shlex.quote(sys.executable)} -m viete sample letters-table -t a -n 3"
    line = f"set -o pipefail; {program} {output}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


# -- names in files --------------------------------------------------------------------------------


@few
@example(WORST, "Tiny", "text")
@given(names, st.sampled_from(PLACES), st.sampled_from(["text", "md", "latex", "json"]))
def test_cards(tmp_path: Path, name: str, place: str, form: str) -> None:
    file = tmp_path / "card.md"
    file.write_bytes(CARD.replace(place, place[:2] + name, 1).encode("utf-8", "surrogatepass"))
    check_command("show", file, "-f", form)
    told = json.dumps({"schema": "viete-card/1", "title": name, "about": [name]})
    file.write_text(told, "utf-8")
    check_command("show", file)


def header(table: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(table).encode()
    return len(text).to_bytes(8, "little") + text + data


WEIGHTS = {k: np.asarray(v, "float32") for k, v in vt.read(CARD).initial_weights(0).items()}


@few
@example(WORST, "all")
@given(names, st.sampled_from(["name", "dtype", "shape", "metadata", "twice", "all"]))
def test_tensors(tmp_path: Path, name: str, place: str) -> None:
    file = tmp_path / "w.safetensors"
    entry: dict[str, Any] = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    tables: dict[str, dict[str, Any]] = {
        "name": {name: entry}, "dtype": {name: entry | {"dtype": name}},
        "shape": {name: entry | {"shape": [name]}}, "metadata": {"__metadata__": {name: 1}},
        "twice": {name: entry, f"{name}.weight": entry | {"data_offsets": [4, 8]}},
    }  # fmt: skip
    if place == "all":
        save_safetensors(file, WEIGHTS)
        good = file.read_bytes()
        start = 8 + int.from_bytes(good[:8], "little")
        table = json.loads(good[8:start])
        end = len(good) - start
        table[name] = entry | {"data_offsets": [end, end + 4]}
        file.write_bytes(header(table, good[start:] + bytes(4)))
    else:
        file.write_bytes(header(tables[place], bytes(8 if place == "twice" else 4)))
    check_command("check", TINY, "-w", file)
    check_command("run", TINY, "-t", "1,2", "-w", file)


@few
@example(WORST, True)
@given(names, st.booleans())
def test_archive_members(tmp_path: Path, name: str, array: bool) -> None:
    file = tmp_path / "w.npz"
    raw = io.BytesIO()
    np.save(raw, np.zeros(3, "float32"))
    try:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a" + name[:60_000] + ".npy" * array, raw.getvalue())
    except UnicodeError:  # half a character is in no member's name
        return
    check_command("check", TINY, "-w", file)


@few
@example(WORST, "key")
@given(names, st.sampled_from(["key", "value", "family", "nested", "size"]))
def test_configs(tmp_path: Path, name: str, place: str) -> None:
    said: dict[str, Any] = {
        "model_type": "gpt_neox", "hidden_act": "gelu", "vocab_size": 20, "hidden_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
        "rotary_pct": 0.25, "layer_norm_eps": 1e-5, "max_position_embeddings": 8,
        "tie_word_embeddings": False, "use_parallel_residual": True,
    }  # fmt: skip
    said |= {
        "key": {name: 1}, "value": {"hidden_act": name}, "family": {"model_type": name},
        "nested": {"rope_scaling": {name: name}}, "size": {"hidden_size": name},
    }[place]  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(said))
    check_command("show", "pythia", "--config", tmp_path / "config.json", "--accept", name)
    check_command("show", tmp_path)


@few
@given(names, st.sampled_from(["type", "token", "merge", "special", "file"]))
def test_tokenizers(tmp_path: Path, name: str, place: str) -> None:
    from viete.text.tokenizer import open_tokenizer

    model: dict[str, Any] = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    said: dict[str, Any] = {
        "type": {"model": model | {"type": name}},
        "token": {"model": model | {"vocab": {name: -1}}},
        "merge": {"model": model | {"merges": [[name, name]]}},
        "special": {"model": model, "added_tokens": [{"id": 7, "content": name}]},
        "file": {name: name},
    }[place]  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"bos_token": name}))
    refused(lambda: open_tokenizer(tmp_path))


def refused(call: Callable[[], object]) -> None:
    try:
        call()
    except VieteError as error:
        assert is_message(error.message) and is_message(str(error))
