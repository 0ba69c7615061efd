"""Parses claims: ``A^{i,h}_{j,k} ≥ 0 for k ≤ j for texts of random(8)`` in, a `Claim` out.

After the statement come any number of ``for`` clauses: a range (``for h = 1, …, 4``), a set (``for
h ∈ {1, 3}``), conditions (``for j ≥ 16, k < j``), letters for which one value suffices (``for some
h``), or texts (``for texts of repeated(16)``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from viete.errors import Text
from viete.graph.claim import Claim
from viete.notation.cursor import end_token, top_level
from viete.notation.letters import own_letters, parse_range_of
from viete.notation.lexer import Token, tokenize
from viete.notation.parser import COMPARISONS, parse_tokens
from viete.notation.symbols import Scope
from viete.notation.tree import Apply, Expr, Idx

_PHRASE = re.compile(r"\\text\s*\{\s*((?:for|within)\b[^{}]*)\}")
_TEXTS = re.compile(
    r"[\s,]*\bfor\s+(?:all\s+|(?P<count>[1-9]\d{0,5})\s+)?texts?\s+of\s+(?P<name>\"[^\"]*\"|\S+)"
)
_ALL = ("all", "every", "each", "any")


def read_claim(source: Text, scope: Scope, meaning: str = "") -> Claim:
    """A claim of a card whose names are in ``scope``.

    An undeclared letter in an index belongs to the claim: a statement about ``A_{j,k}`` is about
    all j and k. Raises VieteError, at the symbol, for text that is not a claim.
    """
    plain, texts, count = without_texts(source)
    scope = scope.inside(own_letters(plain, scope))
    first, *clauses = parts(tokenize(plain))
    made = Claim(statement(plain, first, scope), meaning, plain, texts=texts, count=count)
    for clause in clauses:
        made = restricted(made, plain, clause, scope)
    bounds = (e for _, *ends in made.ranges for e in ends)
    said = frozenset[str]().union(*(e.free for e in (made.statement, *made.given, *bounds)))
    if idle := [x for x, *_ in made.ranges if x not in said]:
        raise source.error(f"the claim has no letter {idle[0]} that could have these values")
    return made


def without_texts(source: Text) -> tuple[Text, str, int]:
    """A claim without the clause about its texts; the texts' name, and their number."""
    plain = replace(source, text=_PHRASE.sub(without_command, source.text))
    if not (found := _TEXTS.search(plain.text)):
        return plain, "", 0
    name = found["name"].strip('"').rstrip(",.;")
    rest = replace(plain, text=blank(plain.text, *found.span()))
    return rest, name, int(found["count"] or 0)


def says_something(source: Text) -> bool:
    """Whether a formula is a statement: two sides with a comparison, or a chain of comparisons."""
    first, *_ = parts(tokenize(without_texts(source)[0]))
    signs = (*COMPARISONS, "and", "or", "not")
    angles = any(t.text == ">" for t in first) and any(t.text == "<" for t in first)
    return any(t.kind == "op" and t.text in signs and not (angles and t.text in "<>")
               for t in (first[k] for k in top_level(first, *signs)))  # fmt: skip


def statement(source: Text, tokens: list[Token], scope: Scope) -> Expr:
    """The statement; a chain, ``0 ≤ a ≤ 1``, says that each of its links holds."""
    signs = [s for s in COMPARISONS if s not in "<>" or not any(t.text == ">" for t in tokens)]
    cuts = list(top_level(tokens, *signs))
    if len(cuts) < 2 or any(top_level(tokens, "and", "or", "not")):
        return parse_tokens(source, tokens, scope)
    out: Expr | None = None
    for start, middle, end in zip([-1, *cuts], cuts, [*cuts[1:], len(tokens) - 1], strict=False):
        assert start < middle < end
        link = parse_tokens(source, [*tokens[start + 1 : end], end_token(tokens[end])], scope)
        out = link if out is None else Apply("and", (out, link))
    assert out is not None
    return out


