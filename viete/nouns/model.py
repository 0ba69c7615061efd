"""`Model`: a card with weights and perhaps a tokenizer, from files, from memory, or drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import numpy as np

from viete.analysis.next_token import context_of
from viete.ask.card_claims import Claims
from viete.ask.claim_texts import Texts as ExampleTexts
from viete.ask.claim_texts import is_drawn, texts_of
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
from viete.model.calls import to_device
from viete.model.checking import check
from viete.model.compare import Report
from viete.model.folder import Folder, open_arrays, open_folder
from viete.model.hooks import Hooked
from viete.model.live import folder_of, to_live, tokenizer_of
from viete.model.mapping import load_weights, place, precision
from viete.model.saving import save
from viete.model.tokens import Texts, are_texts, whole_numbers
from viete.model.trained import MARKDOWN, is_run, open_run
from viete.notation.parser import own_letters, parse
from viete.notation.printer import show
from viete.notation.substitution import substitute
from viete.notation.tree import num
from viete.notation.words import Words
from viete.nouns.run import Questions, questions
from viete.nouns.verbs import Verbs
from viete.rewrite.put import EVIDENCE
from viete.rewrite.reparametrization import Folding
from viete.sampling.generation import sample
from viete.text.prompts import TextReader
from viete.text.tokenizer import Tokenizer, open_tokenizer
from viete.text.words import TokenizerWords

if TYPE_CHECKING:
    import torch

    from viete.causes.findings import ScrubFindings
    from viete.causes.mediation import Effects
    from viete.circuits.edges import CircuitEdge
    from viete.circuits.findings import CircuitFindings
    from viete.circuits.search import Circuits
    from viete.evaluate.run import Run
    from viete.nouns.checkpoints import Checkpoints
    from viete.nouns.feature_dashboard import FeatureDashboard
    from viete.probes.probing import Probes

Array = Any
C = TypeVar("C", bound=CardData)
Source = Callable[[CardData], Mapping[str, Array]]  # what has the weights of a card
ITS_OWN = ("card", "path", "config", "tensors", "framework", "dtype", "device", "tokenizer",
           "inputs")  # fmt: skip


class Model(Verbs, Texts, Hooked, Generic[C]):
    """A card with weights, and perhaps a tokenizer: what a card can do, with its own weights.

    ``card`` is the model as equations, ``config`` what its ``config.json`` says, ``tensors`` the
    file, or the arrays, that it was opened with, ``inputs`` what a run is given where it is not
    given anything else. Weights are read when they are first needed;
    ``dtype`` and ``device`` are what they are, or will be.
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

    @property
    def content(self) -> CardData:
        """As `Verbs` asks."""
        return self.card

    def over(self, card: CardData, source: Source | None = None) -> Self:
        """The model of other equations with those of its weights that they have, or with others.

        Hooks are left behind.
        """
        out = copy(self)
        for name in out.__dict__.keys() - set(ITS_OWN):
            del out.__dict__[name]  # what was made of the card as it was
        out.card = type(self.card).of(card)
        out.source = source or partial(self.weights_of, {p.name for p in card.parameters})
        return out

    def keeping(self, card: CardData, arrays: Mapping[str, Array]) -> Self:
        """As `Verbs` asks: a model has them among its weights."""
        out = self.over(card)
        if arrays:
            old = {p.name for p in self.card.parameters}
            like = next(iter(self.weights.values()))
            new = {name: as_like(array, like, name) for name, array in arrays.items()}
            weights = {**self.weights_of(old, card), **new}
            out.source = lambda card: weights
            out.tensors = in_memory(f"{self.tensors.path}, changed", weights)
        return out

    def giving(self, card: CardData, inputs: Mapping[str, Any]) -> Self:
        """As `Verbs` asks: every run has them, unless it is given others."""
        out = self.over(card)
        out.inputs = {**self.inputs, **inputs}
        return out

    def with_inputs(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a run, with the inputs that the model brings."""
        own = {n: x for n, x in self.inputs.items() if n in program(self.card).inputs}
        return {**own, **options}

    def inputs_of(
        self, tokens: Any, inputs: Mapping[str, Any], prepend_bos: bool | None = None
    ) -> dict[str, Any]:
        """As `Hooked.inputs_of`, with the inputs that the model brings."""
        return super().inputs_of(tokens, self.with_inputs(inputs), prepend_bos)

    def weights_of(self, parameters: Set[str], card: CardData) -> Mapping[str, Array]:
        """The weights of these parameters, of all blocks, and what fits none, to be refused."""
        own = {name: p.name for name, (p, _, _) in program(self.card).parameters.items()}
        return {n: w for n, w in self.weights.items() if n not in own or own[n] in parameters}

    @cached_property
    def weights(self) -> Weights:
        """The weights by the card's names. Raises VieteError for a file that does not fit it."""
        return Weights(self.source(self.card))

    # -- as a card can, with its weights -----------------------------------------------------------

    def bind(self, **values: Any) -> Self:
        """The same model with other dimensions, such as a longer context: ``bind(n_max=4096)``.

        Raises VieteError for a name that is no dimension of the card, and for a value that is no
        number; and where they are asked for, for weights that then do not fit.
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
        """As `Hooked.run`: a run of token ids, (n) or (batch, n), or of text, to be asked.

        A text is one sequence, and its values have no batch axis; a list of texts has one.
        """
        if options.get("names") is not None:  # as the card itself would say it, without words
            texts = [Text(name, "<name>") for name in listed(options["names"])]
            scope = replace(program(self.card).scope, words=lambda: self.words)
            options["names"] = [
                show(parse(text, scope.inside(own_letters(text, scope)))) for text in texts
            ]
        return questions(super().run(tokens, **self.with_inputs(options)), self)

    def sample(self, prompt: Any, /, **options: Any) -> Iterator[tuple[int | None, ...]]:
        """Go on with a text, or with token ids, token by token, as `Card.sample` does.

        With hooks every token runs the whole text, and a hook is called for each with all of it.
        """
        ids = self.ids(prompt)
        ids = ids[0] if getattr(ids, "ndim", 1) == 2 and len(ids) == 1 else ids
        card, options = self.with_hooks(self.with_inputs(options))
        return sample(card, self.weights, ids, **options)

    def generate(
        self, input: Any = "", max_new_tokens: int = 10, stop_at_eos: bool = True,
        eos_token_id: int | None = None, do_sample: bool = True, top_k: int | None = None,
        top_p: float | None = None, temperature: float = 1.0, use_past_kv_cache: bool = True,
        prepend_bos: bool | None = None, return_type: str = "input", seed: int = 0,
        verbose: bool = False,
    ) -> Any:  # fmt: skip
        """A text, or ids (n) or (batch, n), and what `sample` goes on with, as in TransformerLens.

        Texts are returned as text, without the tokens that begin and end one, and ids as (batch,
        n); ``return_type`` "str" or "tokens" says otherwise. A text that ended is filled up with
        the id that ended it. Nothing is shown on the way.
        """
        texts = isinstance(input, str) or are_texts(input)
        if return_type not in ("input", "str", "tokens"):
            raise VieteError(f"return_type is 'input', 'str' or 'tokens', not {return_type!r:.40}")
        given = [input] if isinstance(input, str) else list(input) if texts else input
        rows = [self.ids(text, prepend_bos) for text in given] if texts else whole_numbers(given)
        ids = [[int(t) for t in row] for row in (rows if texts else np.atleast_2d(rows))]
        end = eos_token_id
        if stop_at_eos and end is None and self.own_tokenizer() is not None:
            end = self.tokenizer.eos_token_id
        stop = end if stop_at_eos else None
        for k, row in enumerate(ids):
            row += [t for t, in self.sample(
                np.array(row), most=max_new_tokens, greedy=not do_sample, top_k=top_k, top_p=top_p,
                temperature=temperature, cache=use_past_kv_cache, seed=seed + k, stop=stop,
            ) if t is not None]  # fmt: skip
        if return_type == "str" or (return_type == "input" and texts):
            known = self.tokenizer
            ends = {known.bos_token_id, known.eos_token_id, known.pad_token_id, end}
            out = [known.decode([t for t in row if t not in ends]) for row in ids]
            return out[0] if isinstance(input, str) else out
        longest = max(map(len, ids))
        filled = [row + [end or 0] * (longest - len(row)) for row in ids]
        return self.in_its_arrays(np.array(filled, np.int64))

    def to(self, *where: Any) -> Self:
        """Bring the weights to a device or a precision of PyTorch's, in place, as a module does.

        Raises VieteError for weights of another library, which have no other device.
        """
        moved = {name: to_device(w, *where) for name, w in self.weights.items()}
        for name in self.__dict__.keys() & {"parameters_alone", "cfg", "weights"}:
            del self.__dict__[name]  # what was made of the weights as they were
        self.source = lambda card: moved
        if self.framework == "torch":
            like = next(iter(moved.values()))
            self.device, self.dtype = str(like.device), str(like.dtype).removeprefix("torch.")
        return self

    def cuda(self) -> Self:
        """Bring the weights to a GPU, in place."""
        return self.to("cuda")

    def cpu(self) -> Self:
        """Bring the weights back, in place."""
        return self.to("cpu")

    def train(self, mode: bool = True) -> Self:
        """The model itself: its equations are the same in training and outside."""
        return self

    def eval(self) -> Self:
        """The model itself, as for `train`."""
        return self

    def planned(self, of: str | None = None, compute: Any = None) -> Engine:
        """The loss and its gradients, planned, of a copy of the weights; see `Card.planned`."""
        return Engine(self.card, self.weights, of, compute)

    def to_torch(self, of: str | None = None) -> torch.nn.Module:
        """A genuine ``torch.nn.Module`` with a copy of the weights; see `Card.to_torch`."""
        from viete.train.module import to_torch

        return to_torch(self.card, self.weights, of)

    def check(
        self, *claims: str | Path, tokens: Any = None, texts: Any = None, against: Any = None,
        seed: int = 0, **inputs: Any,
    ) -> Report | Claims:  # fmt: skip
        """Hold the model to claims, to its tensors, to recorded values, as `viete check` does.

        >>> claim = "A^{2,1}_{j,j-15} ≥ 0.5 for j ≥ 16 for texts of repeated(16)"
        >>> model.check(claim).ok                                                   # doctest: +SKIP

        Without ``claims`` the card's own are evaluated, and those of its `evidence`, and it is
        compared with the tensors that it was opened with. ``texts`` are what is run, a file or a
        list, or ``tokens``, ids or one text; ``against`` are values recorded of the model for
        these. See `viete.model.checking.check`.
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

    def circuits(
        self, of: str, texts: Any, steps: int = 1, score: str = "gradient", nodes: str = "heads"
    ) -> Circuits:
        """The edges that a number of the model's runs owes itself to, with their scores.

        ``of`` is one number of each text, ``texts`` a file, a list of texts or of ids, or drawn
        ones, as ``repeated(16)``; in JSON lines, or as objects, texts may have words that ``of``
        names. With ``steps`` a score is by integrated gradients; ``score`` may be "relevance" or
        "patching" in the place of "gradient", and ``nodes`` "neurons" in that of "heads". Raises
        VieteError for what is no number, and for a card without a residual stream. See
        `viete.circuits.search`.
        """
        from viete.circuits.search import Circuits

        named = isinstance(texts, str | Path)
        source = str(texts) if named else ""
        some = self.examples(texts)
        return Circuits(
            self.card, self.weights, of, some, source, lambda: self.words, steps, score, nodes
        )

    def examples(self, texts: Any) -> ExampleTexts:
        """Texts as ids with what stands beside each: of a file, of a list of texts, of ids or of
        objects with a text, or drawn: ``repeated(16)``.
        """
        reading = TextReader(self.text_ids)
        if isinstance(texts, str | Path):
            return texts_of(str(texts), self.card, 0, reading.file)
        return reading.ids(texts)

    def mediation(self, of: str, by: str, texts: Any) -> Effects:
        """Causal mediation: the effects of another text on a number, through a value and past it.

        >>> model.mediation("logits_{-1, a} - logits_{-1, b}", "A^{i,h}", "pairs.jsonl")
        ...                                                                         # doctest: +SKIP

        ``texts`` are as in `circuits`, each with another one ``against`` it. ``by`` is a value,
        whose letters are axes of the answer, or several with commas, which are changed together.
        See `viete.causes.mediation`. Raises VieteError for an ``of`` that is several numbers, for a
        ``by`` that no equation makes, and for a text without another.
        """
        from viete.nouns.causal import mediation

        return mediation(self, of, by, texts)

    def resample(self, of: str, by: str, texts: Any, draws: int = 5, seed: int = 0) -> Effects:
        """Resample ablation: what a number is where a value is that of other texts of the list.

        >>> model.resample("logits_{-1, answer}", "A^{i,h}", "texts.jsonl", draws=10)
        ...                                                                         # doctest: +SKIP

        Beside each text ``draws`` others of its length are drawn with ``seed``. ``of``, ``by`` and
        ``texts`` are as in `mediation`. Raises VieteError as that does, and for a text without
        another of its length.
        """
        from viete.nouns.causal import resample

        return resample(self, of, by, texts, draws, seed)

    def scrub(
        self, hypothesis: str | Path, of: str, texts: Any, draws: int = 5, seed: int = 0
    ) -> ScrubFindings:
        """Causal scrubbing: how much of a number is left where values are of texts that agree on
        what a hypothesis says that they depend on.

        >>> found = model.scrub(Path("hypothesis.md"), "logits_{-1, answer}", "texts.jsonl")
        ...                                                                         # doctest: +SKIP
        >>> found.recovered                                                         # doctest: +SKIP
        0.93

        ``hypothesis`` is a page or its text (`viete.causes.hypothesis`); ``of`` and ``texts`` are
        as in `circuits`. Raises VieteError as that does, and for a claim about what is no edge.
        """
        from viete.nouns.causal import scrub

        return scrub(self, hypothesis, of, texts, draws, seed)

    def features(
        self, texts: Any = None, *, data: str | Path | None = None, of: str | None = None,
        length: int = 128, seed: int = 0, tell: Callable[[str], None] | None = None,
    ) -> FeatureDashboard:  # fmt: skip
        """What the features in the model do on texts: contexts, scores, steering, measures.

        >>> coded = model.put(read_coders("run/"))                                  # doctest: +SKIP
        >>> features = coded.features("texts.txt")                                  # doctest: +SKIP
        >>> features.measures.active, features[17].top[0].tokens                    # doctest: +SKIP
        >>> features.save("features/")                                              # doctest: +SKIP

        ``texts`` are a file, one a line, a list of texts or of ids, or drawn ones, as
        ``repeated(16)``; ``data`` is running text instead, a file or a folder. Longer ones than
        ``length`` are cut. They are run as they come, and nothing of them is held but what is
        shown. ``of`` says whose features, of several blocks: ``feature^2``. Raises VieteError for
        a model without features (see `put`), and where there is no text.
        """
        from viete.nouns.feature_dashboard import FeatureDashboard

        longest = context_of(self.card, self.card.inputs[0]) if self.card.inputs else None
        windows = self.windows(texts, data, min(length, longest or length))
        return FeatureDashboard(self, windows, of, seed, tell, self.path.name)

    def windows(self, texts: Any, data: str | Path | None, length: int) -> Iterator[np.ndarray]:
        """Texts as ids, none longer than so many, as they come."""
        from viete.text.windows import cut, line_windows, running_windows

        if data is not None:
            if (known := self.own_tokenizer()) is None:
                raise VieteError(f"{self.path} has no tokenizer, by which text is read")
            return running_windows(str(data), known, length)
        if isinstance(texts, str | Path) and Path(texts).is_file():
            return line_windows(Path(texts), self.text_ids, length)
        some = self.examples(texts)
        return (piece for x in some for piece in cut(np.asarray(x.text), length))

    def checkpoints(self, *which: str) -> Checkpoints:
        """The model at several steps of its training, to be asked as one is.

        >>> load("run/").checkpoints()                                              # doctest: +SKIP
        >>> load("EleutherAI/pythia-70m").checkpoints("step512", "step143000")      # doctest: +SKIP

        Without names they are all those of the run, or of the model on the hub. Raises VieteError
        where there are none, and for a model that is not as it was opened.
        """
        from viete.model.revisions import revisions
        from viete.nouns.checkpoints import Checkpoints

        if self.reopen is None:
            raise VieteError(
                f"{self.card.title} is not a model as it was opened from a run or the hub, so it "
                f"has no checkpoints; write changes behind a question: … with A^{{2,1}} = 0"
            )
        return Checkpoints(self.reopen, revisions(self.reopen.args[1], which or "all"))

    def circuit(
        self, of: str, texts: Any, edges: int | Collection[CircuitEdge] = 20, steps: int = 1,
        score: str = "gradient", nodes: str = "heads", confirm: bool = False,
    ) -> Self:  # fmt: skip
        """What is left of the model with some edges, all else at its mean over the texts.

        >>> circuit = model.circuit("logits_{-1, 5}", "texts.txt", edges=20)        # doctest: +SKIP
        >>> circuit.check().ok                                                      # doctest: +SKIP
        True

        Its card has the equations of what is left, and claims what it gives, and how faithful that
        is, of these texts. ``edges`` is how many, those of the largest scores, or which;
        with ``confirm`` exact runs choose them of twice as many. Raises
        VieteError as `circuits` does, and where the texts have nothing to explain.
        """
        from viete.circuits.findings import findings

        search = self.circuits(of, texts, steps, score, nodes)
        if isinstance(edges, int):
            edges = search.confirmed(edges) if confirm else search.largest(edges)
        return self.with_circuit(search, findings(search, edges))

    def with_circuit(self, circuits: Circuits, found: CircuitFindings) -> Self:
        """The model of a circuit that was found."""
        from viete.circuits.claims import circuit_of, evidence_of

        out, evidence = (
            self.of_arrays(made.card, made.weights, "a circuit")
            for made in (circuit_of(circuits, found), evidence_of(circuits, found))
        )
        out.__dict__["evidence"] = evidence
        return out

    def of_arrays(self, card: CardData, weights: Mapping[str, Array], what: str) -> Self:
        """The model of a card that was made of this one, with arrays that were."""
        out = self.over(card, lambda card: weights)
        out.tensors = in_memory(f"{self.tensors.path}, {what}", weights)
        return out

    @cached_property
    def evidence(self) -> Model[C] | None:
        """The model whose claims are checked beside its own: what a circuit is held against.

        Raises VieteError where the card names one that is not beside it.
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

    def probes(
        self, of: str, texts: Any, label: str | Sequence[Any] = "label", *,
        method: str = "logistic", kind: str | None = None, held: float = 0.25,
        penalty: float = 1.0, seed: int = 0, **inputs: Any,
    ) -> Probes:  # fmt: skip
        """What can be read off a vector of the model's runs: a linear probe, with its accuracy.

        >>> found = model.probes("x^3_{-1}", "reviews.jsonl", "positive")           # doctest: +SKIP
        >>> found.scores[0].value, found.one.directions                             # doctest: +SKIP

        ``of`` is a vector (d), or a family of them, of which each has a probe. ``texts`` are a
        file, a list of texts or of ids, or drawn ones, as ``repeated(16)``; ``label`` is a key of
        the file's JSON lines, a formula, or a list with a label for each text. ``kind`` 'classes'
        or 'numbers' says what labels are. ``inputs`` are what every run is given besides. Raises
        VieteError for what is no vector, and for labels of which there is one alone. See
        `viete.probes.probing`.
        """
        from viete.ask.example_list import example_of, read_examples
        from viete.probes.examples import probe_examples
        from viete.probes.probing import DRAWN, Probes

        if isinstance(texts, str | Path):
            drawn = is_drawn(str(texts))
            found = texts_of(str(texts), self.card, seed, count=DRAWN) if drawn else None
            examples = read_examples(Path(texts)) if found is None else list(found)
        else:
            examples = [example_of(x) for x in texts]
        of_each = None if isinstance(label, str) else list(label)
        word = label if isinstance(label, str) else "the label"

        first = self.run(examples[0].text, names=[], **inputs)
        names = first.names_needed([of, word])  # so that runs of a length are recorded once

        def start(text: Any) -> Run:
            return self.run(text, names=names, **inputs)

        vectors = probe_examples(start, examples, of, word, of_each, kind)
        return Probes(vectors, method, held, penalty, seed)

    def with_probe(self, probes: Probes, held_out: str = "held-out.jsonl") -> Self:
        """The model with a probe in it: ``probe`` is what it reads, ``direction`` where it looks.

        Its card claims how right the probe is of the texts in the file ``held_out``, which
        `viete.probes.card.save_held_out` writes. Raises VieteError for several probes, and for
        a card that has one of these names.
        """
        from viete.probes.card import probed

        return cast(Self, probed(self, probes, held_out))

    def after(self, steps: Sequence[Folding]) -> Self:
        """As `Verbs` asks: the new weights are made of the old ones."""
        card, weights = self.content, dict(self.weights)
        for step in steps:
            card, weights = step.model, reweighted(step, weights)
        # The tensors are then those of the card's own names, and no file's.
        return self.of_arrays(card, weights, "folded")

    def save(self, folder: str | Path) -> Path:
        """Write a folder that `viete.load` opens, with the tokenizer; see `Card.save`.

        A circuit's evidence is written beside it.
        """
        own = {n: x for n, x in self.inputs.items() if n in program(self.card).inputs}
        card, path, evidence = self.card, Path(folder), self.evidence
        if evidence is not None:
            markdown = path.suffix == MARKDOWN
            beside = path.with_name(f"{path.stem}-edges.md") if markdown else path / "edges.md"
            if beside.exists():
                raise VieteError(f"{beside}: is a file; give another name")
            facts = (f for f in card.facts if f[0] != EVIDENCE)
            card = type(card).of(replace(card, facts=(*facts, (EVIDENCE, beside.name))))
        out = save(card, self.weights, path, self.config, self.own_tokenizer(), inputs=own)
        if evidence is not None:
            evidence.save(beside)
        return out

    # -- texts, and other libraries ----------------------------------------------------------------

    def own_tokenizer(self) -> Tokenizer | None:
        """The tokenizer, if there is one."""
        return self.__dict__.get("tokenizer") or self.read_tokenizer()

    @cached_property
    def words(self) -> Words:
        """The words that questions name tokens by: those of the tokenizer, else of the card."""
        tokenizer = self.own_tokenizer()
        return self.card.words if tokenizer is None else TokenizerWords(tokenizer)

    def to_transformers(self) -> Any:
        """The same as a module of `transformers`, with copies of the weights."""
        return to_live(self.card, self.weights, self.config)

    def read_tokenizer(self) -> Tokenizer | None:
        """As `Texts` asks."""
        if not self.path.exists():  # it was in memory
            return None
        folder = self.path if self.path.is_dir() else self.path.parent
        return open_tokenizer(folder, self.config)

    def in_its_arrays(self, ids: np.ndarray) -> Array:
        """As `Texts` asks."""
        if self.framework == "numpy":
            return ids
        return require("torch", "for its tensors").as_tensor(ids, device=self.device)

    def page(self, style: str = "unicode") -> Sequence[Block]:
        """The card as a document, with a line about the weights below its title."""
        title, *rest = super().page(style)
        weights = sum(map(prod, self.parameter_shapes.values()))
        where = self.dtype if self.device is None else f"{self.dtype} on {self.device}"
        return [title, paragraph(f"{weights:,} weights, {where}, of {literal(str(self.path))}"),
                *rest]  # fmt: skip

    def __repr__(self) -> str:
        return f"<{self.card.title} of {self.path}>"


def reweighted(folding: Folding, weights: Mapping[str, Array]) -> dict[str, Array]:
    """The weights of a folded card; those that the folding left alone are the same arrays."""
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
    """A model of what was opened."""
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
    reopen = partial(
        at_revision, kind, source, card=card, accept=accept, framework=framework, dtype=dtype,
        device=device, config=config,
    )  # fmt: skip
    if card is None and is_run(source):
        if accept or config is not None:
            raise VieteError(f"{source}: a run has its own card, with no config and no accept")
        folder = open_run(source, revision)
    else:
        folder = open_folder(source, card, accept, config, revision)
    found = of_folder(kind, folder, framework or "numpy", dtype, device)
    found.reopen = reopen
    return found


def at_revision(kind: type[C], source: str | Path, revision: str, **options: Any) -> Model[C]:
    """A model as `opened` opens it, at a checkpoint."""
    return opened(kind, source, revision=revision, **options)


def library(arrays: Mapping[str, Array]) -> str:
    """The framework that arrays are of."""
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
            return Model(card, tensors, lambda card: named, framework=library(named))
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
