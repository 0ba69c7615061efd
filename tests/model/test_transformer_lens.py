"""Name by name against TransformerLens, where a version with HookedTransformer is installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

lens = pytest.importorskip("transformer_lens")
if not hasattr(lens, "HookedTransformer"):
    pytest.skip("TransformerLens 4 has no HookedTransformer", allow_module_level=True)

from benchmarks import transformer_lens as peer  # noqa: E402


@pytest.mark.parametrize("title", list(peer.FAMILIES))
def test_values_hooks_weights_and_stacks(title: str, tmp_path: Path) -> None:
    family, tokens = peer.FAMILIES[title], np.random.default_rng(1).integers(0, peer.V, (2, 9))
    net = peer.network(family)
    ours = peer.opened(net, str(tmp_path))
    found = peer.compare(ours.lens, peer.lens(net, family, False), tokens)
    processed = peer.lens(net, family, True)
    found |= peer.compare(ours.folded().lens, processed, tokens)
    found |= peer.compare_stacks(ours.folded().lens, processed, tokens)
    assert {k: v for k, v in found.items() if not v < 1e-6} == {}
