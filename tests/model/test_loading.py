"""Weights on their way from files into memory: how much of it, how many bits, whose they are."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import viete as vt
from tests.model.released import saved
from viete.formats import tensors
from viete.formats.files import open_tensors, save_safetensors
from viete.model.folder import open_card, open_folder
from viete.model.mapping import place, precision, to_checkpoint

ROOT = Path(vt.__file__).parents[1]
LLAMA = vt.read("llama").bind(V=40, d=16, N=3, H=4, d_f=24, n_max=32)
W = LLAMA.initial_weights(0, "float32")


def written(folder: Path, card: vt.Card = LLAMA, weights: dict | None = None) -> Path:
    return saved(card, folder, W if weights is None else weights)


def sharded(folder: Path, count: int = 3) -> Path:
    """The same with its tensors in several files."""
    written(folder)
    arrays = open_tensors(folder / "model.safetensors").load_all()
    places = {}
    for k, name in enumerate(arrays):
        places[name] = f"model-{k % count + 1:05}-of-{count:05}.safetensors"
    for file in set(places.values()):
        save_safetensors(folder / file, {n: arrays[n] for n in arrays if places[n] == file})
    (folder / "model.safetensors").unlink()
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


# -- memory and time -------------------------------------------------------------------------------

MEASURE = """
import sys, resource
import viete as vt, numpy as np, viete.nouns.model
{imports}
def most():
    with open("/proc/self/status") as f:
        return next(int(x.split()[1]) * 1024 for x in f if x.startswith("VmHWM"))
with open("/proc/self/clear_refs", "w") as f:
    f.write("5")                                   # the greatest is now what there is
before = most()
model = vt.load({folder!r}, {options})
weights = model.weights
for w in weights.values():
    w.sum()                                        # every number is read
size = sum(int(np.prod(w.shape)) * w.dtype.itemsize for w in weights.values())
print((most() - before) / size)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of 240 MB, of which the two embeddings are the half."""
    card = LLAMA.bind(V=14000, d=1024, N=2, H=8, d_f=4096)
    shapes = card.parameter_shapes
    rng = np.random.default_rng(0)
    weights = {n: rng.standard_normal(s, np.float32) for n, s in shapes.items()}
    return written(tmp_path_factory.mktemp("large") / "x", card, weights)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    "options",
    ["", "framework='torch'", "dtype='float64'", "framework='torch', dtype='bfloat16'"],
)
def test_the_most_memory_is_that_of_the_weights(large: Path, options: str) -> None:
    imports = "import torch" if "torch" in options else ""
    if imports:
        pytest.importorskip("torch")
    code = MEASURE.format(folder=str(large), options=options, imports=imports)
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                          timeout=120)  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert float(made.stdout) <= 1.1


def test_of_two_gigabytes_only_the_header_is_read(tmp_path: Path) -> None:
    card = LLAMA.bind(V=32000, d=2048, N=10, H=16, d_f=5504)
    folder = written(tmp_path / "x", LLAMA)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "vocab_size": 32000,
        "hidden_size": 2048,
        "num_hidden_layers": 10,
        "head_dim": 128,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "intermediate_size": 5504,
    }
    (folder / "config.json").write_text(json.dumps(config))
    header, at = {}, 0
    from viete.model.expected import expected_tensors

    for name, e in expected_tensors(card).items():
        size = 4 * int(np.prod(e.shape))
        header[name] = {"dtype": "F32", "shape": e.shape, "data_offsets": (at, at := at + size)}
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    assert at > 2e9
    began = time.process_time()
    model = open_folder(folder).model
    vt.load(folder)
    assert time.process_time() - began < 1
    assert model.sizes["d"] == 2048
    began = time.process_time()
    open_card(folder)
    assert time.process_time() - began < 0.5


# -- whose numbers they are ------------------------------------------------------------------------


def test_shards_are_one_model(tmp_path: Path) -> None:
    found = vt.load(sharded(tmp_path / "x")).weights
    assert found.keys() == W.keys()
    assert all(np.array_equal(found[n], W[n]) for n in W)


def test_a_tensor_is_the_callers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mapped or copied: what is written into it changes neither the file nor its next loading."""
    pytest.importorskip("torch")
    folder = written(tmp_path / "x")
    before = (folder / "model.safetensors").read_bytes()
    for least in (1, 1 << 30):
        monkeypatch.setattr(tensors, "WORTH_MAPPING", least)
        model = vt.load(folder, framework="torch")
        for w in model.weights.values():
            w.fill_(7)
        assert all(np.array_equal(w, W[n]) for n, w in vt.load(folder).weights.items())
        again = vt.load(folder, framework="torch").weights
        assert all(np.array_equal(w.numpy(), W[n]) for n, w in again.items())
        assert (folder / "model.safetensors").read_bytes() == before


