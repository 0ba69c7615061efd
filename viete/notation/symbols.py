"""Declared symbols: what the letters of a card mean, and how a written name matches one.

A symbol is a base with label and index slots: ``W_Q^{i,h}`` has the base W, the label Q below and
the indices i and h above. A written name such as ``W_Q^{3,h}`` or ``x^i_j`` is matched against the
declared patterns: labels must be equal, and an index slot takes any expression. The rest is a row
or entry (below), or a transpose or power (above).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from viete.notation.heads import Heads
from viete.notation.lexer import ELEMENTARY, GREEK_NAMES
from viete.notation.tree import Expr, Symbol, labels_below
from viete.notation.words import Words


@dataclass(frozen=True)
class Signature:
    """The facts about a function that the parser needs: its name and its number of arguments."""

    name: str
    least: int
    most: int | None
    semi: int = 0  # how many of them stand before a semicolon


# Operations every card has; their meanings are rules in viete/analysis/shapes.py and the
# interpreters. Functions over these are defined in viete/library/functions.md.
PRIMITIVES = {
    s.name: s
    for s in (
        *(Signature(n, 1, 1) for n in (
            *ELEMENTARY, "abs", "floor", "sum", "mean", "argmax", "rows", "cols", "len",
        )),
        Signature("max", 1, 2), Signature("min", 1, 2), Signature("where", 3, 3),
        Signature("concat", 2, None), Signature("inner", 2, 2),
    )
}  # fmt: skip
# What code and papers call the functions of viete/library/functions.md, in small letters.
ALIASES = {
    "layernorm": ("LN",), "layernormalization": ("LN",), "norm": ("LN", "RMSNorm"),
    "rootmeansquarenorm": ("RMSNorm",), "swish": ("SiLU",),
    "gelunew": ("GELU_tanh",), "logistic": ("sigmoid",), "ln": ("LN", "log"),
}  # fmt: skip
INPUTS_ARE = "; an input is declared under Inputs: $t ∈ {0, …, V-1}^n$"
BINDERS = ("sum", "mean", "max", "concat")
CONSTANTS = ("pi", "inf")
LAST = ("N", "L")  # in the place of a block's letter: the last, where the card has no such name
TEXTS = "texts"  # below a binder of a question: over the texts of a batch


SHORT = 16  # symbols of one letter that are as well tried one by one
Mask = tuple[bool, ...]  # of the scripts of a symbol on one side, which are index letters
Labels = tuple[str, ...]
Index = dict[tuple[Mask, Mask], dict[tuple[Labels, Labels], list[Symbol]]]


def plain_labels(mask: Mask, labels: Sequence[str]) -> Labels:
    """The labels that are part of a name, without index letters."""
    return tuple(label for index, label in zip(mask, labels, strict=False) if not index)


@lru_cache(maxsize=256)
def by_labels(group: tuple[Symbol, ...]) -> Index:
    """Symbols with one base letter, by the places and texts of their labels."""
    index: Index = {}
    for s in group:
        masks = tuple(x.index for x in s.sub), tuple(x.index for x in s.sup)
        labels = ([x.text for x in s.sub], [x.text for x in s.sup])
        key = plain_labels(masks[0], labels[0]), plain_labels(masks[1], labels[1])
        index.setdefault(masks, {}).setdefault(key, []).append(s)
    return index


@dataclass
class Scope:
    """The names that a formula may use."""

    symbols: dict[str, list[Symbol]] = field(default_factory=dict)
    functions: dict[str, Signature] = field(default_factory=lambda: dict(PRIMITIVES))
    operators: dict[Symbol, Signature] = field(default_factory=dict)  # functions of a card's values
    indices: set[str] = field(default_factory=set)
    words: Callable[[], Words] = Words  # of the vocabulary, found when first asked for: E["a"]
    text: Callable[[], Symbol] | None = None  # of a question: the input that is the text
    vector: Callable[[str, Expr], Expr] | None = None  # and what a bar makes of a token's number
    heads: Heads | None = None  # and one letter for a group of heads and a member of it
    last: Mapping[str, Expr] = field(default_factory=dict)  # of a question: each loop's last block
    over_tokens: Callable[[Expr, int], bool] | None = None  # whether an axis of a value has them
    second: Callable[[str], Callable[[], Expr] | None] = lambda name: (
        None
    )  # of no value of the card
    spelled: Mapping[str, str] = field(default_factory=dict)  # names as a question wrote them
    inputs: bool = True  # whether the card declares any; an error may have to say how

    @property
    def numbered(self) -> frozenset[tuple[str, ...]]:
        """The bases of names with numbers, such as W of W_1, which then is no row of W."""
        words = ((s.base, *labels_below(s)) for group in self.symbols.values() for s in group)
        return frozenset(w[:k] for w in words for k in range(1, len(w)) if w[k].isdigit())

    @classmethod
    def of(cls, symbols: Iterable[Symbol], indices: Iterable[str] = ()) -> Scope:
        """The scope of these symbols and index letters."""
        scope = cls(indices=set(indices))
        for symbol in symbols:
            scope.declare(symbol)
        return scope

    def declare(self, symbol: Symbol) -> None:
        """Add a symbol; a card's reader checks for duplicates."""
        self.symbols.setdefault(symbol.base, []).append(symbol)

    def inside(self, indices: Iterable[str]) -> Scope:
        """This scope with more bound index letters, which hide values of the same letter."""
        letters = set(indices)
        symbols = {
            base: [s for s in group if s.sub or s.sup] if base in letters else group
            for base, group in self.symbols.items()
        }
        letters |= self.indices
        return replace(self, symbols=symbols, indices=letters)

    def fitting(self, base: str, below: Sequence[str], above: Sequence[str]) -> list[Symbol]:
        """The symbols of this letter that may match scripts with these labels."""
        group = self.symbols.get(base, [])
        if len(group) <= SHORT:
            return group
        return [
            s for (sub, sup), table in by_labels(tuple(group)).items()
            if len(sub) <= len(below) and len(sup) <= len(above)
            for s in table.get((plain_labels(sub, below), plain_labels(sup, above)), ())
        ]  # fmt: skip

    def bases(self) -> set[str]:
        """Every word that may begin a name."""
        return set(self.symbols) | self.indices | set(CONSTANTS)

    def splits(self, run: str, limit: int = 3) -> list[list[str]]:
        """Ways to split letters without spaces (``QK``) into declared names; at most ``limit``."""
        bases, out = self.bases(), list[list[str]]()

        def go(rest: str, done: list[str]) -> None:
            if len(out) >= limit:
                return
            if not rest:
                out.append(done)
            for n in range(len(rest), 0, -1):
                if rest[:n] in bases:
                    go(rest[n:], [*done, rest[:n]])

        if len(run) <= 24:
            go(run, [])
        return out

    def suggest(self, name: str) -> str:
        """``; did you mean …?`` for a misspelled name, or nothing."""
        if "'" in name:
            return "; no name with this prime is declared here, and a transpose is written K^T"
        if head := re.fullmatch(r"L(\d+)H(\d+)", name):
            block, number = (int(x) + 1 for x in head.groups())
            return f"; head {name} is A^{{{block},{number}}} here: blocks and heads count from 1"
        if name.startswith("hook_"):
            return "; viete show MODEL --names has the formula of each hook name"
        known = {s.key for group in self.symbols.values() for s in group}
        known |= {s.key for s in self.operators}
        if len(name) > 1:  # a letter is near to tr, and is none
            known |= {f for f in self.functions if not f.endswith("_library")}  # second names
        known |= GREEK_NAMES & set(self.symbols)
        plain = re.sub(r"[_ {}]", "", name.lower())
        near = sorted(f for f in self.functions if re.sub("_", "", f.lower()) == plain != "")
        near = near or [f for f in ALIASES.get(plain, ()) if f in self.functions]
        near = near or difflib.get_close_matches(name, sorted(known), 2, 0.6)
        return f"; did you mean {' or '.join(near)}?" if near else ""
