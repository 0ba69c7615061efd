"""Finds circuits: which edges of a model carry a number, and what the model does with only these.

An edge is scored to first order: the derivative of the number with respect to the reader's own
stream, times the writer's distance from its mean at that position (edge attribution patching: Syed,
Rager & Conmy 2023). With several steps, the derivative is a mean along the way from the mean
embeddings (integrated gradients: Hanna, Pezzelle & Belinkov 2024). Relevances may replace
derivatives (RelP: Jafari et al. 2025); they are the derivatives of `viete.rewrite.relevance`. The
exact score of an edge comes from a run with that edge at its mean (activation patching).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from viete.ask.example_list import Example
from viete.circuits.ablation import Ablations, in_rows
from viete.circuits.card import live_edges
from viete.circuits.confirming import confirmed
from viete.circuits.edges import CircuitEdge, Port
from viete.circuits.names import literal
from viete.errors import Text, VieteError
from viete.evaluate.derivatives import backward
from viete.evaluate.execution import execute
from viete.evaluate.interventions import Intervention, as_like
from viete.evaluate.labelled import BATCH, Value
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, program
from viete.graph.card import CardData
from viete.notation.printer import show
from viete.notation.tree import Ref, refs
from viete.notation.words import Words
from viete.rewrite.adjoint.shares import partial as slope
from viete.rewrite.relevance import relevance

Array = Any
TOGETHER = 128  # texts that are run together, each without one edge

SCORES = {
    "gradient": "derivatives with respect to the reader's stream",
    "relevance": "relevances, which are 0 for edges into queries or keys",
    "patching": "the change of the number without the edge, by a run for each edge",
}


class Circuits(Ablations):
    """The edges of a model's card on which a number of its runs, ``of``, depends, on some texts.

    They are scored by a method of `SCORES`; ``steps`` is the number of derivatives or relevances.
    The rest is as in `Ablations`.
    """

    def __init__(
        self, card: CardData, weights: Mapping[str, Array], of: str,
        texts: Sequence[Array | Example], source: str = "",
        words: Callable[[], Words] | None = None, steps: int = 1, score: str = "gradient",
        nodes: str = "heads", positions: bool = False,
    ) -> None:  # fmt: skip
        if score not in SCORES:
            raise VieteError(f"score must be one of {', '.join(SCORES)}, not {score!r:.40}")
        if steps < 1:
            raise VieteError(f"steps, the number of derivatives, must be at least 1, not {steps}")
        super().__init__(card, weights, of, texts, source, words, nodes, positions)
        self.steps, self.score = steps, score
        whole = self.whole.card
        self.derived = relevance(whole) if score == "relevance" else whole

    @cached_property
    def scores(self) -> dict[CircuitEdge, float]:
        """The contribution of each edge to the number, in the mean over the texts."""
        if self.score == "patching":
            return self.exact(self.edges)
        totals: dict[Port, np.ndarray] = {}
        writers = {w: k for k, w in enumerate(self.wiring.writers)}
        places = {p.writers: run_of([writers[w] for w in p.writers]) for p in self.wiring.ports}
        for given, run in zip(self.batches, self.clean, strict=True):
            arrays = {w: self.array(run, w) for w in writers}
            away = np.stack([a - self.means[w][: a.shape[1]] for w, a in arrays.items()])
            for at in self.way(given, run):
                for port, by in self.slopes(at).items():
                    if port.writers:
                        found = np.einsum("wijk,ijk->wj", away[places[port.writers]], by)
                        found = found if self.positions else found.sum(1, keepdims=True)
                        totals[port] = totals[port] + found if port in totals else found
        count, parts = len(self.of_model) * self.steps, dict[CircuitEdge, np.ndarray]()
        for port, found in totals.items():
            for w, row in zip(port.writers, found / count, strict=True):
                edge = CircuitEdge(w, port.reader)
                parts[edge] = parts[edge] + row if edge in parts else row
        none = [0.0]  # of an edge on which nothing depends
        return {e: float(parts.get(e.whole, none)[e.position or 0]) for e in self.edges}

    def slopes(self, run: Run) -> dict[Port, np.ndarray]:
        """The derivatives of the number with respect to the readers' streams."""
        metric = query(run, self.metric).formula
        last = self.wiring.ports[-1].stream
        inner, _ = backward(run, Text(show(metric), "<of>"), metric, last)
        by = {p: Ref(slope(p.stream.symbol)) for p in self.wiring.ports}
        types = inner.program.shapes.types  # of what is held there is no derivative
        by = {p: ref for p, ref in by.items() if ref.key in types}
        inner.supply({(ref.key, ()) for ref in by.values()})
        return {p: self.array(inner, ref) for p, ref in by.items()}

    def way(self, given: Mapping[str, Array], run: Run) -> Iterator[Run]:
        """Runs between the means of the embeddings and the embeddings, or with one step the run.

        They are runs of the card whose derivatives are taken.
        """
        if self.steps == 1:
            same = self.derived is self.whole.card
            yield run if same else execute(program(self.derived), given, self.whole_weights, [])
            return
        later = set[Ref]()  # what reads the stream
        for m in self.wiring.made.values():
            if m.ports or not later.isdisjoint(map(literal, refs(m.right))):
                later.add(m.left)
        writers = [w for w in self.wiring.writers if w not in later]
        for k in range(self.steps):
            part = (k + 0.5) / self.steps
            put: dict[Member, Intervention] = {
                (w.key, ()): partial(between, mean=self.means[w], part=part) for w in writers
            }
            yield execute(program(self.derived), given, self.whole_weights, [], put=put)

    def exact(self, edges: Iterable[CircuitEdge]) -> dict[CircuitEdge, float]:
        """The decrease of the number when only one edge is at its mean, in the mean over texts."""
        some, whole = list(edges), float(self.of_model.mean())
        step = max(1, TOGETHER // max(len(next(iter(x.values()))) for x in self.batches))
        found = [self.without(some[k : k + step]) for k in range(0, len(some), step)]
        return {e: whole - float(x) for e, x in zip(some, chain.from_iterable(found), strict=True)}

    def without(self, edges: Sequence[CircuitEdge]) -> np.ndarray:
        """The number of the model with each of some edges, alone, at its mean; one run for all."""
        total = np.zeros(len(edges))
        for given, run in zip(self.batches, self.clean, strict=True):
            changes: dict[Member, dict[int, Intervention]] = {}
            for k, edge in enumerate(edges):
                here, on = run.lookup(edge.writer.key, ()), self.on([edge])[edge.whole]
                change = partial(moved, here=here, mean=self.means[edge.writer], on=on)
                for p in self.wiring.ports:
                    if p.reader == edge.reader and edge.writer in p.writers:
                        changes.setdefault((p.stream.key, ()), {})[k] = change
            rows = len(next(iter(given.values())))
            put: dict[Member, Intervention] = {
                m: partial(side_by_side, changes=c, count=len(edges), rows=rows)
                for m, c in changes.items()
            }
            texts = {name: np.concatenate([x] * len(edges)) for name, x in given.items()}
            patched = execute(program(self.whole.card), texts, self.whole_weights, [], put=put)
            total += self.numbers(patched).reshape(len(edges), -1).sum(1)
        return total / len(self.of_model)

    def largest(self, count: int) -> tuple[CircuitEdge, ...]:
        """The ``count`` edges with the largest scores, without any that lead nowhere."""
        _ = self.ends  # what explains nothing is said before the scores, which take longer
        scores = self.scores
        ranked = sorted(self.edges, key=lambda e: -abs(scores[e]))
        count = min(count, len(ranked))
        live = cache(lambda k: live_edges(self.wiring, ranked[:k]))
        # More edges keep all alive that were: so the fewest that do are found by halving.
        k = bisect_left(range(len(ranked)), count, lo=count, key=lambda k: len(live(k)))
        more: tuple[CircuitEdge, ...] = live(k)
        while len(more) > count:  # one edge may bring several to life
            least = min(more, key=lambda e: abs(scores[e]))
            more = live_edges(self.wiring, [e for e in more if e != least])
        return max(live(k - 1) if k > count else (), more, key=len)

    def confirmed(self, count: int) -> tuple[CircuitEdge, ...]:
        """At most ``count`` edges, chosen by exact runs among those with the largest scores.

        From twice as many, each edge is left out that changes the number by less than a threshold.
        """
        return confirmed(self, self.largest(2 * count), self.largest(count), count)

    def sweep(self, counts: Iterable[int]) -> np.ndarray:
        """The faithfulness of circuits with these counts of edges: 0 for no edge, 1 for all."""
        values = np.array([self.measured(self.largest(k)).mean() for k in counts])
        whole, none = self.ends
        return (values - none) / (whole - none)


def run_of(places: list[int]) -> slice | list[int]:
    """Places as a slice, which copies nothing, if each is the next after the one before."""
    first, last = (places[0], places[-1] + 1) if places else (0, 0)
    return slice(first, last) if places == [*range(first, last)] else places


def moved(
    stream: Value, _: int | None, here: Value, mean: np.ndarray, on: np.ndarray
) -> Value:  # fmt: skip
    """A reader's stream with a writer, now ``here``, replaced by its mean where ``on`` is 1."""
    stream, here = in_rows(stream), in_rows(here)
    count = here.array.shape[-2]
    rows, there = (as_like(x[:count], here.array, "a mean") for x in (mean, on))
    return replace(stream, array=stream.array + there * (rows - here.array))


def side_by_side(
    stream: Value, _: int | None, changes: Mapping[int, Intervention], count: int, rows: int
) -> Value:  # fmt: skip
    """A reader's stream of the same texts ``count`` times, each time with the change for it."""
    stream, xp = in_rows(stream), array_namespace(stream.array)
    if BATCH not in stream.axes:  # the same for all texts
        array = xp.broadcast_to(stream.array, (rows * count, *stream.array.shape))
        stream = replace(stream, array=array, axes=(BATCH, *stream.axes))
    each = [replace(stream, array=stream.array[k * rows : (k + 1) * rows]) for k in range(count)]
    parts = [changes[k](x, None).array if k in changes else x.array for k, x in enumerate(each)]
    return replace(stream, array=xp.concat(parts))


def between(value: Value, _: int | None, mean: np.ndarray, part: float) -> Value:
    """A value on the line from its mean, at ``part`` of the way."""
    value = in_rows(value)
    rows = as_like(mean[: value.array.shape[-2]], value.array, "a mean")
    return replace(value, array=rows + part * (value.array - rows))


__all__ = ["SCORES", "Circuits"]
