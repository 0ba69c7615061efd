"""Certified decimals: digits that an enclosure proves."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from flint import arb, ctx, fmpq, fmpz  # whose str() has no limit of digits

from viete.errors import VieteError
from viete.meanings.exact.deciding import (
    MOST_BITS,
    Undecided,
    decided_zero,
    enclosure_text,
    narrow,
    precisions,
)
from viete.meanings.exact.polynomials import Quotient, added, scaled

MOST_ZEROS = 5  # before the first digit; with more, a power of ten is written


def decimal(x: Quotient, digits: int) -> str:
    """``digits`` significant digits, correctly rounded; shorter decimal fractions in full.

    Half a unit in the last place is rounded to even; only a fraction can lie there. Raises
    Undecided if every enclosure contains a rounding boundary (or zero).
    """
    if digits < 1:
        raise VieteError(f"the number of digits must be at least 1, not {digits}")
    known: dict[int, str] = x.__dict__.setdefault("_decimals", {})  # a number occurs in many lines
    if digits not in known:
        known[digits] = proven(x, digits)
    return known[digits]


def proven(x: Quotient, digits: int) -> str:
    """As `decimal`, without the cache."""
    q = x.rational
    if q is not None:
        return of_fraction(q, digits)
    start, tried = 4 * digits, False
    for bits in precisions(max(MOST_BITS, 8 * start)):
        if bits < start:
            continue
        ball = x.ball(bits)
        found = rounded(ball, digits, bits)
        if found is not None:
            return with_point(*found, digits)
        if not tried and narrow(ball - ball.mid(), bits):
            tried = True
            if ball.contains(0) and decided_zero(x):
                return "0"
            near = halfway(ball, digits, bits)
            if near is not None and decided_zero(difference(x, near)):
                return of_fraction(near, digits)
    raise Undecided(f"{digits} digits of a number in {enclosure_text(x)} cannot be told")


def difference(x: Quotient, q: Fraction) -> Quotient:
    """``x - q``, for a non-zero fraction."""
    return Quotient(added([x.num, scaled(x.den, fmpq(-q.numerator, q.denominator))]), x.den)


def rounded(ball: arb, digits: int, bits: int) -> tuple[bool, int, int] | None:
    """Sign, digits as a whole number, and the first digit's power of ten; None if still open."""
    if ball.contains(0) or not ball.is_finite():
        return None
    before = ctx.prec
    ctx.prec = bits + 64
    try:
        size = abs(ball)
        first = (size.log() / arb.const_log10()).floor().unique_fmpz()
        if first is None:
            return None
        scaled = size * arb(10) ** (digits - 1 - int(first))
        whole = (scaled + arb(0.5)).floor().unique_fmpz()
    finally:
        ctx.prec = before
    if whole is None:
        return None
    if int(whole) >= 10**digits:
        return ball < 0, int(whole) // 10, int(first) + 1
    return ball < 0, int(whole), int(first)


def halfway(ball: arb, digits: int, bits: int) -> Fraction | None:
    """The power of ten or half unit in the last place that the ball may contain."""
    before = ctx.prec
    ctx.prec = bits + 64
    try:
        first = (abs(ball.mid()).log() / arb.const_log10() + 2 ** (-bits // 2)).floor()
        if first.unique_fmpz() is None:
            return None
        shift = digits - 1 - int(first.unique_fmpz())
        twice = (ball * 2 * arb(10) ** shift).unique_fmpz()
    finally:
        ctx.prec = before
    return None if twice is None else Fraction(int(twice), 2) / Fraction(10) ** shift


def of_fraction(q: Fraction, digits: int) -> str:
    """A fraction's digits, fewer if its decimal expansion ends earlier."""
    if q == 0:
        return "0"
    size = abs(q)
    first = len(fmpz(size.numerator).str()) - len(fmpz(size.denominator).str())
    if size < Fraction(10) ** first:
        first -= 1
    scaled = size * Fraction(10) ** (digits - 1 - first)
    whole = round(scaled)  # half to even
    if whole >= 10**digits:
        whole, first = whole // 10, first + 1
    text = with_point(q < 0, whole, first, digits)
    return trimmed(text) if scaled == whole else text


def trimmed(text: str) -> str:
    """The text without trailing zeros after the decimal point."""
    if "." not in text:
        return text
    digits, e, power = text.partition("e")
    return digits.rstrip("0").rstrip(".") + e + power


def with_point(negative: bool, whole: int, first: int, digits: int) -> str:
    """The digits with their decimal point or power of ten."""
    text, sign = fmpz(whole).str().zfill(digits), "-" * negative
    if -MOST_ZEROS <= first < 0:
        return f"{sign}0.{'0' * (-first - 1)}{text}"
    if 0 <= first < digits:
        point = f".{text[first + 1 :]}" if first + 1 < digits else ""
        return sign + text[: first + 1] + point
    point = f".{text[1:]}" if digits > 1 else ""
    return f"{sign}{text[0]}{point}e{first}"


def enclosure(x: Quotient, places: int = 6) -> str:
    """``0.5 ± 1e-30``: the proven enclosure of a number with undecided digits."""
    middle, _, radius = x.ball(128).str(places).strip("[]").rpartition("+/-")
    return f"{middle.strip() or '0'} ± {radius.strip()}"


def truncated(x: Quotient, places: int) -> str:
    """The first digits of the absolute value, truncated and not rounded, with dots: ``0.333333…``.

    More digits than needed ensure that none of these was rounded up. Raises Undecided as `decimal`
    does.
    """
    more = places
    while True:
        more += 6
        _, found, exponent = Decimal(decimal(x, more)).as_tuple()
        assert isinstance(exponent, int)
        if set(found[places:]) - {0} or more > 60:
            break
    first = len(found) + exponent - 1  # the power of ten of the first digit
    text = "".join(map(str, found[:places])).ljust(places, "0")
    dots = "…" if set(found[places:]) - {0} else ""
    if 0 <= first < places - 1:
        return f"{text[: first + 1]}.{text[first + 1 :]}{dots}"
    if -6 < first < 0:
        return f"0.{'0' * (-first - 1)}{text}{dots}"
    return f"{text[0]}.{text[1:]}{dots}e{first}"
