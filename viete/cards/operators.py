r"""Functions among the derived names: ``\tilde{A}^i(y) = \tilde{A}^i with x^{i-1} = y``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from viete.errors import Text
from viete.graph.operator import Operator
from viete.library.functions import Argument, divided
from viete.notation.cursor import CLOSED, CLOSERS, end_token, parse_name, top_level
from viete.notation.lexer import Token, tokenize
from viete.notation.parser import parse_tokens
from viete.notation.symbols import Scope
from viete.notation.tree import CALL, WITH, Apply, Expr, Ref, Symbol

Line = tuple[Text, str]  # a formula and what it means


def is_function(math: Text) -> bool:
    """Whether an equation defines a function: its left side ends with a parenthesis."""
    tokens = tokenize(math)
    cut = next(top_level(tokens, "="), 0)
    return cut > 2 and tokens[cut - 1].text == ")"


def operators(lines: Iterable[Line], letters: Collection[str], scope: Scope) -> list[Operator]:
    """The functions that some lines define, each of those above it; ``scope`` then has them.

    Raises VieteError for a function that is defined twice, or whose definition cannot be read.
    """
    out: list[Operator] = []
    for math, meaning in lines:
        found = operator(math, meaning, letters, scope)
        if found.symbol in scope.operators:
            name = found.name.removesuffix(CALL)
            raise math.error(f"the function {name} is already defined above")
        scope.operators = scope.operators | {found.symbol: found.signature}
        out.append(found)
    return out


def operator(math: Text, meaning: str, letters: Collection[str], scope: Scope) -> Operator:
    """One function from its definition."""
    tokens = tokenize(math)
    cut = next(top_level(tokens, "="))
    opened = next(top_level(tokens[:cut], "("))
    plain = {s.key for group in scope.symbols.values() for s in group}
    right = {t.text for t in tokens[cut + 1 :] if t.kind == "word"}
    places = {x for x in right if len(x) == 1 and x.islower()} - plain - set(letters)
    name = math.cut(0, tokens[opened].start)
    symbol = parse_name(name, "function", {*letters, *places})
    below = [s for s in symbol.slots if s in places]
    inside = tokens[opened + 1 : cut - 1]
    given = [argument(math, part, tokens[opened]) for part in divided(inside, ",", ";")]
    names = [Symbol("argument", x) for x in below] + given
    if len(set(names)) < len(names):
        raise math.error(f"{name.text} names an argument twice", 0, tokens[cut].start)
    symbols = {base: [s for s in group if s.sub or s.sup or all(s.base != n.base for n in names)]
               for base, group in scope.symbols.items()}  # fmt: skip
    within = replace(scope, symbols=symbols)
    for n in names:
        within.declare(n)
    e = definition(math, tokens[cut + 1 :], within)
    return Operator(symbol, tuple(map(Argument, names)), e, meaning, math)


def argument(math: Text, tokens: list[Token], opened: Token) -> Symbol:
    """An argument, which is a single name; its size is that of the value it replaces."""
    if len(tokens) != 1 or tokens[0].kind != "word":
        at = (tokens[0].start, tokens[-1].end) if tokens else (opened.start, opened.end)
        raise math.error("a function of the card's values names its arguments, as in B_i(y)", *at)
    return Symbol("argument", tokens[0].text)


def definition(math: Text, tokens: list[Token], scope: Scope) -> Expr:
    """The right side: a formula, or one with some of its values replaced."""
    at = next(iter(words(tokens, WITH)), None)
    if at is None:
        return parse_tokens(math, tokens, scope)
    parts = [parse_tokens(math, [*tokens[:at], end_token(tokens[at])], scope)]
    for part in divided(tokens[at + 1 : -1], ","):
        equals = next(top_level(part, "="), None)
        if not equals or equals == len(part) - 1:
            raise math.error("'with' needs a replacement: with x^{i-1} = y",
                             tokens[at].start, tokens[at].end)  # fmt: skip
        last = part[-1]._replace(kind="end", text="", start=part[-1].end)
        parts += [parse_tokens(math, [*part[:equals], end_token(part[equals])], scope),
                  parse_tokens(math, [*part[equals + 1 :], last], scope)]  # fmt: skip
    for target in parts[1::2]:
        if not isinstance(target, Ref) or target.symbol.kind == "argument":
            raise math.error("'with' replaces a value of the card, as in with x^{i-1} = y",
                             tokens[at].start, tokens[at].end)  # fmt: skip
    return Apply(WITH, tuple(parts))


def words(tokens: list[Token], word: str) -> Iterable[int]:
    """The positions of a word outside all brackets."""
    depth = 0
    for k, t in enumerate(tokens):
        depth += (t.text in CLOSERS) - (t.text in CLOSED) if t.kind == "op" else 0
        if depth == 0 and t.kind == "word" and t.text == word:
            yield k