def test_a_file_that_is_replaced_is_not_the_one_that_was_opened(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = written(tmp_path / "x")
    model = vt.load(folder, framework="torch")
    others = {n: w + 1 for n, w in W.items()}
    save_safetensors(folder / "model.safetensors", to_checkpoint(LLAMA, others))
    assert all(np.array_equal(w.numpy(), W[n]) for n, w in model.weights.items())
    assert np.array_equal(vt.load(folder).weights["W_E"], others["W_E"])


# -- precision -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("piece", [64, 1 << 24])
def test_a_conversion_is_that_of_pytorch(
    stored: str, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(tensors, "PIECE", piece)
    values = torch.randn(37, 11, generator=torch.Generator().manual_seed(1)) * 1e3
    values = values.to(getattr(torch, stored))
    save_safetensors(tmp_path / "x", {"w": values})
    file = open_tensors(tmp_path / "x")
    for wanted in ("float16", "bfloat16", "float32", "float64"):
        right = values.to(getattr(torch, wanted))
        assert torch.equal(file.load("w", "torch", wanted), right)
        ours = np.asarray(file.load("w", "numpy", wanted)).astype("float64")
        assert np.array_equal(ours, right.double().numpy())


def test_halves_are_computed_in_float32_by_numpy_alone(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    halves = {n: torch.as_tensor(w).bfloat16() for n, w in W.items()}
    folder = written(tmp_path / "x", weights=halves)
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"
    model = vt.load(folder)
    assert {str(w.dtype) for w in model.weights.values()} == {"float32"}
    assert all(np.array_equal(w, halves[n].float().numpy()) for n, w in model.weights.items())
    there = vt.load(folder, framework="torch").weights
    assert all(torch.equal(w, halves[n]) for n, w in there.items())
    pytest.importorskip("ml_dtypes")
    insisted = vt.load(folder, dtype="bfloat16")
    assert {str(w.dtype) for w in insisted.weights.values()} == {"bfloat16"}
    a, b = (np.asarray(m.run([1, 2, 3])["logits"], "float32") for m in (model, insisted))
    assert np.abs(a - b).max() < 0.05 * np.abs(a).max()


def test_of_several_dtypes_the_widest_is_that_of_all(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    folder = written(tmp_path / "x")
    arrays = open_tensors(folder / "model.safetensors").load_all("torch")
    mixed = {n: a if "norm" in n else a.half() for n, a in arrays.items()}
    save_safetensors(folder / "model.safetensors", mixed)
    model = vt.load(folder, framework="torch")
    assert {w.dtype for w in model.weights.values()} == {torch.float32}
    assert model.run([1, 2, 3])["logits"].dtype == torch.float32
    file = open_tensors(folder / "model.safetensors")
    assert precision(file, "torch") == precision(file, "numpy") == "float32"


def test_devices(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    folder = written(tmp_path / "x")
    model = vt.load(folder, device="cpu", dtype="float64")
    assert model.framework == "torch"
    assert {(w.dtype, str(w.device)) for w in model.weights.values()} == {(torch.float64, "cpu")}
    file = model.tensors
    with patch.object(torch.cuda, "is_available", lambda: False):
        assert place("auto", file, None) == "cpu"
    room = {0: (100_000, 1), 1: (200_000, 1)}
    with (
        patch.object(torch.cuda, "is_available", lambda: True),
        patch.object(torch.cuda, "device_count", lambda: 2),
        patch.object(torch.cuda, "mem_get_info", room.__getitem__),
    ):
        assert place("auto", file, "float32") == "cuda:1"
        room[1] = (1000, 1)
        room[0] = (1001, 1)
        assert place("auto", file, "float32") == "cpu"
    for wrong in ("cuda:99", "gpu", "fridge"):
        with pytest.raises(vt.VieteError, match="PyTorch cannot use the device"):
            vt.load(folder, device=wrong)
    for options in ({"dtype": "int8"}, {"dtype": "half"}, {"framework": "jax"}):
        with pytest.raises(vt.VieteError, match=r"use float16|say 'numpy'"):
            vt.load(folder, **options)


# -- what fits and what does not -------------------------------------------------------------------


def test_weights_are_checked_once(tmp_path: Path) -> None:
    model = vt.load(written(tmp_path / "x"))
    model.run([1, 2])
    assert model.weights.checked
    with patch("viete.evaluate.inputs.check_each") as check:
        model.run([1, 2])
        assert not check.called
    model.weights["W_E"] = np.full_like(W["W_E"], np.nan)
    with pytest.raises(vt.VieteError, match="W_E holds a value that is not a finite number"):
        model.run([1, 2])


def test_tied_and_missing_unembeddings(tmp_path: Path) -> None:
    """A copy of a tied tensor is passed over; another tensor, and a missing one, are named."""
    folder = written(tmp_path / "x")
    config = json.loads((folder / "config.json").read_text())
    arrays = open_tensors(folder / "model.safetensors").load_all()
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    with pytest.raises(vt.VieteError, match=r"unused: lm_head\.weight \(40 × 16\)"):
        _ = vt.load(folder).weights
    tied = {"lm_head.weight": arrays["model.embed_tokens.weight"]}
    save_safetensors(folder / "model.safetensors", arrays | tied)
    assert "W_U" not in vt.load(folder).weights
    (folder / "config.json").write_text(json.dumps(config))
    del arrays["lm_head.weight"]
    save_safetensors(folder / "model.safetensors", arrays)
    said = r"missing: lm_head\.weight \(40 × 16\), which holds W_U"
    with pytest.raises(vt.VieteError, match=said):
        _ = vt.load(folder).weights
