r"""Calls of a card's own functions of values: ``\tilde{A}^3(x^2)``, ``(B_N ∘ ⋯ ∘ B_1)(x^0)``.

One name may stand for a value and for such a function. Before a parenthesis it is the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from viete.errors import VieteError
from viete.notation.cursor import Script, top_level
from viete.notation.lexer import Token
from viete.notation.scripts import scripted
from viete.notation.symbols import Scope
from viete.notation.tree import CALL, COMPOSE, Apply, Bind, Expr, Idx, Num, Ref, Symbol, num
from viete.notation.words import quoted

if TYPE_CHECKING:
    from viete.notation.parser import Parser

Called = tuple[Ref, list[Script]]  # a function, and scripts of what it gives


def application(parser: Parser, base: str, t: Token) -> Expr | None:
    """The call of a function with the base letter ``base``; None if no call begins here."""
    start = parser.pos
    called = function_at(parser, base, t)
    if called is None:
        parser.pos = start
        return None
    function, left = called
    if parser.peek.text == "∘":
        if left:
            raise parser.error("write the index of a composition's result after it", left[0])
        return of(parser, chain(parser, function), t)
    made = of(parser, [function], t)
    return scripted(parser, made, left, t) if left else made


def composition(parser: Parser) -> Expr | None:
    """``(f ∘ g)(x)``, if the bracket that opens here contains a composition."""
    t = parser.peek
    if t.text != "(" or t.kind != "op" or not parser.scope.operators:
        return None
    inside = parser.tokens[parser.pos + 1 :]
    end = next(top_level(inside, ")"), None)
    if end is None or not any(k < end for k in top_level(inside, "∘")):
        return None
    opened = parser.next()
    functions = chain(parser, named(parser))
    parser.expect(")", opened)
    return of(parser, functions, t)


def function_at(parser: Parser, base: str, t: Token) -> Called | None:
    """The function with this base letter that is applied or composed here, and unused scripts."""
    if all(s.base != base for s in parser.scope.operators):
        return None
    items = parser.scripts()
    if parser.peek.kind != "op" or parser.peek.text not in ("(", "∘"):
        return None
    outer, parser.scope = parser.scope, functions_alone(parser)
    found = parser.match(base, items)
    parser.scope = outer
    if found is None or any(s.sign == "^" for s in found[2]):
        return None
    symbol, index, left = found
    index = [s if letter in parser.scope.indices else worded(parser, s)
             for s, letter in zip(index, symbol.slots, strict=True)]  # fmt: skip
    function = parser.node(parser.member(symbol, index), t)
    assert isinstance(function, Ref)
    return function, left


def worded(parser: Parser, script: Script) -> Script:
    """A script as a word of the vocabulary: ``\\text{logit}_{ Mary}(x)``, with its leading space.

    Numbers, names and index letters are unchanged.
    """
    text, (first, last) = parser.source.text, script.at
    start, end = text.rfind("{", 0, first) + 1, text.find("}", last)
    plain = script.braced and all(t.kind == "word" for t in script.tokens)
    if parser.scope.vector is None or not plain or text[first] == "\\" or (
        end < 0 or text[start:first].strip() or text[last:end].strip()
    ):  # fmt: skip
        return script
    raw, words = text[start:end], parser.scope.words()
    known = words.get(raw) is not None
    if not known or raw == raw.strip() or raw.strip() in parser.scope.indices:
        try:
            parser.inside(script)
            return script
        except VieteError:
            if not known:
                raise parser.error(words.unknown(raw), (first, last)) from None
    return replace(script, tokens=(Token("token", quoted(raw), first, last),))


def functions_alone(parser: Parser) -> Scope:
    """The scope in which every name is the name of a function."""
    symbols: dict[str, list[Symbol]] = {}
    for symbol in parser.scope.operators:
        symbols.setdefault(symbol.base, []).append(symbol)
    return replace(parser.scope, symbols=symbols)


def named(parser: Parser) -> Ref:
    """The name of a function, as part of a composition."""
    t = parser.peek
    accented = t.kind == "accent" or parser.at_accent_word()
    base = parser.accent() if accented else parser.next().text
    outer, parser.scope = parser.scope, functions_alone(parser)
    found = parser.match(base, parser.scripts())
    parser.scope = outer
    if found is None or found[2]:
        raise parser.error("a composition needs functions of the card, as in B_2 ∘ B_1", t)
    made = parser.node(parser.member(*found[:2]), t)
    assert isinstance(made, Ref)
    return made


def chain(parser: Parser, first: Ref) -> list[Expr]:
    """The functions joined by ∘, from the left; dots stand for all functions between two."""
    items: list[Ref | Token] = [first]
    while parser.accept("∘"):
        dots = parser.accept("...")
        items.append(dots or named(parser))
    out: list[Expr] = []
    while items:
        item = items.pop(0)
        if isinstance(item, Token):
            raise parser.error("dots stand between two functions: B_N ∘ ⋯ ∘ B_1", item)
        run = [item]
        while items and isinstance(items[0], Ref) and steps_down(run[-1], items[0]):
            run.append(items.pop(0))  # type: ignore[arg-type]
        if not (items and isinstance(items[0], Token)):
            out += run
            continue
        gap = items.pop(0)
        assert isinstance(gap, Token)
        if not items or isinstance(items[0], Token):
            raise parser.error("dots stand between two functions: B_N ∘ ⋯ ∘ B_1", gap)
        last = items.pop(0)
        while items and isinstance(items[0], Ref) and steps_down(last, items[0]):
            last = items.pop(0)
        out.append(between(parser, run[0], last, gap))
    return out


def steps_down(a: Ref, b: Ref) -> bool:
    """Whether one function comes a block after another: ``B_N`` and ``B_{N-1}``."""
    slots = differing(a, b)
    return len(slots) == 1 and before(a.index[slots[0]]) == b.index[slots[0]]


def differing(a: Ref, b: Ref) -> list[int]:
    """The slots in which two members of a family differ; empty for different families."""
    if a.symbol is not b.symbol:
        return []
    return [k for k, (x, y) in enumerate(zip(a.index, b.index, strict=True)) if x is not y]


def before(index: Expr) -> Expr:
    """The number of the block before, as people write it."""
    match index:
        case Num(value):
            return num(value - 1)
        case Apply("sub", (x, Num(value))):
            return Apply("sub", (x, num(value + 1)))
    return Apply("sub", (index, num(1)))


def between(parser: Parser, top: Ref, bottom: Ref | Token, dots: Token) -> Expr:
    """``B_N ∘ ⋯ ∘ B_1``."""
    assert isinstance(bottom, Ref)
    slots = differing(top, bottom)
    if top is bottom:
        return top
    if len(slots) != 1:
        raise parser.error("dots stand between two blocks of one function: B_N ∘ ⋯ ∘ B_1", dots)
    (k,) = slots
    upper, lower = top.index[k], bottom.index[k]
    down = isinstance(lower, Num) and (not isinstance(upper, Num) or lower.value < upper.value)
    if not down and isinstance(upper, Num):
        raise parser.error(
            "a composition applies its last function first, so the last block comes first: "
            "B_N ∘ ⋯ ∘ B_1", dots,
        )  # fmt: skip
    letter = top.symbol.slots[k]
    index = (*top.index[:k], Idx(letter), *top.index[k + 1 :])
    return Bind(COMPOSE, letter, lower, upper, Ref(top.symbol, index))


def of(parser: Parser, functions: Sequence[Expr], t: Token) -> Expr:
    """The functions, the last one first, applied to the arguments in the parentheses here."""
    opened = parser.expect("(")
    args = [parser.expression()]
    while parser.accept(",", ";"):
        args.append(parser.expression())
    parser.expect(")", opened)
    for f in reversed(functions):
        symbol = head(f).symbol
        takes = parser.scope.operators[symbol].least
        if len(args) != takes:
            raise parser.error(
                f"{symbol.key.removesuffix(CALL)} takes {takes} argument"
                f"{'s' if takes != 1 else ''}, not {len(args)}", t,
            )  # fmt: skip
        args = [parser.node(Apply(CALL, (f, *args)), t)]
    return args[0]


def head(f: Expr) -> Ref:
    """The function of a call, or of a composition over blocks."""
    f = f.body if isinstance(f, Bind) else f
    assert isinstance(f, Ref)
    return f
