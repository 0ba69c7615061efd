"""Steps of a page: each equation of a run, for each turn of its loop, and its operations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from viete.document.html import prose
from viete.document.tree import capital
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, Step, member_name
from viete.explore.formulas import Tree, equation_mathml, mathml
from viete.explore.operation import Operation
from viete.explore.operations import TooManyEntries, Tracer
from viete.explore.reruns import decimal
from viete.graph.card import Equation
from viete.notation.printer import show_equation
from viete.notation.tree import Symbol
from viete.report.lesson.words import StepWords
from viete.rewrite.adjoint.grad import forward_pass
from viete.rewrite.blocks import at_block

AGAIN = "a part of"  # how the meaning begins of what a backward pass computes anew
NUMBERED = re.compile(r"\b(from|of) (\d+(?:, \d+)*(?: and \d+)?)\b")


class NumberedEquations:
    """The equations of a card as JSON, numbered from 1.

    Equations that ``before`` has too keep their number there, and the others follow.
    """

    known: dict[tuple[str, int], int]  # the number of each name
    made: dict[tuple[int, Equation], dict[str, Any]]  # as JSON, by its number

    def __init__(self, run: Run, before: NumberedEquations | None = None) -> None:
        self.run, self.card = run, run.program.model
        self.all = self.card.equations
        self.place = {(e.left, e.loop): k for k, e in enumerate(self.all)}
        self.trees: dict[int, Tree] = {}
        self.names = names_of_loops(self.all)
        self.known, self.made = ({}, {}) if before is None else (before.known, before.made)
        for name in self.names:
            self.known.setdefault(name, len(self.known) + 1)
        self.numbers = [self.known[name] for name in self.names]

    def place_of(self, e: Equation) -> int:
        """The place of an equation, also where a choice for its block is settled in it."""
        return self.place[e.left, e.loop]

    def tree(self, k: int) -> Tree:
        """The right side of an equation as a tree, by its place."""
        if k not in self.trees:
            self.trees[k] = Tree(self.card, self.all[k].right)
        return self.trees[k]

    def data(self) -> list[dict[str, Any]]:
        """All equations; one that ``before`` has under its number is the same object there."""
        for k, key in enumerate(zip(self.numbers, self.all, strict=True)):
            if key not in self.made:
                self.made[key] = self.equation(k, key[1])
        return [self.made[key] for key in zip(self.numbers, self.all, strict=True)]

    def equation(self, k: int, e: Equation) -> dict[str, Any]:
        """One equation as JSON."""
        number, tree = self.numbers[k], self.tree(k)
        loop = e.loop and {"letter": e.loop.index, "lower": mathml(e.loop.lower),
                           "upper": mathml(e.loop.upper)}  # fmt: skip
        return {
            "number": number, "key": e.name, "math": equation_mathml(e.left, e.right),
            "latex": show_equation(e.left, e.right, "latex"),
            "meaning": prose(e.meaning), "part": e.part, "loop": loop,
            "reads": sorted(e.reads), "tree": tree.data, "opened": tree.opened,
        }  # fmt: skip


class PageSteps:
    """The steps of a run as JSON, and the operations of each."""

    def __init__(self, run: Run, equations: NumberedEquations, operations: Tracer | None) -> None:
        self.run, self.card, self.equations = run, run.program.model, equations
        self.operations = operations
        self.words = StepWords(self.card, "mathml")
        self.forward = {e.name for e in forward_pass(self.card).equations}
        self.symbols = self.card.symbols

    def name(self, member: Member) -> str:
        """A member's name, as in ``run[...]``."""
        symbol = self.symbols[member[0]]
        return member_name(symbol, self.run.program.loops_of(symbol, member[1]))

    def turns(self) -> Iterator[Step]:
        """The steps whose values are available."""
        run = self.run
        return (
            s for s in run.program.steps
            if s.makes in run.store or (s.makes[0] in run.inside and s.makes not in run.missing)
        )  # fmt: skip

    def of(self, step: Step) -> tuple[dict[str, Any], list[Operation]]:
        """One step as JSON, and its operations; no operations for a step that is too large."""
        member, made = self.name(step.makes), list[Operation]()
        place = self.equations.place_of(step.equation)
        e, tree = self.equations.all[place], self.equations.tree(place)
        number = self.equations.numbers[place]
        if self.operations is not None:
            with suppress(TooManyEntries):
                made = self.operations.of_step(step, member)
        left, right = (
            at_block(x, step.loops, self.run.sizes)
            for x in (step.equation.left, step.equation.right)
        )
        out = {
            "equation": number, "member": member, "block": dict(step.loops),
            "math": mathml(left), "equation_math": equation_mathml(left, right),
            "reads": [self.name(m) for m in sorted(step.needs)],
            "title": self.title(e), "why": self.why(e, step),
            "operations": [self.operation(o, step, tree) for o in made],
        }  # fmt: skip
        if step.equation.left.symbol.is_partial:
            out["of"] = differentiated(step.equation.left.symbol, step.loops)
        return out, made

    def array(self, o: Operation) -> np.ndarray:
        """An operation's value as entries in the run's meaning."""
        assert self.operations is not None
        return np.asarray(self.operations.it.array(o.value))

    def operation(self, o: Operation, step: Step, tree: Tree) -> dict[str, Any]:
        """One operation as JSON."""
        e = o.expr
        text = None if e is None else mathml(at_block(e, step.loops, self.run.sizes))
        return o.data(text, None if e is None else tree.ids.get(e), json_number)

    def title(self, e: Equation) -> str:
        """The title of a step in a few words, as HTML."""
        symbol = e.left.symbol
        if symbol.is_partial:
            of = Symbol("value", value_of(symbol), symbol.sub, symbol.sup)
            return f"The gradient of {mathml(replace(e.left, symbol=of))}"
        if e.name not in self.forward:
            if e.meaning.startswith(AGAIN):
                return prose(f"Compute {with_equations(e.meaning)} again")
            return f"Compute {mathml(e.left)}"
        return prose(self.words.title(e))

    def why(self, e: Equation, step: Step) -> str:
        """The purpose of a step, as HTML."""
        if e.name not in self.forward:
            return prose(backward_reason(e.meaning))
        self.words.forget()  # a page's steps are read in any order
        at = partial(at_block, loops=step.loops, sizes=self.run.sizes)
        return prose(" ".join(self.words.why(e, at)))


