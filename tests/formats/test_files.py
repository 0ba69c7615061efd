"""What is written by the official libraries is read bit for bit; what is damaged is said so."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
import warnings
import weakref
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from viete.errors import VieteError
from viete.formats.files import TensorInfo, open_tensors, save_safetensors

ml_dtypes = pytest.importorskip("ml_dtypes")
torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
gguf = pytest.importorskip("gguf")
library = pytest.importorskip("safetensors.numpy")
library_torch = pytest.importorskip("safetensors.torch")

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# Writers ----------------------------------------------------------------------------------------


def to_npz(arrays: dict[str, Any], save: Callable[..., None] = np.savez) -> bytes:
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


def to_npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def to_torch(tree: Any, zipped: bool = True) -> bytes:
    buffer = io.BytesIO()
    torch.save(tree, buffer, _use_new_zipfile_serialization=zipped)
    return buffer.getvalue()


def state_dict(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def to_onnx(protos: list[Any]) -> bytes:
    return onnx.helper.make_model(
        onnx.helper.make_graph([], "g", [], [], protos)
    ).SerializeToString()


def initialisers(arrays: dict[str, Any]) -> list[Any]:
    return [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]


def typed_initialisers(arrays: dict[str, Any]) -> list[Any]:
    return [
        onnx.helper.make_tensor(
            name, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.reshape(-1).tolist()
        )
        for name, a in arrays.items()
    ]


def to_gguf(path: Path, arrays: dict[str, Any], **kinds: Any) -> bytes:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokens", ["a", "b", "é"])
    writer.add_array("scores", [0.5, 1.5])
    writer.add_uint32("layers", 4)
    for name, array in arrays.items():
        writer.add_tensor(name, array, raw_dtype=kinds.get(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


ARRAYS = {
    "a": np.arange(12, dtype="f4").reshape(3, 4) / 7,
    "b": np.arange(6, dtype="i8").reshape(2, 3),
    "c": np.array(True),
    "e": np.zeros((0, 5), "f2"),
}


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A good file of each kind."""
    folder = tmp_path_factory.mktemp("seeds")
    q8 = gguf.GGMLQuantizationType.Q8_0
    blocks = {"a": ARRAYS["a"], "q": gguf.quants.quantize(np.ones((2, 64), "f4"), q8)}
    return {
        "safetensors": library.save(ARRAYS, {"k": "v"}),
        "npz": to_npz(ARRAYS),
        "deflated npz": to_npz(ARRAYS, np.savez_compressed),
        "npy": to_npy(ARRAYS["a"].T),
        "torch": to_torch(state_dict(ARRAYS)),
        "old torch": to_torch(state_dict(ARRAYS), zipped=False),
        "onnx": to_onnx(initialisers(ARRAYS)),
        "typed onnx": to_onnx(typed_initialisers({"a": ARRAYS["a"], "b": ARRAYS["b"]})),
        "gguf": to_gguf(folder / "x", blocks, q=q8),
    }


# Good files ---------------------------------------------------------------------------------------

PLAIN = "bool i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8".split()


@st.composite
def arrays(draw: st.DrawFn, dtypes: list[str] = PLAIN, least: int = 0) -> dict[str, Any]:
    """Tensors of any bits, NaNs among them."""
    names = st.text(st.characters(codec="utf-8", exclude_characters="\0/\\:"), min_size=1)
    found = {}
    for name in draw(st.lists(names.filter(lambda n: n != "file"), max_size=3, unique=True)):
        dtype = np.dtype(draw(st.sampled_from(dtypes)))
        shape = tuple(draw(st.lists(st.integers(least, 4), min_size=least, max_size=4)))
        size = int(np.prod(shape)) * dtype.itemsize
        raw = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
        found[name] = (raw % 2 == 1 if dtype.kind == "b" else raw.view(dtype)).reshape(shape)
    return found


def same(left: Any, right: Any) -> bool:
    """The same bits: NaN equals itself, and 0 does not equal -0."""
    left, right = np.asarray(left), np.asarray(right)
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


def agrees(path: Path, content: bytes, expected: dict[str, Any]) -> bool:
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file = open_tensors(path)
        mine, theirs = file.load_all(), file.load_all("torch")
    infos = {n: TensorInfo(n, a.shape, a.dtype.name) for n, a in expected.items()}
    return (
        file.infos == infos
        and all(same(mine[n], a) for n, a in expected.items())
        and all(same(theirs[n].numpy(), a) for n, a in expected.items())
        and not any(a.flags.writeable for a in mine.values())
    )


