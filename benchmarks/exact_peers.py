"""The symbolic card's forward pass written by hand in SymPy and in python-flint.

CARD is `symbolic-transformer` with N blocks and H heads side by side: softmax attention without a
mask, a layer norm without ε, exact GELU. Each peer is a function of the
token ids, the weights (nested lists of Fraction, by their names in that card) and `done`, which it
calls after each stage with what that stage made; it gives the logits as floats. `measure` runs one
in a process of its own, so that a peer that does not finish can be stopped, and its memory is its
own; `python benchmarks/exact_peers.py PEER n d N H SEED LIMIT` is that process.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

Weights = dict[str, Any]  # nested lists of Fraction
Done = Callable[[str, Any], None]
Logits = list[list[float]]
VOCABULARY = 10
MEMORY = 6 << 30  # bytes of address space a peer may have: the machine has other work


CARD = r"""# Symbolic transformer of N blocks

## Dimensions

| symbol | value | meaning |
| --- | --- | --- |
| $V$ | 10 | vocabulary |
| $d$ | 5 | residual width |
| $N$ | 1 | blocks |
| $H$ | 1 | heads |
| $d_k$ | $d / H$ | width of a head |
| $n_{max}$ | 64 | context |
| $n$ | $≤ n_{max}$ | length of the text |
| $h$ | $1, …, H$ | head |

## Inputs

- $t ∈ \{0, …, V-1\}^n$: token ids

## Parameters

| symbol | shape | meaning |
| --- | --- | --- |
| $E$ | $V \times d$ | token embedding |
| $W_Q^{i,h}, W_K^{i,h}, W_V^{i,h}$ | $d \times d_k$ | query, key, value |
| $W_O^i$ | $d \times d$ | output of the heads |
| $γ^i$ | $d$ | scale of the norm |
| $β^i$ | $d$ | shift of the norm |
| $W_1^i$ | $d \times d$ | into the MLP |
| $W_2^i$ | $d \times d$ | out of the MLP |
| $W_U$ | $d \times V$ | unembedding |

## Forward pass

1. $x^0 = E[t]$

For $i = 1, …, N$:

2. $Q^{i,h} = x^{i-1} W_Q^{i,h}$
3. $K^{i,h} = x^{i-1} W_K^{i,h}$
4. $V^{i,h} = x^{i-1} W_V^{i,h}$
5. $S^{i,h} = Q^{i,h} {K^{i,h}}^⊤ / \sqrt{d_k}$
6. $A^{i,h} = softmax(S^{i,h})$
7. $a^i = concat_h(A^{i,h} V^{i,h}) W_O^i$
8. $y^i = LN(x^{i-1} + a^i; γ^i, β^i)$
9. $m^i = GELU(y^i W_1^i) W_2^i$
10. $x^i = y^i + m^i$

11. $logits = x^N W_U$
12. $choice = argmax(logits)$
"""


def weights_of(d: int, blocks: int, heads: int, seed: int) -> Weights:
    """Small fractions, numerators −9 … 9 over 1 … 9."""
    draw = random.Random(seed)

    def table(*shape: int) -> Any:
        if not shape:
            return Fraction(draw.randint(-9, 9), draw.randint(1, 9))
        return [table(*shape[1:]) for _ in range(shape[0])]

    w = {"E": table(VOCABULARY, d), "W_U": table(d, VOCABULARY)}
    for i in range(1, blocks + 1):
        for name in ("W_Q", "W_K", "W_V"):
            w[f"{name}^{{{i},h}}"] = table(heads, d, d // heads)
        w |= {f"{name}^{i}": table(d, d) for name in ("W_O", "W_1", "W_2")}
        w |= {f"{name}^{i}": table(d) for name in ("gamma", "beta")}
    return w


def tokens_of(n: int) -> list[int]:
    """Different ones as long as there are, since equal tokens have equal rows."""
    return [(3 * k + 1) % VOCABULARY for k in range(n)]


def blocks_of(w: Weights) -> range:
    return range(1, sum(name.startswith("gamma") for name in w) + 1)


# --- SymPy ----------------------------------------------------------------------------------------


class Kept:
    """What a person does with a stage's entries before going on: here nothing."""

    def __init__(self) -> None:
        self.definitions: list[tuple[Any, Any]] = []  # of symbols, each by those before

    def atom(self, value: Any) -> Any:
        """An exponential, a root or an erf."""
        return value

    def fraction(self, value: Any) -> Any:
        """A value made of rationals and atoms by + − × ÷, up to the first root."""
        return value

    def stage(self, value: Any) -> Any:
        """Any value after the first root."""
        return value

    def name(self, value: Any) -> Any:
        import sympy as sp

        if value.is_Rational or value.is_Symbol:
            return value
        self.definitions.append((sp.Symbol(f"c{len(self.definitions)}", real=True), value))
        return self.definitions[-1][0]


