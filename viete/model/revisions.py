"""The names of a model's checkpoints: steps in a run's folder, or revisions of a hub model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from viete.errors import VieteError
from viete.formats.hub import is_id, steps_of_model
from viete.model import checkpoints

ALL = "all"


def revisions(source: str | Path, which: str | Sequence[str] = ALL) -> list[str]:
    """The names of checkpoints, in the order of training: all, or those of a list.

    A list may be one text with commas: ``step1,step512``. Raises VieteError for a source without
    checkpoints.
    """
    if which != ALL:
        parts = which.split(",") if isinstance(which, str) else map(str, which)
        if not all(found := [part.strip() for part in parts]) or not found:
            raise VieteError("separate checkpoints with commas: step1000,step2000, or write all")
        return found
    path = Path(source)
    if path.exists() or not is_id(str(source)):
        found = [str(step) for step in checkpoints.steps(path)]
    else:
        found = steps_of_model(str(source))
    if not found:
        raise VieteError(f"{source} has no checkpoints; --revision all needs a run of viete train, "
                         f"or a model with revisions such as step1000")  # fmt: skip
    return found


def step_of(revision: str) -> int:
    """The step of a checkpoint's name. Raises VieteError for a name without one."""
    if (found := re.search(r"\d+", revision)) is None:
        raise VieteError(f"the checkpoint {revision} has no step in its name")
    return int(found[0])


__all__ = ["ALL", "revisions", "step_of"]
