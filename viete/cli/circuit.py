"""``viete circuit``: finds the edges of a model that a number needs, and writes them as a card."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viete.cli.inputs import whole_numbers
from viete.cli.option_groups import choice
from viete.cli.output import emit, output_option, wrote
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.document.rendering import render
from viete.errors import VieteError

if TYPE_CHECKING:
    from viete.nouns.model import Model


def circuit(
    source: SourceOptions,
    weights: WeightOptions,
    of: Annotated[str, typer.Option(help="The number to explain: logsoftmax(logits_{-1})[5].")],
    texts: Annotated[
        str,
        typer.Option(
            help="A file of texts, one a line. Or random texts: repeated(16), random(32)."
        ),
    ],
    edges: Annotated[
        str,
        typer.Option(
            help="Keep this many of the most important edges, less those on no path from the text "
            "to the number; 1,2,5,10 tries each number."
        ),
    ] = "20",
    steps: Annotated[
        int, typer.Option(min=1, help="Number of gradients on the way (integrated gradients).")
    ] = 1,
    score: Annotated[
        str,
        choice(
            ("gradient", "relevance", "patching"),
            "--score",
            help="How edges are scored: by gradients; by relevance (RelP); or by a run without "
            "each edge.",
        ),
    ] = "gradient",
    nodes: Annotated[
        str,
        choice(
            ("heads", "neurons"),
            "--nodes",
            help="What the nodes are: heads and MLPs, or heads and neurons.",
        ),
    ] = "heads",
    positions: Annotated[
        bool,
        typer.Option(
            "--positions",
            help="Give every position edges of its own; all texts must then have the same length.",
        ),
    ] = False,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm", help="Choose among twice as many edges by exact runs, as ACDC does."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        output_option("Also write the circuit (a .md file or a folder), or the curve (.svg)."),
    ] = None,
) -> None:
    """Find the circuit behind a number: the edges of a model that it needs, as a card.

    All other edges get their mean over the texts. -o circuit.md, or a folder, writes the circuit
    as a model, with its weights and tokenizer. Several numbers of edges give a curve (-o
    curve.svg); --revision all measures the circuit at every checkpoint (-o curves.svg).
    """
    from viete.circuits.findings import findings
    from viete.model.saving import edges_beside, lacking
    from viete.model.trained import weights_beside

    counts = whole_numbers(edges, "--edges", least=1)
    if confirm and len(counts) > 1:
        raise VieteError("--confirm needs one number of edges, such as --edges 20")
    if score == "patching" and steps > 1:
        raise VieteError("--score patching takes no derivatives: leave out --steps")
    if source.revision is not None and (source.revision == "all" or "," in source.revision):
        search = {"steps": steps, "score": score, "nodes": nodes, "positions": positions,
                  "confirm": confirm}  # fmt: skip
        return over_training(source, weights, of, texts, counts, search, output)
    if output is not None and len(counts) == 1:  # before the search, which may be long
        if output.suffix not in ("", ".md"):
            raise VieteError(
                f"-o {output}: a circuit is a card, circuit.md, or a folder, and viete show "
                f"circuit.md -f svg draws it"
            )
        beside = edges_beside(output)
    model = source.weighted_model(weights)
    if output is not None and output.suffix == ".md":
        lacking(output.parent, model.own_tokenizer())
    circuits = model.circuits(of, texts, steps, score, nodes, positions)
    if len(counts) > 1:
        from viete.document.colours import svg_file
        from viete.report.pictures.curve import curve

        shares = circuits.sweep(counts)
        title = f"Faithfulness of {model.card.title}"
        picture = curve(title, [str(k) for k in counts], shares, "edges")
        text = svg_file(picture.svg) if output is not None else "\n".join(picture.lines)
        return emit(text, output)
    chosen = circuits.confirmed if confirm else circuits.largest
    found = findings(circuits, chosen(counts[0]))
    if output is not None:
        model.with_circuit(circuits, found).save(output)
        folder = output.suffix == ""
        for card in (output, beside):
            wrote(card, *([] if folder else [weights_beside(card)]))
    print(render(found.page(), "text"))


def over_training(
    source: SourceOptions, weights: WeightOptions, of: str, texts: str, counts: list[int],
    search: Mapping[str, Any], output: Path | None,
) -> None:  # fmt: skip
    """The last checkpoint's circuit, tested at all checkpoints, as a table or in a file."""
    from viete.document.colours import svg_file
    from viete.formats.tensors import bar
    from viete.model.revisions import revisions
    from viete.nouns.checkpoints import Checkpoints
    from viete.report.circuit_files import history_csv, history_json, history_page
    from viete.report.pictures.circuit_history import circuit_curves

    if len(counts) > 1:
        raise VieteError("several checkpoints need one number of edges, such as --edges 20")
    if weights.present:
        raise VieteError("each checkpoint has its weights: leave out --weights and --seed")
    suffix = "" if output is None else output.suffix
    if suffix not in ("", ".svg", ".csv", ".json", ".html", ".md", ".txt"):
        raise VieteError(f"-o {output}: a circuit over training is written to .svg, .csv, .json, "
                         f".html, .md or .txt")  # fmt: skip
    names = revisions(source.name, source.revision or "all")
    with bar(len(names) + 1, "circuits") as tell:

        def opened(name: str) -> Model[Any]:
            tell(1)
            return replace(source, revision=name).model()

        history = Checkpoints(opened, names).circuit(of, texts, counts[0], **search)
    title = f"A circuit of {len(history.edges)} edges over training"
    match suffix:
        case ".svg":
            emit(svg_file(circuit_curves(history, title).svg), output)
        case ".csv":
            emit(history_csv(history), output)
        case ".json":
            emit(history_json(history), output)
        case _:
            form = {".html": "html", ".md": "md"}.get(suffix, "text")
            emit(history_page(history, title, form), output)
    if len(history.steps) < len(names):
        print(f"viete: stopped after step {history.steps[-1].step}", file=sys.stderr)
        raise typer.Exit(130)


__all__ = ["circuit"]
