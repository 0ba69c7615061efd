"""Circuits of a model: which edges a number owes itself to, and what is left with these alone.

An edge is scored to first order, by the derivative of the number by the reader's own stream times
how far the writer is from its mean at that position (edge attribution patching: Syed, Rager & Conmy
2023). Of several steps the derivative is the mean of those on the way from the embeddings' means
(integrated gradients: Hanna, Pezzelle & Belinkov 2024). It is scored exactly by running the model
with the edge at its mean (activation patching). Every circuit is a card, see
`viete.ask.circuit_card`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np

from viete.ask.circuit_card import CircuitCard, circuit_card, live_edges, weights_of
from viete.ask.circuit_edges import CircuitEdge, Port, Wiring, literal
from viete.ask.stream import Stream
from viete.errors import Text, VieteError
from viete.evaluate.derivatives import backward
from viete.evaluate.execution import execute
from viete.evaluate.inputs import host
from viete.evaluate.interventions import Intervention
from viete.evaluate.labelled import Value
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, program
from viete.graph.card import CardData
from viete.notation.printer import show
from viete.notation.tree import Expr, Num, Ref, num, refs, transform
from viete.rewrite.adjoint.shares import partial as slope
from viete.rewrite.opening import underived

Array = Any
SAME = 1e-5  # of two numbers, in relation to them: of single precision
BATCH = 32  # texts of a length that are run together


class Circuits:
    """The edges of a model's card that a number of its runs, ``of``, is made of, on some texts.

    ``texts`` are ids (n), which ``source`` names; ``steps`` is how many derivatives are taken.
    Raises VieteError for an ``of`` that is no number of every text, and for a card without a
    residual stream.
    """

    def __init__(
        self, card: CardData, weights: Mapping[str, Array], of: str, texts: Sequence[Array],
        first: Run | None = None, source: str = "", steps: int = 1,
    ) -> None:  # fmt: skip
        if not texts:
            raise VieteError("a circuit is one of texts; give at least one")
        if steps < 1:
            raise VieteError(f"steps is how many derivatives are taken, at least 1, not {steps}")
        self.card, self.program, self.weights = card, program(card), weights
        self.source, self.steps = source, steps
        self.batches = list(batches(texts))
        self.item = card.inputs[0].name
        first = first or execute(self.program, {self.item: self.batches[0]}, weights, [])
        self.of = self.number(first, of)
        roots = [x for x in refs(self.of) if x.symbol.kind == "value"]
        self.wiring = Wiring(self.program, dict.fromkeys(roots))
        self.metric = transform(self.of, own_name)
        self.whole = circuit_card(self.wiring, None, self.of)
        self.whole_weights = weights_of(self.program, weights, self.whole.weights)

    def number(self, run: Run, of: str) -> Expr:
        """What a circuit is of, as a formula of values with numbers for blocks and heads."""
        asked = query(run, run.parse(of), Text(of, "<of>"))
        e = Stream(self.program).normal(underived(self.card, asked.formula))
        e = transform(e, self.counted)
        loose = [x for x in refs(e) if any(not isinstance(k, Num) for k in x.index)]
        if asked.type.shape or asked.places or loose:
            raise VieteError(
                f"a circuit is of one number of each text, such as logits_{{-1, 5}}, and {of} is "
                f"several"
            )
        return e

    def counted(self, e: Expr) -> Expr | None:
        """A member of a family with the numbers that its indices come to."""
        if not isinstance(e, Ref) or e.free or not e.index:
            return None
        return Ref(e.symbol, tuple(num(self.program.index_size(k, {})) for k in e.index))

    @property
    def edges(self) -> tuple[CircuitEdge, ...]:
        """All edges, in the order of their readers."""
        return self.wiring.edges

    # -- runs --------------------------------------------------------------------------------------

    def runs(self, card: CardData, weights: Mapping[str, Array]) -> Iterator[Run]:
        """A run for each batch of texts of a length; what is not asked for is not computed."""
        for ids in self.batches:
            yield execute(program(card), {self.item: ids}, weights, [])

    @cached_property
    def clean(self) -> list[Run]:
        """Runs of the model, in which every reader has a stream of its own."""
        out = list(self.runs(self.whole.card, self.whole_weights))
        for run in out:
            run.supply({(x.key, ()) for x in self.values} | run.needed_by(self.metric))
        return out

    @cached_property
    def values(self) -> list[Ref]:
        """The readers' streams, and all writers."""
        return [*(p.stream for p in self.wiring.ports), *self.wiring.writers]

    @cached_property
    def means(self) -> dict[Ref, np.ndarray]:
        """The mean of each stream and each writer over the texts, position by position."""
        return {x: self.mean(x) for x in self.values}

    def mean(self, ref: Ref) -> np.ndarray:
        """The mean of a value over the texts at each position that there is in any."""
        arrays = [self.array(run, ref) for run in self.clean]
        rows = max(a.shape[1] for a in arrays)
        total, count = np.zeros((rows, *arrays[0].shape[2:])), np.zeros(rows)
        for a in arrays:
            total[: a.shape[1]] += a.sum(0)
            count[: a.shape[1]] += len(a)
        return total / count.reshape(-1, *(1,) * (total.ndim - 1))

    def array(self, run: Run, ref: Ref) -> np.ndarray:
        """A value of a batch in float64: texts, positions, entries."""
        v = run.for_each(run.lookup(ref.key, ()))
        return np.asarray(host(run.ordered(v, ()))).astype(np.float64)

    def each(self, card: CardData, weights: Mapping[str, Array]) -> np.ndarray:
        """The number of every text, by a card that has the values that it is made of."""
        return np.concatenate([self.numbers(run) for run in self.runs(card, weights)])

    def numbers(self, run: Run) -> np.ndarray:
        """The number of every text of a run."""
        found = run.for_each(run.evaluate(query(run, self.metric)))
        out = np.asarray(host(run.ordered(found, ()))).astype(np.float64)
        if out.ndim != 1:
            raise VieteError(f"a circuit is of one number, and {show(self.of)} is several")
        return out

    # -- circuits ----------------------------------------------------------------------------------

    def circuit(self, edges: Collection[CircuitEdge]) -> tuple[CircuitCard, dict[str, Array]]:
        """The card of some edges, with its weights: the model's own, and means."""
        found = circuit_card(self.wiring, frozenset(edges), self.of)
        weights = weights_of(self.program, self.weights, found.weights)
        like = next(iter(self.weights.values()))
        rows = 0
        for port, parameter in found.means.items():
            rest = [self.means[w] for w in port.writers if CircuitEdge(w, port.reader) in edges]
            mean = reduce(np.subtract, rest, self.means[port.stream])
            rows, weights[parameter.name] = len(mean), as_like(mean, like)
        limits = {x.symbol.key: rows for x in found.limits.values()}
        own = {d.name for d in found.card.dims}
        card = found.card.bind(**{n: k for n, k in limits.items() if n in own})
        return replace(found, card=card), weights

    def measured(self, edges: Collection[CircuitEdge]) -> float:
        """The mean over the texts of the number that some edges alone give."""
        found, weights = self.circuit(edges)
        return float(self.each(found.card, weights).mean())

    @cached_property
    def of_model(self) -> float:
        """The mean over the texts of the number of the model."""
        return float(np.concatenate([self.numbers(run) for run in self.clean]).mean())

    @cached_property
    def of_none(self) -> float:
        """That of no edge at all: everything at its mean."""
        return self.measured(())

    @property
    def ends(self) -> tuple[float, float]:
        """What all edges give and what none gives. Raises VieteError where they give the same."""
        whole, none = self.of_model, self.of_none
        if not abs(whole - none) > SAME * max(abs(whole), abs(none)):
            raise VieteError(
                f"{show(self.of)} is {whole:.6g} in the mean with all edges and with none, so "
                "there is nothing to explain; take a number that depends on the text, as a loss"
            )
        return whole, none

    def sweep(self, counts: Iterable[int]) -> np.ndarray:
        """The faithfulness of the circuits of so many edges: 0 for none of them, 1 for all."""
        values = np.array([self.measured(self.largest(k)) for k in counts])
        whole, none = self.ends
        return (values - none) / (whole - none)

    # -- scores ------------------------------------------------------------------------------------

    @cached_property
    def scores(self) -> dict[CircuitEdge, float]:
        """What the number owes to each edge to first order, in the mean over the texts."""
        totals = dict.fromkeys(self.edges, 0.0)
        for ids, run in zip(self.batches, self.clean, strict=True):
            arrays = {w: self.array(run, w) for w in self.wiring.writers}
            away = {w: a - self.means[w][: a.shape[1]] for w, a in arrays.items()}
            for at in self.way(ids, run):
                for port, by in self.slopes(at).items():
                    for w in port.writers:
                        totals[CircuitEdge(w, port.reader)] += float(np.vdot(away[w], by))
        count = sum(map(len, self.batches)) * self.steps
        return {edge: total / count for edge, total in totals.items()}

    def slopes(self, run: Run) -> dict[Port, np.ndarray]:
        """The derivatives of the number by the readers' streams."""
        metric = query(run, self.metric).formula
        inner, _ = backward(run, Text(show(metric), "<of>"), metric, self.values[0])
        by = {p: Ref(slope(p.stream.symbol)) for p in self.wiring.ports}
        inner.supply({(ref.key, ()) for ref in by.values()})
        return {p: self.array(inner, ref) for p, ref in by.items()}

    def way(self, ids: Array, run: Run) -> Iterator[Run]:
        """Runs on the way from the means of the embeddings to these, or with one step the run."""
        if self.steps == 1:
            yield run
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
            yield execute(
                program(self.whole.card), {self.item: ids}, self.whole_weights, [], put=put
            )

    def exact(self, edges: Iterable[CircuitEdge]) -> dict[CircuitEdge, float]:
        """What is lost of the number when one edge alone is at its mean, in the mean over texts."""
        ports = {p.reader: [q for q in self.wiring.ports if q.reader == p.reader]
                 for p in self.wiring.ports}  # fmt: skip
        return {e: self.of_model - self.without(e, ports[e.reader]) for e in edges}

    def without(self, edge: CircuitEdge, ports: Sequence[Port]) -> float:
        """The number of the model with one edge at its mean."""
        found: list[np.ndarray] = []
        for ids, run in zip(self.batches, self.clean, strict=True):
            here = run.lookup(edge.writer.key, ())
            change = partial(moved, here=here, mean=self.means[edge.writer])
            streams: dict[Member, Intervention] = {
                (p.stream.key, ()): change for p in ports if edge.writer in p.writers
            }
            patched = execute(program(self.whole.card), {self.item: ids}, self.whole_weights,
                              [], put=streams)  # fmt: skip
            found.append(self.numbers(patched))
        return float(np.concatenate(found).mean())

    def largest(self, count: int) -> tuple[CircuitEdge, ...]:
        """The edges of the largest scores, as many as asked for, of which none leads nowhere."""
        ranked = sorted(self.edges, key=lambda e: -abs(self.scores[e]))
        found: tuple[CircuitEdge, ...] = ()
        for k in range(count, len(ranked) + 1):
            more = live_edges(self.wiring, ranked[:k])
            if len(more) > count:
                break
            found = more
            if len(found) == count:
                break
        return found


