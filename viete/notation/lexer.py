r"""The lexer: plain, LaTeX and Unicode spellings to one stream of tokens.

After this module the spellings are gone: ``\gamma_1``, ``gamma_1`` and ``γ₁`` are the same tokens.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from viete.errors import Text

GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ϵ": "epsilon",
    "ζ": "zeta", "η": "eta", "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu",
    "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon",
    "φ": "phi", "ϕ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta",
    "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
    "ℓ": "ell",
}  # fmt: skip
GREEK_NAMES = frozenset(GREEK.values())
VARIANTS = {"varepsilon": "epsilon", "vartheta": "theta", "varphi": "phi", "varrho": "rho"}

SUBSCRIPTS = dict(
    zip("₀₁₂₃₄₅₆₇₈₉₊₋ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", "0123456789+-aehijklmnoprstuvx", strict=True)
)
SUPERSCRIPTS = dict(
    zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂ",
        "0123456789+-abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVW", strict=True)
)  # fmt: skip

ACCENTS = ("tilde", "hat", "bar", "vec", "overline", "underline", "Delta", "partial")
TOKEN_BARS = ("overline", "underline")  # a token's vector, where no name has the bar
PREFIXES = {"Delta": "Δ", "partial": "∂"}  # accents that stand before their letter
COMBINING = {"\u0303": "tilde", "\u0302": "hat", "\u0304": "bar", "\u20d7": "vec",
             "\u0305": "overline", "\u0332": "underline"}  # fmt: skip


PRIMES = {"'": 1, "’": 1, "′": 1, "″": 2, "‴": 3}


def unprimed(base: str) -> tuple[str, str]:
    """A base and its letter's primes, separately: ``tilde{A}`` and ``'`` of ``tilde{A'}``."""
    inner = base.rstrip("}")
    plain = inner.rstrip("'")
    return plain + base[len(inner) :], inner[len(plain) :]


def primed(base: str, primes: str) -> str:
    """A base with more primes on its letter: ``tilde{A}`` with one is ``tilde{A'}``."""
    inner = base.rstrip("}")
    return inner + primes + base[len(inner) :]


def accent_of(base: str) -> tuple[str, str]:
    """A base's outermost accent and the base below it; '' and the base if it has no accent."""
    accent, _, under = base.partition("{")
    return (accent, under[:-1]) if under and accent in ACCENTS else ("", base)


# Letters of other alphabets that look like Latin ones, in the order of LATIN.
ALIKE = "асеіјорѕухАВСЕНІЈКМОРЅТХΑΒΕΖΗΙΚΜΝΟΡΤΥΧο"
LATIN = "aceijopsyxABCEHIJKMOPSTXABEZHIKMNOPTYXo"

# One canonical sign for every way to write an operator.
SIGNS = {
    "−": "-", "≤": "<=", "≥": ">=", "≠": "!=", "∘": "∘", "⋅": "·", "•": "·", "∗": "*", "…": "...",
    "⟨": "⟨", "⟩": "⟩", "〈": "⟨", "〉": "⟩", "⊤": "⊤", "∈": "∈", "∞": "∞", "⊙": "⊙", "×": "×",
    "·": "·", "∑": "∑", "Σ": "∑", "→": "→", "∧": "and", "∨": "or", "⌈": "⌈", "⌉": "⌉", "@": "·",
    "≈": "≈", "⌊": "⌊", "⌋": "⌋", "<=": "<=", ">=": ">=", "!=": "!=", "...": "...", "->": "→",
    "∣": "|", "∥": "‖", "⋯": "...", "⊗": "⊗",
} | {sign: sign for sign in "+-*/^_()[]{},;:=<>&|‖"}  # fmt: skip
COMMANDS = {
    "cdot": "·", "times": "×", "odot": "⊙", "top": "⊤", "intercal": "⊤", "sum": "∑", "in": "∈",
    "langle": "⟨", "rangle": "⟩", "le": "<=", "leq": "<=", "ge": ">=", "geq": ">=", "ne": "!=",
    "neq": "!=", "approx": "≈", "lt": "<", "gt": ">", "infty": "∞", "dots": "...",
    "ldots": "...", "cdots": "...",
    "land": "and", "lor": "or", "bmod": "mod", "to": "→", "{": "\\{", "}": "\\}", "_": "_",
    "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "\\": "\\\\", "frac": "\\frac",
    "circ": "∘", "otimes": "⊗",
    "tfrac": "\\frac", "dfrac": "\\frac", "|": "‖", "vert": "|", "Vert": "‖",
    "prime": "'", "lvert": "\\lvert", "rvert": "\\rvert", "lVert": "\\lVert", "rVert": "\\rVert",
}  # fmt: skip
IGNORED = frozenset(
    ", ; : ! quad qquad left right big Big bigl bigr Bigl Bigr bigg Bigg displaystyle limits "
    "nolimits thinspace allowbreak".split()
) | {" "}
FONTS = frozenset(
    "text mathrm mathbf mathit mathsf mathcal mathtt operatorname textrm textit textbf "
    "boldsymbol".split()
)
# Functions of one real number, taken entry by entry; all but erf have a LaTeX command.
ELEMENTARY = ("exp", "log", "sqrt", "erf", "tanh", "sin", "cos", "arctan")
COMMANDED = frozenset(ELEMENTARY) - {"erf"} | {"max", "min"}
WORD_SIGNS = frozenset(("and", "or", "not", "mod"))
MAX_LENGTH = 10_000


class Token(NamedTuple):
    """``kind`` is 'num', 'word', 'accent', 'token' (in quotes), 'op' or 'end'; offsets are into
    the source text."""

    kind: str
    text: str
    start: int
    end: int


_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+")
_HOOK = re.compile(r"(?:\w+\.)*hook_\w+")  # a name of TransformerLens
_NUMBER_TOO = re.compile(r"(?:\.\d+)+")  # as behind the 0.1 of 0.1.2
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
# Δx is one name, the change of x; Δ x is two, but \Delta x is how TeX has to write the one.
_LETTER_NEXT = re.compile(r"(?:\{\s*)?(?:\\(?:mathrm|text)(?!\{ ?(?:and|or|not)\b)|[A-Za-z])")
_FONT = re.compile(r"\*?\s*\{\s*((?:[A-Za-z0-9 -]|\\_|_)*?)\s*\}")
_COMMAND = re.compile(r"\\([A-Za-z]+|.?)")
_CASES = re.compile(r"\s*\{cases\}")
_BAR = re.compile(r"\s*(?:\||‖|\\\||\\[lr]?[vV]ert(?![A-Za-z]))")  # behind \left or \right
QUOTED = r'"(?:[^"\\]|\\.)*"'
_QUOTED = re.compile(QUOTED, re.DOTALL)
_UNDER = re.compile(r"\s*\{")
_QUOTED_UNDER = re.compile(rf"\s*{QUOTED}\s*\}}", re.DOTALL)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_RAISED = re.compile(r"\^\s*(\{\s*)?((?:(?:\\prime(?![A-Za-z])|['’′″‴])\s*)+)(?(1)(\})?)")
_BRACED = re.compile(r"\*?\s*\{[^{}]*\}")
_SIGN = re.compile("|".join(map(re.escape, sorted(SIGNS, key=len, reverse=True))))
_MARKS = frozenset(COMBINING)


class Unreadable(Exception):
    """Text that cannot be split into tokens: a message and the stretch of text."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message, start, end)


def tokenize(source: Text) -> list[Token]:
    """Split a formula into tokens.

    Raises VieteError at a character or a LaTeX command that the notation does not have.
    """
    try:
        return list(split(source.text))
    except Unreadable as error:
        raise source.error(*error.args) from None


def decimals(text: str) -> frozenset[Fraction]:
    """The numbers that a formula writes as decimals."""
    return frozenset(map(Fraction, re.findall(r"(?<![\w.])\d*\.\d+(?!\w)", text)))


@lru_cache(maxsize=1 << 14)  # a card's formulas are asked for letters, for names and for meaning
def split(text: str) -> tuple[Token, ...]:
    """The tokens of a text. Raises Unreadable."""
    if len(text) > MAX_LENGTH:
        message = f"a formula has at most {MAX_LENGTH:,} characters; name its parts"
        raise Unreadable(message, 0, 1)
    return (*with_primes(scan(text)), Token("end", "", len(text), len(text)))


def with_primes(tokens: Iterator[Token]) -> Iterator[Token]:
    """Join primes with the letter or word before them: ``h'`` is one token."""
    before = None
    for t in tokens:
        behind = before and before.kind == "word" and before.end in (t.start, t.end)
        if before and behind and (t.kind, t.text) == ("op", "'"):
            before = before._replace(text=before.text + "'", end=t.end)
            continue
        if before:
            yield before
        before = t
    if before:
        yield before


def scan(text: str) -> Iterator[Token]:
    """The tokens of a text without its end. Raises Unreadable."""
    i = 0
    while i < len(text):
        c, end = text[i], i + 1
        if c.isspace() or c in "~\u200b":
            pass
        elif m := _NUMBER.match(text, i):
            if more := _NUMBER_TOO.match(text, m.end()):
                raise Unreadable(f"{text[i : more.end()]} is not a number", i, more.end())
            end = m.end()
            yield Token("num", m[0], i, end)
        elif m := _WORD.match(text, i):
            end = m.end()
            if m[0] in TOKEN_BARS and (tokens := under_bar(text, m[0], i, end)):
                yield from tokens
                end = tokens[-1].end
            elif text[end : end + 1] in _MARKS:  # typed behind the letter that it belongs to
                if end - i > 1:
                    yield Token("word", text[i : end - 1], i, end - 1)
                yield from accented(text[end - 1], text[end], end - 1, end + 1)
                end += 1
            else:
                yield Token("op" if m[0] in WORD_SIGNS else "word", m[0], i, end)
        elif c == "∂" or (c == "Δ" and _LETTER_NEXT.match(text, end)):
            yield Token("accent", "partial" if c == "∂" else "Delta", i, end)
        elif c in GREEK and text[end : end + 1] in _MARKS:
            end += 1
            yield from accented(GREEK[c], text[end - 1], i, end)
        elif c in GREEK:
            yield Token("word", GREEK[c], i, end)
        elif c == "\\":
            tokens, end = command(text, i)
            yield from tokens
        elif c in SUBSCRIPTS or c in SUPERSCRIPTS:
            sign, table = ("_", SUBSCRIPTS) if c in SUBSCRIPTS else ("^", SUPERSCRIPTS)
            while text[end : end + 1] in table:
                end += 1
            yield Token("op", sign, i, i)
            yield Token("op", "{", i, i)
            for t in scan("".join(table[x] for x in text[i:end])):
                yield Token(t.kind, t.text, i + t.start, i + t.end)
            yield Token("op", "}", end, end)
        elif c in PRIMES:
            yield from (Token("op", "'", i, end) for _ in range(PRIMES[c]))
        elif m := _RAISED.match(text, i):
            end = m.end()
            for _ in range(sum(PRIMES.get(x, 0) for x in m[2]) + m[2].count("\\prime")):
                yield Token("op", "'", i, end)
            if m[1] and not m[3]:  # x^{\prime 3} is x'^3
                yield Token("op", "^", end, end)
                yield Token("op", "{", end, end)
        elif m := _SIGN.match(text, i):
            end = m.end()
            yield Token("op", SIGNS[m[0]], i, end)
        elif c == "√":
            yield Token("word", "sqrt", i, end)
        elif len(parts := unicodedata.normalize("NFD", c)) == 2 and parts[1] in COMBINING:
            yield from accented(parts[0], parts[1], i, end)
        elif m := _QUOTED.match(text, i):
            end = m.end()
            yield Token("token", m[0], i, end)  # with its quotes it is like no sign and no label
        else:
            raise no_character(text, i)
        i = end


def no_character(text: str, i: int) -> Unreadable:
    """The error for a character that is not part of the notation."""
    c = text[i]
    if c == "." and (m := _HOOK.fullmatch(text.strip())):
        return Unreadable(
            f"{m[0]} is a hook name: viete show MODEL --names has its formula", 0, len(text)
        )
    return Unreadable(f"the notation has no character {c!r}{code_point(c)}", i, i + 1)


def code_point(c: str) -> str:
    """The name of a character, and a replacement; empty for most of ASCII."""
    if c == '"':
        return " alone; a word stands between two of them"
    if c.isascii():
        return ""
    at = ALIKE.find(c)
    like = LATIN[at] if at >= 0 else unicodedata.normalize("NFKC", c)
    called = f", U+{ord(c):04X} {unicodedata.name(c, '')}".rstrip()
    return f"{called}; write the Latin {like}" if re.fullmatch("[A-Za-z]", like) else called


def accented(letter: str, mark: str, start: int, end: int) -> tuple[Token, ...]:
    """``Ã`` reads as ``tilde{A}``."""
    return (
        Token("accent", COMBINING[mark], start, end), Token("op", "{", start, start),
        Token("word", letter, start, end), Token("op", "}", end, end),
    )  # fmt: skip


def command(text: str, i: int) -> tuple[tuple[Token, ...], int]:
    """The tokens of the LaTeX command at ``i``, and the offset after it."""
    m = _COMMAND.match(text, i)
    assert m is not None
    name, end = VARIANTS.get(m[1], m[1]), m.end()
    if name in ("left", "right") and (bar := _BAR.match(text, end)):
        side = "vert" if "vert" in bar[0] or bar[0] == "|" else "Vert"
        return (Token("op", f"\\{name[0]}{side}", i, bar.end()),), bar.end()
    bare = name == "Delta" and not _LETTER_NEXT.match(text[end:].lstrip())
    if name in IGNORED:
        return (), end
    if name in FONTS:
        return in_font(text, i, name, end)
    if name in ("begin", "end"):
        cases = _CASES.match(text, end)
        if cases is None:
            raise Unreadable("of LaTeX's environments the notation has only {cases}", i, end)
        token = Token("op", f"\\{name}", i, cases.end())
    elif name in TOKEN_BARS and (tokens := under_bar(text, name, i, end)):
        return tokens, tokens[-1].end
    elif name in ("widetilde", "widehat") or (name in ACCENTS and not bare):
        token = Token("accent", name.removeprefix("wide"), i, end)
    elif name in COMMANDS:
        token = Token("op", COMMANDS[name], i, end)
    elif name in GREEK_NAMES or name in COMMANDED or name in ("ell", "arg", "argmax"):
        token = Token("word", name, i, end)
    else:
        raise Unreadable(f"the notation has no LaTeX command \\{name}", i, end)
    return (token,), token.end


def under_bar(text: str, bar: str, i: int, end: int) -> tuple[Token, ...]:
    """The bar at ``i`` with the text in braces under it; None if the text reads as a name."""
    opened = _UNDER.match(text, end)
    if opened is None:
        return ()
    first, depth = opened.end(), 1
    quotes = _QUOTED_UNDER.match(text, first)
    last = quotes.end() - 1 if quotes else -1
    for m in () if quotes else _BRACE.finditer(text, first):
        depth += {"{": 1, "}": -1}.get(m[0], 0)
        if not depth:
            last = m.start()
            break
    inside = text[first:last]
    if last < 0 or reads_as_name(inside):
        return ()
    return (
        Token("accent", bar, i, end), Token("op", "{", first - 1, first),
        Token("token", f'"{inside}"', first, last), Token("op", "}", last, last + 1),
    )  # fmt: skip


def reads_as_name(text: str) -> bool:
    """Whether a text begins with a name and contains no other signs than scripts."""
    try:
        tokens = list(scan(text))
    except Unreadable:
        return False
    if not tokens or tokens[0].kind not in ("word", "accent"):
        return False
    depth = 0
    for t in tokens:
        depth += {"{": 1, "}": -1}.get(t.text, 0) if t.kind == "op" else 0
        if depth < 0 or t.kind == "token" or (t.kind == "op" and t.text not in "_^{}+-,"):
            return False
    return depth == 0


def in_font(text: str, i: int, name: str, end: int) -> tuple[tuple[Token, ...], int]:
    r"""``\text{a word}``, whose command ends at ``end``, as one token."""
    font = _FONT.match(text, end)
    if font is None:
        braced = _BRACED.match(text, end)
        for k in range(end, braced.end() if braced else end):
            if "write the Latin" in code_point(text[k]):
                raise no_character(text, k)
        raise Unreadable(f"\\{name} needs a plain word in braces after it", i, end)
    inner = font[1].replace("\\_", "_").replace(" ", "").replace("-", "")
    return tuple(Token(t.kind, t.text, i, font.end()) for t in scan(inner)), font.end()
