"""The examples of a probe: vectors from runs of some texts, each with its label.

A label is a key of a text's line in a file of JSON lines, or a formula of the notation. If the
formula has position letters, as in ``t_{j-1}``, every position of the vector with the same letter
is an example. Each entry of the vector's other axes, such as blocks, gets its own probe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from viete.ask.asking import asked
from viete.ask.example_list import Example, named_in, numbers_of
from viete.errors import VieteError
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import in_numpy
from viete.evaluate.run import Run

MOST_CLASSES = 200
LARGEST = 1e100  # of a label, whose square is a number too
KINDS = ("classes", "numbers")
Label = Any


@dataclass(frozen=True)
class Vectors:
    """For one text: vectors (places, m, d), labels (m), and the position of each example."""

    values: np.ndarray
    labels: Sequence[Label]
    positions: tuple[int, ...]
    names: tuple[str, ...]
    length: int = 0  # of the text


@dataclass(frozen=True)
class Places:
    """The axes of a family of vectors besides examples, and the labels of their entries."""

    axes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.labels))

    def name(self, place: int) -> str:
        """The name of one place: ``i = 3``."""
        at = np.unravel_index(place, self.shape) if self.shape else ()
        pairs = zip(self.axes, self.labels, at, strict=True)
        return ", ".join(f"{axis} = {names[k]}" for axis, names, k in pairs)


@dataclass(frozen=True)
class ProbeExamples:
    """All examples: the texts that have some, the vectors of each, and the labels.

    ``classes`` are the labels in order, and ``codes`` their numbers; without classes the codes are
    the labels, which are numbers.
    """

    of: str
    label: str
    texts: tuple[Example, ...]
    vectors: tuple[Vectors, ...]
    places: Places
    classes: tuple[str, ...]
    codes: tuple[np.ndarray, ...]
    letters: tuple[str, ...] = ()  # what the label has an entry for, of each text

    @property
    def size(self) -> int:
        """The number of entries of a vector."""
        return int(self.vectors[0].values.shape[-1])

    def at(self, place: int, texts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The vectors (m, d) of some texts at one place, and their codes (m)."""
        x = np.concatenate([self.vectors[k].values[place] for k in texts])
        return x, np.concatenate([self.codes[k] for k in texts])


def probe_examples(
    start: Callable[[Any], Run], texts: Sequence[Example], of: str, label: str,
    labels: Sequence[Label] | None = None, kind: str | None = None,
) -> ProbeExamples:  # fmt: skip
    """The vectors ``of`` runs of texts, with given ``labels``, or those that ``label`` computes.

    ``start`` runs a text. Raises VieteError for a formula that is not a vector, for labels that are
    missing or all the same, and where the number of vectors differs from text to text.
    """
    if labels is not None and len(labels) != len(texts):
        raise VieteError(
            f"there are {len(texts)} texts and {len(labels)} labels; give one for each"
        )
    key = labels is None and any(label in e.values for e in texts)
    found, names, letters = list[Vectors](), list[tuple[Places, Any]](), tuple[str, ...]()
    for k, example in enumerate(texts):
        run = named(start(example.text), example, (of, label))
        given = labels[k] if labels is not None else example.values.get(label) if key else None
        if given is None and (key or labels is not None):
            raise example.place.error(f"this line has no {label}")
        if given is not None and np.ndim(given):
            raise example.place.error(f"{label} is a word or a number, not {given!r:.40}")
        known = None if given is not None else labelled(run, label, texts)
        vectors, places = of_text(run.answer(of), given, known)
        if not np.isfinite(vectors.values).all():
            raise example.place.error(f"{of} is not finite on this text, so no probe reads it")
        letters = () if known is None else known.axes
        found.append(replace(vectors, length=length_of(run)))
        names.append((places, vectors.values.shape))
    check_alike(of, names)
    kept = [k for k, v in enumerate(found) if len(v.labels)]
    classes, codes = coded([found[k].labels for k in kept], kind, label)
    return ProbeExamples(of, label, tuple(texts[k] for k in kept), tuple(found[k] for k in kept),
                         common([p for p, _ in names]), classes, codes, letters)  # fmt: skip


def labelled(run: Run, label: str, texts: Sequence[Example]) -> Answer:
    """The answer to a label's formula. Raises VieteError for a word that is an unknown key."""
    try:
        return run.answer(label)
    except VieteError:
        if not label.isidentifier() or label in run.scope.symbols:
            raise
        keys = ", ".join(dict.fromkeys(k for e in texts for k in e.values))
        known = f"they have {keys}" if keys else "they have no keys"
        raise VieteError(
            f"no text has a label {label}: {known}; a label is a key of JSON lines or a formula, "
            f"such as t_{{-1}} = 5"
        ) from None


def named(run: Run, example: Example, questions: Sequence[str]) -> Run:
    """The run with the values of its line that the questions name, as ``position``."""
    own = {i.name for i in run.program.model.inputs}
    names = {n for q in questions if q not in example.values for n in named_in(q, [example])} - own
    return asked(run, numbers_of(example, names, run.scope.words()))


