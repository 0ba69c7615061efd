"""One run in several processes, as ``torchrun`` starts them: each computes a share of every batch.

All processes read the same batch and take their rows of it, so batch, masks and order are those of
one process. Only the first writes to the run's folder.
"""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import Any

from viete.errors import VieteError
from viete.formats.tensors import require

Array = Any
LONGEST = timedelta(days=1)  # for which one process may wait for another, as when it encodes


class Team:
    """The processes of a run; this one has number ``rank`` of ``size``."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.at_exit: list[Callable[[], None]] = []
        self.announced = False  # whether the first process has said anything to the others

    @property
    def leads(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def share(self, rows: int) -> slice:
        """This process's rows of a batch."""
        return slice(rows * self.rank // self.size, rows * (self.rank + 1) // self.size)

    def sum(self, value: float) -> float:
        """The sum of a value over all processes."""
        if self.size == 1:
            return value
        import torch

        total = torch.tensor(value, dtype=torch.float64)
        with collective():
            torch.distributed.all_reduce(total)
        return float(total)

    def any(self, asked: bool) -> bool:
        """Whether a condition is true in any process."""
        return self.sum(float(asked)) > 0

    def all_reduce(self, array: Array) -> None:
        """Replace an array, NumPy's or PyTorch's, by its sum over all processes."""
        import torch

        with collective():
            torch.distributed.all_reduce(torch.as_tensor(array))

    def broadcast(self, value: Any) -> Any:
        """The value of the first process."""
        if self.size == 1:
            return value
        import torch

        self.announced, found = True, [value]
        with collective():
            torch.distributed.broadcast_object_list(found, 0)
        return found[0]

    def leave(self) -> None:
        """Leave the group: running gloo threads would abort a process that is done."""
        import torch

        if self.leads and not self.announced:
            with suppress(VieteError):
                self.broadcast(None)  # the others wait for a message that this one cannot send
        for leave_group in self.at_exit:
            leave_group()
        gc.collect()
        torch.distributed.destroy_process_group()


@cache
def team() -> Team:
    """The processes that this one was started with, after all have connected.

    Raises VieteError if they do not connect.
    """
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if size == 1:
        return Team()
    torch = require("torch", "for several processes")
    kind = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        torch.distributed.init_process_group(kind, timeout=LONGEST)
    except (RuntimeError, ValueError) as error:
        raise VieteError(f"the {size} processes could not connect: {first_line(error)}") from None
    us = Team(rank, size)
    atexit.register(us.leave)
    return us


def own_device(device: str | None) -> str | None:
    """The device of this process: each has a separate GPU."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and team().size > 1 else device


@contextmanager
def collective() -> Iterator[None]:
    """A block that all processes execute. Raises VieteError if one of them has ended."""
    try:
        yield
    except RuntimeError as error:
        import torch

        if isinstance(error, torch.distributed.DistError) or "gloo" in str(error):
            raise VieteError(
                f"another process of this run has ended ({first_line(error)}), and has reported "
                "why if it could; the checkpoints are complete, and --resume continues from the "
                "last"
            ) from None
        raise


def first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rsplit("] ", 1)[-1]


class SharedEngine:
    """An engine in every process, with loss and gradients over the whole batch.

    A process whose share of a small batch is empty computes a row without effect, since all
    processes must take part.
    """

    def __init__(self, engine: Any, team: Team) -> None:
        self.engine, self.team = engine, team
        self.met = False
        # Whether the engine itself averages gradients over all processes.
        self.joins = hasattr(engine, "distribute")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def __call__(self, tokens: Array, /, **inputs: Array) -> float:
        engine = self.engine
        own, inputs, weight = self.local_batch(tokens, inputs)
        with collective():
            if not self.joins:
                loss = engine(own, **inputs)
                engine.flat_gradient *= weight
                self.team.all_reduce(engine.flat_gradient)
                return self.team.sum(loss * weight)
            if not self.met:
                engine.distribute(own, inputs)
                self.team.at_exit.append(engine.leave_group)
                self.met = True
            engine.factor = weight * self.team.size
            return self.team.sum(engine(own, **inputs) * weight)

    def evaluate(self, tokens: Array, /, **inputs: Array) -> float:
        own, inputs, weight = self.local_batch(tokens, inputs)
        with collective():
            return self.team.sum(self.engine.evaluate(own, **inputs) * weight)

    def local_batch(
        self, tokens: Array, inputs: Mapping[str, Array]
    ) -> tuple[Array, dict[str, Array], float]:
        """This process's rows of a batch, and their share of all rows."""
        part = self.team.share(len(tokens))
        weight = (part.stop - part.start) / len(tokens)
        part = part if weight else slice(0, 1)
        return tokens[part], {name: array[part] for name, array in inputs.items()}, weight


def data_parallel(engine: Any) -> Any:
    """The engine itself, or one that works with those of the other processes."""
    return engine if team().size == 1 else SharedEngine(engine, team())


__all__ = ["SharedEngine", "Team", "data_parallel", "own_device", "team"]
