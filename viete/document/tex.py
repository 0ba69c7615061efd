r"""TeX in prose: parses a formula, checks that it is safe, and gives its Unicode form.

Anybody can write a card, and its prose may contain ``$\input{/etc/passwd}$``. `Formula` knows the
mathematics that our printer and most people write in prose: letters, signs, scripts, fractions,
roots, accents, words. A formula made of nothing else goes to LaTeX unchanged; any other text is
escaped. A terminal and a docstring get every formula in Unicode, without TeX: ``a factor $1 /
\sqrt{d_k}$ of $\tilde{A}^i$`` becomes ``a factor 1 / √dₖ of Ãⁱ``. Such formulas may use names that
no card declares, so the notation's parser does not read them.
"""

from __future__ import annotations

import re
import unicodedata

from viete.notation.lexer import (
    COMBINING,
    COMMANDED,
    COMMANDS,
    FONTS,
    GREEK,
    IGNORED,
    SUBSCRIPTS,
    SUPERSCRIPTS,
    VARIANTS,
)

ESCAPES = {
    "\\": r"\textbackslash{}", "_": r"\_", "&": r"\&", "%": r"\%", "#": r"\#", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "$": r"\$", "…": r"\dots{}",
    "\u00a0": "~",
}  # fmt: skip
SIGNS = {
    "≤": r"\le", "≥": r"\ge", "≠": r"\ne", "×": r"\times", "→": r"\to", "−": "-", "∂": r"\partial",
    "⊙": r"\odot", "√": r"\surd", "⊤": r"\top", "ᵀ": r"^\top", "·": r"\cdot", "∈": r"\in",
    "ℝ": r"\mathbb{R}", "∑": r"\sum", "∞": r"\infty", "⟨": r"\langle", "⟩": r"\rangle",
    "⌈": r"\lceil", "⌉": r"\rceil", "⌊": r"\lfloor", "⌋": r"\rfloor", "±": r"\pm", "≈": r"\approx",
    "′": r"'", "⋮": r"\vdots", "∘": r"\circ", "ŷ": r"\hat{y}",
}  # fmt: skip
# Of the two shapes that some letters have, each has its own name.
SIGNS |= {char: f"\\{name}" for char, name in GREEK.items()} | {
    "ε": r"\varepsilon",
    "φ": r"\varphi",
}
SYMBOLS = {c: rf"\ensuremath{{{sign}}}" for c, sign in SIGNS.items()}
# Letters that pdfLaTeX has by itself; of others the reader gets the code, and other engines a font.
ACCENTED = {"\u0300", "\u0301", "\u0302", "\u0303", "\u0308", "\u030a", "\u030c", "\u0327"}
KNOWN = frozenset("¡¿«»‘’‚“”„–—†‡§¶©®°ßæœøåłđðþÆŒØÅŁĐÐÞ")
DEEPEST = 40

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\s+|[^\W_]+|.", re.S)
_WORDS = re.compile(r"[A-Za-z0-9 .,:;()/+*=-]*")
_MATH = re.compile(r"\$([^$]*)\$")
_NAMED = (
    frozenset(GREEK.values())
    | COMMANDED - {"sqrt"}
    | frozenset(
        "ln tan arg argmax det dim lim sup inf Pr sum prod int partial nabla infty pm mp times "
        "cdot odot circ top intercal bmod bullet ast star oplus otimes dagger "
        "le leq ge geq ne neq lt gt ll gg approx sim equiv propto in notin subset cup cap mid to "
        "gets leftarrow rightarrow Rightarrow mapsto langle rangle lceil rceil lfloor rfloor lvert "
        "rvert lVert rVert bigl bigr dots ldots cdots vdots quad qquad colon forall exists land "
        "lor neg surd prime hbar Re Im varepsilon vartheta varphi varrho limits nolimits "
        "displaystyle allowbreak".split()
    )
)
_ESCAPED = frozenset(",;:! {}|_%&#$")
_MARKS = {name: mark for mark, name in COMBINING.items()}
_MARKS |= {"widetilde": _MARKS["tilde"], "widehat": _MARKS["hat"], "dot": "\u0307",
           "ddot": "\u0308"}  # fmt: skip
