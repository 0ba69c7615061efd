"""The tensors of an open file of any format, and the conversion between bytes and arrays."""

from __future__ import annotations

import difflib
import importlib
import math
import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viete.errors import VieteError
from viete.printable import on_terminal

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
THREADS = 8  # that load at once: more of them would wait for the same memory
PATIENCE = 0.7  # seconds until the progress is shown


@dataclass(frozen=True)
class TensorInfo:
    """The facts about a tensor that a file states, before its numbers are read.

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
        """A tensor as a read-only NumPy array, or as a PyTorch tensor that may be changed.

        ``dtype`` converts, and ``device`` is PyTorch's. A safetensors file stays mapped: its
        numbers are read when they are touched, and what is written into a PyTorch tensor goes to
        no file. In NumPy bfloat16 and float8 are those of `ml_dtypes`; without that package
        bfloat16 becomes float32, exactly. A quantised GGUF tensor becomes float32.
        """
        if framework not in ("numpy", "torch"):
            raise VieteError(f"'{framework}' is not a framework: say 'numpy' or 'torch'")
        if name in self.refused:
            raise VieteError(f"{self.path}: '{name}' is not a tensor to load: {self.refused[name]}")
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
        """All tensors, by name."""
        return {name: self.load(name, framework) for name in self.infos}

    def load_many(
        self, names: Iterable[str], framework: str = "numpy", dtype: str | None = None,
        device: str | None = None,
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
        """`load` of each name, in order, in threads: some read while others convert.

        A line shows the progress if it takes long.
        """
        wanted = list(names)
        counts = [math.prod(self.infos[n].shape) for n in wanted]
        workers = min(THREADS, os.cpu_count() or 1)
        with bar(sum(counts), f"{self.path}") as tell, ThreadPoolExecutor(workers) as pool:
            arrays = pool.map(lambda n: self.load(n, framework, dtype, device), wanted)
            for name, count, array in zip(wanted, counts, arrays, strict=True):
                yield name, array
                tell(count)

    def __repr__(self) -> str:
        count = sum(math.prod(info.shape) for info in self.infos.values())
        return f"<{self.path.name}: {self.format}, {len(self.infos)} tensors, {count:,} numbers>"

    def add(self, info: TensorInfo, load: Load) -> None:
        """Add a tensor; for the readers."""
        self.refuse(info.name, "")  # a name that is there already is refused
        del self.refused[info.name]
        self.infos[info.name], self.loads[info.name] = info, load

    def place(self, info: TensorInfo, start: int, stop: int) -> None:
        """Add a tensor whose numbers are these bytes of the file; for the readers."""
        assert self.mapped is not None
        self.add(info, Stored(self.mapped, start, stop, info))

    def refuse(self, name: str, what: str) -> None:
        """Record a tensor that Viète cannot read; for the readers."""
        name.encode()  # a lone surrogate could never be printed
        if name in self.infos or name in self.refused:
            raise ValueError(f"it holds the name '{name}' twice")
        self.refused[name] = what


def in_a_sentence(path: Path, format: str, read: Callable[..., Any], *given: Any) -> Any:
    """Run a reader of untrusted bytes; turn any error in it into one sentence.

    The readers themselves raise ``ValueError`` with what is wrong; the file is named here.
    """
    try:
        return read(*given)
    except VieteError:
        raise
    except MemoryError:
        raise VieteError(f"{path}: needs more memory than the machine has") from None
    except OSError as error:
        reason = error.strerror or error
        raise VieteError(f"{error.filename or path}: cannot be read ({reason})") from None
    except Exception as error:
        text = str(error) if " " in str(error) else f"{type(error).__name__} {error}"
        line = "".join(c if c.isprintable() else "?" for c in text.strip().split("\n")[0][:300])
        raise VieteError(f"{path}: cannot be read as {format}: {line}") from error


class Mapped:
    """A memory-mapped file, whose bytes are read on access.

    ``bytes`` are all of them, read-only. The file stays open, so that what is mapped later is of
    this very file, even where another has taken its name.
    """

    def __init__(self, path: Path) -> None:
        self.file = open(path, "rb")  # noqa: SIM115
        whole = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
        self.bytes: Bytes = np.frombuffer(whole, np.uint8)

    def own(self, start: int, stop: int) -> Bytes:
        """A stretch that the caller may change, without changing the file.

        Pages take memory once they are touched, until the last reference is gone.
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
    """A `Load` of a tensor's little-endian, row-major numbers in a mapped file."""

    mapped: Mapped
    start: int
    stop: int
    info: TensorInfo

    def __call__(self, framework: str) -> Any:
        return from_bytes(self.mapped.own(self.start, self.stop), self.info, framework, own=True)

    def pieces(self, framework: str) -> Iterator[Any]:
        """The numbers as a vector, in pieces; each piece is freed before the next."""
        size = SIZES[self.info.dtype]
        for at in range(self.start, self.stop, PIECE):
            stop = min(at + PIECE, self.stop)
            info = replace(self.info, shape=((stop - at) // size,))
            yield from_bytes(self.mapped.own(at, stop), info, framework, own=True)


def converted(load: Load, info: TensorInfo, framework: str, dtype: str, device: str | None) -> Any:
    """A tensor in another dtype or on another device, without two full copies in memory."""
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


def numpy_dtype(name: str) -> Any:
    """NumPy's type of this name, or that of `ml_dtypes`."""
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(getattr(require("ml_dtypes", f"for NumPy arrays of {name}"), name))


def sibling(path: Path, name: object) -> Path:
    """The file `name` next to `path`, for a file that lists its parts; never in another folder.

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
    """The number of bytes of a dense tensor; ``ValueError`` for an impossible shape."""
    sizes = list(shape)
    bad = len(sizes) > 64 or any(type(n) is not int or n < 0 for n in sizes)
    # NumPy wants this even of an empty array: the product of its other axes must fit.
    if bad or math.prod(n for n in sizes if n) * itemsize >= 2**63:
        raise ValueError(f"tensor '{name}' has an impossible shape {sizes}"[:300])
    return math.prod(sizes) * itemsize


def from_bytes(raw: Bytes, info: TensorInfo, framework: str, own: bool = False) -> Any:
    """Little-endian, row-major bytes as an array.

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


def from_array(array: Any, info: TensorInfo, framework: str) -> Any:
    """An array or tensor of any byte order and layout, as `from_bytes` gives it."""
    dtype = str(array.dtype.name if isinstance(array, np.ndarray) else info.dtype)
    return from_bytes(raw_bytes(array), replace(info, dtype=dtype), framework)


def info_of(name: str, array: Any) -> TensorInfo:
    """A dense array or tensor of a known dtype. Raises ValueError for any other."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        dtype = str(array.dtype).removeprefix("torch.")
        if array.layout is not torch.strided or array.is_meta or dtype not in SIZES:
            raise ValueError(f"a {array.layout} tensor of dtype {dtype} on {array.device}")
    else:
        kind = np.dtype(array.dtype) if hasattr(array, "dtype") else None
        if kind is None or (dtype := kind.name) not in SIZES:
            raise ValueError(f"a {type(array).__name__} of dtype {kind}")
    return TensorInfo(name, tuple(map(int, array.shape)), dtype)


def raw_bytes(array: Any) -> Bytes:
    """A dense array's numbers, little-endian and row-major; not copied if they are so already."""
    if not hasattr(array, "detach"):
        plain = np.asarray(array)
        flat = np.ascontiguousarray(plain, plain.dtype.newbyteorder("<")).reshape(-1)
        return flat.view(np.uint8)
    if not array.numel():
        return np.empty(0, np.uint8)  # PyTorch gives it strides that no byte view accepts
    whole = array.detach().cpu().resolve_conj().resolve_neg().contiguous()
    raw: Bytes = whole.reshape(-1).view(sys.modules["torch"].uint8).numpy()
    return raw


def in_memory(name: str | Path, arrays: Mapping[str, Any]) -> TensorFile:
    """Arrays as a file of tensors; ``name`` is their name in errors.

    Nothing is copied for the library that they are of: a PyTorch tensor is loaded as itself,
    without its gradient. Raises VieteError for what is not a dense array of a known dtype.
    """
    file = TensorFile(Path(name), "memory")
    for key, array in arrays.items():
        try:
            info = info_of(str(key), array)
        except ValueError as error:
            raise VieteError(
                f"{name}: '{key}' is not an array with numbers of its own ({error})"
            ) from None
        file.add(info, partial(itself, array, info))
    return file


def itself(array: Any, info: TensorInfo, framework: str) -> Any:
    """An array in memory, as an array of a framework."""
    own = framework == "torch" and hasattr(array, "detach")
    return array.detach() if own else from_array(array, info, framework)


@contextmanager
def bar(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """The progress as a line on standard error, if that is a terminal, after a short delay.

    Yields a function to call with the number of items done since the last call.
    """
    began, done, show = monotonic(), 0, on_terminal()

    def tell(more: int) -> None:
        nonlocal done
        done += more
        if monotonic() - began > PATIENCE:
            show(f"{done / max(1, total):4.0%} {what}")

    try:
        yield tell
    finally:
        show("")


@contextmanager
def on_device(device: object) -> Iterator[None]:
    """A block in which PyTorch uses a device. Raises VieteError with the reason if it cannot."""
    try:
        yield
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        why = str(error).strip().split("\n")[0]
        raise VieteError(f"PyTorch cannot use the device {device!s:.40} ({why})") from None


def require(module: str, why: str, extra: str = "") -> Any:
    """An optional package, imported here; VieteError with how to install it if it is missing.

    ``extra`` is the extra of Viète that installs it, if its name differs.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        name = module.split(".")[0]
        raise VieteError(f"{why} you need {name}: pip install viete[{extra or name}]") from None
