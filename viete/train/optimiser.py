"""Adam and AdamW on one flat array of weights, NumPy's or PyTorch's, with learning rate schedules.

With g the gradient at step t (Kingma & Ba 2015, algorithm 1):

    m ← β₁ m + (1 − β₁) g          v ← β₂ v + (1 − β₂) g²
    w ← w − lr · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)

AdamW first takes w ← w − lr λ w (Loshchilov & Hutter 2019, algorithm 2, with λ times the learning
rate as in PyTorch); Adam with weight decay adds λ w to g instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from viete.evaluate.plan.engine import zeros
from viete.evaluate.plan.workers import Spread, at_once
from viete.train.settings import Settings

Array = Any  # one library's
CHUNK = 32_768  # entries: five stretches of these, in float32, stay in the second-level cache


@dataclass(frozen=True)
class Span:
    """Weights ``start`` to ``stop`` of the flat array, and whether they decay."""

    start: int
    stop: int
    decays: bool


def spans(shapes: Mapping[str, tuple[int, ...]], ranks: Mapping[str, int]) -> tuple[Span, ...]:
    """The stretches of a flat array of weights, those that decay and those that do not.

    Matrices decay, biases and the γ and β of a norm do not: ``ranks`` is 2 for a matrix, and less
    for a vector, even if a family of vectors makes an array of two axes.
    """
    found: list[Span] = []
    at = 0
    for name, shape in shapes.items():
        span = Span(at, at := at + math.prod(shape), ranks[name] >= 2)
        if found and found[-1].decays == span.decays:
            span = Span(found.pop().start, span.stop, span.decays)
        found.append(span)
    return tuple(found)


class Adam:
    """The optimiser's state for one flat array: ``m``, ``v``, and the number of ``steps`` taken.

    ``Adam(flat, spans, settings)`` changes ``flat`` in place with every call; ``optimiser(gradient,
    lr)`` overwrites the gradient as scratch. ``spread`` shares the work among threads.
    """

    def __init__(
        self, flat: Array, spans: Sequence[Span], settings: Settings | None = None,
        spread: Spread = at_once,
    ) -> None:  # fmt: skip
        self.flat, self.settings = flat, settings or Settings()
        every = Span(0, len(flat), False)
        self.spans = tuple(spans) if self.settings.weight_decay else (every,)
        self.steps = 0
        self.on_numpy = isinstance(flat, np.ndarray)
        self.m, self.v = zeros(flat, len(flat)), zeros(flat, len(flat))
        self.spread = spread

    def __call__(self, gradient: Array, lr: float) -> None:
        """Take one step with a gradient."""
        self.steps += 1
        self.spread(partial(self.over, gradient, lr), len(self.flat))

    def over(self, gradient: Array, lr: float, stretch: slice) -> None:
        """Take the step for some of the weights."""
        for span in self.spans:
            start, stop = max(span.start, stretch.start), min(span.stop, stretch.stop)
            if start >= stop:
                continue
            decay = self.settings.weight_decay if span.decays else 0.0
            if not self.on_numpy:
                part = slice(start, stop)
                self.fused(part, gradient[part], lr, decay)
                continue
            scratch = np.empty(min(CHUNK, stop - start), self.flat.dtype)
            with np.errstate(all="ignore"):  # an infinite gradient is found by its norm
                for part in chunks(start, stop):
                    self.chunk(part, gradient[part], lr, decay, scratch)

    def moments(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        """Views of ``m`` and ``v`` as m/NAME and v/NAME, for weights in the flat array's order."""
        out, at = {}, 0
        for name, w in weights.items():
            part = slice(at, at := at + math.prod(w.shape))
            out[f"m/{name}"] = view_as(w, self.m[part])
            out[f"v/{name}"] = view_as(w, self.v[part])
        return out

    def load(self, moments: Mapping[str, np.ndarray], weights: Mapping[str, Array]) -> None:
        """Load the moments of a checkpoint."""
        for key, view in self.moments(weights).items():
            view[...] = moments[key] if self.on_numpy else view.new_tensor(moments[key])

    def chunk(
        self, part: slice, g: np.ndarray, lr: float, decay: float, scratch: np.ndarray
    ) -> None:
        """The module's formulas in place, on a chunk that fits the cache."""
        s = self.settings
        w, m, v, a = self.flat[part], self.m[part], self.v[part], scratch[: len(g)]
        if decay and s.optimiser == "adamw":
            np.multiply(w, 1 - lr * decay, out=w)
        elif decay:
            np.multiply(w, decay, out=a)
            np.add(g, a, out=g)
        np.multiply(g, 1 - s.beta1, out=a)
        np.multiply(m, s.beta1, out=m)
        np.add(m, a, out=m)
        np.multiply(g, g, out=a)
        np.multiply(a, 1 - s.beta2, out=a)
        np.multiply(v, s.beta2, out=v)
        np.add(v, a, out=v)
        np.sqrt(v, out=a)
        # √(v/c₂) + ε = (√v + ε √c₂) / √c₂: the corrections go to the two scalars.
        c1, c2 = 1 - s.beta1**self.steps, math.sqrt(1 - s.beta2**self.steps)
        np.add(a, s.eps * c2, out=a)
        np.divide(m, a, out=a)
        np.multiply(a, lr * c2 / c1, out=a)
        np.subtract(w, a, out=w)

    def fused(self, part: slice, g: Array, lr: float, decay: float) -> None:
        """The step by PyTorch's kernel, one pass over memory (3 × faster than the chunks above)."""
        import torch
        from torch.optim.adam import adam
        from torch.optim.adamw import adamw

        s = self.settings
        before = torch.tensor(float(self.steps - 1), device=g.device)
        (adamw if s.optimiser == "adamw" else adam)(
            [self.flat[part]], [g], [self.m[part]], [self.v[part]], [], [before],
            fused=True, amsgrad=False, beta1=s.beta1, beta2=s.beta2, lr=lr, eps=s.eps,
            weight_decay=decay, maximize=False,
        )  # fmt: skip


