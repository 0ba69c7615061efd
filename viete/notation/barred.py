r"""Token vectors: ``\overline{ublin}`` unembeds a token, ``\underline{ublin}`` embeds it.

Under the bar stands a text, in braces or quotes, or an entry of the text of the run,
``\underline{t_j}``. A name that the card declares with its bar keeps its own meaning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from viete.errors import VieteError
from viete.notation.cursor import end_token, top_level
from viete.notation.lexer import COMBINING, FONTS, QUOTED, TOKEN_BARS, Token
from viete.notation.scripts import scripted
from viete.notation.tree import Expr, Ref
from viete.notation.words import unquoted

if TYPE_CHECKING:
    from viete.notation.parser import Parser

TEXT = "token"  # what the entries of the text are called where they have no other name
_FONT = re.compile(rf"\\(?:{'|'.join(sorted(FONTS))})\*?\s*\{{(.*)\}}", re.DOTALL)
_QUOTED = re.compile(QUOTED)
_ESCAPED = re.compile(r"\\([_$%&#{} ])")


def barred(parser: Parser, t: Token) -> Expr | None:
    """The vector of the token under the bar here; None if the bar belongs to a name."""
    vector = parser.scope.vector
    if t.text not in TOKEN_BARS or vector is None:
        return None
    start = parser.pos
    try:
        named = parser.accent() in parser.scope.symbols
    except VieteError:  # more than a letter stands there
        named = False
    parser.pos = start + 1
    if named:
        parser.pos = start
        return None
    opened = parser.accept("{")
    if opened is None:
        inside = [parser.next()]
        end = parser.pos
    else:
        end = next(top_level(parser.tokens, "}", start=parser.pos), -1)
        if end < 0:
            raise parser.error("this { is never closed; expected }", opened)
        inside = parser.tokens[parser.pos : end] or [parser.tokens[end]]
        parser.pos = end + 1
    number = entry(parser, inside)
    if number is None:
        at, marks = (inside[0].start, inside[-1].end), frozenset(COMBINING)
        if opened is not None and opened.start < opened.end:  # else a mark is typed behind a letter
            at, marks = (opened.end, parser.tokens[end].start), frozenset()
        text = spelled("".join(c for c in parser.source.text[slice(*at)] if c not in marks))
        if not text:
            raise parser.error("a token must stand under the bar", t)
        number = parser.token(text, at)
    try:
        return parser.node(vector(t.text, number), t)
    except VieteError as error:
        raise parser.error(error.message, t) from None


def spelled(raw: str) -> str:
    """The text under a bar, without TeX's escapes."""
    plain = raw.strip()
    if _QUOTED.fullmatch(plain):
        return unquoted(plain)
    font = in_font(plain)
    return _ESCAPED.sub(r"\1", raw) if font is None else font


def in_font(written: str) -> str | None:
    r"""The text in ``\text{…}`` or another font; None for any other text."""
    font = _FONT.fullmatch(written)
    return None if font is None else _ESCAPED.sub(r"\1", font[1])


def entry(parser: Parser, inside: list[Token]) -> Expr | None:
    r"""An entry of the run's text, ``t_j`` or ``\text{token}_j``; None for anything else."""
    if len(inside) < 3 or inside[0].kind != "word" or inside[1].text != "_":
        return None
    inner = parser.part([*inside, end_token(inside[-1])])
    name = inner.next()
    text = parser.scope.text
    symbols = parser.scope.symbols.get(name.text, [])
    if any(s.kind == "input" for s in symbols):
        inner.pos = 0
        made = inner.expression()
    elif name.text == TEXT and not symbols and text is not None:
        made = scripted(inner, Ref(text()), inner.scripts(), name)
    else:
        return None
    inner.finish()
    return made
