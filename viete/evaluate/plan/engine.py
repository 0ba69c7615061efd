"""The loss and its gradients, planned: weights and gradients are each one flat block of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from viete.evaluate.gradient import Gradients
from viete.evaluate.inputs import Feeding, check_weights
from viete.evaluate.labelled import COL, ROW, Array, Value
from viete.evaluate.memos import recent
from viete.evaluate.plan.arranging import grouped, steps_of
from viete.evaluate.plan.buffers import laid
from viete.evaluate.plan.layout import back, in_memory, orders, split
from viete.evaluate.plan.loops import RecordedRun
from viete.evaluate.plan.making import Compiler, Library, Plan
from viete.evaluate.plan.node import FLOAT, HALF, INT, Node
from viete.evaluate.plan.recorder import Recorder, uncollected
from viete.evaluate.plan.workers import Workers
from viete.evaluate.schedule import Member, Program
from viete.evaluate.shares import shares
from viete.evaluate.spelling import by_own_names
from viete.graph.card import CardData

LOSS = "loss"
PIECE = 1024  # positions in float32
PLANS = 16  # of a thread, one for each shape of inputs; those last used are kept
WORTH_IT = 10**7  # weights × positions, about a millisecond: less is not shared among threads


class Engine:
    """The loss and gradients of one model, planned once for each size of input.

    ``weights`` maps the names of `parameter_shapes` to arrays, NumPy or PyTorch, which are copied
    into ``flat``; ``compute`` is the precision of matrix products, if not that of the weights (such
    as ``torch.bfloat16``): all else keeps the weights' own, as under PyTorch's autocast. ``of`` is
    the loss, as in `viete.rewrite.adjoint.grad`; ``piece`` is the number of positions that go
    through the equations at a time, by default as many as keep their values near the processor;
    ``threads`` is the number of pieces at once, by default as many as the array library has
    threads. Sums are in the same order every time. ``mean`` says over what the loss of a batch is a
    mean, 'targets' or 'texts'.
    """

    def __init__(
        self, card: CardData, weights: Mapping[str, Array], of: str | None = None,
        compute: Any = None, piece: int | None = None, threads: int | None = None,
        mean: str = "targets",
    ) -> None:  # fmt: skip
        self.portions = shares(card, of) if mean == "targets" else None
        if self.portions is not None:
            card, of = self.portions.card, self.portions.loss.key
        equations = Gradients(card, of)
        self.model, self.loss = card, equations.loss
        self.program, self.members = equations.program, equations.members
        weights = by_own_names(card, weights, self.program.parameters)
        check_weights(self.program, weights)
        self.shapes = {name: shape for name, (_, _, shape) in self.program.parameters.items()}
        like = next(iter(weights.values()))
        self.torch = hasattr(like, "detach")
        self.flat = zeros(like, sum(int(np.prod(s)) for s in self.shapes.values()))
        self.orders = orders(self.program)
        self.laid = {k: in_memory(k, shape, self.orders) for k, shape in self.shapes.items()}
        self.weights = split(self.flat, self.shapes, self.orders)
        for name, w in weights.items():
            self.weights[name][...] = w.detach() if self.torch else w
        self.computed = self.flat
        if compute is not None and compute != like.dtype:
            self.computed = self.flat.to(compute) if self.torch else self.flat.astype(compute)
        self.half = self.computed is not self.flat
        self.given: dict[Any, Array] = {**split(self.flat, self.laid)}
        self.like = dict(list(self.given.items())[:1])  # enough to determine the dtype of inputs
        if self.half:
            self.given |= {(HALF, k): w for k, w in split(self.computed, self.laid).items()}
        self.piece = PIECE * 4 // self.computed.itemsize if piece is None else piece
        self.inputs = frozenset(i.name for i in self.program.model.inputs)
        there = "cpu" in str(getattr(like, "device", "cpu"))
        self.workers = Workers(self.torch, threads if there else 1)
        self.shares = [ThreadShare(self)]
        self.flat_gradient, self.gradients = self.shares[0].flat, self.shares[0].gradients

    def __call__(self, tokens: Any, /, **inputs: Any) -> float:
        """The mean loss over the targets or texts; ``gradients`` get its derivatives.

        Raises VieteError for inputs that do not fit.
        """
        if tokens is not None:
            inputs = {self.model.inputs[0].name: tokens, **inputs}
        if self.portions is not None and self.portions.name not in inputs:
            inputs = self.portions.of(by_own_names(self.model, inputs, self.program.inputs))
        fed = Feeding(self.program, inputs, self.like)
        if self.half:
            self.workers.spread(self.convert, len(self.flat))
        sequences = [v for v in fed.store.values() if "batch" in v.axes]
        count = sequences[0].size("batch") if sequences else 1
        pieces = [store for _, store in fed.pieces(self.positions(fed, count))] or [fed.store]
        while len(self.shares) < min(len(pieces), self.workers.count):
            self.shares.append(ThreadShare(self))
        shares = self.shares[: len(pieces)]
        tasks = [partial(s.run, fed, pieces[k :: len(shares)]) for k, s in enumerate(shares)]
        if len(tasks) == 1:
            tasks[0]()
        else:
            self.workers.run(tasks)
        self.workers.spread(partial(self.join, shares[1:], count), len(self.flat))
        return sum(float(s.total[0]) for s in shares) / count

    def convert(self, part: slice) -> None:
        """Convert some weights to the precision of matrix products."""
        self.computed[part][...] = self.flat[part]

    def join(self, others: Sequence[ThreadShare], count: int, part: slice) -> None:
        """Sum some gradients over all shares, and divide by ``count``."""
        g = self.flat_gradient[part]
        for other in others:
            g += other.flat[part]
        g *= 1 / count

    def positions(self, fed: Feeding, count: int) -> int:
        """The number of positions at a time: a share for each thread if there is enough work."""
        length = int(max((fed.sizes[k] for k in self.program.model.lengths), default=1))
        each = min(self.piece, -(-count // self.workers.count) * length)
        return each if len(self.flat) * length * count > WORTH_IT else self.piece


class ThreadShare:
    """The share of one thread: its plans, and its sums of losses and gradients."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.flat, self.total = zeros(engine.flat, len(engine.flat)), zeros(engine.flat, 1)
        self.totals = split(self.flat, engine.laid)
        self.gradients = split(self.flat, engine.shapes, engine.orders)
        self.plans: dict[Any, Plan] = {}

    def run(self, fed: Feeding, pieces: Sequence[Mapping[Member, Value]]) -> None:
        """The loss and gradients of some pieces, summed over their sequences."""
        self.flat[...] = 0
        self.total[...] = 0
        for store in pieces:
            inputs = {m: v for m, v in store.items() if m[0] in self.engine.inputs}
            plan = self.plan(fed, inputs)
            plan.run({m: v.array for m, v in inputs.items()})

    def plan(self, fed: Feeding, inputs: Mapping[Member, Value]) -> Plan:
        """The plan for inputs of these shapes, compiled at their first use."""
        engine = self.engine
        wanted = {LOSS: (engine.loss.key, ()), **engine.members}
        totals = {LOSS: self.total.reshape(()), **self.totals}

        def made() -> Plan:
            ready = engine.program.at(fed.sizes)
            space, results = recorded(ready, inputs, fed.sizes, wanted, engine.torch, engine.half)
            library = Library(engine.flat, engine.computed)
            groups = grouped(steps_of(results, onto=library.torch), space)
            memory = laid(groups, space.batch, library.float_bytes, library.half_bytes)
            return Compiler(space, groups, memory, engine.given, library, totals).plan()

        key = tuple((m, tuple(v.array.shape)) for m, v in inputs.items())
        with uncollected():
            return recent(self.plans, key, made, PLANS)


