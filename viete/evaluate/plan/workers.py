"""Several pieces of a batch at once, each on one thread.

A thread with its own piece waits for no other. If all threads shared every product, the slowest
would delay the others after each product; on a busy machine that is most of the time. PyTorch's own
threads also spin while they wait for their next shared task, and would take the cores from these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any

MANY = 2**22  # entries, a few of them per microsecond, that are worth a second thread
Over = Callable[[slice], Any]
Spread = Callable[[Over, int], None]  # do something over 0 … n, in one or several stretches


def at_once(f: Over, count: int) -> None:
    """Call ``f`` over 0 … count in one stretch."""
    f(slice(0, count))


class Alone:
    """Limits BLAS to one thread while any caller is inside; the limit is for the whole process.

    The first caller sets the limit, and the last lifts it. If each restored the number that it had
    found, the second would leave the process with one thread for good.
    """

    def __init__(self) -> None:
        self.inside = 0
        self.restore: Callable[[], Any] | None = None
        self.lock = Lock()

    @contextmanager
    def __call__(self, blas: Any) -> Iterator[None]:
        with self.lock:
            self.inside += 1
            if self.restore is None:
                self.restore = blas.limit(limits=1).restore_original_limits
        try:
            yield
        finally:
            with self.lock:
                self.inside = max(0, self.inside - 1)  # a fork's parent is no longer inside
                if not self.inside:
                    self.leave()

    def leave(self) -> None:
        """Lift the limit."""
        restore, self.restore = self.restore, None
        if restore is not None:
            restore()

    def forked(self) -> None:
        """Reset in a forked child: the threads inside belong to the parent."""
        self.inside, self.lock = 0, Lock()
        self.leave()


alone = Alone()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=alone.forked)


class Workers:
    """As many threads as the array library would use, or ``threads``; each works separately."""

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
        self.pools: dict[int, ThreadPoolExecutor] = {}  # by process: no thread goes into a fork

    def run(self, tasks: Sequence[Callable[[], Any]]) -> None:
        """Run all tasks at once, at most one for each thread."""
        pool = self.pools.get(os.getpid())
        if pool is None:
            pool = ThreadPoolExecutor(self.count, initializer=self.no_others)
            pool = self.pools.setdefault(os.getpid(), pool)
        with alone(self.blas):
            list(pool.map(lambda task: task(), tasks))
        if self.torch:  # a new thread begins with the number set last, here the pool's 1
            import torch

            torch.set_num_threads(torch.get_num_threads())

    def spread(self, f: Over, count: int) -> None:
        """Call ``f`` over 0 … count, in one stretch for each thread.

        On NumPy in a single stretch: threads that pass Python on after every few microseconds are
        slower than one.
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
        """Keep the operations of this thread on this thread."""
        if not self.torch:
            with alone(self.blas):
                yield
            return
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def no_others(self) -> None:
        """Keep PyTorch's operations of this thread on this thread."""
        if self.torch:
            import torch

            torch.set_num_threads(1)
