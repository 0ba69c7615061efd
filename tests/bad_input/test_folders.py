"""Hostile folders of released models: one sentence each, nothing executed, nothing written."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.model.released import saved
from viete.formats.files import open_tensors, save_safetensors
from viete.model.mapping import to_checkpoint

CARD = vt.read("llama").bind(V=10, d=8, N=2, H=2, d_f=6, n_max=8)
TENSORS = to_checkpoint(CARD, CARD.initial_weights(0, "float32"))
WEIGHTS, INDEX, BIN = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
NORM = "model.norm.weight"


class Fires:
    """Unpickled by plain pickle, it writes a file."""

    def __reduce__(self) -> Any:
        return os.system, ("touch fired",)


def config(**changed: Any) -> Callable[[Path], None]:
    """A config with other values."""

    def go(folder: Path) -> None:
        said = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**said, **changed}))

    return go


def text(content: str | bytes) -> Callable[[Path], None]:
    """Another config.json."""

    def go(folder: Path) -> None:
        content_ = content if isinstance(content, bytes) else content.encode()
        (folder / "config.json").write_bytes(content_)

    return go


def tensors(**changed: Any) -> Callable[[Path], None]:
    """Other tensors; None takes one away."""

    def go(folder: Path) -> None:
        new = {**TENSORS, **{k.replace("__", "."): v for k, v in changed.items()}}
        save_safetensors(folder / WEIGHTS, {k: v for k, v in new.items() if v is not None})

    return go


def shards(place: str | dict[str, Any], **extra: Any) -> Callable[[Path], None]:
    """An index that puts the norm in this place."""

    def go(folder: Path) -> None:
        names = list(TENSORS)
        places: dict[str, Any] = {n: SHARDS[k % 2] for k, n in enumerate(names)}
        for shard in SHARDS:
            save_safetensors(folder / shard, {n: TENSORS[n] for n in names if places[n] == shard})
        (folder / WEIGHTS).rename(folder.parent / "outside.safetensors")
        places |= place if isinstance(place, dict) else {NORM: place}
        index = {"metadata": {}, "weight_map": places, **extra}
        (folder / INDEX).write_text(json.dumps(index))

    return go


def link(name: str, to: str) -> Callable[[Path], None]:
    """The norm's shard is a symbolic link."""

    def go(folder: Path) -> None:
        shards(name)(folder)
        (folder / name).symlink_to(to.format(folder=folder))

    return go


def header(change: Callable[[dict[str, Any]], Any], data: int = 0) -> Callable[[Path], None]:
    """A safetensors header that lies, and more or less data than there was."""

    def go(folder: Path) -> None:
        raw = (folder / WEIGHTS).read_bytes()
        length = int.from_bytes(raw[:8], "little")
        table = json.loads(raw[8 : 8 + length])
        made = change(table)
        new = json.dumps(table if made is None else made).encode()
        body = raw[8 + length :]
        body = body + bytes(data) if data >= 0 else body[:data]
        (folder / WEIGHTS).write_bytes(len(new).to_bytes(8, "little") + new + body)

    return go


def pickled(what: Any) -> Callable[[Path], None]:
    """Pickled weights in place of safetensors."""

    def go(folder: Path) -> None:
        (folder / WEIGHTS).unlink()
        (folder / BIN).write_bytes(pickle.dumps(what))

    return go


