"""Projections are layers: quantisation and LoRA find and change every ``nn.Linear``."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.code.exported import CARDS, bound
from viete.notation.tree import Pick, refs, walk

torch = pytest.importorskip("torch")


def layers(module: Any) -> list[str]:
    return [name for name, x in module.named_modules() if isinstance(x, torch.nn.Linear)]


@pytest.mark.parametrize("name", CARDS)
def test_every_matrix_is_a_layer_but_tables_of_rows(name: str) -> None:
    """Of the shipped cards: a matrix from which rows are picked, or that is added, is none."""
    card = bound(name)
    tables = {x.value.key for e in card.equations for x in walk(e.right)
              if isinstance(x, Pick) and hasattr(x.value, "key")}  # fmt: skip
    module, read = card.to_torch(), {x.key for e in card.equations for x in refs(e.right)}
    matrices = {p.name for p in card.parameters if len(p.shape) == 2 and p.name in read}
    found = {w for w, place in module.places.items() if place.layer}
    assert len(found) == len(layers(module))
    for weight, place in module.places.items():
        if any(weight == m or weight.split("^")[0] == m.split("^")[0] for m in matrices - tables):
            assert weight in found, weight
        assert place.layer is None or module.weights()[weight].shape == place.shape


def test_quantised_layers_are_called() -> None:
    module = bound("gpt2").to_torch().eval()
    tokens = torch.tensor([[1, 2, 3]])
    small = torch.ao.quantization.quantize_dynamic(copy.deepcopy(module), {torch.nn.Linear})
    assert len(layers(module)) == 13 and not layers(small)
    one, two = module(tokens).detach(), small(tokens).detach()
    assert 0 < float((one - two).abs().max()) < 0.1 * float(one.abs().max())
