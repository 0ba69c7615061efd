"""Index letters: parses ranges and left sides, and finds the letters that a question introduces."""

from __future__ import annotations

from itertools import pairwise

from viete.errors import Text
from viete.notation.cursor import Cursor, end_token, parse_name
from viete.notation.lexer import Token, tokenize, unprimed
from viete.notation.parser import parse, parse_tokens
from viete.notation.symbols import Scope
from viete.notation.tree import Expr, Idx, Ref, Slot, Symbol


def parse_range(source: Text, scope: Scope) -> tuple[str, Expr, Expr]:
    """Parse ``i = 1, …, N`` (or ``i = 1 … N``)."""
    return parse_range_of(source, tokenize(source), scope)


def parse_range_of(
    source: Text, tokens: list[Token], scope: Scope
) -> tuple[str, Expr, Expr]:  # fmt: skip
    """As `parse_range`, from the tokens of the source; the last one is an end."""
    cut = next((k for k, t in enumerate(tokens) if t.text == "..."), None)
    if cut is None or len(tokens) < 5 or tokens[0].kind != "word" or tokens[1].text != "=":
        raise source.error("expected a range such as i = 1, …, N")

    def bound(part: list[Token], closing: Token) -> Expr:
        while part and part[0].text == ",":
            part = part[1:]
        while part and part[-1].text == ",":
            part = part[:-1]
        return parse_tokens(source, [*part, end_token(closing)], scope)

    return (
        tokens[0].text,
        bound(tokens[2:cut], tokens[cut]),
        bound(tokens[cut + 1 : -1], tokens[-1]),
    )


def parse_left(source: Text, letters: set[str], scope: Scope) -> Ref:
    """Parse the left side of an equation: a name, or a derivative of any block: ``∂x^{i-1}``.

    An index that is a formula over one of the ``letters`` takes that letter's place; other formulas
    are read as labels.
    """
    tokens = tokenize(source)
    if not any(t.text == "partial" for t in tokens[:1]):
        symbol = parse_name(source, "value", letters)
        return Ref(symbol, tuple(Idx(x) for x in symbol.slots))
    cursor = Cursor(source, tokens, Scope())
    base = cursor.accent()
    slots: dict[str, list[Slot]] = {"_": [], "^": []}
    index: dict[str, list[Expr]] = {"_": [], "^": []}
    for item in cursor.scripts():
        label, inside = item.label, letters & {t.text for t in item.tokens if t.kind == "word"}
        if len(inside) == 1:
            place = parse(source.cut(*item.at), scope.inside(letters))
            index[item.sign].append(place)
            label = inside.pop()
        slots[item.sign].append(Slot(label, label in letters))
    cursor.finish()
    symbol = Symbol("value", base, tuple(slots["_"]), tuple(slots["^"]))
    return Ref(symbol, tuple(index["_"] + index["^"]))


def own_letters(source: Text, scope: Scope) -> set[str]:
    """The index letters that a question or claim introduces, as j and k' in ``A_{j,k'+1}``.

    They are small letters in an index (in scripts or brackets) that are neither names of the scope
    nor words of a vocabulary without quotes. A letter with primes is a different letter, and the
    letter of a dimension may be used again.
    """
    found, depth, script = set[str](), 0, 0
    tokens = tokenize(source)
    for (before, token), after in zip(pairwise(tokens), [*tokens[2:], tokens[-1]], strict=False):
        begins = before.kind == "op" and before.text in ("_", "^", "[")
        if token.kind == "op" and token.text in "{}[]":
            depth += 1 if token.text in "{[" else -1
            script = script or (depth if begins or token.text == "[" else 0)
            script = 0 if depth < script else script
        elif (token.text, after.text) in (("c", "("), ("e", "^")):
            pass  # the functions
        elif token.kind == "word" and (script or begins):
            found.add(token.text)
    taken = scope.bases() | scope.functions.keys()
    if scope.heads is not None:
        taken.discard(scope.heads.letter)
    sizes = {x for x, group in scope.symbols.items() if all(s.kind == "dim" for s in group)}
    letters = {
        x for x in found - taken
        if (letter := unprimed(x)[0]) in scope.indices
        or (len(letter) == 1 and letter.islower() and letter not in (taken - sizes))
    }  # fmt: skip
    if letters and (words := scope.words()).bare:  # E[a] is the row of a word
        letters.difference_update(words)
    return letters


__all__ = ["own_letters", "parse_left", "parse_range", "parse_range_of"]