class Cancelled(Kept):
    """Fractions in powers of e brought to lowest terms by SymPy."""

    def fraction(self, value: Any) -> Any:
        import sympy as sp

        return sp.cancel(value)

    def stage(self, value: Any) -> Any:
        import sympy as sp

        return sp.together(value)


class Fractions(Cancelled):
    """Each exponential a symbol of its own and fractions in them cancelled; then names."""

    def atom(self, value: Any) -> Any:
        return self.name(value)

    def stage(self, value: Any) -> Any:
        return self.name(value)


class Named(Kept):
    """Each value that is not rational a symbol, as soon as it is there: nothing ever grows."""

    def atom(self, value: Any) -> Any:
        return self.name(value)

    def fraction(self, value: Any) -> Any:
        return self.name(value)

    def stage(self, value: Any) -> Any:
        return self.name(value)


def sympy_pass(tokens: list[int], weights: Weights, done: Done, kept: Kept) -> Logits:
    import sympy as sp

    def matrix(table: Any) -> Any:
        rows = table if isinstance(table[0], list) else [table]
        return sp.Matrix([[sp.Rational(q.numerator, q.denominator) for q in row] for row in rows])

    def softmax(scores: Any) -> Any:
        powers = scores.applyfunc(lambda s: kept.atom(sp.exp(s)))
        sums = [kept.fraction(sp.Add(*powers.row(j))) for j in range(powers.rows)]
        return sp.Matrix(*powers.shape, lambda j, k: kept.fraction(powers[j, k] / sums[j]))

    def norm(x: Any, scale: Any, shift: Any, first: bool) -> Any:
        keep, rows = kept.fraction if first else kept.stage, []
        for j in range(x.rows):
            mean = keep(sp.Add(*x.row(j)) / x.cols)
            centred = [keep(z - mean) for z in x.row(j)]
            variance = keep(sp.Add(*(z**2 for z in centred)) / x.cols)
            root = kept.atom(sp.sqrt(variance))
            rows.append([g * (z / root) + b for z, g, b in zip(centred, scale, shift, strict=True)])
        return sp.Matrix(rows).applyfunc(kept.stage)

    def gelu(z: Any) -> Any:
        return z * (1 + kept.atom(sp.erf(z / sp.sqrt(2)))) / 2

    w = {k: [matrix(t) for t in v] if "h" in k else matrix(v) for k, v in weights.items()}
    x = sp.Matrix([list(w["E"].row(t)) for t in tokens])
    for i in blocks_of(weights):
        keep, mixed = kept.fraction if i == 1 else kept.stage, []
        for W_Q, W_K, W_V in zip(*(w[f"W_{c}^{{{i},h}}"] for c in "QKV"), strict=True):
            q, k, v = ((x * W).applyfunc(kept.stage) for W in (W_Q, W_K, W_V))
            scores = (q * k.T / sp.sqrt(W_Q.cols)).applyfunc(kept.stage if i > 1 else lambda s: s)
            attention = softmax(scores)
            done(f"softmax {i}", attention)
            mixed.append((attention * v).applyfunc(keep))
        x = (x + sp.Matrix.hstack(*mixed) * w[f"W_O^{i}"]).applyfunc(keep)
        done(f"mix {i}", x)
        x = norm(x, w[f"gamma^{i}"], w[f"beta^{i}"], i == 1)
        done(f"norm {i}", x)
        hidden = (x * w[f"W_1^{i}"]).applyfunc(kept.stage).applyfunc(gelu).applyfunc(kept.stage)
        x = (x + hidden * w[f"W_2^{i}"]).applyfunc(kept.stage)
        done(f"mlp {i}", x)
    logits = (x * w["W_U"]).applyfunc(kept.stage)
    done("logits", [*logits, *(value for _, value in kept.definitions)])
    values: dict[Any, Any] = {}
    for symbol, value in kept.definitions:  # 30 digits, with nothing to prove them
        values[symbol] = sp.N(value.xreplace(values), 30)
    if kept.definitions:
        return [[float(z.xreplace(values)) for z in logits.row(j)] for j in range(logits.rows)]
    import mpmath

    with mpmath.workdps(30):
        numbers = sp.lambdify([], list(logits), "mpmath", cse=True)()
    return [[float(z) for z in numbers[j : j + logits.cols]]
            for j in range(0, len(numbers), logits.cols)]  # fmt: skip


