"""Provenance of a backward equation: the forward equations and the rules that it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from viete.document.tree import listed


@dataclass(frozen=True)
class Reason:
    """The number of a forward equation and the rules applied to it, or ``said`` in words."""

    equation: int = 0
    rules: tuple[str, ...] = ()
    said: str = ""

    def by(self, rule: str) -> Reason:
        """One rule further."""
        return replace(self, rules=(*self.rules, rule))


UNSAID = Reason()


def because(reasons: Sequence[Reason]) -> str:
    """``from 3, 4 and 5``, ``from 10, and from 9 by the rule of LN``."""
    clauses = [r.said for r in dict.fromkeys(reasons) if r.said]
    groups: dict[tuple[str, ...], set[int]] = {}
    for r in reasons:
        if not r.said and r.equation:
            groups.setdefault(tuple(dict.fromkeys(r.rules)), set()).add(r.equation)
    ruled = set[int]().union(*(n for rules, n in groups.items() if rules))
    for rules, numbers in sorted(groups.items()):
        if not rules and not (numbers := numbers - ruled):
            continue
        s = "s" if len(rules) > 1 else ""
        by = f" by the rule{s} of {listed(rules)}" if rules else ""
        clauses.append(f"from {listed(map(str, sorted(numbers)))}{by}")
    return ", and ".join(clauses)
