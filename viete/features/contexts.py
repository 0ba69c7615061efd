"""Features on a corpus: how often each is active, how strongly, and in which contexts.

Texts come a batch at a time, and only what is shown is kept: for each feature the contexts of its
largest values (one for each text), contexts drawn at random from all places where it is active, and
an exact histogram of its values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BINS = 64  # of a feature's values; at least half of them lie below the greatest
BESIDE = 16  # tokens on either side of a place that are shown
TOP, DRAWN = 12, 8  # contexts of the greatest values, and of places drawn at random


@dataclass(frozen=True)
class FeatureContext:
    """A part of a text with a feature's value at each token; ``peak`` is its main token.

    ``before`` is the position in the text where it begins.
    """

    tokens: np.ndarray
    values: np.ndarray
    peak: int
    before: int

    @property
    def value(self) -> float:
        """The feature's value at the token."""
        return float(self.values[self.peak])


class PlacesKept:
    """For each feature, the places of the greatest ``keys``, with the text around them."""

    def __init__(self, features: int, count: int) -> None:
        wide = 2 * BESIDE + 1
        self.keys = np.full((features, count), -np.inf, np.float32)
        self.tokens = np.full((features, count, wide), -1, np.int32)
        self.values = np.zeros((features, count, wide), np.float32)
        self.starts = np.zeros((features, count), np.int32)

    def add(self, keys: np.ndarray, at: np.ndarray, ids: np.ndarray, values: np.ndarray) -> None:
        """Add places of some texts: ``keys`` and positions ``at`` (texts, features), −∞ for none.

        ``ids`` (texts, n) are the texts, ``values`` (texts, n, features) the features on them.
        """
        both = np.concatenate([self.keys, keys.T.astype(np.float32)], 1)
        count = self.keys.shape[1]
        best = np.argpartition(-both, count - 1, axis=1)[:, :count]
        new = (best >= count) & np.isfinite(np.take_along_axis(both, best, 1))
        old = np.where(best < count, best, 0)
        rows = np.arange(len(both))[:, None]
        changed = new.any(1)
        some = rows[changed], old[changed]
        self.tokens[changed], self.values[changed] = self.tokens[some], self.values[some]
        self.starts[changed] = self.starts[some]
        self.keys[changed] = np.take_along_axis(both, best, 1)[changed]
        features, slots = np.nonzero(new & changed[:, None])
        if not len(features):
            return
        texts = best[features, slots] - count
        spots = at[texts, features][:, None] + np.arange(-BESIDE, BESIDE + 1)
        inside = (spots >= 0) & (spots < ids.shape[1])
        spots = spots.clip(0, ids.shape[1] - 1)
        self.tokens[features, slots] = np.where(inside, ids[texts[:, None], spots], -1)
        found = values[texts[:, None], spots, features[:, None]]
        self.values[features, slots] = np.where(inside, found, 0)
        self.starts[features, slots] = at[texts, features] - BESIDE

    def of(self, feature: int) -> list[FeatureContext]:
        """The places of one feature, the greatest key first."""
        out = []
        for k in np.argsort(-self.keys[feature], kind="stable"):
            if not np.isfinite(self.keys[feature, k]):
                continue
            there = self.tokens[feature, k] >= 0
            first = int(there.argmax())
            out.append(FeatureContext(
                self.tokens[feature, k][there], self.values[feature, k][there], BESIDE - first,
                int(self.starts[feature, k]) + first))  # fmt: skip
        return out


class FeatureStatistics:
    """Counts, sums, bins and contexts of all features, over the added texts."""

    def __init__(self, features: int, seed: int = 0) -> None:
        self.texts = self.tokens = 0
        self.counts = np.zeros(features, np.int64)
        self.sums, self.squares = np.zeros(features), np.zeros(features)
        self.greatest = np.zeros(features)
        self.bins = np.zeros((features, BINS), np.int64)
        self.top, self.drawn = PlacesKept(features, TOP), PlacesKept(features, DRAWN)
        self.random = np.random.default_rng(seed)

    def add(self, ids: np.ndarray, values: np.ndarray) -> None:
        """Add texts of one length (texts, n), and the features on them (texts, n, features)."""
        flat = values.reshape(-1, values.shape[-1])
        active, each = flat > 0, values > 0
        self.texts, self.tokens = self.texts + len(ids), self.tokens + ids.size
        self.counts += active.sum(0)
        self.sums += flat.sum(0)
        self.squares += np.einsum("ij,ij->j", flat, flat)
        self.widen(flat.max(0))
        places, features = np.nonzero(active)
        scale = self.greatest_bin[features]
        index = (flat[places, features] * (BINS / scale)).astype(np.int64).clip(0, BINS - 1)
        np.add.at(self.bins, (features, index), 1)
        keys = values.max(1)
        self.top.add(np.where(keys > 0, keys, -np.inf), values.argmax(1), ids, values)
        # The greatest of m numbers that are drawn from 0 to 1 is as one to the power 1 / m.
        often = each.sum(1)
        lots = self.random.random(often.shape) ** (1 / np.maximum(often, 1))
        order = self.random.permuted(np.tile(np.arange(ids.shape[1]), (len(ids), 1)), axis=1)
        shuffled = np.take_along_axis(each, order[..., None], 1)
        at = np.take_along_axis(order, shuffled.argmax(1), 1)
        self.drawn.add(np.where(often > 0, lots, -np.inf), at, ids, values)

    @property
    def greatest_bin(self) -> np.ndarray:
        """The end of the last bin: the power of two above the greatest value."""
        return 2.0 ** np.ceil(np.log2(np.maximum(self.greatest, 1e-30)))

    def widen(self, most: np.ndarray) -> None:
        """Double the width of bins until a greater value fits."""
        before = self.greatest_bin
        self.greatest = np.maximum(self.greatest, most)
        times = np.rint(np.log2(self.greatest_bin / before)).astype(int)
        for k in np.nonzero(times)[0]:
            index = np.arange(BINS) >> min(int(times[k]), 60)
            self.bins[k] = np.bincount(index, self.bins[k], BINS).astype(np.int64)

    def histogram(self, feature: int) -> tuple[np.ndarray, float]:
        """The number of values in each bin up to the greatest, and the width of a bin."""
        wide = float(self.greatest_bin[feature]) / BINS
        last = int(np.nonzero(self.bins[feature])[0].max(initial=0))
        return self.bins[feature, : last + 1], wide


__all__ = ["FeatureContext", "FeatureStatistics"]
