"""Reads function definitions; functions.md beside this file is the library of named functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from itertools import pairwise
from typing import TypeGuard

from viete.errors import Text, VieteError
from viete.notation.cursor import parse_name, top_level
from viete.notation.lexer import Token, tokenize
from viete.notation.parser import parse_tokens
from viete.notation.substitution import substitute
from viete.notation.symbols import Scope, Signature
from viete.notation.tree import Apply, Expr, Ref, Symbol, transform

_BULLET = re.compile(r"^- \$(.+?)\$:?\s*(.*)$")


@dataclass(frozen=True)
class Argument:
    """An argument of a function: its symbol, the names of its sizes, and its default."""

    symbol: Symbol
    pattern: tuple[Symbol, ...] = ()
    default: Expr | None = None


@dataclass(frozen=True)
class Function:
    """``name(arguments) = body``; ``semi`` arguments stand before the semicolon."""

    name: str
    arguments: tuple[Argument, ...]
    body: Expr
    semi: int = field(default=0, compare=False)
    meaning: str = ""
    text: Text = field(default=Text(""), compare=False, repr=False)

    @cached_property  # every scope of every card has those of the library
    def signature(self) -> Signature:
        least = sum(a.default is None for a in self.arguments)
        return Signature(self.name, least, len(self.arguments), self.semi)

    def of(self, *args: Expr, name: str = "") -> Apply:
        """The function applied to arguments, perhaps under another name."""
        return Apply(name or self.name, args, self.semi if len(args) > self.semi else 0)


@cache
def library() -> dict[str, Function]:
    """The named functions that every card has."""
    text = resources.files("viete.library").joinpath("functions.md").read_text("utf-8")
    found: dict[str, Function] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if m := _BULLET.match(line):
            source = Text(m[1], "functions.md", number, m.start(1) + 1, line)
            function = parse_function(source, {f.name: f.signature for f in found.values()}, m[2])
            found[function.name] = function
    return found


def in_force(own: Sequence[Function]) -> dict[str, Function]:
    """All functions of a card by name, each definition with the names valid where it was written.

    A card's function hides the library's of that name from what comes after it, not from the
    library. The hidden one is still there, as ``softmax_library``.
    """
    known = library()
    hidden = {f.name for f in own} & known.keys()
    out = known | second_names()
    if hidden:
        out = {name: replace(f, body=resolved(f.body, hidden)) for name, f in out.items()}
    for f in own:
        out[f.name] = replace(f, body=resolved(f.body, hidden))
        hidden = hidden - {f.name}
    return out


@cache
def second_names() -> dict[str, Function]:
    """The library's functions under names that no name of a card can hide.

    Every card knows them, also one that hides none: a rewriting may leave out the value or the
    function that hid one, and what it wrote before still means the same.
    """
    return {behind(name): replace(f, name=behind(name)) for name, f in library().items()}


def behind(name: str) -> str:
    """The second name of a library function that a name of the card hides."""
    return f"{name}_library"


def resolved(e: Expr, hidden: Collection[str]) -> Expr:
    """A formula with second names for the library's functions in ``hidden``."""

    def rule(x: Expr) -> Expr | None:
        return replace(x, op=behind(x.op)) if isinstance(x, Apply) and x.op in hidden else None

    return transform(e, rule) if hidden else e


def with_defaults(e: Apply, functions: Mapping[str, Function]) -> tuple[Expr, ...]:
    """A function's arguments, with defaults for the missing ones."""
    function = functions.get(e.op)
    if function is None:
        return e.args
    rest = function.arguments[len(e.args) :]
    return e.args + tuple(a.default for a in rest if a.default is not None)


def inlined(
    e: Apply, functions: Mapping[str, Function], around: Collection[str] = (),
    taken: Collection[str] = (),
) -> Expr:  # fmt: skip
    """A function's definition with the arguments put in; see `substitute`.

    The sizes that it names are said as ``rows(x)`` and ``cols(x)`` of its arguments, which
    `viete.analysis.row_counts` has the names of.
    """
    function = functions[e.op]
    arguments: dict[str, Expr] = {}
    sizes: dict[str, Expr] = {}
    for argument, given in zip(function.arguments, with_defaults(e, functions), strict=True):
        arguments[argument.symbol.key] = given
        for symbol, what in zip(
            argument.pattern, ("rows", "cols")[-len(argument.pattern) :], strict=False
        ):
            sizes.setdefault(symbol.key, Apply(what, (given,)))
    return substitute(function.body, arguments=arguments, names=sizes, around=around, taken=taken)


