"""Causal scrubbing: does a number survive when values come from texts that a hypothesis equates?

A hypothesis (`viete.causes.hypothesis`) says of each edge which features of a text its value
depends on. For each text, the value on such an edge is taken from a text with the same features,
and is itself computed by the claims nested below. Each value that the hypothesis does not mention
comes from a random text, drawn separately for each value that is computed. The more of the number
survives, the more of the model the hypothesis explains (Chan et al. 2022). A card computes each
value: the equations between the readers' streams, which are given, and the writer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from viete.causes.drawing_texts import agreeing
from viete.causes.hypothesis import EdgeClaim
from viete.circuits.ablation import BATCH, Ablations
from viete.circuits.edges import CircuitEdge, Port
from viete.circuits.names import literal
from viete.errors import Text, VieteError
from viete.evaluate.execution import execute
from viete.evaluate.inputs import host
from viete.evaluate.interventions import as_like
from viete.evaluate.run import Run
from viete.evaluate.schedule import program
from viete.graph.card import CardData
from viete.graph.dependence import backward_slice, names_read
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import Expr, Ref, refs
from viete.rewrite.cut import cut
from viete.rewrite.inlining import without_unused

Array = Any
Keys = Mapping[tuple[str, ...], Sequence[Hashable]]  # of each claim's features, of each text


@dataclass(frozen=True)
class ScrubbedValue:
    """A value that is recomputed: its name, the claims about its parts, its card.

    ``ports`` are the streams that the card takes as inputs, and ``name`` is None for the number
    itself.
    """

    name: Ref | None
    claims: Mapping[Port, Sequence[tuple[EdgeClaim, CircuitEdge]]]
    card: CardData

    @property
    def ports(self) -> tuple[Port, ...]:
        return tuple(self.claims)


@dataclass(frozen=True)
class TextGroup:
    """Texts of one length: their places in the list, their inputs, the model's values on them."""

    places: np.ndarray
    given: Mapping[str, np.ndarray]
    values: Mapping[Ref, np.ndarray]


