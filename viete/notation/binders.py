r"""Binders: ``\sum_{h=1}^{H} …``, ``concat_{g,r}(…)``, ``table_{j<n, k<m}(…)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viete.notation.cursor import Script
from viete.notation.lexer import Token
from viete.notation.tree import Bind, Expr, Table

if TYPE_CHECKING:
    from viete.notation.parser import Parser


def binder(parser: Parser, op: str, t: Token) -> Expr:
    r"""``\sum_{h=1}^{H} …``, ``concat_{g,r}(…)``; a sum includes the whole product after it."""
    letters, lower, upper = list[str](), list[Expr](), list[Expr]()
    block = next(iter(parser.scope.last)) if len(parser.scope.last) == 1 else ""
    for sign in ("_", "^"):
        if not parser.accept(sign):
            continue
        items = parser.script_group(sign)
        if sign == "^":
            of = [x if x in parser.scope.last else block for x in letters]
            of += [block] * (len(items) - len(of))
            upper = [parser.inside(*x) for x in zip(items, of, strict=False)]
            continue
        for tokens in (item.tokens for item in items):
            if tokens[0].kind != "word":
                raise parser.error(f"{op} needs an index letter below it; a range is written "
                                   f"{op}_{{j=4}}^{{n-1}}", tokens[0])  # fmt: skip
            letters.append(tokens[0].text)
            if len(tokens) > 1:
                if tokens[1].text != "=" or len(tokens) < 3:
                    letter = tokens[0].text
                    raise parser.error(f"a range has both bounds: {op}_{{{letter}=4}}^{{n-1}}",
                                       tokens[1])  # fmt: skip
                lower.append(parser.inside(Script(sign, tuple(tokens[2:]), True)))
        letters[-1] += parser.primes()
    if not letters:
        raise parser.error(f"{op} needs an index below it, such as {op}_h", t)
    if len(lower) != len(upper) or (lower and len(lower) != len(letters)):
        raise parser.error(f"{op} needs both bounds or neither", t)
    if len(set(letters)) < len(letters):
        raise parser.error(f"{op} needs different letters below it", t)
    inner = body_of(parser, letters, bracketed=op != "sum")
    parser.left.update(letters)
    bounds = zip(lower, upper, strict=True) if lower else [(None, None)] * len(letters)
    for letter, (first, last) in reversed(list(zip(letters, bounds, strict=True))):
        inner = parser.node(Bind(op, letter, first, last, inner), t)
    return inner


def body_of(parser: Parser, letters: list[str], bracketed: bool = True) -> Expr:
    """The body of a binder of these letters: an expression in brackets, or a product."""
    outer, parser.scope = parser.scope, parser.scope.inside(letters)
    found = parser.within(parser.expect("(")) if bracketed else parser.product()
    parser.scope = outer
    return found


def table(parser: Parser, t: Token) -> Expr:
    """``table_{j<n, k<m}(…)``."""
    parser.expect("_")
    ranges = []
    for item in parser.script_group("_"):
        if len(item.tokens) < 3 or item.tokens[1].text != "<" or item.tokens[0].kind != "word":
            raise parser.error("expected a range such as j < n", item)
        size = parser.inside(Script("_", item.tokens[2:], True))
        ranges.append((item.tokens[0].text, size))
    if len(ranges) > 2 or len({i for i, _ in ranges}) < len(ranges):
        raise parser.error("a table has one or two different indices", t)
    return parser.node(Table(tuple(ranges), body_of(parser, [i for i, _ in ranges])), t)


__all__ = ["binder", "table"]
