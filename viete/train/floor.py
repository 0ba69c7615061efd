"""The floor of a loss: no model that only sees the preceding text can have a lower mean loss.

Where a text continues in several ways after the same beginning, the best model gives each way its
frequency. So the floor is the conditional entropy of the next token given its whole prefix, from
the first token of the sequence or window on:

    sum_{prefix, token} m(prefix, token) log(m(prefix) / m(prefix, token)) / m(all)

where m counts as the loss does: the mean over all targets, or over sequences that are each a mean
over its targets. It is exact for the
sequences or windows from which training batches are drawn. The mean loss of an epoch, with every
target counted alike, cannot be below it; the loss of a single batch can.
"""

from __future__ import annotations

import numpy as np

from viete.text.vocabulary import Ids
from viete.train.batches import Batches

MOST = 1 << 21  # tokens: for a longer text the floor takes too long to count


def loss_floor(batches: Batches) -> float | None:
    """The least mean loss on the data of ``batches``, in nats.

    None for a card whose positions see later ones, whose loss is more than a mean of
    cross-entropies of the next tokens, or for a text of more than `MOST` tokens.
    """
    if not batches.takes.causal or batches.takes.targets is None or len(batches.data) > MOST:
        return None
    starts, ends = batches.spans()
    counts = batches.data.own if batches.settings.loss_on == "assistant" else None
    if counts is None:
        total = ends - starts - 1
    else:
        before = np.concatenate([[0], np.cumsum(counts)])
        total = before[ends] - before[starts + 1]
        starts, ends, total = (x[total > 0] for x in (starts, ends, total))
    every = batches.takes.weights is not None and batches.settings.mean == "targets"
    mass = np.ones(len(total)) if every else 1.0 / total
    return entropy(batches.data.ids, starts, ends, mass, counts) / max(1, (mass * total).sum())


def entropy(ids: Ids, starts: Ids, ends: Ids, mass: np.ndarray, counts: Ids | None) -> float:
    """The least cost of all next tokens, summed over all sequences ``ids[start:end]``.

    ``mass`` is the weight of a position in each sequence, to be multiplied by ``counts``. Sequences
    are followed one token at a time, those with the same beginning as one group; one that is alone
    in its group costs no more.
    """
    total, vocabulary = 0.0, int(ids.max(initial=0)) + 1
    group, at = grouped(ids[starts].astype(np.int64)), starts + 1
    while True:
        on = (at < ends) & (np.bincount(group)[group] > 1)
        if not on.any():
            return total
        group, at, ends, mass = group[on], at[on], ends[on], mass[on]
        weight = mass if counts is None else mass * counts[at]
        whole = np.bincount(group, weight)[group]
        group = grouped(group * vocabulary + ids[at])
        part = np.bincount(group, weight)[group]
        counted = weight > 0
        total += float((weight[counted] * np.log(whole[counted] / part[counted])).sum())
        at = at + 1


def grouped(keys: Ids) -> Ids:
    """Equal keys as equal numbers from 0."""
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


__all__ = ["loss_floor"]
