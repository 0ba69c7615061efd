"""Put: interventions as equations, each folded into the equation whose value it changes.

``A^{2,1} = 0`` turns the equation of A into ``A^{i,h} = where(i = 2 and h = 1, 0, softmax(…))``, an
ordinary equation, so every meaning and every rewriting can use it; see `viete.rewrite.folding_in`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from viete.analysis.shapes import shapes_of
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Equation
from viete.notation.heads import head_of, joint
from viete.notation.printer import show
from viete.notation.substitution import Abstraction, substitute
from viete.notation.symbols import Scope
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Pick,
    Ref,
    Slot,
    Symbol,
    num,
    refs,
    transform,
    walk,
)
from viete.rewrite.carried import with_carried
from viete.rewrite.folding_in import FoldingIn, labelled
from viete.rewrite.naming import with_equation
from viete.rewrite.opening import underived
from viete.rewrite.ordering import ordered
from viete.rewrite.paths import seen_by_readers
from viete.rewrite.replacement import Naming, Replacement, parse_replacement

FAMILY = "config model_type"  # the fact by which a card is one of `transformers`
EVIDENCE = "measured in"  # the fact that names the card in which its claims are measured besides
NEW = "new"  # the label of what takes the place of what is given

Given = Callable[[CardData, Expr], tuple[CardData, Expr]]


def put(
    card: CardData, equations: Iterable[Text],
    scope: Callable[[CardData], Scope] = lambda card: card.scope,
    given: Given = lambda card, e: (card, e),
) -> CardData:  # fmt: skip
    """The card with some equations changed, one after the other, and with new derived names.

    ``scope`` gives the names that an equation may use, by default the card's; ``given`` replaces
    parts of a formula that the card lacks by parameters. Raises VieteError, pointing into the
    equation, for a name or a member that the card does not have, for a shape that does not fit, and
    where a value would depend on itself.
    """
    for text in equations:
        found = parse_replacement(text, card, scope(card))
        check_bounds(card, found.right, text)
        card, right = given(card, found.right)
        found = replace(found, right=right)
        card = with_name(card, found) if isinstance(found, Naming) else changed(card, found)
    return card


def with_name(card: CardData, new: Naming) -> CardData:
    """The card with one more derived name."""
    named = replace(card, derived=(*card.derived, Equation(new.left, new.right, text=new.text)))
    return checked(named, new.text)


def changed(card: CardData, change: Replacement) -> CardData:
    """The card with a change applied."""
    change = by_groups(change)
    check_letters(card, change)
    card = with_directions(card, change.right)
    change = replace(change, right=underived(card, change.right))
    card, change = as_equation(card, change)
    blocks = dict(zip(change.left.symbol.slots, change.left.index, strict=True))
    card, right = with_carried(card, change.right, change.left.key, blocks, change.right_text)
    change = replace(change, right=right)
    found = seen_by_readers(card, change) if change.readers else FoldingIn(card, change).card()
    return checked(unlike_family(ordered(found, change.text)), change.text)


def by_groups(change: Replacement) -> Replacement:
    """The change in letters of the card, where h counts the heads of grouped queries: g and r."""
    index = dict(zip(change.left.symbol.slots, change.left.index, strict=True))
    for (group, x), (member, y) in pairwise(index.items()):
        head, found = joint(x, y), head_of(x)
        if not isinstance(head, Idx) or found is None:
            continue
        before = Apply("times", (Apply("sub", (Idx(group), num(1))), found[1]))
        letters = {head.name: Apply("add", (before, Idx(member)))}
        known = {substitute(e, letters=letters): z for e, z in ((x, Idx(group)), (y, Idx(member)))}

        def rule(e: Expr, letters: Any = letters, known: Any = known) -> Expr:
            return transform(substitute(e, letters=letters), known.get)

        left = rule(change.left)
        assert isinstance(left, Ref)
        change = replace(
            change,
            left=left,
            items=tuple(map(rule, change.items)),
            right=rule(change.right),
            conditions=tuple(map(rule, change.conditions)),
        )
    return change


def unlike_family(card: CardData) -> CardData:
    """The card without facts of its family and evidence, which no longer apply."""
    facts = tuple(f for f in card.facts if f[0] not in (FAMILY, EVIDENCE))
    return replace(card, facts=facts)


def check_letters(card: CardData, change: Replacement, more: Collection[str] = ()) -> None:
    """Check that right side and conditions use only letters of the left side, or ``more``."""
    own = frozenset(more).union(*(x.free for x in (*change.left.index, *change.items)))
    for e in (change.right, *change.conditions):
        if loose := sorted(e.free - own):
            where = change.right_text.place(Idx(loose[0])) if e is change.right else (0, None)
            source = change.right_text if e is change.right else change.text
            what = show(Pick(change.left, change.items) if change.items else change.left)
            raise source.error(f"{loose[0]} is not a letter of {what}, so it has no meaning here",
                                    *where)  # fmt: skip


def unbounded(card: CardData, e: Expr) -> Bind | None:
    """A sum over blocks, or another fold, whose letter has no bounds."""
    folds = (x for x in walk(e) if isinstance(x, Bind) and x.ranges is None)
    return next((x for x in folds if card.over_blocks(x)), None)


def check_bounds(card: CardData, e: Expr, source: Text) -> None:
    """Check that the sums over blocks in an equation say over which blocks they are."""
    if (fold := unbounded(card, e)) is not None:
        own = {fold.index, *(slot for slot, x in fold.body.standing if x == fold.index)}
        loop = next(x for x in card.loops if x.index in own)
        whole = Bind(fold.op, fold.index, loop.lower, loop.upper, fold.body)
        raise source.error(f"{show(fold)} needs bounds in an equation: write {show(whole)}",
                           *source.place(fold))  # fmt: skip


def checked(card: CardData, source: Text) -> CardData:
    """The card, if it is well-formed. Raises VieteError at the change that breaks it."""
    try:
        shapes_of(card)
    except VieteError as error:
        raise source.error(error.message) from None
    return card


def with_directions(card: CardData, e: Expr) -> CardData:
    """The card in which derived names of weights that a formula reads are computed once.

    Each becomes the name of an equation, before all others.
    """
    first = [d for d in card.derived if d.name in e.keys and not d.left.symbol.slots
             and not any(x.symbol.kind in ("value", "input") for x in refs(d.right))]  # fmt: skip
    rest = tuple(d for d in card.derived if d not in first)
    return replace(card, derived=rest, equations=(*first, *card.equations)) if first else card


def as_equation(card: CardData, change: Replacement) -> tuple[CardData, Replacement]:
    """The change as a change of an equation's value.

    A derived name for another name stands for that, and a value that equations compute without a
    name gets one. A parameter or an input gets an equation ``W_{new}^i = W^i``, whose value all
    formulas read instead.
    """
    change = since_changed(card, change)
    card, left = with_equation(card, change.left, change.left_text)
    if left.symbol.kind == "value":
        return card, replace(change, left=left)
    new = labelled(card, left.symbol, NEW)
    whole = Abstraction(new.slots, new.member)
    loop = next((x for x in card.loops if x.index in new.slots), None)
    equation = Equation(new.member, left.symbol.member, loop)
    reading = card.with_formulas(lambda e: card.substitute(e, names={left.key: whole}))
    place = next((k for k, e in enumerate(card.equations) if e.loop == loop or loop is None), 0)
    equation = replace(equation, part=card.equations[place].part, text=change.text)
    before, after = reading.equations[:place], reading.equations[place:]
    card = replace(reading, equations=(*before, equation, *after))
    return card, replace(change, left=Ref(new, left.index))


def since_changed(card: CardData, change: Replacement) -> Replacement:
    """A change that refers to the new values of parameters and inputs changed before."""
    made = {e.name: e for e in card.equations}
    names: dict[str, Abstraction] = {}
    for symbol in (x.symbol for some in (card.parameters, card.inputs) for x in some):
        e = made.get(new_symbol(symbol).key)
        if e is not None and symbol.key in e.reads:
            names[symbol.key] = Abstraction(e.left.symbol.slots, e.left.symbol.member)
    if not names:
        return change
    new = partial(card.substitute, names=names)
    left = new(change.left)
    assert isinstance(left, Ref)
    return replace(change, left=left, right=new(change.right),
                   conditions=tuple(map(new, change.conditions)))  # fmt: skip


def new_symbol(given: Symbol) -> Symbol:
    """The name of the value that replaces a parameter or an input."""
    return replace(given, kind="value", sub=(*given.sub, Slot(NEW)))


__all__ = ["changed", "put", "unlike_family"]
