"""Roles: what each equation of a transformer does, found from its operations, not from its name.

A product of two computed matrices over all pairs of positions makes scores, and its factors are
queries and keys. A softmax over positions makes attention weights. A product that sums over
positions reads values. Other analyses find the norms, residual sums, embeddings and token scores.
An equation may have several roles, listed in the order in which it computes them, or none.
"""

from __future__ import annotations

from collections.abc import Iterator

from viete.analysis.def_use import bodies, def_use, losses, references, sums
from viete.analysis.flows import flows_of
from viete.analysis.next_token import scores
from viete.analysis.side_roles import (
    COUNTED,
    PAIRS,
    PLACES,
    POOL,
    ROUTE,
    SHARE,
    SIZE,
    SideRoles,
    by_own_sum,
)
from viete.analysis.traits import Traits
from viete.analysis.types import Mismatch
from viete.analysis.weight_formulas import of_weights
from viete.errors import VieteError
from viete.graph.card import CardData, memoised
from viete.graph.evaluator import REDUCTIONS
from viete.graph.sizes import Size
from viete.notation.tree import Apply, Bind, Expr, Ref, Table, walk

EMBED, POSITIONS, NORM, RESIDUAL = "embed", "positions", "norm", "residual"
QUERY, KEY, VALUE = "query", "key", "value"
SCORES, MASK, WEIGHTS, MIX = "scores", "mask", "weights", "mix"
MLP, UNEMBED, PROBABILITIES, ARGMAX, LOSS = "mlp", "unembed", "probabilities", "argmax", "loss"
TURN = "turn"  # what makes a value depend on its position
BACK = "back"  # what brings what an MLP made to the width of the stream
SQUEEZE = "squeeze"  # what keeps scores within bounds
OUTPUT = "output"  # what turns a mix of values into what is added to the stream
ATTENTION = frozenset((QUERY, KEY, VALUE, SCORES, MASK, WEIGHTS, MIX, OUTPUT))


@memoised
def roles(card: CardData) -> tuple[tuple[str, ...], ...]:
    """The roles of every equation of a card, each in the order of computation."""
    return Recognition(card).roles()


