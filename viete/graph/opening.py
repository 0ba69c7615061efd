r"""Opening: puts the definitions in for values of a formula, down to values that are then replaced.

``\tilde{M}^i`` opened at ``y^i`` is the card's own MLP as a formula of ``y^i``, which any other
formula may replace. That is the meaning of ``\tilde{M}^i with y^i = y``; so a card can name some of
its equations as a function without writing them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from viete.errors import VieteError
from viete.graph.card import CardData, memoised
from viete.graph.dependence import reachable
from viete.graph.operator import Operator
from viete.graph.sizes import Size
from viete.library.functions import Argument
from viete.notation.printer import show
from viete.notation.substitution import fresh
from viete.notation.tree import WITH, Apply, Expr, Idx, Ref, Symbol, rebuilt

MOST_NODES = 100_000  # of an opened formula, of which each is counted once
MOST_BLOCKS = 64  # that a formula is opened through


def opened(card: CardData, e: Expr, targets: Mapping[Ref, Expr]) -> Expr:
    """A formula of the card with ``targets`` replaced, and the definitions between them put in.

    What does not lead to a target stays a name. Nothing that is put in is captured by a binder.
    Raises VieteError where that goes through too many blocks, or through blocks without numbers.
    """
    holes = {t: Symbol("argument", f"{k}", ()) for k, t in enumerate(targets)}
    found = Opening(card, {t: Ref(symbol) for t, symbol in holes.items()}).into(e)
    put = {holes[t].key: new for t, new in targets.items()}
    return card.substitute(card.apart(found), arguments=put)


class Opening:
    """Opens one formula at a time; each name is opened once."""

    def __init__(self, card: CardData, targets: Mapping[Ref, Expr]) -> None:
        self.card, self.targets = card, targets
        self.made: dict[Expr, Expr] = {}
        self.open: list[Ref] = []
        self.equations = (*card.equations, *card.derived)
        readers: dict[str, list[str]] = {}
        for e in self.equations:
            for name in e.reads:
                readers.setdefault(name, []).append(e.name)
        self.leading = reachable((t.key for t in targets), lambda name: readers.get(name, ()))

    def into(self, e: Expr) -> Expr:
        """A formula, opened."""
        if e.keys.isdisjoint(self.leading):
            return e
        if e not in self.made:
            if len(self.made) > MOST_NODES:
                raise VieteError(f"{show(e):.60} is too long with its definitions put in")
            parts = rebuilt(e, [self.into(x) for x in e.children])
            self.made[e] = self.name(parts) if isinstance(parts, Ref) else parts
        return self.made[e]

    def name(self, ref: Ref) -> Expr:
        """The formula for a name: a target's replacement, its opened definition, or itself."""
        if ref in self.targets:
            return self.targets[ref]
        if ref.key not in self.leading or all(self.earlier(ref, t) for t in self.targets):
            return ref
        again = sum(x.key == ref.key for x in self.open)
        if again > (0 if ref.free else MOST_BLOCKS):
            raise VieteError(f"{show(ref)} leads to {show(next(iter(self.targets)))} through more "
                             f"blocks than can be opened")  # fmt: skip
        definition = self.definition(ref)
        if definition is None:
            return ref
        self.open.append(ref)
        found = self.into(definition)
        self.open.pop()
        return ref if found is definition else found

    def earlier(self, ref: Ref, target: Ref) -> bool:
        """Whether a name belongs to a block before the target's, and so is independent of it."""
        mine, its = (self.card.block_index(x) for x in (ref, target))
        if len(mine) != 1 or len(its) != 1:
            return False
        steps = self.steps(its[0], mine[0])
        return steps is not None and steps < 0

    def steps(self, first: Expr, second: Expr) -> Fraction | None:
        """The number of blocks between two names, if it is known."""
        a, b = (self.card.size(x, lambda letter: Size.of(f"{letter} of a block"))
                for x in (first, second))  # fmt: skip
        return None if a is None or b is None else (b - a).value(self.card.sizes)

    def definition(self, ref: Ref) -> Expr | None:
        """The right side that defines a value at its index; None if it has no equation."""
        made = [e for e in self.equations if e.name == ref.key]
        for e in sorted(made, key=lambda e: bool(e.left.free)):  # x^0 before x^i
            letters: dict[str, Expr] = {}
            for place, index in zip(e.left.index, ref.index, strict=True):
                if isinstance(place, Idx):
                    letters[place.name] = index
                elif self.steps(place, index) != 0:
                    break
            else:
                return self.card.substitute(e.right, letters=letters)
        return None


@dataclass(frozen=True)
class OpenedBody:
    """The body of a function of a card's values, over its arguments and the letters of its name.

    ``shared`` are the parts that stand in it more than once, which are computed once a call.
    """

    formula: Expr
    arguments: tuple[Argument, ...]
    shared: frozenset[Expr]


@memoised
def body_of(card: CardData, operator: Operator) -> OpenedBody:
    """The `OpenedBody` of one of the card's functions. Raises VieteError at its place in the card.

    Its arguments have names of their own there, so that the values that come in keep theirs.
    """
    own: dict[str, Argument] = {}
    for a in operator.arguments:
        taken = card.names | {x.symbol.base for x in own.values()}
        word = fresh(taken, (f"{a.symbol.base}_given", "given"))
        own[a.symbol.key] = replace(a, symbol=Symbol("argument", word))
    put = {key: Ref(a.symbol) for key, a in own.items()}
    e = card.substitute(operator.definition, arguments=put)
    if isinstance(e, Apply) and e.op == WITH:
        whole, *pairs = e.args
        targets = {t: new for t, new in zip(pairs[::2], pairs[1::2], strict=True)
                   if isinstance(t, Ref)}  # fmt: skip
        try:
            e = opened(card, whole, targets)
        except VieteError as error:
            raise operator.text.error(error.message) from None
        if e is whole and not nought(card, whole):
            raise operator.text.error(f"{show(whole)} is not made of {show(pairs[0])}")
    return OpenedBody(e, tuple(own.values()), repeated(e, frozenset(operator.letters)))


def nought(card: CardData, e: Expr) -> bool:
    """Whether a member of a family has a number where the others have a part, such as no MLP."""
    if isinstance(e, Ref):
        return any(d.name == e.key and d.right.constant for d in card.derived)
    return e.constant


def repeated(e: Expr, letters: frozenset[str]) -> frozenset[Expr]:
    """The parts that occur several times in a formula and depend on no other letters."""
    parents = Counter[Expr]()
    waiting, seen = [e], {e}
    while waiting:
        for x in waiting.pop().children:
            parents[x] += 1
            if x not in seen:
                seen.add(x)
                waiting.append(x)
    return frozenset(x for x, n in parents.items() if n > 1 and x.children and x.free <= letters)
