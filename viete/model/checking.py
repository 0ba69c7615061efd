"""Checks a card against claims, a file of weights, and values recorded from the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from viete.ask.card_claims import MOST_WEIGHTS, Claims, check_claims
from viete.ask.claim_texts import texts_of
from viete.cards.claim_pages import ClaimPage, read_page
from viete.cards.reader import MAX_BYTES, decoded
from viete.errors import Text, VieteError, os_refusals
from viete.evaluate.labelled import COL, ROW, Layout
from viete.formats.files import TensorFile, in_memory, open_tensors
from viete.formats.tensors import TensorInfo
from viete.graph.card import CardData
from viete.model.compare import Report, compare
from viete.model.mapping import given_weights, match, read_weights
from viete.model.named_values import NamedValues
from viete.model.names import Names
from viete.model.table import BATCH
from viete.notation.printer import show
from viete.notation.words import Words
from viete.regular import regular
from viete.text.prompts import Encode, Given, TextReader, WordIds

Array = Any
Tensors = TensorFile | str | os.PathLike[str] | Mapping[str, Array]


def check(
    card: CardData, weights: Tensors | None = None, *claims: str | os.PathLike[str],
    tokens: Array | Sequence[int] | None = None, texts: Given | None = None,
    against: Tensors | None = None, seed: int = 0, encode: Encode | None = None,
    words: Callable[[], Words] | None = None, meaning: str = "float", **inputs: Array,
) -> Report | Claims:  # fmt: skip
    """Evaluate claims; compare a card's parameters with ``weights``, its runs with ``against``.

    Without ``claims`` it is the card that is checked: its own claims, and with weights whether it
    describes them. A claim is a statement in the notation, or the path of a page of them in
    Markdown; then these alone are evaluated. See `viete.cards.claims` and
    `viete.cards.claim_pages`.

    ``weights`` and the values recorded in ``against`` are files of any format that `open_tensors`
    reads, or arrays by name. Without weights claims are evaluated on random ones. ``tokens``, for
    the first input, and ``inputs`` are what is run; ``texts`` are several such runs: a file, one
    text a line, or a list of texts or of ids. What is not given is drawn with ``seed``, and for
    recorded values taken from beside them. These go by names of values, of single heads, by
    formulas, or by names of TransformerLens, whose order of axes they then have. ``encode`` makes
    ids of a text, and ``words`` name its tokens. With the ``meaning`` 'exact' claims are decided in
    exact numbers, else in float64 to rounding. ``ok`` of the result says whether nothing differs,
    ``lines()`` what does.

    Raises VieteError for a file that cannot be read, for inputs that do not fit, for recorded
    values without weights, and for a claim that is none.
    """
    given = dict(inputs)
    if meaning not in ("float", "exact"):
        raise VieteError(f"claims are checked in 'float' or 'exact' numbers, not {meaning!r}")
    if tokens is not None:
        if not card.inputs:
            raise VieteError(f"{card.title} takes no input")
        given[card.inputs[0].name] = np.asarray(tokens)
    if encode is None and card.vocabulary:
        encode = WordIds(card.title, card.words)
    reading = TextReader(encode)
    about: dict[str, Any] = {"seed": seed, "read": reading.file, "words": words, "meaning": meaning}
    if texts is not None:
        named = isinstance(texts, str | Path)
        about["texts"] = (
            texts_of(str(texts), card, seed, reading.file) if named else (reading.ids(texts))
        )
    if claims:
        if against is not None:
            raise VieteError("leave out the claims to compare recorded values")
        file = None if weights is None else tensor_file(weights, "the weights")
        arrays = None if file is None else given_weights(card) | read_weights(match(card, file))
        return check_pages(card, claims, arrays, given, **about)
    if weights is None:
        if against is not None:
            raise VieteError(
                f"{card.title} is a card: recorded values need its weights too (--weights)"
            )
        return check_claims(card, None, given, **about)
    file = tensor_file(weights, "the weights")
    recorded, formulas = None, dict[str, str]()
    if against is not None:
        recorded, formulas = in_card_layout(card, tensor_file(against, "the outputs"))
    report = compare(card, file, recorded, None, formulas, **given)
    if not card.claims:
        return report
    return replace(report, claims=claims_of(report, card, file, given, about))


def check_pages(
    card: CardData, claims: Sequence[str | os.PathLike[str]],
    weights: Mapping[str, Array] | None, inputs: Mapping[str, Array], **about: Any,
) -> Claims:  # fmt: skip
    """The report on claims given as text and on pages of claims in Markdown, in one."""
    words = about["words"]
    alone = ClaimPage(CardData.of(card), words)
    for text in (Text(str(c), "<claim>") for c in claims if not is_page(c)):
        alone.claims.append(alone.claim(text))
    pages = [alone] if alone.claims else []
    for path in (Path(c) for c in claims if is_page(c)):
        with os_refusals(path):
            content = regular(path, MAX_BYTES).read_bytes()
        page = read_page(decoded(content, str(path)), str(path), CardData.of(card), words)
        if not (page.claims or page.unread):
            raise VieteError(f"{path} makes no claim, such as $x^i = x^{{i-1}} + Δx^i$")
        pages.append(page)
    found = [check_claims(page.card, weights, inputs, claims=page.claims, **about)
             for page in pages]  # fmt: skip
    first = next((x for x in found if x.of), found[0])
    noted = (
        replace(x, defined=tuple(page.defined), readings=tuple(page.readings),
                prose=tuple(page.prose), unread=tuple(page.unread))
        for page, x in zip(pages, found, strict=True)
    )  # fmt: skip
    return replace(reduce(Claims.joined, noted), card=first.card, of=first.of)


def is_page(claim: str | os.PathLike[str]) -> bool:
    """Whether a claim is the path of a page and not a statement."""
    return not isinstance(claim, str) or claim.strip().endswith(".md")


def claims_of(
    report: Report, card: CardData, file: TensorFile, given: Mapping[str, Array],
    about: Mapping[str, Any],
) -> Claims:  # fmt: skip
    """The claims evaluated with the weights of a file, where it has all of them."""
    if report.missing or report.shapes:
        return Claims(card.title, "", why_not="they need all weights, and the file lacks some")
    if report.card_count > MOST_WEIGHTS:
        return Claims(card.title, "", why_not=(
            f"it has {report.card_count:,} weights, and in float64 at most {MOST_WEIGHTS:,} are "
            f"computed with; check the card alone, with smaller dimensions"
        ))  # fmt: skip
    weights = given_weights(card) | read_weights(match(card, file))
    return check_claims(card, weights, given, **about)


def tensor_file(tensors: Tensors, what: str) -> TensorFile:
    """A file of tensors from an open file, arrays by name, or a path."""
    if isinstance(tensors, TensorFile):
        return tensors
    return in_memory(what, tensors) if isinstance(tensors, Mapping) else open_tensors(tensors)


# -- recorded values ------------------------------------------------------------------------------


def in_card_layout(card: CardData, outputs: TensorFile) -> tuple[TensorFile, dict[str, str]]:
    """The recorded arrays with heads before positions, and the formula for each renamed array.

    Arrays under other names stay as they are. An array without a value of the card, or with other
    axes, is among the file's refused arrays, with the reason.
    """
    names = Names(card)
    named = NamedValues(names, card, {})
    formulas: dict[str, str] = {}
    out = TensorFile(outputs.path, outputs.format)
    for name, info in outputs.infos.items():
        if not is_name(names, name):
            out.add(info, outputs.loads[name])
            continue
        try:
            formula, layout = named.formula(name), named.layout(name)
            shape = in_card_order(layout, np.broadcast_to(0, info.shape), name).shape
        except VieteError as error:
            out.refuse(name, f"no value of the card: {error.message}")
            continue

        def load(framework: str, name: str = name, layout: Layout = layout) -> Array:
            return in_card_order(layout, outputs.load(name, framework), name)

        formulas[name] = show(formula)
        out.add(TensorInfo(name, tuple(shape), info.dtype), load)
    for name, why in outputs.refused.items():
        out.refuse(name, why)
    return out, formulas


def is_name(names: Names, name: str) -> bool:
    """Whether a recorded array has a name of TransformerLens rather than one of the card."""
    if "hook_" not in name:
        return False
    try:
        names.split(name)
    except VieteError:
        return False
    return True


def in_card_order(layout: Layout, array: Array, name: str) -> Array:
    """An array of TransformerLens with the card's order of axes: batch, letters, rows, columns."""
    groups = layout.groups
    if array.ndim == len(groups) - 1 and groups[0] == (BATCH,):
        groups = groups[1:]
    if array.ndim != len(groups):
        raise VieteError(
            f"{name} was recorded with {array.ndim} axes, but it has {len(groups)}: "
            f"{', '.join(' '.join(g) or '1' for g in groups)}"
        )
    for group, n in zip(groups, array.shape, strict=True):
        count = prod(layout.counts.get(label, n) for label in group)
        if count != n:
            raise VieteError(f"{name} was recorded with {n} heads, and the card has {count}")
    value = Layout(groups, layout.counts).inward(np, array, array.shape, name)
    letters = [x for x in value.axes if x not in (BATCH, ROW, COL)]
    order = [x for x in (BATCH, *letters, ROW, COL) if x in value.axes]
    out = value.array.transpose([value.axes.index(x) for x in order])
    return out[..., None] if () in groups else out  # a column


__all__ = ["check"]
