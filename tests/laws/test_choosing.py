"""What `make test` leaves to `make all` is stood for by what it runs."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import viete as vt
from tests.choosing import constructs, covering, longest, name_of, paired, slowest
from viete.cards.catalogue import shipped

TESTS = Path(__file__).parents[1]


def test_the_cards_that_are_chosen_have_every_construct() -> None:
    has = {name: constructs(vt.read(path)) for name, path in shipped().items()}
    chosen = covering(frozenset(has))
    assert frozenset().union(*(has[x] for x in chosen)) == frozenset().union(*has.values())
    assert len(chosen) < len(has) / 3


def test_in_the_cases_that_are_chosen_any_two_values_meet() -> None:
    def pairs(cases: list[str]) -> set[tuple[tuple[int, str], ...]]:
        return {pair for case in cases for pair in combinations(enumerate(case), 2)}

    whole = ["".join(x) for x in product("abc", "de", "fghi")]
    some = paired({x: {f"parameter {k}": ord(c) for k, c in enumerate(x)} for x in whole})
    assert pairs(some) == pairs(whole) and len(some) < len(whole)
    two = {x: {"a": ord(x[0]), "b": ord(x[1])} for x in map("".join, product("abc", "de"))}
    assert paired(two) == list(two)


def test_the_slowest_are_tests() -> None:
    names = list(slowest())
    assert len(names) == len(set(names))
    for path, name in {tuple(name_of(x).split("::")) for x in names}:
        assert name in (TESTS.parent / path).read_text("utf-8"), f"{path}::{name}"


def test_of_a_law_the_quickest_case_is_not_left_out() -> None:
    law, other = "tests/laws/test_a.py::test_it", "tests/model/test_a.py::test_it"
    spent = {f"{law}[a]": 1.0, f"{law}[b]": 1.5, f"{other}[a]": 1.2, f"{law}_too": 5.0, other: 0.1}
    assert longest(spent) == [f"{law}_too", f"{law}[b]", f"{other}[a]"]