def learning_rate(s: Settings, step: int) -> float:
    """The learning rate of a step, numbered from 0, as in nanoGPT's ``get_lr``.

    Over the first ``warmup`` steps it rises linearly to ``lr``; then, for the cosine, it follows
    half a wave down to ``min_lr`` at the last step.
    """
    if step < s.warmup:
        return s.lr * (step + 1) / (s.warmup + 1)
    if s.schedule == "constant":
        return s.lr
    done = min(1.0, (step - s.warmup) / max(1, s.steps - s.warmup))
    return s.min_lr + 0.5 * (1 + math.cos(math.pi * done)) * (s.lr - s.min_lr)


def view_as(w: Array, flat: Array) -> Array:
    """A stretch of a flat array as a view with the shape and strides of weights."""
    if isinstance(flat, np.ndarray):
        return np.lib.stride_tricks.as_strided(flat, w.shape, w.strides)
    return flat.as_strided(tuple(w.shape), w.stride(), flat.storage_offset())


def chunks(start: int, stop: int) -> Iterator[slice]:
    return (slice(at, min(at + CHUNK, stop)) for at in range(start, stop, CHUNK))


def norm(gradient: Array, spread: Spread = at_once) -> float:
    """The Euclidean norm of the whole gradient; infinite or NaN if an entry is."""
    found: dict[int, float] = {}

    def squared(stretch: slice) -> None:
        found[stretch.start] = sum_of_squares(gradient[stretch])

    spread(squared, len(gradient))
    return math.sqrt(sum(found[k] for k in sorted(found)))


def sum_of_squares(g: Array) -> float:
    if not isinstance(g, np.ndarray):
        import torch

        return float(torch.linalg.vector_norm(g)) ** 2
    with np.errstate(all="ignore"):
        # Summed in float64 over chunks: a float32 sum of squares only covers one chunk.
        return sum(float(np.dot(g[part], g[part])) for part in chunks(0, g.size))


def clip_norm(gradient: Array, length: float, most: float, spread: Spread = at_once) -> None:
    """Scale a gradient of this ``length`` down to ``most``, keeping its direction.

    Pascanu et al. 2013, algorithm 1, with PyTorch's 10⁻⁶ in the denominator.
    """
    factor = most / (length + 1e-6)

    def shorten(stretch: slice) -> None:
        part = gradient[stretch]
        part *= factor

    if factor < 1:
        spread(shorten, len(gradient))


def clip_entries(gradient: Array, most: float) -> None:
    """Clip every entry to −most … most, which changes the gradient's direction."""
    if isinstance(gradient, np.ndarray):
        np.clip(gradient, -most, most, out=gradient)
    else:
        gradient.clamp_(-most, most)


__all__ = ["Adam", "clip_entries", "clip_norm", "learning_rate", "norm", "spans"]
