"""Formulas on a page: as MathML, and as trees whose nodes have ids."""

from __future__ import annotations

from typing import Any

from viete.graph.card import CardData
from viete.library.functions import inlined
from viete.notation.mathml import mathml, mathml_equation
from viete.notation.tree import Apply, Bind, Expr, Idx, Num, Pick, Ref, Slice, Table


def equation_mathml(left: Expr, right: Expr) -> str:
    """``left = right`` as MathML, the operations of the right side with their ids."""
    return mathml_equation(left, right, nodes=True)


class Tree:
    """A formula as JSON; each node has its id, in reading order."""

    def __init__(self, card: CardData, e: Expr) -> None:
        self.card = card
        self.ids: dict[Expr, int] = {}  # of each formula where it first stands
        self.count = 0
        self.opened: dict[str, str] = {}  # the definition of each function called, by its node
        self.data = self.node(e)

    def node(self, e: Expr) -> dict[str, Any]:
        """A node and its descendants."""
        number = self.count
        self.count += 1
        self.ids.setdefault(e, number)
        out: dict[str, Any] = {"id": number, **described(e)}
        if isinstance(e, Apply) and e.op in self.card.function:
            out["kind"] = "call"
            body = inlined(e, self.card.function, taken=self.card.names)
            self.opened[str(number)] = equation_mathml(e, body)
        if e.children:
            out["parts"] = [self.node(x) for x in e.children]
        return out


def described(e: Expr) -> dict[str, Any]:
    """A node without its parts."""
    match e:
        case Num(value):
            return {"kind": "number", "value": float(value)}
        case Ref():
            return {"kind": "name", "key": e.key}
        case Idx(name):
            return {"kind": "letter", "letter": name}
        case Apply(op):
            return {"kind": "apply", "op": op}
        case Bind(op, index):
            return {"kind": "bind", "op": op, "letter": index}
        case Table(ranges):
            return {"kind": "table", "letters": [letter for letter, _ in ranges]}
        case Pick():
            return {"kind": "pick"}
        case Slice():
            return {"kind": "slice", "start": e.start is not None, "stop": e.stop is not None}
    raise TypeError(e)


__all__ = ["Tree", "equation_mathml", "mathml"]
