"""A probe as equations: the model's card with the probe in it, and claims about held-out texts.

The probe is one more value, its directions and offsets are parameters, and a text's class is an
input, which comes from a file of texts: ``{"text": "…", "label": 1}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

import numpy as np

from viete.ask.example_list import named_in, numbers_of
from viete.atomic import replacing
from viete.cards.claims import read_claim
from viete.errors import Text, VieteError
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.graph.card import CardData, Input
from viete.graph.claim import Claim
from viete.graph.sizes import ZERO
from viete.notation.cursor import parse_name
from viete.notation.printer import show
from viete.notation.tree import Idx, Pick, num
from viete.probes.examples import ProbeExamples
from viete.probes.probing import Probes
from viete.probes.table import FEW, FITTED, opening

PROBE, LABEL = "probe", "label"
NONE = -1  # the label of a position that has none


def parameters(probes: Probes) -> dict[str, Any]:
    """The numbers of a probe, by their names in its equation."""
    w, b = probes.one.directions, probes.one.offsets
    one = w.shape[1] == 1
    return {"direction": w[:, 0], "offset": b[0]} if one else {"directions": w, "offsets": b}


def equation(run: Run, probes: Probes) -> str:
    """The equation of a probe: ``probe = sigmoid(⟨x^3_{-1}, direction⟩ + offset)``.

    ``run`` is one of the model. Raises VieteError where its letter does not take every position.
    """
    of, count, letters = probes.examples.of, probes.count, probes.examples.letters
    if len(letters) > 1:
        raise VieteError(f"a probe in a model takes one position letter, not {len(letters)}")
    e = run.parse(of)
    if letters and isinstance(e, Pick) and e.items == (Idx(letters[0]),):  # x^3_j: a row of x^3
        e = e.value
        of = show(e)
    rows = bool(letters) and letters[0] not in query(run, e).places
    linear = f"⟨{of}, direction⟩" if count <= 2 and not rows else f"({of}) direction"
    linear = f"{linear} + offset" if count <= 2 else f"{linear}s + offsets"
    function = "" if not count else "sigmoid" if count == 2 else "softmax"
    right = f"{function}({linear})" if function else linear
    if letters and not rows:
        letter, length = letters[0], length_of(run, of, letters[0])
        if count <= 2:
            right = f"table_{{{letter}<{length}}}({right})"
        else:
            right = f"table_{{{letter}<{length},c<{count}}}({right}[c])"
    return f"{PROBE} = {right}"


def length_of(run: Run, of: str, letter: str) -> str:
    """The length of the text whose positions a letter counts."""
    first, count = query(run, run.parse(of)).places[letter]
    names = count.names()
    if first != ZERO or len(names) != 1 or str(count) not in names:
        raise VieteError(
            f"{letter} does not take every position in {of}; shift the label instead, as in t_{{"
            f"{letter}-1}}"
        )
    return next(iter(names))


def naming(model: Any, probes: Probes) -> Any:
    """The model with inputs for what a probe's formula takes from texts, as ``position``."""
    texts, items = probes.examples.texts, list[Input]()
    for name in named_in(probes.examples.of, texts):
        values = [numbers_of(e, [name], model.words)[name] for e in texts]
        if not all(type(x) is int for x in values):
            raise VieteError(
                f"a probe that is written as a model needs a whole number {name} for each text"
            )
        ends = (num(min(0, *values)), num(max(values)), num(values[0]))
        items.append(Input(parse_name(Text(name), "input", set()), (), *ends, "of each text"))
    card = model.card
    return model.over(replace(card, inputs=(*card.inputs, *items))) if items else model


def given_of(model: Any, probes: Probes, k: int) -> dict[str, Any]:
    """The values of these inputs for one of the texts."""
    example = probes.examples.texts[k]
    return numbers_of(example, named_in(probes.examples.of, [example]), model.words)