def pipe(name: str) -> Callable[[Path], None]:
    """A named pipe, which a careless reader waits at for ever."""

    def go(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return go


def sized(name: str, size: int) -> Callable[[Path], None]:
    def go(folder: Path) -> None:
        with open(folder / name, "wb") as file:
            file.truncate(size)

    return go


def deep(levels: int) -> Callable[[Path], None]:
    """A config with an object in an object in an object."""

    def go(folder: Path) -> None:
        said = (folder / "config.json").read_text().rstrip().removesuffix("}")
        nested = '{"a": ' * levels + "1" + "}" * levels
        (folder / "config.json").write_text(f'{said}, "a": {nested}}}')

    return go


# fmt: off
CASES: list[tuple[str, Callable[[Path], None], str]] = [
    # what says of the model what it is
    ("no config", lambda f: (f / "config.json").unlink(), "it has no model_type"),
    ("an empty config", text(""), "is not JSON"),
    ("a config that is a list", text("[1, 2]"), "holds no JSON object"),
    ("a config of bytes", text(b'{"a": "\xff\xfe"}'), "is not JSON"),
    ("a config of 17 MB", sized("config.json", 17_000_000), "at most 16,000,000 are read"),
    ("a config of 10 GB", sized("config.json", 10**10), "at most 16,000,000 are read"),
    ("a deep config", deep(900), "is nested more than 50 deep"),
    ("a deeper config", deep(100_000), "is not JSON"),
    ("a number of 5000 digits", text('{"model_type": ' + "9" * 5000 + "}"), "is not JSON"),
    ("a config that is a pipe", pipe("config.json"), "it has no model_type"),
    ("another family", config(model_type="gpt5"), "its model_type is gpt5, and there are cards"),
    ("a family that is a list", config(model_type=["llama"]), "there are cards for"),
    ("a family that is a path", config(model_type="../../etc/passwd"), "there are cards for"),
    ("a family that is an object", config(model_type={"a": 1}), "there are cards for"),
    ("an unknown key", config(secret_sauce=3), "secret_sauce is 3"),
    ("an unknown activation", config(hidden_act="swish9"), "hidden_act is swish9"),
    ("an activation that is a number", config(hidden_act=7), "hidden_act is 7"),
    ("no width", config(hidden_size=None), "hidden_size is missing"),
    ("a width of text", config(hidden_size="8"), "must be a number"),
    ("a width of truth", config(hidden_size=True), "must be a number"),
    ("a negative width", config(hidden_size=-8), "hidden_size"),
    ("no width at all", config(hidden_size=0), "0"),
    ("a width of 10^30", config(hidden_size=10**30), "which no file can hold"),
    ("a width of infinity", text('{"model_type": "llama", "hidden_size": 1e999}'),
     "must be a number"),
    ("a width of nan", text('{"model_type": "llama", "hidden_size": NaN}'), "must be a number"),
    ("half a head", config(num_attention_heads=2.5), "5/2"),
    ("no heads", config(num_attention_heads=0), "0"),
    ("heads that do not divide", config(num_attention_heads=3, head_dim=None), "d_k"),
    ("a billion blocks", config(num_hidden_layers=10**9), "blocks"),
    ("minus one block", config(num_hidden_layers=-1), "blocks"),
    ("another number of blocks", config(num_hidden_layers=3), "missing: model.layers.2."),
    ("fewer blocks", config(num_hidden_layers=1), "unused: model.layers.1."),
    ("rotation of another kind", config(rope_parameters={"rope_type": "evil"}),
     "rope_type is evil"),
    ("rotation that is a list", config(rope_parameters=[1, 2]), "rope_parameters"),
    ("quantised weights", config(quantization_config={"bits": 4}), "quantization_config.bits is 4"),
    # where the tensors are
    ("no weights", lambda f: (f / WEIGHTS).unlink(), "the folder has no weights"),
    ("weights that are a pipe", pipe(WEIGHTS), "the folder has no weights"),
    ("weights that are a folder", lambda f: ((f / WEIGHTS).unlink(), (f / WEIGHTS).mkdir()),
     "the folder has no weights"),
    ("a part one level up", shards("../outside.safetensors"), "outside of its own folder"),
    ("a part by a way round", shards("a/../../outside.safetensors"), "outside of its own folder"),
    ("a part from the root", shards("/etc/passwd"), "outside of its own folder"),
    ("a part of Windows", shards("..\\outside.safetensors"), "a part is a file in the same folder"),
    ("a part with a drive", shards("C:outside.safetensors"), "a part is a file in the same folder"),
    ("a part with a zero byte", shards("a\0b"), "a part is a file in the same folder"),
    ("a part without a name", shards(""), "a part is a file in the same folder"),
    ("a part that is a number", shards({NORM: 7}), "a part is a file in the same folder"),
    ("a part that is gone", shards("model-00009-of-00009.safetensors"), "cannot be read (No such"),
    ("a part that is the index", shards(INDEX), "is an index, and another index names it"),
    ("a part that is the config", shards("config.json"), "config.json"),
    ("a link out of the folder", link("x.safetensors", "{folder}/../outside.safetensors"),
     "outside of its own folder"),
    ("a link to the system", link("x.safetensors", "/etc/passwd"), "outside of its own folder"),
    ("a link to itself", link("x.safetensors", "x.safetensors"), "x.safetensors"),
    ("a tensor that its part lacks", shards({"model.ghost.weight": SHARDS[0]}), "which lacks it"),
    ("a tensor in the wrong part", shards({NORM: SHARDS[0], "lm_head.weight": SHARDS[1]}),
     "lacks it"),
    ("an index without a map", shards({}, weight_map=[1]), "without a 'weight_map'"),
    ("an index of depth", lambda f: (f / INDEX).write_text('{"weight_map":' * 50_000), "JSON"),
    # what is in them
    ("weights cut off", header(lambda t: None, -9), "its tensors end at byte"),
    ("weights with more behind", header(lambda t: None, 9), "its tensors end at byte"),
    ("a tensor over another", header(lambda t: t[NORM].update(data_offsets=[0, 32])),
     "starts at byte"),
    ("a tensor out of the file", header(lambda t: t[NORM].update(data_offsets=[2**40, 2**40 + 32])),
     "starts at byte"),
    ("a tensor of negative place", header(lambda t: t[NORM].update(data_offsets=[-32, 0])),
     "cannot fill"),
    ("a shape that lies", header(lambda t: t[NORM].update(shape=[2**62, 4])), "impossible shape"),
    ("a shape of halves", header(lambda t: t[NORM].update(shape=[1.5])), "impossible shape"),
    ("a dtype of its own", header(lambda t: t[NORM].update(dtype="F999")), "dtype is unknown"),
    ("a header that is a list", header(lambda t: [1]), "its header"),
    ("a missing tensor", tensors(model__norm__weight=None),
     "missing: model.norm.weight (8), which holds gamma"),
    ("a tensor too many", tensors(backdoor=np.ones(3, "f4")), "unused: backdoor (3)"),
    ("a transposed tensor", tensors(lm_head__weight=np.ones((8, 10), "f4")),
     "misshaped: lm_head.weight is 8 × 10, and the card says 10 × 8"),
    ("whole numbers", tensors(model__norm__weight=np.ones(8, "i4")), "is int32"),
    ("nan among the weights", tensors(model__norm__weight=np.full(8, np.nan, "f4")),
     "gamma holds a value that is not a finite number"),
    ("a pickle that fires", pickled({"a": Fires()}), "cannot be read as PyTorch: it holds"),
    ("a pickle of eval", pickled(Fires), "cannot be read as PyTorch: it holds"),
    ("a pickle of depth", lambda f: (
        (f / WEIGHTS).unlink(), (f / BIN).write_bytes(b"\x80\x02" + b"]" * 10**5)),
     "cannot be read as PyTorch"),
    ("an index to a pickle that fires", lambda f: (
        shards("evil.bin")(f), (f / "evil.bin").write_bytes(pickle.dumps(Fires()))),
     "cannot be read as PyTorch: it holds"),
    ("a Git LFS pointer", lambda f: (f / WEIGHTS).write_text("version https://git-lfs.github.com/"),
     "run git lfs pull"),
]
# fmt: on


@pytest.mark.parametrize(("change", "words"), [pytest.param(*c, id=i) for i, *c in CASES])
def test_folder(change: Any, words: str, tmp_path: Path, refused: Any) -> None:
    pytest.importorskip("torch")  # reads pickles
    folder = saved(CARD, tmp_path / "model", CARD.initial_weights(0, "float32"))
    change(folder)
    said = refused("run", "model", "-t", "1,2", "--show", "logits")
    assert words in said
    assert len(said) < 4000
    assert not list(tmp_path.rglob("fired"))


def test_every_misfit_is_listed(tmp_path: Path, refused: Any) -> None:
    folder = saved(CARD, tmp_path / "model", CARD.initial_weights(0, "float32"))
    odd = {k: v for k, v in TENSORS.items() if k != NORM}
    odd |= {"a": np.ones(2, "f4"), "lm_head.weight": np.ones((3, 3), "f4")}
    save_safetensors(folder / WEIGHTS, odd)
    said = refused("run", "model", "-t", "1,2")
    for line in ("missing: model.norm.weight (8), which holds gamma", "unused: a (2)",
                 "misshaped: lm_head.weight is 3 × 3, and the card says 10 × 8"):  # fmt: skip
        assert line in said


def test_the_cache_of_the_hub_is_made_of_links(tmp_path: Path) -> None:
    """Its snapshots link to files beside them: links that are allowed."""
    made = saved(CARD, tmp_path / "made", CARD.initial_weights(0, "float32"))
    shards(SHARDS[0], weight_map=None)(made)
    names = list(TENSORS)
    index = {"weight_map": {n: SHARDS[k % 2] for k, n in enumerate(names)}}
    (made / INDEX).write_text(json.dumps(index))
    cache, blobs = tmp_path / "models--a--b/snapshots/c0ffee", tmp_path / "models--a--b/blobs"
    cache.mkdir(parents=True)
    blobs.mkdir()
    for k, path in enumerate(sorted(made.iterdir())):
        path.rename(blobs / f"{k:040x}")
        (cache / path.name).symlink_to(f"../../blobs/{k:040x}")
    assert len(open_tensors(cache / INDEX).infos) == len(TENSORS)
    assert vt.load(cache).run([1, 2])["logits"].shape == (2, 10)
