"""Runs a model with some edges ablated to their means over the texts.

Every ablated model is a card, see `viete.circuits.card`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from viete.ask.asking import own_symbol
from viete.ask.example_list import Example, example_of, named_in, numbers_of
from viete.ask.stream import Stream
from viete.circuits.card import CircuitCard, circuit_card, weights_of
from viete.circuits.edges import CircuitEdge, Port, Wiring
from viete.circuits.names import own_name
from viete.circuits.runs import CircuitRuns, RunsWriting
from viete.errors import Text, VieteError
from viete.evaluate.execution import execute
from viete.evaluate.inputs import host
from viete.evaluate.interventions import Intervention, as_like
from viete.evaluate.labelled import Value, in_order, permute
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, program
from viete.graph.card import CardData, Input
from viete.notation.printer import show
from viete.notation.tree import Expr, Num, Ref, num, refs, transform
from viete.notation.words import Words
from viete.rewrite.neurons import by_neurons
from viete.rewrite.opening import underived

Array = Any
SAME = 1e-5  # of two numbers, in relation to them: of single precision
NODES = ("heads", "neurons")  # what writes and reads: heads and MLPs, or heads and neurons
BATCH = 32  # texts of a length that are run together


class Ablations:
    """A model with some edges at their means over some texts, and a number of its runs, ``of``.

    ``texts`` are ids (n), or texts with words and numbers that ``of`` names, which then are inputs
    of the card. ``source`` names the texts, ``words`` are those of a tokenizer, and ``nodes`` are
    of `NODES`; with ``positions`` each edge is at one position. Raises VieteError for an ``of``
    that is not a number of every text, for a card without a residual stream, for one without
    neurons where these are asked for, and for positions of texts of several lengths.
    """

    def __init__(
        self, card: CardData, weights: Mapping[str, Array], of: str,
        texts: Sequence[Array | Example], source: str = "",
        words: Callable[[], Words] | None = None, nodes: str = NODES[0],
        positions: bool = False,
    ) -> None:  # fmt: skip
        if not texts:
            raise VieteError("a circuit needs texts; give at least one")
        if nodes not in NODES:
            raise VieteError(f"nodes must be {' or '.join(NODES)}, not {nodes!r:.40}")
        known = (lambda: card.words) if words is None else words
        given = [example_of(x) for x in texts]
        names = named_in(of, given)
        values = [numbers_of(x, names, known()) if names else {} for x in given]
        card = with_numbers(by_neurons(card) if nodes == "neurons" else card, names, values)
        self.card, self.program, self.weights = card, program(card), weights
        self.source, self.positions, self.words = source, positions, known
        item = card.inputs[0].name
        pairs = zip(given, values, strict=True)
        self.batches = list(batches([{item: x.text, **own} for x, own in pairs], item))
        lengths = sorted({batch[item].shape[1] for batch in self.batches})
        if positions and len(lengths) > 1:
            raise VieteError(
                f"the texts are {lengths[0]} to {lengths[-1]} tokens long; with positions as nodes "
                f"give texts of one length, or leave positions out"
            )
        first = execute(self.program, self.batches[0], weights, [])
        first.scope = replace(first.scope, words=known)
        self.of = self.number(first, of)
        roots = [x for x in refs(self.of) if x.symbol.kind == "value"]
        if not roots:
            raise VieteError(
                f"{of} is made of no value that {card.title} computes, so no edge leads to it; "
                f"take a number such as logits_{{-1, 5}}"
            )
        self.wiring = Wiring(self.program, dict.fromkeys(roots))
        self.metric = transform(self.of, own_name)
        self.whole = circuit_card(self.wiring, None, self.of)
        self.whole_weights = weights_of(self.program, weights, self.whole.weights)

    def number(self, run: Run, of: str) -> Expr:
        """The circuit's number, as a formula of values with numbers for blocks and heads."""
        asked = query(run, run.parse(of), Text(of, "<of>"))
        e = Stream(self.program).normal(underived(self.card, asked.formula))
        e = transform(e, self.counted)
        loose = [x for x in refs(e) if any(not isinstance(k, Num) for k in x.index)]
        if asked.type.shape or asked.places or loose:
            raise VieteError(
                f"a circuit explains one number of each text, such as logits_{{-1, 5}}, and {of} "
                f"is several numbers"
            )
        return e

    def counted(self, e: Expr) -> Expr | None:
        """A member of a family with numbers as its indices."""
        if not isinstance(e, Ref) or e.free or not e.index:
            return None
        return Ref(e.symbol, tuple(num(self.program.index_size(k, {})) for k in e.index))

    @cached_property
    def edges(self) -> tuple[CircuitEdge, ...]:
        """All edges in the order of their readers, by position if positions are nodes."""
        if not self.positions:
            return self.wiring.edges
        return tuple(
            replace(e, position=j)
            for e in self.wiring.edges for j in range(len(self.means[e.writer]))
        )  # fmt: skip

    @cached_property
    def tokens(self) -> dict[int, str]:
        """The words of the positions at which all texts have the same token."""
        if not self.positions:
            return {}
        ids = np.concatenate([batch[self.card.inputs[0].name] for batch in self.batches])
        same = {j: self.words().name(int(c[0])) for j, c in enumerate(ids.T) if np.ptp(c) == 0}
        return {j: word for j, word in same.items() if word is not None}

    # -- runs --------------------------------------------------------------------------------------

    def runs(self, card: CardData, weights: Mapping[str, Array]) -> Iterator[Run]:
        """A run for each batch of texts of one length; values are computed on demand."""
        for given in self.batches:
            yield execute(program(card), given, weights, [])

    @cached_property
    def clean(self) -> list[Run]:
        """Runs of the model in which every reader has a separate stream."""
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
        """The mean of a value over the texts, at each position of the longest text."""
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
        """The number of every text, by a card that has the values in it."""
        return np.concatenate([self.numbers(run) for run in self.runs(card, weights)])

    def numbers(self, run: Run) -> np.ndarray:
        """The number of every text of a run."""
        found = run.for_each(run.evaluate(query(run, self.metric)))
        out = np.asarray(host(run.ordered(found, ()))).astype(np.float64)
        if out.ndim != 1:
            raise VieteError(
                f"a circuit explains one number, and {show(self.of)} is several numbers"
            )
        return out

    # -- circuits ----------------------------------------------------------------------------------

    def circuit(self, edges: Collection[CircuitEdge]) -> tuple[CircuitCard, dict[str, Array]]:
        """The card of some edges, with its weights: the model's own, and means."""
        on = self.on(edges)
        some = [e for e, column in on.items() if not column.all()]
        found = circuit_card(self.wiring, on.keys(), self.of, some)
        arrays = {p.name: on[e] for e, p in found.switches.items()}
        for port, parameter in found.means.items():
            read = [on[e] * self.means[w] for w in port.writers
                    if (e := CircuitEdge(w, port.reader)) in on]  # fmt: skip
            arrays[parameter.name] = reduce(np.subtract, read, self.means[port.stream])
        return self.filled(found, arrays)

    def on(self, edges: Iterable[CircuitEdge]) -> dict[CircuitEdge, np.ndarray]:
        """All edges without positions, with 1 at the positions in ``edges`` and 0 elsewhere.

        Raises VieteError for a position that no text has.
        """
        out: dict[CircuitEdge, np.ndarray] = {}
        for e in edges:
            rows = len(self.means[e.writer])
            if e.position is not None and not 0 <= e.position < rows:
                raise VieteError(f"there is no edge {e}: positions are 0 to {rows - 1}")
            column = out.setdefault(e.whole, np.zeros((rows, 1)))
            column[slice(None) if e.position is None else e.position] = 1
        return out

    def filled(
        self, found: CircuitCard, arrays: Mapping[str, np.ndarray]
    ) -> tuple[CircuitCard, dict[str, Array]]:
        """A card with as many positions as have means, and all its weights."""
        weights = weights_of(self.program, self.weights, found.weights)
        like = next(iter(self.weights.values()))
        weights |= {name: as_like(a, like, f"the means {name}") for name, a in arrays.items()}
        own = {d.name for d in found.card.dims}
        limits = {x.symbol.key: self.rows for x in found.limits.values() if x.symbol.key in own}
        return replace(found, card=found.card.bind(**limits)), weights

    @property
    def rows(self) -> int:
        """The number of positions with means."""
        return max(len(mean) for mean in self.means.values())

    def beside(self, edges: Sequence[CircuitEdge]) -> tuple[CircuitRuns, dict[str, Array]]:
        """The card of all runs that a circuit is compared with, and its weights."""
        runs = RunsWriting(self.wiring, edges, self.of).runs()
        arrays = runs.patterns(self.rows)
        arrays |= {p.name: self.means[e.writer] for e, p in runs.writers.items()}
        sums: dict[tuple[Ref, ...], np.ndarray] = {}  # of all means, by the writers
        for port, parameter in runs.made.means.items():
            if port.writers not in sums:
                sums[port.writers] = reduce(np.add, [self.means[w] for w in port.writers])
            own = [self.means[w] for w in runs.own(port)]
            arrays[parameter.name] = reduce(np.subtract, own, sums[port.writers])
        made, weights = self.filled(runs.made, arrays)
        return replace(runs, made=made), weights

    def measured(self, edges: Collection[CircuitEdge]) -> np.ndarray:
        """The number of every text when only some edges are on, as its card computes it.

        It is a run of the model in which each reader's stream is changed: what costs is the number
        of readers, and not that of edges.
        """
        on: dict[Ref, dict[Ref, np.ndarray]] = {}
        for e, column in self.on(edges).items():
            on.setdefault(e.reader, {})[e.writer] = column
        found = []
        for given in self.batches:
            values: dict[Ref, Value] = {}  # of the writers, as this run has them
            put: dict[Member, Intervention] = {
                (w.key, ()): partial(recorded, values=values, name=w) for w in self.wiring.writers
            }
            for p in self.wiring.ports:
                own = on.get(p.reader, {})
                put[p.stream.key, ()] = partial(self.seen, port=p, on=own, values=values)
            run = execute(program(self.whole.card), given, self.whole_weights, [], put=put)
            found.append(self.numbers(run))
        return np.concatenate(found)

    def seen(
        self, stream: Value, _: int | None, port: Port, on: Mapping[Ref, np.ndarray],
        values: Mapping[Ref, Value],
    ) -> Value:  # fmt: skip
        """A reader's stream that has only the writers in ``on``, at the positions that are 1."""
        stream = in_rows(stream)
        some = [w for w in port.writers if w in on]
        fewer = 2 * len(some) <= len(port.writers)  # to add than to take away
        at = some if fewer else [w for w in port.writers if w not in on or not on[w].all()]
        count = stream.array.shape[-2]
        out = stream.array
        if fewer:
            out = 0 * out + as_like(self.means[port.stream][:count], out, "a mean")
        for w in at:
            here, mean = in_rows(values[w]).array, self.means[w]
            away = here - as_like(mean[:count], here, "a mean")
            share = on[w] if fewer else (on[w] if w in on else np.zeros((len(mean), 1))) - 1
            out = out + as_like(share[:count], here, "a switch") * away
        return replace(stream, array=out)

    @cached_property
    def of_model(self) -> np.ndarray:
        """The number of the model, of every text."""
        return np.concatenate([self.numbers(run) for run in self.clean])

    @cached_property
    def of_none(self) -> np.ndarray:
        """The number of every text with no edge: everything at its mean."""
        return self.measured(())

    @property
    def ends(self) -> tuple[float, float]:
        """The number with all edges and with none, in the mean over the texts.

        Raises VieteError where they give the same, and where a text's number is not finite.
        """
        check_finite(self.of, self.of_model, "with all edges")
        check_finite(self.of, self.of_none, "without any edge")
        whole, none = float(self.of_model.mean()), float(self.of_none.mean())
        if not abs(whole - none) > SAME * max(abs(whole), abs(none)):
            raise VieteError(
                f"the mean of {show(self.of)} is {whole:.6g} with all edges and with none, so "
                "there is nothing to explain; take a number that depends on the text, such as a "
                "loss"
            )
        return whole, none


