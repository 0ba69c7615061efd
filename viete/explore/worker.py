"""Background work for a page: one job after the other, in threads that can be stopped."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any


class Stopped(SystemExit):
    """Raised in work that is no longer awaited, as KeyboardInterrupt is by Ctrl-C."""


class StoppableWork:
    """One piece of work; ``result`` is its outcome, `Stopped` once `stop` was called."""

    def __init__(self, do: Callable[[], Any], turn: Lock) -> None:
        self.do, self.turn = do, turn
        self.result: Future[Any] = Future()
        self.guard = Lock()
        self.thread = Thread(target=self.perform, daemon=True)  # so that Ctrl-C waits for nobody
        self.thread.start()

    def perform(self) -> None:
        """Do the work, in the thread."""
        found, error = None, None
        try:
            with self.turn:
                if not self.result.done():
                    found = self.do()
        except BaseException as e:
            error = e
        with self.guard:
            if self.result.done():
                return
            if error is not None:
                self.result.set_exception(error)
            else:
                self.result.set_result(found)

    def stop(self) -> None:
        """Raise `Stopped` in the thread, between two steps of Python: array operations finish."""
        with self.guard:
            if not self.result.done():
                self.result.set_exception(Stopped())
                thread = ctypes.c_ulong(self.thread.ident or 0)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(Stopped))


class Worker:
    """Does work in the order in which it is given; newer work of a ``kind`` stops the older."""

    def __init__(self) -> None:
        self.turn = Lock()
        self.latest: dict[str, StoppableWork] = {}

    def start(self, kind: str, do: Callable[[], Any]) -> StoppableWork:
        """Begin a piece of work. With an empty ``kind`` it stops no other work."""
        if kind and (before := self.latest.get(kind)):
            before.stop()
        work = StoppableWork(do, self.turn)
        if kind:
            self.latest[kind] = work
        return work


__all__ = ["StoppableWork", "Stopped", "Worker"]
