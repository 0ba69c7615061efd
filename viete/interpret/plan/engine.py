"""The loss and its gradients, planned: weights and gradients each in one row of memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from viete.algebra.model import Model
from viete.interpret.feeding import Feeding, check_weights
from viete.interpret.gradient import PIECE, Gradients
from viete.interpret.labelled import COL, ROW, Array, Value
from viete.interpret.plan.making import Plan, make
from viete.interpret.plan.node import FLOAT, INT, Node
from viete.interpret.plan.recorder import Recorder
from viete.interpret.plan.turns import Recorded
from viete.interpret.schedule import Member, Program

LOSS = "loss"


class Engine:
    """The loss and gradients of one model, planned for each size of input once.

    ``weights`` maps the names of `viete.parameter_shapes` to arrays, NumPy or PyTorch, which are
    copied into ``flat``; ``compute`` is the precision to compute in where it is not theirs (such as
    ``torch.bfloat16``; ``flat`` and the gradients keep the weights' own). ``of`` is the loss, as in
    `viete.grad`; ``piece`` is how many positions go through the equations at a time, by default as
    many as keep their values near the processor.
    """

    def __init__(
        self, model: Model, weights: Mapping[str, Array], of: str | None = None,
        compute: Any = None, piece: int | None = None,
    ) -> None:  # fmt: skip
        equations = Gradients(model, of)
        self.model, self.loss = model, equations.loss
        self.program, self.members = equations.program, equations.members
        check_weights(self.program, weights)
        shapes = {name: shape for name, (_, _, shape) in self.program.parameters.items()}
        like = next(iter(weights.values()))
        self.torch = hasattr(like, "detach")
        count = sum(int(np.prod(s)) for s in shapes.values())
        self.flat, self.flat_gradient = zeros(like, count), zeros(like, count)
        self.weights, self.gradients = split(self.flat, shapes), split(self.flat_gradient, shapes)
        for name, w in weights.items():
            self.weights[name][...] = w.detach() if self.torch else w
        self.computed = self.flat
        if compute is not None and compute != like.dtype:
            self.computed = self.flat.to(compute) if self.torch else self.flat.astype(compute)
        self.given = split(self.computed, shapes)
        self.piece = PIECE * 4 // self.computed.itemsize if piece is None else piece
        self.total = zeros(like, 1)
        self.plans: dict[Any, Plan] = {}

    def __call__(self, tokens: Any, **inputs: Any) -> float:
        """The mean loss over the sequences; ``gradients`` are filled with its derivatives.

        Raises VieteError for inputs that do not fit.
        """
        if tokens is not None:
            inputs = {self.model.inputs[0].name: tokens, **inputs}
        fed = Feeding(self.program, inputs, self.given)
        if self.computed is not self.flat:
            self.computed[...] = self.flat
        self.flat_gradient[...] = 0
        self.total[...] = 0
        count = next((v.size("batch") for v in fed.store.values() if "batch" in v.axes), 1)
        for store in [store for _, store in fed.pieces(self.piece)] or [fed.store]:
            plan = self.plan(fed, store)
            for (name, _), v in store.items():
                if name in plan.given and name not in self.given:
                    plan.given[name][...] = v.array
            plan.run()
        self.flat_gradient *= 1 / count
        return float(self.total[0]) / count

    def plan(self, fed: Feeding, store: Mapping[Any, Value]) -> Plan:
        """The plan for inputs of these shapes, made when they first come."""
        leaves = {(p.name, loops): name for name, (p, loops, _) in self.program.parameters.items()}
        key = tuple((m, v.array.shape) for m, v in store.items() if m not in leaves)
        if key not in self.plans:
            with uncollected():
                self.plans[key] = self.made(fed, store, leaves)
        return self.plans[key]

    def made(self, fed: Feeding, store: Mapping[Any, Value], leaves: Mapping[Any, str]) -> Plan:
        given = {m[0]: empty_like(v.array) for m, v in store.items() if m not in leaves}
        wanted = {LOSS: (self.loss.key, ()), **self.members}
        space, results = recorded(self.program, store, fed.sizes, wanted)
        totals = {LOSS: self.total.reshape(()), **self.gradients}
        return make(space, results, given | self.given, totals, self.computed)


def recorded(
    program: Program, store: Mapping[Member, Value], sizes: Mapping[str, Fraction],
    wanted: Mapping[str, Member],
) -> tuple[Recorder, dict[str, Node]]:  # fmt: skip
    """What a piece takes to compute: the nodes, and those of the wanted values by name.

    Inputs have the shapes of those in ``store``; results are summed over the sequences and have
    their axes in the order of `viete.parameter_shapes`.
    """
    batch = next((v.size("batch") for v in store.values() if "batch" in v.axes), 1)
    space = Recorder(batch)
    nodes: dict[Member, Value] = {}
    inputs = {i.name for i in program.model.inputs}
    for (name, loops), v in store.items():
        if name not in inputs:
            continue
        kind = INT if "int" in str(v.array.dtype) else FLOAT
        node = space.given(name, tuple(v.array.shape), kind, "batch" in v.axes)
        nodes[name, loops] = Value(node, v.axes)
    for name, (p, loops, shape) in program.parameters.items():
        axes = tuple(s for s in p.symbol.slots if s not in program.model.loop_letters)
        axes += (ROW, COL)[2 - len(p.shape) :]
        nodes[p.name, loops] = Value(space.given(name, shape), axes)
    run = Recorded(program, nodes, space.given("like", ()), sizes, True)
    run.compute_members(set(wanted.values()))
    space.equation = None
    return space, {
        name: run.ordered(run.arrays.folded(run.store[member]), ())
        for name, member in wanted.items()
    }


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector, which would look at every node again and again."""
    going = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if going:
            gc.enable()


def zeros(like: Array, count: int) -> Array:
    """A row of zeros of a weight's kind."""
    return like.new_zeros(count) if hasattr(like, "detach") else np.zeros(count, like.dtype)


def empty_like(array: Array) -> Array:
    """Memory for another array of this shape."""
    if hasattr(array, "detach"):
        import torch

        return torch.empty(tuple(array.shape), dtype=array.dtype, device=array.device)
    return np.empty(array.shape, array.dtype)


def split(flat: Array, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Views of a row by name."""
    out, start = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        out[name] = flat[start : start + size].reshape(shape)
        start += size
    return out
