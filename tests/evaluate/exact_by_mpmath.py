"""The symbolic card's forward pass by hand in interval arithmetic, to hold the exact pass against.

N blocks and H heads of the card of benchmarks/exact_peers.py (`shipped` renames the weights of the
shipped card, its case N = H = 1). Everything is mpmath's interval context, whose operations round
outwards, and Fraction; nothing here is Viète's or FLINT's. What mpmath's intervals lack is erf,
which is enclosed below by a series with a bound of its tail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from mpmath.ctx_iv import MPIntervalContext
from mpmath.libmp import to_rational

Interval = Any
Matrix = list[list[Interval]]

SHIPPED = {
    "E": "E", "W_O^1": "W^O", "gamma^1": "gamma_1", "beta^1": "beta_1", "W_1^1": "W_1^ff",
    "W_2^1": "W_2^ff", "W_U": "W^out",
}  # fmt: skip


def shipped(weights: Mapping[str, Any]) -> dict[str, Any]:
    """The weights of symbolic-transformer.md by the names `forward` knows."""
    heads = {f"W_{c}^{{1,h}}": [weights[f"W^{c}"]] for c in "QKV"}
    return heads | {ours: weights[theirs] for ours, theirs in SHIPPED.items()}


def bounds(x: Interval) -> tuple[Fraction, Fraction]:
    """The ends of an interval, exactly; ValueError where one is infinite or not a number."""
    low, high = (Fraction(*to_rational(end)) for end in x._mpi_)
    return low, high


def forward(
    tokens: Sequence[int], weights: Mapping[str, Any], digits: int = 60
) -> dict[str, list[Any]]:
    """Every named value of the card, as nested lists of intervals of `digits` decimal digits.

    `weights` are nested sequences of int or Fraction (or float, read as the dyadic it is); W_Q, W_K
    and W_V have their heads in front. So have the values of the families Q, K, V, S and A, under
    names such as "A^{2,h}". Raises ZeroDivisionError where a variance may be zero.
    """
    ctx = MPIntervalContext()
    ctx.dps = digits + 10
    w = {name: _read(ctx, value) for name, value in weights.items()}
    x: Matrix = [w["E"][t] for t in tokens]
    out: dict[str, list[Any]] = {"x^0": x}
    for i in range(1, 1 + sum(name.startswith("gamma^") for name in w)):
        for c in "QKV":
            out[f"{c}^{{{i},h}}"] = [_product(x, head) for head in w[f"W_{c}^{{{i},h}}"]]
        q, k, v = (out[f"{c}^{{{i},h}}"] for c in "QKV")
        scale = ctx.sqrt(ctx.mpf(len(q[0][0])))
        out[f"S^{{{i},h}}"] = s = [
            [[z / scale for z in row] for row in _product(a, _transposed(b))]
            for a, b in zip(q, k, strict=True)
        ]
        out[f"A^{{{i},h}}"] = a = [[_softmax(ctx, row) for row in head] for head in s]
        mixed = [_product(b, c) for b, c in zip(a, v, strict=True)]
        side_by_side = [[z for head in mixed for z in head[j]] for j in range(len(tokens))]
        out[f"a^{i}"] = _product(side_by_side, w[f"W_O^{i}"])
        residual = _sum(x, out[f"a^{i}"])
        out[f"y^{i}"] = y = [_norm(ctx, row, w[f"gamma^{i}"], w[f"beta^{i}"]) for row in residual]
        hidden = [[_gelu(ctx, z) for z in row] for row in _product(y, w[f"W_1^{i}"])]
        out[f"m^{i}"] = _product(hidden, w[f"W_2^{i}"])
        out[f"x^{i}"] = x = _sum(y, out[f"m^{i}"])
    out["logits"] = _product(x, w["W_U"])
    return out


def erf(ctx: MPIntervalContext, x: Interval) -> Interval:
    """erf grows, so that the ends of an interval give the ends of its image."""
    low, high = _erf_at(ctx, x.a), _erf_at(ctx, x.b)
    return ctx.mpf([low.a, high.b])


def _erf_at(ctx: MPIntervalContext, x: Interval) -> Interval:
    """At a point: DLMF 7.6.2, erf x = 2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!.

    Its terms are positive and each is 2x²/(2n+3) of the one before; once that is under 1/2, all
    that follow a term sum to less than the term. Far out 0 < erfc x < e^(−x²)/(x√π) (DLMF 7.8.2 is
    sharper) says as much as the digits hold.
    """
    if x.b < 0:
        return -_erf_at(ctx, -x)
    if x.a == 0 and x.b == 0:
        return ctx.mpf(0)
    root = ctx.sqrt(ctx.pi)
    if (x * x).a > ctx.prec:  # then e^(−x²) < 2^(−prec)
        beyond = ctx.exp(-x * x) / (x * root)
        return ctx.mpf([(1 - beyond.b).a, 1])
    square = 2 * x * x
    term, total, n = x, x, 0
    tiny = ctx.mpf(2) ** (-ctx.prec) * x.a
    while True:
        ratio = square / (2 * n + 3)
        term, n = term * ratio, n + 1
        total = total + term
        if ratio.b < 0.5 and term.b < tiny.a:
            break
    return 2 / root * ctx.exp(-x * x) * (total + ctx.mpf([0, term.b]))


def _gelu(ctx: MPIntervalContext, z: Interval) -> Interval:
    return z * (1 + erf(ctx, z / ctx.sqrt(ctx.mpf(2)))) / 2


def _softmax(ctx: MPIntervalContext, row: list[Interval]) -> list[Interval]:
    """By differences, 1 / Σ e^(z_k − z_j): each exponential then stands once in its interval."""
    return [1 / _total(ctx, [ctx.exp(z - y) for z in row]) for y in row]


def _norm(ctx: MPIntervalContext, row: list[Interval], scale: Any, shift: Any) -> list[Interval]:
    mean = _total(ctx, row) / len(row)
    centred = [z - mean for z in row]
    variance = _total(ctx, [z**2 for z in centred]) / len(row)
    if not variance.a > 0:
        raise ZeroDivisionError("a row whose variance may be zero")
    root = ctx.sqrt(variance)
    return [g * (z / root) + b for z, g, b in zip(centred, scale, shift, strict=True)]


def _read(ctx: MPIntervalContext, value: Any) -> Any:
    if hasattr(value, "__len__"):
        return [_read(ctx, v) for v in value]
    q = Fraction(value)
    return ctx.mpf(q.numerator) / ctx.mpf(q.denominator)


def _total(ctx: MPIntervalContext, values: list[Interval]) -> Interval:
    return sum(values, ctx.mpf(0))


def _product(a: Matrix, b: Matrix) -> Matrix:
    return [[sum(p * q for p, q in zip(row, col, strict=True)) for col in _transposed(b)]
            for row in a]  # fmt: skip


def _transposed(a: Matrix) -> Matrix:
    return [list(col) for col in zip(*a, strict=True)]


def _sum(a: Matrix, b: Matrix) -> Matrix:
    return [[p + q for p, q in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]