class Recognition:
    """Finds the roles of one card's equations."""

    def __init__(self, card: CardData) -> None:
        self.card, self.uses = card, def_use(card)
        self.traits, self.shapes = Traits(card), self.uses.shapes
        self.kinds = flows_of(card).embeddings.kinds()
        try:
            self.scored = scores(card)
        except VieteError:
            self.scored = ""
        self.lengths = [s for s in (card.size(Ref(d.symbol)) for d in card.dims
                                    if d.name in card.lengths) if s]  # fmt: skip
        self.read: dict[int, dict[str, None]] = {}  # roles by the readers of a value

    def roles(self) -> tuple[tuple[str, ...], ...]:
        count = range(len(self.card.equations))
        self.own = own = [
            list(dict.fromkeys(self.of(k, self.card.equations[k].right))) for k in count
        ]
        for k in count:
            self.trace(k)
        for k, more in self.read.items():
            if (self.projects(k) or TURN in own[k]) and set(own[k]) <= {TURN, NORM}:
                own[k] += more
        self.spread(own)
        self.beside(own)
        return tuple(map(tuple, own))

    # -- one equation ------------------------------------------------------------------------------

    def of(self, k: int, e: Expr) -> Iterator[str]:
        """The roles of the operations of a formula, the innermost first."""
        for x in e.children:
            yield from self.of(k, x)
        whole = e is self.card.equations[k].right
        match e:
            case Ref() if e.symbol.kind == "parameter":
                kinds = self.kinds.get(e.key, frozenset())
                yield from ([EMBED] if "token" in kinds and not self.unembeds(k) else [])
                yield from [POSITIONS] * ("position" in kinds)
            case Apply("prod", (a, b)) if not any(of_weights(self.card, x) for x in (a, b)):
                yield from self.product(a, b)
            case Apply("add") if any(x in self.uses.residuals[k] for x in e.children
                                     if isinstance(x, Ref)):  # fmt: skip
                yield RESIDUAL
            case Apply("argmax"):
                yield ARGMAX
            case Apply(op) if op in self.card.function:
                yield from self.function(k, e)
            case Apply() if is_bent(e) and self.feeds(k):
                yield MLP
        if whole and self.unembeds(k):
            yield UNEMBED
        if whole and losses(self.card, e):
            yield LOSS
        if whole and not any(isinstance(x, Apply) and x.op in self.card.function for x in walk(e)):
            yield from [NORM] * self.traits.divides_by_root(e)

    def function(self, k: int, e: Apply) -> Iterator[str]:
        """The role of a named function: a norm, a mask, a softmax, or nonlinear on each entry."""
        name, body = self.card.library_name(e), self.card.function[e.op].body
        if name == "softmax":
            yield WEIGHTS if self.over_positions(e.args[0]) else PROBABILITIES
        elif any(map(self.traits.divides_by_root, bodies(self.card, body))):
            yield NORM
        elif any(map(hides, bodies(self.card, body))):
            yield MASK
        elif e.op in self.traits.positional(k):
            yield TURN if any(map(self.shape, e.args)) else POSITIONS
        elif self.feeds(k) and any(map(self.bends, (e, *walk(body)))):
            yield SQUEEZE if self.unembeds(k) or self.over_positions(e) else MLP

    def bends(self, e: Expr) -> bool:
        """Whether a formula applies a nonlinear function to each entry."""
        if not isinstance(e, Apply) or e.op not in self.card.function:
            return False
        found = list(bodies(self.card, self.card.function[e.op].body))
        return not any(map(joins, found)) and any(map(bent, found))

    def feeds(self, k: int) -> bool:
        """Whether an equation makes rows, for positions, of a product with weights."""
        rows = self.uses.shapes.types[self.card.equations[k].name].shape
        makers = {j for j in self.uses.makers[k] if j != k}
        return len(rows) == 2 and (self.projects(k) or any(map(self.projects, makers)))

    def product(self, a: Expr, b: Expr) -> Iterator[str]:
        left, right = self.shape(a), self.shape(b)
        if len(left) == 2 == len(right):
            if left[0] in self.lengths and right[1] in self.lengths:
                yield SCORES
            elif left[1] in self.lengths:
                yield MIX

    # -- several -----------------------------------------------------------------------------------

    def trace(self, k: int) -> None:
        """Give roles to the makers of the values that equation k's products read."""
        reads = {r.name for r in self.traits.reads[k]}
        for x in walk(self.card.equations[k].right):
            if not (isinstance(x, Apply) and x.op == "prod"):
                continue
            a, b = x.args
            if of_weights(self.card, a) or of_weights(self.card, b):
                continue
            for role in self.product(a, b):
                if role == SCORES:
                    turned = isinstance(a, Apply) and a.op == "T"
                    swap = turned and b.keys & reads and a.keys & reads
                    first, second = (KEY, QUERY) if swap else (QUERY, KEY)
                    self.mark(k, a, first)
                    self.mark(k, b, second)
                elif role == MIX:
                    pattern = self.shape(a)
                    self.mark(k, b if pattern[0] in self.lengths else a, VALUE)

    def mark(self, k: int, e: Expr, role: str) -> None:
        """Give a role to the makers of the values that a formula reads, through rotations."""
        for ref, bound in references(e):
            for j, _ in self.uses.definitions.of(k, ref, bound):
                found = self.read.setdefault(j, {})
                if role not in found:
                    found[role] = None
                    if TURN in self.own[j] and not self.projects(j):
                        self.mark(j, self.card.equations[j].right, role)

    def projects(self, k: int) -> bool:
        """Whether an equation multiplies a computed value with a matrix of weights."""
        return any(
            isinstance(x, Apply) and (x.op == "prod" or x.op in self.card.function)
            and any(of_weights(self.card, a) and len(self.shape(a)) == 2 for a in x.args)
            and not all(of_weights(self.card, a) for a in x.args)
            for x in walk(self.card.equations[k].right)
        )  # fmt: skip

    def spread(self, own: list[list[str]]) -> None:
        """Give projections around attention and the MLP their roles."""
        for k, found in enumerate(own):
            if not found and self.projects(k):
                last = {own[j][-1] for j in self.uses.makers[k] if own[j]}
                if MIX in last:
                    found.append(OUTPUT)
                elif MLP in last:
                    found.append(BACK)
                elif any(MLP in own[j] for j in self.uses.readers[k]):
                    found.append(MLP)
            elif not found and any(POSITIONS in own[j] for j in self.uses.makers[k]):
                found += [POSITIONS] * any(True for _ in sums(self.card.equations[k].right))

    def beside(self, own: list[list[str]]) -> None:
        """Give roles to equations beside attention and the MLP, by their readers."""
        side = SideRoles(self.card, self.uses, self.lengths)
        for k, makers in side.places():
            if free := {j for j in makers if not own[j]}:
                own[k].insert(own[k].index(EMBED) + 1 if EMBED in own[k] else 0, POSITIONS)
                for j in free:
                    own[j].append(PLACES)
        for k, found in enumerate(own):
            right, readers = self.card.equations[k].right, self.uses.readers[k]
            if PROBABILITIES in found and (between := side.weighs(k, own, {MLP, BACK})):
                found[found.index(PROBABILITIES)] = ROUTE
                for j in between - {k}:
                    own[j].append(SHARE if by_own_sum(self.card.equations[j].right) else ROUTE)
            if found:
                continue
            if side.adds_by_places(k) and any(SCORES in own[r] for r in readers):
                found.append(PAIRS)
            elif side.counts_positions(k) and any(PLACES in own[r] for r in readers):
                found.append(COUNTED)
            elif side.divides(k):
                found.append(SIZE)
            elif side.pools(k):
                found.append(POOL)
            elif by_own_sum(right):
                found.append(SHARE)

    # -- facts -------------------------------------------------------------------------------------

    def unembeds(self, k: int) -> bool:
        return self.card.equations[k].name == self.scored

    def shape(self, e: Expr) -> tuple[Size | None, ...]:
        try:
            return tuple(self.shapes.of(e).shape)
        except (Mismatch, VieteError, KeyError):
            return ()

    def over_positions(self, e: Expr) -> bool:
        shape = self.shape(e)
        return bool(shape) and shape[-1] in self.lengths


def hides(e: Expr) -> bool:
    """Whether a definition writes −∞ for entries that must not be seen."""
    return any(
        isinstance(x, Apply) and x.op == "where" and any(
            isinstance(y, Apply) and y.op in ("inf", "neg") and "inf" in {
                z.op for z in walk(y) if isinstance(z, Apply)} for y in x.args[1:])
        for x in walk(e)
    )  # fmt: skip


def joins(e: Expr) -> bool:
    """Whether a definition of rows makes one entry from several."""
    return any(isinstance(x, Table | Bind) or (isinstance(x, Apply) and len(x.args) == 1
               and x.op in REDUCTIONS) for x in walk(e))  # fmt: skip


def bent(e: Expr) -> bool:
    """Whether a definition of one entry is nonlinear in it."""
    return any(isinstance(x, Apply) and (x.op == "exp" or is_bent(x)) for x in walk(e))


def is_bent(e: Apply) -> bool:
    """Whether a formula is a nonlinear operation on an entry: erf, tanh, a maximum of two."""
    return e.op in ("erf", "tanh") or (e.op == "max" and len(e.args) == 2)


__all__ = ["COUNTED", "PAIRS", "PLACES", "POOL", "ROUTE", "SHARE", "SIZE", "roles"]
