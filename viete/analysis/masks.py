"""Masks: which positions of one axis are out of sight from another.

Read off the condition of ``where(k <= j, S_{j,k}, -inf)``, and followed through the operations on
entries: what was -inf is 0 after exp, so that a sum along the masked axis sees the past alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from viete.graph.sizes import Size, size_of
from viete.notation.substitution import substitute
from viete.notation.tree import Apply, Expr, Num, Ref, Symbol

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


def hidden(e: Apply, labels: Mapping[str, str], sizes: Sizes) -> Mask | None:
    """The mask of ``where(condition, shown, other)``, or None if it is none that can be read.

    ``labels`` maps index letters to axes, ``sizes`` gives the sizes of names.
    """
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


def both(a: Mask | None, b: Mask | None) -> Mask | None:
    """The mask of ``where(i mod 2 = 0, causal(S), window(S; w))``: what either branch hides."""
    if a is None or b is None or (a.kind, a.now, a.later) != (b.kind, b.now, b.later):
        return None
    return a if a.width == b.width else replace(a, width=None)


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
    """An expression in index letters as a size over ``@label``; None if it is no polynomial."""
    letters = {name: Ref(Symbol("dim", SIGN + label)) for name, label in labels.items()}

    def lookup(r: Ref) -> Size | None:
        return Size.of(r.key) if r.key.startswith(SIGN) else sizes(r)

    return size_of(substitute(e, letters=letters), lookup)


def conjuncts(e: Expr) -> list[Expr]:
    """The conditions that ``and`` joins."""
    if isinstance(e, Apply) and e.op == "and":
        return [c for a in e.args for c in conjuncts(a)]
    return [e]


def blank(e: Expr) -> str | None:
    """What a masked entry holds, if it is nothing that could be read."""
    match e:
        case Num(value) if value == 0:
            return "0"
        case Apply("neg", (Apply("inf"),)):
            return "-inf"
        case Num(value) | Apply("neg", (Num(value),)) if abs(value) >= 10**4:
            return "-inf" if isinstance(e, Apply) or value < 0 else None  # exp of it is 0
    return None


def combined(op: str, masks: list[Mask | None], const: bool) -> Mask | None:
    """How an operation on entries passes on its arguments' masks.

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
        return mask if op in ("had", "times") or (op == "div" and k == 0) else None
    if op == "add" or (op == "sub" and k == 0):
        return mask
    if op == "div" and k == 1 and mask.kind == "inf":
        return replace(mask, kind="0")
    if op in ("had", "times", "div") and const and k == 0:
        return mask
    return None
