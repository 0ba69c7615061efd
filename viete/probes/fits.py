"""Fits of linear probes: logistic regression, nearest class means, ridge regression.

Vectors are examples in rows, (m, d). Each fit centres them and divides by one number, the root of
their mean variance, so a penalty means the same at every scale and no direction is preferred. The
result applies to the original vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

ROUNDING = 1e-5  # of single precision, through a model
STEPS = 2000  # at most, of the search for the least loss
Array = np.ndarray


@dataclass(frozen=True)
class Linear:
    """``x W + b`` of vectors x (d), with ``directions`` W (d, k) and ``offsets`` b (k)."""

    directions: Array
    offsets: Array

    def __call__(self, x: Array) -> Array:
        """The scores of examples (m, d), (m, k)."""
        return np.asarray(x @ self.directions + self.offsets)

    def classes(self, x: Array) -> Array:
        """The likeliest class of each example; with two classes, the score is the second's."""
        scores = self(x)
        return (scores[:, 0] >= 0).astype(int) if scores.shape[1] == 1 else scores.argmax(1)


@dataclass(frozen=True)
class Standard:
    """Vectors minus their mean, in units of one number."""

    mean: Array
    unit: float

    @classmethod
    def of(cls, x: Array) -> Standard:
        """The mean and the unit of examples; infinite if all are equal up to rounding."""
        mean = x.mean(0)
        unit = float(np.sqrt(np.square(x - mean).mean()))
        return cls(mean, unit if unit > ROUNDING * np.sqrt(np.square(x).mean()) else np.inf)

    def __call__(self, x: Array) -> Array:
        return (x - self.mean) / self.unit

    def undone(self, directions: Array, offsets: Array) -> Linear:
        """A fit to standard vectors, converted to the original vectors."""
        directions = directions / self.unit
        return Linear(directions, offsets - self.mean @ directions)


def logistic(x: Array, y: Array, count: int, penalty: float) -> Linear:
    """The least cross-entropy of classes ``y``, 0 … count − 1, summed, with ½ penalty |W|² added.

    Two classes have one direction, towards the second, and a sigmoid; more have a softmax.
    """
    standard, k = Standard.of(x), 1 if count == 2 else count
    z, d = standard(x), x.shape[1]
    wanted = y[:, None].astype(float) if k == 1 else np.eye(count)[y]

    def loss(flat: Array) -> tuple[float, Array]:
        w, b = flat[: d * k].reshape(d, k), flat[d * k :]
        s = z @ w + b
        if k == 1:
            entropy, p = np.logaddexp(0, s).sum() - (wanted * s).sum(), expit(s)
        else:
            whole = logsumexp(s, axis=1, keepdims=True)
            entropy, p = whole.sum() - (wanted * s).sum(), np.exp(s - whole)
        slope = np.concatenate([(z.T @ (p - wanted) + penalty * w).ravel(), (p - wanted).sum(0)])
        return float(entropy + penalty / 2 * np.square(w).sum()), slope

    options = {"maxiter": STEPS, "ftol": 1e-15, "gtol": 1e-8 * len(x), "maxcor": 20}
    found = minimize(loss, np.zeros((d + 1) * k), jac=True, method="L-BFGS-B", options=options).x
    return standard.undone(found[: d * k].reshape(d, k), found[d * k :])


def nearest_means(x: Array, y: Array, count: int, penalty: float = 0.0) -> Linear:
    """A fit to the class with the nearest mean; for two, the difference of means (mass mean)."""
    standard = Standard.of(x)
    z = x if np.isfinite(standard.unit) else np.broadcast_to(standard.mean, x.shape)
    means = np.stack([z[y == c].mean(0) for c in range(count)])
    offsets = -np.square(means).sum(1) / 2
    if count == 2:
        means, offsets = means[1:] - means[:1], offsets[1:] - offsets[:1]
    return Linear(means.T, offsets)


def ridge(x: Array, y: Array, count: int, penalty: float) -> Linear:
    """The least-squares fit of numbers ``y``, with penalty |w|² added."""
    standard = Standard.of(x)
    z, mean = standard(x), y.mean()
    u, s, v = np.linalg.svd(z, full_matrices=False)
    own = s > np.finfo(float).eps * max(z.shape) * s.max(initial=0.0)
    share = np.divide(s, s * s + penalty, out=np.zeros_like(s), where=own)
    return standard.undone((v.T @ (share * (u.T @ (y - mean))))[:, None], np.array([mean]))


def signed(vectors: Array) -> Array:
    """Vectors (k, d), each with the sign that makes the entry of the greatest size positive."""
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(1)[:, None], 1)
    return vectors * np.where(largest < 0, -1.0, 1.0)


Fit = Callable[[Array, Array, int, float], Linear]
FITS: dict[str, Fit] = {"logistic": logistic, "means": nearest_means}

__all__ = ["FITS", "Linear", "Standard", "logistic", "nearest_means", "ridge", "signed"]