def with_equations(meaning: str) -> str:
    """``from equations 3 and 4`` for ``from 3 and 4``."""
    return NUMBERED.sub(lambda m: f"{m[1]} equation{'s' * (not m[2].isdigit())} {m[2]}", meaning)


def backward_reason(meaning: str) -> str:
    """The origin of a value of a backward pass, as a sentence."""
    if meaning.startswith(AGAIN):
        return f"It is {with_equations(meaning)} of the forward pass. Gradients below need it."
    if meaning.startswith("from"):
        return f"By the chain rule, {with_equations(meaning)}."
    return f"{capital(meaning)}." if meaning else ""


def names_of_loops(equations: Sequence[Equation]) -> list[tuple[str, int]]:
    """Each name with its count of uses so far, from 1: a gradient may be in two loops."""
    count: dict[str, int] = {}
    out = []
    for e in equations:
        count[e.name] = count.get(e.name, 0) + 1
        out.append((e.name, count[e.name]))
    return out


def differentiated(symbol: Symbol, loops: Mapping[str, int]) -> str:
    """The member that a gradient is with respect to: ``x^2`` of ``∂x^2``."""
    return member_name(Symbol("value", value_of(symbol), symbol.sub, symbol.sup), loops)


def value_of(symbol: Symbol) -> str:
    """The base of that member's name: ``x`` of ``∂x^2``."""
    return symbol.base.removeprefix("partial{").removesuffix("}")


def json_number(x: Any) -> float | bool | dict[str, str]:
    """A number for JSON; one that JSON cannot express is a word."""
    if isinstance(x, bool):
        return x
    value = decimal(x)
    return value if math.isfinite(value) else {"number": str(value)}


__all__ = ["NumberedEquations", "PageSteps", "json_number"]
