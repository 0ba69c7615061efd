"""Viète: a transformer written as equations, and everything one does with it in that notation.

>>> import viete as vt
>>> model = vt.read("symbolic-transformer")     # a shipped card, or the path of your own
>>> run = model.run([3, 1, 4, 1, 5], vt.initial_weights(model, seed=0))
>>> run["S"].shape, run["logits"].shape
((5, 5), (5, 10))
"""

from __future__ import annotations

# Nothing is imported before it is needed: the command line hears Ctrl-C only after this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    import torch

    from viete.errors import VieteError
    from viete.evaluate.plan.engine import Engine
    from viete.graph.card import CardData
    from viete.model.model import Model

__all__ = [
    "VieteError",
    "__version__",
    "exact_weights",
    "export",
    "from_transformers",
    "grad",
    "incremental",
    "initial_weights",
    "load",
    "padded",
    "parameter_shapes",
    "planned",
    "read",
    "reads",
    "sample",
    "save",
    "to_torch",
    "write",
]


def read(
    card: str | Path, config: Mapping[str, Any] | str | Path | None = None,
    accept: Sequence[str] = (),
) -> CardData:  # fmt: skip
    """Read a card: a path to Markdown, LaTeX or JSON, or the name of a shipped card.

    ``config`` is a Hugging Face ``config.json``, its folder or its content: it gives dimensions
    and, where the card is a whole family's, says which member of it is meant. Keys that the card
    does not know are refused, save those in ``accept``.

    Raises VieteError, with file, line and column, for whatever in it is wrong.
    """
    from viete.cards.catalogue import find
    from viete.cards.config import Config
    from viete.cards.reader import read as read_card

    return read_card(find(card), None if config is None else Config(config), accept)


def load(
    source: str | Path | Mapping[str, Any], card: str | Path | CardData | None = None,
    accept: Sequence[str] = (), framework: str | None = None,
    dtype: str | None = None, device: str | None = None,
    revision: str | None = None, config: Mapping[str, Any] | str | Path | None = None,
) -> Model:  # fmt: skip
    """Open a model: a folder, a file of tensors, an id of the hub, or arrays in memory by name.

    >>> model = load("EleutherAI/pythia-70m-deduped", revision="step143000")      # doctest: +SKIP
    >>> model.run("The Eiffel Tower is in")["logits"].shape                       # doctest: +SKIP
    (1, 8, 50304)
    >>> mine = load({"E": E, "W^1": W}, card="mine.md")                           # doctest: +SKIP

    The equations are those of the family's card that the ``config.json`` selects, or of ``card``, a
    path, the name of a shipped card or what `read` gives; ``config`` stands in for a missing one. A
    key of the config that no equation accounts for is refused, unless ``accept`` names it. Tensors
    have the card's own names, in any spelling, or those of its checkpoint column.

    ``framework`` is 'numpy' or 'torch', by default that of the arrays, and NumPy for files.
    ``device`` loads for PyTorch: 'cpu', 'cuda', or 'auto', a GPU if there is one with room.
    ``dtype`` is the precision, by default as stored, save that NumPy gets float32 for halves.
    Weights are read when they are first needed. Raises VieteError, saying what does not fit.
    """
    from viete.model.model import load as open_model

    return open_model(source, card, accept, framework, dtype, device, revision, config)


def from_transformers(
    net: Any, tokenizer: Any = None, card: str | Path | CardData | None = None,
    accept: Sequence[str] = (), framework: str = "torch", dtype: str | None = None,
) -> Model:  # fmt: skip
    """A model of `transformers` that is in memory, as its equations.

    >>> model = from_transformers(GPT2LMHeadModel.from_pretrained("gpt2"))        # doctest: +SKIP
    >>> back = model.to_transformers()                                            # doctest: +SKIP

    For PyTorch nothing is copied: the weights are the module's own. ``tokenizer`` is a fast one of
    `transformers`. Raises VieteError as `load` does.
    """
    from viete.model.model import from_transformers as taken

    return taken(net, tokenizer, card, accept, framework, dtype)


def save(
    model: Model | CardData, folder: str | Path, weights: Mapping[str, Any] | None = None
) -> Path:
    """Write a model as a folder that `load` opens: what it is, safetensors, the tokenizer.

    >>> save(read("llama").bind(d=64, N=2), "my-llama", weights)                  # doctest: +SKIP

    ``model`` is a loaded one, or a card with ``weights``, NumPy or PyTorch. What it is stands in
    ``card.md``; or, of a card that names its family of `transformers` (``config model_type``), in
    ``config.json``, so that `transformers` opens it too. Raises VieteError for such a card whose
    equations are others than the family's, since `transformers` would compute something else.
    """
    from viete.errors import VieteError
    from viete.model.model import Model
    from viete.model.saving import save as save_model

    if isinstance(model, Model):
        return model.save(folder)
    if weights is None:
        raise VieteError(f"{model.title} is a card: give its weights too")
    return save_model(model, weights, folder)


def reads(text: str) -> CardData:
    """Read a card from text."""
    from viete.cards.reader import reads as read_text

    return read_text(text)


def write(card: CardData, form: str = "md") -> str:
    """A model as text in the form 'md', 'latex', 'json' or 'text'; all but the last read back."""
    from viete.cards.writer import write as write_card

    return write_card(card, form)


def export(card: CardData, to: str, of: str | None = None) -> str:
    """A model as stand-alone source: ``to`` 'torch', 'numpy', 'jax', 'latex' or 'typst'.

    A PyTorch module, a NumPy script with the backward pass and Adam, JAX functions, or an article.
    ``of`` is the loss, as in ``viete grad``; a card without one gets the cross-entropy of its
    logits and the tokens one further.
    """
    if to in ("latex", "typst"):
        from viete.report.article import write_article

        return write_article(card, to, of)
    from viete.code import export as program

    return program(card, to, of)


