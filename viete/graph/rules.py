"""Rewriting rules: tables of patterns in the notation, and the driver that applies them.

A table is a Markdown page. In a line ``- $pattern → formula$``, letters match any formula, except
for the letters in `ADMITS`, which match numbers and similar. A line ``- $y = pattern$: $∂a = …$``
gives several formulas. The first rule that matches is applied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import chain

from viete.errors import Text
from viete.graph.card import CardData, with_right
from viete.graph.matching import Admits, Match, match, put
from viete.library.functions import Function, library, resolved
from viete.notation.lexer import GREEK
from viete.notation.parser import parse
from viete.notation.substitution import Abstraction, Put
from viete.notation.symbols import Scope
from viete.notation.tree import Apply, Expr, Idx, Num, Ref, Slot, Symbol, rebuilt, refs

LETTERS = "a b c w x z t h H A B γ β ε ρ θ τ i n u s v W".split()
FAMILIES = "f g r".split()  # with letters that something binds: f^k, f^{j,k}
RANKS = {"number": 0, "vector": 1, "matrix": 2}
_MATH = re.compile(r"\$(.+?)\$")
_KINDS = re.compile(r"\$ \(([a-z, ]+)\):")
_ARROW = re.compile("→|->")


def of_entries(f: Put) -> bool:
    """Whether the letters of a family index entries, not blocks or heads."""
    assert isinstance(f, Abstraction)
    indexed = (x for r in refs(f.body) for x in r.index)
    return all(x.free.isdisjoint(f.letters) for x in indexed)


ADMITS: Mapping[str, Callable[[Put], bool]] = {
    "n": lambda e: isinstance(e, Num),
    "u": lambda e: isinstance(e, Num) and e.value.numerator == 1 and e.value.denominator > 1,
    "i": lambda e: isinstance(e, Idx | Num),
    "r^k": of_entries,
}


@dataclass(frozen=True)
class Rule:
    """``pattern`` and the formulas that it gives, by name; the formula of ``a → b`` has no name.

    ``meaning`` is what is said of ``a → b``, with formulas over its letters between dollar signs.
    ``ranks`` are the numbers of axes that the two factors of a product must have; ``complete`` says
    that every position must have a target t.
    """

    pattern: Expr
    formulas: tuple[tuple[str, Expr], ...]
    ranks: tuple[int, ...] = ()
    complete: bool = False
    meaning: str = ""
    text: Text = field(default=Text(""), compare=False, repr=False)

    @property
    def head(self) -> str:
        """The operation that a formula must have for the rule to match; see `head`."""
        return head(self.pattern)

    def among(self, hidden: Collection[str]) -> Rule:
        """The same rule in a card whose own functions have the names in ``hidden``."""
        if not hidden:
            return self
        formulas = tuple((name, resolved(f, hidden)) for name, f in self.formulas)
        return replace(self, pattern=resolved(self.pattern, hidden), formulas=formulas)

    def fits(
        self, e: Expr, functions: Mapping[str, Function] | None = None, admits: Admits | None = None
    ) -> Match | None:
        """The formulas that the letters match; None if the pattern does not match."""
        return match(self.pattern, e, functions, ADMITS if admits is None else admits)

    def of(self, e: Expr, functions: Mapping[str, Function] | None = None) -> Expr | None:
        """The result of ``a → b`` on a formula."""
        found = self.fits(e, functions)
        return None if found is None else put(self.formulas[0][1], found)


def first(
    rules: Iterable[Rule], e: Expr, functions: Mapping[str, Function] | None = None
) -> tuple[Rule, Expr] | None:
    """The first rule that matches a formula, and its result."""
    for rule in rules:
        if rule.head == head(e) and (new := rule.of(e, functions)) is not None:
            return rule, new
    return None


def head(e: Expr) -> str:
    """The operation of a formula, or its kind."""
    return e.op if isinstance(e, Apply) else type(e).__name__


@cache
def scope() -> Scope:
    """The letters of rules: arguments, the value y, a part ŷ of it, and ∂ of each."""
    out = Scope()
    out.functions |= {f.name: f.signature for f in library().values()}
    names = [GREEK.get(x, x) for x in LETTERS] + ["y", "hat{y}"]
    for base in (*names, *(f"partial{{{n}}}" for n in names)):
        out.declare(Symbol("argument", base))
    for base in FAMILIES:
        for name in (base, f"partial{{{base}}}"):
            for letters in ("k", "jk"):
                slots = tuple(Slot(s, True) for s in letters)
                out.declare(Symbol("argument", name, (), slots))
    return out


@cache
def table(room: str, name: str) -> dict[str, tuple[Rule, ...]]:
    """The rules of a page in a room, by their heading."""
    source = resources.files(f"viete.{room}").joinpath(name).read_text("utf-8")
    out: dict[str, tuple[Rule, ...]] = {}
    title = ""
    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith("## "):
            title = line[3:].strip()
        elif line.startswith("- $"):
            maths = (Text(m[1], name, number, m.start(1) + 1, line) for m in _MATH.finditer(line))
            out[title] = (*out.get(title, ()), *read_line(line, list(maths)))
    return out


@cache
def rules(room: str, name: str) -> tuple[Rule, ...]:
    """The rules of a page, in the order in which they are tried."""
    return tuple(chain(*table(room, name).values()))


def derivatives() -> tuple[Rule, ...]:
    """The rules of differentiation."""
    return rules("library", "derivatives.md")


def read_line(line: str, maths: Sequence[Text]) -> Iterator[Rule]:
    """The rules on one line of a table."""
    if _ARROW.search(maths[0].text):
        for text in maths:
            if arrow := _ARROW.search(text.text):
                sides = text.cut(0, arrow.start()), text.cut(arrow.end())
                pattern, formula = (parse(s, scope()) for s in sides)
                meaning = line.partition("$:")[2].strip()
                yield Rule(pattern, (("", formula),), meaning=meaning, text=text)
        return
    formulas = [named(text) for text in maths if "=" in text.text]
    kinds = _KINDS.search(line)
    complete = kinds is not None and kinds[1] == "every target"
    words = kinds[1].split(",") if kinds and not complete else []
    ranks = tuple(RANKS[k.strip()] for k in words)
    yield Rule(formulas[0][1], tuple(formulas[1:]), ranks, complete, text=maths[0])


def named(text: Text) -> tuple[str, Expr]:
    """``∂z = …`` as the name on the left and the formula on the right."""
    left, _, _ = text.text.partition("=")
    inside = scope().inside("jk") if "^" in left else scope()
    name = parse(text.cut(0, len(left)), inside)
    assert isinstance(name, Ref), text
    return name.key, parse(text.cut(len(left) + 1), inside)


# -- the driver ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rewriting:
    """A rule that was applied: the value whose equation changed, the formula before and after."""

    value: str
    rule: Rule
    before: Expr
    after: Expr


def rewrite(card: CardData, rules: Sequence[Rule]) -> tuple[CardData, list[Rewriting]]:
    """The card with rules applied to its equations until none fits, and the steps there.

    A rule of a function of the library means it by whatever name the card has for it.
    """
    among, steps = [rule.among(card.hidden) for rule in rules], list[Rewriting]()

    def of(e: Expr, value: str) -> Expr:
        e = rebuilt(e, [of(x, value) for x in e.children])
        if (found := first(among, e, card.function)) is None:
            return e
        rule, new = found
        steps.append(Rewriting(value, rule, e, new))
        return of(new, value)

    equations = []
    for e in card.equations:
        right = of(e.right, e.name)
        equations.append(e if right == e.right else with_right(e, card.apart(right)))
    return replace(card, equations=tuple(equations)), steps
