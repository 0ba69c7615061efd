"""A plan as a document: each step, what it computes, its memory, its bytes and its FLOPs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from viete.analysis.cost import BYTES, lengths_of
from viete.document.tree import Block, heading, paragraph, table
from viete.errors import VieteError
from viete.evaluate.gradient import Gradients
from viete.evaluate.inputs import Feeding
from viete.evaluate.memory import check_countable
from viete.evaluate.plan.arranging import Group, KernelStep, grouped, steps_of
from viete.evaluate.plan.buffers import Buffer, Memory, bytes_of, laid
from viete.evaluate.plan.engine import LOSS, PIECE, recorded
from viete.evaluate.plan.node import Node
from viete.evaluate.plan.recorder import uncollected
from viete.graph.card import CardData
from viete.notation.printer import show_symbol

PASSES = {
    "softmax": 5,
    "softmax_back": 4,
    "logsumexp": 4,
    "gelu": 8,
    "gelu_back": 14,
    "gelu_tanh": 9,
    "silu": 4,
    "sigmoid": 3,
}
FLOAT_BYTES = {name: n for name, n in BYTES.items() if "float" in name}
MOVES = frozenset("copy take pick concat placed astype".split())
SIGNS = {"add": "+", "sub": "−", "mul": "·", "div": "/", "lt": "<", "le": "≤", "gt": ">",
         "ge": "≥", "eq": "=", "ne": "≠"}  # fmt: skip


def plan_document(
    card: CardData, of: str | None = None, batch: int = 64, length: int | None = None,
    dtype: str = "float32", piece: int = PIECE,
) -> list[Block]:  # fmt: skip
    """The plan of one training step: ``batch`` sequences of ``length`` positions (the context).

    Nothing is allocated, so a card of any size has a plan. Raises VieteError as `grad` does, and
    for lengths beyond the context.
    """
    with uncollected():
        return planned_page(card, of, batch, length, dtype, piece)


def planned_page(
    card: CardData, of: str | None, batch: int, length: int | None, dtype: str, piece: int
) -> list[Block]:
    """The page of `plan_document`."""
    equations = Gradients(card, of)
    program = equations.program
    if batch < 1 or (length is not None and length < 1):
        raise VieteError("a plan needs at least one sequence of at least one position")
    given = {} if length is None else dict.fromkeys(card.lengths, length)
    sizes = {name: Fraction(n) for name, n in lengths_of(card, given).items()}
    positions = int(max(sizes.values(), default=Fraction(1)))
    check_countable(card, positions)
    together = min(batch, max(1, piece * 4 // FLOAT_BYTES[dtype] // positions))
    inputs = {}
    for item in equations.model.inputs:
        dims = [card.size(e) for e in item.shape]
        shape = [int(d.evaluate(program.sizes | sizes)) for d in dims if d is not None]
        inputs[item.name] = np.zeros((together, *shape), np.int64 if item.high else np.float64)
    store = Feeding(program, inputs, {}).store
    wanted = {LOSS: (equations.loss.key, ()), **equations.members}
    half = FLOAT_BYTES[dtype] == 2
    space, results = recorded(program, store, program.sizes | sizes, wanted, half=half)
    groups = grouped(steps_of(results, onto=True), space)
    each = 4 if half else FLOAT_BYTES[dtype]
    memory = laid(groups, together, each)
    page = PlanPage(card, program.model, groups, memory, together, each)
    return page.blocks(batch, positions, dtype)


class PlanPage:
    """Writes the steps of one plan."""

    def __init__(
        self,
        card: CardData,
        model: CardData,
        groups: list[Group],
        memory: Memory,
        batch: int,
        each: int,
    ) -> None:
        self.card, self.model, self.groups, self.memory = card, model, groups, memory
        self.batch, self.each = batch, each
        self.numbers = {(e.left, e.loop): k for k, e in enumerate(model.equations, 1)}
        self.labels: dict[int, int] = {}

    def blocks(self, batch: int, positions: int, dtype: str) -> list[Block]:
        rows, total, k = [], 0, 0
        for g in self.groups:
            for s in g.steps:
                k += 1
                flops = self.flops(s)
                total += flops
                at_once = g.chunk if g.looped(self.batch) else self.batch
                rows.append([
                    str(k), self.equation(s), self.operation(s), self.shape(s, at_once),
                    str(at_once), self.result(s), short(self.bytes(s, g)), short(flops),
                ])  # fmt: skip
        pieces = math.ceil(batch / self.batch)
        arena = self.memory.arena + self.memory.scratch
        said = (
            f"{batch} × {positions} positions in {dtype}, {self.batch} of the {batch} sequences at "
            f"a time: {pieces} × the {k} steps below, {short(total)}FLOP each time. All values "
            f"together take {short(arena)}B; with a buffer for each value they would take "
            f"{short(self.memory.wanted)}B. The buffers #1, #2, … hold values of all these "
            f"sequences; the buffers ~1, ~2, … hold values of the few sequences that go through a "
            f"group of steps at a time. A value may reuse the buffer of another. += adds to the "
            f"loss or to a gradient, which all sequences share. The numbers of the equations are "
            f"those that viete grad prints."
        )
        head = ["step", "equation", "operation", "shape", "at a time", "into", "bytes", "FLOP"]
        return [
            heading(1, f"{self.card.title}: execution plan"),
            paragraph(said),
            table(head, rows),
        ]

    def equation(self, s: KernelStep) -> str:
        step = s.node.equation
        if step is None:
            return ""
        number = self.numbers[step.equation.left, step.equation.loop]
        return f"{number}" + "".join(f", {i} = {k}" for i, k in step.loops.items())

    def label(self, b: Buffer) -> str:
        number = self.labels.setdefault(id(b), len(self.labels) + 1)
        return f"{'#' if b.scratch is None else '~'}{number}"

    def name(self, a: object) -> str:
        if not isinstance(a, Node):
            return f"{a:g}" if isinstance(a, float) else str(a)
        base = a.base
        if base.name == "given":
            name = base.attrs[0]
            text = name if isinstance(name, str) else str(name[0])
        elif base.name == "constant":
            text = "constant"
        else:
            text = self.label(self.memory.home[base])
        turned = a.ndim > 1 and a.strides[-1] != 1 and a.strides[-2] == 1
        return text + ("ᵀ" if turned else "")

    def operation(self, s: KernelStep) -> str:
        names = [self.name(a) for a in s.args]
        if s.kernel == "matmul":
            scale = f"{s.attrs[0]:g} " if s.attrs else ""
            more = f" + {names[2]}" if len(names) == 3 else ""
            return f"{scale}{names[0]} @ {names[1]}{more}"
        if s.kernel in SIGNS:
            return f"{names[0]} {SIGNS[s.kernel]} {names[1]}"
        return f"{s.kernel}({', '.join(names)})"

    def shape(self, s: KernelStep, at_once: int) -> str:
        shape = list(s.form.shape)
        if s.lead is not None:
            shape[s.lead[0]] = at_once * s.lead[1]
        return " × ".join(map(str, shape)) or "1"

    def result(self, s: KernelStep) -> str:
        if not s.target:
            return self.label(self.memory.home[s.node])
        if s.target == LOSS:
            return "loss +="
        p = next((p for p in self.model.parameters if p.name == s.target), None)
        return f"∂{show_symbol(p.symbol, 'plain') if p else s.target} +="

    def bytes(self, s: KernelStep, g: Group) -> int:
        size = bytes_of(s.node, self.each)
        scratch = not s.target and self.memory.home[s.node].scratch is not None
        return size * g.chunk // self.batch if scratch else size

    def flops(self, s: KernelStep) -> int:
        """Two for each multiplication and addition of a product, else one an entry and pass."""
        size = math.prod(s.form.shape)
        if s.kernel == "matmul":
            return 2 * size * int(s.args[0].shape[-1])
        if s.kernel in MOVES:
            return size if s.target else 0
        if s.kernel in ("sum", "mean", "amax", "amin", "argmax", "logsumexp", "gathered"):
            return PASSES.get(s.kernel, 1) * int(s.args[0].size)
        return PASSES.get(s.kernel, 1) * size


def short(n: int) -> str:
    """1234567 as 1.23 M."""
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if n >= size:
            return f"{n / size:.3g} {letter}"
    return f"{n} "
