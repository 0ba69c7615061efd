"""Language models: which input is the text, and which value holds the scores of the next token."""

from __future__ import annotations

from viete.analysis.shapes import shapes_of
from viete.errors import VieteError
from viete.graph.card import CardData, Equation, Input, memoised
from viete.graph.dependence import forward_slice
from viete.graph.sizes import Size
from viete.notation.tree import Pick, Ref, num, walk


def padding_mask(card: CardData, text: Input) -> Input | None:
    """The card's own input that is 0 at padding of a text; None if it has none."""
    return next((i for i in card.inputs if i.default is not None and i.shape == text.shape
                 and i.high == num(1)), None)  # fmt: skip


@memoised
def text_of(card: CardData) -> Input:
    """The input that is continued: the last one of token ids without a default, as long as a text.

    It has scores for its next tokens, if any input has: it is not an encoder's source, nor the
    targets of a loss (``y``), wherever they are. Where nothing is looked up, as after ``x^0 = 0``,
    it is the first that nothing reads.
    """
    lengths = [
        i for i in card.inputs
        if i.high is not None and i.default is None and len(i.shape) == 1
        and isinstance(i.shape[0], Ref) and i.shape[0].key in card.lengths
    ]  # fmt: skip
    looked_up = {
        key for e in card.equations for p in walk(e.right) if isinstance(p, Pick)
        for item in p.items for key in item.keys
    }  # fmt: skip
    read = frozenset[str]().union(*(e.reads for e in card.equations))
    found = [i for i in lengths if i.name in looked_up] or [
        i for i in lengths if i.name not in read][:1]  # fmt: skip
    if not found:
        raise VieteError(
            f"{card.title} has no input of token ids as long as the text, which could be continued"
        )
    return next((i for i in reversed(found) if scored(card, i)), found[-1])


def scores(card: CardData) -> str:
    """The value with a score for each token of the vocabulary at every position: ``logits``.

    Else the last such value that is not a softmax. Raises VieteError where there is none.
    """
    tokens = text_of(card)
    for e in scored(card, tokens):
        if e.name == "logits" or not is_softmax(card, e):
            return e.name
    said = " × ".join("?" if s is None else str(s) for s in score_shape(card, tokens))
    raise VieteError(
        f"{card.title} has no value of shape {said}, a score for each next token; it cannot be "
        f"sampled"
    )


def score_shape(card: CardData, tokens: Input) -> tuple[Size | None, Size]:
    """The shape of a score for each token of the vocabulary at every position of a text."""
    count = value_count(card, tokens)
    assert count is not None
    return card.size(tokens.shape[0]), count


def value_count(card: CardData, item: Input) -> Size | None:
    """The number of possible values of an input's entry; None for real numbers."""
    high = None if item.high is None else card.size(item.high)
    low = None if item.low is None else card.size(item.low)
    return None if high is None or low is None else high - low + Size.of(1)


@memoised
def vocabulary(card: CardData) -> Size | None:
    """The number of tokens of the continued text; None for a card without a text."""
    try:
        return value_count(card, text_of(card))
    except VieteError:
        return None


@memoised
def scored_tokens(card: CardData) -> Size | None:
    """The number of tokens with scores; None for a card without scores."""
    try:
        return shapes_of(card).types[scores(card)].shape[1]
    except VieteError:
        return None


def scored(card: CardData, tokens: Input) -> list[Equation]:
    """The equations that make a score for each next token of a text they read, best first.

    ``logits`` comes first, then the last one; a softmax, whose entries are probabilities, after all
    others.
    """
    shapes, shape = shapes_of(card), score_shape(card, tokens)
    after = forward_slice(card, [tokens.name])
    fits = [
        e for e in card.equations
        if not e.left.symbol.slots and shapes.types[e.name].kind == "real" and e.name in after
        and len(shapes.types[e.name].shape) == 2
        and all(b is not None and shapes.same_number(a, b)
                for a, b in zip(shapes.types[e.name].shape, shape, strict=True))
    ]  # fmt: skip
    return sorted(reversed(fits), key=lambda e: (e.name != "logits", is_softmax(card, e)))


def is_softmax(card: CardData, e: Equation) -> bool:
    """Whether an equation makes probabilities."""
    return card.library_name(e.right) == "softmax"


def context_of(card: CardData, item: Input) -> int | None:
    """The longest text that an input takes; None if the length is unlimited."""
    size = card.size(item.shape[0]) if item.shape else None
    there = size is not None and size.names() <= card.greatest.keys()
    return int(size.evaluate(card.greatest)) if size is not None and there else None


def vocabulary_size(card: CardData, tokens: Input | None = None) -> int:
    """The number of tokens of an input of ids, by default of the continued text."""
    high = (tokens or text_of(card)).high
    size = None if high is None else card.size(high)
    assert size is not None
    try:
        return int(size.evaluate(card.greatest)) + 1
    except KeyError as missing:
        raise VieteError(f"the dimension {missing.args[0]} of {card.title} has no value") from None
