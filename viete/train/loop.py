"""The training loop: batch, loss and gradients, clipping, an optimiser step, and the log.

Step k is the k-th update of the weights, counted from 1; its loss is that of its batch before the
update. A step only depends on the settings, the data, k, and the weights and moments in the
checkpoint. So a killed run continues with the same losses, bit for bit, on the same machine.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.inputs import host
from viete.evaluate.plan.engine import zeros
from viete.graph.card import CardData
from viete.model import checkpoints
from viete.train.batches import Batches
from viete.train.diagnosis import Divergence, culprit
from viete.train.floor import loss_floor
from viete.train.metrics import RunMetrics
from viete.train.optimiser import clip_entries, clip_norm, learning_rate
from viete.train.processes import Team
from viete.train.progress import Progress, clock
from viete.train.setup import Job
from viete.train.values import AnyBatches


@dataclass
class Outcome:
    """The end of a run: at its last ``step``, or earlier if it was ``stopped``.

    ``diverged`` is a sentence on a loss that ended far above its lowest, or else empty.
    """

    step: int
    loss: float
    validation: float | None
    stopped: bool
    diverged: str = ""


def train(job: Job, sample: Callable[[int], str] | None = None) -> Outcome:
    """Take the remaining steps, and keep the results in the run's folder.

    ``sample`` gives a text that the model writes after a step, which is shown during training.
    Ctrl-C, SIGTERM, a closed terminal and an output that cannot be written end the run after the
    current step, with a checkpoint. Raises VieteError for a loss or gradient that is not finite,
    with the first equation to blame, and for a full disk: earlier checkpoints remain in either
    case.
    """
    return Training(job, sample).run()


class Training:
    """A run in progress: ``job`` is what it needs, ``step`` the number of steps done."""

    def __init__(self, job: Job, sample: Callable[[int], str] | None = None) -> None:
        s = self.settings = job.settings
        self.job, self.engine, self.step, self.sample = job, job.engine, job.step, sample
        self.team = job.team
        flat = job.engine.flat_gradient
        self.total = zeros(flat, len(flat)) if s.accumulate > 1 else None
        before = {} if job.last is None else job.last.state
        self.loss, self.gradient_norm = float(before.get("loss", math.nan)), 0.0
        self.tokens, self.counted = 0, before.get("tokens", 0)  # of this process; before it
        self.validation: float | None = before.get("validation")
        self.validated = -1  # the step after which it was measured, by this process
        self.least = math.inf  # of the validation losses of the checkpoints
        self.divergence = Divergence(before.get("lowest"), before.get("rise"))
        self.saved = self.step
        self.progress = Progress(self.step, s.steps, quiet=not self.team.leads)
        self.metrics: RunMetrics | None = None  # of the process that writes
        self.floor: float | None = None  # of the training data, noted with the first step

    def run(self) -> Outcome:
        s, job = self.settings, self.job
        try:
            with stopping(self.team) as stopped:
                with job.start:
                    if not self.step:
                        self.measure()
                        with self.progress.aside():
                            self.floor = self.least_loss()
                            self.validate()
                            if 0 in s.steps_saved and job.last is None:
                                self.save()
                    more = self.advance(stopped)
                if job.step:
                    self.measure()
                if self.team.leads:
                    checkpoints.prune(
                        job.run, s.keep, s.steps_saved
                    )  # those a killed run had no time to delete
                self.least = self.team.broadcast(min(checkpoints.validations(job.run).values(),
                                                default=math.inf))  # fmt: skip
                while more:
                    self.after_step()
                    more = self.advance(stopped)
            if self.saved < self.step:
                self.save()
        finally:
            self.progress.clear()
            if self.metrics:
                self.metrics.close()
            if job.lock:
                job.lock.close()
        if self.floor is None and self.divergence.rise:  # the run was resumed
            self.floor = self.least_loss()
        diverged = self.divergence.sentence(s, self.floor)
        return Outcome(self.step, self.loss, self.validation, self.step < s.steps, diverged)

    def least_loss(self) -> float | None:
        """The floor of the loss, for texts and only in the process that writes."""
        batches = self.job.batches
        return loss_floor(batches) if self.metrics and isinstance(batches, Batches) else None

    def measure(self) -> None:
        """Begin to record metrics after the step at which the run began or resumed."""
        if self.team.leads:
            self.metrics = RunMetrics(self.job.run, self.job.step, self.settings.tensorboard)

    def advance(self, stopped: list[int]) -> bool:
        """Take a step, unless all are done or a stop was requested."""
        if self.step >= self.settings.steps or self.team.any(
            bool(stopped) or self.progress.unheard
        ):
            return False
        self.take_step()
        return True

    # -- one step ----------------------------------------------------------------------------------

    def take_step(self) -> None:
        """Take one step of the optimiser."""
        s, gradient = self.settings, self.engine.flat_gradient
        first = self.step * s.accumulate
        batches = self.step_batches(first)
        self.loss = self.forward_and_back(batches[0])
        if self.total is not None:
            self.total[...] = gradient
            for batch in batches[1:]:
                self.loss += self.forward_and_back(batch)
                self.total += gradient
            self.loss /= s.accumulate
            self.total /= s.accumulate
            gradient = self.total
        if s.clip_entries:
            clip_entries(gradient, s.clip_entries)
        self.gradient_norm = self.engine.norm(gradient)
        if not math.isfinite(self.gradient_norm):
            what = f"the gradient of step {self.step + 1} is {self.gradient_norm}"
            raise self.not_finite(what, self.engine.model, batches[0])
        if s.clip:
            clip_norm(gradient, self.gradient_norm, s.clip, self.engine.spread)
        self.job.optimiser(gradient, learning_rate(s, self.step))
        self.step += 1
        self.divergence.add(self.step, self.loss)

    def forward_and_back(self, batch: dict[str, Any]) -> float:
        """The loss on a batch; its gradients are left in the engine."""
        tokens, *rest = batch
        self.tokens += math.prod(batch[tokens].shape[:2])
        loss = self.engine(batch[tokens], **{name: batch[name] for name in rest})
        if not math.isfinite(loss):
            what = f"the loss of step {self.step + 1} is {loss}"
            raise self.not_finite(what, self.engine.model, batch)
        return loss

    def step_batches(self, first: int) -> list[dict[str, Any]]:
        """The batches of a step from number ``first`` on, with masks and the portions of texts."""
        numbers, shares = range(first, first + self.settings.accumulate), self.job.shares
        batches = [self.job.batches.batch(k) for k in numbers]
        if shares is not None:
            rows = [len(next(iter(batch.values()))) for batch in batches]
            total = sum(shares.total(batch) for batch in batches) / len(batches)
            batches = [shares.of(b, total / n) for b, n in zip(batches, rows, strict=True)]
        return [{**b, **self.drawn(k, b)} for k, b in zip(numbers, batches, strict=True)]

    def drawn(self, k: int, batch: dict[str, Any]) -> dict[str, Any]:
        """The masks for dropout in batch k."""
        rows, length = next(iter(batch.values())).shape[:2]
        return self.job.masks.draw(self.settings.seed, k, length, rows, self.settings.dtype)

    def not_finite(self, what: str, card: CardData, batch: dict[str, Any]) -> VieteError:
        """The error for a loss, a gradient or weights that are not finite."""
        there = checkpoints.steps(self.job.run)
        kept = f"; the last checkpoint is that of step {there[-1]}" if there else ""
        weights = self.engine.gather(self.engine.weights)
        if not self.team.leads:
            raise SystemExit(2)  # the loss is common to all, and the first process reports it
        why = culprit(card, batch, weights)
        return VieteError(
            f"{what}; {why}{kept}; try a smaller --lr, a longer --warmup or a smaller --clip"
        )

    # -- between steps -----------------------------------------------------------------------------

    def after_step(self) -> None:
        """After a step: a log line, a validation or a checkpoint, if due."""
        s = self.settings
        if s.log_every and (self.step % s.log_every == 0 or self.step in (1, s.steps)):
            self.log()
        self.progress.draw(self.step, self.loss, self.tokens)
        save = (bool(s.save_every) and self.step % s.save_every == 0) or self.step == s.steps
        save |= self.step in s.steps_saved
        with self.progress.aside():
            if save or (s.eval_every and self.step % s.eval_every == 0):
                self.validate()
                save |= self.validation is not None and self.validation < self.least
            if self.sample and s.sample_every and self.step % s.sample_every == 0:
                self.progress.line(f"step {self.step:>6}  {self.sample(self.step)}")
            if save:
                self.save()

    def log(self) -> None:
        lr = learning_rate(self.settings, self.step - 1)
        speed = self.progress.rate(self.tokens)
        left = self.progress.left(self.step)
        first = {"floor": self.floor} if self.step == 1 and self.floor is not None else {}
        self.note(loss=self.loss, **first, lr=lr, norm=self.gradient_norm,
                  tokens=self.counted + self.tokens, tokens_per_second=round(speed),
                  seconds=round(self.progress.seconds, 3))  # fmt: skip
        self.progress.line(
            f"step {self.step:>6}  loss {self.loss:.6f}  lr {lr:.3g}  norm "
            f"{self.gradient_norm:.3g}  {speed:,.0f} tokens/s  {clock(left)} left"
        )

    def note(self, **values: float) -> None:
        if self.metrics:
            self.metrics(self.step, **values)

    def validate(self) -> None:
        """Measure the mean loss on sequences of the validation part, the same every time."""
        batches = self.job.validation
        if batches is None:
            return
        self.validation, self.validated = self.mean_loss(batches), self.step
        self.note(validation=self.validation)
        self.progress.line(f"step {self.step:>6}  validation loss {self.validation:.6f}")

    def mean_loss(self, batches: AnyBatches) -> float:
        total, count = 0.0, 0.0
        shares = self.job.shares
        card = self.job.model if shares is None else shares.card
        for batch in batches.evaluation(self.settings.eval_sequences):
            tokens, *rest = batch
            weight = float(len(batch[tokens]))
            if shares is not None:
                weight, batch = shares.total(batch), shares.of(batch)
                rest.append(shares.name)
            if not weight:  # no text with a target
                continue
            loss = self.engine.evaluate(batch[tokens], **{name: batch[name] for name in rest})
            if not math.isfinite(loss):
                what = f"the validation loss after step {self.step} is {loss}"
                raise self.not_finite(what, card, batch)
            total, count = total + weight * loss, count + weight
        if not count:
            raise VieteError("no text of the validation part has a word that counts in the loss")
        return total / count

    def save(self) -> None:
        job = self.job
        validation = self.validation if self.validated == self.step else None
        state = {
            "step": self.step, "title": job.model.title, "card": job.card,
            "validation": validation, "loss": self.loss,
            "lowest": self.divergence.lowest, "rise": self.divergence.rise,
            "optimiser steps": job.optimiser.steps,
            "tokens": self.counted + self.tokens,
            # All that is random is a function of the seed and of these two numbers.
            "seed": self.settings.seed, "next batch": self.step * self.settings.accumulate,
            "batches": job.batches.state,
        }  # fmt: skip
        own = job.engine.weights
        if self.team.any(not all(np.isfinite(host(w)).all() for w in own.values())):
            what = f"the step {self.step} left weights that are not finite, and is not saved"
            raise self.not_finite(what, job.model, job.batches.batch(0))  # nothing to go on from
        self.saved = self.step
        if validation is not None:
            self.least = min(self.least, validation)
        tables = [job.engine.for_checkpoint(x) for x in (own, job.optimiser.moments(own))]
        if not self.team.leads:
            return
        checkpoints.save(job.run, state, *tables)
        checkpoints.prune(job.run, self.settings.keep, self.settings.steps_saved)


@contextmanager
def stopping(team: Team) -> Iterator[list[int]]:
    """Yields a list that is non-empty once a signal asks the run to stop.

    A second Ctrl-C stops at once; not with several processes, to which ``torchrun`` forwards the
    first one that they already had from the terminal.
    """
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if asked and number == signal.SIGINT and team.size == 1:
            raise KeyboardInterrupt
        asked.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)  # not on Windows
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:  # as nohup has it
        numbers.append(hangup)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


__all__ = ["Outcome", "train"]