def length_of(run: Run) -> int:
    """The number of tokens in the first input of a run."""
    item = run.program.model.inputs[0]
    return int(run.lookup(item.name, ()).array.shape[-1]) if item.shape else 0


def of_text(found: Answer, given: Label, known: Answer | None) -> tuple[Vectors, Places]:
    """The examples of one text: its vectors along the axes of the label."""
    values = np.asarray(in_numpy(found.array), np.float64)
    if not values.ndim:
        raise VieteError(
            f"{found.question} is one number; a probe reads a vector, such as x^3_{{-1}}"
        )
    axes, labels = found.axes[:-1], found.labels[:-1]
    if known is None or not in_numpy(known.array).ndim:
        given = given if known is None else in_numpy(known.array).item()
        values = values.reshape(-1, 1, values.shape[-1])
        return Vectors(values, [given], (), ()), Places(axes, tuple(map(names_of, labels)))
    if missing := [a for a in known.axes if a not in axes]:
        raise VieteError(
            f"{known.question} has an entry for each {missing[0]}, and {found.question} has none; "
            f"give both the same letter, such as x^3_j and t_{{j-1}}"
        )
    at = [axes.index(a) for a in known.axes]
    shared = [[x for x in labels[a] if x in set(own)]
              for a, own in zip(at, known.labels, strict=True)]  # fmt: skip
    for a, both in zip(at, shared, strict=True):
        values = values.take([list(labels[a]).index(x) for x in both], axis=a)
    codes = in_numpy(known.array)
    for a, (own, both) in enumerate(zip(known.labels, shared, strict=True)):
        codes = codes.take([list(own).index(x) for x in both], axis=a)
    lead = [a for a in range(values.ndim - 1) if a not in at]
    values = values.transpose(*lead, *at, values.ndim - 1)
    count = prod(map(len, shared))
    places = Places(tuple(axes[a] for a in lead), tuple(names_of(labels[a]) for a in lead))
    names = tuple(map(str, shared[0])) if len(shared) == 1 else ()
    positions = tuple(number(x, k) for k, x in enumerate(names)) or tuple(range(count))
    vectors = values.reshape(prod(places.shape), count, values.shape[-1])
    return Vectors(vectors, codes.reshape(-1).tolist(), positions, names), places


def names_of(labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(str, labels))


def number(label: str, k: int) -> int:
    """The position that a label begins with: 4 of ``4 "a"``."""
    head = label.split(" ", 1)[0]
    return int(head) if head.isdigit() else k


def check_alike(of: str, found: Sequence[tuple[Places, tuple[int, ...]]]) -> None:
    """Check that every text has a vector at every place."""
    shapes = {(p.shape, shape[-1]) for p, shape in found}
    if len(shapes) > 1:
        raise VieteError(
            f"{of} has different shapes on texts of different lengths; write one "
            f"position, such as x^3_{{-1}}, or a label for each position, as for x^3_j and t_j"
        )


def common(found: Sequence[Places]) -> Places:
    """The places of all texts; places whose names differ between texts are named by number."""
    first = found[0]
    labels = tuple(
        own if all(p.labels[a] == own for p in found) else tuple(str(number(x, k))
                                                                 for k, x in enumerate(own))
        for a, own in enumerate(first.labels)
    )  # fmt: skip
    return Places(first.axes, labels)


def coded(
    labels: Sequence[Sequence[Label]], kind: str | None, label: str
) -> tuple[tuple[str, ...], tuple[np.ndarray, ...]]:
    """The classes, empty for numbers, and the labels of each text as numbers."""
    if kind not in (None, *KINDS):
        raise VieteError(f"labels must be {' or '.join(KINDS)}, not {kind!r:.40}")
    every = [x for row in labels for x in row]
    numbers = all(isinstance(x, int | float) for x in every)
    whole = numbers and all(float(x).is_integer() for x in every)
    if kind == "numbers" and not numbers:
        raise VieteError(f"{label} is {every[0]!r:.40} of a text, which is not a number")
    if kind == "numbers" or (kind is None and numbers and not whole):
        if not (np.abs(every) <= LARGEST).all():
            raise VieteError(
                f"{label} must be a finite number on every text, at most {LARGEST:g} in size"
            )
        return (), tuple(np.array(row, float) for row in labels)
    classes = sorted(set(every)) if numbers else sorted(set(every), key=str)
    if not 1 < len(classes) <= MOST_CLASSES:
        advice = "; numbers are learned with kind 'numbers'" * (numbers and len(classes) > 2)
        raise VieteError(
            f"{label} has {len(classes)} value{'s' * (len(classes) > 1)} in these texts; a probe "
            f"takes 2 to {MOST_CLASSES} classes{advice}"
        )
    code = {x: k for k, x in enumerate(classes)}
    names = tuple(f"{x:g}" if type(x) is float else str(x).lower() if isinstance(x, bool)
                  else str(x) for x in classes)  # fmt: skip
    return names, tuple(np.array([code[x] for x in row], int) for row in labels)


__all__ = ["ProbeExamples", "probe_examples"]
