"""The loss and its gradients over a batch, by the derived backward equations.

The sequences of a batch only meet where a weight's gradient sums over them. So a few sequences at a
time go through the forward and backward equations, their intermediate values stay in the cache, and
each weight's gradient is one product over positions and sequences together.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from viete.evaluate.fast import FastArrays
from viete.evaluate.labelled import Value
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, Program, Step
from viete.graph.card import CardData, memoised
from viete.graph.evaluator import Env
from viete.notation.tree import Apply, Bind, Expr
from viete.rewrite.adjoint.grad import grad, with_loss
from viete.rewrite.adjoint.shares import partial


class Summing(FastArrays):
    """The array meaning, and ``over_batch``: an expression summed over the sequences.

    ``batch`` is the number of sequences. A value that no sequence changes is multiplied by it.
    """

    batch = 1
    sparse = False  # backward equations read values inside the sums

    def over_batch(self, e: Expr, env: Env) -> Value:
        match e:
            case Apply("add" | "sub" as op, (a, b)):
                return self.entrywise(op, [self.over_batch(a, env), self.over_batch(b, env)])
            case Apply("neg", (a,)):
                return self.entrywise("neg", [self.over_batch(a, env)])
            case Apply("prod", (a, b)):
                return self.product_over(self.of(a, env), self.of(b, env))
            case Apply(args=args) if self.card.library_name(e) == "gathered":
                values = [self.of(a, env) for a in args]
                quick: Any = self.quick.get("gathered")
                found = quick(self, values, batch=True) if quick else None
                if found is not None:
                    return found if "batch" in values[0].axes else self.batch_sum(found)
            case Bind("sum", _, lower, upper, body) if lower is not None and upper is not None:
                if e.index not in self.card.loop_letters:
                    inner, label = self.bound(e, env)
                    v = self.of(body, inner)
                    if "batch" in v.axes and label in v.axes:
                        return self.batch_sum(self.fold("sum", v, label))
        return self.batch_sum(self.of(e, env))

    def product_over(self, a: Value, b: Value) -> Value:
        """A matrix product with the sum over sequences in the same product."""
        if "batch" in a.axes and "batch" in b.axes and a.core and b.core:
            return self.product(a, b, ("batch",))
        return self.batch_sum(self.product(a, b))

    def batch_sum(self, v: Value) -> Value:
        """A value summed over the sequences."""
        if "batch" in v.axes:
            return self.fold("sum", v, "batch")
        if self.batch == 1:
            return v
        return self.entrywise("times", [v, Value(Fraction(self.batch), (), True)])


class Backprop(Run):
    """Runs one piece of a batch forward and back; the gradients of leaves are summed over it."""

    meaning = Summing
    arrays: Summing

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        sequences = (v.size("batch") for v in self.store.values() if "batch" in v.axes)
        self.arrays.batch = next(sequences, 1)

    def batch_sum(self, member: Member) -> Value:
        """A computed value summed over the sequences; leaves are summed already."""
        v = self.store[member]
        return v if member[0] in self.program.leaves else self.arrays.batch_sum(v)

    def value(self, step: Step) -> Value:
        if step.makes[0] not in self.program.leaves:
            return super().value(step)
        env = self.arrays.env
        if step.loops:
            env = replace(env, index={**env.index, **step.loops})
        return self.full(self.arrays.over_batch(step.equation.right, env), step.equation)


class Gradients:
    """The loss of a card and its gradients, as equations with the program that computes them.

    ``of`` is the loss, as for `viete.rewrite.adjoint.grad`. ``members`` are the gradients of the
    weights that the loss depends on, by their names.
    """

    def __init__(self, card: CardData, of: str | None = None) -> None:
        self.model, self.loss = with_loss(card, of)
        self.program, self.members = summing(card, of)


@memoised
def summing(card: CardData, of: str | None) -> tuple[Program, dict[str, Member]]:
    """The program of a card's gradients, summed over a batch, and the members that they are."""
    program = Program(grad(card, of))
    keys = {p.name: partial(p.symbol).key for p in card.parameters}
    used = {key for s in program.steps for key, _ in s.needs}
    # A gradient that other values depend on is summed over the batch at the end.
    program.leaves = frozenset(keys.values()) - used
    made = {s.makes for s in program.steps}
    members = {name: (keys[p.name], loops)
               for name, (p, loops, _) in program.parameters.items()}  # fmt: skip
    return program, {name: m for name, m in members.items() if m in made}
