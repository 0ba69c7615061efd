"""Circuits found here, by edge attribution patching and by ACDC, at equal numbers of edges.

The peers are written by hand in PyTorch, with a stream of its own for each reader, in float64:
edge attribution patching (Syed, Rager & Conmy 2023) takes the edges of the largest first-order
scores, and ACDC (Conmy et al. 2023) goes from the last reader to the first, and puts each edge at
its mean that changes the number by less than a threshold. What is left for some thresholds says at
which numbers of edges all are held to each other; an edge that leads nowhere counts for no one.
Each circuit is measured by the same code in PyTorch. ``python benchmarks/circuits.py MODEL…``, of
which each is trained on text that repeats itself: two-layers, or a run of
`viete train` on Pythia or Llama.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import viete as vt
from tests.circuits.test_circuits import ByHand
from viete.circuits.card import live_edges
from viete.notation.printer import show

OF = r"\sum_{j=16}^{n-2} logsoftmax(logits)_{j,t_{j+1}} / (n - 17)"
TEXTS = Path(__file__).parents[1] / "docs" / "models" / "repeats.txt"
THRESHOLDS = 1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005
Tensor = Any
Edge = tuple[str, str]


class TwoLayers(ByHand):
    """The model of the notebook on induction heads, whose heads read in one formula."""

    def turned(self, x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[-2]).double()[:, None] * 100.0 ** (-torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    def pattern(self, q: Tensor, k: Tensor, i: int) -> Tensor:
        return super().pattern(q / q.shape[-1] ** 0.5, k, i)

    def logits(self, ids: np.ndarray, see: Any) -> Tensor:
        return super().logits(
            ids, lambda reader, w, fixed: see(reader.replace("V^", "r^"), w, fixed)
        )


class Peer:
    """Runs of a model by hand in which some edges are at their means over the texts."""

    def __init__(self, model: ByHand, ids: np.ndarray) -> None:
        self.model, self.ids = model, ids
        found: dict[str, Tensor] = {}
        self.readers: dict[str, list[str]] = {}

        def look(reader: str, writers: Mapping[str, Tensor], fixed: Tensor) -> Tensor:
            found.update(writers)
            self.readers[reader] = [*writers]
            return sum(writers.values()) + fixed

        with torch.no_grad():
            self.logits(look)
        self.clean = found
        self.means = {name: value.mean(0) for name, value in found.items()}
        self.edges = [(w, reader) for reader, writers in self.readers.items() for w in writers]

    def logits(self, see: Any) -> Tensor:
        return self.model.logits(self.ids, see)

    def number(self, logits: Tensor) -> Tensor:
        """The mean over texts and places of the log-probability of what comes next."""
        target = torch.tensor(self.ids[:, 17:])
        return logits[:, 16:-1].log_softmax(-1).gather(-1, target[..., None]).mean()

    def of(self, edges: Collection[Edge]) -> float:
        """What some edges give."""
        some = set(edges)

        def see(reader: str, writers: Mapping[str, Tensor], fixed: Tensor) -> Tensor:
            seen = (v if (w, reader) in some else self.means[w].expand_as(v)
                    for w, v in writers.items())  # fmt: skip
            return sum(seen) + fixed

        with torch.no_grad():
            return float(self.number(self.logits(see)))

    def scores(self) -> dict[Edge, float]:
        """Edge attribution patching."""
        streams: dict[str, list[Tensor]] = {}

        def see(reader: str, writers: Mapping[str, Tensor], fixed: Tensor) -> Tensor:
            x = (sum(writers.values()) + fixed).requires_grad_()
            x.retain_grad()
            streams.setdefault(reader, []).append(x)
            return x

        self.number(self.logits(see)).backward()
        grads = {r: sum(x.grad for x in xs if x.grad is not None) for r, xs in streams.items()}
        away = {w: self.clean[w] - self.means[w] for w in self.clean}
        return {(w, r): float((away[w] * grads[r]).sum()) for w, r in self.edges}

    def acdc(self, threshold: float) -> list[Edge]:
        """The edges that ACDC leaves."""
        left = set(self.edges)
        now = self.of(left)
        for reader in reversed(self.readers):
            for w in reversed(self.readers[reader]):
                without = self.of(left - {(w, reader)})
                if abs(without - now) < threshold:
                    left.remove((w, reader))
                    now = without
        return [*left]


def measure(name: str) -> None:
    """A table of one model."""
    opened = vt.load(name)
    weights = {n: np.asarray(w, np.float64) for n, w in opened.weights.items()}
    texts = TEXTS.read_text().split()
    ids = np.stack([np.asarray(opened.text_ids(text)) for text in texts])
    model = opened.card.with_weights(weights)
    hand = (TwoLayers if "two-layers" in name else ByHand)(family(opened.card), model)
    peer = Peer(hand, ids)
    whole, none = peer.of(peer.edges), peer.of([])
    searches = {
        "gradient": model.circuits(OF, ids), "5 steps": model.circuits(OF, ids, 5),
        "patching": model.circuits(OF, ids, score="patching"),
    }  # fmt: skip
    wiring = searches["gradient"].wiring
    by_name = {(show(e.writer), show(e.reader)): e for e in wiring.edges}
    assert {*by_name} == {*peer.edges}, {*by_name} ^ {*peer.edges}

    def live(edges: Collection[Edge]) -> list[Edge]:
        found = live_edges(wiring, [by_name[e] for e in edges])
        return [(show(e.writer), show(e.reader)) for e in found]

    print(
        f"\n{opened.card.title}: {len(peer.edges)} edges; {whole:.4f} with all, {none:.4f} "
        f"with none"
    )
    print("\n| edges | by | faithfulness | completeness | s |\n| --- | --- | --- | --- | --- |")
    start = time.perf_counter()
    scores = peer.scores()
    scored = time.perf_counter() - start
    ranked = sorted(scores, key=lambda e: -abs(scores[e]))
    found: dict[int, tuple[list[Edge], float]] = {}
    for threshold in THRESHOLDS:
        start = time.perf_counter()
        edges = live(peer.acdc(threshold))
        found[len(edges)] = edges, time.perf_counter() - start
    for count, (edges, took) in sorted(found.items()):
        if not 0 < count < len(peer.edges):
            continue
        each = (live(ranked[:k]) for k in range(count, len(ranked) + 1))
        eap = [x for x in each if len(x) <= count][-1]
        rows = {"ACDC, by hand": (edges, took), "EAP, by hand": (eap, scored)}
        for how, search in searches.items():
            start = time.perf_counter()
            ours = [(show(e.writer), show(e.reader)) for e in search.largest(count)]
            rows[f"here, {how}"] = ours, time.perf_counter() - start
        start = time.perf_counter()
        ours = [(show(e.writer), show(e.reader)) for e in searches["patching"].confirmed(count)]
        rows["here, patching, confirmed"] = ours, time.perf_counter() - start
        for how, (some, seconds) in rows.items():
            faithful = (peer.of(some) - none) / (whole - none)
            complete = (whole - peer.of({*peer.edges} - {*some})) / (whole - none)
            size = f"{count}" if len(some) == count else f"{count} ({len(some)})"
            print(
                f"| {size} | {how} | {faithful:.3f} | {complete:.3f} | {seconds:.2f} |", flush=True
            )


def family(card: vt.Card) -> str:
    """What `ByHand` calls a model."""
    title = card.title.lower()
    return next((x for x in ("pythia", "llama") if x in title), "attention-only-2")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        measure(name)