@quick
@given(arrays())
def test_every_format_gives_back_the_bits(tmp_path: Path, tensors: dict[str, Any]) -> None:
    file = tmp_path / "x"
    assert agrees(file, library.save(tensors), tensors)
    assert agrees(file, to_torch(state_dict(tensors)), tensors)
    # PyTorch's old format cannot hold its newer dtypes.
    old = {n: a for n, a in tensors.items() if a.dtype.kind != "u" or a.itemsize == 1}
    assert agrees(file, to_torch(state_dict(old), zipped=False), old)
    assert agrees(file, to_onnx(initialisers(tensors)), tensors)
    # NumPy itself takes a name that ends so for a file name.
    plain = {n: a for n, a in tensors.items() if not n.endswith(".npy")}
    if len({zipfile.ZipInfo(n).filename for n in plain}) == len(plain):
        assert agrees(file, to_npz(plain), plain)
        assert agrees(file, to_npz(plain, np.savez_compressed), plain)
    for array in tensors.values():
        assert agrees(file, to_npy(array), {"arr_0": array})
        assert agrees(file, to_npy(np.asarray(array, order="F")), {"arr_0": array})
        swapped = array.astype(array.dtype.newbyteorder(">"))
        assert agrees(file, to_npy(swapped), {"arr_0": array})


@quick
@given(arrays("i1 i2 i4 i8 f2 f4 f8".split(), least=1))
def test_gguf_gives_back_the_bits(tmp_path: Path, tensors: dict[str, Any]) -> None:
    assert agrees(tmp_path / "y", to_gguf(tmp_path / "x", tensors), tensors)


@quick
@given(arrays())
def test_we_write_what_the_library_writes(tmp_path: Path, tensors: dict[str, Any]) -> None:
    file = tmp_path / "x"
    save_safetensors(file, tensors, {"é": "\n"})
    assert file.read_bytes() == library.save(tensors, {"é": "\n"})
    save_safetensors(file, state_dict(tensors))
    assert file.read_bytes() == library_torch.save(state_dict(tensors))


def test_arrays_are_written_as_they_come(tmp_path: Path) -> None:
    """What has a shape and a dtype gives its numbers when it is its turn, and is let go."""
    alive: list[weakref.ref[Any]] = []

    class Coming:
        shape, dtype = (2, 3), np.dtype("float32")

        def __init__(self, value: int) -> None:
            self.value = value

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            assert all(a() is None for a in alive)
            array = np.full(self.shape, self.value, self.dtype)
            alive.append(weakref.ref(array))
            return array

    names = {"b": 1, "a": 2, "c": 3}
    save_safetensors(tmp_path / "x", {name: Coming(k) for name, k in names.items()})
    whole = {name: np.full((2, 3), k, np.float32) for name, k in names.items()}
    assert (tmp_path / "x").read_bytes() == library.save(whole) and len(alive) == 3


SMALL_FLOATS = "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"


@pytest.mark.parametrize("dtype", SMALL_FLOATS.split())
def test_the_floats_that_numpy_lacks(tmp_path: Path, dtype: str) -> None:
    file, size = tmp_path / "x", 2 if dtype == "bfloat16" else 1
    bits = torch.arange(256, dtype=torch.uint8).repeat(size).view(getattr(torch, dtype))
    expected = bits.reshape(16, 16).view(torch.uint8).numpy()
    save_safetensors(file, {"w": bits.reshape(16, 16)})
    assert file.read_bytes() == library_torch.save({"w": bits.reshape(16, 16)})
    for content in (file.read_bytes(), to_torch({"w": bits.reshape(16, 16)})):
        file.write_bytes(content)
        opened = open_tensors(file)
        assert opened.infos["w"] == TensorInfo("w", (16, 16), dtype)
        assert opened.load("w").dtype == getattr(ml_dtypes, dtype)
        assert same(opened.load("w").view(np.uint8), expected)
        assert same(opened.load("w", "torch").view(torch.uint8).numpy(), expected)
        save_safetensors(file, opened.load_all())  # over the mapped file itself
        assert same(open_tensors(file).load("w").view(np.uint8), expected)


