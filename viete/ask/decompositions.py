"""``svd_3(W_V^{2,1} W_O^{2,1})``: the singular values of a matrix, and its directions as tokens.

A product is never multiplied out: it is cut at its narrowest axis, and its singular values come
from those of the two factors. The two vectors of a pair are only determined up to a common sign;
here the left vector's entry of largest absolute value is positive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from typing import NamedTuple

import numpy as np

from viete.ask.question_heads import Headed
from viete.ask.token_ends import TokenEnd, token_end
from viete.document.tree import Block, TextTable, paragraph
from viete.errors import Text, VieteError
from viete.evaluate.answer_page import TABLES, literal
from viete.evaluate.answers import Answer
from viete.evaluate.factored import FactoredMatrix
from viete.evaluate.inputs import in_numpy
from viete.evaluate.labelled import COL, ROW, in_order
from viete.evaluate.labels import axis_labels
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.notation.tree import Apply, Expr
from viete.rewrite.opening import underived

SVD = "svd"
USUAL = 5  # directions, where no number is given
Decomposed = tuple[
    tuple[str, ...], tuple[Sequence[str], ...], tuple[np.ndarray, np.ndarray, np.ndarray]
]  # axes, labels, and the left vectors, the values and the right vectors


@dataclass(frozen=True, repr=False)
class Svd(Answer):
    """The singular values of matrices, the largest first, as the array.

    ``left`` (…, m, k) and ``right`` (…, n, k) have the singular vectors as columns, and ``shares``
    (…, k) the share of each in the squared norm. ``ends`` turn the left and the right ones into
    tokens.
    """

    left: np.ndarray = field(kw_only=True)
    right: np.ndarray = field(kw_only=True)
    shares: np.ndarray = field(kw_only=True)
    ends: tuple[TokenEnd, TokenEnd] = field(kw_only=True)

    def blocks(self, width: int = 100, title: str | None = None) -> list[Block]:
        """Tables with a row for each direction, and one for its other sign where it has tokens."""
        places = list(np.ndindex(self.array.shape[:-1]))
        out: list[Block] = [paragraph(literal(self.question if title is None else title))]
        for place in islice(places, TABLES):
            pairs = zip(self.axes, self.labels, place, strict=False)
            where = ", ".join(f"{axis} = {labels[k]}" for axis, labels, k in pairs)
            out += [paragraph(literal(where))] * bool(where)
            out.append(direction_table(self.rows(place), [e.word for e in self.ends]))
        if len(places) > TABLES:
            out.append(paragraph(f"… ({len(places) - TABLES} more)"))
        return out

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The arrays of `Answer.arrays`, and the vectors of both sides."""
        q = self.question
        return {q: self.array, f"{q} left": self.left, f"{q} right": self.right}

    def rows(self, place: tuple[int, ...]) -> Iterator[DirectionRow]:
        """For each direction: its number, its share, its tokens and those of its other sign."""
        for k, value in enumerate(self.array[place]):
            pair = self.left[place][:, k], self.right[place][:, k]
            plus, minus = ([end.line(sign * x) for end, x in zip(self.ends, pair, strict=True)]
                           for sign in (1, -1))  # fmt: skip
            yield DirectionRow(value, self.shares[place][k], plus, minus)


class DirectionRow(NamedTuple):
    """A direction in a table: its number, its share, and its tokens at each end, by its sign."""

    value: float
    share: float
    plus: list[str]
    minus: list[str]


def direction_table(
    rows: Iterable[DirectionRow], words: Sequence[str], name: str = "σ"
) -> TextTable:  # fmt: skip
    """A table of directions with their numbers; a second line has the tokens of the other sign."""
    shown = [j for j, word in enumerate(words) if word]
    header = ["", name, "share", *(words[j] for j in shown)]
    body = list[list[str]]()
    for k, row in enumerate(rows, 1):
        tokens = (literal(row.plus[j]) for j in shown)
        body.append([str(k), f"{row.value:.4g}", f"{row.share:.1%}", *tokens])
        if shown:
            body.append(["−", "", "", *(literal(row.minus[j]) for j in shown)])
    return TextTable(list(map(Text, header)), [list(map(Text, row)) for row in body])


