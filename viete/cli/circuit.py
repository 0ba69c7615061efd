"""``viete circuit``: what of a model is left when all else is at its mean: a card."""

from __future__ import annotations

from typing import Annotated

import typer

from viete.cli.options import Output, SourceOptions, WeightOptions, emit
from viete.document.rendering import render
from viete.errors import VieteError


def circuit(
    source: SourceOptions,
    weights: WeightOptions,
    of: Annotated[str, typer.Option(help="The number to explain: logsoftmax(logits_{-1})[5].")],
    texts: Annotated[
        str,
        typer.Option(help="A file of texts, one a line; or repeated(16), random(32), drawn."),
    ],
    edges: Annotated[
        str, typer.Option(help="So many edges, the largest; 1,2,5,10 measures each number of them.")
    ] = "20",
    steps: Annotated[
        int, typer.Option(min=1, help="So many derivatives: integrated gradients.")
    ] = 1,
    output: Output = None,
) -> None:
    """Find the edges that a number of a model owes itself to; write what is left as a card.

    With -o circuit.md, or a folder, the circuit is written as a model: its card, and its weights
    and its tokenizer beside it. Several numbers of edges give a curve: -o curve.svg.
    """
    from viete.ask.circuit_findings import findings
    from viete.nouns.card import Card

    counts = numbers_of(edges)
    card, model = source.opened(weights)
    if model is None:
        weights.complete(card)
        model = Card.of(card).with_weights(weights.weights, seed=weights.seed or 0)
    circuits = model.circuits(of, texts, steps)
    if len(counts) > 1:
        from viete.report.pictures.curve import curve

        shares = circuits.sweep(counts)
        picture = curve(f"Faithfulness of {source.name}", [str(k) for k in counts], shares, "edges")
        text = picture.svg if output is not None else "\n".join(picture.lines)
        return emit(text, output)
    if output is not None and output.suffix not in ("", ".md"):
        raise VieteError(f"-o {output}: a circuit is a card, circuit.md, or a folder")
    found = findings(circuits, circuits.largest(counts[0]))
    if output is not None:
        model.with_circuit(circuits, found).save(output)
    print(render(found.page(), "text"))


def numbers_of(text: str) -> list[int]:
    """``--edges 1,2,5`` as numbers."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise VieteError(f"--edges takes a number of edges, or several: 1,2,5,10, not {text!r:.40}")
    return [int(part) for part in parts]


__all__ = ["circuit"]