class Scrubbing:
    """A hypothesis about a number of a model, on some texts; ``keys`` are the texts' features.

    Raises VieteError, with its line, for a claim that names no edge, or does not lead to the value
    above it.
    """

    def __init__(self, model: Ablations, claims: Sequence[EdgeClaim], keys: Keys) -> None:
        self.model, self.claims, self.keys = model, tuple(claims), keys
        self.item = model.card.inputs[0].name
        self.values: dict[EdgeClaim | None, ScrubbedValue] = {
            None: self.value(None, self.claims, model.wiring.roots)
        }
        for claim in (c for top in claims for c in top.walk() if c.parts):
            writer = self.edge(claim, model.wiring.ports).writer
            self.values[claim] = self.value(writer, claim.parts, [writer])

    # -- what is made of what ----------------------------------------------------------------------

    def value(
        self, name: Ref | None, claims: Sequence[EdgeClaim], ends: Sequence[Ref]
    ) -> ScrubbedValue:
        """A value with the claims below it, each at its stream."""
        ports = tuple(dict.fromkeys(p for ref in ends for p in self.ports_of(ref)))
        found: dict[Port, list[tuple[EdgeClaim, CircuitEdge]]] = {p: [] for p in ports}
        edges = set[CircuitEdge]()
        for claim in claims:
            edge = self.edge(claim, ports)
            if edge in edges:
                raise claim.writer.error(
                    f"{edge} has a claim already; write all its features in one, with commas"
                )
            edges.add(edge)
            for p in ports:
                if p.reader == edge.reader and edge.writer in p.writers:
                    found[p].append((claim, edge))
        return ScrubbedValue(name, found, self.card_of(ports, ends))

    def ports_of(self, ref: Ref) -> Iterator[Port]:
        """The streams that a value depends on."""
        seen: dict[Ref, None] = {}
        waiting = [ref]
        while waiting:
            made = self.model.wiring.made.get(here := waiting.pop())
            if made is None or here in seen:
                continue
            seen[here] = None
            yield from made.ports
            waiting += (literal(x) for x in refs(made.right))

    def edge(self, claim: EdgeClaim, ports: Sequence[Port]) -> CircuitEdge:
        """The edge of a claim, among those that lead to some streams."""
        writer, reader = (self.node(x) for x in (claim.writer, claim.reader))
        edge = CircuitEdge(writer, reader)
        if edge not in self.model.edges:
            there = [str(e) for e in self.model.edges if e.reader == reader][:8]
            raise claim.writer.error(
                f"there is no edge {edge}; " + (f"there are {', '.join(there)}" if there else
                f"nothing is read by {show(reader, 'unicode')}")
            )  # fmt: skip
        if not any(p.reader == reader and writer in p.writers for p in ports):
            raise claim.writer.error(f"{edge} does not lead to the value of the claim above")
        return edge

    def node(self, text: Text) -> Ref:
        """A writer or a reader by its name."""
        e: Expr = parse(text, self.model.whole.card.scope)
        readers = {p.reader for p in self.model.wiring.ports}
        name = literal(e) if isinstance(e, Ref) else None
        if name is None or not (name in readers or name in self.model.wiring.writers):
            raise text.error(f"{text.text.strip()} neither writes to the stream nor reads it")
        return name

    def card_of(self, ports: Sequence[Port], ends: Sequence[Ref]) -> CardData:
        """The card from some streams, as inputs, to values."""
        card = self.model.whole.card
        found = cut(card, [show(p.stream) for p in ports], whole=True).card
        equations = tuple(backward_slice(found, [x.key for x in ends]))
        return replace(found, equations=equations)

    # -- texts -------------------------------------------------------------------------------------

    @cached_property
    def groups(self) -> list[TextGroup]:
        """The texts by their lengths, with all values of the streams and the writers."""
        by_length: dict[int, list[int]] = {}
        first = 0
        for k, given in enumerate(self.model.batches):
            by_length.setdefault(given[self.item].shape[1], []).append(k)
        starts = np.cumsum([0, *(len(b[self.item]) for b in self.model.batches)])
        out = []
        for batches in by_length.values():
            places = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in batches])
            given = {name: np.concatenate([self.model.batches[k][name] for k in batches])
                     for name in self.model.batches[first]}  # fmt: skip
            values = {
                ref: np.concatenate([self.model.array(self.model.clean[k], ref) for k in batches])
                for ref in self.model.values
            }
            out.append(TextGroup(places, given, values))
        return out

    # -- scrubbing ---------------------------------------------------------------------------------

    def numbers(self, draws: int, seed: int, trusted: EdgeClaim | None = None) -> np.ndarray:
        """The number of each text, ``draws`` times, with values of texts that agree.

        The value of a claim that is ``trusted`` is the model's own on the text above it.
        """
        out = []
        for k, group in enumerate(self.groups):
            draw = np.random.default_rng([seed, k])
            places = np.repeat(np.arange(len(group.places)), draws)
            streams = self.streams(self.values[None], group, places, draw, trusted)
            out.append(self.computed(self.values[None], group, places, streams))
        return np.concatenate(out)

    def random(self, draws: int, seed: int) -> np.ndarray:
        """The number with every value from a random text: no claim holds."""
        return Scrubbing(self.model, (), {}).numbers(draws, seed)

    def streams(
        self, value: ScrubbedValue, group: TextGroup, places: np.ndarray, draw: np.random.Generator,
        trusted: EdgeClaim | None,
    ) -> dict[Ref, np.ndarray]:  # fmt: skip
        """The streams that a value depends on, for the texts at some places."""
        any_text = draw.integers(len(group.places), size=len(places))
        out = {}
        for port, claims in value.claims.items():
            stream = group.values[port.stream][any_text]
            for claim, edge in claims:
                own = self.drawn(claim, edge, group, places, draw, trusted)
                stream = stream + own - group.values[edge.writer][any_text]
            out[port.stream] = stream
        return out

    def drawn(
        self, claim: EdgeClaim, edge: CircuitEdge, group: TextGroup, places: np.ndarray,
        draw: np.random.Generator, trusted: EdgeClaim | None,
    ) -> np.ndarray:  # fmt: skip
        """A writer's effect, on texts that agree with those at some places."""
        keys = self.keys[claim.features]
        alike = agreeing([keys[k] for k in group.places], places, draw)
        value = self.values.get(claim)
        if value is None:
            found = group.values[edge.writer][places if claim is trusted else alike]
        else:
            streams = self.streams(value, group, alike, draw, trusted)
            made = self.computed(value, group, alike, streams)
            found = group.values[edge.writer][places] if claim is trusted else made
        return found

    def computed(
        self, value: ScrubbedValue, group: TextGroup, places: np.ndarray,
        streams: Mapping[Ref, np.ndarray],
    ) -> np.ndarray:  # fmt: skip
        """The value that its card computes from some streams, on the texts at some places."""
        ready = program(value.card)
        like = next(iter(self.model.whole_weights.values()))
        weights = {n: w for n, w in self.model.whole_weights.items() if n in ready.parameters}
        out = []
        for k in range(0, len(places), BATCH):
            some = slice(k, k + BATCH)
            given: dict[str, Array] = {
                name: a[places[some]] for name, a in group.given.items() if name in ready.inputs
            }
            for ref, stream in streams.items():
                if ref.key in ready.inputs:
                    given[ref.key] = as_like(stream[some], like, ref.key)
            run: Run = execute(ready, given, weights, [])
            if value.name is None:
                out.append(self.model.numbers(run))
            else:
                run.supply({(value.name.key, ())})
                out.append(self.model.array(run, value.name))
        return np.concatenate([np.asarray(host(x)) for x in out])

    def agreement(self, claim: EdgeClaim) -> float:
        """The mean number of other texts that agree with a text on a claim's features."""
        keys, total, count = self.keys[claim.features], 0, 0
        for group in self.groups:
            own = [keys[k] for k in group.places]
            total += sum(own.count(key) - 1 for key in own)
            count += len(own)
        return total / count


