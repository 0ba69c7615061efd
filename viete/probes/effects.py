"""The effect of a probe's directions on the model: with the directions removed, and one step along.

Both are interventions at the value that the probe reads. Removing the directions gives each vector
the examples' mean along them. A step is as long as the distance between the means of two classes,
or one standard deviation of a numeric label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.inputs import in_numpy
from viete.probes.card import given_of, naming
from viete.probes.examples import named
from viete.probes.probing import Probes


@dataclass(frozen=True)
class ProbeEffect:
    """A number of the model with each change, as the mean over the held-out texts."""

    question: str
    values: Mapping[str, float]


def changes(probes: Probes) -> dict[str, tuple[str, dict[str, Any]]]:
    """The changes put into the model, by name: an equation and its values."""
    of, basis = probes.examples.of, probes.basis
    if not basis.shape[1]:
        raise VieteError(f"the probe of {of} has no direction: {of} is the same for every text")
    out: dict[str, tuple[str, dict[str, Any]]] = {
        "without": (f"{of} = {of} - ({of} - middle) basis basis^T",
                    {"middle": probes.middle, "basis": basis}),
    }  # fmt: skip
    if basis.shape[1] == 1:
        for sign, name in (("-", "a step back"), ("+", "a step on")):
            out[name] = f"{of} = {of} {sign} step", {"step": probes.step}
    return out


def probe_effects(
    model: Any, probes: Probes, questions: Sequence[str], inputs: Mapping[str, Any] | None = None
) -> tuple[ProbeEffect, ...]:  # fmt: skip
    """Each question's mean over the held-out texts, for the unchanged model and each change.

    Raises VieteError for a question that is not a number of each text, for several probes, and
    where the probe reads a formula that no equation defines, which cannot be replaced.
    """
    base = naming(model, probes)
    models = {"as it is": base}
    models |= {name: base.put(text, **values) for name, (text, values) in changes(probes).items()}

    def mean(of: Any, question: str) -> float:
        return float(np.mean([one(of.run, k, question) for k in probes.held]))

    def one(run: Callable[..., Any], k: int, question: str) -> float:
        example = probes.examples.texts[k]
        given = {**given_of(model, probes, k), **(inputs or {})}
        asked = named(run(example.text, names=[], **given), example, (question,))
        found = in_numpy(asked.answer(question).array)
        if found.ndim:
            raise VieteError(
                f"{question} gives {found.size} numbers; ask for one number, such as its mean"
            )
        return float(found)

    return tuple(ProbeEffect(q, {name: mean(m, q) for name, m in models.items()})
                 for q in questions)  # fmt: skip


__all__ = ["ProbeEffect", "probe_effects"]
