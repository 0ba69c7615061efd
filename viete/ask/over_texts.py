"""``mean_{texts}(…)`` over runs of several texts, which may have different lengths.

In a batched run the texts are an axis. The texts of a file are run one by one; the formula below
``mean_{texts}`` is asked of each run, and the mean becomes a given value in the formula around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from viete.ask.asking import asked, own_symbol
from viete.ask.question_heads import headed
from viete.ask.top import top, top_of
from viete.ask.vector_sets import PCA, pca
from viete.ask.with_clause import changes_of
from viete.errors import VieteError
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import host
from viete.graph.card import CardData
from viete.graph.dependence import forward_slice
from viete.notation.printer import show
from viete.notation.symbols import TEXTS
from viete.notation.tree import Bind, Expr, Ref, replaced

if TYPE_CHECKING:
    from viete.nouns.run import Questions

FOLDS: dict[str, Callable[..., Any]] = {"sum": np.sum, "mean": np.mean, "max": np.max}


def over_texts(runs: Sequence[Questions], question: str) -> list[Answer]:
    """The answers to a question about several texts: one for each run, or one for all.

    It is one where everything in the question is over texts. Raises VieteError where answers below
    ``mean_{texts}`` differ in shape, and as ``run[question]`` does.
    """
    if len(runs) > 1 and (components := components_of(runs, question)) is not None:
        return [components]
    if TEXTS not in question or len(runs) == 1:
        return [run.answer(question) for run in runs]
    found = [run.knowing_texts(question) for run in runs]
    known, question_of_names = cast("list[Questions]", [run for run, _ in found]), found[0][1]
    first = known[0]
    changes = changes_of(first, question_of_names)
    formula = question_of_names if changes is None else changes[0].text
    behind = question_of_names.strip().removeprefix(formula)
    greatest = top_of(first, formula)
    e = first.parse(formula if greatest is None else greatest[1])
    binders = list(dict.fromkeys(outermost(e)))
    if not binders:
        return [run.answer(question) for run in runs]
    if TEXTS in behind:
        raise VieteError(f"a value over {TEXTS} must stand before 'with', not after it")
    values = {b: folded(known, b, behind) for b in binders}
    if e in values and greatest is None:
        return [replace(values[e], question=question)]
    names = {b: f"over_texts{k}" for k, b in enumerate(binders, 1)}
    for b in binders:
        if b.free:
            raise VieteError(
                f"in a larger formula {show(b)} must be one value; write numbers for "
                f"{', '.join(sorted(b.free))}"
            )
    card = first.program.model
    e = replaced(e, {b: Ref(own_symbol(card, name, "input")) for b, name in names.items()})
    about = [asked(run, {names[b]: v.array for b, v in values.items()}) for run in known]
    if not of_each_text(card, e):
        about = about[:1]
    if greatest is not None:
        answers: Sequence[Answer] = [top(run, greatest[0], f"{show(e)} {behind}") for run in about]
    else:
        answers = [run.answer(f"{show(e)} {behind}") for run in about]
    return [replace(answer, question=question) for answer in answers]


def of_each_text(card: CardData, e: Expr) -> bool:
    """Whether a formula has a value for each text; else it is made of weights alone."""
    all_of_it = replace(card, equations=(*card.equations, *card.derived))
    own = {*card.lengths, *forward_slice(all_of_it, [item.name for item in card.inputs])}
    return not own.isdisjoint(e.keys)


def asks_of_all(question: str) -> bool:
    """Whether part of a question may be about all texts together."""
    return TEXTS in question or PCA in question


def components_of(runs: Sequence[Questions], question: str) -> Answer | None:
    """The principal components of all texts together; None for any other question."""
    changes = changes_of(runs[0], question)
    formula = question if changes is None else changes[0].text
    found = headed(runs[0], formula, (PCA,))
    return None if found is None else pca(runs, found, question.strip().removeprefix(formula))


def outermost(e: Expr) -> Iterator[Bind]:
    """The outermost sums, means and maxima over texts in a formula."""
    if isinstance(e, Bind) and e.index == TEXTS:
        yield e
        return
    for x in e.children:
        yield from outermost(x)


def folded(runs: Sequence[Questions], e: Bind, behind: str) -> Answer:
    """The sum, mean or maximum over the runs of the formula below the binder."""
    each = over_texts(runs, f"{show(e.body)} {behind}".strip())
    each *= len(runs) // len(each)
    arrays = [host(answer.array) for answer in each]
    if e.op not in FOLDS or any(a.dtype.kind not in "fiub" for a in arrays):
        raise VieteError(f"over texts of a file only {', '.join(FOLDS)} of floats can be computed")
    if len({a.shape for a in arrays}) > 1:
        raise VieteError(
            f"the texts have different lengths, so {show(e.body)} has a different shape on each, "
            f"and the {e.op} is undefined; ask for one position, or for a mean over positions"
        )
    labels = tuple(
        own if not isinstance(own, list) or all(own == others for others in several)
        else [str(k) for k in range(len(own))]
        for own, *several in zip(*(answer.labels for answer in each), strict=True)
    )  # fmt: skip
    array = FOLDS[e.op](np.stack(arrays), axis=0)
    return replace(each[0], question=show(e), array=array, labels=labels)


__all__ = ["asks_of_all", "of_each_text", "over_texts"]
