"""``viete sample``: continues a text with a trained or released model, token by token."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viete.cli.inputs import InputOptions, numbers
from viete.cli.source import SourceOptions
from viete.errors import VieteError

if TYPE_CHECKING:
    from viete.nouns.model import Model


def sample(
    source: SourceOptions,
    inputs: InputOptions,
    most: Annotated[int, typer.Option("--most", "-n", help="The largest number of tokens.")] = 200,
    temperature: Annotated[float, typer.Option(help="Divide the logits by this.")] = 1.0,
    top_k: Annotated[
        int | None, typer.Option(help="Choose among the K most likely tokens.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Choose among the fewest tokens with this total probability."),
    ] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Always take the most likely token.")
    ] = False,
    stop: Annotated[list[str] | None, typer.Option(help="Stop at this text (repeatable).")] = None,
    stop_token: Annotated[
        list[str] | None, typer.Option(help="Stop at this token (repeatable).")
    ] = None,
    count: Annotated[int, typer.Option(help="Number of samples.")] = 1,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the random choices [0]. A card without weights gets random ones with it."
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(help="Tokens to keep when the context is full [as many as fit]."),
    ] = None,
    echo: Annotated[bool, typer.Option("--echo", help="Print the prompt first.")] = False,
    cache: Annotated[bool, typer.Option(help="Use a KV cache, where the card allows it.")] = True,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="float16, bfloat16, float32 or float64 [the model's own].",
            rich_help_panel="Numbers",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="Run with PyTorch on this device: cpu, cuda or auto.", rich_help_panel="Numbers"
        ),
    ] = None,
) -> None:
    """Continue a text, token by token, as the model predicts it."""
    from viete.model.trained import is_run
    from viete.sampling.texts import sample_texts, separate_words, transcript

    own = is_run(source.name) and source.instead is None
    if own and inputs.bos is not None:
        raise VieteError(
            "--bos is for released models; a model of viete train begins a text as its "
            "training texts begin"
        )
    source.refuse_cut("a text that is sampled grows")
    model = sampled_model(source, seed, dtype, device)
    card, vocabulary, prompt = model.card, model.read_tokenizer(), inputs.text or ""
    options: dict[str, Any] = {
        "most": most, "temperature": temperature, "top_k": top_k, "top_p": top_p,
        "greedy": greedy, "count": count, "seed": seed or 0, "keep": keep, "cache": cache,
        **inputs.others(card),
    }  # fmt: skip
    if inputs.tokens is not None or vocabulary is None:
        if inputs.tokens is None or prompt or stop:
            raise VieteError(
                "give either --text or --tokens, and --stop with texts only"
                if vocabulary is not None
                else f"{source.name} has no tokenizer: give the tokens, such as "
                f"--tokens {repr(' '.join(card.vocabulary[:3])) if card.vocabulary else '3,1,4'}"
            )
        ids = numbers(inputs.tokens, card)
        if ids and isinstance(ids[0], list):
            raise VieteError("--tokens takes one sequence; --count samples it several times")
        ends = [k for text in stop_token or () for k in numbers(text, card, "--stop-token")]
        options["stop"] = ends or None
        pieces = separate_words(model.sample(ids, **options), card.vocabulary)
        before = inputs.tokens + " "
    else:
        eos = vocabulary.eos_token_id
        if not own and eos is not None and not (stop or stop_token):
            stop_token = [vocabulary.decode([eos])]
        # A trained model's texts begin as those that it learned.
        begun = prompt if own else vocabulary.framed(prompt, inputs.bos)
        pieces = sample_texts(
            card, model.weights, vocabulary, begun, stop=stop or (), stop_tokens=stop_token or (),
            **options,
        )  # fmt: skip
        before = prompt
    for text in transcript(pieces, count, before if echo else ""):
        sys.stdout.write(text)
        sys.stdout.flush()


def sampled_model(
    source: SourceOptions, seed: int | None, dtype: str | None, device: str | None
) -> Model:
    """The model; for a card a model with its own weights, or else with random ones."""
    if source.is_model:
        return source.model(dtype, device)
    from viete.nouns.card import Card

    card = Card.of(source.card())
    if seed is None and not all(p.value for p in card.parameters):
        raise VieteError(
            f"{source.name} is a card without weights: give --seed N for random ones, or a model"
        )
    return card.with_weights(seed=seed or 0, dtype=dtype, device=device)
