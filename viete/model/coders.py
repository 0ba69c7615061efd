"""Reads transcoders and sparse autoencoders from files, to add their features to a model.

These layouts are read: the ``params.npz`` of GemmaScope (``W_enc`` d × F) and the
``params.safetensors`` of GemmaScope 2 (``w_enc`` d × F), the folders of SAELens (``cfg.json`` and
``sae_weights.safetensors``, ``W_enc`` d × F), and the folders of circuit-tracer:
``layer_0.safetensors`` … for each block (``W_enc`` F × d), or ``W_enc_0.safetensors`` and
``W_dec_0.safetensors`` … of a cross-layer transcoder, whose ``W_dec_0`` (F × later blocks × d) has
a matrix for each later block; a ``config.yaml`` beside them says what features read. A folder may
have a folder ``layer_0`` for each block with one such file or folder inside. Runs of `viete train`
on cards such as ``sae`` are read too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.formats.files import open_tensors
from viete.model.coder import READS, UNPLACED, WRITES, Coder, Coders
from viete.model.trained import MARKDOWN, is_run
from viete.model.trained_coders import learned_coder, magnitudes, widened
from viete.regular import SETTINGS, field, read_object, read_text
from viete.rewrite.transcoding import NORMS

FILES = (".npz", ".safetensors")
PATHS = (".", "/", "~")
ACROSS = re.compile(r"W_enc_(\d+)\.safetensors$")
LAYER = re.compile(r"layer_(\d+)(\.safetensors|\.npz)?$")
BLOCK = re.compile(r"blocks\.(\d+)\.(.+)$")
ARRAYS = ("W_enc", "b_enc", "W_dec", "b_dec", "threshold", "W_skip")
ALSO = {
    "activation_function.threshold": "threshold",
    "w_enc": "W_enc",
    "w_dec": "W_dec",
    "affine_skip_connection": "W_skip",
}  # circuit-tracer's name, and those of GemmaScope 2
HOOK = re.compile(r"^feature_(input|output)_hook:\s*[\"']?([\w.]+)", re.MULTILINE)
PUT = re.compile(r"(?P<writes>[^=]+)=(?P<path>[^=()]+)(\((?P<reads>[^=()]*)\))?\s*$")
KINDS = {"standard", "topk", "jumprelu", "gated", "transcoder", "skip"}  # words of architectures
AVERAGE = "expected_average_only_in"  # one factor, for all inputs
FACTOR = "finetuning_scaling_factor"  # of each feature
GATED = ("b_gate", "b_mag", "r_mag")


def read_coders(
    path: str | Path, reads: str | None = None, writes: str | None = None, block: int | None = None
) -> Coders:  # fmt: skip
    """Transcoders or autoencoders from a file or a folder, for `Model.put`.

    >>> model.put(read_coders("transcoders"))                                       # doctest: +SKIP

    ``reads`` and ``writes`` are places, by default what a file of SAELens names, or the normed
    input and the output of the MLP. ``block`` is the block of a single file, counted from 0. Raises
    VieteError for another layout, and for an activation that is not ReLU, JumpReLU, TopK or gated.
    """
    path = Path(path)
    across = False
    places: tuple[str, str] | None = None
    if is_run(path):
        learned = learned_coder(path)
        coder = Coder(learned.arrays, path, learned.k, learned.centred)
        return Coders({UNPLACED: coder}, reads or learned.reads, writes or learned.writes)
    if path.is_dir() and (found := matching(path, ACROSS)):
        blocks, across = {k: across_layers(path, k) for k in found}, True
    elif path.is_dir() and (found := matching(path, LAYER)):
        each = {k: single(inside(item)) for k, item in found.items()}
        blocks, places = {k: c for k, (c, _, _) in each.items()}, next(iter(each.values()))[1]
    else:
        coder, places, own = single(path)
        where = own if block is None else block
        blocks = {UNPLACED if where is None else where: coder}
    kinds = {(c.width, c.k, c.centred, c.norm, *sorted(c.arrays)) for c in blocks.values()}
    if len(kinds) > 1:
        raise VieteError(f"the blocks of {path} have features of different kinds or numbers")
    default = places or hooks(path) or (READS, WRITES)
    return Coders(dict(sorted(blocks.items())), reads or default[0], writes or default[1], across)


def coders_of(text: str) -> Coders | None:
    """The features in ``m^i = ./transcoders(y^i)``; None for a text without a file or folder.

    A path has a ``/`` or is that of a file of arrays. ``x^3 = sae.npz(x^3)`` is for one block.
    """
    if text.endswith(FILES) or Path(text).is_dir() or is_run(text):
        return read_coders(text)
    if text.startswith(PATHS) and not text.endswith(MARKDOWN):  # a page is one of equations
        raise VieteError(f"there is no file or folder {text}")
    found = PUT.match(text)
    path = "" if found is None else found["path"].strip()
    if found is None or not (path.endswith(FILES) or path.startswith(PATHS)
                             or ("/" in path and Path(path).exists())):  # fmt: skip
        return None
    where = Path(path).expanduser()
    if not where.exists():
        raise VieteError(f"there is no file or folder {path}")
    return read_coders(where, (found["reads"] or "").strip() or None, found["writes"].strip())


def hooks(folder: Path) -> tuple[str, str] | None:
    """The values that features read and replace, from the ``config.yaml`` of circuit-tracer."""
    config = folder / "config.yaml"
    found = dict(HOOK.findall(read_text(config, SETTINGS))) if config.is_file() else {}
    return (found.get("input", READS), found.get("output", WRITES)) if found else None


def matching(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    """The entries of a folder whose names match, by the number in the name."""
    found = ((pattern.match(item.name), item) for item in folder.iterdir())
    return {int(m[1]): item for m, item in found if m}


def inside(item: Path) -> Path:
    """The one file of weights in a folder, or the folder with a ``cfg.json``."""
    if item.is_file() or (item / "cfg.json").exists():
        return item
    files = sorted(f for f in item.rglob("*") if f.suffix in FILES)
    if len(files) != 1:
        raise VieteError(f"{item} has {len(files)} files of weights; a block needs one")
    config = files[0].parent / "cfg.json"
    return files[0].parent if config.exists() else files[0]


def single(path: Path) -> tuple[Coder, tuple[str, str] | None, int | None]:
    """The features of one block, with the values and the block that their file names."""
    if not path.is_dir():
        arrays = tensors(path)
        turned = path.suffix == ".safetensors" and "w_enc" not in arrays
        return Coder(upright(arrays, path, turned), path), None, None
    called = str(path / "cfg.json")
    config = read_object(path / "cfg.json", "configuration of features")
    config |= field(config, "metadata", called, dict, default={})
    arrays = tensors(path / "sae_weights.safetensors")
    kind = field(config, "architecture", called, str, default="standard")
    options = field(config, "activation_fn_kwargs", called, dict, default={})
    named = [field(config, key, called, str, default="relu")
             for key in ("activation_fn_str", "activation_fn")]  # fmt: skip
    if not {*kind.split("_")} <= KINDS or not {*named} <= {"relu", "topk", "jumprelu"}:
        raise VieteError(
            f"{path} has features of the kind {kind}, {' and '.join({*named})}; ReLU, JumpReLU, "
            f"TopK and gated ones can be read"
        )
    k = 0
    if "topk" in (kind, *named):
        k = field(config, "k", called, int, default=field(options, "k", called, int, default=0))
    hook = field(config, "hook_name", called, str, default="")
    out = field(config, "hook_name_out", called, str, default=hook)
    found, to = BLOCK.match(hook), BLOCK.match(out)
    centred = field(config, "apply_b_dec_to_input", called, bool, default="transcoder" not in kind)
    norm = field(config, "normalize_activations", called, str, default="none")
    arrays, norm = folded(arrays, config, called), "" if norm in ("none", AVERAGE) else norm
    if norm and norm not in NORMS:
        raise VieteError(f"{called} has normalize_activations = {norm!r:.40}, which is not read")
    if field(config, "reshape_activations", called, str, default="none") not in ("none", "hook_z"):
        raise VieteError(f"{called} has another reshape_activations than 'none' and 'hook_z'")
    coder = Coder(upright(arrays, path, False), path, k, centred, norm)
    if found and to and found[1] == to[1]:
        return coder, (found[2], to[2]), int(found[1])
    return coder, (hook, out) if hook else None, None


def folded(
    stored: Mapping[str, np.ndarray], config: Mapping[str, Any], called: str
) -> dict[str, np.ndarray]:
    """The arrays of SAELens with all in them that it keeps apart, so that they compute the same.

    Factors of features, of inputs and of rows of the decoder go into the matrices, and a gate is a
    threshold. Raises VieteError for a factor of inputs that the file does not have.
    """
    a = {name: array for name, array in stored.items() if name not in (FACTOR, "scaling_factor")}
    if missing := [x for x in ("W_enc", "W_dec", "b_dec") if x not in a]:
        raise VieteError(f"{called} has features without {missing[0]} beside it")
    if {*GATED} <= a.keys():
        a |= magnitudes(a["W_enc"], *(a.pop(name) for name in GATED))
    if "W_skip" in a:  # the matrix has what is written first
        a["W_skip"] = a["W_skip"].T
    if field(config, FACTOR, called, bool, default=False):
        factor = stored.get(FACTOR, stored.get("scaling_factor"))
        if factor is None:
            raise VieteError(f"{called} has {FACTOR}, and the file of weights does not")
        a["W_dec"] = a["W_dec"] * factor[:, None]
    if field(config, "rescale_acts_by_decoder_norm", called, bool, default=False):
        size = np.linalg.norm(a["W_dec"], axis=-1)
        a |= {"W_enc": a["W_enc"] * size, "W_dec": a["W_dec"] / size[:, None]}
        a |= {"b_enc": a["b_enc"] * size} if "b_enc" in a else {}
    if config.get("normalize_activations") == AVERAGE:
        factor = field(config, "norm_scaling_factor", called, float, default=None)
        if not factor:
            raise VieteError(
                f"{called} has normalize_activations = {AVERAGE!r}, and not the factor: write it "
                f"into the weights by fold_activation_norm_scaling_factor of SAELens, or add it to "
                f"the file as norm_scaling_factor"
            )
        a |= {"W_enc": a["W_enc"] * factor, "W_dec": a["W_dec"] / factor}
        a["b_dec"] = a["b_dec"] / factor
    return a


def across_layers(folder: Path, k: int) -> Coder:
    """The features of one block of a cross-layer transcoder."""
    stored = {
        **tensors(folder / f"W_enc_{k}.safetensors"),
        **tensors(folder / f"W_dec_{k}.safetensors"),
    }
    arrays = {name.removesuffix(f"_{k}"): a for name, a in stored.items()}
    if "W_skip" in arrays:  # here what is read comes first
        arrays["W_skip"] = arrays["W_skip"].T
    return Coder(upright(arrays, folder, True), folder)


def upright(arrays: Mapping[str, np.ndarray], source: Path, turned: bool) -> dict[str, np.ndarray]:
    """The arrays with the axis that is read first; ``turned`` arrays have the features first."""
    out = {ALSO.get(name, name): a for name, a in arrays.items()}
    if missing := [x for x in ARRAYS[:4] if x not in out]:
        raise VieteError(f"{source} has no {missing[0]}; features have W_enc, b_enc, W_dec, b_dec")
    if unread := sorted(out.keys() - {*ARRAYS}):
        raise VieteError(
            f"{source} has an unknown array {unread[0]}; the known arrays are {', '.join(ARRAYS)}"
        )
    if turned:
        out["W_enc"] = out["W_enc"].T
    if "W_skip" in out and turned:
        out["W_skip"] = out["W_skip"].T
    if (
        out["W_enc"].shape[1:] != out["b_enc"].shape
        and out["W_enc"].shape[:1] == out["b_enc"].shape
    ):
        out["W_enc"] = out["W_enc"].T
    if "threshold" in out and out["threshold"].min(initial=0) < 0:
        raise VieteError(f"{source} has a threshold below 0, at which features would be negative")
    return out


def tensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file."""
    file = open_tensors(path)
    arrays: dict[str, Any] = {name: np.asarray(file.load(name, "numpy")) for name in file.infos}
    if wrong := [name for name, a in arrays.items() if a.dtype.kind == "c"]:
        raise VieteError(f"{wrong[0]} of {path} holds complex numbers; features have real ones")
    return {name: widened(a) for name, a in arrays.items()}


__all__ = ["Coder", "Coders", "coders_of", "read_coders"]
