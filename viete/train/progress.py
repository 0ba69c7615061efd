"""What a person sees of a run: lines that stay and, on a terminal, one line that is overwritten."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from viete.printable import overwrite


class Progress:
    """Lines on stdout, and on stderr, where that is a terminal, how far the run is.

    ``first`` and ``last`` are the steps that this process begins after and ends with; ``quiet`` is
    for all but the first of several processes. ``unheard`` says that nobody reads the lines any
    more: a pipe or a terminal that was closed, a file on a disk that is full.
    """

    def __init__(self, first: int, last: int, quiet: bool = False) -> None:
        self.first, self.last, self.quiet = first, last, quiet
        self.live = sys.stderr.isatty() and not quiet
        self.unheard = False
        self.began = time.perf_counter()
        self.drawn = 0.0
        self.mark = self.began, 0  # when the last line was printed, and the tokens until then

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def rate(self, tokens: int) -> float:
        """Tokens a second since this was asked the last time, without what was done `aside`."""
        now = time.perf_counter()
        (then, before), self.mark = self.mark, (now, tokens)
        return (tokens - before) / max(now - then, 1e-9)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is done in here is no training, and `rate` does not count its time."""
        began = time.perf_counter()
        yield
        then, before = self.mark
        self.mark = then + time.perf_counter() - began, before

    def left(self, step: int) -> float:
        """The seconds that the steps to come will take, if they are like those before."""
        return self.seconds / max(1, step - self.first) * (self.last - step)

    def line(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        if not self.quiet:
            with self.listening():
                print(text, flush=True)

    def draw(self, step: int, loss: float, tokens: int) -> None:
        """The bar, ten times a second at most."""
        if not self.live or time.perf_counter() - self.drawn < 0.1:
            return
        self.drawn = time.perf_counter()
        line = (
            f" {step}/{self.last}  loss {loss:.4f}  {tokens / max(self.seconds, 1e-9):,.0f} "
            f"tokens/s  {clock(self.left(step))} left"
        )
        room = columns() - 1  # what is wider goes to a second line, and would stay
        width = max(0, min(24, room - len(line)))
        full = width * step // max(1, self.last)
        bar = "━" * full + "╌" * (width - full)
        with self.listening():
            overwrite((bar + line)[:room])

    def clear(self) -> None:
        if self.live:
            with self.listening():
                overwrite("")

    @contextmanager
    def listening(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self.unheard = True


def columns() -> int:
    """How wide the terminal is that the bar is drawn on."""
    with suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    return 80


def clock(seconds: float) -> str:
    """``1:02`` or ``3:20:00``."""
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{s:02}" if hours else f"{minutes}:{s:02}"
