"""Wrong files: cards, weights and configs that are damaged, huge, missing or something else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.formats.files import save_npz, save_safetensors

PATH = Path(__file__).with_name("tiny.md")
TINY = PATH.read_text("utf-8")
W = vt.read(TINY).initial_weights(0)


# fmt: off
CARDS = [
    ("empty", b"", "no equations; a card lists them under a heading 'Forward pass'"),
    ("only spaces", b" \n\n ", "no equations"), ("prose", b"Dear reader,\n", "no equations"),
    ("a title", b"# Tiny\n", "no equations"),
    ("a page of code", Path(__file__).read_bytes(), "no equations"),
    ("a zero byte", TINY.encode()[:300] + b"\0" + TINY.encode()[300:], "is a binary file"),
    ("a picture", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is a binary file"),
    ("Latin-1", TINY.replace("blocks", "blöcke").encode("latin-1", "replace"), "not UTF-8 text"),
    ("UTF-16", TINY.encode("utf-16"), "is a binary file"),
    ("cut in a character",
     TINY.encode()[: TINY.encode().index("∈".encode()) + 1], ":21: this is not"),
    ("a long line", b"# Tiny\n\n" + b"x" * 1_000_000, "is a page or two"),
    ("a long line in a small card", b"# Tiny\n\n" + b"x" * 50_000, ":3:1: this line has 50,000"),
    ("an endless paragraph", b"# Tiny\n\n" + b"x\n" * 19_000, ":3:1: this paragraph goes on"),
    ("too many lines", b"# Tiny\n\n" + b"x\n" * 100_000, "has 100,002 lines; a card is a page"),
    ("10,000 parentheses",
     TINY.replace("x^N W_U", "(" * 4000 + "x^N W_U").encode(), "nested too deep"),
    ("a sum of 1,000",
     TINY.replace("x^N W_U", "1 + " * 1000 + "x^N W_U").encode(), "nested more than"),
    ("a tower of scripts",
     TINY.replace("x^N W_U", "2" + "^{2" * 900 + "}" * 900).encode(), "nested too deep"),
    ("a thousand minus signs", TINY.replace("x^N W_U", "-" * 1000 + "x^N").encode(), "too deep"),
    ("a thousand roots", TINY.replace("x^N W_U", "sqrt " * 1000 + "x^N").encode(), "too deep"),
    ("spaces",
     TINY.replace("For $i = 1, …, N$:", "For " + " " * 9000 + "= …" + " " * 900).encode(), ":43:"),
    ("functions in functions in functions", TINY.replace("## Forward", "".join(
        f"- $f_{{{k}}}(x) = {f'f_{{{k - 1}}}(x)' if k else 'x'}$\n" for k in range(900))
        + "\n## Forward").replace("argmax(s)", "f_{899}(argmax(s))").encode(),
     "with its functions written out"),
    ("sizes that explode", TINY.replace("| $H$ |", "| $z_0$ | $d + H$ | |\n" + "".join(
        f"| $z_{{{k + 1}}}$ | $z_{{{k}}}^8$ | |\n" for k in range(40)) + "| $H$ |").encode(),
     "has more digits than any computer can use"),
    ("JSON of another thing", b'{"model_type": "gpt2"}', '"schema": "viete-card/1"'),
    ("JSON cut off", b'{"schema": "viete-card/1", "title": "Ti', ":1:37: this is not JSON"),
    ("JSON too deep", b'{"a": ' + b"[" * 100_000, "JSON"),
    ("JSON of 20,000 lines",
     json.dumps({"schema": "viete-card/1", "about": ["a"] * 20_000}, indent=1).encode(),
     "more than 10,000 texts"),
    ("LaTeX of another thing",
     b"\\documentclass{article}\n\\begin{document}\nHello\n", "no equations"),
]
CONFIGS = [
    ("no JSON", b"hidden_size: 8", "is not JSON"), ("a list", b"[1]", "holds no JSON object"),
    ("empty", b"", "is not JSON"), ("not UTF-8", b'{"a": "\xff"}', "is not JSON"),
    ("nested too deep", b'{"a":' * 100_000, "is not JSON"),
    ("another model", b'{"model_type": "gpt2"}', "model_type is gpt2"),
    ("a text for a number", {"hidden_size": "wide"}, "hidden_size gives d, so it must be a number"),
    ("a list for a number", {"hidden_size": [8]}, "hidden_size gives d, so it must be a number"),
    ("a truth value", {"hidden_size": True}, "hidden_size gives d, so it must be a number"),
    ("nothing", {"hidden_size": None}, "hidden_size is missing, so d has no value"),
    ("infinity", {"hidden_size": float("inf")}, "hidden_size gives d, so it must be a number"),
    ("another activation", {"hidden_act": "mish"}, "hidden_act is mish"),
]
PYTHIA = {
    "model_type": "gpt_neox", "hidden_act": "gelu", "vocab_size": 20, "hidden_size": 16,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "rotary_pct": 0.25,
    "layer_norm_eps": 1e-5, "max_position_embeddings": 8, "tie_word_embeddings": False,
    "use_parallel_residual": True,
}
# fmt: on


@pytest.mark.parametrize(("content", "words"), [pytest.param(*c, id=i) for i, *c in CARDS])
def test_card(content, words, tmp_path, refused) -> None:
    file = tmp_path / "card.md"
    file.write_bytes(content)
    said = refused("show", file, "-o", "out.md")
    assert "card.md" in said and words in said


def test_card_of_100_megabytes(tmp_path, refused) -> None:
    """Refused by its size, not read."""
    with open(tmp_path / "card.md", "wb") as file:
        file.truncate(100_000_000)
    assert "has 100,000,000 bytes; a card is a page or two" in refused("show", "card.md")


def test_no_card(tmp_path, refused) -> None:
    (tmp_path / "folder").mkdir()
    assert "folder: the folder has no weights" in refused("show", "folder")
    assert "there is no file pythai and no shipped card" in refused("show", "pythai")
    assert "did you mean pythia" in refused("show", "pythai")
    assert "no file none/card.md" in refused("doc", "none/card.md")
    assert "cannot look for" in refused("show", "a" * 5000)
    assert r"no file a\x00b" in refused("show", "a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_card_not_ours_to_read(tmp_path, refused) -> None:
    file = tmp_path / "card.md"
    file.write_text(TINY, "utf-8")
    file.chmod(0)
    assert "cannot read" in refused("show", file)


def weights_file(folder: Path, name: str) -> None:
    """One damaged or unfitting file of weights."""
    path, arrays = folder / "w", {k: np.asarray(v, "float32") for k, v in W.items()}
    save_safetensors(path, arrays)
    good = path.read_bytes()
    length = int.from_bytes(good[:8], "little")
    changed = {
        "an array missing": lambda: arrays.pop("E"),
        "an array too many": lambda: arrays.update(zzz=arrays["E"] + 1),
        "a wrong shape": lambda: arrays.update(E=arrays["E"].T.copy()),
        "NaN": lambda: arrays["E"].fill(np.nan),
        "whole numbers": lambda: arrays.update(E=np.ones((10, 6), "int64")),
    }
    if name in changed:
        changed[name]()
        save_safetensors(path, arrays)
    elif name == "objects":
        path.unlink()
        np.savez(folder / "w.npz", E=np.array([{}], object))
        (folder / "w.npz").rename(path)
    elif name == "a folder":
        path.unlink()
        path.mkdir()
    elif name == "no file":
        path.unlink()
    else:
        path.write_bytes({
            "empty": b"", "a text": b"these are not weights\n" * 9, "cut off": good[:-5],
            "cut in the header": good[: length // 2], "a page of zeros": bytes(4096),
            "a header that lies": (2**60).to_bytes(8, "little") + good[8:],
            "a header of another thing": good[:8] + b"[" * length + good[8 + length :],
            "a zip of nothing": b"PK\x05\x06" + bytes(18), "half a zip": b"PK\x03\x04" + bytes(50),
            "a pickle": b"\x80\x04\x95\x1a\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system"
                        b"\x94\x93\x94.",
            "GGUF in name": b"GGUF" + bytes(50), "ONNX in name": b"\x08\xff" * 30,
            "an LFS pointer": b"version https://git-lfs.github.com/spec/v1\n",
        }[name])  # fmt: skip


WEIGHTS = [
    ("empty", "is empty"), ("a text", "is not a tensor file"), ("cut off", "w: "),
    ("cut in the header", "its header claims"), ("a page of zeros", "is not a tensor file"),
    ("a header that lies", "its header claims"), ("a header of another thing", "w: "),
    ("a zip of nothing", "w"), ("half a zip", "cannot be read"), ("a pickle", "it holds a pickle"),
    ("GGUF in name", "cannot be read as GGUF"), ("ONNX in name", "cannot be read as ONNX"),
    ("an LFS pointer", "run git lfs pull"), ("a folder", "is a folder"),
    ("no file", "No such file"),
    ("objects", "E"), ("an array missing", "E"), ("an array too many", "zzz"),
    ("a wrong shape", "E is 6 × 10, and the card says 10 × 6"), ("NaN", "not a finite number"),
    ("whole numbers", "is int64"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "words"), [pytest.param(*c, id=c[0]) for c in WEIGHTS])
def test_weights(name, words, tmp_path, refused) -> None:
    weights_file(tmp_path, name)
    assert words in refused("run", PATH, "-t", "1,2", "-w", "w", "--save", "out.npz")


@pytest.mark.parametrize(("content", "words"), [pytest.param(*c, id=i) for i, *c in CONFIGS])
def test_config(content, words, tmp_path, refused) -> None:
    if isinstance(content, dict):
        content = json.dumps(PYTHIA | content).encode()
    (tmp_path / "config.json").write_bytes(content)
    said = refused("show", "pythia", "--config", "config.json", "-o", "out.md")
    assert "config.json" in said and words in said


def test_config_of_a_card_without_keys(tmp_path, refused) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert "names no keys of a config.json" in refused("show", PATH, "--config", "config.json")


def test_what_was_there_stays(tmp_path, refused) -> None:
    """A command that fails leaves the file it would have replaced as it was."""
    old = tmp_path / "out.npz"
    save_npz(old, {"a": np.ones(3)})
    before = old.read_bytes()
    refused("run", PATH, "-t", "1,99", "--seed", "0", "--save", old)
    refused("show", PATH, "--set", "d=x", "-o", old)
    assert old.read_bytes() == before


@pytest.mark.parametrize("target", ["/proc/version", "a" * 300])
def test_output_that_cannot_be_written(target, tmp_path, refused) -> None:
    assert "cannot be written" in refused("show", PATH, "-o", target)


@pytest.mark.parametrize("command", [
    ("doc", PATH, "-o"), ("show", PATH, "-o"), ("run", PATH, "-t", "1,2", "--seed", "0", "--save"),
], ids=lambda c: c[0])  # fmt: skip
def test_output_that_is_a_link(command: tuple[str, ...], tmp_path: Path) -> None:
    """What it leads to is written, in its own folder, and the link stays."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file.npz").write_text("old")
    link = tmp_path / ("link.npz" if command[0] == "run" else "link")
    link.symlink_to("there/file.npz")
    viete(*command, link)
    assert link.is_symlink() and len((tmp_path / "there" / "file.npz").read_bytes()) > 99
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file.npz", link.name, "there"]


def test_output_that_is_a_link_to_a_folder(tmp_path: Path, refused) -> None:
    """The link stays, and the folder cannot be written."""
    (tmp_path / "folder").mkdir()
    run = ("run", PATH, "-t", "1,2", "--seed", "0", "--save")
    for name, command in (("link", ("show", PATH, "-o")), ("link.npz", run)):
        (tmp_path / name).symlink_to("folder")
        assert "folder: cannot be written (" in refused(*command, tmp_path / name)
        assert (tmp_path / name).is_symlink()


def test_output_that_is_a_link_to_itself(tmp_path: Path) -> None:
    """It leads nowhere, and the file takes its place."""
    (tmp_path / "loop").symlink_to("loop")
    viete("show", PATH, "-o", tmp_path / "loop")
    assert (tmp_path / "loop").read_text().startswith("Tiny")


def test_output_that_is_no_file(tmp_path, refused) -> None:
    """A pipe or a device is not replaced by a file, which root could do to /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    assert "cannot be written (it is a device or a pipe)" in refused("show", PATH, "-o", "pipe")
