"""Matches a card's weights with a file's tensors by name; loads and saves them.

Every tensor of a file must belong to something: a parameter (see `viete.model.expected`), an equal
copy of a parameter's tensor (tied weights are often saved twice), or the card's fact ``-
**ignore**: *.rotary_emb.inv_freq``, a list of shell-style patterns. The fact ``- **copy**: …``
names vectors that are copies. Nothing else is ignored. Old files may spell a name differently, as
the card's fact **renamed** says: ``LayerNorm.gamma`` is ``LayerNorm.weight``.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.initial_weights import literal_weights
from viete.evaluate.schedule import parameter_shapes
from viete.evaluate.spelling import by_own_names, declared, plain
from viete.formats.files import TensorFile, open_tensors
from viete.formats.tensors import SIZES, on_device, require
from viete.graph.card import CardData
from viete.model.expected import Expected, expected_tensors, layouts, show_shape

Array = Any
FLOATS = ("float16", "bfloat16", "float32", "float64")
_RENAMED = re.compile(r"`([^`]+)`\s+is\s+`([^`]+)`")


@dataclass(frozen=True, eq=False)
class FileMatch:
    """The tensors of a file matched with those that a card expects.

    ``fits`` and ``misshaped`` are by the names in the file, ``missing`` by the card's. ``prefix``
    says how the two differ (``+ transformer.``), and ``prefixed`` in which of the file's names.
    ``copies`` maps each tensor that the card does not expect to the expected tensor with the same
    numbers.
    """

    card: CardData
    file: TensorFile
    fits: Mapping[str, Expected]
    missing: Mapping[str, Expected]
    misshaped: Mapping[str, Expected]
    extra: tuple[str, ...]
    ignored: tuple[str, ...]
    copies: Mapping[str, str]
    prefix: str
    prefixed: tuple[str, ...]


def match(card: CardData, file: TensorFile) -> FileMatch:
    """Pair a card's expected tensors with a file's."""
    older = [
        pair for key, text in card.facts if key == "renamed" for pair in _RENAMED.findall(text)
    ]
    orders = [expected_tensors(card)]
    for k in range(1, max([len(layouts(p)) for p in card.parameters], default=1)):
        with suppress(VieteError):  # another format may not hold these sizes: pairs of odd heads
            orders.append(expected_tensors(card, layout=k))
    tried = [(wanted, *by_file_names(wanted, file, older)) for wanted in orders]
    wanted, found, prefix = max(tried, key=lambda t: len(t[1]))
    if len(found) < len(wanted):
        own = expected_tensors(card, own=True)
        spelled = {name: own[written] for name, written in own_names(card, file).items()}
        if len(spelled) > len(found):
            found, wanted, prefix = spelled, own, ""

    def in_fact(fact: str, name: str) -> bool:
        """Whether a fact of the card lists a tensor's name, by a shell-style pattern."""
        globs = [g for key, text in card.facts if key == fact for g in re.split(r"[,\s`]+", text)]
        return any(g and fnmatchcase(name, g) for g in globs)

    seen = {id(e) for e in found.values()}
    fits = {n: e for n, e in found.items() if file.infos[n].shape == e.shape}
    rest = [n for n in file.infos if n not in found]
    ignored = tuple(n for n in rest if in_fact("ignore", n))
    rest = [n for n in rest if n not in ignored]
    # Two vectors may be equal by chance, as where both are 0: of those the card must say so.
    sure = [n for n in rest if len(file.infos[n].shape) > 1 or in_fact("copy", n)]
    copies = {n: same[0] for n in sure if (same := equals(file, n, fits))}
    what = prefix.partition(" ")[2]
    new = [n for n in found if n not in wanted] if what else []
    return FileMatch(
        card, file, fits, {n: e for n, e in wanted.items() if id(e) not in seen},
        {n: e for n, e in found.items() if n not in fits},
        tuple(n for n in rest if n not in copies), ignored, copies, prefix,
        tuple(n for n in new if n.removeprefix(what) in wanted or what + n in wanted),
    )  # fmt: skip


