"""PyTorch's `.pt`, `.pth` and `.bin`, read by PyTorch's restricted loader, which runs no code."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from viete.errors import VieteError
from viete.formats.tensors import Bytes, TensorFile, from_array, info_of, require

# What training scripts call the weights in a checkpoint that holds more than these.
WRAPPERS = ("state_dict", "model_state_dict", "model", "module")


def read(file: TensorFile, data: Bytes) -> None:
    """A checkpoint's tensors under dotted names.

    A table without tensors of its own and with one of `WRAPPERS` in it is a training checkpoint:
    the weights are that entry, and the rest (an optimiser's state, a step count) is refused, by
    name; a table of settings beside them is in the file's ``metadata``. Otherwise nested tables and
    lists flatten: 'layers' -> 0 -> 'W' is 'layers.0.W'. A bare tensor is 'arr_0', as in a `.npy`.
    """
    torch = require("torch", f"{file.path}: to read a PyTorch file")
    if tuple(int(n) for n in re.findall(r"\d+", torch.__version__)[:2]) < (2, 6):
        raise VieteError(
            f"{file.path}: such a file can make PyTorch {torch.__version__} run code "
            "(CVE-2025-32434): pip install 'torch>=2.6', or convert the file to safetensors"
        )
    # The format before PyTorch 1.6 cannot be mapped, and by that suffix PyTorch takes a path for
    # safetensors, whatever is in it.
    mapped = data[:2].tobytes() == b"PK" and file.path.suffix != ".safetensors"
    try:
        # The warnings are PyTorch's, of its own old formats.
        with open(file.path, "rb") as stream, warnings.catch_warnings(action="ignore"):
            source = file.path if mapped else stream
            tree = torch.load(source, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        wants = re.search(r"GLOBAL (\S+)", str(error))
        what = f"pickled Python ({wants[1]})" if wants else "a pickle that is no table of tensors"
        raise ValueError(f"it holds {what}; save the model's state_dict() instead") from None
    # A single number, such as the best loss so far, is no weight.
    if isinstance(tree, Mapping) and not any(torch.is_tensor(x) and x.ndim for x in tree.values()):
        for key in WRAPPERS:
            if isinstance(tree.get(key), Mapping):
                for other in tree.keys() - {key}:
                    file.refuse(str(other), f"it stands beside the weights, which are in '{key}'")
                    if isinstance(settings := tree[other], Mapping):
                        file.metadata[str(other)] = _plain(settings)
                tree = tree[key]
                break
    for name, leaf in _leaves(torch, tree, ""):
        if not torch.is_tensor(leaf):
            file.refuse(name, f"it is of type {type(leaf).__name__}")
            continue
        try:
            info = info_of(name or "arr_0", leaf)
        except ValueError as error:
            file.refuse(name, f"it is {error}")
            continue
        if leaf.numel() * leaf.element_size() > data.size:  # a stride of 0 makes much of little
            file.refuse(name, f"its shape {tuple(leaf.shape)} is more than the whole file holds")
            continue
        file.add(info, partial(from_array, leaf, info))


def _leaves(torch: Any, tree: Any, name: str) -> Iterator[tuple[str, Any]]:
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(tree, Mapping):
        pairs = tree.items()
    elif isinstance(tree, list | tuple) and any(
        isinstance(t, Mapping | torch.Tensor) for t in tree
    ):
        pairs = enumerate(tree)
    else:
        yield name, tree
        return
    for key, branch in pairs:
        yield from _leaves(torch, branch, f"{name}.{key}" if name else str(key))


def _plain(settings: Mapping[Any, Any]) -> dict[str, Any]:
    """The part of a table that a config.json could hold."""
    kinds = bool | int | float | str | None
    return {
        str(k): v for k, v in settings.items()
        if isinstance(v, kinds) or (isinstance(v, list) and all(isinstance(x, kinds) for x in v))
    }  # fmt: skip
