"""Consistency of a card: its facts, its notation list and its equations must agree.

A bullet such as ``- **num_blocks**: 2`` computes nothing, so nothing else would notice that the
equations have one block. Only statements with one possible reading are compared: a dimension under
one of the usual names of a configuration (or described by exactly that phrase), and a size in words
such as ``(vocab_size × d_model)`` after a name whose shape the card gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain

from viete.analysis.shapes import Shapes
from viete.errors import Text
from viete.graph.card import CardData, Dimension, Input, Parameter
from viete.notation.cursor import parse_name
from viete.notation.tree import Apply, Expr, Pick, Ref, walk

Described = tuple[Text, Text, tuple[Expr, ...]]  # a name, its size in words, that size

ROLES = {
    "blocks": ("num_blocks", "num_layers", "n_layers", "n_layer", "number of blocks",
               "number of layers"),
    "heads": ("num_heads", "n_heads", "n_head", "number of heads", "number of attention heads"),
    "vocabulary": ("vocab_size", "vocabulary_size", "vocabulary size", "vocab size"),
    "embedding": ("embedding_dim", "embed_dim", "embedding dimension", "embedding size"),
}  # fmt: skip


def check_agreement(
    card: CardData, shapes: Shapes, described: list[Described], stated: list[Dimension]
) -> None:
    """Check that the numbers a card states are those of its equations.

    ``stated`` are the numbers of facts that are not dimensions of the card.

    Raises VieteError at the statement that the equations contradict.
    """
    facts = [d for d in stated if d.name not in card.sizes]
    sizes = card.sizes | CardData("", dims=tuple(facts)).sizes
    for dim in (*card.dims, *facts):
        value = sizes.get(dim.name)
        if value is None:
            continue
        said = {dim.name, dim.meaning.strip().rstrip(".").lower()}
        role = next((r for r, names in ROLES.items() if said & set(names)), None)
        if role == "blocks":
            check_blocks(card, dim, value)
        elif role == "heads":
            check_heads(card, dim, value)
        elif role == "vocabulary":
            check_vocabulary(card, shapes, dim, value)
        elif role == "embedding":
            columns = {p.name: shapes.number(shapes.types[p.name].shape[1])
                       for _, p in embeddings(card)}  # fmt: skip
            refuse(dim, value, columns, "columns")
    for name, words, size in described:
        check_described(card, shapes, name, words, size)
    check_words(card)


def check_used(card: CardData, before: CardData) -> None:
    """Check that each dimension with another number than before is in a formula of the card.

    Raises VieteError at one that nothing uses: the shapes have numbers of their own.
    """
    if card is before:
        return
    bodies = chain.from_iterable(walk(f.body) for f in card.functions)
    used = {e.key for e in chain(formulas(card), bodies) if isinstance(e, Ref)}
    for dim in card.dims:
        if dim not in before.dims and dim.symbol.key not in used:
            raise dim.text.error(
                f"no shape and no equation uses {dim.name}, so another value would change nothing; "
                f"write {dim.name} in the shapes that have its number"
            )


def refuse(dim: Dimension, value: Fraction, counts: dict[str, Fraction | None], what: str) -> None:
    """Raise VieteError if all counts are known and none of them is the value."""
    known = {name: count for name, count in counts.items() if count is not None}
    if known and len(known) == len(counts) and value not in known.values():
        found = ", ".join(f"{name} has {count} {what}" for name, count in known.items())
        raise dim.text.error(f"{dim.name} is {value}, but {found}")


def check_blocks(card: CardData, dim: Dimension, value: Fraction) -> None:
    """Check that a loop, or all loops together, have this many steps, or blocks are written out."""
    if card.loops:
        counts = {loop: count(card, loop.lower, loop.upper) for loop in card.loops}
        total = sum((n for n in counts.values() if n is not None), Fraction(0))
        if None in counts.values() or value in (*counts.values(), total):
            return
        found = " and ".join(f"{loop.index} over {n}" for loop, n in counts.items())
        raise dim.text.error(f"{dim.name} is {value}, but the equations have a loop of {found}")
    # Blocks may also be written out one after the other; each has attention of its own.
    written = sum(card.library_name(e) == "softmax" for e in formulas(card))
    if value > max(1, written) or (value == 0 and written):
        raise dim.text.error(
            f"{dim.name} is {value}, but the equations have no loop over blocks; open a loop with "
            f"a line For $i = 1, …, {dim.symbol.key}$:"
        )


def check_heads(card: CardData, dim: Dimension, value: Fraction) -> None:
    """Check that the number is used, or that an index or a concatenation has as many values."""
    used = {e.key for e in formulas(card) if isinstance(e, Ref) and e.symbol.kind == "dim"}
    indexed = any(count(card, i.lower, i.upper) in (value, None) for i in card.indices)
    joined = any(isinstance(e, Apply) and e.op == "concat" and len(e.args) == value
                 for e in formulas(card))  # fmt: skip
    if value > 1 and dim.name not in used and not indexed and not joined:
        raise dim.text.error(
            f"{dim.name} is {value}, but no equation has {value} heads: no index has so many "
            f"values, and nothing uses {dim.name}"
        )


def check_vocabulary(card: CardData, shapes: Shapes, dim: Dimension, value: Fraction) -> None:
    """Check that an input has as many token numbers, and its embedding matrix as many rows."""
    ranges = {i.name: count(card, i.low, i.high) for i, _ in embeddings(card)
              if i.low is not None and i.high is not None}  # fmt: skip
    refuse(dim, value, ranges, "token numbers")
    rows = {p.name: shapes.number(shapes.types[p.name].shape[0]) for i, p in embeddings(card)
            if ranges.get(i.name) == value}  # fmt: skip
    refuse(dim, value, rows, "rows")


def check_words(card: CardData) -> None:
    """Check that the vocabulary has no more words than there are token numbers."""
    for item in card.inputs if card.vocabulary else ():
        if item.low is None or item.high is None:
            continue
        tokens = count(card, item.low, item.high)
        dim = next((d for d in card.dims if d.name in item.high.keys), None)
        if dim is not None and tokens is not None and tokens < len(card.vocabulary):
            raise dim.text.error(
                f"the vocabulary has {len(card.vocabulary)} words, but {item.name} takes only "
                f"{tokens} token numbers; make {dim.symbol.key} larger"
            )
        return


def check_described(
    card: CardData, shapes: Shapes, name: Text, words: Text, stated: tuple[Expr, ...]
) -> None:
    """Check that a size in words is the shape of the parameter or equation of that name."""
    letters = {i.name for i in card.indices} | set(card.loop_letters)
    found = shapes.types.get(parse_name(name, "parameter", letters).key)
    if found is None:
        return
    sizes, real = shapes.shape(stated, words), found.shape
    if len(sizes) != len(real):  # a vector is also said to be 1 × d
        sizes = tuple(s for s in sizes if s.number() != 1)
    if len(sizes) != len(real) or not all(map(shapes.same_number, sizes, real)):
        given = " × ".join(map(str, real)) or "one number"
        raise words.error(f"{name.text} is described as {words.text}, but its shape is {given}")


def count(card: CardData, lower: Expr, upper: Expr) -> Fraction | None:
    """The number of integers from one bound to the other; None where a bound has no value."""
    low, high = card.size(lower), card.size(upper)
    if low is None or high is None:
        return None
    extent = high - low
    return extent.evaluate(card.sizes) + 1 if extent.names() <= card.sizes.keys() else None


def formulas(card: CardData) -> Iterator[Expr]:
    """Every node of every expression of the card, except function bodies."""
    whole: list[Expr | None] = []
    for d in card.dims:
        whole += [d.value, d.at_most]
    for index in card.indices:
        whole += [index.lower, index.upper]
    for loop in card.loops:
        whole += [loop.lower, loop.upper]
    for i in card.inputs:
        whole += [*i.shape, i.low, i.high]
    for p in card.parameters:
        whole += p.shape
    whole += [e.right for e in (*card.equations, *card.derived)]
    for e in whole:
        if e is not None:
            yield from walk(e)


def embeddings(card: CardData) -> list[tuple[Input, Parameter]]:
    """The inputs of integers with the matrices whose rows they take, as in ``E[x]``."""
    inputs = {i.name: i for i in card.inputs if i.low is not None}
    tables = {p.name: p for p in card.parameters if len(p.shape) == 2}
    found = {}
    for e in formulas(card):
        if isinstance(e, Pick) and isinstance(e.value, Ref) and e.value.key in tables:
            row = e.items[0]
            row = row.value if isinstance(row, Pick) else row
            if isinstance(row, Ref) and row.key in inputs:
                found[row.key, e.value.key] = inputs[row.key], tables[e.value.key]
    return list(found.values())
