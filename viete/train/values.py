"""Activations of a model as training data of another card: rows of one place, or of two places.

A card of features (`viete.cards.catalogue.coders`) has a real input of rows that it reads, and
perhaps one of rows that it should write. A batch is a pure function of the data, the seed and its
number, like a batch of text. Windows of text are run through the model, for as many batches at once
as `ROOM` permits, and their rows are shuffled among these batches, since rows of one text are
alike. Nothing else is held, so a corpus may have any length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from viete.cards.catalogue import model_path
from viete.errors import Text, VieteError
from viete.evaluate.labelled import Array
from viete.formats.hub import located
from viete.graph.card import CardData, Equation, Input
from viete.model.folder import open_folder
from viete.model.mapping import load_weights
from viete.model.places import PlaceValues, name_of, place_of
from viete.model.trained import is_run, open_run
from viete.notation.printer import show_equation
from viete.notation.tree import Apply, Expr, Pick, Ref, Symbol, num
from viete.text.data import Documents
from viete.text.vocabulary import Vocabulary
from viete.train.batches import PARTS, Batches, random_numbers
from viete.train.fitting import with_loss
from viete.train.inputs import training_inputs
from viete.train.settings import Settings
from viete.train.tokens import Tokens

LENGTH = 128  # tokens of a text, by default, if the model's context is longer
ROOM = 1 << 26  # bytes of rows that are shuffled together
MIXED = 16  # most batches shuffled together
FIRST = 1 << 12  # tokens used to measure the size of a value
MODEL, READS, WRITES = "model", "reads", "writes"  # facts of a card of features
ENCODE, DECODE, SHIFT = "W_enc", "W_dec", "b_dec"  # weights initialised from known values


def model_values(settings: Settings) -> PlaceValues:
    """The values that a card learns, of the model that the settings name.

    Raises VieteError for an invalid model, and for a place that it does not have.
    """
    torch = settings.engine != "numpy"
    source = model_path(settings.model)
    found = open_run(source) if is_run(source) else open_folder(source)
    weights = load_weights(found.model, found.tensors, "torch" if torch else "numpy",
                           settings.dtype, settings.device)  # fmt: skip
    places = [place_of(found.model, settings.reads, "--reads")]
    if settings.writes:
        places.append(place_of(found.model, settings.writes, "--writes"))
    return PlaceValues(with_some_loss(found.model, places[0]), weights, places)


def with_some_loss(card: CardData, place: Expr) -> CardData:
    """The card with a loss, which identifies its inputs and is not computed.

    For an encoder, which has no loss and no scores, it is the sum of the values read.
    """
    try:
        return with_loss(card)
    except VieteError:
        total = Apply("sum", (Apply("T", (Apply("sum", (place,)),)),))
        left = Symbol("value", card.fresh("L", "loss", "total")).member
        right = Pick(total, (num(0), num(0)))
        text = Text(show_equation(left, right))
        return replace(card, equations=(*card.equations, Equation(left, right, text=text)))


def own_tokenizer(model: str) -> str:
    """The file of a model's tokenizer."""
    path = located(model_path(model), None).resolve()
    tokenizer = (path if path.is_dir() else path.parent) / "tokenizer.json"
    if not tokenizer.is_file():
        raise VieteError(
            f"{model} has no tokenizer.json, so its tokens are unknown; name a tokenizer with "
            f"--tokenizer"
        )
    return str(tokenizer)


def real_inputs(card: CardData) -> list[Input]:
    """The real matrix inputs of a card of features: the values it reads, and those to write."""
    found = [i for i in card.inputs if i.high is None and i.default is None]
    if len(found) != len(card.inputs) or not found or any(len(i.shape) != 2 for i in found):
        raise VieteError(
            f"{card.title} does not learn values of a model; its inputs are rows such as "
            f"x ∈ ℝ^{{n × d}}, as those of the cards sae and transcoder are"
        )
    return found


def fit_values(
    card: CardData, values: PlaceValues, documents: Documents, vocabulary: Vocabulary,
    settings: Settings,
) -> CardData:  # fmt: skip
    """The card fitted to these values: their widths, scale and source."""
    inputs = real_inputs(card)
    if len(inputs) != len(values.places):
        two = "two inputs, what it reads and what it is to write: give --reads and --writes"
        one = f"one input, {inputs[0].name}: leave out --writes"
        raise VieteError(f"{card.title} has {two if len(inputs) == 2 else one}")
    if documents.apart:
        raise VieteError(
            f"{documents.path}: values are learned from running text, with --kind text, not from "
            f"dialogs or lines"
        )
    card = with_loss(card)
    if not settings.weights:
        sizes = {k: w for i, w in zip(inputs, values.widths, strict=True)
                 if isinstance(k := i.shape[1], Ref)}  # fmt: skip
        rows = first_rows(values, documents, vocabulary, text_length(values, settings))
        units = zip(("sigma", "tau"), rows, strict=False)
        own = {d.name for d in card.dims if d.value is not None}
        scale = {k: f"{np.sqrt(np.square(a, dtype=float).mean()) or 1:.4g}" for k, a in units}
        bound = {k.key: v for k, v in sizes.items()} | scale
        card = card.bind(**{k: v for k, v in bound.items() if k in own})
        limit = card.lengths.get(getattr(inputs[0].shape[0], "key", ""))
        if isinstance(limit, Ref):
            card = card.bind(**{limit.key: text_length(values, settings)})
    here = {MODEL: settings.model, READS: name_of(values.card, values.places[0])}
    if settings.writes:
        here[WRITES] = name_of(values.card, values.places[1])
    facts = [fact for fact in card.facts if fact[0] not in here]
    return replace(card, facts=(*facts, *here.items()))