def svd(run: Run, asked: Headed, behind: str = "") -> Svd:
    """The singular values and vectors of one formula, a matrix or several.

    Raises VieteError for anything but matrices, and for numbers that are not floats.
    """
    if len(asked.formulas) != 1:
        raise VieteError(f"{SVD} takes one matrix, not {len(asked.formulas)}")
    (question,) = asked.formulas
    if behind:  # of a changed model the matrix is one of its values
        axes, labels, (left, values, right) = of_array(run.answer(f"{question} {behind}"))
        ends = [run.parse(question)] * 2
    else:
        e = run.parse(question)
        ends = factors(underived(run.program.model, e))
        axes, labels, (left, values, right) = (
            of_array(run.answer(question)) if len(ends) == 1 else of_product(run, question, e, ends)
        )
    count = min(asked.count or USUAL, values.shape[-1])
    squares = np.square(values)
    shares = squares / np.maximum(squares.sum(-1, keepdims=True), np.finfo(float).tiny)
    u, v = left[..., :count], right[..., :count, :].swapaxes(-1, -2)
    largest = np.take_along_axis(u, np.abs(u).argmax(-2)[..., None, :], -2)
    signs = np.where(largest < 0, -1.0, 1.0)
    in_tokens = (
        token_end(run, axes[-2], labels[-2], is_transposed(ends[0])),
        token_end(run, axes[-1], labels[-1], not is_transposed(ends[-1])),
    )
    word = SVD if asked.count is None else f"{SVD}_{asked.count}"
    return Svd(
        f"{word}({question}) {behind}".strip(), values[..., :count], (*axes[:-2], "direction"),
        (*labels[:-2], [str(k + 1) for k in range(count)]), left=u * signs, right=v * signs,
        shares=shares[..., :count], ends=in_tokens,
    )  # fmt: skip


def floats(found: Answer) -> np.ndarray:
    """The numbers of an answer. Raises VieteError unless it is a matrix of finite floats."""
    array = in_numpy(found.array)
    if array.dtype.kind not in "fiub":
        raise VieteError(
            f"directions of {found.question} are computed in floats; leave out the meaning"
        )
    if array.ndim < 2 or found.axes[-1] == "1":
        raise VieteError(f"{found.question} is not a matrix: its axes are {', '.join(found.axes)}")
    if not np.isfinite(array).all():
        raise VieteError(f"{found.question} has entries that are not finite numbers, so it has no "
                         f"directions")  # fmt: skip
    return np.asarray(array, np.float64)


def of_array(found: Answer) -> Decomposed:
    """The singular value decomposition of an answer, matrix by matrix."""
    u, s, v = np.linalg.svd(floats(found), full_matrices=False)
    return found.axes, found.labels, (u, s, v)


def of_product(run: Run, question: str, e: Expr, parts: Sequence[Expr]) -> Decomposed:
    """The decomposition of a product, computed from two factors that meet at the smallest size."""
    about = query(run, e, Text(question, "<name>"))
    inner = [int(query(run, x).type.shape[-1].evaluate(run.sizes)) for x in parts[:-1]]
    at = int(np.argmin(inner)) + 1
    halves = []
    for some in (parts[:at], parts[at:]):
        half = reduce(lambda a, b: Apply("prod", (a, b)), some)
        value, letters = run.answered(question, half)
        array = in_numpy(run.ordered(value, letters))
        lead = [a for a in in_order(value, letters) if a not in (ROW, COL)]
        halves.append((floats(Answer(question, array, (*lead, "", ""), ())), lead))
    lead = list(dict.fromkeys(a for _, own in halves for a in own))
    matrices = [array[tuple(slice(None) if a in own else None for a in lead)]
                for array, own in halves]  # fmt: skip
    product = FactoredMatrix(*matrices)
    axes = (*lead, *map(str, about.type.shape))
    labels = tuple(axis_labels(run, e, a, n) for a, n in zip(axes, product.shape, strict=True))
    u, s, v = map(np.asarray, product.factors)
    return axes, labels, (u, s, v)


def factors(e: Expr) -> list[Expr]:
    """The factors of a product of matrices, with nested products opened."""
    match e:
        case Apply("prod", args):
            return [f for x in args for f in factors(x)]
        case Apply("T", (Apply("prod", args),)):
            return [f for x in reversed(args) for f in factors(Apply("T", (x,)))]
    return [e]


def is_transposed(e: Expr) -> bool:
    """Whether a factor is the transpose of a matrix."""
    return isinstance(e, Apply) and e.op == "T"


__all__ = ["SVD", "DirectionRow", "Svd", "direction_table", "floats", "svd"]
