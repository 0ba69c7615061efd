"""Runs of texts of different lengths: each text as if it were run alone.

Nothing is computed at padding, so nothing can read it, whichever side it stands on and whatever a
card computes: the last position, a mean and a loss are those of each text. Answers of all texts are
one array, with 0 where a text has no token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, cast

import numpy as np
from array_api_compat import array_namespace

from viete.ask.asking import asked
from viete.ask.over_texts import of_each_text, over_texts
from viete.ask.own_questions import own_question
from viete.ask.with_clause import changes_of
from viete.document.tree import Block
from viete.errors import VieteError
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import host
from viete.evaluate.labelled import Array, device_of
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.evaluate.schedule import program
from viete.evaluate.spelling import by_own_names
from viete.graph.card import CardData, Input
from viete.model.tokens import whole_numbers
from viete.notation.tree import Ref
from viete.nouns.run import Questions

MASKS = ("attention_mask", "a")  # an argument with the mask of a card that has none of its own
ALONE = "attribute draw expand explore".split()


@dataclass(frozen=True)
class Batch:
    """Texts without their padding: the ids of each, and where its tokens stand among ``width``."""

    texts: tuple[np.ndarray, ...]
    places: tuple[np.ndarray, ...]
    width: int
    one: bool = False  # given without a batch axis

    @property
    def alike(self) -> bool:
        """Whether no text has padding."""
        return all(len(p) == self.width for p in self.places)


def batch_of(card: CardData, tokens: Any, options: dict[str, Any]) -> Batch | None:
    """The texts of a list of different lengths, or of ids with a mask, which ``options`` loses.

    None for texts without padding. Raises VieteError for a mask that does not fit.
    """
    own = card.names | {i.name for i in card.inputs}
    given = [m for m in MASKS if m not in own and options.get(m) is not None]
    masks = [options.pop(m) for m in given]
    if isinstance(tokens, list | tuple) and any(isinstance(t, list | tuple) for t in tokens):
        lengths = {len(t) for t in tokens if isinstance(t, list | tuple)}
        if len(lengths) > 1 and not masks:
            rows = tuple(whole_numbers(t) for t in tokens)
            return Batch(rows, tuple(np.arange(len(t)) for t in rows), max(map(len, rows)))
    if not masks:
        return None
    ids, mask = (whole_numbers(x) for x in (tokens, masks[-1]))
    if len(masks) > 1 or mask.shape != ids.shape or not np.isin(mask, (0, 1)).all():
        raise VieteError(
            f"{given[-1]} is 1 at each token and 0 at padding, so it has the shape "
            f"{ids.shape} of the tokens, and nothing else says where they are"
        )
    places = tuple(np.flatnonzero(row) for row in np.atleast_2d(mask))
    if not all(map(len, places)):
        raise VieteError(f"{given[0]} leaves a text without a token")
    texts = tuple(row[p] for row, p in zip(np.atleast_2d(ids), places, strict=True))
    found = Batch(texts, places, ids.shape[-1], ids.ndim == 1)
    return None if found.alike else found


def run_each(
    batch: Batch, of: Any, run: Callable[..., Questions], options: Mapping[str, Any]
) -> Questions:
    """The runs of all texts, each with its part of the other inputs; ``of`` is what is run.

    A text that came without a batch axis is run without its padding.
    """
    card = of if isinstance(of, CardData) else of.card
    for value in (options.get("put") or {}).values():
        if not callable(value):
            raise VieteError(
                "texts of different lengths take no array in the place of a value; put a function, "
                "which gets the value of each text"
            )
    known = {i.name: i for i in card.inputs}
    inputs = by_own_names(card, options.get("inputs") or {}, program(card).inputs)
    more = by_own_names(card, options, program(card).inputs)
    runs = []
    for k, text in enumerate(batch.texts):

        def own(given: Mapping[str, Any], k: int = k) -> dict[str, Any]:
            return {name: part(card, known[name], x, batch, k) if name in known else x
                    for name, x in given.items()}  # fmt: skip

        runs.append(run(text, **{**own(more), **({"inputs": own(inputs)} if inputs else {})}))
    return runs[0] if batch.one else Several(of, runs, batch)


def part(card: CardData, item: Input, given: Any, batch: Batch, k: int) -> Any:
    """Text k's part of an input, which has a batch axis or is the same for all."""
    rank, (length,) = len(card.heads_of(item.symbol)) + len(item.shape), card.inputs[0].shape[:1]
    if not hasattr(given, "ndim"):
        try:
            given = np.asarray(given)
        except ValueError:  # of texts of different lengths
            return given[k]
    if given.ndim > rank:
        given = given[k]
    first = rank - len(item.shape)
    for axis, size in enumerate(item.shape, first):
        if size == length and given.shape[axis] == batch.width:
            given = given[(*[slice(None)] * axis, batch.places[k])]
    return given