def shown_card(value: ScrubbedValue, title: str) -> CardData:
    """The printed card of a value: its inputs, and the equations from them to the value."""
    card = value.card
    read = names_read(card.equations)
    meanings = {p.stream.key: given_words(p, claims) for p, claims in value.claims.items()}
    inputs = tuple(replace(x, meaning=meanings.get(x.name, x.meaning)) for x in card.inputs
                   if x.name in read)  # fmt: skip
    names = {f.name for f in card.functions} | {d.name for d in card.dims}
    names |= {p.name for p in card.parameters}
    card = replace(card, title=title, about=(), claims=(), inputs=inputs, derived=())
    return without_unused(card, names | {i.name for i in card.indices})


def given_words(port: Port, claims: Sequence[tuple[EdgeClaim, CircuitEdge]]) -> str:
    """The content of a given stream, in words."""
    parts = []
    for claim, edge in claims:
        alike = f"a text that agrees on {', '.join(claim.features)}" if claim.features else (
            "any text"
        )  # fmt: skip
        parts.append(f"{show(edge.writer, 'unicode')} of {alike}")
    rest = len(port.writers) - len(claims)
    parts += ["all else of any text" if claims else "all of any text"] * (rest > 0)
    return "; ".join(parts)


def check_length(groups: Sequence[TextGroup]) -> None:
    """Raise VieteError if no text has another of its length."""
    if all(len(g.places) < 2 for g in groups):
        raise VieteError(
            "no two texts have the same length, so no value can come from another text"
        )


__all__ = ["ScrubbedValue", "Scrubbing", "check_length", "shown_card"]
