"""Questions and cards that few people write end in an answer or in a sentence.

`benchmarks/fuzz.py questions` and `benchmarks/fuzz.py cards` run many thousands.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest

import viete as vt
from benchmarks.hostile_questions import KINDS
from tests.model.small import small


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "seeds"), [("questions", range(25)), ("cards", (0, 27))])
def test_by_seeds(kind: str, seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            KINDS[kind](random.Random(seed))
        except vt.VieteError as error:
            assert str(error)


@pytest.mark.parametrize("question", ["n with x^2 = 0", "e with r^{1,1} = 0, z^{2,1} = 0"])
def test_what_no_change_reaches_is_a_number(question: str) -> None:  # seeds 21, 31
    run = small("llama").run([1, 2, 3])
    assert run[question] == run[question.partition(" with ")[0]]
    assert np.shape(run["n with A^{i,h} = 0"]) == (3, 6)


def test_a_condition_is_on_letters_of_what_is_changed() -> None:  # seeds 171, 284
    run = small("gpt2").run([1, 2, 3])
    for question in ("logits with W_E = 2 W_E for i ≥ 2", "logits with x^1 = x^i for i ≥ 2"):
        with pytest.raises(vt.VieteError, match="i is not a letter of"):
            run[question]
