"""`Card`: a model as equations, and what makes one, with weights or without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from viete.graph.card import CardData
from viete.nouns.verbs import Verbs

if TYPE_CHECKING:
    import torch

    from viete.ask.card_claims import Claims
    from viete.evaluate.plan.engine import Engine
    from viete.model.compare import Report
    from viete.nouns.model import Model
    from viete.nouns.run import Questions
    from viete.rewrite.reparametrization import Folding


class Card(CardData, Verbs):
    """A model as equations: what a card says, and what one does with it.

    Cards are data: they do not change, and are equal when they say the same. `bind` gives the same
    card with other dimensions, `with_weights` a `Model`.
    """

    @property
    def content(self) -> CardData:
        """As `Verbs` asks."""
        return self

    def over(self, card: CardData) -> Self:
        """As `Verbs` asks."""
        return self.of(card)

    def after(self, steps: Sequence[Folding]) -> Self:
        """As `Verbs` asks."""
        return self.over(steps[-1].model) if steps else self

    def keeping(self, card: CardData, arrays: Mapping[str, Any]) -> Self:
        """As `Verbs` asks: a card has them among its literal values."""
        from viete.ask.putting import with_literals

        return self.over(with_literals(card, arrays))

    def giving(self, card: CardData, inputs: Mapping[str, Any]) -> Self:
        """As `Verbs` asks: a card has no place for them."""
        from viete.errors import VieteError

        if inputs:
            raise VieteError(
                f"{self.title} is a card and keeps no values: give them to each run, or give the "
                f"card weights, card.with_weights(…).cut(…, values=run)"
            )
        return self.over(card)

    def with_weights(
        self, weights: Mapping[str, Any] | str | Path | None = None, *, seed: int = 0,
        framework: str | None = None, dtype: str | None = None, device: str | None = None,
    ) -> Model[Self]:  # fmt: skip
        """The model of these equations with weights: given by name, of a file, or drawn.

        Arrays go by the names of `parameter_shapes`, in any spelling, and stay as they are; they
        may be exact, as `exact_weights` gives them. A path is opened as `viete.load` does, and so
        are arrays under other names, those of the card's checkpoint column. Without ``weights``
        they are drawn with ``seed``, as the card says. ``framework``, ``dtype`` and ``device`` are
        those of `viete.load`. Raises VieteError, saying what does not fit.
        """
        from viete.nouns.model import with_weights

        return with_weights(self, weights, seed, framework, dtype, device)

    def run(self, tokens: Any = None, weights: Any = None, /, **options: Any) -> Questions:
        """Run the equations on arrays, NumPy, PyTorch or JAX, or on exact numbers.

        >>> run = card.run([3, 1, 4], weights)                                      # doctest: +SKIP
        >>> run["S"].shape, run["x^2_3"].shape                                      # doctest: +SKIP
        ((3, 3), (1, 16))

        The options, `names`, `meaning`, `put` and the card's other inputs, are those of
        `viete.meanings.run.run`. Raises VieteError for what does not fit the card.
        """
        from viete.meanings.run import run
        from viete.nouns.run import questions

        return questions(run(self, tokens, weights, **options), self)

    def sample(
        self, prompt: Sequence[int], weights: Mapping[str, Any], **options: Any
    ) -> Iterator[tuple[int | None, ...]]:
        """Go on with a text, token by token; yields a token for each sample as it comes.

        >>> for token, in card.sample([3, 1, 4], weights, most=20, top_k=5): ...  # doctest: +SKIP

        Options are most, temperature, top_k, top_p, greedy, stop, count, seed, cache, keep, put and
        the card's other inputs: see `viete.sampling.generation.sample`.
        """
        from viete.sampling.generation import sample

        return sample(self, weights, prompt, **options)

    def planned(
        self, weights: Mapping[str, Any], of: str | None = None, compute: Any = None
    ) -> Engine:
        """The loss and its gradients, planned: for training, in memory that is laid out once.

        >>> step = card.planned(weights)                                            # doctest: +SKIP
        >>> loss = step(tokens, y=targets)                                          # doctest: +SKIP
        >>> step.gradients["W_Q^h"].shape                                           # doctest: +SKIP
        (4, 256, 64)

        ``weights`` are copied, NumPy or PyTorch; ``of`` is the loss as for `grad`; ``compute``
        another precision to compute in, such as ``torch.bfloat16``.
        """
        from viete.evaluate.plan.engine import Engine

        return Engine(self, weights, of, compute)

    def to_torch(
        self, weights: Mapping[str, Any] | None = None, of: str | None = None
    ) -> torch.nn.Module:
        """A genuine ``torch.nn.Module``, whose forward is the source that `export` writes.

        >>> module = read("gpt2").to_torch()                                        # doctest: +SKIP
        >>> logits = module(tokens)                   # (batch, n) → (batch, n, V)  # doctest: +SKIP
        >>> logits, loss = module(tokens, targets)  # the mean over the batch       # doctest: +SKIP
        >>> module.weights()["W_Q^{1,h}"].shape       # the parameter itself        # doctest: +SKIP
        torch.Size([12, 768, 64])

        ``weights``, NumPy or PyTorch by the names of `parameter_shapes`, are copied and give dtype
        and device; without them they are drawn as the card says, by PyTorch's generator. ``of`` is
        the loss, as for `export`. Attention is PyTorch's fused kernel wherever its table is used
        for nothing else. Dropout lets everything through: ``viete train`` is what applies it.

        Raises VieteError for weights that do not fit, and as `export` does.
        """
        from viete.train.module import to_torch

        return to_torch(self, weights, of)

    def check(
        self, weights: Any = None, *claims: str | Path, tokens: Any = None, texts: Any = None,
        against: Any = None, seed: int = 0, **inputs: Any,
    ) -> Report | Claims:  # fmt: skip
        """Hold the card to claims, to weights, to recorded values; see `viete check`.

        >>> card.check(None, "sum(A^{i,h}) = 1", "page.md").ok                      # doctest: +SKIP

        Without ``claims`` they are its own. ``weights`` and ``against`` are files or arrays by
        name, ``texts`` a file or a list: see `viete.model.checking.check`.
        """
        from viete.model.checking import check

        return check(self, weights, *claims, tokens=tokens, texts=texts, against=against,
                     seed=seed, **inputs)  # fmt: skip

    def save(self, folder: str | Path, weights: Mapping[str, Any] | None = None) -> Path:
        """Write a folder that `viete.load` opens: what it is, safetensors, the tokenizer.

        >>> card.bind(d=64, N=2).save("my-llama", weights)                          # doctest: +SKIP

        What it is stands in ``card.md``; or, of a card that names its family of `transformers`
        (``config model_type``), in ``config.json``, so that `transformers` opens it too. Raises
        VieteError without weights, and for such a card whose equations are others than the
        family's, since `transformers` would compute something else.
        """
        from viete.errors import VieteError
        from viete.model.saving import save

        if weights is None:
            raise VieteError(f"{self.title} is a card: give its weights too")
        return save(self, weights, folder)


def read(
    card: str | Path, config: Mapping[str, Any] | str | Path | None = None,
    accept: Sequence[str] = (),
) -> Card:  # fmt: skip
    """Read a card: a path to Markdown, LaTeX or JSON, the name of a shipped card, or a text.

    A string of several lines is the text of a card, and one of a single line a path or a name.
    ``config`` is a Hugging Face ``config.json``, its folder or its content: it gives dimensions
    and, where the card is a whole family's, says which member of it is meant. Keys that the card
    does not know are refused, save those in ``accept``.

    Raises VieteError, with file, line and column, for whatever in it is wrong.
    """
    from viete.cards.catalogue import find
    from viete.cards.config import Config
    from viete.cards.reader import read as read_file
    from viete.cards.reader import reads as read_text

    settings = None if config is None else Config(config)
    if isinstance(card, str) and "\n" in card:
        return Card.of(read_text(card, config=settings, accept=accept))
    return Card.of(read_file(find(card), settings, accept))


def load(
    source: str | Path | Mapping[str, Any], card: str | Path | CardData | None = None,
    accept: Sequence[str] = (), framework: str | None = None,
    dtype: str | None = None, device: str | None = None,
    revision: str | None = None, config: Mapping[str, Any] | str | Path | None = None,
) -> Model[Card]:  # fmt: skip
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
    from viete.nouns.model import opened

    return opened(Card, source, card, accept, framework, dtype, device, revision, config)


def from_transformers(
    net: Any, tokenizer: Any = None, card: str | Path | CardData | None = None,
    accept: Sequence[str] = (), framework: str = "torch", dtype: str | None = None,
) -> Model[Card]:  # fmt: skip
    """A model of `transformers` that is in memory, as its equations.

    >>> model = from_transformers(GPT2LMHeadModel.from_pretrained("gpt2"))        # doctest: +SKIP
    >>> back = model.to_transformers()                                            # doctest: +SKIP

    For PyTorch nothing is copied: the weights are the module's own. ``tokenizer`` is a fast one of
    `transformers`. Raises VieteError as `load` does.
    """
    from viete.nouns.model import taken_over

    return taken_over(Card, net, tokenizer, card, accept, framework, dtype)


__all__ = ["Card", "from_transformers", "load", "read"]
