"""Searches of a model on texts: circuits, causes of a number, features, probes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from viete.analysis.next_token import context_of
from viete.ask.claim_texts import Texts as ExampleTexts
from viete.ask.claim_texts import is_drawn, texts_of
from viete.errors import VieteError
from viete.graph.card import CardData
from viete.model.tokens import Texts
from viete.notation.words import Words
from viete.text.prompts import TextReader

if TYPE_CHECKING:
    from viete.causes.findings import ScrubFindings
    from viete.causes.mediation import Effects
    from viete.circuits.edges import CircuitEdge
    from viete.circuits.findings import CircuitFindings
    from viete.circuits.search import Circuits
    from viete.evaluate.run import Run
    from viete.nouns.feature_dashboard import FeatureDashboard
    from viete.nouns.model import Model
    from viete.probes.probing import Probes


class Searching(Texts):
    """The searches of a model: circuits, causes, features, probes."""

    card: CardData  # for the class that is made of this
    path: Path

    @property
    def words(self) -> Words:
        """The words that name tokens in questions; a subclass defines it."""
        raise NotImplementedError

    def of_arrays(self, card: CardData, weights: Mapping[str, Any], what: str) -> Self:
        """The model of a rewritten card, with these arrays; a subclass defines it."""
        raise NotImplementedError

    @property
    def itself(self) -> Model[Any]:
        """The model itself, with its type."""
        return cast("Model[Any]", self)

    def circuits(
        self, of: str, texts: Any, steps: int = 1, score: str = "gradient", nodes: str = "heads",
        positions: bool = False,
    ) -> Circuits:  # fmt: skip
        """Score every edge of the model by its part in a number.

        ``of`` is one number for each text. ``texts`` is a file, a list of texts or of ids, or drawn
        texts such as ``repeated(16)``. In JSON lines, a text may carry words that ``of`` names.
        ``score`` is "gradient", "relevance" or "patching"; ``steps`` uses integrated gradients.
        ``nodes`` is "heads" or "neurons". With ``positions``, an edge belongs to one position, and
        all texts have one length. Raises VieteError for an ``of`` that is not one number, for a
        card without a residual stream, and for positions of texts of different lengths. See
        `viete.circuits.search`.
        """
        from viete.circuits.search import Circuits

        named = isinstance(texts, str | Path)
        source = str(texts) if named else ""
        some = self.examples(texts)
        return Circuits(
            self.card, self.itself.weights, of, some, source, lambda: self.words, steps, score,
            nodes, positions,
        )  # fmt: skip

    def examples(self, texts: Any) -> ExampleTexts:
        """Texts as ids, with the words of each text: from a file, a list, or drawn."""
        reading = TextReader(self.text_ids)
        if isinstance(texts, str | Path):
            return texts_of(str(texts), self.card, 0, reading.file)
        return reading.ids(texts)

    def mediation(self, of: str, by: str, texts: Any) -> Effects:
        """Causal mediation: how another text changes a number through a value, and past it.

        >>> model.mediation("logits_{-1, a} - logits_{-1, b}", "A^{i,h}", "pairs.jsonl")
        ...  # doctest: +SKIP

        Each of the ``texts`` has another text ``against`` it; otherwise they are as in `circuits`.
        ``by`` is a value, whose free letters are axes of the answer, or several values with commas,
        which change together. Raises VieteError for an ``of`` that is not one number, for a ``by``
        that no equation makes, and for a text without a partner. See `viete.causes.mediation`.
        """
        from viete.nouns.causal import mediation

        return mediation(self.itself, of, by, texts)

    def resample(self, of: str, by: str, texts: Any, draws: int = 5, seed: int = 0) -> Effects:
        """Resample ablation: the number when a value is taken from other texts of the list.

        >>> model.resample("logits_{-1, answer}", "A^{i,h}", "texts.jsonl", draws=10)
        ...  # doctest: +SKIP

        For each text, ``draws`` others of its length are drawn with ``seed``. ``of``, ``by`` and
        ``texts`` are those of `mediation`. Raises VieteError as `mediation` does, and for a text
        that is the only one of its length.
        """
        from viete.nouns.causal import resample

        return resample(self.itself, of, by, texts, draws, seed)

    def scrub(
        self, hypothesis: str | Path, of: str, texts: Any, draws: int = 5, seed: int = 0
    ) -> ScrubFindings:
        """Causal scrubbing: how much of a number survives under a hypothesis.

        >>> found = model.scrub(Path("hypothesis.md"), "logits_{-1, answer}", "texts.jsonl")
        ...  # doctest: +SKIP
        >>> found.recovered  # doctest: +SKIP
        0.93

        The hypothesis says what each value depends on. Values are then taken from random texts that
        agree on that. ``hypothesis`` is a page or its text (`viete.causes.hypothesis`); ``of`` and
        ``texts`` are those of `circuits`. Raises VieteError as `circuits` does, and for a claim
        about something that is no edge.
        """
        from viete.nouns.causal import scrub

        return scrub(self.itself, hypothesis, of, texts, draws, seed)

    def features(
        self, texts: Any = None, *, data: str | Path | None = None, of: str | None = None,
        length: int = 128, seed: int = 0, tell: Callable[[str], None] | None = None,
    ) -> FeatureDashboard:  # fmt: skip
        """Run texts, and collect what the features of the model do: contexts, scores, effects.

        >>> coded = model.put(read_coders("run/"))  # doctest: +SKIP
        >>> features = coded.features("texts.txt")  # doctest: +SKIP
        >>> features.measures.active, features[17].top[0].tokens  # doctest: +SKIP
        >>> features.save("features/")  # doctest: +SKIP

        ``texts`` is a file with a text on each line, a list of texts or of ids, or drawn texts such
        as ``repeated(16)``. ``data`` is running text instead, a file or a folder. Texts longer than
        ``length`` are cut. Only what is shown stays in memory. ``of`` selects the features of one
        block: ``feature^2``. Raises VieteError for a model without features (see `put`), and
        without texts.
        """
        from viete.nouns.feature_dashboard import FeatureDashboard

        longest = context_of(self.card, self.card.inputs[0]) if self.card.inputs else None
        windows = self.windows(texts, data, min(length, longest or length))
        return FeatureDashboard(self.itself, windows, of, seed, tell, self.path.name)

    def windows(self, texts: Any, data: str | Path | None, length: int) -> Iterator[np.ndarray]:
        """Texts as ids, each of at most the given length."""
        from viete.text.windows import cut, line_windows, running_windows

        if data is not None:
            if (known := self.itself.own_tokenizer()) is None:
                raise VieteError(f"{self.path} has no tokenizer to read text")
            return running_windows(str(data), known, length)
        if isinstance(texts, str | Path) and Path(texts).is_file():
            return line_windows(Path(texts), self.text_ids, length)
        some = self.examples(texts)
        return (piece for x in some for piece in cut(np.asarray(x.text), length))

    def circuit(
        self, of: str, texts: Any, edges: int | Collection[CircuitEdge] = 20, steps: int = 1,
        score: str = "gradient", nodes: str = "heads", confirm: bool = False,
        positions: bool = False,
    ) -> Self:  # fmt: skip
        """Find a circuit: the model with only some edges, and all else at its mean over the texts.

        >>> circuit = model.circuit("logits_{-1, 5}", "texts.txt", edges=20)  # doctest: +SKIP
        >>> circuit.check().ok  # doctest: +SKIP
        True

        The result is a model. Its card has the equations that are left, and claims how much of the
        number they reproduce on these texts. ``edges`` is the number of edges, taken by score, or
        the edges themselves. With ``confirm``, exact runs choose them among twice as many. The
        other arguments are those of `circuits`. Raises VieteError as `circuits` does, and where the
        number does not vary.
        """
        from viete.circuits.findings import findings

        search = self.circuits(of, texts, steps, score, nodes, positions)
        if isinstance(edges, int):
            edges = search.confirmed(edges) if confirm else search.largest(edges)
        return self.with_circuit(search, findings(search, edges))

    def with_circuit(self, circuits: Circuits, found: CircuitFindings) -> Self:
        """The model that keeps only a circuit's edges, with means for the others."""
        from viete.circuits.claims import circuit_of, evidence_of

        out, evidence = (
            self.of_arrays(made.card, made.weights, "a circuit")
            for made in (circuit_of(circuits, found), evidence_of(circuits, found))
        )
        out.__dict__["evidence"] = evidence
        return out

    def probes(
        self, of: str, texts: Any, label: str | Sequence[Any] = "label", *,
        method: str = "logistic", kind: str | None = None, held: float = 0.25,
        penalty: float = 1.0, seed: int = 0, **inputs: Any,
    ) -> Probes:  # fmt: skip
        """Train linear probes on a vector of the model, and measure them on texts kept aside.

        >>> found = model.probes("x^3_{-1}", "reviews.jsonl", "positive")  # doctest: +SKIP
        >>> found.scores[0].value, found.one.directions  # doctest: +SKIP

        ``of`` is a vector (d), or a family of vectors with a probe for each. ``texts`` is a file, a
        list of texts or of ids, or drawn texts such as ``repeated(16)``. ``label`` is a key of the
        file's JSON lines, a formula, or a list with a label for each text. ``kind`` says whether
        labels are 'classes' or 'numbers'. ``held`` is the share of texts kept aside, ``penalty``
        the strength of the regularization. ``inputs`` are given to every run. Raises VieteError for
        an ``of`` that is no vector, and where all labels are equal. See `viete.probes.probing`.
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

        first = self.itself.run(examples[0].text, names=[], **inputs)
        names = first.names_needed([of, word])  # so that runs of a length are recorded once

        def start(text: Any) -> Run:
            return self.itself.run(text, names=names, **inputs)

        vectors = probe_examples(start, examples, of, word, of_each, kind)
        return Probes(vectors, method, held, penalty, seed)

    def with_probe(self, probes: Probes, held_out: str = "held-out.jsonl") -> Self:
        """Put a probe into the model: ``probe`` is its output, ``direction`` its vector.

        The card claims how often the probe is right on the texts in the file ``held_out``, which
        `viete.probes.card.save_held_out` writes. Raises VieteError for several probes, and for a
        card that has one of these names.
        """
        from viete.probes.card import probed

        return cast(Self, probed(self.itself, probes, held_out))


__all__ = ["Searching"]
