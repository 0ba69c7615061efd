"""Several pieces of a batch at once, each on one thread.

A thread with a piece of its own waits for nobody. Where all threads share every product, the
slowest holds up the others after each: on a machine with other work that is most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Workers:
    """As many threads as the array library would use, or ``threads``; each keeps to itself."""

    def __init__(self, torch: bool, threads: int | None = None) -> None:
        self.torch = torch
        if torch:
            import torch as library

            self.count = threads or library.get_num_threads()
        else:
            from threadpoolctl import ThreadpoolController

            self.blas = ThreadpoolController().select(user_api="blas")
            found = [int(x["num_threads"]) for x in self.blas.info()]
            self.count = threads or max(found, default=1)
        self.pool: ThreadPoolExecutor | None = None

    def run(self, tasks: Sequence[Callable[[], Any]]) -> None:
        """All tasks at once, at most as many as there are threads."""
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.count, initializer=self.alone)
        if self.torch:
            list(self.pool.map(lambda task: task(), tasks))
        else:
            with self.blas.limit(limits=1):  # all threads have this limit in common
                list(self.pool.map(lambda task: task(), tasks))

    def alone(self) -> None:
        """PyTorch's operations on this thread take no others."""
        if self.torch:
            import torch

            torch.set_num_threads(1)