def parameter_shapes(card: CardData) -> dict[str, tuple[int, ...]]:
    """The name and array shape of every weight that ``card.run`` takes.

    Axes are index letters (heads) in the order of the name, then rows, columns: ``W_Q^{1,h}`` is
    (H, d, d_k). Blocks are separate arrays.
    """
    from viete.evaluate.run import parameter_shapes as shapes

    return shapes(card)


def initial_weights(card: CardData, seed: int = 0, dtype: str = "float64") -> dict[str, Any]:
    """Weights as the card's ``value`` and ``init`` columns say, drawn with ``seed``."""
    from viete.evaluate.initial_weights import initial_weights as draw

    return draw(card, seed, dtype)


def grad(card: CardData, of: str | None = None, by: Sequence[str] | None = None) -> CardData:
    """The model with its backward equations, by rewriting: ``∂X`` for every X that leads to a loss.

    >>> run = grad(read("simple-transformer")).run(tokens, weights, y=targets)    # doctest: +SKIP
    >>> run["∂W_Q^h"].shape                                                       # doctest: +SKIP
    (4, 256, 64)

    ``of`` is the loss, a value or a formula that is one number (by default the last such value
    that has a derivative);
    ``by`` are names of parameters or real inputs (by default all parameters). Raises VieteError
    for a card without a loss, and where no derivative can pass, naming the equation.
    """
    from viete.rewrite.adjoint import grad as derive

    return derive(card, of, by)


def incremental(card: CardData, of: str | None = None, fixed: bool = False) -> CardData:
    """The model for new tokens after others whose keys and values are given: its KV cache, derived.

    An ordinary model: its inputs are ``n`` new tokens and, for every value whose earlier rows are
    read (``K^{i,h}``), those of the ``m`` positions before (``K_past^{i,h}``). ``of`` is the value
    wanted for every position, by default the scores of the next token. With ``fixed`` there is room
    for ``c`` rows, and an input ``q`` says which positions are new: shapes stay from step to step.
    Raises VieteError, naming the equation, where a position reads later ones.
    """
    from viete.rewrite.incremental import incremental as derive

    return derive(card, of, fixed)


def padded(card: CardData) -> CardData:
    """The model for texts of different lengths in one batch: an input says what is padding.

    >>> run = padded(model).run(tokens, weights, a=mask)                          # doctest: +SKIP

    ``a ∈ {0, 1}^n`` is 0 at padding, on whichever side: no other position sees it. Positions are
    counted as before, padding among them, and values at padding mean nothing. Raises VieteError
    for a card without a softmax over positions, or with a mask of its own.
    """
    from viete.rewrite.padding import padded as derive

    return derive(card)


def sample(
    card: CardData, weights: Mapping[str, Any], prompt: Sequence[int], **options: Any
) -> Iterator[tuple[int | None, ...]]:
    """Go on with a text, token by token; yields a token for each sample as it comes.

    >>> for token, in sample(model, weights, [3, 1, 4], most=20, top_k=5): ...  # doctest: +SKIP

    Options are most, temperature, top_k, top_p, greedy, stop, count, seed, cache, keep and the
    card's other inputs: see `viete.sampling.generating.sample`.
    """
    from viete.sampling.generating import sample as draw

    return draw(card, weights, prompt, **options)


def planned(
    card: CardData, weights: Mapping[str, Any], of: str | None = None, compute: Any = None
) -> Engine:
    """The loss and its gradients, planned: for training, in memory that is laid out once.

    >>> step = planned(model, weights)                                            # doctest: +SKIP
    >>> loss = step(tokens, y=targets)                                            # doctest: +SKIP
    >>> step.gradients["W_Q^h"].shape                                             # doctest: +SKIP
    (4, 256, 64)

    ``weights`` are copied, NumPy or PyTorch; ``of`` is the loss as for `grad`; ``compute`` another
    precision to compute in, such as ``torch.bfloat16``.
    """
    from viete.evaluate.plan.engine import Engine

    return Engine(card, weights, of, compute)


def to_torch(
    card: CardData, weights: Mapping[str, Any] | None = None, of: str | None = None
) -> torch.nn.Module:
    """The card as a genuine ``torch.nn.Module``, whose forward is the source that `export` writes.

    >>> module = to_torch(read("gpt2"))                                           # doctest: +SKIP
    >>> logits = module(tokens)                   # (batch, n) → (batch, n, V)    # doctest: +SKIP
    >>> logits, loss = module(tokens, targets)    # loss: the mean over the batch # doctest: +SKIP
    >>> module.weights()["W_Q^{1,h}"].shape       # the parameter itself          # doctest: +SKIP
    torch.Size([12, 768, 64])

    ``weights``, NumPy or PyTorch by the names of `parameter_shapes`, are copied and give dtype and
    device; without them they are drawn as the card says, by PyTorch's generator. ``of`` is the
    loss, as for `export`. Attention is PyTorch's fused kernel wherever its table is used for
    nothing else. Dropout lets everything through: ``viete train`` is what applies it.

    Raises VieteError for weights that do not fit, and as `export` does.
    """
    from viete.train.module import to_torch as made

    return made(card, weights, of)


def exact_weights(card: CardData) -> dict[str, Any]:
    """The weights that the card's ``value`` column gives, as nested lists of exact fractions."""
    from viete.evaluate.initial_weights import literal_fractions

    return literal_fractions(card)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("viete")
        except PackageNotFoundError:
            return "0 (run from its source, not installed)"
    if name == "Model":
        from viete.graph.card import CardData

        return CardData
    if name == "VieteError":
        from viete.errors import VieteError

        return VieteError
    raise AttributeError(f"module 'viete' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
