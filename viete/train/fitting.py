"""Fits a card to its data: its vocabulary, its loss, the weights of its loss. Each gives a card.

A run trains the resulting card, and keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from viete.analysis.next_token import vocabulary_size
from viete.code.numpy_text import Corpus
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Input, exact_number
from viete.graph.sizes import Size
from viete.notation.printer import show, show_equation
from viete.notation.tree import Apply, Expr, Ref, Symbol, num, transform
from viete.rewrite.adjoint.grad import with_own_loss
from viete.text.data import Documents, read_data
from viete.text.dialogs import EOT
from viete.text.vocabulary import Vocabulary, make_vocabulary
from viete.train.inputs import loss_equations, token_input, training_inputs
from viete.train.settings import Settings


def with_loss(card: CardData) -> CardData:
    """The card with its own loss, or the cross-entropy of its logits and the next tokens.

    Raises VieteError for a card without a loss or logits.
    """
    found = with_own_loss(card, "loss")  # L would hide a card's number of layers, as in x^L
    if found is None:
        raise VieteError(
            f"{card.title} has no loss to train by, and no logits to make one from; add an "
            f"equation such as L = cross_entropy(logits; y)"
        )
    return found[0]


OF_DATA = "vocabulary of the training data"


def with_vocabulary(card: CardData, size: int) -> CardData:
    """The card for a vocabulary of ``size`` tokens: ``card.bind(V=size)``, whatever V is called.

    Raises VieteError if the card's vocabulary is not a dimension with a number that can be set.
    """
    tokens = token_input(card)
    high = None if tokens.high is None else card.size(tokens.high)
    for dim in card.dims:
        plain = dim.value is not None and dim.name not in card.definitions
        if plain and high == Size.of(dim.name) - Size.of(1):
            bound = card.bind(**{dim.name: size})
            if bound.sizes[dim.name] == card.sizes.get(dim.name):
                return card
            # The card's remark about its own number is not true of this one.
            dims = [replace(d, meaning=OF_DATA) if d.name == dim.name else d for d in bound.dims]
            return replace(bound, dims=tuple(dims))
    if vocabulary_size(card, tokens) == size:
        return card
    raise VieteError(
        f"{card.title} has a vocabulary of {vocabulary_size(card, tokens)}, and the data one of "
        f"{size}; write its tokens as {tokens.name} ∈ {{0, …, V-1}} with a dimension V, which can "
        f"be set"
    )


def with_words(card: CardData, vocabulary: Vocabulary) -> CardData:
    """The card without its list of words, unless these are the tokens of the vocabulary.

    Other words would name the wrong tokens.
    """
    same = card.vocabulary == tuple(map(vocabulary.spelling, range(len(vocabulary))))
    return card if same else replace(card, vocabulary=())


def with_corpus(card: CardData, path: str) -> tuple[CardData, Corpus]:
    """The card for the characters of dialogs or short texts, and these as a script's corpus.

    Raises VieteError for data of another kind, and for a text longer than the context.
    """
    documents = read_data(path)
    vocabulary = make_vocabulary(documents)
    if vocabulary.special:
        raise VieteError(
            f"{documents.path}: a script learns dialogs or one text, not several files"
        )
    fits = with_vocabulary(with_loss(card), len(vocabulary))
    pairs = [(d.prompt, d.answer) for d in documents.conversations()] if documents.dialogs else [
        ("", "".join(documents.texts()))
    ]  # fmt: skip
    most = training_inputs(fits).context
    for given, wanted in pairs:
        if not 1 < len(given + wanted) <= most + 1:
            raise VieteError(
                f"{documents.path}: {card.title} takes texts of 2 to {most + 1} characters, and "
                f"one has {len(given + wanted)}; viete train learns from longer ones"
            )
    if not documents.dialogs:
        text = pairs[0][1]
        pairs = [(text[:1], text[1:])]
    characters = vocabulary.decode(range(len(vocabulary)))
    return fits, Corpus(characters, pairs, EOT if documents.dialogs else "")


def with_loss_weights(card: CardData) -> CardData:
    """The card with an input that says which positions count, 1 for all by default.

    Its cross-entropy becomes a weighted one: ``L = weighted_loss(logits; y, w)``. Raises VieteError
    for a card with another loss.
    """
    if training_inputs(card).weights is not None:
        return card
    tokens = token_input(card)
    w = card.fresh("w", "m", "counts", "loss_weights")
    symbol = Symbol("input", w)

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Apply) and card.library_name(e) == "cross_entropy":
            return card.library("weighted_loss", *e.args, Ref(symbol))
        return None

    equations = []
    for equation in card.equations:
        right = transform(equation.right, rule)
        if right != equation.right:
            text = Text(show_equation(equation.left, right), "<loss>")
            equation = replace(equation, right=right, text=text)
        equations.append(equation)
    if tuple(equations) == card.equations:
        loss = loss_equations(card)[0]
        raise VieteError(
            f"{card.title} cannot choose which positions count: its loss is "
            f"{show(loss.left)} = {show(loss.right)}, not a cross_entropy(logits; y) to which an "
            f"input of weights could go"
        )
    item = Input(symbol, tokens.shape, num(0), num(1), num(1), "1 where the loss counts")
    return replace(card, inputs=(*card.inputs, item), equations=tuple(equations))


def fit_card(
    card: CardData, documents: Documents, vocabulary: Vocabulary, settings: Settings
) -> CardData:
    """The card with a loss, the data's vocabulary and the requested length.

    Given weights fix the sizes: then the data must fit the card.
    """
    card = with_words(with_loss(card), vocabulary)
    if not settings.weights:
        card = with_vocabulary(card, len(vocabulary))
        if settings.length is not None:
            card = with_length(card, settings.length)
    if documents.apart:
        if settings.loss_on == "assistant":
            return with_loss_weights(card)
        with suppress(VieteError):  # then dialogs of one length make a batch
            return with_loss_weights(card)
    return card


def check_sets(card: CardData, sets: Sequence[str]) -> None:
    """Raise VieteError for a dimension set to another number than the data or --length require."""
    asked = {name.strip(): value for name, _, value in (text.partition("=") for text in sets)}
    for dim in card.dims:
        now = dim.value if dim.at_most is None else dim.at_most
        value = exact_number(asked.get(dim.name, ""))
        if value is not None and now is not None and now != num(value):
            raise VieteError(
                f"--set {dim.name}={asked[dim.name].strip()} contradicts the data, since the data "
                f"or --length make it {show(now)}; leave it out"
            )


def with_length(card: CardData, length: int) -> CardData:
    """The card with this context, so that none of its positions stays untrained.

    The card keeps its context if that is not a dimension that can be set.
    """
    n = token_input(card).shape[0]
    if not isinstance(n, Ref):
        return card
    most = card.lengths.get(n.key, n)
    if isinstance(most, Ref):
        of = next((d for d in card.dims if d.name == most.key), None)
        settable = of is not None and of.value is not None and of.name not in card.definitions
        return card.bind(**{most.key: length}) if settable else card
    return card.bind(**{n.key: length}) if most != num(length) else card


__all__ = [
    "check_sets",
    "fit_card",
    "with_corpus",
    "with_loss",
    "with_loss_weights",
    "with_vocabulary",
    "with_words",
]
