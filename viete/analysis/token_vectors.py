"""Token vectors: the embedding row that a token selects, and the unembedding vector that scores it.

The equations decide which matrices these are, not their names. Where a card has a matrix ``U`` with
a row for each token, ``U`` is the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce

from viete.analysis.flows import flows_of
from viete.analysis.next_token import scored_tokens, scores, text_of, vocabulary
from viete.analysis.query_heads import query_heads
from viete.analysis.shapes import shapes_of
from viete.analysis.types import Mismatch
from viete.analysis.weight_formulas import of_weights
from viete.errors import VieteError
from viete.graph.card import CardData, memoised
from viete.graph.sizes import Size
from viete.notation.printer import show
from viete.notation.substitution import fresh
from viete.notation.symbols import Scope
from viete.notation.tree import Apply, Expr, Pick, Ref, Slice, Table, num

UNEMBEDDING = "U"
SECOND_NAMES = (
    "W_U",
    UNEMBEDDING,
    "W_E",
    "E",
    "p",
    "logits",
    "bias",
)  # what papers say, of tied weights too


@memoised
def question_scope(card: CardData) -> Scope:
    """The names that a question may use: those of the card, and tokens under bars."""
    return replace(
        card.scope, text=lambda: text_of(card).symbol,
        vector=lambda bar, token: (unembedding if bar == "overline" else embedding)(card, token),
        heads=query_heads(card), last={loop.index: loop.upper for loop in card.loops},
        over_tokens=lambda value, axis: over_tokens(card, value, axis),
        second=partial(second_name, card),
    )  # fmt: skip


def second_name(card: CardData, name: str) -> Callable[[], Expr] | None:
    """The meaning of W_U, E or W_E, and p on a card with other names; None for any other name."""
    if name not in SECOND_NAMES or name in card.symbols:
        return None
    bases = {s.base for s in card.symbols.values()}
    match name:
        case "U" | "W_U" if "U" not in bases or "U" in card.symbols:
            return partial(rows_of_tokens if name == UNEMBEDDING else turned, card)
        case "E" | "W_E" if len(embeddings(card)) == 1:
            return lambda: embeddings(card)[0]
        case "p" if vocabulary(card) is not None and "p" not in bases:
            return partial(position_vectors, card)
        case "bias" if "bias" not in bases:
            return partial(unembedding_bias, card)
        case "logits" if scored_tokens(card) is None:
            return partial(rows_of_tokens, card)
    return None


def position_vectors(card: CardData) -> Expr:
    """Raise VieteError with what the card has instead of position vectors."""
    kinds = flows_of(card).embeddings.kinds()
    tables = [p.symbol.key for p in card.parameters if "position" in kinds[p.name]]
    raise VieteError(
        f"p_j is the vector added for position j; in {card.title} it is a row of "
        f"{tables[0]}" if tables
        else f"p_j is the vector added for position j, but {card.title} adds no such "
        "vector: its attention takes care of positions"
    )  # fmt: skip


def turned(card: CardData) -> Expr:
    """The unembedding with a column for each token, as a separate weight matrix has it."""
    matrix, axis = unembedding_matrix(card)
    return matrix if axis else Apply("T", (matrix,))


def rows_of_tokens(card: CardData) -> Expr:
    """The unembedding with a row for each token."""
    matrix, axis = unembedding_matrix(card)
    return Apply("T", (matrix,)) if axis else matrix


def over_tokens(card: CardData, value: Expr, axis: int, exactly: bool = False) -> bool:
    """Whether an axis of a formula may have a place for each token; ``exactly``: by its name.

    Otherwise an equal number counts, and so does an axis of unknown size.
    """
    shapes, sizes = shapes_of(card), [s for s in (vocabulary(card), scored_tokens(card)) if s]
    try:
        shape = shapes.of(value).shape
    except Mismatch:
        return not exactly
    if axis >= len(shape):
        return not exactly
    if exactly:
        return shape[axis] in sizes
    return not sizes or any(shapes.same_number(shape[axis], size) for size in sizes)


def embedding(card: CardData, token: Expr) -> Expr:
    """The row of a token in the matrix whose rows the text picks: ``W_E[5]``.

    Raises VieteError for a card without such a matrix, or with several.
    """
    found = embeddings(card)
    if len(found) != 1:
        known = ", ".join(show(Pick(m, (token,))) for m in found)
        why = f"has several: write {known}" if found else "has none: no text picks rows of a matrix"
        raise VieteError(f"a bar below a token is its embedding, and {card.title} {why}")
    return Pick(found[0], (token,))


@memoised
def embeddings(card: CardData) -> tuple[Expr, ...]:
    """The weight matrices whose rows the tokens of the text pick."""
    size = vocabulary(card)
    kinds = flows_of(card).embeddings.kinds()
    return tuple(
        Ref(p.symbol) for p in card.parameters
        if "token" in kinds[p.name] and card.size(p.shape[0]) == size and not p.symbol.slots
    )  # fmt: skip


def unembedding(card: CardData, token: Expr) -> Expr:
    """The vector whose product with the last row of the stream is the token's score: ``U[5]``.

    It has d entries. Later changes of the scores, such as a bias or a cap, are not included. Raises
    VieteError for a card without scores of tokens, and where no product makes them.
    """
    matrix, axis = unembedding_matrix(card)
    return (column if axis else row)(card, matrix, token)


@memoised
def unembedding_matrix(card: CardData) -> tuple[Expr, int]:
    """The weight matrix that makes the scores, and its axis with one place per token."""
    size, own = scored_tokens(card), card.symbols.get(UNEMBEDDING)
    if size is None:
        raise VieteError(f"{card.title} has no unembedding: none of its values scores the tokens")
    if own is not None and own.kind != "dim" and of_weights(card, Ref(own)):
        shape = shapes_of(card).types[own.key].shape
        if len(shape) == 2 and size in shape:
            return Ref(own), shape.index(size)
    name = scores(card)
    for e in reversed(card.equations):
        if e.name == name and (found := next(products(card, e.right, 1, size), None)) is not None:
            return found
    raise VieteError(
        f"{card.title} has no unembedding that could be found: no product with weights gives its "
        f"{name}; give the matrix the name U under Derived, with a row for each token"
    )


def products(card: CardData, e: Expr, axis: int, size: Size) -> Iterator[tuple[Expr, int]]:
    """The weights in the products that make an axis of a formula, the nearest first."""
    shapes = shapes_of(card)
    match e:
        case Ref() if made := [x.right for x in card.equations if x.name == e.key]:
            yield from products(card, made[-1], axis, size)
        case Apply("T", (x,)):
            yield from products(card, x, 1 - axis, size)
        case Apply("prod", (a, b)) if size in shapes.of(b if axis else a).shape:
            x, other = (b, a) if axis else (a, b)
            if of_weights(card, x):
                yield widest(card, x, other, axis), axis
            else:
                yield from products(card, x, axis, size)
        case Apply():
            for x in e.args:
                shape = shapes.of(x).shape
                if len(shape) == 2 and shape[axis] == size:
                    yield from products(card, x, axis, size)


def unembedding_bias(card: CardData) -> Expr:
    """What is added to the scores that the unembedding makes, a number for each token; mostly 0.

    Raises VieteError as `unembedding_matrix` does.
    """
    _, size, name = unembedding_matrix(card), scored_tokens(card), scores(card)
    assert size is not None
    made = next(e for e in reversed(card.equations) if e.name == name)
    added = list(added_weights(card, made.right, size))
    none = Table(((fresh(card.names, "vjk"), card.size_expr(size)),), num(0))
    return reduce(lambda a, b: Apply("add", (a, b)), added) if added else none


def added_weights(card: CardData, e: Expr, size: Size) -> Iterator[Expr]:
    """The weights that are added to a product with weights, outside of any other function."""
    match e:
        case Ref() if made := [x.right for x in card.equations if x.name == e.key]:
            yield from added_weights(card, made[-1], size)
        case Apply("add", (a, b)):
            for x, other in ((a, b), (b, a)):
                if next(products(card, x, 1, size), None) is not None:
                    yield from (other,) if of_weights(card, other) else ()
                    yield from added_weights(card, x, size)


def widest(card: CardData, x: Expr, other: Expr, axis: int) -> Expr:
    """A factor with neighbouring weights: in ``(z W) V`` the product ``W V``."""
    while isinstance(other, Apply) and other.op == "prod" and of_weights(card, other.args[axis]):
        x = Apply("prod", (other.args[1], x) if axis else (x, other.args[0]))
        other = other.args[1 - axis]
    return x


def row(card: CardData, m: Expr, k: Expr) -> Expr:
    """A row of a matrix, by as few operations as possible."""
    match m:
        case Apply("T", (x,)):
            return column(card, x, k)
        case Apply("prod", (a, b)) if len(shapes_of(card).of(a).shape) == 2:
            return Apply("prod", (row(card, a, k), b))
    return Pick(m, (k,))


def column(card: CardData, m: Expr, k: Expr) -> Expr:
    """A column of a matrix, as a vector."""
    match m:
        case Apply("T", (x,)):
            return row(card, x, k)
        case Apply("prod", (a, b)) if len(shapes_of(card).of(b).shape) == 2:
            return Apply("prod", (a, column(card, b, k)))
    return Pick(m, (Slice(None, None), k))


__all__ = [
    "embedding", "embeddings", "over_tokens", "question_scope", "rows_of_tokens", "unembedding",
]  # fmt: skip