def by_file_names(
    wanted: Mapping[str, Expected], file: TensorFile, older: Sequence[tuple[str, str]]
) -> tuple[dict[str, Expected], str]:
    """The expected tensors by their names in the file, which may lack a prefix or add one.

    ``older`` are older spellings of parts of a name, each with the present one.

    GPT-2 is saved with ``transformer.`` in front of its names or without, depending on the class
    that saved it, a model wrapped for training with ``module.``.
    """
    names = file.infos
    prefixes: Counter[tuple[str, str]] = Counter()  # what the file adds, what it drops
    if any(n not in names for n in wanted):
        for e in list(wanted)[:: max(1, len(wanted) // 16)]:
            for n in names:
                if n.endswith("." + e):
                    prefixes[n[: -len(e)], ""] += 1
                elif e.endswith("." + n):
                    prefixes["", e[: -len(n)]] += 1

    def under(add: str, drop: str) -> dict[str, Expected]:
        out: dict[str, Expected] = {}
        for n, e in wanted.items():
            new = n if n in names else add + n.removeprefix(drop)
            for old, present in older:
                new = new if new in names else new.replace(present, old)
            if new in names:
                out.setdefault(new, e)
        return out

    likely = sorted(prefixes, key=lambda p: (not p[0], -prefixes[p]))
    added, dropped = ([p for p in likely if p[k]][:4] for k in (0, 1))
    best, how = under("", ""), ""
    for add, drop in (*added, *dropped):
        if len(found := under(add, drop)) > len(best):
            best, how = found, f"+ {add}" if add else f"− {drop}"
    return best, how


def own_names(card: CardData, file: TensorFile) -> dict[str, str]:
    """The card's name for every tensor named as a parameter of the card, in any spelling."""
    scope, shapes = declared(card), parameter_shapes(card)
    first: dict[str, str] = {}
    for name in file.infos:
        written = name if name in shapes else plain(name, scope, card.loop_letters)
        # Of two spellings of one name, the second is a tensor too many.
        if written in shapes and (written not in first or name == written):
            first[written] = name
    return {name: written for written, name in first.items()}


def equals(file: TensorFile, name: str, others: Mapping[str, Any]) -> list[str]:
    """The other tensors with the same dtype, shape and numbers."""
    info, out = file.infos[name], []
    for other in others:
        there = file.infos[other]
        if (there.shape, there.dtype) == (info.shape, info.dtype) and other != name:
            out += [other] if np.array_equal(file.load(name), file.load(other)) else []
    return out


def problems(found: FileMatch) -> list[str]:
    """The reasons why a file cannot be loaded, a line each; empty if it can."""
    out, file = [], found.file
    for name, e in found.missing.items():
        why = f"not readable ({file.refused[name]})" if name in file.refused else "missing"
        out.append(f"  {why}: {name} ({show_shape(e.shape)}), which holds {listed(e.holds)}")
    for name, e in found.misshaped.items():
        have, want = show_shape(file.infos[name].shape), show_shape(e.shape)
        out.append(f"  misshaped: {name} is {have}, and the card says {want}")
    for name in found.extra:
        shape = show_shape(file.infos[name].shape)
        out.append(f"  unused: {name} ({shape}), which belongs to no parameter")
    if len(out) > 24:
        out[20:] = [f"  and {len(out) - 20} more; `viete check CARD --weights FILE` lists them all"]
    elif found.extra:
        out.append("  (to leave tensors out, name them in the card: - **ignore**: name, *.name)")
    return out


def listed(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# -- precision and device --------------------------------------------------------------------------


def precision(file: TensorFile, framework: str, dtype: str | None = None) -> str | None:
    """The dtype of all weights: the requested one, else the widest that is stored.

    On NumPy half precision becomes float32. Its matrix products know no other floats than float32
    and float64, so that a bfloat16 network would take hundreds of times as long and round after
    every addition; ``dtype="bfloat16"`` requests it. None where the file holds no floats.
    """
    if framework not in ("numpy", "torch"):
        raise VieteError(f"{framework!r:.40} is not a framework: say 'numpy' or 'torch'")
    if dtype is not None:
        if dtype not in FLOATS:
            raise VieteError(f"weights cannot have dtype {dtype!r:.40}; use {', '.join(FLOATS)}")
        return dtype
    stored = {info.dtype for info in file.infos.values()} & set(FLOATS)
    if framework == "numpy" and stored:
        return "float64" if "float64" in stored else "float32"
    if {"float16", "bfloat16"} <= stored:
        return "float32" if "float64" not in stored else "float64"
    return max(stored, key=FLOATS.index, default=None)


def place(device: str | None, file: TensorFile, dtype: str | None) -> str | None:
    """The device that ``device`` means: 'auto' is the GPU with the most room, if it has enough.

    Otherwise it is the CPU. Raises VieteError for a device that PyTorch cannot use.
    """
    if device is None:
        return None
    torch = require("torch", f"to load for the device {device}")
    if device == "auto":
        return roomiest(torch, weight_bytes(file, dtype))
    with on_device(device):
        torch.empty(0, device=device)
    return str(device)


def roomiest(torch: Any, wanted: int) -> str:
    """The GPU with the most free memory, if the weights and a tenth more fit, else 'cpu'."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    free = {torch.cuda.mem_get_info(k)[0]: f"cuda:{k}" for k in range(count)}
    most = max(free, default=0)
    return free[most] if most > 1.1 * wanted else "cpu"


def weight_bytes(file: TensorFile, dtype: str | None) -> int:
    """The number of bytes that a file's tensors take in a dtype."""
    return sum(prod(info.shape) * SIZES.get(dtype or info.dtype, 4) for info in file.infos.values())


# -- loading and saving ----------------------------------------------------------------------------


def load_weights(
    card: CardData, source: TensorFile | str | os.PathLike[str], framework: str = "numpy",
    dtype: str | None = None, device: str | None = None,
) -> dict[str, Array]:  # fmt: skip
    """A card's weights from a tensor file, as `run` takes them.

    ``framework`` is 'numpy' or 'torch', ``device`` a device of PyTorch; ``dtype`` ('float32', …)
    converts, otherwise the weights stay as stored. A NumPy array may be a read-only view of the
    file: copy it before changing it.

    Raises VieteError that lists every tensor that is missing, of another shape, or unused.
    """
    file = source if isinstance(source, TensorFile) else open_tensors(source)
    if dtype is not None and not (dtype in SIZES and "float" in dtype):
        raise VieteError(f"weights cannot have dtype {dtype!r}; use float32, float64 or bfloat16")
    found = match(card, file)
    if lines := problems(found):
        raise VieteError(f"{file.path} does not fit the card {card.title}:", lines=lines)
    for name in found.fits:
        if re.match(r"u?int|bool|complex", kind := file.infos[name].dtype):
            raise VieteError(
                f"{file.path}: '{name}' is {kind}, and weights are floating-point numbers"
            )
        if kind.startswith("float8"):
            raise VieteError(
                f"{file.path}: '{name}' is {kind}, which is read with a scale that these files do "
                f"not have: convert them to bfloat16 with the program that wrote them"
            )
    weights = read_weights(found, framework, dtype, device)
    like = next(iter(weights.values()), None)
    for name, numbers in given_weights(card).items():  # they are in no file but a run's
        weights.setdefault(name, in_array(numbers, like))
    shapes = parameter_shapes(card)
    assert all(tuple(weights[name].shape) == shape for name, shape in shapes.items())
    return {name: weights[name] for name in shapes}


def given_weights(card: CardData) -> dict[str, Array]:
    """The weights whose numbers come from a config."""
    names = {p.name for p in card.parameters if p.from_config}
    found = literal_weights(card) if names else {}
    return {name: found[name] for name in names & found.keys()}


def in_array(numbers: Array, like: Array) -> Array:
    """NumPy numbers as an array of the same library and dtype as another."""
    if hasattr(like, "new_tensor"):
        return like.new_tensor(numbers)
    return numbers if like is None else numbers.astype(like.dtype)


def empty(shape: Sequence[int], like: Array) -> Array:
    """An array to be filled, in the library, dtype and device of another."""
    if hasattr(like, "new_empty"):
        return like.detach().new_empty(tuple(shape))
    return np.empty(shape, np.asarray(like).dtype)


def read_weights(
    found: FileMatch, framework: str = "numpy", dtype: str | None = None, device: str | None = None
) -> dict[str, Array]:
    """The complete weights of a match that may lack others."""
    shapes = parameter_shapes(found.card)
    lacking = {w for e in (*found.missing.values(), *found.misshaped.values()) for w in e.holds}
    out: dict[str, Any] = {}
    for name, tensor in found.file.load_many(found.fits, framework, dtype, device):
        e = found.fits[name]
        array = e.read(tensor)
        for part in e.parts:
            piece = array[(*part.source, ...)]
            if part.name in lacking:
                continue
            if all(isinstance(k, slice) for k in part.target):
                out[part.name] = side_by_side(piece)
                continue
            if part.name not in out:  # a weight in pieces, one for each head
                out[part.name] = empty(shapes[part.name], piece)
            out[part.name][(*part.target, ...)] = piece
    return out


def side_by_side(array: Any) -> Any:
    """A family of matrices (…, rows, columns) laid out so that products need not move anything.

    That is the case where its members' rows, or their columns, follow each other in memory, so that
    all of them are one matrix. Otherwise (each head's query, key and value interleaved) it is
    copied, with its axes in their order in memory.
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


def to_checkpoint(card: CardData, weights: Mapping[str, Array]) -> dict[str, Array]:
    """A card's weights as the tensors of its checkpoint column: the inverse of `load_weights`.

    The arrays are NumPy's or PyTorch's as the weights are, and may be views of them.
    """
    weights = fitting(card, weights)
    return {name: e.write(assembled(e, weights)) for name, e in expected_tensors(card).items()}


def assembled(e: Expected, weights: Mapping[str, Array]) -> Array:
    """The array of a tensor before its pattern, assembled from its weights."""
    first = e.parts[0]
    if len(e.parts) == 1:
        return weights[first.name][(*first.target, ...)]
    out = empty(e.stacked, weights[first.name])
    for part in e.parts:
        piece = weights[part.name][(*part.target, ...)]
        out[(*part.source, ...)] = piece.detach() if hasattr(piece, "detach") else piece
    return out


def fitting(card: CardData, weights: Mapping[str, Array]) -> Mapping[str, Array]:
    """Weights by the card's own names. Raises VieteError for other names or shapes."""
    shapes = parameter_shapes(card)
    weights = by_own_names(card, weights, shapes)
    wrong = [f"  missing: {n}" for n in shapes if n not in weights]
    wrong += [f"  not in the card: {n}" for n in weights if n not in shapes]
    for n in shapes.keys() & weights.keys():
        if (shape := tuple(np.shape(weights[n]))) != shapes[n]:
            wrong.append(f"  {n} is {show_shape(shape)}, and the card says {show_shape(shapes[n])}")
    if wrong:
        raise VieteError(f"these weights do not fit {card.title}:", lines=wrong[:20])
    return weights


__all__ = ["FileMatch", "load_weights", "match", "to_checkpoint"]
