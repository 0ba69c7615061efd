"""From recorded nodes to ordered steps: products fused with what follows, work grouped by size.

Operations on each sequence separately (attention, norms, softmax, losses) run for a few sequences
at a time, so their values stay in the cache. Products of whole pieces with weights run for all
sequences at once.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viete.evaluate.plan.node import FLOAT, Node, ancestors, laid_out
from viete.evaluate.plan.recorder import Recorder

VIEWS = ("view", "given", "constant")
CHUNK = 2**20  # bytes of one group's values at a time: about a core's cache


@dataclass(eq=False)
class KernelStep:
    """A call of one kernel: its arguments, and the node whose memory it writes.

    ``form`` is the layout it writes in, where that is not the node's own; ``target`` is the result
    that it adds to, instead of writing.
    """

    kernel: str
    args: tuple[Any, ...]
    attrs: tuple[Any, ...]
    node: Node
    form: np.ndarray
    lead: tuple[int, int] | None
    target: str = ""
    inner: bool = False  # done sequence by sequence

    reads: list[Node] = field(init=False)
    bases: set[Node] = field(init=False)  # of what is read

    def __post_init__(self) -> None:
        self.reads = [a for a in self.args if isinstance(a, Node)]
        self.bases = {a.base for a in self.reads}


@dataclass(eq=False)
class Group:
    """Steps executed together: once, or for ``chunk`` sequences at a time."""

    steps: list[KernelStep]
    inner: bool
    chunk: int = 0

    def looped(self, batch: int) -> bool:
        return self.inner and self.chunk < batch


def steps_of(
    results: Mapping[str, Node], onto: bool, outputs: Collection[Node] = ()
) -> list[KernelStep]:
    """A step for every node, and one that adds each result to its total.

    With ``onto`` a product can be added to its output (as BLAS's β = 1 does). If there are
    ``outputs``, steps are joined only within an equation: so a value is the same to the last bit,
    whatever else is asked for.
    """
    nodes = [n for n in ancestors((*results.values(), *outputs)) if n.name not in VIEWS]
    uses: Counter[Node] = Counter(r.base for r in (*results.values(), *outputs))
    for n in nodes:
        for b in {a.base for a in n.args if isinstance(a, Node)}:
            uses[b] += 1
    made: dict[Node, KernelStep] = {}
    for n in nodes:
        made[n] = joined(step_of(n), made, uses, onto, bool(outputs))
    out = list(made.values())
    for name, r in results.items():
        step = made.get(r.base)
        adds = step is not None and (
            step.kernel == "gathered"
            or (step.kernel == "sum" and step.lead is None)
            or (step.kernel == "matmul" and onto)
        )
        if step is not None and adds and uses[r.base] == 1 and r.whole and not step.target:
            step.target = name
        else:
            out.append(KernelStep("copy", (r,), (), r, laid_out(r.shape), None, target=name))
    return sorted(out, key=lambda s: s.node.base.id)  # stable: a total right after its value


def step_of(n: Node) -> KernelStep:
    """The step that computes a single node."""
    if n.name == "matmul" and n.attrs:  # laid into memory in another order
        form = n.probe.transpose([n.attrs[1:].index(k) for k in range(n.ndim)])
        return KernelStep(n.name, n.args, (), n, form, n.lead)
    return KernelStep(n.name, n.args, n.attrs, n, n.probe, n.lead)


def joined(
    step: KernelStep, made: dict[Node, KernelStep], uses: Counter[Node], onto: bool, within: bool
) -> KernelStep:
    """A product's scaling, or a sum's addition, merged into the product.

    With ``within`` only steps of the same equation are joined.
    """

    def alone(a: Node) -> bool:
        same = not within or a.base.equation is step.node.equation
        return same and uses[a.base] == 1 and a.whole

    def product(a: Any) -> KernelStep | None:
        if not isinstance(a, Node) or not alone(a):
            return None
        found = made.get(a.base)
        return found if found is not None and found.kernel == "matmul" else None

    if step.kernel not in ("sum", "mean", "mul", "div", "add"):
        return step
    match step.kernel, step.args:
        case ("sum" | "mean", (Node() as a,)) if step.attrs[0] == a.ndim - 1:
            found = made.get(a.base) if alone(a) else None
            if found is not None and found.kernel == "mul":
                x, y = found.args
                alike = isinstance(x, Node) and isinstance(y, Node) and x.kind == y.kind == FLOAT
                if alike and x.shape == y.shape == a.shape:
                    del made[found.node]
                    count = 1 if step.kernel == "sum" else a.shape[-1]
                    return KernelStep("inner", (x, y), (count,), step.node, step.form, step.lead)
        case (("mul" | "div"), (Node() as a, float() as c)):
            if onto and (p := product(a)) is not None and len(p.args) == 2 and not p.attrs:
                del made[p.node]
                scale = c if step.kernel == "mul" else 1 / c
                return KernelStep("matmul", p.args, (scale,), step.node, p.form, p.lead)
        case "add", (Node() as a, Node() as b):
            for x, y in ((a, b), (b, a)):
                p = product(y)
                if not onto or p is None or len(p.args) != 2 or p.attrs or p.form.ndim != 2:
                    continue
                if x.whole and x.size == y.size and x.base.name not in VIEWS:
                    del made[p.node]
                    return KernelStep("matmul", (*p.args, x), (), step.node, p.form, p.lead)
    return step


def is_inner(step: KernelStep, batch: int) -> bool:
    """Whether a step can run sequence by sequence, and is not a product with weights."""
    if batch == 1 or step.kernel in ("changed", "written", "sparse"):
        return False
    if step.target:  # a sum over the sequences, or of such sums
        (a, *_) = step.args
        return step.kernel == "sum" and a.lead is not None and a.lead[0] == step.attrs[0]
    if step.lead is None or step.node.lead is None:
        return False
    if any(a.base.lead is not None and a.lead is None for a in step.reads):
        return False
    if step.kernel == "matmul":
        return step.args[0].lead is not None and step.args[1].lead is not None
    return True


def grouped(steps: list[KernelStep], space: Recorder) -> list[Group]:
    """The steps, ordered so that those that run sequence by sequence stay together."""
    if space.batch == 1:
        return [Group(steps, False, 1)]
    by_node = {s.node: s for s in steps if not s.target}
    then: dict[KernelStep, list[KernelStep]] = {}
    left: dict[KernelStep, int] = {}
    for s in steps:
        s.inner = is_inner(s, space.batch)
        before = {by_node[b] for b in s.bases if b in by_node}
        left[s] = len(before)
        for other in before:
            then.setdefault(other, []).append(s)
    place = {s: k for k, s in enumerate(steps)}
    ready: dict[bool, list[int]] = {True: [], False: []}
    for s in steps:
        if not left[s]:
            heapq.heappush(ready[s.inner], place[s])
    groups: list[Group] = []
    while ready[True] or ready[False]:
        # Within a group, every step that can run there; otherwise the order of the equations.
        inner = min((k for k in ready if ready[k]), key=lambda k: ready[k][0])
        if groups and groups[-1].inner and ready[True]:
            inner = True
        s = steps[heapq.heappop(ready[inner])]
        if not groups or groups[-1].inner != inner:
            groups.append(Group([], inner))
        groups[-1].steps.append(s)
        for other in then.get(s, ()):
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready[other.inner], place[other])
    for g in groups:
        g.chunk = chunk_of(g, space.batch) if g.inner else space.batch
    return groups


def chunk_of(group: Group, batch: int) -> int:
    """The number of sequences at a time: a divisor of the batch whose values fit the cache."""
    there: set[Node] = set()
    for s in group.steps:
        there |= {b for b in (*s.bases, s.node) if b.lead is not None}
    largest = max((4 * b.size // batch for b in there), default=1)
    most = max(1, CHUNK // max(1, largest))
    return max(k for k in range(1, batch + 1) if batch % k == 0 and (k <= most or k == 1))
