"""Files that can be read to their end: a pipe waits for ever, and /dev/zero never ends."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

SETTINGS = 16_000_000  # bytes of a file of settings: a few models keep their label names in it


def regular(path: Path, most: int | None = None) -> Path:
    """``path`` itself, to be opened; ``most`` is how many bytes it may have.

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
        said = f"it has {found.st_size:,} bytes, and at most {most:,} are read"
        raise OSError(errno.EFBIG, said, str(path))
    return path


__all__ = ["SETTINGS", "regular"]
