"""Refuses files that never end, such as pipes and /dev/zero."""

from __future__ import annotations

import errno
import json
import stat
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


def read_object(path: Path, what: str, most: int = SETTINGS) -> dict[str, Any]:
    """The JSON object in a file, which should be a ``what``. Raises VieteError."""
    try:
        found = json.loads(regular(path, most).read_text("utf-8-sig"))
    except OSError as error:
        raise VieteError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise VieteError(f"{path} is not JSON: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise VieteError(f"{path} holds no JSON object, so it is not a {what}")
    return found


__all__ = ["SETTINGS", "read_object", "regular"]
