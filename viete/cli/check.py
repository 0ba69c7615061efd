"""``viete check``: checks claims, and compares a card with weights or recorded values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from viete.cli.inputs import InputOptions
from viete.cli.option_groups import choice
from viete.cli.running import estimate
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.document.columns import fitting_lines, table_width
from viete.errors import VieteError

DRAWN = [0] * 7  # in the place of tokens: as many as the longest text that a check draws


def check(
    source: SourceOptions,
    claims: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CLAIM|PAGE.md]...",
            help="Claims in the notation, or Markdown files of claims [the card's own].",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            "-w",
            help="Compare the card with this file of weights: safetensors, npz, PyTorch, "
            "ONNX or GGUF.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Compare a run with this file of recorded values, by names, formulas or "
            "hook names."
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            help="Check on these texts: a file, one a line, or JSON lines. Or on random "
            "texts: repeated(16), random(32)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random weights and inputs.")] = 0,
    meaning: Annotated[
        str,
        choice(
            ("float", "exact"),
            "--meaning",
            help="How claims are computed: float, up to rounding; or exact, where each "
            "comparison is decided.",
        ),
    ] = "float",
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print verdicts on claims as JSON, with the rules of proofs."),
    ] = False,
    *,
    inputs: InputOptions,
) -> None:
    """Check a card or a model: against its claims, a file of weights, or recorded values.

    Exits with 0 if all is right, with 1 if something differs or a claim is false, with 2 if the
    input cannot be read. --revision all says from which checkpoint on each claim holds.
    """
    from viete.ask.card_claims import Claims
    from viete.nouns.card import Card

    if source.revision is not None and (source.revision == "all" or "," in source.revision):
        if weights is not None or against is not None or inputs.tokens is not None:
            raise VieteError(
                "several checkpoints cannot be combined with --weights, --against or --tokens"
            )
        return over_training(source, claims or [], texts, seed, meaning)
    card, model = source.opened(WeightOptions(weights))
    ids = inputs.ids(card, model) if inputs.tokens is not None or inputs.text is not None else None
    options: dict[str, Any] = {"tokens": ids, "texts": texts, "against": against, "seed": seed,
                               "meaning": meaning}  # fmt: skip
    options |= inputs.others(card)
    if meaning == "exact":
        estimate(card, DRAWN if ids is None else ids, trained=model is not None)
    if model is not None and weights is None:
        report = model.check(*claims or (), **options)
    else:
        report = Card.of(card).check(weights, *claims or (), **options)
    if as_json:
        claimed = report if isinstance(report, Claims) else report.claims
        if claimed is None:
            raise VieteError("--json writes verdicts on claims, and there are none; give some")
        print(claimed.json)
    else:
        print("\n".join(fitting_lines(report.lines(), table_width())))
    if not report.ok:
        raise typer.Exit(2 if isinstance(report, Claims) and not report.verdicts else 1)


def over_training(
    source: SourceOptions, claims: list[str], texts: Path | None, seed: int, meaning: str
) -> None:
    """The claims at every checkpoint: the first step from which each one holds, and a table."""
    import numpy as np

    from viete.ask.card_claims import Claims
    from viete.document.rendering import render
    from viete.evaluate.answers import Answer
    from viete.formats.tensors import bar
    from viete.model.revisions import revisions
    from viete.report.answer_rows import AnswerRow
    from viete.report.over_steps import OverSteps

    names = revisions(source.name, source.revision or "all")
    rows: list[AnswerRow] = []
    with bar(len(names), "checking") as tell:
        for name in names:
            model = replace(source, revision=name).model()
            report = model.check(*claims, texts=texts, seed=seed, meaning=meaning)
            found = report if isinstance(report, Claims) else report.claims
            if found is None or not found.verdicts:
                raise VieteError(f"{model.card.title} makes no claims; give some")
            verdicts = found.verdicts
            rows.append(AnswerRow(tuple(Answer(v.written, np.bool_(v.ok), (), ())
                                        for v in verdicts), revision=name))  # fmt: skip
            tell(1)
    over = OverSteps(model.card.title, [v.written for v in verdicts], (), rows)
    print(render(over.page(), "text"))
    if not all(v.ok for v in verdicts):
        raise typer.Exit(1)
