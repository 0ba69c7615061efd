"""Answers over checkpoints: the steps, and the step at which a comparison begins to hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from viete.errors import VieteError
from viete.evaluate.answer_page import literal
from viete.evaluate.inputs import in_numpy
from viete.report.answer_rows import AnswerRow


def steps_of(rows: Sequence[AnswerRow]) -> list[int]:
    """The steps of checkpoints. Raises VieteError for fewer than two, or for a repeated step."""
    found = [re.search(r"\d+", row.revision) for row in rows]
    steps = [int(s[0]) for s in found if s]
    if len(rows) < 2 or len(set(steps)) < len(rows):
        raise VieteError(
            "a curve needs several checkpoints with their steps: --revision step1000,step2000"
        )
    return steps


def is_comparison(rows: Sequence[AnswerRow], k: int) -> bool:
    """Whether the answers to a question are true or false."""
    return all(in_numpy(row.answers[k].array).dtype.kind == "b" for row in rows)


def first_holding(rows: Sequence[AnswerRow], k: int) -> tuple[int, list[int]] | None:
    """The first row in which a comparison holds for all entries, and later rows where it fails."""
    holds = [bool(in_numpy(row.answers[k].array).all()) for row in rows]
    if True not in holds:
        return None
    first = holds.index(True)
    return first, [j for j in range(first, len(rows)) if not holds[j]]


def when_sentences(rows: Sequence[AnswerRow], titles: Sequence[str]) -> list[str]:
    """For each comparison, a sentence with the step from which it holds."""
    out = []
    for k, title in enumerate(titles):
        if not is_comparison(rows, k):
            continue
        found = first_holding(rows, k)
        if found is None:
            out.append(f"{literal(title)} holds at none of these steps.")
            continue
        first, fails = found
        steps = steps_of(rows)
        but = ", and at each later one" if not fails else (
            f", but not at {', '.join(f'{steps[j]:,}' for j in fails)}"
        )  # fmt: skip
        later = "" if first == len(rows) - 1 else but
        out.append(f"{literal(title)} first holds at step {steps[first]:,}{later}.")
    return out


__all__ = ["first_holding", "is_comparison", "steps_of", "when_sentences"]
