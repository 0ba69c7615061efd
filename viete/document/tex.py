r"""Prose in LaTeX: characters escaped, and which formulas may stand in it as they are.

A card is anybody's file, and its prose may say ``$\input{/etc/passwd}$``. `is_formula` knows the
mathematics that our printer writes and people write in prose: letters, signs, scripts, fractions,
roots, accents, words. What is none of that is no formula but text, and is shown as text.
"""

from __future__ import annotations

import re
import unicodedata

from viete.notation.lexer import COMMANDED, GREEK

ESCAPES = {
    "\\": r"\textbackslash{}", "_": r"\_", "&": r"\&", "%": r"\%", "#": r"\#", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "$": r"\$", "…": r"\dots{}",
}  # fmt: skip
SIGNS = {
    "≤": r"\le", "≥": r"\ge", "≠": r"\ne", "×": r"\times", "→": r"\to", "−": "-", "∂": r"\partial",
    "⊙": r"\odot", "√": r"\surd", "⊤": r"\top", "ᵀ": r"^\top", "·": r"\cdot", "∈": r"\in",
    "ℝ": r"\mathbb{R}", "∑": r"\sum", "∞": r"\infty", "⟨": r"\langle", "⟩": r"\rangle",
    "⌈": r"\lceil", "⌉": r"\rceil", "⌊": r"\lfloor", "⌋": r"\rfloor", "±": r"\pm", "≈": r"\approx",
    "′": r"'", "∘": r"\circ", "ŷ": r"\hat{y}",
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

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\s+|.", re.S)
_WORDS = re.compile(r"\{[A-Za-z0-9 .,:;()/+*=-]*\}")
_NAMED = (
    frozenset(GREEK.values())
    | COMMANDED
    | frozenset(
        "ln tan arg argmax det dim lim sup inf Pr sum prod int partial nabla infty pm mp times "
        "cdot odot circ top intercal bmod bullet ast star oplus otimes dagger "
        "le leq ge geq ne neq lt gt ll gg approx sim equiv propto in notin subset cup cap mid to "
        "gets leftarrow rightarrow Rightarrow mapsto langle rangle lceil rceil lfloor rfloor lvert "
        "rvert lVert rVert dots ldots cdots vdots quad qquad colon forall exists land lor neg surd "
        "prime hbar Re Im varepsilon vartheta varphi varrho limits nolimits displaystyle".split()
    )
)
_SIGNS = frozenset(",;:! {}|_%&#$")
_ONE = frozenset(
    "sqrt bar hat tilde vec dot ddot overline underline widehat widetilde boxed mathbb mathbf "
    "mathcal mathrm mathit mathsf mathtt boldsymbol operatorname ensuremath".split()
)
_TWO = frozenset("frac tfrac dfrac binom".split())
_FENCES = frozenset(r"( ) [ ] | . / \{ \} \| \langle \rangle \lceil \rceil \lfloor \rfloor".split())


def escape(text: str) -> str:
    """Words as LaTeX shows them, with no formula in them."""
    return "".join(ESCAPES.get(c) or SYMBOLS.get(c, c) for c in text)


def first(text: str) -> str:
    """Text of an item or a cell: a bracket or a star that begins it is no option of LaTeX's."""
    return re.sub(r"^[\[*]", r"{\g<0>}", text)


def formula(tex: str) -> str | None:
    """The inside of a formula as it may stand between dollar signs; None where it may not."""
    out = "".join(SYMBOLS.get(c) or (ESCAPES[c] if c == "…" else c) for c in tex)
    return out if out.strip() and is_formula(out) else None


def declared(text: str) -> str:
    r"""A line of a preamble that gives pdfLaTeX what it has not of the characters of ``text``.

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
    """Whether TeX, between dollar signs, takes this for mathematics and does nothing else."""
    if "^^" in tex:  # TeX's way to write any character by its code
        return False
    try:
        reader = _Formula([t for t in _TOKEN.findall(tex) if not t.isspace()])
        reader.row(0)
        return reader.at == len(reader.tokens)
    except _No:
        return False


class _No(Exception):
    """This is not a formula."""


class _Formula:
    """A recursive descent over TeX's mathematics; it builds nothing."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = tokens, 0

    def next(self) -> str:
        if self.at == len(self.tokens):
            raise _No
        self.at += 1
        return self.tokens[self.at - 1]

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def row(self, depth: int, ends: tuple[str, ...] = (), cells: bool = False) -> None:
        """Atoms with their scripts, up to one of ``ends`` or to what no atom begins with."""
        if depth > DEEPEST:
            raise _No
        while self.at < len(self.tokens) and self.peek() not in ends:
            if cells and self.peek() in ("&", "\\\\"):
                self.at += 1
                continue
            if self.peek() not in "_^":  # a script may stand alone, as over nothing
                self.atom(depth)
            seen = set()
            while (sign := self.peek()) and sign in "_^'":
                self.at += 1
                kind = "^" if sign == "'" else sign
                if kind in seen and sign != "'":
                    raise _No  # TeX refuses two
                seen.add(kind)
                if sign != "'":
                    self.argument(depth)

    def argument(self, depth: int) -> None:
        """What a script or a command takes: a group, or one sign."""
        token = self.peek()
        if token == "{":
            self.atom(depth)
        elif token.isalnum() or token in ("*", "+", "-") or token[1:] in _NAMED:
            self.at += 1
        else:
            raise _No

    def words(self) -> None:
        """``{a word}``, as it stands in the text."""
        inner = []
        if self.next() != "{":
            raise _No
        while (token := self.next()) != "}":
            inner.append(token)
        if not _WORDS.fullmatch("{" + "".join(inner).replace(r"\_", "") + "}"):
            raise _No

    def atom(self, depth: int) -> None:
        token = self.next()
        if token == "{":
            self.row(depth + 1, ("}",))
            self.close("}")
        elif token == r"\text":
            self.words()
        elif token[0] != "\\":
            if token in "}%#&~$\\_^" or not (token.isascii() and token.isprintable()):
                raise _No
        elif (name := token[1:]) in _NAMED or name in _SIGNS:
            pass
        elif name in _ONE:
            if name == "operatorname" and self.peek() == "*":
                self.at += 1
            if name == "sqrt" and self.peek() == "[":
                raise _No
            self.argument(depth + 1)
        elif name in _TWO:
            self.argument(depth + 1)
            self.argument(depth + 1)
        elif name == "left":
            self.fence()
            self.row(depth + 1, (r"\right",))
            self.close(r"\right")
            self.fence()
        elif name == "begin":
            self.cases()
            self.row(depth + 1, (r"\end",), cells=True)
            self.close(r"\end")
            self.cases()
        else:
            raise _No

    def close(self, end: str) -> None:
        if self.next() != end:
            raise _No

    def fence(self) -> None:
        if self.next() not in _FENCES:
            raise _No

    def cases(self) -> None:
        for letter in "{cases}":
            self.close(letter)


__all__ = ["ESCAPES", "SYMBOLS", "declared", "escape", "first", "formula", "is_formula"]
