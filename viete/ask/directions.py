"""Named directions: a vector as its projections on some directions, plus the remainder.

The projections are least squares: with coefficients c_k, the sum of c_k d_k is as close to the
vector as any. For one direction, or for orthogonal ones, c_k is ⟨x, d_k⟩ / ⟨d_k, d_k⟩. Otherwise
the part of d_k that the other directions span is removed first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from viete.analysis.linearity import ATOM, UNOPENED
from viete.ask.term_families import Mark, Terms
from viete.ask.term_table import floats
from viete.errors import VieteError
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr
from viete.rewrite.opening import without_calls

if TYPE_CHECKING:
    from viete.ask.expansion import Expansion
    from viete.ask.stream import Stream
    from viete.evaluate.run import Run

DIRECTIONS = "directions"
MOST = 6  # directions at a time: the formula of a coefficient grows fourfold with each


@dataclass(frozen=True)
class Direction:
    """A direction, and the part of it that is in none of the other directions."""

    label: str
    vector: Expr
    own: Expr

    def coefficient(self, x: Expr) -> Expr:
        """The coefficient of the direction in a vector."""
        return Apply("div", (Apply("inner", (x, self.own)), Apply("inner", (self.own, self.own))))


def is_name(run: Run, word: str) -> bool:
    """Whether a word is a derived name of the run's card."""
    return any(d.name == word for d in run.program.model.derived)


def named_vectors(run: Run, stream: Stream) -> list[str]:
    """The derived names of the card that are vectors made only from weights, such as `put` adds."""
    return [
        d.name for d in run.program.model.derived
        if not d.left.symbol.slots and len(stream.lines.shape(d.left)) == 1
        and not stream.lines.depends(d.left) and not stream.lines.is_given(d.right)
    ]  # fmt: skip


def directions(run: Run, stream: Stream, texts: Sequence[str]) -> tuple[Direction, ...]:
    """The directions of formulas, or all vectors that the card has a name for.

    Raises VieteError for anything but vectors, for vectors of several sizes, and for no vectors.
    """
    card = run.program.model
    texts = tuple(dict.fromkeys(texts or named_vectors(run, stream)))
    if not texts:
        raise VieteError(
            f"{card.title} has no name for a direction; add one, as in "
            f"put('v = U_5 - U_3'), or give directions=('U_5 - U_3',)"
        )
    if len(texts) > MOST:
        raise VieteError(f"a vector can have at most {MOST} directions, not {len(texts)}")
    vectors = [stream.normal(without_calls(card, run.parse(text))) for text in texts]
    for text, v in zip(texts, vectors, strict=True):
        if stream.lines.rank(v) != 1:
            raise VieteError(f"a direction is a vector, and {text} has {stream.lines.rank(v)} axes")
    sizes = {size_of(run, stream, v) for v in vectors}
    if len(sizes) > 1:
        raise VieteError(
            f"the directions {', '.join(texts)} are vectors of {len(sizes)} sizes: "
            f"{' and '.join(map(str, sorted(sizes)))}"
        )
    owns = (without(v, [x for j, x in enumerate(vectors) if j != k])
            for k, v in enumerate(vectors))  # fmt: skip
    return tuple(Direction(show(run.parse(text), "unicode"), v, own)
                 for text, v, own in zip(texts, vectors, owns, strict=True))  # fmt: skip


def without(v: Expr, others: Sequence[Expr]) -> Expr:
    """A vector without its projection on others (Gram and Schmidt)."""
    orthogonal: list[Expr] = []
    for x in (*others, v):
        rest = x
        for q in orthogonal:
            part = Apply("div", (Apply("inner", (x, q)), Apply("inner", (q, q))))
            rest = Apply("sub", (rest, Apply("times", (part, q))))
        orthogonal.append(rest)
    return orthogonal[-1]


def size_of(run: Run, stream: Stream, v: Expr) -> int:
    """The number of entries of a vector."""
    return int(stream.lines.shape(v)[0].evaluate(run.sizes))


def projected(
    run: Run, stream: Stream, families: Sequence[Terms], along: Sequence[Direction]
) -> list[Terms]:
    """Families of terms, in which each focus that is a vector of that size is split by directions.

    Raises VieteError if nothing was split and every part could be opened (a soft cap cannot).
    """
    size, out = size_of(run, stream, along[0].vector), list[Terms]()
    for f in families:
        fits = stream.lines.rank(f.focus) == 1 and size_of(run, stream, f.focus) == size
        out += parts(f, along) if fits and f.kind in (ATOM, UNOPENED) else [f]
    if len(out) == len(families) and all(f.kind != UNOPENED for f in families):
        raise VieteError(
            f"there is no vector of {size} entries, as {along[0].label} is, among the terms"
        )
    return out


def parts(f: Terms, along: Sequence[Direction]) -> Iterator[Terms]:
    """The parts of a term along each direction, and the rest."""
    rest = f.focus
    for d in along:
        part = Apply("times", (d.coefficient(f.focus), d.vector))
        rest = Apply("sub", (rest, part))
        yield replace(f, focus=part, marks=(*f.marks, Mark(f"direction {d.label}", "")))
    yield replace(f, focus=rest, marks=(*f.marks, Mark("beside the directions", "")))


def check_independent(e: Expansion, along: Sequence[Direction]) -> None:
    """Check that the directions are linearly independent: otherwise coefficients are not unique."""
    vectors = np.stack([floats(e.laid_out_alone(d.vector)) for d in along], axis=-2)
    if np.min(np.linalg.matrix_rank(vectors)) < len(along):
        names = ", ".join(d.label for d in along)
        raise VieteError(f"the directions {names} are not independent, or one of them is 0")


__all__ = [
    "DIRECTIONS",
    "Direction",
    "check_independent",
    "directions",
    "is_name",
    "projected",
]
