"""``viete sample``: text from a trained or released model, as it comes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viete.cli.common import Accept, Config, Instead, Revision
from viete.errors import VieteError

if TYPE_CHECKING:
    from viete.text.tokenizer import Tokenizer


def sample(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="The folder of a training run; or a model: a folder, a file, an id."
        ),
    ],
    prompt: Annotated[str, typer.Option("--prompt", "-p", help="The text to go on with.")] = "",
    tokens: Annotated[
        str | None, typer.Option("--tokens", "-t", help="The same as token ids: 3,1,4.")
    ] = None,
    most: Annotated[int, typer.Option("--most", "-n", help="Tokens at most.")] = 200,
    temperature: Annotated[float, typer.Option(help="Scores are divided by it.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Only the K likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Only the fewest tokens that have this probability.")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the likeliest token.")] = False,
    stop: Annotated[
        list[str] | None, typer.Option(help="End with this text (several can be given).")
    ] = None,
    stop_token: Annotated[
        list[str] | None, typer.Option(help="End with this token (several can be given).")
    ] = None,
    count: Annotated[int, typer.Option(help="So many samples at once.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the choices.")] = 0,
    which: Annotated[
        str, typer.Option("--from", help="latest, previous, best or the step of a checkpoint.")
    ] = "latest",
    keep: Annotated[
        int | None,
        typer.Option(help="Tokens kept when the context is full; by default as many as it has."),
    ] = None,
    echo: Annotated[bool, typer.Option("--echo", help="Print the prompt first.")] = False,
    cache: Annotated[
        bool, typer.Option(help="Compute new positions alone, where the card allows it.")
    ] = True,
    bos: Annotated[
        bool | None,
        typer.Option(help="Of a model: begin with the token that begins a text [if there is one]."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Of a model: float16, bfloat16, float32 or float64.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="On PyTorch: cpu, cuda or auto.")] = None,
    config: Config = None,
    instead: Instead = None,
    accept: Accept = None,
    revision: Revision = None,
) -> None:
    """Go on with a text, token by token."""
    import viete
    from viete.cli.common import numbers
    from viete.model.model import load
    from viete.model.trained import is_run
    from viete.sampling.generating import uncached
    from viete.sampling.texts import sample_texts, told, without_words

    own = is_run(folder) and instead is None
    if not own and which != "latest":
        raise VieteError("--from names a checkpoint of a run; give --revision for a model's")
    if own and bos is not None:
        raise VieteError("--bos is of a released model; a run's texts begin as those it learned")
    found = load(
        folder, instead, accept or (), "numpy" if device is None else "torch", dtype, device,
        which if own and revision is None else revision, config,
    )  # fmt: skip
    model, weights, vocabulary = found.card, found.weights, found.read_tokenizer()
    if cache and (why := uncached(model)):
        print(f"viete: every token runs the whole text: {why}", file=sys.stderr)
        cache = False
    options: dict[str, Any] = {
        "most": most, "temperature": temperature, "top_k": top_k, "top_p": top_p,
        "greedy": greedy, "count": count, "seed": seed, "keep": keep, "cache": cache,
    }  # fmt: skip
    if tokens is not None or vocabulary is None:
        if tokens is None or prompt or stop:
            raise VieteError(
                "give either --prompt or --tokens, and --stop with texts only"
                if vocabulary is not None
                else f"{folder}: there is no tokenizer.json in it, so texts are token ids: give "
                f"--tokens 3,1,4"
            )
        ids = numbers(tokens, model)
        if ids and isinstance(ids[0], list):
            raise VieteError("--tokens takes one sequence; --count samples it several times")
        ends = [k for text in stop_token or () for k in numbers(text, model, "--stop-token")]
        pieces = without_words(
            viete.sample(model, weights, ids, stop=ends or None, **options)  # type: ignore[arg-type]
        )
        before = tokens + " "
    else:
        ends_of_text = stop_token or ()
        if not own and vocabulary.eos_token_id is not None and not (stop or stop_token):
            ends_of_text = [vocabulary.decode([vocabulary.eos_token_id])]
        pieces = sample_texts(
            model, weights, vocabulary, begun(prompt, vocabulary, own, bos), stop=stop or (),
            stop_tokens=ends_of_text, **options,
        )  # fmt: skip
        before = prompt
    before = before if echo else ""

    def tell(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    if count == 1:
        tell(before)
    told(pieces, count, tell, lambda k: "\n" * (k > 0) + f"--- {k + 1}\n{before}")
    tell("\n")


def begun(prompt: str, tokenizer: Tokenizer, own: bool, bos: bool | None) -> str | list[int]:
    """A prompt as it is put before the model: a trained one's own begin as its texts did."""
    return prompt if own else tokenizer.framed(prompt, bos)
