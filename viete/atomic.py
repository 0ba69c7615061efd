"""Writes files completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from viete.errors import VieteError


def behind(path: Path) -> Path:
    """The target of a symbolic link, whether it exists or not; any other path unchanged.

    A link to a device or a pipe is unchanged too, so that errors have its name.
    """
    device = os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    return Path(os.path.realpath(path)) if os.path.islink(path) and not device else path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file that takes the name ``path`` once it is complete and on disk.

    If the body raises or the disk is full, the old content of ``path`` stays. Raises VieteError for
    errors of the system.
    """
    target = Path(path)
    if os.path.exists(target) and not os.path.isfile(target) and not os.path.isdir(target):
        # To put a file in its place, as root could, would break the machine.
        raise VieteError(f"{target}: cannot be written (it is a device or a pipe); it is unchanged")
    if os.path.isdir(target):  # before anything is written: of several files, none is then
        why = os.strerror(errno.EISDIR)
        raise VieteError(f"{target}: cannot be written ({why}); it is unchanged")
    temporary = target.parent / f".viete-{secrets.token_hex(8)}.tmp"
    try:
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())  # a full disk may show only here
            os.replace(temporary, target)
        except BaseException:
            if temporary.parent.is_dir():
                temporary.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise VieteError(f"{target}: cannot be written ({reason}); it is unchanged") from None
