"""Reparametrization: equations and weights that change together, and how each weight is made."""

from __future__ import annotations

from dataclasses import dataclass, replace

from viete.errors import Text, VieteError
from viete.graph.card import CardData, Equation, Parameter
from viete.notation.printer import show, show_equation
from viete.notation.tree import Apply, Expr, Ref, Slot, Symbol, refs, replaced, walk
from viete.rewrite.inlining import names_in, without_unused
from viete.rewrite.lifting import again
from viete.rewrite.simplify import simplified

FOLDED, MADE = ", folded", "made as "
UNEMBEDDING = Symbol("parameter", "W", (Slot("U"),))


@dataclass(frozen=True)
class Folding:
    """A card, and how its new weights are made: formulas over the parameters of ``old``.

    A weight without a formula is the old one of that name.
    """

    old: CardData
    model: CardData
    weights: tuple[Equation, ...]


class Work:
    """The equations and parameters of a card while it is rewritten.

    ``made`` has the formula of every new weight, over the old card's; ``copied`` maps what was
    replaced to those with a new name.
    """

    def __init__(self, card: CardData) -> None:
        self.model = card
        self.equations = list(card.equations)
        self.parameters = {p.name: p for p in card.parameters}
        self.made: dict[str, Equation] = {}
        self.copied: dict[Expr, Ref] = {}

    def folding(self, what: str) -> Folding:
        """The resulting card, with a sentence about the change."""
        old = self.model
        title = old.title if old.title.endswith(FOLDED) else old.title + FOLDED
        facts = tuple(f for f in old.facts if not f[0].startswith(("config", "ignore")))
        model = replace(
            old, title=title, about=(*old.about, what), facts=facts,
            equations=tuple(self.equations),
            parameters=tuple(self.described(p) for p in self.parameters.values()),
            derived=(), operators=(), claims=(),
        )  # fmt: skip
        names = [p.name for p in old.parameters] + [d.name for d in old.dims]
        model = without_unused(model, names)
        there = {p.name for p in model.parameters}
        made = tuple(e for e in self.made.values() if e.name in there)
        return Folding(old, self.with_names(model), made)

    def with_names(self, card: CardData) -> CardData:
        """The new card with the derived names of the old one, made from its new weights.

        A derived name is lost with a weight that it contains, and with one that now differs from
        place to place. Claims about weights were about the old ones.
        """
        lost = {p.name for p in self.model.parameters} - {p.name for p in card.parameters}
        lost |= {old.key for old in self.copied if isinstance(old, Ref)}
        weights, derived = set(self.parameters), []
        for e in self.model.derived:
            right = replaced(e.right, self.copied)
            names = names_in([right])
            weights |= {e.name} if names & weights else set()
            if names & lost:
                lost.add(e.name)
            else:
                derived.append(e if right == e.right else again(e, e.left, right))
        operators = tuple(
            replace(o, definition=replaced(o.definition, self.copied))
            for o in self.model.operators if not names_in([o.definition]) & lost
        )  # fmt: skip
        about_weights = lost | weights
        claims = (c for c in self.model.claims if not names_in(c.formulas) & about_weights)
        return replace(
            card, derived=tuple(derived), operators=operators, claims=tuple(claims)
        )  # fmt: skip

    def described(self, p: Parameter) -> Parameter:
        """A parameter whose meaning says what it is made of; no file contains it."""
        if p.name not in self.made:
            return replace(p, checkpoint="")
        formula = show(self.made[p.name].right, "unicode")
        word = ", then " if MADE in p.meaning else f"; {MADE}" if p.meaning else MADE
        meaning = f"{p.meaning}{word}{formula}"
        return replace(p, checkpoint="", init="", value="", meaning=meaning)

    def change(self, k: int, within: Expr, old: Expr, new: Expr) -> Ref:
        """Replace a weight, within part of equation k, by the formula ``new``; return its new name.

        ``old`` is a parameter or a formula of one. It keeps its name if it is used nowhere else.
        """
        symbol = self.named(old)
        left = symbol.member
        if left != old:
            self.copied[old] = left
        equation = self.equations[k]
        right = replaced(equation.right, {within: replaced(within, {old: left})})
        self.equations[k] = again(equation, equation.left, right)
        self.define(left, new)
        return left

    def untie(self, ref: Ref) -> None:
        """Give a weight that is transposed elsewhere a separate name: ``W_U = W_E^T``."""
        turned = Apply("T", (ref,))
        for k, e in enumerate(self.equations):
            if any(x == turned for x in walk(e.right)):
                self.change(k, turned, turned, turned)

    def named(self, old: Expr) -> Symbol:
        """The symbol of a weight's replacement in one place."""
        if isinstance(old, Ref) and self.uses(old.key) == 1:
            return old.symbol
        p = self.parameters[next(refs(old)).key]
        turned = isinstance(old, Apply) and old.op == "T"
        symbol = UNEMBEDDING if turned else replace(p.symbol, base=f"tilde{{{p.symbol.base}}}")
        self.declare(Parameter(symbol, p.shape[::-1] if turned else p.shape, p.dtype))
        return symbol

    def declare(self, p: Parameter) -> None:
        """Add a parameter. Raises VieteError if the card has its name already."""
        taken = {s.key for group in self.model.scope.symbols.values() for s in group}
        if p.name in taken | self.parameters.keys():
            raise VieteError(
                f"{self.model.title} would need a new weight {p.name}, but already has a "
                "weight of that name"
            )
        self.parameters[p.name] = p

    def define(self, left: Ref, new: Expr) -> None:
        """Record the formula of a weight."""
        right = simplified(new)
        self.made[left.key] = Equation(left, right, text=Text(show_equation(left, right)))

    def uses(self, key: str) -> int:
        """The number of times that a parameter or a value occurs in the equations."""
        return sum(x.key == key for e in self.equations for x in refs(e.right))

    def add_bias(self, k: int, beside: Expr, weight: Ref, added: Expr) -> None:
        """Add a vector, made of parameters, to the term ``beside`` of equation k.

        It is added to an existing bias there, or becomes a new one, named after ``weight``, with
        the index letters of ``added``.
        """
        equation = self.equations[k]
        for x in walk(equation.right):
            if isinstance(x, Apply) and x.op == "add" and x.args[0] == beside:
                bias = x.args[1]
                if isinstance(bias, Ref) and is_parameter(bias) and self.uses(bias.key) == 1:
                    made = self.made.get(bias.key)
                    self.define(bias, Apply("add", (made.right if made else bias, added)))
                    return
        letters = added.free | self.model.loop_letters
        sub, sup = (tuple(s for s in slots if not s.index or s.text in letters)
                    for slots in (weight.symbol.sub, weight.symbol.sup))  # fmt: skip
        symbol = Symbol("parameter", "b", sub, sup)
        self.declare(Parameter(symbol, self.parameters[weight.key].shape[-1:], meaning="bias"))
        left = symbol.member
        right = replaced(equation.right, {beside: Apply("add", (beside, left))})
        self.equations[k] = again(equation, equation.left, right)
        self.define(left, added)


def is_parameter(e: Expr) -> bool:
    """Whether a formula is the name of a parameter."""
    return isinstance(e, Ref) and e.symbol.kind == "parameter"
