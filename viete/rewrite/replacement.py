"""An intervention as written: ``x^3_j = x^3_j + 4 p in Q^{5,1} for j ≥ 5``.

The left side is a value, some members of its family, or some of its rows or entries. After ``for``
come conditions on the letters of the left side, and after ``in`` the only values that read the
change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from viete.analysis.value_names import check_heads, check_own
from viete.errors import Text, VieteError
from viete.graph.card import CardData
from viete.graph.conditions import joined
from viete.notation.cursor import CLOSED, CLOSERS, parse_name, top_level
from viete.notation.letters import own_letters, parse_range
from viete.notation.lexer import Token, tokenize
from viete.notation.parser import parse
from viete.notation.symbols import Scope
from viete.notation.tree import Apply, Expr, Idx, Pick, Ref, Symbol

SUCH_AS = "such as A^{2,1} = 0 or x^3_j = 0 for j ≥ 5"


@dataclass(frozen=True)
class Replacement:
    """A formula that replaces a value, or some rows (``items``) of it, and where.

    ``conditions`` are over the index letters of ``left`` and ``items``; only ``readers``, if any
    are given, read the change.
    """

    left: Ref
    items: tuple[Expr, ...]
    right: Expr
    conditions: tuple[Expr, ...] = ()
    readers: tuple[Ref, ...] = ()
    text: Text = field(default=Text(""), compare=False, repr=False)
    left_text: Text = field(default=Text(""), compare=False, repr=False)
    right_text: Text = field(default=Text(""), compare=False, repr=False)


@dataclass(frozen=True)
class Naming:
    """A new derived name for a formula."""

    left: Ref
    right: Expr
    text: Text = field(default=Text(""), compare=False, repr=False)


def parse_replacement(source: Text, card: CardData, scope: Scope) -> Replacement | Naming:
    """Read an equation that changes a card, or that names something new.

    Raises VieteError, pointing at the symbol, for anything else.
    """
    tokens = tokenize(source)
    equals = next(top_level(tokens, "="), None)
    if equals is None:
        raise source.error(f"write a change as an equation, {SUCH_AS}")
    words = [k for k in words_of(tokens, equals) if tokens[k].text not in scope.symbols]
    own = next((k for k in words if tokens[k].text == "for"), len(tokens) - 1)
    reads = next((k for k in words if tokens[k].text == "in" and k < own), own)

    def piece(first: int, last: int) -> Text:
        found = source.cut(tokens[first].start, tokens[last].start)
        if not found.text:
            raise source.error("a formula is missing here", tokens[last].start, tokens[last].end)
        return found

    left_text, right_text = piece(0, equals), piece(equals + 1, reads)
    inner = scope.inside(own_letters(left_text, scope))
    if (name := new_name(left_text, card, inner)) is not None:
        if own < len(tokens) - 1 or reads < own:
            raise source.error(f"{name.key} is a new name, so it must mean one formula everywhere")
        return Naming(name.member, parse(right_text, scope), source)
    place = parse(left_text, inner)
    value, items = (place.value, place.items) if isinstance(place, Pick) else (place, ())
    if not isinstance(value, Ref) or value.symbol.kind in ("dim", "argument"):
        raise left_text.error(
            f"the left side of a change must be a value of {card.title}, a row or an entry, "
            f"{SUCH_AS}"
        )
    readers: tuple[Ref, ...] = ()
    right = inner.inside(own_letters(right_text, inner))
    if reads < own:
        readers = tuple(reader(t, card, inner) for t in listed(source, tokens, reads + 1, own))
    tests = []
    if own < len(tokens) - 1:
        tests = [condition(t, inner) for t in listed(source, tokens, own + 1, len(tokens) - 1)]
    check_heads(card, value, left_text, tests)
    check_own(card, value, left_text)
    return Replacement(value, items, parse(right_text, right), tuple(tests), readers,
                       source, left_text, right_text)  # fmt: skip


def new_name(source: Text, card: CardData, scope: Scope) -> Symbol | None:
    """The name on the left side, if it is new to the card: a letter or word with labels."""
    tokens = tokenize(source)
    if any(t.text == "[" for t in tokens):
        return None
    try:
        symbol = parse_name(source, "value", set(scope.indices))
    except VieteError:
        return None
    if any(x.key == symbol.key for x in card.scope.symbols.get(symbol.base, ())):
        return None
    labels = [s.text for s in (*symbol.sub, *symbol.sup) if not s.index]
    if symbol.base in card.scope.symbols:  # another label of its letter, as x_{probe}
        labels = [x for x in labels if len(x) == 1 or x.isdigit()] or [
            x for x in ["x"] if not labels or not all(y.isalpha() for y in labels)
        ]
        return None if labels else symbol
    if symbol.sup and any(s.text.isdigit() for s in symbol.sup):
        raise source.error(f"{card.title} has no {symbol.base}{scope.suggest(symbol.base)}")
    if symbol.key in scope.functions or symbol.key in scope.indices:
        raise source.error(f"{symbol.key} already means something else here")
    return symbol


def words_of(tokens: list[Token], start: int) -> list[int]:
    """The positions from ``start`` on of words outside all brackets."""
    found, depth = [], 0
    for k in range(start, len(tokens)):
        kind, text = tokens[k][:2]
        if kind == "op":
            depth += (text in CLOSERS) - (text in CLOSED)
        elif kind == "word" and not depth:
            found.append(k)
    return found


def listed(source: Text, tokens: list[Token], first: int, last: int) -> list[Text]:
    """The parts between commas outside all brackets; ``i = 2, …, 4`` is one."""
    if first == last:
        raise source.error("the formula ends too early here", tokens[first - 1].start)
    commas = [k for k in top_level(tokens[:last], ",", start=first)
              if "..." not in (tokens[k - 1].text, tokens[k + 1].text)]  # fmt: skip
    return [source.cut(tokens[a + 1].start, tokens[b].start)
            for a, b in pairwise([first - 1, *commas, last])]  # fmt: skip


def reader(source: Text, card: CardData, scope: Scope) -> Ref:
    """A value that reads a change; its letters may differ from those of the changed value."""
    found = parse(source, scope.inside(own_letters(source, scope)))
    if not isinstance(found, Ref) or found.symbol.kind != "value":
        raise source.error("after 'in' write the values that read the change, such as Q^{5,1}")
    check_heads(card, found, source)
    check_own(card, found, source, by_number=False)
    return found


def condition(source: Text, scope: Scope) -> Expr:
    """``j ≥ 5``, ``j in {3, 4}``, ``i = 2, …, 4``."""
    tokens = tokenize(source)
    member = next((k for k, t in enumerate(tokens) if t.text in ("∈", "in")), None)
    if member is not None:
        return among(source, tokens, member, scope)
    if any(t.text == "..." for t in tokens):
        letter, lower, upper = parse_range(source, scope)
        return between(Idx(letter), lower, upper)
    return parse(source, scope)


def among(source: Text, tokens: list[Token], sign: int, scope: Scope) -> Expr:
    """``j in {3, 4, 5}``, ``j ∈ {3, …, 5}``."""
    what = parse(source.cut(0, tokens[sign].start), scope)
    opened, closed = tokens[sign + 1], tokens[-2]
    if opened.text not in ("{", "\\{") or CLOSERS.get(opened.text) != closed.text:
        raise source.error("a set is written {3, 4} or {3, …, 5}", opened.start)
    parts = listed(source, tokens, sign + 2, len(tokens) - 2)
    if any(t.text == "..." for t in tokens):
        ends = source.cut(opened.end, closed.start)
        _, lower, upper = parse_range(Text("i = " + ends.text), scope)
        return between(what, lower, upper)
    return joined([Apply("eq", (what, parse(part, scope))) for part in parts], "or")


def between(what: Expr, lower: Expr, upper: Expr) -> Expr:
    """``lower ≤ what ≤ upper``."""
    return Apply("and", (Apply("le", (lower, what)), Apply("le", (what, upper))))


__all__ = ["Naming", "Replacement", "parse_replacement"]