def probed(model: Any, probes: Probes, held_out: str) -> Any:
    """The model with a probe put in; its card claims the probe's accuracy.

    ``held_out`` names the file of the texts that the claims are about.
    """
    base, first = naming(model, probes), probes.examples.texts[0].text
    run = base.run(first, names=[], **given_of(model, probes, 0))
    made = base.put(equation(run, probes), **parameters(probes))
    card, examples = made.card, probes.examples
    shape = card.inputs[0].shape if examples.letters else ()
    symbol = parse_name(Text(LABEL), "input", set())
    if probes.count:
        low, high, none = num(NONE), num(probes.count - 1), num(NONE)
        item = Input(symbol, shape, low, high, none, "the class, for its claims")
    else:
        item = Input(symbol, shape, default=num(0), meaning="the number, for its claims")
    about = tuple(sentences(probes))
    card = replace(card, inputs=(*card.inputs, item), about=about, claims=())
    return made.over(replace(card, claims=tuple(claims(card, probes, held_out))))


def claims(card: CardData, probes: Probes, held_out: str) -> Iterator[Claim]:
    """The card's claims about the held-out texts: the probe's accuracy."""
    score, per_position = probes.scores[0], bool(probes.examples.letters)
    if not probes.count:
        error = float(np.mean([np.mean(np.square(
            probes.one(probes.examples.vectors[k].values[0])[:, 0] - probes.examples.codes[k]))
            for k in probes.held]))  # fmt: skip
        if per_position and any(len(v.labels) != v.length for v in probes.examples.vectors):
            return
        each = "sum((probe - label)^2) / n" if per_position else "(probe - label)^2"
        says = f"≤ {upper(error)}"
        meaning = f"the mean square of its errors; R² is {score.value:.3f}"
    else:
        each, says = right(probes, per_position), f"≥ {floor(100 * score.value + 1e-9) / 100}"
        meaning = f"its accuracy; the most frequent class has {score.constant:.3f}"
    text = f'mean_{{texts}}({each}) {says} for texts of "{held_out}"'
    yield replace(read_claim(Text(text), card.scope, meaning), text=Text(""))


def right(probes: Probes, per_position: bool) -> str:
    """The share of a text's examples that a probe gets right."""
    two = probes.count == 2
    if not per_position:
        hit = "(probe ≥ 1/2) = (label = 1)" if two else "probe[label] = max(probe)"
        return f"where({hit}, 1, 0)"
    own = "probe_j[where(label_j ≥ 0, label_j, 0)] = max(probe_j)"
    hit = "(probe_j ≥ 1/2) = (label_j = 1)" if two else own
    return f"sum_j(where(label_j ≥ 0, where({hit}, 1, 0), 0)) / sum_j(where(label_j ≥ 0, 1, 0))"


def upper(x: float) -> str:
    """A number a little above a positive one, in three digits."""
    if x <= 0:
        return "0.000001"
    digits = 2 - floor(log10(x))
    return f"{ceil(x * 10.0**digits) / 10.0**digits:.{max(digits, 0)}f}"


def sentences(probes: Probes) -> Iterator[str]:
    """A description of the probe and its accuracy."""
    examples, score = probes.examples, probes.scores[0]
    names = examples.classes
    of = FITTED[probes.method] if names else "ridge regression"
    yield f"{opening(probes)} By {of}."
    if names and len(names) <= FEW:
        yield f"Class {', class '.join(f'{k} is {name}' for k, name in enumerate(names))}."
    unit = "Accuracy" if names else "R²"
    yield (
        f"{unit} on {len(probes.held)} other texts: {score.value:.3f} ({score.low:.3f} to "
        f"{score.high:.3f} at 95%); without the vector {score.constant:.3f}, with shuffled labels "
        f"{score.shuffled:.3f}."
    )


def held_out_lines(probes: Probes) -> Iterator[dict[str, Any]]:
    """The held-out texts, each with its label as the card's input has it."""
    examples: ProbeExamples = probes.examples
    for k in probes.held:
        example, vectors = examples.texts[k], examples.vectors[k]
        codes = examples.codes[k].tolist()
        if examples.letters:
            own = dict(zip(vectors.positions, codes, strict=True))
            label = [own.get(j, NONE) for j in range(vectors.length)]
        else:
            label = codes[0]
        text = example.text if isinstance(example.text, str) else list(map(int, example.text))
        given = {n: example.values[n] for n in named_in(examples.of, [example])}
        yield {"text": text, LABEL: label, **given}


def save_held_out(probes: Probes, path: Path) -> None:
    """Write the held-out texts, a line of JSON each."""
    lines = (json.dumps(line, ensure_ascii=False) for line in held_out_lines(probes))
    with replacing(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


__all__ = ["PROBE", "given_of", "naming", "probed", "save_held_out"]
