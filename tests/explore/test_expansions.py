"""Terms of a page: they add up at every step, and their operations make what the expansion has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from tests.explore.test_data import card_named
from tests.laws.strategies import random_inputs
from viete.ask.expansion import Expansion
from viete.ask.term_families import Terms
from viete.explore.expansions import ExpansionMaker
from viete.explore.operations import Tracer
from viete.explore.session import Session
from viete.explore.walk import float_evaluator
from viete.graph.evaluator import Letter
from viete.rewrite.opening import without_calls

FAMILIES = ["pythia", "gemma2", "mixtral", "t5", "exact-lesson"]


class Recorded(ExpansionMaker):
    """Holds the operations of every term that it makes to the value of the term."""

    count = 0

    def term(
        self, e: Expansion, f: Terms, letters: Mapping[str, Letter], depth: int
    ) -> dict[str, Any]:
        array = np.asarray(e.array(f))
        found = super().term(e, f, letters, 0)
        last = self.tracer.made[-1].value.array  # of the first place of every letter
        np.testing.assert_allclose(last.reshape(-1), array.reshape(-1)[:1], rtol=1e-9, atol=1e-12)
        e.rest  # noqa: B018  raises where the terms do not add up
        self.count += 1
        return found | super().term(e, f, letters, depth)


@pytest.mark.parametrize("name", FAMILIES)
def test_operations_make_the_terms(name: str) -> None:
    card = card_named(name)
    run = card.run(inputs=random_inputs(card, n=2), weights=card.initial_weights())
    maker = Recorded(run, Tracer(run, float_evaluator(run)), 10**6)
    for step in run.program.steps[-5:]:
        maker.of(step, 2)
    assert maker.count > 4


def opened(session: Session, of: str, depth: int) -> Iterator[tuple[float, float]]:
    """The value of an expression and the sum of its terms, and so of each of these in turn."""
    answer = session.answer({"kind": "expand", "of": of})
    if not answer["terms"]:
        return
    yield answer["total"], sum(t["value"] for t in answer["terms"])
    for t in answer["terms"][:2]:
        if depth and t["expression"] is not None:
            yield from opened(session, t["expression"], depth - 1)


@pytest.mark.parametrize("name", ["pythia", "gemma2", "llama"])
def test_a_running_model_opens_terms_until_none_is_left(name: str) -> None:
    card = card_named(name)
    model = card.with_weights(seed=2)
    session = Session.of(model.run([1, 2, 3]))
    found = list(opened(session, "(logits)_{-1,4}", 5))
    assert len(found) > 5
    for total, together in found:
        assert together == pytest.approx(total, abs=1e-12)


def test_what_switches_a_term_off_leaves_it_at_nothing() -> None:
    model = card_named("pythia").with_weights(seed=2)
    session = Session.of(model.run([1, 2, 3]))
    for word in ("sublayer", "head", "head, source"):
        terms = session.answer({"kind": "expand", "of": "(logits)_{-1,4}", "into": word})["terms"]
        chosen = [t for t in terms if t["off"] is not None]
        assert chosen
        for t in chosen[:3]:
            put = model.put(t["off"]["equation"]).run([1, 2, 3])
            run, e = put.resolved(t["expression"])
            assert float(run.arrays.of(without_calls(run.program.model, e)).array) == 0
