"""The laws that hold for a random program, each beside the second reading of `reference.py`.

`check(law, program)` raises AssertionError where a law is broken. A refusal (VieteError) of a
rewriting is an answer, where the law says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

import viete as vt
from tests.laws.programs import Program
from tests.laws.reference import Reference
from viete.graph.card import CardData
from viete.meanings.run import run

Law = Callable[[Program], None]
LAWS: dict[str, Law] = {}


def law(f: Law) -> Law:
    LAWS[f.__name__.replace("_", " ")] = f
    return f


def check(name: str, program: Program) -> None:
    """Raises AssertionError if the law does not hold for the program."""
    LAWS[name](program)


def host(x: Any) -> np.ndarray:
    return np.asarray(x.detach() if isinstance(x, torch.Tensor) else x, np.float64)


def close(got: Any, want: Any, what: str, bound: float = 1e-8) -> None:
    """Equal but for rounding: ``bound`` is relative to the largest entry."""
    got, want = host(got), host(want)
    assert got.shape == want.shape, f"{what}: shapes {got.shape} and {want.shape}"
    finite = np.isfinite(want)
    assert np.array_equal(got[~finite], want[~finite], equal_nan=True), f"{what}: not finite alike"
    if finite.any():
        error = np.max(np.abs(got[finite] - want[finite]))
        size = max(1.0, float(np.max(np.abs(want[finite]))))
        assert error <= bound * size, f"{what}: {error:.2e} apart, of {size:.2e}\n{got}\n{want}"


def tensors(weights: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {k: torch.from_numpy(v.copy()) for k, v in weights.items()}


def read_by_hand(p: Program, card: CardData | None = None) -> Reference:
    return Reference(card or p.card, p.weights(), p.given())


@law
def a_run_is_as_read_by_hand(p: Program) -> None:
    hand, given = read_by_hand(p), p.given()
    for weights in (p.weights(), tensors(p.weights())):
        made = run(p.card, None, weights, **given)
        for name in made:
            close(made[name], hand.whole(name), name)


__all__ = ["LAWS", "check", "vt"]
