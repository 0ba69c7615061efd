"""`Checkpoints`: a model at several steps of its training, with one step in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from viete.ask.over_texts import over_texts
from viete.circuits.history import CircuitHistory, circuit_step
from viete.errors import VieteError
from viete.model.revisions import step_of
from viete.nouns.text_runs import text_runs
from viete.report.answer_rows import AnswerRow, averaged
from viete.report.over_steps import OverSteps

if TYPE_CHECKING:
    from viete.circuits.edges import CircuitEdge
    from viete.nouns.model import Model


class Checkpoints:
    """A model at several steps of its training. Only one step is in memory at a time.

    >>> for step, model in load("run/").checkpoints(): ...  # doctest: +SKIP

    ``names`` are the checkpoints, and ``open`` reads one of them.
    """

    def __init__(self, open: Callable[[str], Model[Any]], names: Sequence[str]) -> None:
        self.open, self.names = open, tuple(names)

    @property
    def steps(self) -> list[int]:
        """The steps, in the order of the names."""
        return [step_of(name) for name in self.names]

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[tuple[int, Model[Any]]]:
        for name in self.names:
            yield step_of(name), self.open(name)

    def __repr__(self) -> str:
        return f"<{len(self)} checkpoints, {self.names[0]} to {self.names[-1]}>"

    def ask(self, *questions: str, texts: Any) -> OverSteps:
        """Ask questions at every step, averaged over the texts.

        >>> over = model.checkpoints().ask("A^{2,h}_{-1,0}", texts="a.txt")  # doctest: +SKIP
        >>> over["A^{2,h}_{-1,0}"].shape, over.draw().save("heads.svg")  # doctest: +SKIP

        ``texts`` are those of `Model.circuits`. A comparison holds if it holds for every text;
        ``over.first("F > 0.9")`` is the first such step. Raises VieteError as a run does, and for
        answers whose shape differs between texts.
        """
        if not questions:
            raise VieteError("ask takes a question, such as checkpoints.ask('loss', texts=…)")
        rows: list[AnswerRow] = []
        for name in self.names:
            model = self.open(name)
            runs = list(text_runs(model, model.examples(texts), questions))
            columns = [over_texts(runs, question) for question in questions]
            count = max(map(len, columns))
            found = [AnswerRow(tuple(c[k if len(c) > 1 else 0] for c in columns), revision=name)
                     for k in range(count)]  # fmt: skip
            rows.append(averaged(found) if count > 1 else found[0])
            title, letters = model.card.title, set(model.card.ranges)
            del model, runs  # before the next is read
        return OverSteps(title, questions, letters, rows)

    def circuit(
        self, of: str, texts: Any, edges: int | Collection[CircuitEdge] = 20, steps: int = 1,
        score: str = "gradient", nodes: str = "heads", positions: bool = False,
        confirm: bool = False,
    ) -> CircuitHistory:  # fmt: skip
        """Follow a circuit through training: the edges of the last checkpoint, at every step.

        >>> history = model.checkpoints().circuit(of, "a.txt", edges=9)  # doctest: +SKIP
        >>> history.first(0.9)  # doctest: +SKIP
        250

        The arguments are those of `Model.circuit`. Ctrl-C stops, and returns the steps that are
        done. Raises VieteError as `Model.circuit` does.
        """
        last = self.open(self.names[-1]).circuits(of, texts, steps, score, nodes, positions)
        if isinstance(edges, int):
            edges = last.confirmed(edges) if confirm else last.largest(edges)
        some = tuple(edges)
        source, number = last.source or f"{len(last.of_model)} texts", last.of
        del last
        found = []
        try:
            for step, model in self:
                circuits = model.circuits(of, texts, nodes=nodes, positions=positions)
                found.append(circuit_step(step, circuits, some))
        except KeyboardInterrupt:
            if not found:
                raise
        return CircuitHistory(number, source, some, tuple(found))


__all__ = ["Checkpoints"]
