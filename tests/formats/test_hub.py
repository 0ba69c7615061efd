"""Models by their ids: what is fetched, from where it is read again, and what is said if not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("huggingface_hub")

import viete as vt
from tests import command_line
from tests.command_line import Ended
from tests.formats.hub_server import Hub
from tests.model.released import saved
from viete.formats.hub import is_id, weights_in

ROOT = Path(vt.__file__).parents[1]
LLAMA = vt.read("llama").bind(V=17, d=8, N=1, H=2, d_f=12, n_max=16)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Two states of one model, each with files that nobody should fetch."""
    home = tmp_path_factory.mktemp("hub")
    folders = {}
    for seed, revision in enumerate(["main", "step1"]):
        folder = saved(LLAMA, home / revision, LLAMA.initial_weights(seed, "float32"))
        (folder / "pytorch_model.bin").write_bytes(b"never wanted")
        (folder / "README.md").write_text("never wanted")
        (folder / "original").mkdir()
        shutil.copy(folder / "model.safetensors", folder / "original/model.safetensors")
        folders[revision] = folder
    folders["step16"] = folders["main"]
    made = Hub({"owner/tiny": folders, "owner/secret": folders}, gated={"owner/secret"})
    yield made
    made.close()


def viete(cache: Path, url: str, *argv: str, code: int = 0, offline: bool = False) -> Ended:
    """The command with that hub and that cache: the library's settings as its environment gives."""
    from huggingface_hub import constants

    settings = {
        "ENDPOINT": url, "HF_HUB_OFFLINE": offline, "HF_HUB_CACHE": str(cache / "hub"),
        "HUGGINGFACE_CO_URL_TEMPLATE": f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
    }  # fmt: skip
    with patch.multiple(constants, **settings):
        return command_line.viete(*argv, code=code)


def test_a_card_takes_the_config_alone(hub: Hub, tmp_path: Path) -> None:
    """In a process of its own, as on a fresh machine."""
    hub.asked.clear()
    given = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    given |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    made = subprocess.run([sys.executable, "-m", "viete", "show", "owner/tiny", "--costs"],
                          cwd=tmp_path, env=given, capture_output=True, text=True,
                          timeout=120)  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert made.stderr == "" and "Llama: costs" in made.stdout
    assert hub.given == ["config.json"]


def test_weights_are_fetched_once_and_then_there(hub: Hub, tmp_path: Path) -> None:
    hub.asked.clear()
    options = ("run", "owner/tiny", "-t", "1,2,3", "--show", "logits")
    first = viete(tmp_path, hub.url, *options)
    assert hub.given == ["config.json", "model.safetensors"]
    ours = LLAMA.run([1, 2, 3], LLAMA.initial_weights(0, "float32"))["logits"]
    assert f"{ours[0, 0]:.3f}" in first.out
    offline = viete(tmp_path, hub.url, *options, offline=True)
    assert offline.out == first.out, offline.err
    away = viete(tmp_path, "http://127.0.0.1:9", *options)
    assert away.out == first.out, away.err


def test_a_revision_is_another_state(hub: Hub, tmp_path: Path) -> None:
    options = ("run", "owner/tiny", "-t", "1,2,3", "--show", "logits", "--revision", "step1")
    made = viete(tmp_path, hub.url, *options)
    ours = LLAMA.run([1, 2, 3], LLAMA.initial_weights(1, "float32"))["logits"]
    assert f"{ours[0, 0]:.3f}" in made.out, made.err
    # Of a model that is in the cache, another state need not be.
    other = viete(tmp_path, hub.url, *options[:-1], "main", code=2, offline=True)
    assert "revision main of it is not whole" in other.err


def test_all_revisions_that_are_steps(hub: Hub, tmp_path: Path) -> None:
    asked = ("ask", "owner/tiny", "-t", "1,2,3", "--revision", "all", "logits_{-1,0}")
    rows = [row.split() for row in viete(tmp_path, hub.url, *asked).out.splitlines()[-2:]]
    assert [name for name, _ in rows] == ["step1", "step16"]
    for (_, value), seed in zip(rows, (1, 0), strict=True):
        ours = LLAMA.run([1, 2, 3], LLAMA.initial_weights(seed, "float32"))["logits_{-1,0}"]
        assert float(value) == pytest.approx(float(ours), abs=1e-3)
    refused(tmp_path, hub.url, *asked[:1], "owner/none", *asked[2:])


def refused(cache: Path, url: str, *argv: str) -> str:
    made = viete(cache, url, *argv, code=2)
    assert made.out == "", made.out
    assert made.err.startswith("viete: ") and len(made.err.splitlines()) == 1, made.err
    return made.err


def test_each_failure_is_a_sentence(hub: Hub, tmp_path: Path) -> None:
    assert "no model of that name" in refused(tmp_path, hub.url, "show", "owner/none")
    assert "no revision step9" in refused(
        tmp_path, hub.url, "show", "owner/tiny", "--revision", "step9"
    )
    assert "want to be asked" in refused(tmp_path, hub.url, "show", "owner/secret")
    assert "cannot be reached" in refused(tmp_path, "http://127.0.0.1:9", "show", "owner/tiny")


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    said = r"you need huggingface_hub: pip install 'viete\[hub\]'"
    with pytest.raises(vt.VieteError, match=said):
        vt.load("owner/tiny")


def test_paths_go_before_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weights = LLAMA.initial_weights(3, "float32")
    saved(LLAMA, Path("owner/tiny"), weights)
    found = vt.load("owner/tiny").weights["W_E"]
    assert np.array_equal(found, weights["W_E"])
    with pytest.raises(vt.VieteError, match="is a path on this machine, so it has no revision"):
        vt.load("owner/tiny", revision="main")
    with pytest.raises(vt.VieteError, match="there is no such folder"):
        vt.load(Path("owner/other"))
    for name in ("./owner/x", "a/b/c", "../x", "a//b", "x/..", "-a/b", "a/b.git", "a" * 100):
        assert not is_id(name)
        with pytest.raises(vt.VieteError, match=r"there is no such folder|File name too long"):
            vt.load(name)
    assert is_id("gpt2") and is_id("EleutherAI/pythia-70m-deduped")


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (["model.safetensors", "pytorch_model.bin", "flax_model.msgpack"], ["model.safetensors"]),
        (["pytorch_model.bin", "tf_model.h5", "rust_model.ot"], ["pytorch_model.bin"]),
        (
            ["model.safetensors.index.json", "model-00001-of-00002.safetensors",
             "model-00002-of-00002.safetensors", "consolidated.safetensors",
             "model.fp16-00001-of-00002.safetensors", "pytorch_model-00001-of-00002.bin"],
            ["model.safetensors.index.json", "model-00001-of-00002.safetensors",
             "model-00002-of-00002.safetensors"],
        ),
        (
            ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin", "a.bin"],
            ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin"],
        ),
        (["tf_model.h5"], []),
    ],
)  # fmt: skip
def test_what_is_fetched(there: list[str], wanted: list[str]) -> None:
    assert weights_in(there) == wanted