def recorded(value: Value, _: int | None, values: dict[Ref, Value], name: Ref) -> Value:
    """A value as it is, which ``values`` then has too."""
    values[name] = value
    return value


def in_rows(value: Value) -> Value:
    """A value with its axes in the order of a run: texts, positions, entries."""
    axes = in_order(value, ())
    array = permute(array_namespace(value.array), value.array, value.axes, axes)
    return replace(value, array=array, axes=axes)


def no_edge(of: Expr) -> str:
    """The message for a circuit without an edge."""
    return f"of so few edges none leads all the way from a text to {show(of)}; take more"


def check_finite(of: Expr, numbers: np.ndarray, where: str) -> None:
    """Raise VieteError for a number that is not finite on some text."""
    if (wrong := ~np.isfinite(numbers)).any():
        raise VieteError(
            f"{show(of)} is {numbers[wrong][0]} {where} on {wrong.sum()} of {len(numbers)} texts; "
            f"take a number that is finite on all of them"
        )


def batches(
    texts: Sequence[Mapping[str, Any]], item: str
) -> Iterator[dict[str, np.ndarray]]:  # fmt: skip
    """The inputs of texts of one length together; ``item`` is the input with that length."""
    by_length: dict[int, list[Mapping[str, Any]]] = {}
    for text in texts:
        by_length.setdefault(len(text[item]), []).append(text)
    for group in by_length.values():
        for k in range(0, len(group), BATCH):
            some = group[k : k + BATCH]
            yield {name: np.stack([np.asarray(x[name]) for x in some]) for name in some[0]}


def with_numbers(
    card: CardData, names: Iterable[str], values: Sequence[Mapping[str, float]]
) -> CardData:  # fmt: skip
    """The card with inputs for the texts' tokens and numbers of some names."""
    inputs = [*card.inputs]
    for name in names:
        whole = all(isinstance(x[name], int) for x in values)
        low, high = (card.inputs[0].low, card.inputs[0].high) if whole else (None, None)
        symbol = own_symbol(card, name, "input")
        inputs.append(Input(symbol, (), low, high, meaning="a token of each text" * whole))
    return replace(card, inputs=tuple(inputs))


__all__ = ["Ablations", "check_finite", "no_edge"]
