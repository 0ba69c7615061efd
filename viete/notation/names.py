"""Names in a formula: which declared symbol a letter and its scripts mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from viete.errors import VieteError
from viete.notation.barred import in_font
from viete.notation.cursor import TRANSPOSE, Cursor, Script
from viete.notation.lexer import Token
from viete.notation.tree import CALL, Expr, Num, Slot, Symbol


class NameParser(Cursor):
    """A cursor that resolves names: it finds their symbols in the formula's scope."""

    def token(self, text: str, at: Token | tuple[int, int]) -> Num:
        """The number of a word of the vocabulary."""
        words = self.scope.words()
        number = words.get(text)
        if number is None:
            raise self.error(words.unknown(text), at)
        return Num(Fraction(number))

    def plain_word(self, t: Token) -> Num | None:
        r"""The id of a word without quotes: of ``\\text{a}``, or of a card's short list."""
        text = in_font(self.source.text[t.start : t.end])
        if text is not None and self.scope.vector is not None and not self.scope.splits(t.text):
            return self.token(text, t)
        words = self.scope.words()
        return Num(Fraction(words[t.text])) if words.bare and t.text in words else None

    def is_name(self, text: str) -> bool:
        """Whether a word without scripts is a name: b is none where only b_1 is declared."""
        group = self.scope.symbols.get(text)
        if group is None:
            return text in self.scope.bases()
        return text in self.scope.indices or any(not (s.sub or s.sup) for s in group)

    def is_word(self, e: Num) -> bool:
        """Whether a number was last read as a word, in quotes or as text."""
        first, end = self.spans.get(e, (0, 0))
        written = self.source.text[first:end]
        return written.startswith('"') or in_font(written) is not None

    def differentiates(self) -> bool:
        """Whether this ∂ is an operator before a formula and not part of a name."""
        if "partial" not in self.scope.functions:
            return False
        start, tokens = self.pos, list(self.tokens)
        try:
            base = self.accent()
            return self.match(base, self.scripts()) is None and base not in self.scope.symbols
        except VieteError:
            return True
        finally:
            self.pos, self.tokens = start, tokens

    def last_block(self) -> Expr | None:
        """The last block, which N and L mean as a block index, and in no other script."""
        last = self.scope.last
        alone = not self.script and len(set(last.values())) == 1
        return last.get(self.block) or (next(iter(last.values())) if alone else None)

    def declared(self, base: str) -> bool:
        """Whether a letter, or a family of that letter if scripts follow, is declared."""
        scripted = self.peek.text in ("_", "^")
        group = self.scope.symbols.get(base, ())
        return any(scripted or not (s.sub or s.sup) for s in group)

    def behind(self, base: str) -> str:
        """A base with the primes after its scripts; the cursor stays before the scripts."""
        start = self.pos
        if base not in self.scope.symbols and self.peek.kind == "op":
            base, _ = self.scripted_name(base)
        self.pos = start
        return base

    def function_name(self, t: Token) -> tuple[str | None, int]:
        """The function that begins here, and the number of tokens of its subscripts.

        Among RoPE, RoPE_pairs and RoPE_pairs_after it is the longest that exists.
        """
        name, used = t.text, 0
        hidden = self.scope.symbols.get(name)  # a value of that name, but part_library is the
        found = (name, 0) if name in self.scope.functions and not hidden else (None, 0)  # library's
        while len(rest := self.tokens[self.pos + used :][:4]) >= 2 and rest[0].text == "_":
            braced = rest[1].text == "{" and len(rest) == 4 and rest[3].text == "}"
            name += f"_{rest[2].text if braced else rest[1].text}"
            used += 4 if braced else 2
            if name in self.scope.functions and all(s.key != name for s in hidden or ()):
                found = name, used
        return found

    def match(
        self, base: str, items: list[Script]
    ) -> tuple[Symbol, list[Script], list[Script]] | None:
        """The best matching symbol, its index scripts, and the unused scripts."""
        if not items:  # most names: they stand in scripts
            bare = [s for s in self.scope.symbols.get(base, ()) if not s.sub and not s.sup]
            if len(bare) < 2:
                return (bare[0], [], []) if bare else None
        found: list[tuple[tuple[int, int], Symbol, list[Script], list[Script]]] = []
        given = [[(s, s.label) for s in items if s.sign == sign] for sign in "_^"]
        below, above = ([label for _, label in side] for side in given)
        for symbol in self.scope.fitting(base, below, above):
            sides = list(zip((symbol.sub, symbol.sup), given, strict=True))
            if any(len(scripts) < len(slots) for slots, scripts in sides):
                continue
            index, labels = list[Script](), 0
            for slot, (script, label) in (x for side in sides for x in zip(*side, strict=False)):
                if (label in TRANSPOSE) if slot.index else (slot.text != label):
                    break
                if slot.index:
                    index.append(script)
                else:
                    labels += 1
            else:
                left = [s for slots, scripts in sides for s, _ in scripts[len(slots) :]]
                # Labels spelled out beat index slots: h_0 is the name h_0 before it is h at 0.
                # Only then does using up more of the scripts count.
                found.append(((labels, len(index)), symbol, index, left))
        if not found:
            return None
        found.sort(key=lambda f: f[0], reverse=True)
        if len(found) > 1 and found[0][0] == found[1][0]:
            raise self.error(
                f"this can be read as {found[0][1].key} or as {found[1][1].key}",
                items[0] if items else self.tokens[self.pos - 1],
            )
        _, symbol, index, left = found[0]
        return symbol, index, left

    def match_heads(
        self, base: str, items: list[Script]
    ) -> tuple[Symbol, list[Script], list[Script]] | None:
        """As `match`, for names in which one letter counts the heads of all groups."""
        if self.scope.heads is None or base not in self.scope.heads.symbols:
            return None
        outer, self.scope = self.scope, replace(self.scope, symbols=self.scope.heads.symbols)
        found = self.match(base, items)
        self.scope = outer
        return found

    def second_name(
        self, base: str, items: list[Script]
    ) -> tuple[Callable[[], Expr], list[Script]] | None:
        """The meaning of a name that is not a value of the card, and its unused scripts."""
        below = [s for s in items if s.sign == "_"]
        most = min(len(below), 1)  # such a name has one label, as W_U does
        for k in range(most, -1 if base not in self.scope.indices else 0, -1):
            if (meant := self.scope.second(key_of(base, below[:k]))) is not None:
                return meant, [*below[k:], *(s for s in items if s.sign == "^")]
        return None

    def goes_on(self, item: Script) -> bool:
        """Whether a superscript follows a comma: it is an index, since powers have no commas."""
        before = self.source.text[: item.tokens[0].start].rstrip()
        return item.sign == "^" and item.label not in TRANSPOSE and before.endswith(",")

    def begins(self, symbol: Symbol, items: list[Script]) -> bool:
        """Whether the scripts are those of ``symbol`` with some index letters missing."""
        return all(
            all(g.index or g.text == s.label for g, s in zip(slots, given, strict=False))
            and all(g.index for g in slots[len(given) :])
            for sign, slots in (("_", symbol.sub), ("^", symbol.sup))
            for given in ([s for s in items if s.sign == sign],)
        )

    def unknown(self, base: str, items: list[Script], loose: bool, t: Token) -> VieteError:
        """The error for an undeclared name; ``loose``: its script may continue."""
        end = self.tokens[self.pos - 1].end
        if loose and not self.scope.splits(self.peek.text):
            end = self.peek.end  # d_model is one name, whatever begins like it
        name, span = self.source.text[t.start : end], (t.start, end)
        declared = self.scope.symbols.get(base, [])
        if function := next((s for s in self.scope.operators if s.base == base), None):
            of = function.key.replace(CALL, "(…)")
            return self.error(f"unknown symbol {name}; the card has a function {of}", span)
        if lacking := next((s for s in declared if s.slots and self.begins(s, items)), None):
            return self.error(
                f"{name} is one value for each {' and '.join(lacking.slots)}; write {lacking.key}, "
                f"or numbers for the letters", span,
            )  # fmt: skip
        labels = (x.text for s in declared for x in (*s.sub, *s.sup) if not x.index)
        for label in (x for x in labels if not x.isdigit()):
            if any(label in [t.text for t in i.tokens] and len(i.tokens) > 1 for i in items):
                return self.error(
                    f"unknown symbol {name}; {label} is a label here, and an index under a line "
                    f"For ${label} = 1, …, N$:", span,
                )  # fmt: skip
        known = ", ".join(s.key for s in declared)
        hint = f"; declared with this letter: {known}" if known else self.scope.suggest(name)
        return self.error(f"unknown symbol {name}{hint}", span)


def key_of(base: str, items: list[Script]) -> str:
    """A name with the labels below it, as ``W_U``."""
    return Symbol("value", base, tuple(Slot(s.label) for s in items if s.sign == "_")).key


__all__ = ["NameParser"]
