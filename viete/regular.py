"""Reads files of others: none that never ends, such as a pipe, and JSON with what it should hold.

All JSON is decoded here (`tests/laws/test_house.py`), because Python's decoder fails in three ways
of which one is no ValueError.
"""

from __future__ import annotations

import errno
import json
import math
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from viete.errors import VieteError

SETTINGS = 16_000_000  # bytes of a file of settings: a few models keep their label names in it


def regular(path: Path, most: int | None = None) -> Path:
    """``path``, checked to be a file of at most ``most`` bytes.

    A pipe that the shell made (``<(command)``) is named in /dev, and read. Raises OSError for any
    other pipe, for a device and for a file that is too long; what is not there, or is a folder, is
    left to whoever opens it.
    """
    try:
        found = path.stat()
    except OSError:
        return path
    mode = found.st_mode
    from_shell = stat.S_ISFIFO(mode) and path.is_relative_to("/dev")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or from_shell):
        raise OSError(errno.EINVAL, "it is a pipe or a device", str(path))
    if most is not None and found.st_size > most:
        reason = f"it has {found.st_size:,} bytes, and at most {most:,} are read"
        raise OSError(errno.EFBIG, reason, str(path))
    return path


def decoded(text: str | bytes, **hooks: Any) -> Any:
    """What a JSON text says. Raises ValueError, also for thousands of brackets.

    ``hooks`` are those of `json.loads`.
    """
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def read_text(path: Path, most: int | None = None) -> str:
    """The text of a file, without the mark that some begin with. Raises VieteError."""
    try:
        return regular(path, most).read_text("utf-8-sig")
    except OSError as error:
        raise VieteError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise VieteError(f"{path} is no text in UTF-8") from None


def read_object(path: Path, what: str, most: int = SETTINGS) -> dict[str, Any]:
    """The JSON object in a file, which should be a ``what``. Raises VieteError."""
    try:
        found = decoded(regular(path, most).read_text("utf-8-sig"))
    except OSError as error:
        raise VieteError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise VieteError(f"{path} is not JSON: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise VieteError(f"{path} holds no JSON object, so it is not a {what}")
    return found


KINDS: dict[type, str] = {
    str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list",
    dict: "an object", type(None): "null",
}  # fmt: skip


def field(table: Any, key: str, called: str, *kinds: type, default: Any = ...) -> Any:
    """An entry of a JSON object, of one of the given types; ``called`` is the object's name.

    A missing entry, and null, are the ``default``. A number is finite, and may be whole where a
    `float` is wanted; true is no number. Raises VieteError for anything else.
    """
    if not isinstance(table, Mapping):
        raise VieteError(f"{called} is not an object")
    found = table.get(key)
    if key not in table or (found is None and type(None) not in kinds):
        if default is ...:
            raise VieteError(f"{called} has no {key}")
        return default
    if type(found) in kinds and (type(found) is not float or math.isfinite(found)):
        return found
    if type(found) is int and float in kinds and abs(found) < 2**1000:
        return float(found)
    wanted = " or ".join(KINDS[kind] for kind in kinds)
    raise VieteError(f"{called} has {key} = {found!r:.40}, which must be {wanted}")


__all__ = ["SETTINGS", "decoded", "field", "read_object", "read_text", "regular"]