def sympy_naive(tokens: list[int], weights: Weights, done: Done) -> Logits:
    return sympy_pass(tokens, weights, done, Kept())


def sympy_cancel(tokens: list[int], weights: Weights, done: Done) -> Logits:
    return sympy_pass(tokens, weights, done, Cancelled())


def sympy_fractions(tokens: list[int], weights: Weights, done: Done) -> Logits:
    return sympy_pass(tokens, weights, done, Fractions())


def sympy_named(tokens: list[int], weights: Weights, done: Done) -> Logits:
    return sympy_pass(tokens, weights, done, Named())


def operations(expressions: Iterable[Any]) -> tuple[int, int]:
    """Operations written out (as count_ops has them, nearly) and distinct subexpressions.

    SymPy's own count walks the whole tree; this one counts what is shared once and multiplies.
    """
    seen: dict[Any, int] = {}
    total = 0
    for whole in expressions:
        todo = [whole]
        while todo:
            e = todo[-1]
            if e in seen:
                todo.pop()
            elif below := [a for a in e.args if a not in seen]:
                todo += below
            else:
                own = (len(e.args) - 1 if e.is_Add or e.is_Mul else 1) if e.args else 0
                seen[e] = own + sum(seen[a] for a in e.args)
                todo.pop()
        total += seen[whole]
    return total, len(seen)


# --- python-flint ---------------------------------------------------------------------------------


def flint_balls(tokens: list[int], weights: Weights, done: Done, bits: int = 256) -> Logits:
    """Enclosures at one precision: fast, but no value is exact and nothing is proven equal."""
    from flint import arb, arb_mat, ctx, fmpq

    ctx.prec = bits

    def matrix(table: Any) -> Any:
        rows = table if isinstance(table[0], list) else [table]
        return arb_mat([[arb(fmpq(q.numerator, q.denominator)) for q in row] for row in rows])

    def softmax(row: list[Any]) -> list[Any]:
        powers = [s.exp() for s in row]
        total = sum(powers[1:], powers[0])
        return [p / total for p in powers]

    def norm(row: list[Any], scale: list[Any], shift: list[Any]) -> list[Any]:
        mean = sum(row[1:], row[0]) / len(row)
        centred = [z - mean for z in row]
        root = (sum((z * z for z in centred), arb(0)) / len(row)).sqrt()
        return [g * z / root + b for z, g, b in zip(centred, scale, shift, strict=True)]

    def gelu(z: Any) -> Any:
        return z * (1 + (z / arb(2).sqrt()).erf()) / 2

    w = {k: [matrix(t) for t in v] if "h" in k else matrix(v) for k, v in weights.items()}
    x = arb_mat([w["E"].tolist()[t] for t in tokens])
    for i in blocks_of(weights):
        mixed: list[list[Any]] = [[] for _ in tokens]
        for W_Q, W_K, W_V in zip(*(w[f"W_{c}^{{{i},h}}"] for c in "QKV"), strict=True):
            scores = (x * W_Q) * (x * W_K).transpose() / arb(W_Q.ncols()).sqrt()
            attention = arb_mat([softmax(row) for row in scores.tolist()])
            mixed = [a + b for a, b in zip(mixed, (attention * (x * W_V)).tolist(), strict=True)]
        x = x + arb_mat(mixed) * w[f"W_O^{i}"]
        scale, shift = w[f"gamma^{i}"].tolist()[0], w[f"beta^{i}"].tolist()[0]
        x = arb_mat([norm(row, scale, shift) for row in x.tolist()])
        done(f"norm {i}", None)
        hidden = arb_mat([[gelu(z) for z in row] for row in (x * w[f"W_1^{i}"]).tolist()])
        x = x + hidden * w[f"W_2^{i}"]
        done(f"mlp {i}", None)
    logits = (x * w["W_U"]).tolist()
    return [[float(z.mid()) for z in row] for row in logits]