class Several(Questions):
    """The runs of texts of different lengths, each as if it were alone.

    ``runs`` has them one by one. A question is asked of each. The answers are one array with a
    batch axis; along positions it is as long as the ids that were given, or as the longest text,
    and 0 where a text has no token. The axis of a letter, as of j in $x_{j-1}$, begins where the
    letter does, as it does for one text. Expansions, drawings and attributions are of one text:
    ``run.runs[0].expand(…)``.
    """

    def __init__(self, of: Any, runs: Sequence[Questions], where: Batch) -> None:
        self.of, self.runs, self.where = of, tuple(runs), where
        self.program = runs[0].program

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise VieteError(f"texts of different lengths have no {name} in common; ask run.runs[0]")

    def answer(self, name: str) -> Answer:
        """As `Questions.answer`, with a batch axis, and 0 at padding."""
        found = over_texts(self.runs, name)
        if len(found) == 1 and len(self.runs) > 1:
            return found[0]
        first = self.runs[0]
        changes = changes_of(first, name)
        formula = name if changes is None else changes[0].text
        if own_question(first, formula) is not None:
            raise VieteError(f"{name} has an answer for each text: run.runs[0].answer(…)")
        if changes is None and not of_each_text(first.program.model, first.parse(name)):
            return found[0]
        return self.together(found, positions(first, formula))

    def together(self, found: Sequence[Answer], firsts: Mapping[str, int]) -> Answer:
        """Answers of all texts as one; ``firsts`` has the first position of axes of positions."""
        arrays, xp = [a.array for a in found], array_namespace_of(found[0].array)
        labels = list(found[0].labels)
        for axis, name in enumerate(found[0].axes):
            sizes = [a.shape[axis] for a in arrays]
            apart = len(set(sizes)) > 1 or name in firsts
            if not apart:
                continue
            if name in firsts:
                first, texts_of = firsts[name], [*zip(self.where.places, sizes, strict=True)]
                places = [continued(p, np.arange(first, first + n)) - first for p, n in texts_of]
                longest, count = max(texts_of, key=lambda x: len(x[0]))
                width = self.where.width - len(longest) + count
            else:  # another length, as that of an encoder's text
                places, width = [np.arange(n) for n in sizes], max(sizes)
            arrays = [spread(xp, a, axis, p, width) for a, p in zip(arrays, places, strict=True)]
            start = firsts.get(name, 0)
            labels[axis] = [str(k) for k in range(start, start + width)]
        texts = [str(k) for k in range(len(arrays))]
        return replace(found[0], array=xp.stack(arrays), axes=("batch", *found[0].axes),
                       labels=(texts, *labels))  # fmt: skip

    def __getitem__(self, name: str) -> Any:
        """As `Questions.__getitem__`; of ``top_5(…)`` and similar a list, one for each text."""
        changes = changes_of(self.runs[0], name)
        formula = name if changes is None else changes[0].text
        if own_question(self.runs[0], formula) is not None:
            return [run[name] for run in self.runs]
        return self.answer(name).array

    def ask(
        self, *questions: str, against: Run | None = None, of: str | None = None, **values: Any
    ) -> Any:  # fmt: skip
        """As `Questions.ask`; ``against`` is a run of as many texts, or of one."""
        others = against.runs if isinstance(against, Several) else [against] * len(self.runs)
        if len(others) != len(self.runs):
            raise VieteError(f"one run has {len(self.runs)} texts and the other {len(others)}")
        runs = [cast(Questions, asked(run, values, other, of))
                for run, other in zip(self.runs, others, strict=True)]  # fmt: skip
        found = tuple(Several(self.of, runs, self.where)[question] for question in questions)
        return found[0] if len(found) == 1 else found

    def __reduce__(self) -> Any:
        return Several, (self.of, self.runs, self.where)

    def page(self, style: str = "unicode") -> list[Block]:
        """As `Questions.page`, text by text."""
        return [block for run in self.runs for block in run.page(style)]

    @property
    def batch(self) -> int:
        """The number of texts."""
        return len(self.runs)

    def without(self) -> list[str]:
        """As `Run.without`, of the first text."""
        return self.runs[0].without()

    def __contains__(self, name: object) -> bool:
        return all(name in run for run in self.runs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs[0])

    def __repr__(self) -> str:
        return f"<runs of {self.program.model.title} on {len(self.runs)} texts>"


def alone(name: str) -> Any:
    """A method that one text has, and several have not."""

    def method(self: Several, *args: Any, **options: Any) -> NoReturn:
        raise VieteError(f"{name} is of one text: run.runs[0].{name}(…)")

    method.__name__, method.__doc__ = name, f"Raises VieteError: `Questions.{name}` is of one text."
    return method


for name in ALONE:
    setattr(Several, name, alone(name))


def positions(run: Run, formula: str) -> dict[str, int]:
    """The axes of an answer that are positions of the text, each with its first position."""
    run, e = run.resolved(formula)
    about, card = query(run, e), run.program.model
    length = card.inputs[0].shape[0]
    assert isinstance(length, Ref)
    out = {str(size): 0 for size in about.type.shape if length.key in size.names()}
    for letter, (first, count) in about.places.items():
        if length.key in count.names():
            out[letter] = int(first.evaluate(run.sizes))
    return out


def continued(places: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Where positions stand, by the places of a text's own; those before and after it go on."""
    own = np.clip(at, 0, len(places) - 1)
    return places[own] + at - own


def spread(xp: Any, array: Array, axis: int, places: np.ndarray, width: int) -> Array:
    """An array whose entries along an axis stand at these places of ``width``, and 0 elsewhere."""
    at = np.full(width, array.shape[axis])
    at[places] = np.arange(len(places))
    shape = tuple(1 if k == axis else n for k, n in enumerate(array.shape))
    zero = xp.zeros(shape, dtype=array.dtype, device=device_of(array))
    return xp.take(xp.concat([array, zero], axis=axis), xp.asarray(at, device=device_of(array)),
                   axis=axis)  # fmt: skip


def array_namespace_of(array: Any) -> Any:
    """The library of an array; NumPy's for numbers and for arrays of exact ones."""
    return array_namespace(array if hasattr(array, "dtype") else np.asarray(host(array)))


__all__ = ["Several", "batch_of", "run_each"]