def moved(stream: Value, _: int | None, here: Value, mean: np.ndarray) -> Value:
    """A reader's stream with one of its writers, which is ``here``, at its mean."""
    rows = as_like(mean[: here.array.shape[-2]], here.array)
    return replace(stream, array=stream.array + (rows - here.array))


def between(value: Value, _: int | None, mean: np.ndarray, part: float) -> Value:
    """A value so far on the way from its mean."""
    rows = as_like(mean[: value.array.shape[-2]], value.array)
    return replace(value, array=rows + part * (value.array - rows))


def batches(texts: Sequence[Array]) -> Iterator[np.ndarray]:
    """Texts of a length together."""
    by_length: dict[int, list[np.ndarray]] = {}
    for text in texts:
        by_length.setdefault(len(text), []).append(np.asarray(text))
    for group in by_length.values():
        for k in range(0, len(group), BATCH):
            yield np.stack(group[k : k + BATCH])


def own_name(e: Expr) -> Expr | None:
    """A member of a family under a name of its own."""
    named = isinstance(e, Ref) and e.symbol.kind in ("value", "parameter")
    return literal(e) if named and isinstance(e, Ref) else None


def as_like(array: np.ndarray, like: Array) -> Array:
    """An array in the library, the precision and the place of another."""
    from array_api_compat import array_namespace, device

    xp = array_namespace(like)
    return xp.asarray(array, dtype=like.dtype, device=device(like))


__all__ = ["Circuits"]
