"""A position in a formula's tokens, and shared parsing steps: brackets, names, scripts, errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from viete.errors import Text, VieteError
from viete.notation.lexer import ACCENTS, Token, primed, tokenize, unprimed
from viete.notation.symbols import Scope
from viete.notation.tree import Expr, Slot, Symbol

MAX_DEPTH = 120
MAX_NESTING = 60  # counts brackets twice
CLOSERS = {"(": ")", "[": "]", "{": "}", "⟨": "⟩", "\\{": "\\}", "⌊": "⌋", "⌈": "⌉"}
CLOSED = frozenset(CLOSERS.values())
TRANSPOSE = frozenset(("T", "⊤"))
# Bars around a length. | and ‖ open where an operand begins and close behind one; TeX's tell.
BARS = {"|": "|", "‖": "‖", "\\lvert": "\\rvert", "\\lVert": "\\rVert"}


@dataclass(frozen=True)
class Script:
    """One comma-separated item below (``_``) or above (``^``) a name, still as tokens."""

    sign: str
    tokens: tuple[Token, ...]
    braced: bool

    @property
    def label(self) -> str:
        return "".join(t.text for t in self.tokens)

    @property
    def at(self) -> tuple[int, int]:
        return self.tokens[0].start, self.tokens[-1].end


def parse_name(source: Text, kind: str, indices: set[str]) -> Symbol:
    """Parse a name in its declaration, such as ``W_Q^{i,h}``, without other names."""
    tokens = tokenize(source)
    parser = Cursor(source, tokens, Scope())
    base = parser.accent() if parser.peek.kind == "accent" or parser.at_accent_word() else None
    if base is None:
        first = parser.next()
        if first.kind != "word":
            raise source.error("a name must begin with a letter")
        base = first.text
    slots: dict[str, list[Slot]] = {"_": [], "^": []}
    base, items = parser.scripted_name(base)
    for item in items:
        if not all(t.kind in ("word", "num") or t.text == "*" for t in item.tokens):
            raise source.error(f"{item.label} cannot be part of a declared name", *item.at)
        if any(x.text == item.label for x in (*slots["_"], *slots["^"])) and item.label in indices:
            raise source.error(f"{item.label} is in this name twice, and a family has each letter "
                               "once", *item.at)  # fmt: skip
        slots[item.sign].append(Slot(item.label, item.label in indices))
    parser.finish()
    return Symbol(kind, base, tuple(slots["_"]), tuple(slots["^"]))


def top_level(tokens: Sequence[Token], *signs: str, start: int = 0) -> Iterator[int]:
    """The positions from ``start`` on of ``signs`` outside all brackets."""
    depth = 0
    for k in range(start, len(tokens)):
        kind, text = tokens[k][:2]
        if kind == "op" and depth == 0 and text in signs:
            yield k
        elif kind == "op":
            depth += (text in CLOSERS) - (text in CLOSED)


def end_token(before: Token) -> Token:
    """The end token of a part of a formula; ``before`` is the next token of the whole."""
    return Token("end", "", before.start, before.start)


class Cursor:
    """One formula's tokens, read from the left."""

    def __init__(self, source: Text, tokens: list[Token], scope: Scope) -> None:
        self.source, self.tokens, self.scope = source, tokens, scope
        self.pos = self.depth = 0
        self.left: set[str] = set()  # index letters whose binder has ended
        self.bar = ""  # what closes the innermost bracket, if that is a pair of bars
        self.script = False  # whether the tokens are those of a script
        self.block = ""  # the letter of blocks in whose place they stand
        self.spans: dict[Expr, tuple[int, int]] = {}  # where a part was read last

    @property
    def peek(self) -> Token:
        return self.tokens[self.pos]

    def next(self) -> Token:
        token = self.peek
        if token.kind != "end":
            self.pos += 1
        return token

    def accept(self, *signs: str) -> Token | None:
        token = self.tokens[self.pos]
        if token.kind != "op" or token.text not in signs:
            return None
        self.pos += 1
        return token

    def expect(self, sign: str, opened: Token | None = None) -> Token:
        if token := self.accept(sign):
            return token
        if opened is not None and self.peek.kind == "end":
            raise self.error(f"this {opened.text} is never closed; expected {sign}", opened)
        raise self.error(f"expected {sign} here, found {self.found()}", self.peek)

    def found(self) -> str:
        return "the end" if self.peek.kind == "end" else repr(self.peek.text)

    def error(self, message: str, at: Token | Expr | Script | tuple[int, int]) -> VieteError:
        match at:
            case Token():
                at = at.start, at.end
            case Script():
                at = at.at
            case Expr():
                return self.source.error(message, *self.spans.get(at, (0, None)))
        return self.source.error(message, *at)

    def finish(self) -> None:
        if self.peek.kind != "end":
            sign = self.peek.text
            why = "nothing was opened that this closes" if sign in CLOSED else (
                f"{sign!r} cannot stand here")  # fmt: skip
            raise self.error(why, self.peek)

    def node(self, e: Expr, start: Token | Expr) -> Expr:
        """Record that a node is the text from ``start`` to the last token read."""
        first = start.start if isinstance(start, Token) else self.spans.get(start, (0, 0))[0]
        span = first, self.tokens[self.pos - 1].end if self.pos else first
        self.spans[e] = span
        before = self.source.places.setdefault(e, span)
        if span[0] <= before[0] and before[1] <= span[1]:  # the same one, in brackets
            self.source.places[e] = span
        return e

    def deeper(self) -> None:
        """Count one more bracket, sign or factor, to stop before Python's recursion limit."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.error(
                "this expression is nested too deeply; give names to its parts", self.peek
            )

    def at_accent_word(self) -> bool:
        """``tilde{A}``, the plain spelling of an accent."""
        after = self.tokens[min(self.pos + 1, len(self.tokens) - 1)]
        return self.peek.kind == "word" and self.peek.text in ACCENTS and after.text == "{"

    def accent(self) -> str:
        mark = self.next()
        braced = self.accept("{")
        if self.peek.kind == "accent" or self.at_accent_word():
            inner = self.accent()
        else:
            letter = self.next()
            if letter.kind != "word":
                raise self.error(f"a name must stand under the {mark.text}", letter)
            inner = letter.text
        if braced:
            self.expect("}", braced)
        return primed(f"{mark.text}{{{inner}}}", self.primes())

    def primes(self) -> str:
        """The primes at this place."""
        found = ""
        while self.accept("'"):
            found += "'"
        return found

    def script_group(self, sign: str) -> list[Script]:
        """The items of one ``_…`` or ``^…``, after its sign."""
        if opened := self.accept("{"):
            end = next(top_level(self.tokens, "}", start=self.pos), None)
            if end is None:
                raise self.error("this { is never closed; expected }", opened)
            commas = top_level(self.tokens[:end], ",", start=self.pos)
            cuts = list(pairwise([self.pos - 1, *commas, end]))
            for before, after in cuts:
                if after == before + 1:
                    raise self.error("this script is empty", self.tokens[after])
            self.pos = end + 1
            return [Script(sign, tuple(self.tokens[a + 1 : b]), True) for a, b in cuts]
        t = self.peek
        if t.text == "-" and self.tokens[self.pos + 1].kind == "num":
            return [Script(sign, (self.next(), self.next()), False)]
        if t.kind == "word" and t.text.endswith("'"):  # W_Q' is W'_Q, as in TeX
            letter, primes = unprimed(t.text)
            ends = t.end - len(primes)
            self.tokens[self.pos : self.pos + 1] = [
                Token("word", letter, t.start, ends),
                *(Token("op", x, ends, t.end) for x in primes),
            ]
            t = self.peek
        if t.kind in ("num", "word") or t.text in ("⊤", "*"):
            return [Script(sign, (self.next(),), False)]
        raise self.error(f"expected a script after {sign}", t)

    def scripts(self) -> list[Script]:
        items: list[Script] = []
        while self.peek.kind == "op" and self.peek.text in ("_", "^"):
            items += self.script_group(self.next().text)
        return items

    def scripted_name(self, base: str) -> tuple[str, list[Script]]:
        """A base letter and its scripts, with primes moved to the base: ``W_Q'^i`` is of W'."""
        items = self.scripts()
        while primes := self.primes():
            base = primed(base, primes)
            items += self.scripts()
        return base, items
