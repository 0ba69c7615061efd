"""Embeddings: which parameters are token, position or unembedding matrices, by the equations."""

from __future__ import annotations

from viete.analysis.flow import Axis, Flow
from viete.analysis.shapes import Shapes
from viete.graph.card import CardData
from viete.graph.evaluator import COL
from viete.graph.sizes import ONE, Size


class Embeddings:
    """Which parameters are embeddings, recognized by the equations, not by names.

    - token: rows looked up by a whole-number input (``W_E[t]``);
    - position: rows added along positions (``W_P[:n]``), or looked up by an input that counts them;
    - unembedding: an axis of the parameter becomes the vocabulary axis of a result, and no product
      sums over it again (``x W_U``, ``x {W_E}^T``, a bias of the logits).

    ``kinds`` gives the answer at the end.
    """

    def __init__(self, card: CardData, shapes: Shapes) -> None:
        self.card, self.same = card, shapes.same
        self.read: dict[str, set[str]] = {p.name: set() for p in card.parameters}
        self.made: set[tuple[str, int]] = set()  # parameter axes that are a vocabulary axis
        self.gone: set[tuple[str, int]] = set()  # and those summed over again
        self.reach: dict[str, Size] = {}  # how many values a whole-number input can have
        for item in card.inputs:
            low = None if item.low is None else card.size(item.low)
            high = None if item.high is None else card.size(item.high)
            if low is not None and high is not None:
                self.reach[item.name] = high - low + ONE
        words = [r for r in self.reach.values() if not self.counts_positions(r)]
        self.vocabularies = [r for r in words if r.names()] or words[:1]

    def counts_positions(self, reach: Size) -> bool:
        """Whether an input has as many values as the text can have positions."""
        longest = [self.card.size(x) for x in self.card.lengths.values()]
        return any(s is not None and self.same(s, reach) for s in longest)

    def vocabulary(self, axis: Axis) -> bool:
        """Whether an axis is as long as the vocabulary."""
        return any(self.same(axis.size, n) for n in self.vocabularies)

    def looked_up(self, v: Flow, label: str, at: Flow) -> bool:
        """Record rows of a parameter, taken by integer inputs; whether it was so."""
        if not at.ids or v.given or not v.axes[label].weights:
            return False
        for name in (name for name, which in v.axes[label].weights if which == 0):
            for item in at.ids:
                position = self.counts_positions(self.reach[item])
                self.read[name].add("position" if position else "token")
        return True

    def placed(self, axis: Axis, label: str) -> None:
        """Record an axis of positions, combined entry by entry with axes of parameters."""
        for name, which in axis.weights:
            if which == 0 and label != COL:
                self.read[name].add("position")

    def named(self, v: Flow) -> None:
        """Record the value of an equation."""
        for axis in v.axes.values():
            if self.vocabulary(axis):
                self.made |= axis.weights

    def summed(self, axis: Axis) -> None:
        """Record an axis that a product sums over."""
        if self.vocabulary(axis):
            self.gone |= axis.weights

    def kinds(self) -> dict[str, frozenset[str]]:
        """The kinds of each parameter: 'token', 'position', 'unembedding', several, or none."""
        last = {name for name, _ in self.made - self.gone}
        return {
            name: frozenset(read | ({"unembedding"} if name in last else set()))
            for name, read in self.read.items()
        }


__all__ = ["Embeddings"]