def is_argument(e: Expr) -> TypeGuard[Ref]:
    """Whether a formula is an argument of the function in whose body it occurs."""
    return isinstance(e, Ref) and e.symbol.kind == "argument"


def parse_function(
    source: Text, known: dict[str, Signature], meaning: str = "", outer: Scope | None = None
) -> Function:
    """Read ``name(x: n × d; ρ = 1) = body``.

    ``known`` are the functions defined before this one: a definition can use those, its own
    arguments and the primitives, so that nothing is recursive; ``outer`` are names besides.
    """
    tokens = tokenize(source)
    cut = next(top_level(tokens, "="), None)
    opened = next((k for k, t in enumerate(tokens) if t.text == "("), None)
    if cut is None or opened is None or opened > cut or tokens[cut - 1].text != ")":
        raise source.error("write a function as name(arguments) = body")
    symbol = parse_name(source.cut(0, tokens[opened].start), "function", set())
    # RoPE_pairs_after is one name, of which the printers keep every stroke.
    name = symbol.key if symbol.sup else "_".join([symbol.base, *(s.text for s in symbol.sub)])
    inner = tokens[opened + 1 : cut - 1]
    arguments = [parse_argument(source, part) for part in divided(inner, ",", ";")]
    colons = list(top_level(inner, ";"))
    semi = len(divided(inner[: colons[-1]], ",", ";")) if colons else 0
    for before, after in pairwise(arguments):
        if before.default is not None and after.default is None:
            raise source.error(
                f"{after.symbol.key} needs a default, since {before.symbol.key} before it has one",
                0, tokens[cut].start,
            )  # fmt: skip
    symbols = [a.symbol for a in arguments] + [s for a in arguments for s in a.pattern]
    names = [s.key for s in symbols if s.kind == "argument"]
    if len(set(names)) < len(names):
        raise source.error(f"{name} names an argument twice", 0, tokens[cut].start)
    around = () if outer is None else (s for group in outer.symbols.values() for s in group)
    own = {s.key: s for s in symbols}  # which hide those of the same name around them
    scope = Scope.of([*(s for s in around if s.key not in own), *own.values()])
    scope.functions |= known
    body = parse_tokens(source, tokens[cut + 1 :], scope)
    return Function(name, tuple(arguments), body, semi, meaning, source)


def divided(tokens: list[Token], *signs: str) -> list[list[Token]]:
    """The parts between signs outside all brackets."""
    cuts = pairwise([-1, *top_level(tokens, *signs), len(tokens)])
    return [tokens[a + 1 : b] for a, b in cuts]


def parse_argument(source: Text, tokens: list[Token]) -> Argument:
    """Read ``x``, ``x: n × d`` or ``ρ = 1``."""
    if not tokens:
        raise source.error("a function needs its arguments named in the parentheses")

    def text(part: list[Token]) -> Text:
        return source.cut(part[0].start, part[-1].end)

    default = None
    equals = next(top_level(tokens, "="), None)
    if equals is not None:
        end = Token("end", "", tokens[-1].end, tokens[-1].end)
        default = parse_tokens(source, [*tokens[equals + 1 :], end], Scope())
        tokens = tokens[:equals]
    colon = next(top_level(tokens, ":"), len(tokens))
    head, sizes = tokens[:colon], tokens[colon:]
    pattern = divided(sizes[1:], "×") if sizes else []
    if not head or not all(pattern):
        raise source.error("write an argument as x or x: n × d")
    try:
        return Argument(
            parse_name(text(head), "argument", set()),
            tuple(parse_name(text(p), "dim", set()) for p in pattern),
            default,
        )
    except VieteError as error:
        raise VieteError(
            f"in the arguments of this function: {error.message}", error.where
        ) from None
