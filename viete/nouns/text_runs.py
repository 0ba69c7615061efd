"""Runs of a model on a list of texts, each with the words and numbers of its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from viete.ask.asking import asked
from viete.ask.example_list import Example, named_in, numbers_of

if TYPE_CHECKING:
    from viete.nouns.model import Model
    from viete.nouns.run import Questions


def text_runs(
    model: Model[Any], texts: Sequence[Example], formulas: Sequence[str]
) -> Iterator[Questions]:
    """A run for each text, with the tokens and numbers that the formulas name.

    A text ``against`` is run too, and its values have a prime. Raises VieteError for a text without
    a word that a formula names.
    """
    names = named_in("\n".join(formulas), texts)
    for example in texts:
        values = numbers_of(example, names, model.words)
        other = None if example.against is None else model.run(example.against, names=[])
        yield cast("Questions", asked(model.run(example.text, names=[]), values, other))


__all__ = ["text_runs"]
