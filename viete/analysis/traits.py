"""Traits of a card, found without running it: its mask, residual connections and shared weights.

Every trait follows from the equations, so it holds for every card of which it is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from viete.analysis.def_use import DefUse, bodies, called, def_use
from viete.analysis.flow import Read
from viete.analysis.flows import flows_of, reads_later
from viete.analysis.next_token import is_softmax, scored, text_of
from viete.errors import VieteError
from viete.graph.card import CardData, Input, memoised
from viete.graph.sizes import Size
from viete.notation.tree import Apply, Bind, Expr, Idx, Pick, Ref, Table, walk


@dataclass(frozen=True)
class Generation:
    """How a card generates text: row j of equation ``scores`` is about the token after token j.

    ``probabilities`` says that the scores are probabilities, a softmax of an unnamed value.
    """

    tokens: Input
    scores: int
    probabilities: bool
    length: Size
    vocabulary: Size


class Traits:
    """The traits of one model; equations are named by their positions, as in `DefUse`."""

    def __init__(self, card: CardData, uses: DefUse | None = None) -> None:
        self.model, self.uses = card, uses or def_use(card)
        flows = flows_of(card)
        self.flows = flows.found
        self.reads: list[frozenset[Read]] = [reads for _, reads in flows.found]
        self.places: list[Size | None] = [value.place for value, _ in flows.found]
        self.embeddings = flows.embeddings.kinds()

    def generation(self) -> Generation | None:
        """The `Generation` of a card with logits over its tokens that see no later ones."""
        try:
            tokens = text_of(self.model)
        except VieteError:
            return None
        length = self.model.size(tokens.shape[0])
        assert length is not None  # it is a dimension
        for e in scored(self.model, tokens)[:1]:
            k = self.uses.by_name[e.name][-1]
            if self.places[k] == length and self.is_causal(k, tokens.name, length):
                vocabulary = self.uses.shapes.computed[k][1]
                return Generation(tokens, k, is_softmax(self.model, e), length, vocabulary)
        return None

    def is_causal(self, k: int, tokens: str, length: Size) -> bool:
        """Whether equation k's row j depends on ``tokens``, and only on those up to position j.

        For rows picked by a block number, as x_{i-1} in a loop over the text, this is unknown and
        the answer is no.
        """
        if tokens not in self.uses.inputs_of(k):
            return False

        def mine(name: str) -> bool:
            return name == tokens or any(
                tokens in self.uses.inputs_of(m) for m in self.uses.by_name.get(name, [])
            )

        for j in self.uses.backward_slice(k):
            for x in walk(self.model.equations[j].right):
                if isinstance(x, Pick) and picks_by_block(self.model, x) and any(
                    map(mine, x.value.keys)
                ):  # fmt: skip
                    return False
            if reads_later(self.model, *self.flows[j], str(length)):
                return False
        return True

    def masked(self, past: bool) -> list[tuple[int, list[str]]]:
        """Equations that sum over positions, only up to their own or all, and the summed values."""
        out = []
        for k, reads in enumerate(self.reads):
            seen = [r for r in reads if r.summed and r.name in self.uses.by_name]
            names = {r.name for r in seen if r.past} - {r.name for r in seen if not r.past}
            if not past:
                names = {r.name for r in seen} - names
            if names and self.places[k] is not None:
                out.append((k, sorted(names)))
        return out

    def residuals(self) -> list[tuple[int, list[Ref]]]:
        """Equations that add a value to something computed from it, and those values."""
        out = []
        for k in range(len(self.model.equations)):
            if found := dict.fromkeys(u.ref for u in self.uses.all if u.reader == k and u.added):
                out.append((k, list(found)))
        return out

    def positional(self, k: int) -> list[str]:
        """Functions of equation k that compute with position numbers; '' for its own formula."""
        return self.where(k, counts_rows)

    def normalizing(self, k: int) -> list[str]:
        """Functions of equation k that divide by the root of a mean; '' for its own formula."""
        return self.where(k, self.divides_by_root)

    def where(self, k: int, test: Callable[[Expr], bool]) -> list[str]:
        """Functions of equation k whose definitions pass a test; '' for its own formula."""
        right = self.model.equations[k].right
        names = [f.name for f in called(self.model, right)
                 if any(map(test, bodies(self.model, f.body)))]  # fmt: skip
        return names + [""] * test(right)

    def divides_by_root(self, e: Expr) -> bool:
        for x in walk(e):
            if isinstance(x, Apply) and x.op == "div":
                below = [y for b in bodies(self.model, x.args[1]) for y in walk(b)]
                if {"sqrt", "mean"} <= {y.op for y in below if isinstance(y, Apply | Bind)}:
                    return True
        return False


@memoised
def predicts_next(card: CardData) -> bool:
    """Whether a card scores the next token: positions see none later, as BERT's do."""
    return Traits(card).generation() is not None


def picks_by_block(card: CardData, e: Pick) -> bool:
    """Whether a row or an entry is picked by a block number: ``x_{i-1}``."""
    return any(not item.free.isdisjoint(card.loop_letters) for item in e.items)


def counts_rows(e: Expr, conditions: bool = False) -> bool:
    """Whether a table's entries are computed from their row numbers; see `numbers`."""
    return any(isinstance(x, Table) and x.ranges[0][0] in numbers(x.body, conditions)
               for x in walk(e))  # fmt: skip


def numbers(e: Expr, conditions: bool = False) -> Iterator[str]:
    """Index letters used in arithmetic, not only as the place of an entry.

    Letters that are only in a condition do not count, unless ``conditions`` asks for them.
    """
    match e:
        case Idx(name):
            yield name
        case Ref() | Pick():
            for x in e.children:
                if not isinstance(x, Idx):
                    yield from numbers(x, conditions)
        case Apply("where", (_, *values)) if not conditions:
            for x in values:
                yield from numbers(x)
        case _:
            for x in e.children:
                yield from numbers(x, conditions)
