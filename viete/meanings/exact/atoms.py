"""Atoms: the real quantities with a definition from which exact numbers are made, each kept once.

An atom is one of

- ``prime``: a prime p, which occurs to powers between 0 and 1 (√2 is 2^{1/2});
- ``e``: e^m for a product m of such powers (m = 1 is e itself), to any rational power;
- ``root``: √N of a polynomial N in older atoms, to the first power;
- ``exp``, ``log``, ``erf``, ``tanh``, ``sin``, ``cos``, ``arctan`` of a number, and ``pi``;
- ``name``: a number that is too long to read, represented by one letter.

The same definition gives the same atom (hash-consing), so equal definitions cancel. Atoms are
ordered by age: a definition only uses older atoms.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from flint import arb, ctx, fmpq, fmpz

from viete.notation.tree import Expr

Power = int | Fraction
Monomial = tuple[tuple["Atom", Power], ...]
Terms = dict[Monomial, fmpq]  # a polynomial; no coefficient is zero

PLAIN = ("prime", "e", "pi", "name")  # written by one letter or number
GUARD = 32  # bits beyond those asked for


class Atom:
    """A real number with a definition: its ``kind``, and the argument ``of``.

    A prime has an int as argument, e^m the monomial m, all others a quotient of older atoms.
    ``label`` is the spelling of a name, ``length`` the number of letters and signs of the atom,
    ``older`` are the atoms of its definition, and ``decided`` atoms those among which equality is
    decided (see `deciding`). ``named``: it is a name, or is spelled with one, as √w₁ is.
    """

    __slots__ = (
        "__weakref__", "age", "balls", "decided", "kind", "label", "length", "named", "of", "older",
    )  # fmt: skip
    ages = itertools.count()
    interned: ClassVar[WeakValueDictionary[tuple[str, Any], Atom]] = WeakValueDictionary()

    def __init__(
        self, kind: str, of: Any = None, older: Iterable[Atom] = (), label: Expr | None = None
    ) -> None:
        self.kind, self.of, self.label = kind, of, label
        self.older = tuple(older)
        self.age = next(Atom.ages)
        self.named: bool = kind == "name" or any(a.named for a in self.older)
        self.balls: dict[int, arb] = {}
        self.length = 1 + of.length if kind not in PLAIN else 1
        self.decided: bool = kind in ("prime", "e") or (
            kind in ("root", "name") and all(a.decided for a in self.older)
        )

    def __repr__(self) -> str:
        return f"<{self.kind} {self.of}>"


def prime(p: int) -> Atom:
    """The atom of a prime, for its powers between 0 and 1."""
    return interned("prime", p, p, ())


def e_power(m: Monomial) -> Atom:
    """The atom e^m, for a product m of powers of primes."""
    return interned("e", m, m, (a for a, _ in m))


def function(kind: str, of: Any) -> Atom:
    """The atom of a function (``root``, ``exp``, ``erf``, …) of a number."""
    return interned(kind, of.key, of, of.atoms())


def pi() -> Atom:
    """The number π."""
    return interned("pi", None, None, ())


def interned(kind: str, key: Any, of: Any, older: Iterable[Atom]) -> Atom:
    """The atom of this kind and key, made at its first use."""
    found = Atom.interned.get((kind, key))
    if found is None:
        found = Atom.interned[kind, key] = Atom(kind, of, older)
    return found


# -- enclosures ------------------------------------------------------------------------------------

# Each rule is called with flint's precision set, and the atoms of the definition enclosed.
RULES: dict[str, Callable[[Atom, int], arb]] = {
    "prime": lambda a, bits: arb(fmpz(a.of)),
    "e": lambda a, bits: value({a.of: fmpq(1)}, bits).exp(),
    "pi": lambda a, bits: arb.pi(),
    "name": lambda a, bits: quotient(a, bits),
    "root": lambda a, bits: quotient(a, bits).sqrt(),
    "arctan": lambda a, bits: quotient(a, bits).atan(),
}


def enclosed(num: Terms, den: Terms, bits: int) -> arb:
    """A ball of about ``bits`` bits that contains num/den (Johansson 2017, Arb)."""
    before = ctx.prec
    ctx.prec = bits + GUARD
    try:
        # Oldest first, so that a definition's atoms are there and nothing recurs.
        atoms = (x for t in (num, den) for m in t for x, _ in m)
        for atom in sorted(closure(atoms, bits), key=age):
            rule = RULES.get(atom.kind)  # exp, log, erf, … are Arb's own
            atom.balls[bits] = (
                rule(atom, bits) if rule else getattr(quotient(atom, bits), atom.kind)()
            )
        return divided(num, den, bits)
    finally:
        ctx.prec = before


def age(atom: Atom) -> int:
    """The age of an atom; in this order definitions come before the atoms that use them."""
    return atom.age


def closure(atoms: Iterable[Atom], bits: int | None = None) -> set[Atom]:
    """The atoms and those in their definitions that have no enclosure with ``bits`` bits yet."""
    found: set[Atom] = set()
    todo = list(atoms)
    while todo:
        atom = todo.pop()
        if atom not in found and bits not in atom.balls:
            found.add(atom)
            todo += atom.older
    return found


def quotient(atom: Atom, bits: int) -> arb:
    """The argument of an atom, at the enclosures of its atoms."""
    return divided(atom.of.num, atom.of.den, bits)


def divided(num: Terms, den: Terms, bits: int) -> arb:
    """A quotient at the enclosures of its atoms."""
    above = value(num, bits)
    return above if len(den) == 1 and den.get(()) == 1 else above / value(den, bits)


def power(ball: arb, p: int) -> arb:
    """ball^p by products: Arb's power is undefined for a ball centred at zero."""
    out = arb(1)
    for _ in range(abs(p)):
        out *= ball
    return out if p > 0 else 1 / out


def value(t: Terms, bits: int) -> arb:
    """A polynomial at the enclosures of its atoms."""
    total = arb(0)
    for m, c in t.items():
        term = arb(c)
        for x, p in m:
            if x.kind in ("e", "exp") and abs(p) != 1:  # by one exponential: a power loses digits
                exponent = value({x.of: fmpq(1)}, bits) if x.kind == "e" else quotient(x, bits)
                term *= (exponent * fmpq(p.numerator, p.denominator)).exp()
            elif p == 1:
                term *= x.balls[bits]
            elif isinstance(p, int):
                term *= power(x.balls[bits], p)
            else:
                term *= x.balls[bits] ** arb(fmpq(p.numerator, p.denominator))
        total += term
    return total
