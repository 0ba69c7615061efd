"""Relevance: a card with the same values as a model, whose gradients are relevances (RelP).

The rules are in ``relevance.md``. The relevances of a layer add up to the number that they explain,
except for the parts that constants such as biases add.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from viete.analysis.kinds import FLAT, REAL
from viete.analysis.shapes import shapes_of
from viete.graph.card import CardData, memoised, with_right
from viete.graph.matching import Match, put
from viete.graph.rules import ADMITS, Rule, head, table
from viete.notation.substitution import Put
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, Table, rebuilt, refs
from viete.rewrite.adjoint.single_where import by_entry

LINEAR = frozenset(("add", "sub", "neg", "times", "had", "div", "prod", "where", "max", "min"))
MADE = ("a", "b", "z", "A", "B")  # letters of the rules that stand for what the text makes


@memoised
def relevance(card: CardData) -> CardData:
    """The same values, by equations whose gradients by values are relevances."""
    rules = {
        title: [rule.among(card.hidden) for rule in found]
        for title, found in table("rewrite", "relevance.md").items()
    }
    (ratio,) = rules["Entry by entry"]
    for title in ("Written out", "Held"):
        card = Relevances(card, rules[title]).card()
    return Relevances(card, rules["Halves"], ratio).card()


class Relevances:
    """Applies rules once to each formula of a card, from the leaves up."""

    def __init__(self, card: CardData, rules: Sequence[Rule], ratio: Rule | None = None) -> None:
        self.before, self.rules, self.ratio = card, rules, ratio
        self.made = self.from_text()
        moves: Mapping[str, Callable[[Put], bool]] = dict.fromkeys(MADE, self.moves)
        self.admits = {**ADMITS, **moves}

    def card(self) -> CardData:
        """The card with the rules applied to its equations."""
        card = self.before
        equations = (with_right(e, card.apart(self.of(e.right))) for e in card.equations)
        return replace(card, equations=tuple(equations))

    def of(self, e: Expr) -> Expr:
        """A formula with the rules applied; a constant is unchanged."""
        if self.held(e):
            return e
        e = rebuilt(e, [self.of(x) for x in e.children])
        functions = self.before.function
        for rule in self.rules:
            fits = rule.fits(e, functions, self.admits) if rule.head == head(e) else None
            if fits is not None:
                return put(rule.formulas[0][1], fits)
        if self.ratio is None or not isinstance(e, Apply) or e.op in LINEAR:
            return e
        moving = [x for x in e.args if self.moves(x)]
        if len(moving) != 1 or not by_entry(e, functions):
            return e
        return put(self.ratio.formulas[0][1], Match({"y": e, "z": moving[0]}))

    def held(self, e: Expr) -> bool:
        """Whether a formula is explicitly held: no derivative passes through it."""
        return isinstance(e, Apply) and self.before.library_name(e) == "held"

    def moves(self, e: Put) -> bool:
        """Whether a derivative passes from a formula to values that depend on the text."""
        match e:
            case Ref():
                return e.key in self.made
            case Pick():
                chosen = any(x.symbol.kind == "input" for i in e.items for x in refs(i))
                return self.moves(e.value) or (chosen and isinstance(e.value, Ref))
            case Bind() | Table():
                return self.moves(e.body)
            case Apply() if not self.held(e) and e.op not in FLAT:
                return any(map(self.moves, e.args[1:] if e.op == "where" else e.args))
        return False

    def from_text(self) -> Collection[str]:
        """The inputs and the values that depend on real inputs, or on vectors of tokens."""
        self.made = {i.name for i in self.before.inputs if i.high is None}
        types = shapes_of(self.before).types
        while True:
            count = len(self.made)
            for e in self.before.equations:
                if types[e.name].kind == REAL and self.moves(e.right):
                    self.made.add(e.name)
            if len(self.made) == count:
                return self.made


__all__ = ["relevance"]
