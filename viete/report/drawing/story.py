"""What a formula does to the one value that it is made from: ``LN, linear, GELU, linear``.

From the value outwards, one word for each step: a product with parameters is linear, a function has
its name, and a softmax of masked scores is masked.
"""

from __future__ import annotations

from viete.graph.card import CardData
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, walk

STEPS = 4  # a longer story stands in the formula


def story(card: CardData, e: Expr) -> str:
    """The steps of a formula, or '' for no steps or too many.

    Where two values meet, the story begins with the operation on both.
    """
    steps: list[str] = []
    while True:
        match e:
            case Ref():
                break
            case Apply("prod", (a, b)) if _learned(card, b) and not _learned(card, a):
                steps.append("linear")
                e = a
            case Pick(value, items) if _learned(card, value) and items:
                steps.append("look up")
                break
            case Apply("add" | "sub", args):
                inner = [x for x in args if _data(x)]
                if len(inner) != 1:  # a sum, which the formula shows
                    return "" if not steps else _said(steps)
                if all(_learned(card, x) or x is inner[0] for x in args) and _bare(inner[0]):
                    steps.append("shift")
                e = inner[0]
            case Bind(op="concat"):
                steps.append("concatenation")
                e = e.body
            case Bind():
                e = e.body
            case Apply(op, args) if op in card.function:
                steps.append(f"masked {op}" if _masks(card, args[0]) else op)
                if _masks(card, args[0]):
                    e = args[0].children[0]
                elif sum(map(_data, args)) == 1 and _data(args[0]):
                    e = args[0]
                else:
                    break
            case _:
                inner = [x for x in e.children if _data(x)]
                if len(inner) != 1:
                    break
                e = inner[0]
    return _said(steps)


def _said(steps: list[str]) -> str:
    return ", ".join(reversed(steps)) if len(steps) <= STEPS else ""


def _data(e: Expr) -> bool:
    """Whether a formula depends on a computed value or an input."""
    return not e.made_of.isdisjoint({"value", "input"})


def _bare(e: Expr) -> bool:
    return isinstance(e, Ref)


def _learned(card: CardData, e: Expr) -> bool:
    return not _data(e) and "parameter" in e.made_of


def _masks(card: CardData, e: Expr) -> bool:
    """Whether a function sets entries to -inf."""
    if not (isinstance(e, Apply) and e.op in card.function):
        return False
    return any(isinstance(x, Apply) and x.op == "inf" for x in walk(card.function[e.op].body))


__all__ = ["story"]
