"""Masks: which positions of one axis are hidden from which positions of another.

The condition of ``where(k <= j, S_{j,k}, -inf)`` says it. The mask is then followed through
entrywise operations: −∞ becomes 0 after exp, so a sum along the masked axis includes only earlier
positions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from viete.graph.sizes import Size, size_of
from viete.notation.tree import Apply, Expr, Num, Ref

NEGATED = {"le": "gt", "lt": "ge", "ge": "lt", "gt": "le"}
SIGN = "@"  # before an axis label, in a size that counts its positions

Sizes = Callable[[Ref], Size | None]


@dataclass(frozen=True, slots=True)
class Mask:
    """All entries whose position along ``later`` comes after that along ``now`` are ``kind``.

    ``kind`` is '0', '-inf' or 'inf'; ``width`` says that only so many positions are in sight.
    """

    kind: str
    now: str
    later: str
    width: Size | None = None

    def rename(self, labels: Mapping[str, str]) -> Mask:
        now, later = labels.get(self.now, self.now), labels.get(self.later, self.later)
        return replace(self, now=now, later=later)


def mask_of_where(
    e: Apply, sides: tuple[Mask | None, Mask | None], labels: Mapping[str, str], sizes: Sizes
) -> Mask | None:
    """The mask of ``where(condition, a, b)``: of its condition, or of its sides.

    ``sides`` are the masks of a and b, ``labels`` maps index letters to axes, ``sizes`` gives the
    sizes of names.
    """
    first, second = sides
    if (mask := mask_of_condition(e, labels, sizes)) is not None:
        return mask
    if first is not None and blank(e.args[2]) == first.kind:
        return first
    if second is not None and blank(e.args[1]) == second.kind:
        return second  # of where(h = 1, 0, A)
    if first is None or second is None:
        return None
    if (first.kind, first.now, first.later) != (second.kind, second.now, second.later):
        return None  # of where(i mod 2 = 0, causal(S), window(S; w)) what either branch hides
    return first if first.width == second.width else replace(first, width=None)


def mask_of_condition(e: Apply, labels: Mapping[str, str], sizes: Sizes) -> Mask | None:
    """The mask of ``where(k <= j, shown, other)``; None for a condition of another form."""
    condition, shown, other = e.args
    kind = blank(other)
    if kind is None:
        kind = blank(shown)
        if kind is None or not isinstance(condition, Apply) or condition.op not in NEGATED:
            return None
        condition = replace(condition, op=NEGATED[condition.op])
    limits = [x for c in conjuncts(condition) if (x := limit(c, labels, sizes)) is not None]
    for later, now, rest in limits:
        least = rest.number()
        if least is not None and least >= 0:
            widths = [Size.of(1) - r for p, q, r in limits if (p, q) == (now, later)]
            return Mask(kind, now, later, widths[0] if widths else None)
    return None


def latest(place: Expr, size: Callable[[Expr], Size | None], labels: Collection[str]) -> str | None:
    """The axis of ``labels`` whose position is never before a place.

    '' for position 0, which is after none; None where no such axis is known. ``size`` is the
    place's, over ``@label``.
    """
    if isinstance(place, Apply) and place.op in ("max", "min") and len(place.args) == 2:
        found = [latest(x, size, labels) for x in place.args]
        if place.op == "min":
            return next((x for x in found if x is not None), None)
        axes = {*found} - {""}
        return axes.pop() if len(axes) == 1 else None if axes else ""
    known = size(place)
    if known is None or known == Size(()):
        return None if known is None else ""
    ahead = ((known - Size.of(SIGN + label)).number() for label in labels)
    return next((x for x, a in zip(labels, ahead, strict=True) if a is not None and a <= 0), None)


def limit(e: Expr, labels: Mapping[str, str], sizes: Sizes) -> tuple[str, str, Size] | None:
    """``k <= j - c`` as (k, j, c), for the labels of two index letters."""
    if not isinstance(e, Apply) or e.op not in NEGATED:
        return None
    a, b = e.args if e.op in ("le", "lt") else e.args[::-1]
    difference = distance(Apply("sub", (a, b)), labels, sizes)
    if difference is None:
        return None
    above: list[str] = []
    below: list[str] = []
    rest = Size.of(int(e.op in ("lt", "gt")))
    for monomial, c in difference.terms:
        if len(monomial) == 1 and monomial[0][0].startswith(SIGN) and abs(c) == 1:
            (above if c > 0 else below).append(monomial[0][0].removeprefix(SIGN))
        else:
            rest += Size(((monomial, c),))
    if len(above) != 1 or len(below) != 1 or any(n.startswith(SIGN) for n in rest.names()):
        return None
    return above[0], below[0], rest


def distance(e: Expr, labels: Mapping[str, str], sizes: Sizes) -> Size | None:
    """An expression in index letters as a size over ``@label``; None if it is not a polynomial."""
    return size_of(e, sizes, lambda name: Size.of(SIGN + labels[name]) if name in labels else None)


def conjuncts(e: Expr) -> list[Expr]:
    """The conditions that ``and`` joins."""
    if isinstance(e, Apply) and e.op == "and":
        return [c for a in e.args for c in conjuncts(a)]
    if isinstance(e, Apply) and e.op == "eq":  # as on the diagonal
        return [replace(e, op=op) for op in ("ge", "le")]
    return [e]


def blank(e: Expr) -> str | None:
    """The value of a masked entry, if it carries no information."""
    match e:
        case Num(value) if value == 0:
            return "0"
        case Apply("neg", (Apply("inf"),)):
            return "-inf"
        case Num(value) | Apply("neg", (Num(value),)) if abs(value) >= 10**4:
            return "-inf" if isinstance(e, Apply) or value < 0 else None  # exp of it is 0
    return None


def combined(op: str, masks: list[Mask | None], const: bool) -> Mask | None:
    """The mask of an operation on entries, from its arguments' masks.

    ``const``: whether the other arguments are fixed numbers, as in ``-inf / sqrt(d_k)``.
    """
    k, mask = next(((k, m) for k, m in enumerate(masks) if m is not None), (0, None))
    if mask is None:
        return None
    if op == "exp" and mask.kind != "0":
        return replace(mask, kind="0") if mask.kind == "-inf" else mask
    if op == "neg":
        return replace(mask, kind={"-inf": "inf", "inf": "-inf", "0": "0"}[mask.kind])
    if mask.kind == "0":
        if op in ("add", "sub"):
            same = all(m and (m.kind, m.now, m.later) == ("0", mask.now, mask.later) for m in masks)
            return replace(mask, width=None) if same else None
        return mask if op in ("had", "times") or (op == "div" and k == 0) else None
    if op == "add" or (op == "sub" and k == 0):
        return mask
    if op == "div" and k == 1 and mask.kind == "inf":
        return replace(mask, kind="0")
    if op in ("had", "times", "div") and const and k == 0:
        return mask
    return None
