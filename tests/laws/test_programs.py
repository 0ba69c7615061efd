"""Random programs of `tests/laws/programs.py`, beside the second reading of `reference.py`.

`benchmarks/laws.py` runs the same laws over many thousands.
"""

from __future__ import annotations

import pytest

from tests.laws.held_rewritings import LAWS, check
from tests.laws.programs import program

PROGRAMS = [(0, 1), (1, 1), (1, 2), (0, 3), (109, 1), (100, 2), (10002, 1)]  # a seed, and a size
EXPORTED = [
    ("the module is the card", 10039, 2),  # whole numbers that are turned
    ("the module is the card", 10051, 5),  # a number before a letter
    ("an exported module has the values of the card", 9, 1),  # places in what no token changes
    ("an exported module has the values of the card", 12, 5),  # a choice of two numbers
    ("an exported module has the values of the card", 10, 2),  # a table of numbers on the device
]


@pytest.mark.parametrize(("seed", "size"), PROGRAMS)
def test_the_laws_hold_for_a_random_program(seed: int, size: int) -> None:
    for law in LAWS:
        check(law, program(seed, size))


@pytest.mark.parametrize(("law", "seed", "size"), EXPORTED)
def test_a_module_is_the_card(law: str, seed: int, size: int) -> None:
    check(law, program(seed, size))