def text_length(values: PlaceValues, settings: Settings) -> int:
    """The number of tokens in each text that is run."""
    return settings.length or min(training_inputs(values.card).context, LENGTH)


def first_rows(
    values: PlaceValues, documents: Documents, vocabulary: Vocabulary, length: int
) -> list[np.ndarray]:
    """The values at the first tokens of the data."""
    ids: list[int] = []
    for piece in documents.pieces():
        ids += vocabulary.encode(piece.text[: 16 * FIRST], piece.where).tolist()
        if len(ids) >= FIRST:
            break
    length = min(length, max(1, len(ids)))
    count = max(1, min(len(ids), FIRST) // length)
    return values(np.array(ids[: count * length], np.int64).reshape(count, length))


class ValueBatches:
    """The batches of one part of the data as rows of a model's values; see `Batches`.

    Raises VieteError as `Batches` does for the model that is run.
    """

    def __init__(
        self, card: CardData, values: PlaceValues, data: Tokens, vocabulary: Vocabulary,
        settings: Settings, part: str = "train",
    ) -> None:  # fmt: skip
        settings = replace(settings, length=text_length(values, settings))
        self.text = Batches(values.card, data, vocabulary, settings, part)
        self.values, self.settings, self.data = values, settings, data
        self.names = [i.name for i in real_inputs(card)]
        bytes_each = settings.batch * self.text.length * sum(values.widths) * 4
        self.mixed = max(1, min(MIXED, ROOM // bytes_each))
        self.held: tuple[int, dict[str, Array]] = (-1, {})

    @property
    def epoch(self) -> int:
        """The number of batches with as many rows as the data has tokens."""
        return self.text.epoch

    def batch(self, k: int) -> dict[str, Array]:
        """The inputs of the card at step k by name, (batch, n, width)."""
        group, place = divmod(k, self.mixed)
        if self.held[0] != group:
            self.held = group, self.shuffled(group)
        size = self.settings.batch
        return {name: a[place * size : (place + 1) * size] for name, a in self.held[1].items()}

    def shuffled(self, group: int) -> dict[str, Array]:
        """The rows of one group of batches, shuffled among them."""
        numbers = range(group * self.mixed, (group + 1) * self.mixed)
        ids = np.concatenate([self.text.batch(k)[self.text.takes.tokens] for k in numbers])
        random = random_numbers(
            self.settings.seed, 2 * len(PARTS) + PARTS.index(self.text.part), group, ids.size
        )
        order = np.argsort(random, kind="stable")
        return {name: a.reshape(ids.size, -1)[order].reshape(a.shape)
                for name, a in zip(self.names, self.values(ids), strict=True)}  # fmt: skip

    def evaluation(self, count: int) -> Iterator[dict[str, Array]]:
        """The values of the same texts at every call."""
        for batch in self.text.evaluation(count):
            arrays = self.values(batch[self.text.takes.tokens])
            yield dict(zip(self.names, arrays, strict=True))

    @property
    def state(self) -> dict[str, Any]:
        """As `Batches.state`."""
        return self.text.state

    def check(self, state: Mapping[str, Any]) -> None:
        """As `Batches.check`."""
        self.text.check(state)


AnyBatches = Batches | ValueBatches


def begin_weights(card: CardData, weights: Mapping[str, Array], batch: Mapping[str, Array]) -> None:
    """Initialise weights of features from statistics of their values.

    The shift, the output without any feature, is the mean of the values to write. Features of an
    autoencoder read in the direction in which they write (Bricken et al. 2023).
    """
    last = list(batch)[-1]
    size = float(card.sizes.get("tau" if len(batch) == 2 else "sigma", 1))
    if SHIFT in weights:
        mean = batch[last].reshape(-1, batch[last].shape[-1]).mean(0) / size
        put(weights[SHIFT], mean)
    if len(batch) == 1 and ENCODE in weights and DECODE in weights:
        weights[ENCODE][...] = weights[DECODE].T


def put(weight: Array, array: np.ndarray) -> None:
    """Write a NumPy array into a weight."""
    if hasattr(weight, "detach"):
        weight.copy_(weight.new_tensor(array))
    else:
        weight[...] = array


__all__ = [
    "AnyBatches",
    "ValueBatches",
    "begin_weights",
    "fit_values",
    "model_values",
    "own_tokenizer",
]
