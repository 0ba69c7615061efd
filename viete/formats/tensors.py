"""What every format shares: an open file's tensors, and the way from bytes to an array."""

from __future__ import annotations

import difflib
import importlib
import math
import mmap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viete.errors import VieteError

Bytes = NDArray[np.uint8]
Load = Callable[[str], Any]  # the framework's name -> the array

# The dtypes that Viète reads, by the names NumPy, ml_dtypes and PyTorch share: bytes a number.
SIZES = {
    **dict.fromkeys(["bool", "int8", "uint8", "float8_e5m2", "float8_e4m3fn"], 1),
    **dict.fromkeys(["float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"], 1),
    **dict.fromkeys(["int16", "uint16", "float16", "bfloat16"], 2),
    **dict.fromkeys(["int32", "uint32", "float32"], 4),
    **dict.fromkeys(["int64", "uint64", "float64", "complex64"], 8),
    "complex128": 16,
}
WORTH_MAPPING = 1 << 16  # bytes; less is copied
PIECE = 1 << 22  # bytes that are converted at a time


@dataclass(frozen=True)
class TensorInfo:
    """What a file says of a tensor before its numbers are read.

    ``shape`` is in NumPy's order. ``dtype`` is the one in the file: ``'float32'``,
    ``'bfloat16'``, ``'float8_e4m3fn'``, ..., or a GGUF quantised type such as ``'Q4_K'``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


class TensorFile:
    """The tensors of one file, or of all the files of an index.

    ``infos`` describes the tensors, ``refused`` says of every other entry what it is, and
    ``metadata`` is the file's own (safetensors', GGUF's or the index's).
    """

    def __init__(self, path: Path, format: str, mapped: Mapped | None = None) -> None:
        self.path, self.format, self.mapped = path, format, mapped
        self.infos: dict[str, TensorInfo] = {}
        self.refused: dict[str, str] = {}
        self.metadata: dict[str, Any] = {}
        self.loads: dict[str, Load] = {}

    def load(
        self, name: str, framework: str = "numpy", dtype: str | None = None,
        device: str | None = None,
    ) -> Any:  # fmt: skip
        """A tensor as a read-only NumPy array, or as a PyTorch tensor of the caller's own.

        ``dtype`` converts, and ``device`` is PyTorch's. A safetensors file stays mapped: its
        numbers are read when they are touched, and what is written into a PyTorch tensor goes to
        no file. In NumPy bfloat16 and float8 are those of `ml_dtypes`; without that package
        bfloat16 becomes float32, exactly. A quantised GGUF tensor becomes float32.
        """
        if framework not in ("numpy", "torch"):
            raise VieteError(f"'{framework}' is no framework to load for: say 'numpy' or 'torch'")
        if name in self.refused:
            raise VieteError(f"{self.path}: '{name}' is no tensor to load: {self.refused[name]}")
        if name not in self.infos:
            near = difflib.get_close_matches(name, self.infos, 1)
            hint = f"the nearest name is '{near[0]}'" if near else f"it holds {len(self.infos)}"
            raise VieteError(f"{self.path}: there is no tensor '{name}'; {hint}")
        load, info = self.loads[name], self.infos[name]
        if dtype in (None, info.dtype) and device in (None, "cpu"):
            array = in_a_sentence(self.path, self.format, load, framework)
        else:
            array = in_a_sentence(self.path, self.format, converted, load, info, framework,
                                  dtype or info.dtype, device)  # fmt: skip
        if framework == "numpy":
            array.flags.writeable = False  # it may be the very bytes that the next load gives
        return array

    def load_all(self, framework: str = "numpy") -> dict[str, Any]:
        """Every tensor, by name."""
        return {name: self.load(name, framework) for name in self.infos}

    def __repr__(self) -> str:
        count = sum(math.prod(info.shape) for info in self.infos.values())
        return f"<{self.path.name}: {self.format}, {len(self.infos)} tensors, {count:,} numbers>"

    def add(self, info: TensorInfo, load: Load) -> None:
        """For the readers: take in a tensor."""
        self.refuse(info.name, "")  # a name that is there already is refused
        del self.refused[info.name]
        self.infos[info.name], self.loads[info.name] = info, load

    def refuse(self, name: str, what: str) -> None:
        """For the readers: list what is no tensor that Viète can read."""
        name.encode()  # a lone surrogate could never be printed
        if name in self.infos or name in self.refused:
            raise ValueError(f"it holds the name '{name}' twice")
        self.refused[name] = what


def in_a_sentence(path: Path, format: str, read: Callable[..., Any], *given: Any) -> Any:
    """Run a reader of untrusted bytes; what it or its library raises becomes one sentence.

    The readers themselves raise ``ValueError`` with what is wrong; the file is named here.
    """
    try:
        return read(*given)
    except VieteError:
        raise
    except MemoryError:
        raise VieteError(f"{path}: needs more memory than there is") from None
    except OSError as error:
        reason = error.strerror or error
        raise VieteError(f"{error.filename or path}: cannot be read ({reason})") from None
    except Exception as error:
        text = str(error) if " " in str(error) else f"{type(error).__name__} {error}"
        line = "".join(c if c.isprintable() else "?" for c in text.strip().split("\n")[0][:300])
        raise VieteError(f"{path}: cannot be read as {format}: {line}") from error


class Mapped:
    """A file in memory; its bytes are read when they are touched.

    ``bytes`` are all of them, read-only. The file stays open, so that what is mapped later is of
    this very file, even where another has taken its name.
    """

    def __init__(self, path: Path) -> None:
        self.file = open(path, "rb")  # noqa: SIM115
        whole = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
        self.bytes: Bytes = np.frombuffer(whole, np.uint8)

    def own(self, start: int, stop: int) -> Bytes:
        """A stretch that is the caller's to write into, which changes no file.

        It takes memory where it is touched, for as long as somebody holds it.
        """
        if stop - start < WORTH_MAPPING:
            return self.bytes[start:stop].copy()
        first = start - start % mmap.ALLOCATIONGRANULARITY
        length = stop - first
        piece = mmap.mmap(self.file.fileno(), length, access=mmap.ACCESS_COPY, offset=first)
        return np.frombuffer(piece, np.uint8)[start - first :]

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()


@dataclass(frozen=True)
class Stored:
    """A `Load`: a tensor's little-endian, row-major numbers in a mapped file."""

    mapped: Mapped
    start: int
    stop: int
    info: TensorInfo

    def __call__(self, framework: str) -> Any:
        return from_bytes(self.mapped.own(self.start, self.stop), self.info, framework, own=True)

    def pieces(self, framework: str) -> Iterator[Any]:
        """Its numbers in a row, some at a time, each piece forgotten when it is let go."""
        size = SIZES[self.info.dtype]
        for at in range(self.start, self.stop, PIECE):
            stop = min(at + PIECE, self.stop)
            info = replace(self.info, shape=((stop - at) // size,))
            yield from_bytes(self.mapped.own(at, stop), info, framework, own=True)


def converted(load: Load, info: TensorInfo, framework: str, dtype: str, device: str | None) -> Any:
    """A tensor in another dtype or elsewhere, never both as it was and as it will be in memory."""
    pieces = load.pieces(framework) if isinstance(load, Stored) else iter([load(framework)])
    if framework == "torch":
        torch = require("torch", "to load tensors for PyTorch")
        out = torch.empty(info.shape, dtype=getattr(torch, dtype), device=device)
    else:
        out = np.empty(info.shape, numpy_dtype(dtype))
    flat, at = out.reshape(-1), 0
    with np.errstate(over="ignore"):
        for piece in pieces:
            row = piece.reshape(-1)
            flat[at : at + len(row)] = row
            at += len(row)
    return out


def side_by_side(array: Any) -> Any:
    """A family of matrices in which products need not move anything: (…, rows, columns).

    That is where its members' rows, or their columns, follow each other in memory, so that all of
    them are one matrix. What lies between other things (of each head its query, key and value) is
    copied, in the order that it has.
    """
    torch = hasattr(array, "stride")
    strides = array.stride() if torch else array.strides
    letters = range(array.ndim - 2)

    def joined(*axes: int) -> bool:
        return all(
            array.shape[i] == 1 or strides[i] == array.shape[j] * strides[j]
            for i, j in pairwise(axes)
        )

    if not letters or joined(*letters, array.ndim - 2) or joined(*letters, array.ndim - 1):
        return array
    order = sorted(range(array.ndim), key=lambda k: -strides[k])
    back = [order.index(k) for k in range(array.ndim)]
    if torch:
        return array.permute(order).contiguous().permute(back)
    return np.ascontiguousarray(array.transpose(order)).transpose(back)


def numpy_dtype(name: str) -> Any:
    """NumPy's type of this name, or `ml_dtypes`'."""
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(getattr(require("ml_dtypes", f"for NumPy arrays of {name}"), name))


def sibling(path: Path, name: object) -> Path:
    """The file `name` beside `path`, for a file that names its parts: never one elsewhere.

    Links are followed on both sides, because the Hugging Face cache is made of them.
    """
    if not isinstance(name, str) or not name or any(c in name for c in "\0:\\"):
        raise ValueError(f"it names {name!r} as a part; a part is a file in the same folder")
    homes = {path.parent.resolve(), path.resolve().parent}
    part = path.parent / name
    if ".." in Path(name).parts or homes.isdisjoint(part.resolve().parents):
        raise ValueError(f"it names the part '{name}' outside of its own folder")
    return part


def byte_count(name: str, shape: Iterable[int], itemsize: int) -> int:
    """The bytes of a dense tensor, or ``ValueError`` for a shape that no array can have."""
    sizes = list(shape)
    bad = len(sizes) > 64 or any(type(n) is not int or n < 0 for n in sizes)
    # NumPy wants this even of an empty array: the product of its other axes must fit.
    if bad or math.prod(n for n in sizes if n) * itemsize >= 2**63:
        raise ValueError(f"tensor '{name}' has an impossible shape {sizes}"[:300])
    return math.prod(sizes) * itemsize


def from_bytes(raw: Bytes, info: TensorInfo, framework: str, own: bool = False) -> Any:
    """Little-endian row-major bytes as an array.

    NumPy shares the bytes. PyTorch copies them, unless they are the caller's ``own``.
    """
    if info.dtype == "bool":
        raw = (raw != 0).view(np.uint8)  # any other byte in a bool is undefined behaviour
    if framework == "torch":
        torch = require("torch", "to load tensors for PyTorch")
        kind = getattr(torch, info.dtype, None)
        if kind is None:
            raise ValueError(f"this PyTorch has no dtype {info.dtype} (tensor '{info.name}')")
        if own and raw.size and raw.flags.writeable and not raw.ctypes.data % SIZES[info.dtype]:
            return torch.from_numpy(raw).view(kind).reshape(info.shape)
        tensor = torch.empty(info.shape, dtype=kind)
        tensor.reshape(-1).view(torch.uint8).numpy()[:] = raw
        return tensor
    dtype: Any = info.dtype
    if dtype.startswith(("bfloat", "float8")):
        try:
            dtype = getattr(importlib.import_module("ml_dtypes"), dtype)
        except ImportError:
            if dtype != "bfloat16":
                raise VieteError(
                    f"tensor '{info.name}' is {dtype}, which NumPy lacks: "
                    "pip install ml_dtypes, or load it for PyTorch"
                ) from None
            # A bfloat16 is the upper half of a float32, so this is exact.
            raw = (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.uint8)
            dtype = np.float32
    return np.require(raw.view(dtype), requirements="A").reshape(info.shape)


def from_array(array: NDArray[Any], info: TensorInfo, framework: str) -> Any:
    """A NumPy array of any byte order and layout, as `from_bytes` gives it."""
    raw = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
    return from_bytes(raw, replace(info, dtype=array.dtype.name), framework)


def torch_bytes(torch: Any, tensor: Any) -> Bytes:
    """A dense PyTorch tensor's numbers as bytes, row-major; shared where they lie so already."""
    if not tensor.numel():
        return np.empty(0, np.uint8)  # PyTorch gives it strides that no byte view accepts
    whole = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    raw: Bytes = whole.reshape(-1).view(torch.uint8).numpy()
    return raw


def require(module: str, why: str) -> Any:
    """An optional package, imported now, or the sentence that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        extra = module.split(".")[0]
        raise VieteError(f"{why} you need {extra}: pip install viete[{extra}]") from None
