"""`Model`: a card with weights and perhaps a tokenizer, from files, from memory, or drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self

import numpy as np

from viete.ask.card_claims import Claims
from viete.atomic import together
from viete.cards.catalogue import model_path
from viete.document.tree import Block, paragraph
from viete.errors import Text, VieteError
from viete.evaluate.answer_page import literal
from viete.evaluate.execution import execute
from viete.evaluate.initial_weights import FLOATS, initial_weights
from viete.evaluate.inputs import Weights
from viete.evaluate.interventions import as_like
from viete.evaluate.labelled import COL, ROW, expand
from viete.evaluate.plan.engine import Engine
from viete.evaluate.run import listed
from viete.evaluate.schedule import program
from viete.evaluate.spelling import by_own_names
from viete.formats.tensors import TensorFile, in_memory, require
from viete.graph.card import CardData
from viete.meanings.run import run
from viete.model.calls import to_device
from viete.model.checking import check
from viete.model.compare import Report
from viete.model.folder import Folder, open_arrays, open_folder
from viete.model.lens import Lens
from viete.model.live import folder_of, to_live, tokenizer_of
from viete.model.mapping import load_weights, place, precision
from viete.model.saving import edges_beside, save
from viete.model.tokens import are_texts
from viete.model.trained import MARKDOWN, is_run, open_run
from viete.notation.letters import own_letters
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.substitution import substitute
from viete.notation.tree import num
from viete.notation.words import Words
from viete.nouns.run import Questions, questions
from viete.nouns.searching import Searching
from viete.nouns.several import batch_of, run_each
from viete.nouns.verbs import Verbs
from viete.rewrite.put import EVIDENCE
from viete.rewrite.reparametrization import Folding
from viete.sampling.generation import sample
from viete.text.tokenizer import Tokenizer, open_tokenizer
from viete.text.words import TokenizerWords

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeVar

    from viete.nouns.card import Card
    from viete.nouns.checkpoints import Checkpoints

    C = TypeVar("C", bound=CardData, default=Card)  # `Model` alone is a model of a `Card`
else:
    from typing import TypeVar

    C = TypeVar("C", bound=CardData)  # Python 3.11 has no defaults

Array = Any
Source = Callable[[CardData], Mapping[str, Array]]  # what has the weights of a card
ITS_OWN = ("card", "path", "config", "tensors", "framework", "dtype", "device", "tokenizer",
           "inputs")  # fmt: skip


class Model(Searching, Verbs, Generic[C]):
    """A card with weights, and perhaps a tokenizer.

    A model has the methods of a card, and uses its own weights. ``card`` is its equations,
    ``config`` the content of its ``config.json``, ``tensors`` the file or arrays that it was opened
    with, and ``inputs`` what every run is given by default. Weights are read when they are first
    needed; ``dtype`` and ``device`` say how. Make a model with `viete.load`,
    `viete.from_transformers` or `Card.with_weights`.
    """

    card: C
    reopen: partial[Model[Any]] | None = None  # opens another checkpoint of what this was read from

    def __init__(
        self, card: C, tensors: TensorFile, source: Source | None = None, *,
        path: Path | None = None, config: Mapping[str, Any] | None = None,
        framework: str = "numpy", dtype: str | None = None, device: str | None = None,
    ) -> None:  # fmt: skip
        self.card, self.tensors, self.config = card, tensors, config or {}
        self.path = tensors.path if path is None else path
        self.framework = framework if device is None else "torch"
        self.dtype = precision(tensors, self.framework, dtype)
        self.device = place(device, tensors, self.dtype)
        self.inputs: Mapping[str, Array] = {}
        self.source: Source = source or partial(
            load_weights, source=tensors, framework=self.framework, dtype=self.dtype,
            device=self.device,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        """The model with its weights in memory, whatever files they were read from; no hooks."""
        own = {name: x for name, x in self.__dict__.items() if name in ITS_OWN}
        weights = dict(self.weights)
        return own | {
            "tensors": in_memory(self.tensors.path, weights),
            "source": partial(constant, weights),
        }

    @property
    def content(self) -> CardData:
        """The model's card."""
        return self.card

    def over(self, card: CardData, source: Source | None = None) -> Self:
        """The model with other equations, and with its own weights where they fit, or with others.

        Hooks are not copied.
        """
        out = object.__new__(type(self))  # without what was made of the card as it was
        out.__dict__ |= {name: x for name, x in self.__dict__.items() if name in ITS_OWN}
        out.card = type(self.card).of(card)
        out.source = source or partial(self.weights_of, {p.name for p in card.parameters})
        return out

    def keeping(self, card: CardData, arrays: Mapping[str, Array]) -> Self:
        """The model with other equations, and with the arrays among its weights."""
        out = self.over(card)
        if arrays:
            old = {p.name for p in self.card.parameters}
            like = next(iter(self.weights.values()))
            new = {name: as_like(array, like, name) for name, array in arrays.items()}
            weights = {**self.weights_of(old, card), **new}
            out.source = partial(constant, weights)
            out.tensors = in_memory(f"{self.tensors.path}, changed", weights)
        return out

    def giving(self, card: CardData, inputs: Mapping[str, Any]) -> Self:
        """The model with other equations, and with default values for inputs of its runs."""
        out = self.over(card)
        out.inputs = {**self.inputs, **inputs}
        return out

    def with_inputs(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a run, with the model's own inputs."""
        own = {n: x for n, x in self.inputs.items() if n in program(self.card).inputs}
        return {**own, **options}

    def weights_of(self, parameters: Set[str], card: CardData) -> Mapping[str, Array]:
        """The weights of these parameters, and any array that fits no parameter."""
        own = {name: p.name for name, (p, _, _) in program(self.card).parameters.items()}
        return {n: w for n, w in self.weights.items() if n not in own or own[n] in parameters}

    @cached_property
    def weights(self) -> Weights:
        """The weights by the card's names. Raises VieteError for a file that does not fit it."""
        return Weights(self.source(self.card))

    # -- as a card can, with its weights -----------------------------------------------------------

    def bind(self, **values: Any) -> Self:
        """The same model with other dimensions, such as a longer context: ``bind(n_max=4096)``.

        Raises VieteError for a name that is no dimension of the card and for a value that is no
        number. Weights that no longer fit raise it when they are read.
        """
        return self.over(self.card.bind(**values), self.source)

    def with_weights(
        self, weights: Mapping[str, Array] | str | Path | None = None, *, seed: int = 0,
        framework: str | None = None, dtype: str | None = None, device: str | None = None,
    ) -> Self:  # fmt: skip
        """The same equations and tokenizer with other weights; see `Card.with_weights`."""
        made = with_weights(self.card, weights, seed, framework, dtype, device)
        out = self.over(made.card, made.source)
        out.tensors, out.framework = made.tensors, made.framework
        out.dtype, out.device = made.dtype, made.device
        return out

    def run(self, tokens: Any = None, /, **options: Any) -> Questions:
        """Run the model on a text, and get every value.

        >>> run = model.run("The Eiffel Tower is in")  # doctest: +SKIP
        >>> run["A^{3,h}"].shape, run["top_5(logits_{-1})"]  # doctest: +SKIP

        ``tokens`` are a text, a list of texts, or ids, (n) or (batch, n). One text has no batch
        axis; a list of texts has one. Each text gives what it gives alone, however long the others
        are; see `viete.nouns.several.Several`. The options are those of `Card.run`.
        """
        if are_texts(tokens):
            tokens = [list(map(int, self.text_ids(text))) for text in tokens]
        if (batch := batch_of(self.card, tokens, options)) is not None:
            return run_each(batch, self, self.run, options)
        if options.get("names") is not None:  # as the card itself would say it, without words
            texts = [Text(name, "<name>") for name in listed(options["names"])]
            scope = replace(program(self.card).scope, words=lambda: self.words)
            options["names"] = [
                show(parse(text, scope.inside(own_letters(text, scope)))) for text in texts
            ]
        ids = None if tokens is None else self.ids(tokens)
        card, options = self.lens.with_hooks(self.with_inputs(options))
        return questions(run(card, ids, self.weights, **options), self)

    def sample(self, prompt: Any, /, **options: Any) -> Iterator[tuple[int | None, ...]]:
        """Continue a text, or token ids, token by token, as `Card.sample` does.

        While hooks are attached, every token runs the whole text, and the hooks see all of it.
        """
        ids = self.ids(prompt)
        ids = ids[0] if getattr(ids, "ndim", 1) == 2 and len(ids) == 1 else ids
        card, options = self.lens.with_hooks(self.with_inputs(options))
        return sample(card, self.weights, ids, **options)

    def planned(self, of: str | None = None, compute: Any = None, mean: str = "targets") -> Engine:
        """Plan a training step, with a copy of the weights; see `Card.planned`."""
        return Engine(self.card, self.weights, of, compute, mean=mean)

    def to_torch(self, of: str | None = None, mean: str = "targets") -> torch.nn.Module:
        """Make a ``torch.nn.Module`` with a copy of the weights; see `Card.to_torch`."""
        require("torch", "for a PyTorch module")
        from viete.train.module import to_torch

        return to_torch(self.card, self.weights, of, mean, self.config)

    def check(
        self, *claims: str | Path, tokens: Any = None, texts: Any = None, against: Any = None,
        seed: int = 0, **inputs: Any,
    ) -> Report | Claims:  # fmt: skip
        """Check claims, the tensors, or values recorded from another program.

        >>> claim = "A^{2,1}_{j,j-15} ≥ 0.5 for j ≥ 16 for texts of repeated(16)"
        >>> model.check(claim).ok  # doctest: +SKIP

        Without ``claims``, the model is compared with the tensors that it was opened with, and the
        card's own claims are checked, with those of its `evidence`. ``tokens`` (ids or one text) or
        ``texts`` (a file or a list) are what is run. ``against`` are values that were recorded for
        them. See `viete.model.checking.check`.
        """
        ids = None if tokens is None else self.ids(tokens)
        found = check(
            self.card, self.tensors, *claims, tokens=ids, texts=texts, against=against, seed=seed,
            encode=self.text_ids, words=lambda: self.words, **inputs,
        )  # fmt: skip
        if claims or against is not None or self.evidence is None or isinstance(found, Claims):
            return found
        other = self.evidence.check(tokens=tokens, texts=texts, seed=seed, **inputs)
        return found if isinstance(other, Claims) else found.with_claims_of(other)

    def checkpoints(self, *which: str) -> Checkpoints:
        """The model at several steps of its training.

        >>> load("run/").checkpoints()  # doctest: +SKIP
        >>> load("EleutherAI/pythia-70m").checkpoints("step512", "step143000")  # doctest: +SKIP

        Without names, these are all steps of the run, or of the model on the hub. Raises VieteError
        where there are no steps, and for a model that was changed after it was opened.
        """
        from viete.model.revisions import revisions
        from viete.nouns.checkpoints import Checkpoints

        if self.reopen is None:
            raise VieteError(
                f"{self.card.title} was changed after it was opened, or was not opened from a run "
                f"or the hub, so it has no checkpoints; write changes behind a question: … with "
                f"A^{{2,1}} = 0"
            )
        return Checkpoints(self.reopen, revisions(self.reopen.args[1], which or "all"))

    def of_arrays(self, card: CardData, weights: Mapping[str, Array], what: str) -> Self:
        """The model of a rewritten card, with arrays that were made from this model's."""
        out = self.over(card, lambda card: weights)
        out.tensors = in_memory(f"{self.tensors.path}, {what}", weights)
        return out

    @cached_property
    def evidence(self) -> Model[C] | None:
        """The model with which a circuit's claims compare it; None for other models.

        Raises VieteError if the card names a model that is not beside it.
        """
        name = dict(self.card.facts).get(EVIDENCE)
        if name is None:
            return None
        path = (self.path if self.path.is_dir() else self.path.parent) / name
        if Path(name).name != name or not is_run(path):
            raise VieteError(
                f"{self.path}: its card is measured in {name!r:.60}, and there is no such model "
                f"beside it"
            )
        return opened(type(self.card), path)

    def after(self, steps: Sequence[Folding]) -> Self:
        """The model after rewritings that compute new weights from the old ones."""
        card, weights = self.content, dict(self.weights)
        for step in steps:
            card, weights = step.model, reweighted(step, weights)
        # The tensors are then those of the card's own names, and no file's.
        return self.of_arrays(card, weights, "folded")

    def save(self, folder: str | Path) -> Path:
        """Write a folder that `viete.load` opens, with the tokenizer; see `Card.save`.

        A circuit's `evidence` is written beside it.
        """
        own = {n: x for n, x in self.inputs.items() if n in program(self.card).inputs}
        card, path, evidence = self.card, Path(folder), self.evidence
        if evidence is not None:
            beside = edges_beside(path)
            facts = (f for f in card.facts if f[0] != EVIDENCE)
            card = type(card).of(replace(card, facts=(*facts, (EVIDENCE, beside.name))))
        with together(path.parent if path.suffix == MARKDOWN else path):
            out = save(card, self.weights, path, self.config, self.own_tokenizer(), inputs=own)
            if evidence is not None:
                evidence.save(beside)
        return out

    # -- texts, and other libraries ----------------------------------------------------------------

    @cached_property
    def lens(self) -> Lens:
        """The model by the names of TransformerLens: `run_with_cache`, hooks, ``W_Q``.

        >>> logits, cache = model.lens.run_with_cache("The Eiffel Tower is in")  # doctest: +SKIP
        >>> cache["pattern", 5].shape, model.lens.W_O[5, 3].shape  # doctest: +SKIP
        """
        return Lens(self)

    def to(self, *where: Any) -> Self:
        """Move the weights to a device or precision of PyTorch, in place.

        Raises VieteError for weights of another library.
        """
        moved = {name: to_device(w, *where) for name, w in self.weights.items()}
        self.source = partial(constant, moved)
        del self.weights
        self.lens.forget()
        if self.framework == "torch":
            like = next(iter(moved.values()))
            self.device, self.dtype = str(like.device), str(like.dtype).removeprefix("torch.")
        return self

    def own_tokenizer(self) -> Tokenizer | None:
        """The tokenizer; None if the model has none."""
        return self.__dict__.get("tokenizer") or self.read_tokenizer()

    @cached_property
    def words(self) -> Words:
        """The words for tokens: the tokenizer's, or else the card's vocabulary."""
        tokenizer = self.own_tokenizer()
        return self.card.words if tokenizer is None else TokenizerWords(tokenizer)

    def to_transformers(self) -> Any:
        """Make a module of `transformers`, with copies of the weights."""
        return to_live(self.card, self.weights, self.config)

    def read_tokenizer(self) -> Tokenizer | None:
        """The tokenizer next to the weights; None if there is none."""
        if not self.path.exists():  # it was in memory
            return None
        folder = self.path if self.path.is_dir() else self.path.parent
        return open_tokenizer(folder, self.config)

    def in_its_arrays(self, ids: np.ndarray) -> Array:
        """Token ids in the library and on the device of the model's weights."""
        if self.framework == "numpy":
            return ids
        return require("torch", "for its tensors").as_tensor(ids, device=self.device)

    def page(self, style: str = "unicode") -> Sequence[Block]:
        """The card as a document, with a line about the weights under its title."""
        title, *rest = super().page(style)
        weights = sum(map(prod, self.parameter_shapes.values()))
        where = self.dtype if self.device is None else f"{self.dtype} on {self.device}"
        return [title, paragraph(f"{weights:,} weights, {where}, of {literal(str(self.path))}"),
                *rest]  # fmt: skip

    def __repr__(self) -> str:
        return f"<{self.card.title} of {self.path}>"


def reweighted(folding: Folding, weights: Mapping[str, Array]) -> dict[str, Array]:
    """The weights of a folded card; weights that do not change are the same arrays."""
    run = execute(program(folding.old), {}, weights, [])
    made = {e.name: e.right for e in folding.weights}
    ready, out = program(folding.model), dict[str, Array]()
    for name, (p, blocks, shape) in ready.parameters.items():
        if p.name not in made:
            out[name] = weights[name]
            continue
        places = {k: num(block) for k, block in ready.loops_of(p.symbol, blocks).items()}
        value = run.arrays.of(substitute(made[p.name], letters=places))
        axes = (*folding.model.heads_of(p.symbol), *(ROW, COL)[2 - len(p.shape) :])
        array = expand(run.arrays.xp, run.arrays.lift(value), value.axes, axes)
        out[name] = run.arrays.xp.broadcast_to(array, shape)
    return out


def of_folder(
    kind: type[C], folder: Folder, framework: str, dtype: str | None, device: str | None
) -> Model[C]:
    """A model from an opened folder."""
    out = Model(
        kind.of(folder.model), folder.tensors, path=folder.path, config=folder.config.values,
        framework=framework, dtype=dtype, device=device,
    )  # fmt: skip
    if folder.inputs is not None:
        own = folder.inputs
        out.inputs = {n: own.load(n, out.framework, device=out.device) for n in own.infos}
    return out


def opened(
    kind: type[C], source: str | Path | Mapping[str, Array],
    card: str | Path | CardData | None = None, accept: Sequence[str] = (),
    framework: str | None = None, dtype: str | None = None, device: str | None = None,
    revision: str | None = None, config: Mapping[str, Any] | str | Path | None = None,
) -> Model[C]:  # fmt: skip
    """A model whose card is of a ``kind``; see `viete.load`."""
    if isinstance(source, Mapping):
        if revision is not None:
            raise VieteError("arrays in memory have no revision")
        folder = open_arrays(source, card, accept, config)
        return of_folder(kind, folder, framework or library(source), dtype, device)
    source = model_path(source)
    reopen = partial(
        at_revision, kind, source, card=card, accept=accept, framework=framework, dtype=dtype,
        device=device, config=config,
    )  # fmt: skip
    if card is None and is_run(source):
        if accept or config is not None:
            raise VieteError(f"{source}: a run has its own card; leave out config and accept")
        folder = open_run(source, revision)
    else:
        folder = open_folder(source, card, accept, config, revision)
    found = of_folder(kind, folder, framework or "numpy", dtype, device)
    found.reopen = reopen
    return found


def at_revision(kind: type[C], source: str | Path, revision: str, **options: Any) -> Model[C]:
    """The model of `opened` at another checkpoint."""
    return opened(kind, source, revision=revision, **options)


def constant(weights: Mapping[str, Array], card: CardData) -> Mapping[str, Array]:
    """The weights themselves, whatever card asks: a `Source` of arrays in memory."""
    return weights


def library(arrays: Mapping[str, Array]) -> str:
    """The framework of some arrays: 'torch' or 'numpy'."""
    return "torch" if any(hasattr(array, "detach") for array in arrays.values()) else "numpy"


def with_weights(
    card: C, weights: Mapping[str, Array] | str | Path | None, seed: int = 0,
    framework: str | None = None, dtype: str | None = None, device: str | None = None,
) -> Model[C]:  # fmt: skip
    """The model of a card; see `viete.Card.with_weights`."""
    if weights is None:
        weights = initial_weights(card, seed, dtype if dtype in FLOATS else "float64")
    if isinstance(weights, Mapping):
        named = by_own_names(card, weights, program(card).parameters)
        if {framework, dtype, device} == {None} and named.keys() == program(card).parameters.keys():
            whole = {n: w if hasattr(w, "dtype") else np.array(w, float) for n, w in named.items()}
            tensors = in_memory("the mapping of weights", whole)
            return Model(card, tensors, partial(constant, named), framework=library(named))
    return opened(type(card), weights, card, (), framework, dtype, device)


def taken_over(
    kind: type[C], net: Any, tokenizer: Any = None, card: str | Path | CardData | None = None,
    accept: Sequence[str] = (), framework: str = "torch", dtype: str | None = None,
) -> Model[C]:  # fmt: skip
    """A module of `transformers`, as its equations; see `viete.from_transformers`."""
    out = of_folder(kind, folder_of(net, card, accept), framework, dtype, None)
    if framework == "torch":
        out.device = str(next(iter(net.parameters())).device)
    if tokenizer is not None:
        out.__dict__["tokenizer"] = tokenizer_of(tokenizer)
    return out


__all__ = ["Model", "reweighted"]
