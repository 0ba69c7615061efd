"""Many tensors loaded at once, by threads: the system reads and converts while others wait."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic
from typing import Any

from viete.formats.tensors import TensorFile

MOST = 8  # threads: more of them would wait for the same memory
PATIENCE = 0.7  # seconds without a bar


def load_many(
    file: TensorFile, names: Iterable[str], framework: str = "numpy", dtype: str | None = None,
    device: str | None = None,
) -> Iterator[tuple[str, Any]]:  # fmt: skip
    """`TensorFile.load` of each name, in order; a bar shows how far it is where it takes long."""
    wanted = list(names)
    counts = [math.prod(file.infos[n].shape) for n in wanted]
    workers = min(MOST, os.cpu_count() or 1)
    with bar(sum(counts), f"{file.path}") as tell, ThreadPoolExecutor(workers) as pool:
        arrays = pool.map(lambda n: file.load(n, framework, dtype, device), wanted)
        for name, count, array in zip(wanted, counts, arrays, strict=True):
            yield name, array
            tell(count)


@contextmanager
def bar(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, where that is a terminal, after a moment of patience.

    Yields what is told of every number more that is done.
    """
    if not sys.stderr.isatty():
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import Progress

    began, done, shown = monotonic(), 0, False
    with Progress(console=Console(stderr=True), transient=True, auto_refresh=False) as progress:
        task = progress.add_task(what, total=total, visible=False)

        def tell(more: int) -> None:
            nonlocal done, shown
            done += more
            if shown or monotonic() - began > PATIENCE:
                shown = True
                progress.update(task, completed=done, visible=True, refresh=True)

        yield tell


__all__ = ["bar", "load_many"]
