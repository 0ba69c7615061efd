"""Causal questions about a model on a list of texts: mediation, resampling, scrubbing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viete.ask.example_list import Example, named_in, numbers_of
from viete.causes.drawing_texts import drawn_beside
from viete.causes.findings import ScrubFindings, scrub_findings
from viete.causes.hypothesis import read_hypothesis
from viete.causes.mediation import Effects, Mediators, PairEffects, pair_effects, together
from viete.causes.scrubbing import Scrubbing
from viete.circuits.ablation import Ablations
from viete.errors import VieteError
from viete.evaluate.inputs import in_numpy
from viete.formats.tensors import bar
from viete.nouns.text_runs import text_runs

if TYPE_CHECKING:
    from viete.graph.card import CardData
    from viete.nouns.model import Model
    from viete.nouns.run import Questions


def mediation(model: Model[Any], of: str, by: str, texts: Any) -> Effects:
    """The effects of the values ``by`` on a number, for texts with another text against each.

    See `Model.mediation`.
    """
    given = model.examples(texts)
    for k, x in enumerate(given, 1):
        if x.against is None:
            raise VieteError(
                f'text {k} has no second text; give lines such as {{"text": "…", "against": '
                f'"…"}}, or draw second texts with resample'
            )
    pairs = [(x, Example(x.against, values=x.values, place=x.place)) for x in given]
    return effects(model, of, by, pairs, title_of(texts, len(given)))


def resample(
    model: Model[Any], of: str, by: str, texts: Any, draws: int = 5, seed: int = 0
) -> Effects:
    """The number with the values ``by`` taken from other texts; see `Model.resample`."""
    if draws < 1:
        raise VieteError(
            f"draws, the number of texts drawn for each text, must be at least 1, not {draws}"
        )
    given = model.examples(texts)
    pairs = [(given[k], given[j]) for k, j in drawn_beside(given, draws, seed)]
    return effects(model, of, by, pairs, title_of(texts, len(given)), draws, seed)


def effects(
    model: Model[Any], of: str, by: str, pairs: list[tuple[Example, Example]], source: str,
    draws: int = 0, seed: int = 0,
) -> Effects:  # fmt: skip
    """The effects over all pairs of texts."""
    names = named_in(of, [x for x, _ in pairs])
    runs: dict[int, Questions] = {}

    def run_on(text: Any) -> Questions:
        if draws == 0:
            return model.run(text, names=[])
        if id(text) not in runs:
            runs[id(text)] = model.run(text, names=[])
        return runs[id(text)]

    found: list[PairEffects] = []
    mediators = None
    with bar(len(pairs), "effects") as tell:
        for here, there in pairs:
            run, other = run_on(here.text), run_on(there.text)
            mediators = mediators or Mediators.of(run, by)
            values = numbers_of(here, names, model.words)
            try:
                found.append(pair_effects(run, other, of, mediators, values, direct=not draws))
            except VieteError as error:
                raise of_lengths(error, here, there) from None
            tell(1)
    assert mediators is not None
    return together(found, run, of, mediators, source, draws, seed)


def of_lengths(error: VieteError, here: Example, there: Example) -> VieteError:
    """The error for a pair of texts; if their lengths differ, it says so."""
    a, b = len(here.text), len(there.text)
    if a == b:
        return error
    message = (
        f"the text has {a} tokens and the one against it {b}, and values with a row for each token "
        f"are exchanged between texts of one length: {error.message}"
    )
    return here.place.error(message) if here.place.text else VieteError(message)


def scrubbing(
    model: Model[Any], hypothesis: str | Path, of: str, texts: Any
) -> Scrubbing:  # fmt: skip
    """A hypothesis about a number of a model on some texts; see `Model.scrub`."""
    claims = read_hypothesis(hypothesis)
    given = model.examples(texts)
    first: dict[int, list[Example]] = {}
    for x in given:
        first.setdefault(len(x.text), []).append(x)
    given = [x for group in first.values() for x in group]  # as they are run together
    source = str(texts) if isinstance(texts, str | Path) else ""
    ablations = Ablations(model.card, model.weights, of, given, source, lambda: model.words)
    every = {c.features for top in claims for c in top.walk()}
    formulas = sorted({f for features in every for f in features})
    found = {f: list[bytes]() for f in formulas}
    for run in text_runs(model, given, formulas) if formulas else ():
        for f in formulas:
            try:
                array = in_numpy(run.answer(f).array)
            except VieteError as error:
                raise VieteError(f"the feature {f}: {error.message}") from None
            found[f].append(np.ascontiguousarray(array).tobytes())
    return Scrubbing(ablations, claims, {
        features: [tuple(found[f][k] for f in features) for k in range(len(given))]
        for features in every
    })  # fmt: skip


def scrub(
    model: Model[Any], hypothesis: str | Path, of: str, texts: Any, draws: int = 5, seed: int = 0
) -> ScrubFindings:
    """Causal scrubbing; see `Model.scrub`."""
    if draws < 1:
        raise VieteError(
            f"draws, the number of times each text is scrubbed, must be at least 1, not {draws}"
        )
    made = scrubbing(model, hypothesis, of, texts)
    count = sum(len(b[made.item]) for b in made.model.batches)
    return scrub_findings(made, made.model.source or f"{count} texts", draws, seed)


def changed_card(model: Model[Any], found: Effects, texts: Any) -> CardData:
    """The card in which the largest mediator has its values from another text."""
    given = model.examples(texts)
    first = next(iter(drawn_beside(given, 1, found.seed)))[1] if found.draws else 0
    other = model.run(given[first].text if found.draws else given[0].against, names=[])
    _, letters = next(found.members())
    changed: CardData = model.put(*found.mediators.equations(letters), against=other).card
    return changed


def title_of(texts: Any, count: int) -> str:
    """The title of some texts: their file, or their number."""
    return str(texts) if isinstance(texts, str) else f"{count} texts"


__all__ = ["changed_card", "mediation", "resample", "scrub", "scrubbing"]