def recorded(
    program: Program, store: Mapping[Member, Value], sizes: Mapping[str, Fraction],
    wanted: Mapping[str, Member], fused: bool = True, half: bool = False,
) -> tuple[Recorder, dict[str, Node]]:  # fmt: skip
    """The recorder of a piece's nodes, and the nodes of the wanted values by name.

    ``store`` has the inputs, of which the shapes count; results are summed over the sequences and
    have their axes as weights lie in memory (see `layout`). ``fused``, ``half`` as for `Recorder`.
    """
    batch = next((v.size("batch") for v in store.values() if "batch" in v.axes), 1)
    space = Recorder(batch, fused, half, program.parameters)
    nodes: dict[Member, Value] = {}
    for m, v in store.items():
        kind = INT if "int" in str(v.array.dtype) else FLOAT
        node = space.leaf(m, tuple(v.array.shape), kind, "batch" in v.axes)
        nodes[m] = Value(node, v.axes)
    laid = orders(program)
    for name, (weight, loops, shape) in program.parameters.items():
        axes = program.model.heads_of(weight.symbol) + (ROW, COL)[2 - len(weight.shape) :]
        node = space.leaf(name, in_memory(name, shape, laid))
        if name in laid:
            node = space.permute_dims(node, back(laid[name]))
        nodes[weight.name, loops] = Value(node, axes)
    run = RecordedRun(program, nodes, space.leaf("like", ()), sizes, True)
    run.compute_members(set(wanted.values()))
    space.equation = None
    results = {}
    for name, member in wanted.items():
        p = program.parameters.get(name)
        heads = () if p is None else program.model.heads_of(p[0].symbol)
        node = run.ordered(run.batch_sum(member), heads)
        results[name] = space.permute_dims(node, laid[name]) if name in laid else node
    return space, results


def zeros(like: Array, count: int) -> Array:
    """A vector of zeros of a weight's dtype."""
    return like.new_zeros(count) if hasattr(like, "detach") else np.zeros(count, like.dtype)
