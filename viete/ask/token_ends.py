"""Reads a vector as tokens: by its own entries, or by its products with (un)embedding vectors.

A vector of the residual stream that a matrix reads is compared with the embeddings, ``E v``; a
vector that a matrix writes to the stream is compared with the unembedding, ``U v``. A weight matrix
reads along its rows and writes along its columns, since vectors are rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from viete.analysis.next_token import scored_tokens, vocabulary
from viete.analysis.token_vectors import embeddings, rows_of_tokens
from viete.errors import VieteError
from viete.evaluate.answer_page import label
from viete.evaluate.inputs import in_numpy
from viete.evaluate.labels import axis_labels
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.notation.printer import show

READS, WRITES, ITSELF = "reads", "writes", "has"
FEW = 5


@dataclass(frozen=True)
class TokenEnd:
    """How vectors at one end of a matrix become tokens: by a matrix (V, d), or by their entries.

    ``names`` are empty where neither is possible.
    """

    word: str
    names: Sequence[str]
    matrix: np.ndarray | None = None

    def scores(self, vector: np.ndarray) -> np.ndarray:
        """The score of each token, or of each entry, for a vector (d)."""
        return vector if self.matrix is None else np.asarray(self.matrix @ vector)

    def top(self, vector: np.ndarray, count: int = FEW) -> list[str]:
        """The names of the highest scores, the highest first."""
        scores = self.scores(vector)
        return [str(self.names[int(k)]) for k in np.argsort(-scores, kind="stable")[:count]]

    def line(self, vector: np.ndarray) -> str:
        """The names of the highest scores in one line."""
        return " ".join(label(name, 14) for name in self.top(vector)) if self.names else ""


def token_end(run: Run, axis: str, labels: Sequence[str], written: bool) -> TokenEnd:
    """The end of a matrix along one axis, which is ``written`` to the stream or read from it."""
    card = run.program.model
    if axis in (str(vocabulary(card)), str(scored_tokens(card))) or axis in card.lengths:
        return TokenEnd(ITSELF, labels)
    with suppress(VieteError):
        for e in [rows_of_tokens(card)] if written else embeddings(card):
            rows, entries = map(str, query(run, e).type.shape)
            if entries == axis:
                matrix = np.asarray(in_numpy(run.ordered(*run.answered(show(e), e))), np.float64)
                names = axis_labels(run, e, rows, len(matrix))
                return TokenEnd(WRITES if written else READS, names, matrix)
    return TokenEnd("", ())


__all__ = ["TokenEnd", "token_end"]
