"""A circuit over training as a picture: its number beside the model's, and its faithfulness."""

from __future__ import annotations

import numpy as np

from viete.circuits.history import CircuitHistory
from viete.errors import VieteError
from viete.report.pictures.multiples import LinePanel, multiples
from viete.report.pictures.picture import Picture


def circuit_curves(history: CircuitHistory, title: str) -> Picture:
    """Two panels side by side. Raises VieteError for a single step."""
    if len(history.steps) < 2:
        raise VieteError("a curve needs several checkpoints: --revision all, or 100,200,400")
    steps = [s.step for s in history.steps]
    numbers = {
        "all edges": np.array([s.of_model for s in history.steps]),
        "the circuit": np.array([s.value for s in history.steps]),
        "no edge": np.array([s.of_none for s in history.steps]),
    }
    share = {"": np.array(history.faithfulness)}
    panels = [LinePanel("the number", numbers), LinePanel("faithfulness", share, (0.0, 1.0))]
    found = history.first(0.9)
    marks = {} if found is None else {found: f"step {found:,}"}
    return multiples(title, steps, panels, 2, False, marks)


__all__ = ["circuit_curves"]