_ONE = frozenset(
    "sqrt boxed mathbb mathbf mathcal mathrm mathit mathsf mathtt boldsymbol operatorname "
    "ensuremath".split()
) | frozenset(_MARKS)  # fmt: skip
_TWO = frozenset("frac tfrac dfrac binom".split())
_FENCES = frozenset(r"( ) [ ] | . / \{ \} \| \langle \rangle \lceil \rceil \lfloor \rfloor".split())
_BRACES = {"cases": "{}", "pmatrix": "()", "bmatrix": "[]", "matrix": ("", "")}
_SMALL = {
    "_": {plain: c for c, plain in SUBSCRIPTS.items()},
    "^": {plain: c for c, plain in SUPERSCRIPTS.items()} | {"⊤": "ᵀ"},
}
# What a command stands for; one of no known sign is its name.
_CHARACTERS = {name: sign.lstrip("\\") for name, sign in COMMANDS.items()} | {
    sign[1:]: char for char, sign in reversed(SIGNS.items()) if sign[0] == "\\"
} | {name: letter for letter, name in reversed(GREEK.items())} | {
    "leq": "≤", "geq": "≥", "neq": "≠", "dots": "…", "ldots": "…", "cdots": "…", "\\": " ",
}  # fmt: skip


def escape(text: str) -> str:
    """Words for LaTeX, with every character of a formula escaped."""
    return "".join(ESCAPES.get(c) or SYMBOLS.get(c, c) for c in text)


def guarded(text: str) -> str:
    """The text of an item or a cell; LaTeX must not read a first bracket or star as an option."""
    return re.sub(r"^[\[*]", r"{\g<0>}", text)


def formula(tex: str) -> str | None:
    """A formula between dollar signs that is safe to compile; None for any other text."""
    out = "".join(SYMBOLS.get(c) or (ESCAPES[c] if c == "…" else c) for c in tex)
    return out if out.strip() and is_formula(out) else None


def declarations(text: str) -> str:
    r"""A line of a preamble that declares the characters of ``text`` that pdfLaTeX lacks.

    A sign is the mathematical one; a letter of another script is shown by its code. Other engines
    take such letters from their fonts, and know no ``\DeclareUnicodeCharacter``.
    """
    lines = []
    for c in sorted({c for c in text if not c.isascii()} - KNOWN):
        parts = unicodedata.normalize("NFD", c)
        if len(parts) == 2 and parts[0].isascii() and parts[1] in ACCENTED and c not in SYMBOLS:
            continue
        shown = SYMBOLS.get(c, f"[U+{ord(c):04X}]")
        lines.append(f"\\DeclareUnicodeCharacter{{{ord(c):04X}}}{{{shown}}}")
    return "\n".join([r"\ifdefined\DeclareUnicodeCharacter", *lines, r"\fi", ""]) if lines else ""


def is_formula(tex: str) -> bool:
    """Whether TeX reads this, between dollar signs, as mathematics without side effects."""
    return Formula(tex).sound


def without_tex(text: str) -> str:
    """A sentence with its formulas in Unicode, without dollar signs."""
    return _MATH.sub(lambda m: to_unicode(m[1]), text)


def to_unicode(tex: str) -> str:
    """A formula in Unicode, without TeX's commands; unchanged if a command has no Unicode form."""
    return Formula(tex).text if "\\" in tex else tex


