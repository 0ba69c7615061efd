"""The effects of a feature: on scores, on the next token at its peak, and on a continued text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from viete.analysis.token_vectors import question_scope
from viete.ask.asking import asked
from viete.ask.putting import edited
from viete.errors import Text, VieteError
from viete.evaluate.inputs import host
from viete.evaluate.interventions import as_library
from viete.evaluate.labelled import Value
from viete.evaluate.queries import query
from viete.features.study import FeatureStudy
from viete.model.places import name_of
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import Ref
from viete.sampling.generation import sample

Array = Any
ROWS = 32  # of the last stream, on which what a direction does to the scores is measured
STEP = 0.01  # of a row's length, by which a direction moves it
IN_STREAM = ("hook_resid_", "hook_attn_out", "hook_mlp_out", "hook_embed", "hook_pos_embed")


class FeatureEffects:
    """The effects of a study's features on its model, measured on some of its texts (texts, n)."""

    def __init__(self, study: FeatureStudy, texts: Array) -> None:
        self.study = study
        self.texts_run = study.run(texts)

    # -- directly ----------------------------------------------------------------------------------

    @cached_property
    def unembedding(self) -> np.ndarray | None:
        """A row for each token; None if the features do not write to the final stream."""
        card = self.study.card
        known = {e.name for e in card.derived}
        if not any(x in name_of(card, self.study.value) for x in IN_STREAM) or "U" not in known:
            return None
        try:
            found = np.asarray(self.ask("U")).astype(float)
            self.ask("norm(row)", row=self.rows[0])
        except VieteError:
            return None
        return found if found.shape[1] == self.study.directions.shape[1] else None

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of the final stream, from positions in all texts."""
        blocks = self.study.program.range_of(self.study.kind.loop.index)
        found = self.ask(f"x^{blocks[-1]}").astype(float)
        flat = found.reshape(-1, found.shape[-1])
        return flat[np.linspace(0, len(flat) - 1, min(ROWS, len(flat))).astype(int)]

    def ask(self, question: str, **values: Any) -> np.ndarray:
        """The answer to a question about the texts and about given values."""
        run = asked(self.texts_run, values)
        e = parse(Text(question, "<features>"), run.scope)
        run.supply(run.needed_by(e))
        return np.asarray(host(run.ordered(run.evaluate(query(run, e)), ())))

    def logit_weights(self, features: Sequence[int]) -> np.ndarray | None:
        """How much one unit of each feature adds to each token's score, past later blocks.

        It is a first-order estimate through the last norm, as the mean over rows of the final
        stream.
        """
        if self.unembedding is None:
            return None
        rows, out = self.rows, []
        for k in features:
            way = self.study.directions[k].astype(float)
            step = STEP * np.linalg.norm(rows, axis=1, keepdims=True)
            step = step / max(float(np.linalg.norm(way)), 1e-30)
            moved = np.concatenate([rows + step * way, rows - step * way])
            like = next(iter(self.study.weights.values()))
            normed = self.ask("norm(probe)", probe=as_library(moved, like, "probe"))
            up, down = np.split(normed.astype(float), 2)
            out.append(self.unembedding @ ((up - down) / (2 * step)).mean(0))
        return np.array(out)

    # -- at its peak -------------------------------------------------------------------------------

    def without(self, feature: int, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The log-probabilities after a text, as they are and with a feature set to 0."""
        study = self.study
        if not study.scores:
            return None
        run = study.run(ids[None])
        lost = study.array(run, study.feature)[..., feature, None] * study.directions[feature]

        def less(value: Value, _: int | None) -> Value:
            array = as_library(lost, value.array, "feature")
            xp = array_namespace(array)
            shaped = array if "batch" in value.axes else xp.reshape(array, array.shape[1:])
            return replace(value, array=value.array - xp.astype(shaped, value.array.dtype))

        other = study.run(ids[None], {study.key(study.error): less})
        return self.logprobs(run), self.logprobs(other)

    def logprobs(self, run: Any) -> np.ndarray:
        """The log-probabilities of the token after a text."""
        scores = self.study.array(run, Ref(self.study.card.symbols[self.study.scores]))
        last = scores[0, -1].astype(float)
        return np.asarray(last - last.max() - np.log(np.exp(last - last.max()).sum()))

    # -- a text's course ---------------------------------------------------------------------------

    @cached_property
    def steered(self) -> tuple[Any, Mapping[str, Array], tuple[str, str, str]]:
        """The card in which a feature is set to a value at every position, and its weights."""
        study = self.study
        aim, pick, way = (study.card.fresh(x, f"{x}_f") for x in ("aim", "pick", "way"))
        like = next(iter(study.weights.values()))
        values = {aim: np.zeros(()), pick: np.zeros(len(study.directions)),
                  way: np.zeros(study.directions.shape[1])}  # fmt: skip
        values = {
            k: as_library(v.astype(str(host(like).dtype)), like, k) for k, v in values.items()
        }
        value, feature = show(study.value), show(study.feature)
        change = f"{value}_j = {value}_j + ({aim} - ⟨{feature}_j, {pick}⟩) * {way}"
        found = edited(study.card, (change,), values, question_scope, None)
        weights = {**study.weights, **found.arrays}
        return found.card, weights, (aim, pick, way)

    def course(self, feature: int, value: float, ids: np.ndarray, most: int) -> list[int]:
        """The greedy continuation of a text with the feature set to this value."""
        card, weights, (aim, pick, way) = self.steered
        chosen = np.zeros(len(self.study.directions))
        chosen[feature] = 1
        given = {aim: np.array(value), pick: chosen, way: self.study.directions[feature]}
        like = next(iter(weights.values()))
        own = {k: as_library(np.asarray(v).astype(str(host(like).dtype)), like, k)
               for k, v in given.items()}  # fmt: skip
        drawn = sample(card, {**weights, **own}, ids, most=most, greedy=True)
        return [t for (t,) in drawn if t is not None]

    def usual_course(self, ids: np.ndarray, most: int) -> list[int]:
        """The greedy continuation of a text."""
        study = self.study
        return [t for (t,) in sample(study.card, study.weights, ids, most=most, greedy=True)
                if t is not None]  # fmt: skip


__all__ = ["FeatureEffects"]
