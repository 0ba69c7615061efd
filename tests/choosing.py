"""Which cases `make test` runs of those that `make all` runs.

Of a test over many shipped cards: the few that together have every construct of them all. Of a
product of three parameters and more: cases in which every pair of values meets. What is slow runs
in `make all` alone: what is marked so, and the cases and functions of slowest.txt, which
`make slowest` measures anew. What `make all` runs is `pytest --all`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import pytest

import viete as vt
from viete.analysis.typing_rules import ENTRYWISE
from viete.cards.catalogue import shipped
from viete.library.functions import library
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, Table, walk

SLOWEST = Path(__file__).with_name("slowest.txt")
LONG, LAW = 0.2, 4.0  # seconds
MOST = 8  # a test over no more cards than these has all of them
T = TypeVar("T", bound=Hashable)


def cases_of(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """What stands for all of them."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not is_slow(item):
            functions.setdefault(name_of(item.nodeid), []).append(item)
    kept: set[pytest.Item] = set()
    for cases in functions.values():
        cards = {x: card for x in cases if (card := card_among(parameters(x, "params").values()))}
        some = {None, *covering(frozenset(cards.values()))}
        kept.update(paired({x: parameters(x, "indices") for x in cases if cards.get(x) in some}))
    return kept


def name_of(case: str) -> str:
    """Its function, whatever the parameters."""
    return case.partition("[")[0]


def parameters(item: pytest.Item, what: str) -> Mapping[str, Any]:
    """The values of a case's parameters ("params"), or which they are of all ("indices")."""
    return getattr(getattr(item, "callspec", None), what, {})


def card_among(values: Iterable[object]) -> str | None:
    return next((name for name in map(card_named, values) if name), None)


def card_named(value: object) -> str | None:
    """The shipped card that a parameter is, by its name, its file or itself."""
    if isinstance(value, vt.Card):
        return titles().get(value.title)
    path = Path(value) if isinstance(value, str | Path) else Path()
    known = shipped_paths().get(path.stem)
    return path.stem if known and str(path) in (path.stem, str(known)) else None


@cache
def shipped_paths() -> Mapping[str, Path]:
    return shipped()


@cache
def titles() -> Mapping[str, str]:
    return {vt.read(path).title: name for name, path in shipped_paths().items()}


# What takes long ----------------------------------------------------------------------------------


@cache
def slowest() -> Mapping[str, int]:
    """Cases and functions that take long, each with its place: the slowest is 0."""
    return {name: k for k, name in enumerate(SLOWEST.read_text("utf-8").splitlines())}


def place(case: str) -> int | None:
    """Where it is among the slowest, if there."""
    return slowest().get(case, slowest().get(name_of(case)))


def is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None or place(item.nodeid) is not None


def longest(spent: Mapping[str, float]) -> list[str]:
    """Of cases with their seconds those that take long, the slowest first.

    The quickest case of a law is none of them if it takes no more than ``LAW`` seconds.
    """
    quickest = {name_of(x): x for x in sorted(spent, key=spent.__getitem__, reverse=True)}
    kept = {x for name, x in quickest.items() if name.startswith("tests/laws/") and spent[x] <= LAW}
    return [
        x for x in sorted(spent, key=lambda x: (-spent[x], x)) if spent[x] > LONG and x not in kept
    ]


# Cards --------------------------------------------------------------------------------------------


@cache
def covering(names: frozenset[str]) -> frozenset[str]:
    """Of many shipped cards, the few that together have every construct that any of them has."""
    if len(names) <= MOST:
        return names
    has = {name: constructs(vt.read(shipped_paths()[name])) for name in sorted(names)}
    return frozenset(greedy(has))


def constructs(card: vt.Card) -> frozenset[Hashable]:
    """All that a card is made of, each thing by its kind: nodes, loops, heads, tables, facts.

    A function stands for all that have as many arguments, an operation on entries for all: each of
    them has laws of its own, which need no card.
    """
    functions = {*library(), *card.function, *ENTRYWISE}

    def of_formula(e: Expr) -> Iterator[Hashable]:
        for node in walk(e):
            match node:
                case Apply(op, args) if op in functions:
                    yield "function", len(args)
                case Apply():
                    yield node.op
                case Bind():
                    yield node.op, node.lower is not None, node.upper is not None
                case Pick():
                    yield type(node), tuple(type(x) for x in node.items)
                case Table():
                    yield type(node), len(node.ranges)
                case Ref():
                    yield type(node), len(node.index)
                case _:
                    yield type(node)

    def all_of_it() -> Iterator[Hashable]:
        for e in (*card.equations, *card.derived):
            yield from of_formula(e.right)
            yield "heads", len(card.heads_of(e.left.symbol)), e.loop is not None
            yield "written on the left", len(e.left.index)
        for claim in card.claims:
            yield from of_formula(claim.statement)
            yield "claim", bool(claim.given), bool(claim.ranges), bool(claim.texts)
        for loop in card.loops:
            yield "loop", loop.order, loop.down
        for x in card.inputs:
            yield "input", len(x.shape), x.high is not None, x.default is not None
        for p in card.parameters:
            yield from (("shape", len(p.shape)), ("indices", len(p.symbol.slots)))
            yield "values", bool(p.value)
        yield from (("dimension", d.value is None, d.at_most is not None) for d in card.dims)
        yield from ((n, len(getattr(card, n))) for n in ("loops", "lengths"))
        yield from ((n, bool(getattr(card, n))) for n in ("functions", "operators", "indices"))
        yield from ((n, bool(getattr(card, n))) for n in ("derived", "claims", "vocabulary"))

    return frozenset(all_of_it())


def greedy(has: Mapping[T, Iterable[Hashable]]) -> list[T]:
    """Some of these that together have what all have; the first is the one that has the most."""
    missing = {x: set(things) for x, things in has.items()}
    out: list[T] = []
    while any(missing.values()):
        best = max(missing, key=lambda x: len(missing[x]))
        found = missing.pop(best)
        out.append(best)
        for things in missing.values():
            things -= found
    return out


# Products -----------------------------------------------------------------------------------------


def paired(cases: Mapping[T, Mapping[str, int]]) -> list[T]:
    """Some cases, in which any two values meet that meet in any; all where there are but two."""
    if all(len(given) <= 2 for given in cases.values()):
        return list(cases)
    return greedy({x: combinations(sorted(given.items()), 2) for x, given in cases.items()})