def test_bfloat16_widens_exactly_without_ml_dtypes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = torch.arange(2**16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    save_safetensors(tmp_path / "x", {"w": every, "v": every[:4].to(torch.float8_e5m2)})
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    file = open_tensors(tmp_path / "x")
    expected = np.arange(2**16, dtype=np.uint32) << 16
    assert same(file.load("w").view(np.uint32), expected)
    with pytest.raises(VieteError, match="pip install ml_dtypes"):
        file.load("v")


def test_a_bool_that_is_neither_0_nor_1_is_true(tmp_path: Path) -> None:
    content = bytearray(library.save({"w": np.array([True, False])}))
    content[-2] = 7
    (tmp_path / "x").write_bytes(content)
    assert open_tensors(tmp_path / "x").load("w").astype(int).tolist() == [1, 0]


def test_a_torch_tensor_is_your_own_and_a_numpy_array_is_mapped(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "x", {"w": np.zeros(3)})
    file = open_tensors(tmp_path / "x")
    file.load("w", "torch").fill_(9)
    assert file.load("w").tolist() == [0, 0, 0]
    assert not file.load("w").flags.owndata
    assert repr(file) == "<x: safetensors, 1 tensors, 3 numbers>"


@pytest.mark.parametrize(
    "kind", ["Q4_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K", "IQ4_NL", "BF16", "TQ2_0"]
)
def test_gguf_blocks_load_as_the_gguf_package_reads_them(tmp_path: Path, kind: str) -> None:
    code = gguf.GGMLQuantizationType[kind]
    block, width = gguf.GGML_QUANT_SIZES[code]
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 60, (3, 512 // block * width), dtype=np.uint8)
    to_gguf(tmp_path / "x", {"w": raw, "v": np.ones((2, 3, 5), "f4")}, w=code)
    file, theirs = open_tensors(tmp_path / "x"), gguf.GGUFReader(tmp_path / "x").tensors
    name = "bfloat16" if kind == "BF16" else kind
    assert file.infos["w"] == TensorInfo("w", (3, 512), name)
    assert file.infos["v"].shape == (2, 3, 5)
    expected = gguf.quants.dequantize(theirs[0].data, code)
    assert np.array_equal(file.load("w").astype("f4"), expected, equal_nan=True)
    assert np.array_equal(file.load("w", "torch").float().numpy(), expected, equal_nan=True)
    assert file.metadata["tokens"] == ["a", "b", "é"]
    assert file.metadata["scores"] == [0.5, 1.5]
    assert file.metadata["layers"] == 4


# Checkpoints of PyTorch -----------------------------------------------------------------------


def test_a_training_checkpoint_is_its_weights(tmp_path: Path) -> None:
    weights = {"h": {"0": torch.ones(2)}, "tied": torch.nn.Parameter(torch.zeros(3)).t()}
    for wrapper in ("state_dict", "model", "model_state_dict"):
        moments = {"state": {0: {"exp_avg": torch.ones(9)}}}
        content = to_torch({wrapper: weights, "optimizer": moments, "step": 3})
        (tmp_path / "x").write_bytes(content)
        file = open_tensors(tmp_path / "x")
        assert {n: i.shape for n, i in file.infos.items()} == {"h.0": (2,), "tied": (3,)}
        assert set(file.refused) == {"optimizer", "step"}
        with pytest.raises(VieteError, match="beside the weights, which are in"):
            file.load("optimizer")


def test_nested_tables_and_lists_flatten(tmp_path: Path) -> None:
    tree = {
        "layers": [{"W": torch.ones(1)}, {"W": torch.ones(2)}],
        "config": {"n": 3, "sizes": [1, 2]},
        "sparse": torch.eye(2).to_sparse(),
        "much of little": torch.zeros(1).expand(10**9),
    }
    (tmp_path / "x").write_bytes(to_torch(tree))
    file = open_tensors(tmp_path / "x")
    assert list(file.infos) == ["layers.0.W", "layers.1.W"]
    assert set(file.refused) == {"config.n", "config.sizes", "sparse", "much of little"}
    (tmp_path / "x").write_bytes(to_torch(torch.ones(2)))
    assert list(open_tensors(tmp_path / "x").infos) == ["arr_0"]
    (tmp_path / "x").write_bytes(to_torch({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}))
    with pytest.raises(VieteError, match=r"holds the name 'a\.b' twice"):
        open_tensors(tmp_path / "x")


class Trap:
    """Runs when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("trapped",)


@pytest.mark.parametrize("how", ["torch", "old torch", "pickle", "npy", "npz"])
def test_no_pickle_is_ever_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.chdir(tmp_path)
    trap = np.array([Trap()], dtype=object)
    content = {
        "torch": lambda: to_torch({"w": Trap()}),
        "old torch": lambda: to_torch({"w": Trap()}, zipped=False),
        "pickle": lambda: pickle.dumps({"w": Trap()}),
        "npy": lambda: to_npy(trap),
        "npz": lambda: to_npz({"arr_0": trap}),
    }[how]()
    Path("x").write_bytes(content)
    with pytest.raises(VieteError, match=r"pickle|never|save the model's state_dict|corrupt"):
        open_tensors("x").load("arr_0")
    assert not Path("trapped").exists()


@pytest.mark.parametrize("suffix", ["", ".safetensors", ".onnx", ".pt", ".npz", ".gguf"])
def test_the_content_tells_the_format(tmp_path: Path, seeds: dict[str, bytes], suffix: str) -> None:
    for kind, content in seeds.items():
        path = tmp_path / f"x{suffix}"
        path.write_bytes(content)
        assert open_tensors(path).format.lower().removeprefix("py") in kind
        assert open_tensors(path).load_all()


def test_a_whole_module_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(to_torch(torch.nn.Linear(2, 2)))
    with pytest.raises(VieteError, match=r"\(torch\.nn\.\S+Linear\); save the model's state_dict"):
        open_tensors(tmp_path / "x")


@pytest.mark.parametrize(("kind", "package"), [("torch",) * 2, ("onnx",) * 2, ("gguf",) * 2])
def test_a_missing_package_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seeds: dict[str, bytes],
    kind: str,
    package: str,
) -> None:
    for name in [m for m in sys.modules if m.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "x").write_bytes(seeds[kind])
    with pytest.raises(VieteError, match=rf"pip install viete\[{package}\]"):
        open_tensors(tmp_path / "x")


def test_an_old_torch_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: dict[str, bytes]
) -> None:
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    (tmp_path / "x").write_bytes(seeds["torch"])
    with pytest.raises(VieteError, match="CVE-2025-32434"):
        open_tensors(tmp_path / "x")


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "x", ARRAYS)
    code = (
        "import sys; from viete.formats.files import *; f = open_tensors(sys.argv[1]);"
        "f.load_all(); save_safetensors(sys.argv[1], f.load_all());"
        "print({'torch', 'onnx', 'gguf', 'safetensors', 'jax'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")], capture_output=True, text=True
    )
    assert done.stdout == "set()\n", done.stderr


# Parts ----------------------------------------------------------------------------------------


def sharded(folder: Path, places: Any) -> Path:
    save_safetensors(folder / "1.safetensors", {"a": np.ones(2)})
    save_safetensors(folder / "2.safetensors", {"b": np.zeros(3), "extra": np.zeros(1)})
    (folder / "m.safetensors.index.json").write_text(
        places if isinstance(places, str) else json.dumps({"weight_map": places})
    )
    return folder / "m.safetensors.index.json"


def test_an_index_is_its_parts(tmp_path: Path) -> None:
    index = sharded(tmp_path, {"b": "2.safetensors", "a": "1.safetensors"})
    file = open_tensors(index)
    assert {n: a.tolist() for n, a in file.load_all().items()} == {"b": [0] * 3, "a": [1, 1]}
    # The Hugging Face cache: a folder of links into another one.
    (tmp_path / "snapshot").mkdir()
    for part in tmp_path.glob("*.safetensors*"):
        (tmp_path / "snapshot" / part.name).symlink_to(part)
    assert open_tensors(tmp_path / "snapshot" / index.name).infos == file.infos


@pytest.mark.parametrize(
    ("places", "says"),
    [
        ({"a": "../1.safetensors"}, "outside of its own folder"),
        ({"a": "sub/../../1.safetensors"}, "outside of its own folder"),
        ({"a": "/etc/passwd"}, "outside of its own folder"),
        ({"a": "C:\\x"}, "a part is a file in the same folder"),
        ({"a": "a\0b"}, "a part is a file in the same folder"),
        ({"a": ""}, "a part is a file in the same folder"),
        ({"a": 3}, "a part is a file in the same folder"),
        ({"a": "link.safetensors"}, "outside of its own folder"),
        ({"a": "missing.safetensors"}, r"missing\.safetensors: cannot be read \(No such file"),
        ({"c": "1.safetensors"}, r"places tensor 'c' in 1\.safetensors, which lacks it"),
        ({"a": "m.safetensors.index.json"}, "another index names it as a part"),
        ({"a": "."}, "outside of its own folder|is a folder"),
        ([], "without a 'weight_map'"),
        ('{"weight_map": {"a": "1.safetensors", "a": "1.safetensors"}}', "the name 'a' twice"),
        ('{"a": 3', "not a JSON table"),
        ('{"a":' * 100_000, "not a JSON table"),
        ('{"weight_map": {"\\ud800": "1.safetensors"}}', "cannot be read as an index"),
    ],
)
def test_a_bad_index_is_refused(tmp_path: Path, places: Any, says: str) -> None:
    (tmp_path / "in").mkdir()
    save_safetensors(tmp_path / "1.safetensors", {"a": np.ones(2)})
    (tmp_path / "in" / "link.safetensors").symlink_to(tmp_path / "1.safetensors")
    with pytest.raises(VieteError, match=says):
        open_tensors(sharded(tmp_path / "in", places))


def external(location: str, **where: int) -> bytes:
    proto = onnx.TensorProto(name="w", dims=[2], data_type=onnx.TensorProto.FLOAT)
    proto.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **where}.items():
        proto.external_data.add(key=key, value=str(value))
    return to_onnx([proto])


def test_onnx_data_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "x.data").write_bytes(b"...." + np.array([1, 2], "<f4").tobytes())
    (tmp_path / "x").write_bytes(external("x.data", offset=4, length=8))
    assert open_tensors(tmp_path / "x").load("w").tolist() == [1, 2]


@pytest.mark.parametrize(
    ("location", "where", "says"),
    [
        ("../x.data", {}, "outside of its own folder"),
        ("/etc/passwd", {}, "outside of its own folder"),
        ("x.data", {"offset": 8, "length": 8}, "has 4 bytes and needs 8"),
        ("x.data", {"offset": -4, "length": 8}, "has 0 bytes and needs 8"),
        ("x.data", {"length": 12}, "has 12 bytes and needs 8"),
        ("x.data", {"length": 10**15}, "has 12 bytes and needs 8"),
        ("x.data", {"length": -4}, "has 8 bytes and needs 8|needs 8"),
        ("none", {}, "none: cannot be read"),
        ("empty", {}, "has 0 bytes and needs 8"),
    ],
)
def test_bad_onnx_data_is_refused(tmp_path: Path, location: str, where: Any, says: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "x.data").write_bytes(b"0" * 8)
    (tmp_path / "in" / "x.data").write_bytes(b"0" * 12)
    (tmp_path / "in" / "empty").touch()
    (tmp_path / "in" / "x").write_bytes(external(location, **where))
    with pytest.raises(VieteError, match=says):
        open_tensors(tmp_path / "in" / "x")


# Bad files ------------------------------------------------------------------------------------


def raw_safetensors(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: Any = "U8", shape: Any = (4,), place: Any = (0, 4)) -> Any:
    return {"dtype": dtype, "shape": shape, "data_offsets": place}


def gguf_head(*numbers: tuple[str, int], text: bytes = b"") -> bytes:
    packed = b"".join(struct.pack("<" + kind, n) for kind, n in numbers)
    return b"GGUF" + packed + text


def npy(header: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def npy_of(descr: str, shape: str) -> str:
    return f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n"


VAST = 10**15
BAD = {
    "empty": (b"", "is empty"),
    "text": (b"Dear reader, this is not a model.\n", "is not a tensor file; it must be one of"),
    "noise": (bytes(range(100, 250)), "is not a tensor file"),
    "zeros": (bytes(1000), "is not a tensor file"),
    "one byte": (b"x", "is not a tensor file"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid x\n", "run git lfs pull"),
    "json": (b'{"a": 3}', "without a 'weight_map'"),
    "vast header": (raw_safetensors(b"{}", length=VAST), "its header claims 10{15} bytes"),
    "long header": (raw_safetensors(b"{}", length=3), "its header claims 3 bytes"),
    "header text": (raw_safetensors(b"{nothing}"), "not a JSON table"),
    "deep header": (raw_safetensors(b'{"a":' * 99999), "not a JSON table"),
    "utf-16": (raw_safetensors(b'{"\xff": 3}'), "not a JSON table"),
    "surrogate": (raw_safetensors({"\ud800": entry()}, bytes(4)), "cannot be read as safetensors"),
    "metadata": (raw_safetensors({"__metadata__": {"a": 3}}), "not a table of strings"),
    "twice": (raw_safetensors(b'{"a": 3, "a": 3}'), "holds the name 'a' twice"),
    "dtype": (raw_safetensors({"a": entry("F3")}, bytes(4)), "wrong about tensor 'a'"),
    "no dtype": (raw_safetensors({"a": {"shape": [4]}}, bytes(4)), "wrong about tensor 'a'"),
    "null": (raw_safetensors({"a": None}), "wrong about tensor 'a'"),
    "truncated": (raw_safetensors({"a": entry()}, bytes(3)), "end at byte"),
    "trailing": (raw_safetensors({"a": entry()}, bytes(5)), "end at byte"),
    "hole": (raw_safetensors({"a": entry(place=(1, 5))}, bytes(5)), "starts at byte 1"),
    "overlap": (
        raw_safetensors({"a": entry(), "b": entry(place=(2, 6))}, bytes(6)),
        "tensor 'b' starts at byte 2 of the data, not at 4",
    ),
    "too short": (raw_safetensors({"a": entry("F32")}, bytes(4)), "cannot fill bytes 0:4"),
    "backwards": (raw_safetensors({"a": entry(place=(4, 0))}, bytes(4)), "cannot fill"),
    "negative": (raw_safetensors({"a": entry(place=(-4, 0))}, bytes(4)), "cannot fill"),
    "minus shape": (raw_safetensors({"a": entry(shape=(-2, -2))}, bytes(4)), "impossible shape"),
    "real shape": (raw_safetensors({"a": entry(shape=(4.0,))}, bytes(4)), "impossible shape"),
    "word shape": (raw_safetensors({"a": entry(shape="4")}, bytes(4)), "impossible shape"),
    "real place": (raw_safetensors({"a": entry(place=(0.0, 4.0))}, bytes(4)), "cannot fill"),
    "vast": (raw_safetensors({"a": entry(shape=(VAST,), place=(0, VAST))}), "end at byte"),
    "vaster": (raw_safetensors({"a": entry(shape=(VAST,) * 9)}, bytes(4)), "impossible shape"),
    "vast nothing": (
        raw_safetensors({"a": entry(shape=(0, VAST, VAST), place=(0, 0))}),
        "impossible shape",
    ),
    "many axes": (raw_safetensors({"a": entry(shape=(1,) * 65)}, bytes(1)), "impossible shape"),
    "zip": (b"PK\x03\x04" + bytes(40), "not a zip file"),
    "npy header": (npy("{'descr': "), "cannot be read as npy"),
    "npy code": (npy("__import__('os').mkdir('trapped')\n"), "cannot be read as npy"),
    "vast npy": (npy(npy_of("<f4", f"({VAST},)"), bytes(4)), "cannot fill 4 bytes"),
    "vaster npy": (npy(npy_of("<f4", f"({VAST}, {VAST})")), "impossible shape"),
    "minus npy": (npy(npy_of("<f4", "(-1, -1)"), bytes(4)), "impossible shape"),
    "short npy": (npy(npy_of("<f4", "(2,)"), bytes(7)), "cannot fill 7 bytes"),
    "big gguf": (gguf_head(("I", 3 << 24)), "little-endian 2 or 3"),
    "keys": (gguf_head(("I", 3), ("Q", 0), ("Q", VAST)), "it claims 8 bytes at byte"),
    "tensors": (gguf_head(("I", 3), ("Q", VAST), ("Q", 0)), "it claims 8 bytes at byte"),
    "vast key": (gguf_head(("I", 3), ("Q", 0), ("Q", 1), ("Q", VAST)), "it claims 10{15} bytes"),
    # The gguf package's own reader never ends on this one.
    "vast array": (
        gguf_head(("I", 3), ("Q", 0), ("Q", 1), ("Q", 0), ("I", 9), ("I", 0), ("Q", VAST)),
        "it claims 10{15} bytes",
    ),
    "deep array": (
        gguf_head(("I", 3), ("Q", 0), ("Q", 1), ("Q", 0), ("I", 9))
        + struct.pack("<IQ", 9, 1) * 9999,
        "cannot be read as GGUF",
    ),
    "vast gguf": (
        gguf_head(
            ("I", 3), ("Q", 1), ("Q", 0), ("Q", 0), ("I", 1), ("Q", VAST), ("I", 0), ("Q", 0)
        ),
        "is cut off",
    ),
    "gguf type": (
        gguf_head(("I", 3), ("Q", 1), ("Q", 0), ("Q", 0), ("I", 1), ("Q", 4), ("I", 999), ("Q", 0)),
        "999 is not a valid",
    ),
    "gguf rows": (
        gguf_head(("I", 3), ("Q", 1), ("Q", 0), ("Q", 0), ("I", 1), ("Q", 4), ("I", 2), ("Q", 0)),
        "rows of 4, not blocks of 32",
    ),
    "onnx": (b"\x08\x0a", "holds no graph"),
    "vast onnx": (
        to_onnx([onnx.TensorProto(name="w", dims=[VAST], data_type=1, raw_data=b"....")]),
        "has 4 bytes and needs",
    ),
    "minus onnx": (
        to_onnx([onnx.TensorProto(name="w", dims=[-1], data_type=1, raw_data=b"....")]),
        "impossible shape",
    ),
    "pickle": (pickle.dumps({"a": 3}), "cannot be read as PyTorch"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_said_to_be_so(tmp_path: Path, case: str) -> None:
    content, says = BAD[case]
    (tmp_path / "x").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(VieteError, match=says) as caught:
        open_tensors(tmp_path / "x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(caught.value).startswith(f"{tmp_path / 'x'}: ")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    assert peak < 50e6


def test_a_claim_inside_a_good_onnx_or_torch_file_is_not_believed(tmp_path: Path) -> None:
    vast = onnx.TensorProto(name="w", dims=[VAST], data_type=1, float_data=[1.0])
    (tmp_path / "x").write_bytes(to_onnx([vast]))
    with pytest.raises(VieteError, match="cannot be read as ONNX"):
        open_tensors(tmp_path / "x").load("w")


def test_zips_that_lie_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x", "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.writestr("a.npy", to_npy(np.ones(2)))
    with pytest.raises(VieteError, match="holds the name 'a' twice"):
        open_tensors(tmp_path / "x")
    content = bytearray(to_npz({"a": np.ones(2)}))
    place = content.rindex(b"PK\x01\x02") + 24  # the size that the directory claims
    content[place : place + 4] = struct.pack("<I", 4_000_000_000)
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(VieteError, match="claims 4000000000 bytes"):
        open_tensors(tmp_path / "x")
    damaged = bytearray(to_npz({"a": np.ones(2)}))
    damaged[damaged.index(np.ones(2).tobytes())] ^= 1
    (tmp_path / "x").write_bytes(damaged)
    with pytest.raises(VieteError, match="CRC"):
        open_tensors(tmp_path / "x").load("a")


def test_what_is_no_tensor_is_listed(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(to_npz({"words": np.array(["a"]), "w": np.ones(1)}))
    file = open_tensors(tmp_path / "x")
    assert list(file.infos) == ["w"] and "dtype <U1" in file.refused["words"]
    protos = [onnx.helper.make_tensor("s", onnx.TensorProto.STRING, [1], [b"a"])]
    protos += [onnx.helper.make_tensor("n", onnx.TensorProto.INT4, [2], [1, 2])]
    (tmp_path / "x").write_bytes(to_onnx(protos))
    assert set(open_tensors(tmp_path / "x").refused) == {"s", "n"}


@settings(quick, max_examples=600)
@given(st.data())
def test_a_damaged_file_is_read_or_refused(
    tmp_path: Path, seeds: dict[str, bytes], data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(sorted(seeds)))
    content = bytearray(seeds[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(1, len(content)) | st.just(len(content))) :]
    suffix = data.draw(st.sampled_from(["", ".onnx", ".safetensors"]))
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    found = None
    try:
        file = open_tensors(path)
        found = file.load_all()
        assert {n: a.shape for n, a in found.items()} == {n: i.shape for n, i in file.infos.items()}
    except VieteError as error:
        assert "\n" not in str(error)
    if kind == "safetensors" and suffix == ".safetensors":
        try:
            theirs = library.load(bytes(content))
        except Exception:  # whatever the library says of it
            assert found is None
        else:
            assert found is not None and found.keys() == theirs.keys()


def test_files_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(VieteError, match="is a folder; give the file in it"):
        open_tensors(tmp_path)
    with pytest.raises(VieteError, match=r"cannot be read \(No such file"):
        open_tensors(tmp_path / "none")
    with pytest.raises(VieteError, match="is not a regular file"):
        open_tensors("/dev/null")
    with pytest.raises(VieteError, match="null"):
        open_tensors("a\0b")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(VieteError, match="cannot be read"):
        open_tensors(loop)

    def deny(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "x")

    save_safetensors(tmp_path / "x", ARRAYS)
    monkeypatch.setattr("builtins.open", deny)
    with pytest.raises(VieteError, match=r"x: cannot be read \(Permission denied\)"):
        open_tensors(tmp_path / "x")


def test_a_wrong_name_or_framework_is_said_to_be_so(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "x", ARRAYS | {"wte.weight": np.ones(1)})
    file = open_tensors(tmp_path / "x")
    with pytest.raises(VieteError, match=r"no tensor 'wte\.wieght'; the nearest name is 'wte\.wei"):
        file.load("wte.wieght")
    with pytest.raises(VieteError, match="no tensor 'zzz'; it holds 5"):
        file.load("zzz")
    with pytest.raises(VieteError, match="say 'numpy' or 'torch'"):
        file.load("a", "tensorflow")


# Writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", ["os.fsync", "os.replace"])
def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    save_safetensors(tmp_path / "x", {"w": np.ones(2)})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(fails, full)
    with pytest.raises(VieteError, match=r"cannot be written \(No space left on device\)"):
        save_safetensors(tmp_path / "x", {"w": np.zeros(9)})
    assert os.listdir(tmp_path) == ["x"]
    assert open_tensors(tmp_path / "x").load("w").tolist() == [1, 1]


def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_safetensors(tmp_path / "x", {"w": np.ones(2)})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arrays", "metadata", "says"),
    [
        ({"w": np.ones(1, "c16")}, None, "'w' cannot be written .*dtype complex128"),
        ({"w": np.array(["a"])}, None, "dtype <U1"),
        ({"w": object()}, None, "dtype object"),
        ({"w": [[1], [1, 2]]}, None, "'w' cannot be written"),
        ({"w": torch.eye(2).to_sparse()}, None, "sparse"),
        ({"w": torch.ones(2, device="meta")}, None, "on meta"),
        ({"w": torch.ones(2, dtype=torch.complex128)}, None, "complex128"),
        ({3: np.ones(1)}, None, "3 cannot be a tensor's name"),
        ({"\ud800": np.ones(1)}, None, "cannot be a tensor's name"),
        ({"__metadata__": np.ones(1)}, None, "cannot be a tensor's name"),
        ({}, {"a": 3}, "table of strings"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, arrays: Any, metadata: Any, says: str) -> None:
    with pytest.raises(VieteError, match=says):
        save_safetensors(tmp_path / "x", arrays, metadata)
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "none" / "x", tmp_path / "file" / "x", "a\0b"):
        with pytest.raises(VieteError, match="cannot be written"):
            save_safetensors(place, {"w": np.ones(1)})
    assert os.listdir(tmp_path) == ["file"]


def test_views_parameters_and_other_byte_orders_are_written(tmp_path: Path) -> None:
    whole = np.arange(12.0).reshape(3, 4)
    save_safetensors(
        tmp_path / "x",
        {
            "view": whole[:, ::2].T,
            "big": whole.astype(">f8"),
            "parameter": torch.nn.Parameter(torch.from_numpy(whole).t()),
            "conjugate": torch.tensor([1 + 2j]).conj(),
        },
    )
    file = open_tensors(tmp_path / "x")
    assert np.array_equal(file.load("view"), whole[:, ::2].T)
    assert np.array_equal(file.load("big"), whole)
    assert np.array_equal(file.load("parameter"), whole.T)
    assert file.load("conjugate").tolist() == [1 - 2j]
