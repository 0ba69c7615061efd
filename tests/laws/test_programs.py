"""Random programs of `tests/laws/programs.py`, beside the second reading of `reference.py`.

`benchmarks/laws.py` runs the same laws over many thousands.
"""

from __future__ import annotations

import pytest

from tests.laws.held_rewritings import LAWS, check
from tests.laws.programs import program

PROGRAMS = [(0, 1), (1, 1), (1, 2), (0, 3), (109, 1), (100, 2), (10002, 1)]  # a seed, and a size
EXPORTED = [(10039, 2), (10051, 5)]  # whole numbers that are turned; a number before a letter


@pytest.mark.parametrize(("seed", "size"), PROGRAMS)
def test_the_laws_hold_for_a_random_program(seed: int, size: int) -> None:
    for law in LAWS:
        check(law, program(seed, size))


@pytest.mark.parametrize(("seed", "size"), EXPORTED)
def test_a_module_is_the_card(seed: int, size: int) -> None:
    check("the module is the card", program(seed, size))
