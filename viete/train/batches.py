"""Batches: the inputs of a card at step k, a pure function of the data, the seed and k.

Nothing has to be remembered between steps, so a stopped run continues by counting on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.graph.card import CardData
from viete.text.vocabulary import Ids, Vocabulary
from viete.train.inputs import training_inputs
from viete.train.settings import Settings
from viete.train.tokens import Tokens

PARTS = ("train", "validation")
# The settings on which a batch depends, besides its number, the part and the data.
DEPENDS = ("batch", "length", "seed", "loss_on", "validation")


class Batches:
    """The batches of one part of the data, 'train' or 'validation', as a card takes them.

    Plain text: windows of ``length`` tokens (by default the card's context) at random places, the
    last tenth of the text held out for validation, as in nanoGPT. Dialogs and lines: each a
    separate sequence from position 0, once an epoch, in an order that is new every epoch; the last
    tenth of them, rounded down, held out. For a causal card whose loss consists only of weighted
    cross-entropies, a batch may mix sequences of different lengths, padded at the end with weight
    0; for any other card a batch has sequences of one length, and may be smaller than ``batch``.
    With ``loss_on`` 'assistant' only the assistant's words count, with the tags that close them.

    Raises VieteError if card, vocabulary and data do not fit, and for a dialog or a line longer
    than the context.
    """

    def __init__(
        self, card: CardData, data: Tokens, vocabulary: Vocabulary, settings: Settings,
        part: str = "train",
    ) -> None:  # fmt: skip
        if part not in PARTS:
            raise VieteError(f"part must be {' or '.join(map(repr, PARTS))}, not {part!r:.40}")
        self.takes, self.title, self.data, self.part = training_inputs(card), card.title, data, part
        context, n = self.takes.context, settings.length or self.takes.context
        self.length, s = n, replace(settings, length=n)
        self.settings = s
        if n > context or (self.takes.fixed and n != context):
            least = "takes texts of" if self.takes.fixed else "has a context of"
            raise VieteError(f"{self.title} {least} {context} tokens, and not {n}")
        if len(vocabulary) > self.takes.vocabulary:
            raise VieteError(
                f"{self.title} has a vocabulary of {self.takes.vocabulary}, and the data needs "
                f"{len(vocabulary)}; bind it first, as with --set V={len(vocabulary)}"
            )
        if s.loss_on == "assistant" and data.own is None:
            raise VieteError(f"{data.name} is plain text, so it has no assistant to learn from")
        self.order: EpochOrder | None = None
        if data.starts is not None:
            self.order = self.sequences(data.starts)
            return
        cut = int(len(data) * (1 - s.validation))
        self.first, self.last = (0, cut) if part == "train" else (cut, len(data))
        if self.last - self.first < n + 1:
            without = ", or hold none out with --validation 0" * (part != "train")
            raise VieteError(
                f"{data.name}: its {part} part has {self.last - self.first} tokens, and a window "
                f"takes {n + 1}; give more text or a smaller --length{without}"
            )

    def sequences(self, starts: Ids) -> EpochOrder:
        """The order of this part's dialogs or lines, each checked to fit the context."""
        s, count = self.settings, len(starts) - 1
        one = "line" if self.data.own is None else "dialog"
        held = int(count * s.validation)
        part = range(count - held) if self.part == "train" else range(count - held, count)
        if not part:
            raise VieteError(
                f"{self.data.name} has {count} {one}s, too few to set some aside for validation"
            )
        lengths = np.diff(starts[part.start : part.stop + 1]) - 1
        if lengths.max() > self.length or (self.takes.fixed and len(set(lengths)) > 1):
            k = part.start + int(lengths.argmax())
            raise VieteError(
                f"{self.data.name}: {one} {k + 1} has {int(lengths.max())} tokens before its "
                f"last, and {self.title} takes {self.length}; {one}s are not cut: make the "
                f"context longer with --length, or leave the {one} out"
            )
        if s.loss_on == "assistant" and self.takes.weights is None:
            raise VieteError(
                f"{self.title} counts every position in its loss; to learn from the assistant's "
                f"words alone it needs an input of weights w, as in "
                f"L = weighted_loss(logits; y, w)"
            )
        self.first, self.last = part.start, part.stop
        stream = len(PARTS) + PARTS.index(self.part)
        return EpochOrder(lengths, s.batch, self.takes.padded, s.seed, stream)

    # -- batches ----------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The number of batches in one pass over the data; for random windows, by token count."""
        if self.order is not None:
            return len(self.order)
        return max(1, (self.last - self.first) // (self.settings.batch * self.length))

    def batch(self, k: int, rows: slice = slice(None)) -> dict[str, Ids]:
        """The inputs of the card at step k by name, int64 of shape (batch, n).

        ``rows`` takes a share of them, for one of several processes.
        """
        if self.order is not None:
            return self.padded(self.first + self.order.batch(k)[rows])
        s = self.settings
        return self.windows(random_numbers(s.seed, PARTS.index(self.part), k, s.batch)[rows])

    def windows(self, places: Ids) -> dict[str, Ids]:
        """The windows of text that start at random numbers."""
        n = self.length
        starts = self.first + (places % np.uint64(self.last - self.first - n)).astype(np.int64)
        window = self.data.ids[starts[:, None] + np.arange(n + 1)].astype(np.int64)
        return self.inputs(window, None)

    def spans(self) -> tuple[Ids, Ids]:
        """The start and end in the data of each sequence that batches are drawn from."""
        if self.data.starts is not None:
            starts = np.asarray(self.data.starts, np.int64)
            return starts[self.first : self.last], starts[self.first + 1 : self.last + 1]
        starts = np.arange(self.first, self.last - self.length, dtype=np.int64)
        return starts, starts + self.length + 1

    def evaluation(self, count: int) -> Iterator[dict[str, Ids]]:
        """The same ``count`` sequences at every call, or all if there are fewer.

        The choice depends on the data and the seed, and not on the batch size ``batch`` in which
        they come.
        """
        s, stream = self.settings, PARTS.index(self.part)
        if self.order is not None:
            random = random_numbers(s.seed, stream, 0, len(self.order.lengths))
            some = np.argsort(random, kind="stable")[:count]
            lengths = self.order.lengths[some]
            order = EpochOrder(lengths, s.batch, self.takes.padded, s.seed, stream)
            for k in range(len(order)):
                yield self.padded(self.first + some[order.batch(k)])
            return
        for first in range(0, count, s.batch):
            numbers = range(first, min(first + s.batch, count))
            yield self.windows(
                np.concatenate([random_numbers(s.seed, stream, k, 1) for k in numbers])
            )

    def padded(self, which: Ids) -> dict[str, Ids]:
        """Dialogs or lines in one array, padded with 0 and weight 0."""
        starts, own = self.data.starts, self.data.own
        assert starts is not None
        n = int((starts[which + 1] - starts[which]).max())
        window = np.zeros((len(which), n), np.int64)
        counts = np.zeros((len(which), n), np.int64)
        for row, k in enumerate(which):
            a, b = int(starts[k]), int(starts[k + 1])
            window[row, : b - a] = self.data.ids[a:b]
            counts[row, : b - a] = 1
            if own is not None and self.settings.loss_on == "assistant":
                counts[row, : b - a] = own[a:b]
        return self.inputs(window, counts)

    def inputs(self, window: Ids, counts: Ids | None) -> dict[str, Ids]:
        """n + 1 tokens as n inputs and n targets; ``counts`` says which count as targets."""
        if self.takes.targets is None:
            return {self.takes.tokens: window[:, :-1]}
        out = {self.takes.tokens: np.ascontiguousarray(window[:, :-1]),
               self.takes.targets: np.ascontiguousarray(window[:, 1:])}  # fmt: skip
        if self.takes.weights is not None and not (counts is None and self.takes.optional):
            counts = np.ones_like(window) if counts is None else counts
            out[self.takes.weights] = np.ascontiguousarray(counts[:, 1:])
        return out

    # -- resuming ---------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """The state that a resumed run must have, besides the next batch's number. Plain JSON."""
        return {
            "part": self.part,
            **{name: getattr(self.settings, name) for name in DEPENDS},
            "bytes": self.data.size,
            "source": self.data.source,
            "vocabulary": self.data.vocabulary,
        }

    def check(self, state: Mapping[str, Any]) -> None:
        """Raise VieteError if the batches differ from those that a run began with.

        The error names what differs: the data, the vocabulary or a setting.
        """
        mine = self.state
        data = self.data
        same_data(data.name, data.source, data.size, data.vocabulary, state)
        for name in ("part", *DEPENDS):
            if state.get(name) != mine[name]:
                raise VieteError(
                    f"this run began with {name.replace('_', ' ')} {state.get(name)}, and resumes "
                    f"only with that, not with {mine[name]}"
                )


def random_numbers(seed: int, stream: int, k: int, count: int) -> Ids:
    """``count`` random uint64, the k-th draw of a seed's stream, computed without earlier ones.

    By Philox (Salmon et al. 2011), whose raw stream NumPy promises to keep from version to version.
    """
    key = np.array([seed % 2**64, stream], np.uint64)
    philox = np.random.Philox(key=key, counter=np.array([0, 0, 0, k], np.uint64))
    return philox.random_raw(count)


class EpochOrder:
    """The sequences of each batch, epoch by epoch.

    Shuffled, then sorted by length with ties as shuffled, then cut into batches of at most ``size``
    (unless ``mixed`` also wherever the length changes), and the batches shuffled. So every epoch
    has the same number of batches, and little padding is needed.
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
        """The number of batches in an epoch."""
        return len(self.cuts)

    def batch(self, k: int) -> Ids:
        """The numbers of the sequences in batch k."""
        epoch, place = divmod(k, len(self))
        if self.last[0] != epoch:
            random = random_numbers(self.seed, self.stream, epoch, len(self.lengths) + len(self))
            first = np.argsort(random[: len(self.lengths)], kind="stable")
            sequences = first[np.argsort(self.lengths[first], kind="stable")]
            batches = np.argsort(random[len(self.lengths) :], kind="stable")
            self.last = epoch, sequences, batches
        _, sequences, batches = self.last
        begin, end = self.cuts[batches[place]]
        return sequences[begin:end]


def same_data(name: str, source: str, size: int, vocabulary: str, state: Mapping[str, Any]) -> None:
    """Raise VieteError for data (by digest and size) or a vocabulary other than the run's."""
    if state.get("vocabulary") != vocabulary:
        raise VieteError(f"{name}: this run began with another vocabulary")
    if state.get("source") == source:
        return
    was = state.get("bytes")
    how = (f"{'shrunk' if size < was else 'grown'}, from {was:,} bytes to {size:,}"
           if isinstance(was, int) and was != size else "changed")  # fmt: skip
    raise VieteError(
        f"{name}: the data has {how}, since this run began; restore the old data, or start a new "
        f"run"
    )


__all__ = ["Batches", "EpochOrder", "random_numbers", "same_data"]
