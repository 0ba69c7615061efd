"""Writes files completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from viete.errors import VieteError, os_refusals

# Of files that take their names together: where each is and the name that it will take; and the
# folders that were made for them.
Together = tuple[list[tuple[Path, Path]], list[Path]]
WAITING: ContextVar[Together | None] = ContextVar("WAITING", default=None)


def behind(path: Path) -> Path:
    """The target of a symbolic link, whether it exists or not; any other path unchanged.

    A link to a device or a pipe is unchanged too, so that errors have its name.
    """
    device = os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    return Path(os.path.realpath(path)) if os.path.islink(path) and not device else path


@contextmanager
def together(folder: str | os.PathLike[str]) -> Iterator[None]:
    """The files that `replacing` writes in the body take their names at its end, all or none.

    ``folder`` is made if it is missing, and removed again if the body raises. So a disk that is
    full at the third file leaves no first. Within another `together`, the outer one's end counts.
    Raises VieteError for errors of the system.
    """
    outer = WAITING.get()
    files, made = ([], []) if outer is None else outer
    target = Path(folder)
    made += [path for path in (target, *target.parents) if not path.exists()]
    with os_refusals(target, "made"):
        target.mkdir(parents=True, exist_ok=True)
    if outer is not None:
        yield
        return
    before = WAITING.set((files, made))
    try:
        yield
        for temporary, path in files:
            with os_refusals(path, "written"):
                os.replace(temporary, path)
    except BaseException:
        for temporary, _ in files:
            temporary.unlink(missing_ok=True)
        for path in sorted(made, reverse=True):
            with suppress(OSError):  # somebody else wrote into it
                path.rmdir()
        raise
    finally:
        WAITING.reset(before)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file that takes the name ``path`` once it is complete and on disk.

    If the body raises or the disk is full, the old content of ``path`` stays. Raises VieteError for
    errors of the system. In `together` it takes the name with all others.
    """
    target, waiting = Path(path), WAITING.get()
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
            if waiting is None:
                os.replace(temporary, target)
            else:
                waiting[0].append((temporary, target))
        except BaseException:
            if temporary.parent.is_dir():
                temporary.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise VieteError(f"{target}: cannot be written ({reason}); it is unchanged") from None
