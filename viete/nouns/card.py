"""`Card`: a model as equations, and the methods that make models, runs and files from it."""

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
    """A model as equations.

    A card is data: it never changes, and two cards are equal if they say the same. `bind` gives the
    same card with other dimensions, and `with_weights` a `Model`. Make a card with `viete.read`.
    """

    @property
    def content(self) -> CardData:
        """The card itself."""
        return self

    def over(self, card: CardData) -> Self:
        """The equations as a `Card`."""
        return self.of(card)

    def after(self, steps: Sequence[Folding]) -> Self:
        """The card of the last rewriting."""
        return self.over(steps[-1].model) if steps else self

    def keeping(self, card: CardData, arrays: Mapping[str, Any]) -> Self:
        """The equations with the arrays as literals of the `value` column."""
        from viete.ask.putting import with_literals

        return self.over(with_literals(card, arrays))

    def giving(self, card: CardData, inputs: Mapping[str, Any]) -> Self:
        """The equations; raises VieteError for values, which a card without weights cannot keep."""
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
        """Give the equations weights: the result is a `Model`.

        >>> model = card.with_weights(seed=0)               # random weights  # doctest: +SKIP
        >>> model = card.with_weights("model.safetensors")  # weights of a file  # doctest: +SKIP
        >>> model = card.with_weights({"E": E, "W^1": W})   # your own arrays  # doctest: +SKIP

        ``weights`` is a file, or a mapping from names to arrays. The names are those of
        `parameter_shapes`, in any spelling, or those of the card's checkpoint column. Arrays are
        used as they are, without a copy; they may be exact numbers, such as `exact_weights`.
        Without ``weights``, random numbers are drawn with ``seed``, as the card's init column says.
        ``framework``, ``dtype`` and ``device`` mean the same as in `viete.load`. Raises VieteError
        for weights that do not fit.
        """
        from viete.nouns.model import with_weights

        return with_weights(self, weights, seed, framework, dtype, device)

    def run(self, tokens: Any = None, weights: Any = None, /, **options: Any) -> Questions:
        """Run the equations, and get every value.

        >>> run = card.run([3, 1, 4], weights)  # doctest: +SKIP
        >>> run["S"].shape, run["x^2_3"].shape  # doctest: +SKIP
        ((3, 3), (1, 16))

        ``tokens`` are ids of one text, (n), or of a batch, (batch, n), or a list of texts of
        different lengths. ``attention_mask`` (or ``a``, for a card without one) is 0 at ids that
        are padding, on either side: each text gives what it gives alone. ``weights`` are arrays by
        name, of NumPy, PyTorch or JAX; the run uses their library, precision and device. With
        ``meaning="exact"`` or ``meaning="interval"`` the numbers are exact or proven enclosures.
        Other options are those of `viete.meanings.run.run`: ``names`` keeps only some values,
        ``put`` changes equations, and the card's other inputs go by name. Raises VieteError for
        what does not fit.
        """
        from viete.meanings.run import run
        from viete.nouns.run import questions
        from viete.nouns.several import batch_of, run_each

        if (batch := batch_of(self, tokens, options)) is not None:
            return run_each(batch, self, lambda t, **more: self.run(t, weights, **more), options)
        return questions(run(self, tokens, weights, **options), self)

    def sample(
        self, prompt: Sequence[int], weights: Mapping[str, Any], **options: Any
    ) -> Iterator[tuple[int | None, ...]]:
        """Continue a text, token by token. Yields a token for each sample as it is drawn.

        >>> for token, in card.sample([3, 1, 4], weights, most=20, top_k=5): ...  # doctest: +SKIP

        Options are ``most`` (the number of tokens), ``temperature``, ``top_k``, ``top_p``,
        ``greedy``, ``stop``, ``count`` (samples at a time), ``seed``, ``cache``, ``keep``, ``put``
        and the card's other inputs: see `viete.sampling.generation.sample`.
        """
        from viete.sampling.generation import sample

        return sample(self, weights, prompt, **options)

    def planned(
        self, weights: Mapping[str, Any], of: str | None = None, compute: Any = None,
        mean: str = "targets",
    ) -> Engine:  # fmt: skip
        """Plan a training step: the loss and its gradients, in memory that is laid out once.

        >>> step = card.planned(weights)  # doctest: +SKIP
        >>> loss = step(tokens, y=targets)  # doctest: +SKIP
        >>> step.gradients["W_Q^h"].shape  # doctest: +SKIP
        (4, 256, 64)

        ``weights``, of NumPy or PyTorch, are copied. ``of`` names the loss, as for `grad`.
        ``compute`` is the precision of matrix products, such as ``torch.bfloat16``. The loss of a
        batch is the mean over the targets of all texts, or with ``mean="texts"`` over texts.
        """
        from viete.evaluate.plan.engine import Engine

        return Engine(self, weights, of, compute, mean=mean)

    def to_torch(
        self, weights: Mapping[str, Any] | None = None, of: str | None = None,
        mean: str = "targets",
    ) -> torch.nn.Module:  # fmt: skip
        """Make a ``torch.nn.Module``. Its forward is the source that `export` writes.

        >>> module = read("gpt2").to_torch()  # doctest: +SKIP
        >>> logits = module(tokens)                   # (batch, n) → (batch, n, V)  # doctest: +SKIP
        >>> logits, loss = module(tokens, targets)  # over all targets  # doctest: +SKIP
        >>> module.weights()["W_Q^{1,h}"].shape     # a view of the parameter  # doctest: +SKIP
        torch.Size([12, 768, 64])
        >>> module.blocks[0].W_Q                      # one layer for all heads  # doctest: +SKIP
        Linear(in_features=768, out_features=768, bias=False)

        Each product of a value with a matrix of parameters, contracting the value's last axis, is
        the call of an ``nn.Linear``, so that PEFT, torchao and ``torch.ao`` find it; biases stand
        beside it. ``module.gradients()`` has the gradients by the card's names. Called with
        ``input_ids``, ``attention_mask`` or ``labels``, each (batch, n), it gives a dict with the
        loss first, as models of `transformers` do; ``config`` and ``device`` are there too.

        ``weights``, of NumPy or PyTorch by the names of `parameter_shapes`, are copied, with their
        precision and device. Without them, PyTorch draws random ones as the card says. ``of`` names
        the loss, as for `export`. The loss of a batch is the mean over the targets of all texts,
        where -100 is none; with ``mean="texts"`` it is the mean over texts. Attention uses
        PyTorch's fused kernel where nothing else reads the attention pattern. The module applies no
        dropout; ``viete train`` does.

        Raises VieteError for weights that do not fit, and as `export` does.
        """
        from viete.formats.tensors import require

        require("torch", "for a PyTorch module")
        from viete.train.module import to_torch

        return to_torch(self, weights, of, mean)

    def check(
        self, weights: Any = None, *claims: str | Path, tokens: Any = None, texts: Any = None,
        against: Any = None, seed: int = 0, **inputs: Any,
    ) -> Report | Claims:  # fmt: skip
        """Check claims, weights, or values recorded from another program.

        >>> card.check(None, "sum(A^{i,h}) = 1", "page.md").ok  # doctest: +SKIP

        Without ``claims``, the card's own are checked. ``weights`` and ``against`` (recorded
        values) are files, or arrays by name. ``texts`` is a file or a list. See
        `viete.model.checking.check`.
        """
        from viete.model.checking import check

        return check(self, weights, *claims, tokens=tokens, texts=texts, against=against,
                     seed=seed, **inputs)  # fmt: skip

    def save(self, folder: str | Path, weights: Mapping[str, Any] | None = None) -> Path:
        """Write a folder that `viete.load` opens: the card, the weights and the tokenizer.

        >>> card.bind(d=64, N=2).save("my-llama", weights)  # doctest: +SKIP

        The equations are written as ``card.md``. A card of a `transformers` family gets a
        ``config.json`` instead, so that `transformers` opens the folder too. Raises VieteError
        without weights, and for a family's card with changed equations, which `transformers` would
        compute otherwise.
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
    """Read a card.

    >>> card = read("gpt2")          # a shipped card, by its name  # doctest: +SKIP
    >>> card = read("my-card.md")    # a file: Markdown, LaTeX or JSON  # doctest: +SKIP
    >>> card = read(text)            # a text of several lines  # doctest: +SKIP

    ``config`` is a Hugging Face ``config.json``: its path, its folder or its content. It sets the
    dimensions, and selects the equations in a card that covers a whole family. A key that the card
    does not know is refused, unless ``accept`` names it.

    Raises VieteError with file, line and column for any mistake in the card.
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
    """Open a model: a folder, a file of tensors, an id of the hub, or arrays in memory.

    >>> model = load("EleutherAI/pythia-70m-deduped", revision="step143000")  # doctest: +SKIP
    >>> model.run("The Eiffel Tower is in")["logits"].shape  # doctest: +SKIP
    (8, 50304)
    >>> mine = load({"E": E, "W^1": W}, card="mine.md")  # doctest: +SKIP

    The ``config.json`` selects the card of the model's family. ``card`` gives another: a path, the
    name of a shipped card, or what `read` returns. ``config`` stands in for a missing
    ``config.json``. A key of the config that no equation accounts for is refused, unless ``accept``
    names it. Tensors go by the card's names, in any spelling, or by those of its checkpoint column.

    ``framework`` is 'numpy' (the default for files) or 'torch'. ``device`` loads for PyTorch:
    'cpu', 'cuda' or 'auto', which takes a GPU that has room. ``dtype`` is the precision, by default
    that of the file; NumPy gets float32 for half precision. Weights are read when they are first
    needed. Raises VieteError for what does not fit.
    """
    from viete.nouns.model import opened

    return opened(Card, source, card, accept, framework, dtype, device, revision, config)


def from_transformers(
    net: Any, tokenizer: Any = None, card: str | Path | CardData | None = None,
    accept: Sequence[str] = (), framework: str = "torch", dtype: str | None = None,
) -> Model[Card]:  # fmt: skip
    """Take a model of `transformers` that is in memory, as its equations.

    >>> model = from_transformers(GPT2LMHeadModel.from_pretrained("gpt2"))  # doctest: +SKIP
    >>> back = model.to_transformers()  # doctest: +SKIP

    With PyTorch, nothing is copied: the weights are the module's own. ``tokenizer`` is a fast one
    of `transformers`. The other arguments are those of `load`. Raises VieteError as `load` does.
    """
    from viete.nouns.model import taken_over

    return taken_over(Card, net, tokenizer, card, accept, framework, dtype)


__all__ = ["Card", "from_transformers", "load", "read"]
