"""What `make test` leaves to `make all` is stood for by what it runs."""

from __future__ import annotations

import ast
from itertools import combinations, product
from pathlib import Path

import viete as vt
from tests.choosing import constructs, covering, paired
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


def test_the_slowest_are_tests_of_make_test() -> None:
    names = (TESTS / "slowest.txt").read_text("utf-8").split()
    assert len(names) == len(set(names))
    for path in {name.partition("::")[0] for name in names}:
        read = ast.parse((TESTS.parent / path).read_text("utf-8"))
        slow = {
            node.name: "pytest.mark.slow" in map(ast.unparse, node.decorator_list)
            for node in read.body if isinstance(node, ast.FunctionDef)
        }  # fmt: skip
        mine = {name.partition("::")[2] for name in names if name.startswith(f"{path}::")}
        assert not [x for x in mine if slow.get(x, True)], path
