"""A family's members keep the laws: each reads back, has a cache of its own and a gradient.

The shipped cards, which are one member each, are tested in tests/laws; here are others of them.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import viete as vt
from tests.families import (
    test_gemma,
    test_gemma2,
    test_llama,
    test_mistral,
    test_mixtral,
    test_olmo,
    test_olmo2,
    test_phi,
    test_qwen2,
    test_qwen3,
)
from tests.families.peers import VOCABULARY, Case, transformers
from tests.laws.differentiating import by_autograd, error
from tests.laws.test_incremental import in_rooms, stepped
from viete.cards.config import Config
from viete.model.folder import card_for
from viete.rewrite.incremental import derived

FAMILIES = [test_llama, test_mistral, test_mixtral, test_qwen2, test_qwen3, test_gemma,
            test_gemma2, test_phi, test_olmo, test_olmo2]  # fmt: skip
MEMBERS = [(family, case) for family in FAMILIES for case in (family.CASES[2], family.CASES[-1])]


def member(family: ModuleType, case: Case) -> vt.Card:
    """The card for what `transformers` would write as ``config.json``."""
    cls = getattr(transformers, case.kind)
    settings = {"vocab_size": VOCABULARY, **family.SMALL, **case.settings}
    config = cls.config_class(**settings).to_diff_dict()
    return vt.read(card_for(Config(config)), config=config)


@pytest.mark.parametrize(
    ("family", "case"),
    [pytest.param(*member, id=str(member[1]), marks=[pytest.mark.slow] if k % 3 else [])
     for k, member in enumerate(MEMBERS)],
)  # fmt: skip
def test_the_laws(family: ModuleType, case: Case) -> None:
    model, rng = member(family, case), np.random.default_rng(0)
    for form in ("md", "latex", "json"):
        assert vt.read(model.write(form)) == model
    weights = {k: rng.normal(0, 0.4, s) for k, s in model.parameter_shapes.items()}
    inputs = {"t": rng.integers(0, VOCABULARY, 9)}
    found, whole = stepped(model, derived(model), weights, inputs, [0, 2, 3, 9])
    assert np.abs(found - whole).max() <= 1e-12 * np.abs(whole).max()
    found, whole = in_rooms(model, derived(model, fixed=True), weights, inputs, [0, 2, 3, 9])
    assert np.abs(found - whole).max() <= 1e-12 * np.abs(whole).max()
    loss = "cross_entropy(logits; t)"
    run = model.grad(loss).run(None, weights, **inputs)
    assert error(run, by_autograd(model, loss, weights, inputs)) <= 1e-11
