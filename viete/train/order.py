"""Random numbers by counting: what is drawn at step k needs nothing that came before.

Philox's (Salmon et al. 2011), whose raw stream NumPy promises to keep from version to version.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Ids = np.ndarray[Any, np.dtype[Any]]


def drawn(seed: int, stream: int, k: int, count: int) -> Ids:
    """``count`` random uint64: the k-th draw of a stream of a seed."""
    key = np.array([seed % 2**64, stream], np.uint64)
    philox = np.random.Philox(key=key, counter=np.array([0, 0, 0, k], np.uint64))
    return philox.random_raw(count)


class Order:
    """Which sequences go together, epoch by epoch.

    Shuffled, then sorted by length with ties as shuffled, then cut into batches of at most
    ``size`` (unless ``mixed`` also wherever the length changes), and the batches shuffled. So each
    epoch has equally many, and there is little to pad.
    """

    def __init__(self, lengths: Ids, size: int, mixed: bool, seed: int, stream: int) -> None:
        self.lengths, self.seed, self.stream = lengths, seed, stream
        counts = [len(lengths)] if mixed else np.unique(lengths, return_counts=True)[1].tolist()
        self.cuts: list[tuple[int, int]] = []
        begin = 0
        for count in counts:
            end = begin + count
            self.cuts += [(k, min(k + size, end)) for k in range(begin, end, size)]
            begin = end
        self.last: tuple[int, Ids, Ids] = (-1, lengths, lengths)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self.cuts)

    def batch(self, k: int) -> Ids:
        """The numbers of the sequences that make batch k."""
        epoch, place = divmod(k, len(self))
        if self.last[0] != epoch:
            random = drawn(self.seed, self.stream, epoch, len(self.lengths) + len(self))
            first = np.argsort(random[: len(self.lengths)], kind="stable")
            sequences = first[np.argsort(self.lengths[first], kind="stable")]
            batches = np.argsort(random[len(self.lengths) :], kind="stable")
            self.last = epoch, sequences, batches
        _, sequences, batches = self.last
        begin, end = self.cuts[batches[place]]
        return sequences[begin:end]


__all__ = ["Order", "drawn"]
