"""The command line in this process: what it prints and how it ends, without a start of Python.

A process of its own is for what only a process shows: signals, memory, imports, threads.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from typing import Any, NamedTuple, TextIO

import pytest

from viete.cli.main import main


class Ended(NamedTuple):
    """The exit code, and what was printed."""

    code: int
    out: str
    err: str


def instead(command: Sequence[str], *options: Any) -> list[str]:
    """A command with these options in place of its own: one that is given twice is refused.

    ``--set`` collects its values; no other option of the command's may be without a value.
    """
    new = {x for x in map(str, options) if x.startswith("--")} - {"--set"}
    kept = [x for before, x in pairwise(["", *command]) if not {before, x} & new]
    return [*kept, *map(str, options)]


def viete(
    *arguments: Any, code: int | None = 0, stdin: str = "", stdout: TextIO | None = None
) -> Ended:
    """``viete("show", path)`` as a person would run it; it must end with ``code``, if one is given.

    The standard streams are text in UTF-8 that no terminal shows, unless ``stdout`` is another.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["viete", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
        for library in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM"):  # put back what `train` sets
            patch.setenv(f"{library}_NUM_THREADS", "1")
        with (
            redirect_stdout(stdout or out),
            redirect_stderr(err),
            pytest.raises(SystemExit) as stopped,
        ):
            main()
    said = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    ended = Ended(int(stopped.value.code or 0), *said)
    assert code is None or ended.code == code, said[1]
    return ended
