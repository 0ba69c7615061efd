"""Evaluates questions around formulas: ``top_5(…)``, ``svd_3(…)``, ``pca_2(…)``, ``cosines(…)``."""

from __future__ import annotations

from collections.abc import Callable

from viete.ask.decompositions import SVD, svd
from viete.ask.question_heads import Headed, headed
from viete.ask.top import TOP, top
from viete.ask.vector_sets import COSINES, PCA, cosines, pca
from viete.evaluate.answers import Answer
from viete.evaluate.run import Run


def greatest(run: Run, asked: Headed, behind: str = "") -> Answer:
    """Answer with the greatest entries of each row."""
    return top(run, asked.count or 1, f"{', '.join(asked.formulas)} {behind}".strip())


OWN: dict[str, Callable[[Run, Headed, str], Answer]] = {
    TOP: greatest, SVD: svd, COSINES: cosines,
    PCA: lambda run, asked, behind: pca([run], asked, behind),
}  # fmt: skip


def own_question(run: Run, question: object) -> Headed | None:
    """A question that is not a formula; None for any other question."""
    return headed(run, question, OWN)


def own_answer(run: Run, asked: Headed, behind: str = "") -> Answer:
    """The answer to such a question after its changes, ``behind``. May raise VieteError."""
    return OWN[asked.word](run, asked, behind)


__all__ = ["OWN", "own_answer", "own_question"]