def restricted(claim: Claim, source: Text, clause: list[Token], scope: Scope) -> Claim:
    """The claim with one more clause, whose tokens follow the word ``for``."""
    first, *rest = clause
    if first.text == "some":
        return replace(claim, some=(*claim.some, *letters_in(source, rest, scope)))
    if first.text in _ALL and len(rest) > 1:
        clause = rest
    for part in limits(clause):
        signs = {t.text for t in part}
        if "..." in signs:
            found = parse_range_of(source, part, scope)
            if found[0] not in scope.indices:
                raise source.error(f"{found[0]} is not an index", part[0].start, part[0].end)
            claim = replace(claim, ranges=(*claim.ranges, found))
            continue
        condition = (member if "∈" in signs else parse_tokens)(source, part, scope)
        if not isinstance(condition, Idx):  # of "for all h" nothing is left to say
            claim = replace(claim, given=(*claim.given, condition))
    return claim


def limits(clause: list[Token]) -> list[list[Token]]:
    """A clause cut at its commas, except those of a range: ``h = 1, …, 4, j ≥ 1`` are two."""
    out: list[list[Token]] = []
    goes_on = False
    for part in split(clause, ","):
        dots = part[0].text == "..."
        if out and (dots or goes_on):
            before = out.pop()
            part = [*before[:-1], Token("op", ",", before[-1].start, before[-1].end), *part]
        goes_on = part[-2:-1] != [] and part[-2].text == "..."
        out.append(part)
    return out


def member(source: Text, clause: list[Token], scope: Scope) -> Expr:
    """``h ∈ {1, 3}`` as ``h = 1 or h = 3``."""
    at = next(k for k, t in enumerate(clause) if t.text == "∈")
    left = parse_tokens(source, [*clause[:at], end_token(clause[at])], scope)
    items, closed = clause[at + 2 : -2], clause[-2]
    if (clause[at + 1].text, closed.text) not in (("{", "}"), ("\\{", "\\}")):
        raise source.error("a set is written h ∈ {1, 3}", clause[at].start, clause[-1].end)
    out: Expr | None = None
    for part in split([*items, end_token(closed)], ","):
        one = Apply("eq", (left, parse_tokens(source, part, scope)))
        out = one if out is None else Apply("or", (out, one))
    assert out is not None
    return out


def letters_in(source: Text, clause: list[Token], scope: Scope) -> list[str]:
    """``h, j`` as index letters."""
    found = []
    for part in split(clause, ","):
        letter = parse_tokens(source, part, scope)
        if not isinstance(letter, Idx):
            raise source.error("an index letter must follow 'for some'",
                               part[0].start, part[-1].end)  # fmt: skip
        found.append(letter.name)
    return found


def parts(tokens: Sequence[Token]) -> list[list[Token]]:
    """A claim's statement and its clauses, cut at the word ``for``."""
    cuts = [k for k in range(len(tokens)) if (tokens[k].kind, tokens[k].text) == ("word", "for")]
    out = []
    for start, end in zip([0, *(k + 1 for k in cuts)], [*cuts, len(tokens) - 1], strict=True):
        part = list(tokens[start:end])
        while part and part[-1].text in (",", "."):
            part.pop()
        out.append([*part, end_token(tokens[end])])
    return out


def split(tokens: Sequence[Token], sign: str) -> list[list[Token]]:
    """Tokens, with an end token last, cut at a sign outside all brackets."""
    cuts = list(top_level(tokens, sign))
    ends = [*cuts, len(tokens) - 1]
    return [
        [*tokens[a:b], end_token(tokens[b])]
        for a, b in zip([0, *(k + 1 for k in cuts)], ends, strict=True)
    ]


def without_command(m: re.Match[str]) -> str:
    """``\\text{ for h}`` as ``      for h ``, of the same length."""
    start, end = m.start(1) - m.start(), m.end(1) - m.start()
    return " " * start + m[1] + " " * (len(m[0]) - end)


def blank(text: str, start: int, end: int) -> str:
    """The text with spaces from ``start`` to ``end``."""
    return text[:start] + " " * (end - start) + text[end:]


__all__ = ["read_claim", "says_something", "without_texts"]
