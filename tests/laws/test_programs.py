"""Random programs of `tests/laws/programs.py`, beside the second reading of `reference.py`.

`benchmarks/laws.py` runs the same laws over many thousands.
"""

from __future__ import annotations

import pytest

from tests.laws.held import LAWS, check
from tests.laws.programs import program

SEEDS = range(3)


@pytest.mark.parametrize("law", LAWS)
def test_a_law_over_random_programs(law: str) -> None:
    for seed in SEEDS:
        for size in (1, 3, 5):
            check(law, program(seed, size))
