"""Questions about sets of vectors: ``pca_2(x^3)``, ``cosines(r^{i,h}_{-1}, U_5)``.

The last axis of a formula's value holds the entries of each vector. All other axes count vectors:
positions, heads, blocks, tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from viete.ask.decompositions import DirectionRow, direction_table
from viete.ask.question_heads import Headed
from viete.ask.token_ends import TokenEnd, token_end
from viete.document.tree import Block, paragraph
from viete.errors import VieteError
from viete.evaluate.answer_page import answer_blocks, literal
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import in_numpy
from viete.evaluate.run import Run

PCA, COSINES = "pca", "cosines"
USUAL = 2  # components, where no number is given
MOST = 2000  # vectors of a map of cosines


@dataclass(frozen=True)
class VectorSet:
    """Vectors (m, d) with their names, the axis of their entries and the entries' labels."""

    array: np.ndarray
    names: tuple[str, ...]
    axis: str
    labels: Sequence[str]
    question: str


def vector_set(run: Run, question: str, behind: str = "") -> VectorSet:
    """The vectors of a formula, after the changes ``behind`` it.

    Raises VieteError for a single number, and for numbers that are not floats.
    """
    found = run.answer(f"{question} {behind}".strip())
    array = in_numpy(found.array)
    if not array.ndim:
        raise VieteError(f"{question} is one number, not a vector")
    if array.dtype.kind not in "fiub":
        raise VieteError(f"vectors are compared in floats; leave out the meaning of {question}")
    lead = found.axes[:-1]
    places = [
        ", ".join(named(axis, str(labels[k])) for axis, labels, k in
                  zip(lead, found.labels, place, strict=False))
        for place in np.ndindex(array.shape[:-1])
    ]  # fmt: skip
    rows = array.reshape(-1, array.shape[-1]).astype(np.float64)
    names = tuple(name or question for name in places)
    return VectorSet(rows, names, found.axes[-1], found.labels[-1], question)


def named(axis: str, label: str) -> str:
    """The name of an entry of an axis: a number with the axis's name, or a word unchanged."""
    head = label.split(" = ")[0]
    return f"{axis} {head}" if head.isdigit() else label


def joined(sets: Sequence[VectorSet]) -> VectorSet:
    """Several sets as one. Raises VieteError for vectors of several sizes."""
    sizes = {s.array.shape[1] for s in sets}
    if len(sizes) > 1:
        raise VieteError(f"the vectors have {' and '.join(map(str, sorted(sizes)))} entries")
    names = tuple(name for s in sets for name in s.names)
    if len(set(names)) < len(names):  # which of them is whose, the formula says
        names = tuple(x if x == s.question else f"{s.question} {x}" for s in sets for x in s.names)
    array = np.concatenate([s.array for s in sets])
    return VectorSet(array, names, sets[0].axis, sets[0].labels, sets[0].question)


# -- cosines ---------------------------------------------------------------------------------------


def cosines(run: Run, asked: Headed, behind: str = "") -> Answer:
    """The cosines of all pairs of some vectors, (m, m)."""
    found = joined([vector_set(run, q, behind) for q in asked.formulas])
    if len(found.names) > MOST:
        raise VieteError(f"a map takes at most {MOST:,} vectors, not {len(found.names):,}")
    with np.errstate(invalid="ignore", divide="ignore"):
        units = found.array / np.linalg.norm(found.array, axis=1, keepdims=True)
    question = f"{COSINES}({', '.join(asked.formulas)}) {behind}".strip()
    return Answer(question, units @ units.T, ("vector", "vector"), (found.names, found.names))


# -- principal components --------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Pca(Answer):
    """Centred vectors along the directions of largest variance, (m, k), as the array.

    ``directions`` (d, k) have length 1, with the sign that makes the largest absolute entry
    positive. ``shares`` (k) are their shares of the variance.
    """

    mean: np.ndarray = field(kw_only=True)
    directions: np.ndarray = field(kw_only=True)
    shares: np.ndarray = field(kw_only=True)
    variances: np.ndarray = field(kw_only=True)
    end: TokenEnd = field(kw_only=True)

    def blocks(self, width: int = 100, title: str | None = None) -> list[Block]:
        """A table with a row for each component and its tokens, then a table of the vectors."""
        title = self.question if title is None else title
        count, size = len(self.array), len(self.mean)
        out: list[Block] = [paragraph(f"{literal(title)}  ({count} vectors of {size} entries)")]
        out.append(direction_table(self.rows(), [self.end.word], "variance"))
        return [*out, *answer_blocks(self, width, "their coordinates")]

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The arrays of `Answer.arrays`, the directions and the mean."""
        q = self.question
        return {q: self.array, f"{q} directions": self.directions, f"{q} mean": self.mean}

    def rows(self) -> Iterator[DirectionRow]:
        """For each component: its variance, its share, its tokens and those of its other sign."""
        for variance, share, v in zip(self.variances, self.shares, self.directions.T, strict=True):
            yield DirectionRow(variance, share, [self.end.line(v)], [self.end.line(-v)])


def pca(runs: Sequence[Run], asked: Headed, behind: str = "") -> Pca:
    """The principal components of the vectors of one formula, of all runs together.

    Raises VieteError for fewer than two vectors.
    """
    if len(asked.formulas) != 1:
        raise VieteError(f"{PCA} takes one family of vectors, not {len(asked.formulas)}")
    (question,) = asked.formulas
    sets = [vector_set(run, question, behind) for run in runs]
    if len(runs) > 1:
        sets = [of_text(s, k) for k, s in enumerate(sets, 1)]
    found = joined(sets)
    m, d = found.array.shape
    if m < 2:
        raise VieteError(
            f"{question} is one vector, which has no variance; give several texts or positions"
        )
    if not np.isfinite(found.array).all():
        raise VieteError(f"{question} has entries that are not finite numbers, so it has no "
                         f"components")  # fmt: skip
    mean = found.array.mean(0)
    u, s, v = np.linalg.svd(found.array - mean, full_matrices=False)
    count = min(asked.count or USUAL, m, d)
    largest = np.take_along_axis(v, np.abs(v).argmax(1)[:, None], 1)[:count]
    signs = np.where(largest[:, 0] < 0, -1.0, 1.0)
    squares = np.square(s)
    word = PCA if asked.count is None else f"{PCA}_{asked.count}"
    title = f"{word}({question}) {behind}".strip()
    return Pca(
        title, u[:, :count] * s[:count] * signs, ("vector", "component"),
        (found.names, [str(k + 1) for k in range(count)]), mean=mean,
        directions=v[:count].T * signs, variances=squares[:count] / (m - 1),
        shares=squares[:count] / max(squares.sum(), np.finfo(float).tiny),
        end=token_end(runs[0], found.axis, found.labels, written=True),
    )  # fmt: skip


def of_text(s: VectorSet, k: int) -> VectorSet:
    """The vectors of one of several texts, with names that say which."""
    names = (f"text {k}" if name == s.question else f"text {k}, {name}" for name in s.names)
    return replace(s, names=tuple(names))


__all__ = ["COSINES", "PCA", "Pca", "cosines", "pca"]
