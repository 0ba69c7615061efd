"""A card's dimensions from a Hugging Face ``config.json``.

The card says how. The ``config`` column of its Dimensions table names the key that each dimension
is kept under: ``rope_parameters.rope_theta, rope_theta or missing``. A dot goes into a nested
object, of several keys the first that is there counts, and ``or missing`` lets the card's own
value stand where none is. Bullets in front of the first section say what else must hold, since it
changes the function and the equations do not vary with it::

    - **config hidden_act**: gelu_new, gelu_pytorch_tanh or missing
    - **config rope_scaling**: missing

A key whose value is null is missing, as it is to `transformers`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import Any

from viete.algebra.model import Dimension, Model
from viete.errors import VieteError

MAX_BYTES = 16_000_000  # a few models keep their label names in it


def bind_config(model: Model, config: Mapping[str, Any] | str | Path) -> Model:
    """The model with the dimensions of ``config``: a mapping, a ``config.json``, or its folder.

    A value in the config replaces the card's, a float by the decimal that it prints as (1e-05 is
    1/100000). Where the key is missing, a value defined by other dimensions (``d_f = 4 d``) stands;
    a plain number is one released size's and stands only if the card says ``or missing``.

    Raises VieteError, naming the file, the key and the dimension, for a key that is missing or no
    number, a setting that the card does not describe, a file that is no JSON object, and a card
    that names no keys.
    """
    name, values = ("the config", config) if isinstance(config, Mapping) else read_json(config)
    if not any(d.config for d in model.dims):
        raise VieteError(
            f"the card {model.title} names no keys of a config.json; its Dimensions table would "
            f"have them in a column 'config'"
        )
    check_settings(model, values, name)
    found = {d.name: value_of(model, d, values, name) for d in model.dims}
    return model.bind(**{dim: x for dim, x in found.items() if x is not None})


def read_json(path: str | Path) -> tuple[str, Mapping[str, Any]]:
    """The name of a ``config.json``, given it or its folder, and the object in it."""
    if not isinstance(path, str | Path):
        raise VieteError(f"a config is a mapping or a path, not {type(path).__name__}")
    path = Path(path)
    try:
        path = path / "config.json" if path.is_dir() else path
        if (size := path.stat().st_size) > MAX_BYTES:
            raise VieteError(f"{path} has {size:,} bytes; a config.json has at most {MAX_BYTES:,}")
        found = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise VieteError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise VieteError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise VieteError(f"{path} holds no JSON object, so it is no config.json")
    return str(path), found


def choices(text: str) -> tuple[list[str], bool]:
    """``a, b or missing`` as (a, b) and whether ``missing`` is among them."""
    words = [w for w in re.split(r"\s*,\s*|\s+or\s+", text.replace("`", "").strip()) if w]
    return [w for w in words if w != "missing"], "missing" in words


def look_up(values: Mapping[str, Any], keys: list[str]) -> tuple[str, Any]:
    """The first of the keys that has a value, with that value; ("", None) if none has."""
    for key in keys:
        found: Any = values
        for part in key.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is not None:
            return key, found
    return "", None


def check_settings(model: Model, values: Mapping[str, Any], file: str) -> None:
    """That the card's ``config …`` facts hold."""
    for fact, wanted in model.facts:
        if not fact.startswith("config "):
            continue
        keys, _ = choices(fact.removeprefix("config "))
        allowed, optional = choices(wanted)
        key, found = look_up(values, keys)
        said = found if isinstance(found, str) else json.dumps(found, default=str)
        if optional if found is None else said in allowed:
            continue
        what = f"{key} is {said}" if key else f"{' or '.join(keys)} is missing"
        raise VieteError(f"{file}: {what}, and the card {model.title} is for {wanted}")


def value_of(model: Model, dim: Dimension, values: Mapping[str, Any], file: str) -> Fraction | None:
    """What the config gives a dimension, or None where the card's own value stands."""
    keys, optional = choices(dim.config)
    key, found = look_up(values, keys)
    if found is None:
        if keys and not optional and not is_derived(model, dim):
            raise VieteError(f"{file}: {' or '.join(keys)} is missing, which gives {dim.name}")
        return None
    try:
        if isinstance(found, bool) or not isinstance(found, Real):
            raise ValueError
        return Fraction(str(found))
    except ValueError:  # so are nan and infinity
        raise VieteError(
            f"{file}: {key} gives {dim.name}, so it must be a number, not {found!r}"
        ) from None


def is_derived(model: Model, dim: Dimension) -> bool:
    """Whether the card defines it by other dimensions, as in ``d_f = 4 d``."""
    value = dim.at_most if dim.value is None else dim.value
    size = None if value is None else model.size(value)
    return size is not None and size.number() is None
