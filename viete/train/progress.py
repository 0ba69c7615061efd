"""What a person sees of a run: lines that stay and, on a terminal, one line that is overwritten."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from viete.printable import columns, overwrite


class Progress:
    """Prints lines on stdout, and the progress on stderr if that is a terminal.

    ``first`` and ``last`` are the steps that this process begins after and ends with; ``quiet`` is
    for all but the first of several processes. ``unheard`` says that nobody reads the lines any
    more: a pipe or a terminal was closed, or a file is on a full disk.
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
        """Tokens per second since the last call, without time spent `aside`."""
        now = time.perf_counter()
        (then, before), self.mark = self.mark, (now, tokens)
        return (tokens - before) / max(now - then, 1e-9)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A block that is not training, whose time `rate` does not count."""
        began = time.perf_counter()
        yield
        then, before = self.mark
        self.mark = then + time.perf_counter() - began, before

    def left(self, step: int) -> float:
        """The seconds that the remaining steps will take at the present speed."""
        return self.seconds / max(1, step - self.first) * (self.last - step)

    def line(self, text: str) -> None:
        """Print a line that stays."""
        self.clear()
        if not self.quiet:
            with self.listening():
                print(text, flush=True)

    def draw(self, step: int, loss: float, tokens: int) -> None:
        """Draw the bar, at most ten times a second."""
        if not self.live or time.perf_counter() - self.drawn < 0.1:
            return
        self.drawn = time.perf_counter()
        line = (
            f" {step}/{self.last}  loss {loss:.4f}  {tokens / max(self.seconds, 1e-9):,.0f} "
            f"tokens/s  {clock(self.left(step))} left"
        )
        width = max(0, min(24, columns() - 1 - len(line)))
        full = width * step // max(1, self.last)
        bar = "━" * full + "╌" * (width - full)
        with self.listening():
            overwrite(bar + line)

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


def clock(seconds: float) -> str:
    """``1:02`` or ``3:20:00``."""
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{s:02}" if hours else f"{minutes}:{s:02}"