def flint_fractions(tokens: list[int], weights: Weights, done: Done) -> Logits:
    """Fractions of polynomials in one generator for each exponential, by hand, to the variance.

    The generators are treated as independent, which they are not (all the exponents are rational
    multiples of one number), so that an equality found is right and one not found proves nothing.
    """
    return flint_polynomials(tokens, weights, done, False)


def flint_one_e(tokens: list[int], weights: Weights, done: Done) -> Logits:
    """The same with each row's exponentials as powers of one: equality is decided."""
    return flint_polynomials(tokens, weights, done, True)


def flint_polynomials(tokens: list[int], weights: Weights, done: Done, one: bool) -> Logits:
    """A row's softmax, mix and variance as numerators over powers of the sums of exponentials.

    Head h's attention has the denominator D_h, the sum of its exponentials; a person sees at once
    that the residual has ∏ D_h and the variance its square, so only the last needs a gcd.
    """
    from flint import Ordering, fmpq, fmpq_mat, fmpq_mpoly_ctx

    n, heads = len(tokens), len(weights["W_Q^{1,h}"])

    def matrix(table: Any) -> Any:
        return fmpq_mat([[fmpq(q.numerator, q.denominator) for q in row] for row in table])

    x = matrix([weights["E"][t] for t in tokens])
    W_Q, W_K, W_V = ([matrix(t) for t in weights[f"W_{c}^{{1,h}}"]] for c in "QKV")
    W_O, d = matrix(weights["W_O^1"]).tolist(), x.ncols()
    scores = [((x * W_Q[h]) * (x * W_K[h]).transpose()).tolist() for h in range(heads)]
    values = [(x * W_V[h]).tolist() for h in range(heads)]
    names = [f"e{h}" for h in range(heads)] if one else [f"e{k}" for k in range(n * heads)]
    ring = fmpq_mpoly_ctx.get(names, Ordering.lex)
    e, width = ring.gens(), d // heads
    for j in range(n):
        powers, sums = [], []
        for h in range(heads):
            if one:  # e^{g / √d_k} for the greatest g of which all differences are multiples
                row = [s - scores[h][j][0] for s in scores[h][j]]
                den = math.lcm(*(int(s.q) for s in row))
                units = [int(s * den) for s in row]
                g = math.gcd(*units) or 1
                powers.append([e[h] ** ((u - min(units)) // g) for u in units])
            else:
                powers.append(e[h * n : h * n + n])
            sums.append(sum(powers[h][1:], powers[h][0]))
        done(f"softmax 1, row {j}", None)
        product = ring.constant(1)
        for total in sums:
            product *= total
        mixed = []
        for h in range(heads):
            rest = product / sums[h]
            for c in range(width):
                value = ring.constant(0)
                for k in range(n):
                    value += powers[h][k] * values[h][k][c]
                mixed.append(value * rest)
        residual = []
        for c in range(d):
            value = product * x[j, c]
            for k in range(d):
                value += mixed[k] * W_O[k][c]
            residual.append(value)
        done(f"mix 1, row {j}", None)
        mean = sum(residual[1:], residual[0]) / d
        variance = sum(((z - mean) ** 2 for z in residual), ring.constant(0)) / d
        common = variance.gcd(product**2)
        assert variance / common is not None and product**2 / common is not None
        done(f"variance 1, row {j}", None)
    return []


# --- ours -----------------------------------------------------------------------------------------


def viete(tokens: list[int], weights: Weights, done: Done) -> Logits:
    """Every value of the card, through to the argmax, and 15 certified digits of each logit."""
    run = exact_run(tokens, weights, done)
    done("argmax", None)
    return [[float(z.decimal(15)) for z in row] for row in run["logits"]]


def viete_to_variance(tokens: list[int], weights: Weights, done: Done) -> Logits:
    """As far as flint_fractions goes."""
    exact_run(tokens, weights, done, ["x^0", "a^1"])["var(x^0 + a^1)"]
    return []


def exact_run(
    tokens: list[int], weights: Weights, done: Done, names: list[str] | None = None
) -> Any:
    import viete as vt

    model = vt.read(CARD).bind(
        d=len(weights["W_U"]), H=len(weights["W_Q^{1,h}"]), N=len(blocks_of(weights))
    )
    done("read", None)
    return model.run(tokens, weights, names=names, meaning="exact")


PEERS = {
    f.__name__: f
    for f in (
        viete, viete_to_variance, sympy_naive, sympy_cancel, sympy_fractions, sympy_named,
        flint_balls, flint_fractions, flint_one_e,
    )
}  # fmt: skip


# --- one peer in a process of its own -------------------------------------------------------------


@dataclass
class Measured:
    """What a peer did before it ended or was stopped."""

    seconds: float  # the whole pass, imports apart; when stopped, so far
    peak: int  # bytes of the process at the most, the libraries included
    idle: int = 0  # bytes of the process before the pass
    stages: dict[str, float] = field(default_factory=dict)  # seconds at the end of each
    logits: Logits = field(default_factory=list)
    counts: tuple[int, int] | None = None  # operations written out, distinct subexpressions
    error: str = ""  # empty where it finished


def memory(which: str, process: str = "self") -> int:
    """Bytes of a process by Linux's own book: VmHWM at the most, VmRSS now."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(s.split()[1]) * 1024 for s in status.splitlines() if s.startswith(which))


def measure(
    peer: str, n: int, d: int, blocks: int, heads: int, seed: int, limit: float
) -> Measured:
    sizes = [str(k) for k in (n, d, blocks, heads, seed, limit)]
    child = subprocess.Popen(
        [sys.executable, __file__, peer, *sizes], stdout=subprocess.PIPE, text=True
    )
    peak, start, out = 0, time.perf_counter(), Measured(limit, 0, error="out of time")
    assert child.stdout is not None
    while child.poll() is None and time.perf_counter() - start < limit + 10:
        with contextlib.suppress(OSError, StopIteration):  # it may just have ended
            peak = max(peak, memory("VmHWM", str(child.pid)))
        time.sleep(0.02)
    child.kill()
    for line in child.communicate()[0].splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # cut off while it was written
            said = json.loads(line)
            out.stages |= said.pop("stage", {})
            for name, value in said.items():
                setattr(out, name, value)
    if out.error and child.returncode not in (
        0,
        -signal.SIGKILL,
    ):  # GMP aborts where it gets no memory
        out.error, out.seconds = "out of memory or crashed", time.perf_counter() - start
    out.peak = max(out.peak, peak)
    return out


def main() -> None:
    peer, *words = sys.argv[1:]
    n, d, blocks, heads, seed = map(int, words[:5])
    limit, kept = float(words[5]), None
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # One token through another, tiny card: what is imported on first use is not the pass's cost.
    PEERS[peer](tokens_of(1), weights_of(2, 1, 1, 12345), lambda *_: None)
    tokens, weights = tokens_of(n), weights_of(d, blocks, heads, seed)

    def say(**what: Any) -> None:
        print(json.dumps(what), flush=True)

    def done(stage: str, made: Any) -> None:
        nonlocal kept
        kept = kept if made is None else made
        say(stage={stage: time.perf_counter() - start})

    def late(*_: Any) -> None:
        raise TimeoutError

    say(idle=memory("VmRSS"))
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit)  # the parent kills a peer that does not hear it
    start = time.perf_counter()
    try:
        logits = PEERS[peer](tokens, weights, done)
        say(seconds=time.perf_counter() - start, logits=logits, error="")
    except TimeoutError:
        say(error="out of time")
    except Exception as error:  # one peer's failure is a cell of the table, not the end of it
        message = " ".join(f"{type(error).__name__}: {error}".split())
        say(error=message[:200], seconds=time.perf_counter() - start)
    say(peak=memory("VmHWM"))
    signal.setitimer(signal.ITIMER_REAL, 5)
    with contextlib.suppress(TimeoutError, MemoryError):
        if peer.startswith("sympy") and kept is not None:
            say(counts=operations(kept))


if __name__ == "__main__":
    main()
