"""Several pieces of a batch at once, each on one thread.

A thread with a piece of its own waits for nobody. Where all threads share every product, the
slowest holds up the others after each: on a machine with other work that is most of the time. And
where PyTorch's own threads have done something together, they wait for the next such thing by
turning in a circle, and take the cores from these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

MANY = 2**22  # entries, a few of them per microsecond, that are worth a second thread
Over = Callable[[slice], Any]
Spread = Callable[[Over, int], None]  # do something over 0 … n, in one or several stretches


def at_once(f: Over, count: int) -> None:
    """``f`` over 0 … count, here and now."""
    f(slice(0, count))


class Workers:
    """As many threads as the array library would use, or ``threads``; each keeps to itself."""

    def __init__(self, torch: bool, threads: int | None = None) -> None:
        from threadpoolctl import ThreadpoolController

        self.torch = torch
        self.blas = ThreadpoolController().select(user_api="blas")
        if torch:
            import torch as library

            self.count = threads or library.get_num_threads()
        else:
            found = [int(x["num_threads"]) for x in self.blas.info()]
            self.count = threads or max(found, default=1)
        self.pool: ThreadPoolExecutor | None = None

    def run(self, tasks: Sequence[Callable[[], Any]]) -> None:
        """All tasks at once, at most as many as there are threads."""
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.count, initializer=self.alone)
        with self.blas.limit(limits=1):  # all threads have this limit in common
            list(self.pool.map(lambda task: task(), tasks))

    def spread(self, f: Over, count: int) -> None:
        """``f`` over 0 … count, in as many stretches as there are threads.

        In one on NumPy: threads that pass Python on after every few microseconds are slower than
        one.
        """
        if self.count == 1:
            return at_once(f, count)
        if count < MANY or not self.torch:
            with self.by_itself():
                return at_once(f, count)
        each = -(-count // self.count)
        self.run([partial(f, slice(k, min(k + each, count))) for k in range(0, count, each)])

    @contextmanager
    def by_itself(self) -> Iterator[None]:
        """Operations of this thread take no others."""
        if not self.torch:
            with self.blas.limit(limits=1):
                yield
            return
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def alone(self) -> None:
        """PyTorch's operations on this thread take no others."""
        if self.torch:
            import torch

            torch.set_num_threads(1)