class Formula:
    """Recursive descent over a formula in TeX: its ``text`` in Unicode, and if it is ``sound``.

    Anything but mathematics is left out, or appears without its backslash.
    """

    def __init__(self, tex: str) -> None:
        self.tokens, self.at = _TOKEN.findall(tex), 0
        self.sound = "^^" not in tex  # TeX's way to write any character by its code
        self.text = "".join(self.row(0))

    def wrong(self, instead: str = "") -> str:
        """Mark the formula as unsound, and return the text to show ``instead``."""
        self.sound = False
        return instead

    def peek(self) -> str:
        """The next token that is not blank, or "" at the end."""
        at = self.at
        if at < len(self.tokens) and self.tokens[at].isspace():
            at += 1
        return self.tokens[at] if at < len(self.tokens) else ""

    def next(self) -> str:
        """The next token that is not blank, which is then passed."""
        if token := self.peek():
            self.at = self.tokens.index(token, self.at) + 1
        return token

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            if self.peek() == token:
                self.next()
            else:
                self.wrong()

    def row(self, depth: int, end: str = "", cells: bool = False) -> list[str]:
        """Atoms with their scripts, up to ``end``, in Unicode."""
        out: list[str] = []
        while (token := self.peek()) and token != end:
            if self.tokens[self.at].isspace():
                out.append(self.tokens[self.at])
                self.at += 1
            elif cells and token in ("&", r"\\"):
                out.append(", " if self.next() == "&" else "; ")
            elif token in "_^'":  # a script may stand alone, as over nothing
                out.append(self.scripts(depth))
            else:
                out.append(self.atom(depth))
        return out

    def scripts(self, depth: int) -> str:
        """The scripts of an atom: at most one of a kind, except primes as in ``x'^2``."""
        out, seen, before = "", set[str](), ""
        while (sign := self.peek()) and sign in "_^'":
            self.next()
            before, after = sign, before
            if sign == "'":
                seen.add("^")
                out += sign
                continue
            if sign in seen and (after, sign) != ("'", "^"):
                self.wrong()
            seen.add(sign)
            size = len(self.peek())
            out += script(sign, self.argument(depth, size))
            if self.tokens[self.at - 1].isalnum() and size > 1:  # to TeX its first letter alone
                seen.clear()
        return out

    def argument(self, depth: int, letters: int = 1) -> str:
        """The argument of a script or a command: a group, one sign, or some letters of a word."""
        token = self.peek()
        if token == "{":
            return self.atom(depth, group=True)
        if token.isalnum():
            self.next()
            token, rest = token[:letters], token[letters:]
            self.tokens[self.at - 1 : self.at] = [token, rest] if rest else [token]
            return token if token.isascii() else self.wrong(token)
        if token in ("*", "+", "-") or token[1:] in _NAMED:
            return self.atom(depth)
        return self.wrong(self.atom(depth) if token and token not in "}&" else "")

    def atom(self, depth: int, group: bool = False) -> str:
        """One sign, word, group, or command with its arguments; a ``group`` loses its braces."""
        token = self.next()
        if depth > DEEPEST:
            return self.wrong()
        if token == "{":
            inner = self.row(depth + 1, "}")
            self.expect("}")
            text = "".join(inner)
            return f"{{{text}}}" if "," in inner and not group else text  # a set that people write
        if token[0] != "\\":
            known = token not in "}%#&~$\\_^" and token.isascii() and token.isprintable()
            return token if known else self.wrong("" if token == "\\" else token)
        name = token[1:]
        if name in FONTS or name in _ONE or name in _TWO:
            return self.applied(name, depth)
        if name == "left":
            inner = [self.fence(), *self.row(depth + 1, r"\right")]
            self.expect(r"\right")
            return "".join([*inner, self.fence()])
        if name == "begin":
            self.expect("{")
            kind = self.next() if self.peek() in _BRACES else self.wrong("matrix")
            self.expect("}")
            cells = "".join(self.row(depth + 1, r"\end", cells=True)).strip()
            self.expect(r"\end", "{", kind, "}")
            opened, closed = _BRACES[kind]
            return opened + re.sub(r"\s*([,;])\s*", r"\1 ", cells) + closed
        text = character(name)
        return text if name in _NAMED or name in _ESCAPED else self.wrong(text)

    def applied(self, name: str, depth: int) -> str:
        """A font, an accent, a root or a fraction, with its argument."""
        if name in FONTS - _ONE and not (name == "text" and self.peek() == "{"):
            self.wrong()
        if name == "operatorname" and self.peek() == "*":
            self.next()
        power = ""
        if name == "sqrt" and self.peek() == "[":
            self.next()
            power = script("^", "".join(self.row(depth + 1, "]")))
            self.expect("]")
        start = self.at + 1
        inner = self.argument(depth + 1)
        if name == "text" and not _WORDS.fullmatch(
            "".join(self.tokens[start : self.at - 1]).replace(r"\_", "")
        ):
            self.wrong()
        if name in _TWO:
            return f"{bracketed(inner)}/{bracketed(self.argument(depth + 1))}"
        if name in _MARKS:
            marked = (c if unicodedata.combining(c) else c + _MARKS[name] for c in inner)
            return unicodedata.normalize("NFC", "".join(marked))
        if name == "sqrt":
            return f"{power}√{bracketed(inner)}"
        return "ℝ" if (name, inner) == ("mathbb", "R") else inner

    def fence(self) -> str:
        r"""The bracket behind ``\left`` or ``\right``."""
        token = self.next()
        if token not in _FENCES:
            self.wrong()
        return character(token[1:]) if token[:1] == "\\" else token.replace(".", "")


def character(name: str) -> str:
    """The character of a command, or the command's name if it has none."""
    if name in IGNORED:
        return ""
    name = VARIANTS.get(name, name)
    return _CHARACTERS.get(name, name if name.isalnum() or name in _ESCAPED else "")


def bracketed(inner: str) -> str:
    """A text in parentheses, unless it is one name or number."""
    return inner if re.fullmatch(r"\w+", inner) else f"({inner})"


def script(sign: str, inner: str) -> str:
    """A script in Unicode's small letters if all of them exist; else ``_ab`` or ``_{a b}``."""
    inner = re.sub(r" ?([-+−/]) ?", r"\1", inner.strip())
    table, small = _SMALL[sign], inner.replace("−", "-")
    if small and all(c in table for c in small) and (len(small) == 1 or not small.isalpha()):
        return "".join(table[c] for c in small)
    return sign + (inner if re.fullmatch(r"\w+", inner) else f"{{{inner}}}")


__all__ = [
    "ESCAPES", "SYMBOLS", "declarations", "escape", "formula", "guarded", "is_formula",
    "to_unicode", "without_tex",
]  # fmt: skip
