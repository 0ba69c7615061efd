"""Trains linear probes: what can be read from a vector of a model, on texts the probe has not seen.

The texts are split once: a probe is fitted to one part and measured on the other. Its accuracy is
reported beside two baselines: always the most frequent class, and a probe of shuffled labels (a
control task: Hewitt & Liang 2019). Accuracy is the mean over texts of the share of correct
examples, so the positions of one text do not count as independent. The interval is Wilson's at 95
%, with as many trials as held-out texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod, sqrt

import numpy as np

from viete.document.displayed import Displayed
from viete.document.rendering import render
from viete.document.tree import Block
from viete.errors import VieteError
from viete.probes.examples import ProbeExamples
from viete.probes.fits import FITS, Fit, Linear, ridge
from viete.probes.table import probe_table

NORMAL = 1.959963984540054  # of 95%, both sides
SHUFFLES, RESAMPLES = 3, 1000
DRAWN = 48  # texts, where they are drawn
Array = np.ndarray


@dataclass(frozen=True)
class ProbeScore:
    """The accuracy of a probe on held-out texts, from ``low`` to ``high`` at 95%.

    ``constant`` is the accuracy without the vector, ``shuffled`` with shuffled labels. For classes
    these are shares of examples, for numbers the share of their variance (R²).
    """

    value: float
    low: float
    high: float
    constant: float
    shuffled: float


class Probes(Displayed):
    """A probe for each place of a family of vectors, each fitted and measured on the same texts.

    ``method`` is 'logistic' or 'means'; numbers are learned by ridge regression. ``penalty`` is on
    the squared length of the directions, for vectors in standard units. ``held`` is the share of
    held-out texts, drawn with ``seed``. Raises VieteError where too few texts are left.
    """

    def __init__(
        self, examples: ProbeExamples, method: str = "logistic", held: float = 0.25,
        penalty: float = 1.0, seed: int = 0,
    ) -> None:  # fmt: skip
        if method not in FITS:
            raise VieteError(
                f"the method of a probe must be {' or '.join(FITS)}, not {method!r:.40}"
            )
        if not 0 < held < 1:
            raise VieteError(f"the share of held-out texts must be between 0 and 1, not {held}")
        if not 0 < penalty < inf:
            raise VieteError(f"the penalty must be a finite number above 0, not {penalty}")
        if method == "means" and not examples.classes:
            raise VieteError(
                f"{examples.label} is a number, and the method 'means' needs classes; leave out "
                f"the method, and numbers are fitted by ridge regression"
            )
        self.examples, self.method, self.penalty, self.seed = examples, method, penalty, seed
        self.held = held_out(examples, held, seed)
        self.train = [k for k in range(len(examples.texts)) if k not in set(self.held)]
        seen = {int(c) for k in self.train for c in examples.codes[k]} if examples.classes else {}
        absent = [c for k, c in enumerate(examples.classes) if k not in seen]
        if not self.train or absent:
            raise VieteError(
                f"of {len(examples.texts)} texts {len(self.train)} are to learn from, and "
                + (f"none of them is {absent[0]}; give more texts" if absent else "give more texts")
            )

    # -- fits --------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of classes; 0 for numbers."""
        return len(self.examples.classes)

    @property
    def places(self) -> int:
        """The number of probes."""
        return prod(self.examples.places.shape)

    def fitted(self, place: int, method: str | None = None) -> Linear:
        """The probe of one place."""
        return self.fit(method or self.method)(*self.examples.at(place, self.train), self.count,
                                               self.penalty)  # fmt: skip

    def fit(self, method: str) -> Fit:
        """The function that fits a probe."""
        return FITS[method] if self.count else ridge

    @cached_property
    def probes(self) -> tuple[Linear, ...]:
        """All probes, one for each place."""
        return tuple(map(self.fitted, range(self.places)))

    @property
    def one(self) -> Linear:
        """The only probe. Raises VieteError where there are several."""
        if self.places > 1:
            raise VieteError(
                f"{self.examples.of} is {self.places} vectors of each text; write a number for "
                f"{', '.join(self.examples.places.axes)}"
            )
        return self.probes[0]

    # -- scores ------------------------------------------------------------------------------------

    @cached_property
    def scores(self) -> tuple[ProbeScore, ...]:
        """The accuracy of each probe on the held-out texts."""
        return tuple(map(self.score, range(self.places)))

    def score(self, place: int) -> ProbeScore:
        """The accuracy of the probe of one place, with its comparisons."""
        right = self.right(self.probes[place], place, self.examples.codes)
        shuffled = [self.right(*self.control(place, k)) for k in range(SHUFFLES)]
        value = self.share(right)
        low, high = self.interval(right)
        return ProbeScore(value, low, high, self.constant,
                          float(np.mean([self.share(r) for r in shuffled])))  # fmt: skip

    def accuracy(self, probe: Linear, place: int = 0) -> float:
        """The accuracy of another probe at a place."""
        return self.share(self.right(probe, place, self.examples.codes))

    def control(self, place: int, k: int) -> tuple[Linear, int, Sequence[Array]]:
        """A probe of labels shuffled over all examples."""
        codes = self.examples.codes
        dealt = np.random.default_rng([self.seed, k]).permutation(np.concatenate(codes))
        new = np.split(dealt, np.cumsum([len(c) for c in codes])[:-1])
        if self.count:  # every class is learned, so that each has a mean
            train = np.concatenate([new[j] for j in self.train])
            if len(np.unique(train)) < self.count:
                new = list(codes)
        x, _ = self.examples.at(place, self.train)
        y = np.concatenate([new[j] for j in self.train])
        return self.fit(self.method)(x, y, self.count, self.penalty), place, new

    def right(self, probe: Linear, place: int, codes: Sequence[Array]) -> Array:
        """For each held-out text the share that is right and 1; for numbers (explained, total)."""
        out = []
        mean = np.mean(np.concatenate([codes[k] for k in self.train]))
        for k in self.held:
            x = self.examples.vectors[k].values[place]
            if self.count:
                out.append((np.mean(probe.classes(x) == codes[k]), 1.0))
            else:
                lost, there = np.square(probe(x)[:, 0] - codes[k]), np.square(mean - codes[k])
                out.append((np.mean(there) - np.mean(lost), np.mean(there)))
        return np.array(out)

    @staticmethod
    def share(right: Array) -> float:
        """The share that is right of all."""
        of = right[:, 1].sum()
        return float(right[:, 0].sum() / of) if of else 0.0

    @property
    def constant(self) -> float:
        """The share of the most frequent class; 0 for numbers, which are guessed by their mean."""
        if not self.count:
            return 0.0
        codes = self.examples.codes
        counts = np.bincount(np.concatenate([codes[k] for k in self.train]), minlength=self.count)
        return float(np.mean([np.mean(codes[k] == counts.argmax()) for k in self.held]))

    def interval(self, right: Array) -> tuple[float, float]:
        """Wilson's interval; for numbers the middle 95% over resampled texts (bootstrap)."""
        if self.count:
            return wilson(self.share(right), len(right))
        draw = np.random.default_rng([self.seed, len(right)])
        rows = draw.integers(0, len(right), (RESAMPLES, len(right)))
        low, high = np.quantile([self.share(right[row]) for row in rows], [0.025, 0.975])
        return float(low), float(high)

    def page(self, style: str = "unicode") -> list[Block]:
        """The accuracy, beside that without the probe."""
        return list(probe_table(self))

    def __str__(self) -> str:
        return render(self.page(), "text")

    # -- without its directions --------------------------------------------------------------------

    @cached_property
    def middle(self) -> Array:
        """The mean of the training vectors, (d)."""
        return np.asarray(self.examples.at(0, self.train)[0].mean(0))

    @property
    def basis(self) -> Array:
        """Orthonormal directions with the same span as the probe's, (d, r)."""
        u, s, _ = np.linalg.svd(self.one.directions, full_matrices=False)
        return np.asarray(u[:, s > 1e-9 * s.max(initial=0.0)])

    @property
    def step(self) -> Array:
        """One step along the only direction, (d).

        It goes from the mean of one class to that of the other, or is a standard deviation of
        numbers.
        """
        (x, y), w = self.examples.at(0, self.train), self.one.directions[:, 0]
        along = x @ w
        size = along[y == 1].mean() - along[y == 0].mean() if self.count else along.std()
        return np.asarray(w * (size / (w @ w)))

    def erased(self) -> tuple[float, float]:
        """The accuracy of this probe without its directions, and of one that is fitted again.

        The part of each vector along them is replaced by that of the mean.
        """
        basis, middle = self.basis, self.middle
        x, y = self.examples.at(0, self.train)
        new = self.fit("logistic")(without(x, basis, middle), y, self.count, self.penalty)

        def of(probe: Linear) -> Linear:
            w = probe.directions
            rest = w - basis @ (basis.T @ w)
            return Linear(rest, probe.offsets + middle @ (w - rest))

        return self.accuracy(of(self.one)), self.accuracy(of(new))


def held_out(examples: ProbeExamples, share: float, seed: int) -> list[int]:
    """The held-out texts: the same share of each class, where a text has one class."""
    order = np.random.default_rng(seed).permutation(len(examples.texts)).tolist()
    groups: dict[int, list[int]] = {}
    for k in order:
        one = bool(examples.classes) and not examples.letters
        groups.setdefault(int(examples.codes[k][0]) if one else 0, []).append(k)
    found = [k for group in groups.values() for k in group[: round(share * len(group))]]
    return sorted(found or order[:1])


def without(x: Array, basis: Array, middle: Array) -> Array:
    """Vectors (m, d) whose part along a basis (d, r) is replaced by that of their ``middle``."""
    return np.asarray(x - (x - middle) @ basis @ basis.T)


def wilson(share: float, count: int) -> tuple[float, float]:
    """The interval of a share of ``count`` trials, at 95% (Wilson 1927)."""
    z2 = NORMAL**2 / count
    middle = (share + z2 / 2) / (1 + z2)
    half = sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
    return max(0.0, middle - half), min(1.0, middle + half)


__all__ = ["DRAWN", "ProbeScore", "Probes"]
