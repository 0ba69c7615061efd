"""Every rule of derivatives.md by itself, and every way to reach a value, against autograd.

Each case is a formula over a few small weights. A rule that is perturbed makes a case
fail; one that is left out is made up for by the definition of its function, or is missed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from viete import read
from viete.cards.writer import write
from viete.graph.rules import Rule, derivatives
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Ref, Symbol, num, walk
from viete.rewrite.adjoint import vjp as passing
from viete.rewrite.adjoint.backward import total
from viete.rewrite.adjoint.shares import UNSAID, Share

torch = pytest.importorskip("torch")

from tests.laws.differentiating import by_autograd, error  # noqa: E402

CARD = """# Small
## Dimensions
| symbol | value |
| --- | --- |
| $n$ | 3 |
| $m$ | 4 |
| $H$ | 2 |
| $N$ | 2 |
| $h$ | $1, …, H$ |
## Inputs
- $t ∈ \\{{0, …, 2\\}}^n$
- $c ∈ \\{{0, 1\\}}^m$
- $g ∈ \\{{-100, …, 2\\}}^n$
## Parameters
| symbol | shape |
| --- | --- |
| $A, B, C$ | $n × m$ |
| $S$ | $n × n$ |
| $M$ | $m × m$ |
| $u, v$ | $m$ |
| $p$ | $n$ |
| $q, w$ | |
| $R$ | $n × 1$ |
| $F^h$ | $n × m$ |
| $W^i, X^i$ | $m × m$ |
| $f^h$ | $m$ |
## Functions
- $own(z; s = 1/2) = z ⊙ exp(-s * z^2)$
- $double(z) = z + own(z)$
## Forward pass
{equations}
"""
WHOLE = r"\sum_{{j=0}}^{{n - 1}} <({})_j, C_j>"  # a matrix as one number
ROWS = {
    "matrix": r"L = \sum_{a=0}^{n - 1} <y_a, C_a>",
    "square": r"L = \sum_{a=0}^{n - 1} <y_a, S_a>",
    "vector": "L = <y, u>",
    "positions": "L = <y, p>",
    "number": "L = y * w + y^2",
    "column": r"L = \sum_{a=0}^{n - 1} (y_{a,0} * p_a)",
    "wide": "L = <y_0, y_1>",
}

# The shape of y and its formula; the first word of the line is what it is a case of.
CASES: dict[str, tuple[str, str]] = {
    # Sums, products, quotients, with each argument repeated
    "add": ("matrix", "A + B"),
    "add vector": ("matrix", "A + v"),
    "add number": ("matrix", "q + A"),
    "add column": ("matrix", "A + R"),
    "sub": ("matrix", "A - B"),
    "sub from": ("matrix", "v - A"),
    "neg": ("matrix", "-A"),
    "had": ("matrix", "A ⊙ B"),
    "had vector": ("matrix", "v ⊙ A"),
    "had column": ("matrix", "R ⊙ A"),
    "times": ("matrix", "q * A"),
    "itself": ("matrix", "A ⊙ A"),
    "div": ("matrix", "A / B"),
    "div vector": ("matrix", "A / v"),
    "div by": ("matrix", "v / A"),
    "div number": ("vector", "v / q"),
    "div column": ("matrix", "A / R"),
    "numbers": ("number", "q w / (1 + q)"),
    "pow": ("matrix", "A^3"),
    "pow number": ("matrix", "A^q"),
    "pow entry": ("matrix", "A^B"),
    "pow vector": ("matrix", "v^A"),
    "T": ("matrix", "(B A^⊤)^⊤ B"),
    "T column": ("matrix", "A ⊙ sum(B^⊤)^⊤ + sum(A) sum(B^⊤)^⊤"),
    "mod": ("matrix", "A mod 1/3"),
    # Products
    "prod": ("matrix", "A M"),
    "prod T": ("square", "A B^⊤"),
    "prod left": ("vector", "p A"),
    "prod right": ("positions", "A v"),
    "prod square": ("square", "S S"),
    "inner": ("number", "<u, v>"),
    "inner itself": ("number", "<v, v>"),
    "prod column": ("column", "S R"),
    # Entry by entry
    **{
        f: ("matrix", f"{f}(A ⊙ B)")
        for f in (
            "exp",
            "log",
            "sqrt",
            "erf",
            "tanh",
            "sin",
            "cos",
            "arctan",
            "sigmoid",
            "GELU",
            "GELU_tanh",
            "SiLU",
            "softplus",
        )
    },
    "abs": ("matrix", "abs(A - B)"),
    "max": ("matrix", "max(A, B)"),
    "max number": ("matrix", "max(A, q)"),
    "min": ("matrix", "min(A, v)"),
    "ReLU": ("matrix", "ReLU(A - B)"),
    "where": ("matrix", "where(A > B, A ⊙ A, B)"),
    "where number": ("matrix", "where(q > 0, A, v)"),
    # Rows
    "sum": ("column", "sum(A ⊙ A)"),
    "sum vector": ("number", "sum(v)"),
    "mean": ("column", "mean(A)"),
    "mean vector": ("number", "mean(v^2)"),
    "max row": ("column", "max(A)"),
    "min row": ("column", "min(A)"),
    "max vector": ("number", "max(v)"),
    "max row of ties": ("column", "max(concat(A, A))"),
    "min row of ties": ("column", "min(concat(A, A, A))"),
    "max of one number": ("number", "max(table_{c<3}(q * w))"),
    "sum spread": ("matrix", "A ⊙ sum(B)"),
    "length": ("column", "|A|"),
    "length vector": ("number", "|u - v|"),
    "centred": ("matrix", "centred(A ⊙ B)"),
    "trace": ("number", "tr(S S)"),
    "softmax": ("matrix", "softmax(A)"),
    "softmax vector": ("vector", "softmax(v)"),
    "softmax causal": ("square", "softmax(causal(S))"),
    "softmax window": ("square", "softmax(window(S; 2))"),
    "softmax visible": ("matrix", "softmax(visible(A; c))"),
    "logsumexp": ("column", "logsumexp(A)"),
    "logsumexp written out": ("number", "log(sum(exp(v)))"),
    "logsumexp over an index": ("number", r"log(\sum_{k=1}^{m} exp(2 v_{k-1}))^2"),
    "top": ("matrix", "top(A - B; 2)"),
    "logsoftmax": ("matrix", "logsoftmax(A)"),
    "causal": ("square", "exp(causal(S))"),
    "window": ("square", "exp(window(S; 2))"),
    "visible": ("matrix", "exp(visible(A; c))"),
    "switched": ("vector", "exp(switched(v; c))"),
    "ALiBi": ("square", "ALiBi(S ⊙ S; 1, H)"),
    "RoPE": ("matrix", "RoPE(A ⊙ A)"),
    "RoPE part": ("matrix", "RoPE(A; 1/2, 100)"),
    "var": ("column", "var(A)"),
    "std": ("column", "std(A)"),
    "var vector": ("number", "var(v)"),
    "LN": ("matrix", "LN(A; u, v, 1e-2)"),
    "LN plain": ("matrix", "LN(A)"),
    "LN vector": ("vector", "LN(v)"),
    "LN number": ("matrix", "LN(A; q, w)"),
    "RMSNorm": ("matrix", "RMSNorm(A; u, 1e-2)"),
    "RMSNorm number": ("matrix", "RMSNorm(A; q)"),
    "LN with ε": ("matrix", "LN(A; u, v, q)"),
    "cross_entropy": ("number", "cross_entropy(A; t)"),
    "cross_entropy with none": ("number", "cross_entropy(A; g)"),
    "cross_entropy of tokens": ("number", "cross_entropy(A[t]; t)"),
    "weighted_loss": ("number", "weighted_loss(A; t, p)"),
    # Functions a card defines, and those without a rule
    "own": ("matrix", "own(A)"),
    "own s": ("matrix", "own(A; q)"),
    "double": ("matrix", "double(A ⊙ B)"),
    "SwiGLU": ("matrix", "SwiGLU(A; M, M)"),
    "spread": ("matrix", "spread(q; A)"),
    "part": ("square", "S part(A; 1, 2) part(A; 0, 2)^⊤"),
    "placed": ("matrix", "placed(A[:2]; 1, n)"),
    "gathered": ("matrix", "gathered(A; t, n)"),
    # Places
    "rows by token": ("matrix", "A[t]"),
    "entries by token": ("positions", "u[t]"),
    "entries by token of a sum": ("positions", "(u ⊙ v + u)[t]"),
    "a row": ("vector", "A_1"),
    "an entry": ("number", "A_{2,1} q"),
    "an entry by input": ("number", "A[2, t_0]"),
    "slice rows": ("square", "S[:, :2] S[:2]"),
    "slice columns": ("square", "A[:, 1:3] B[:, 2:4]^⊤"),
    "slice vector": ("number", "<v[1:3], u[:2]>"),
    "a block of a slice": ("number", "sum(A[1:3, 1:2]_0)"),
    "sum of rows": ("vector", r"\sum_{j=0}^{n - 1} (A_j ⊙ B_j)"),
    "sum of picked": ("number", r"\sum_{j=0}^{n - 1} A_{j,t_j}^2"),
    "mean_j": ("vector", "mean_{j=0}^{n - 1}(A_j)"),
    "max_j": ("number", "max_{j=0}^{n - 1}(A_{j,1} * q)"),
    "max_j of ties": ("vector", "max_{j=0}^{n - 1}(A_{j mod 2})"),
    "max_j of one number": ("number", "max_{j=0}^{n - 1}(q * w + 0 * j)"),
    "last row": ("vector", "A[n - 1]"),
    "a row by sum": ("number", r"\sum_{j=1}^{n - 1} <A_j, A_{j-1}>"),
    "table": ("square", "table_{j<n, k<n}(S_{k,j} * p_j + q)"),
    "table vector": ("vector", "table_{k<m}(A_{0,k} / v_k)"),
    "table where": ("matrix", "table_{j<n, k<m}(where(k <= j, A_{j,k}, v_k))"),
    "concat": ("matrix", "concat(A[:, :1], S[:, 1:2], B[:, 2:])"),
    "concat vector": ("number", "<concat(p, v[:1]), concat(u[:1], p)>"),
    # Families
    "sum_h": ("matrix", r"\sum_h (F^h ⊙ A)"),
    "mean_h": ("matrix", "mean_h(F^h)"),
    "max_h": ("matrix", "max_h(F^h)"),
    "concat_h": ("square", "concat_h(F^h[:, 1:3]) concat_h(F^h[:, 2:4])^⊤"),
    "concat_h wide": ("wide", "concat_h(F^h)"),
    "concat_h vector": ("number", "<concat_h(f^h), concat_h(f^h)>"),
    "max_h of ties": ("matrix", "max_h(0 * F^h + F^1)"),
    "a head": ("matrix", "F^1 ⊙ F^2"),
    "a head in a sum": ("matrix", r"\sum_h (F^h ⊙ F^1)"),
    "grouped": ("matrix", r"\sum_h (F^{⌈h/2⌉} ⊙ F^h)"),
    "vector of heads": ("matrix", r"A ⊙ \sum_h f^h"),
    "h as a number": ("matrix", r"\sum_h (h * F^h)"),
}
CASES |= {
    f"whole {name}": ("number", WHOLE.format(CASES[name][1]))
    for name in ("softmax", "prod", "had vector")
}


def made(equations: list[str]) -> vt.Card:
    lines = "\n".join(e if e.startswith("\n") else f"1. ${e}$" for e in equations)
    return read(CARD.format(equations=lines))


@cache
def values(model_text: str) -> tuple[dict, dict]:
    rng = np.random.default_rng(len(model_text))
    weights = {k: rng.uniform(0.3, 1.5, s)
               for k, s in read(model_text).parameter_shapes.items()}  # fmt: skip
    return weights, {
        "t": np.array([2, 0, 2]),
        "c": np.array([1, 0, 1, 1]),
        "g": np.array([2, -100, 0]),
    }


@cache
def case(name: str) -> tuple[vt.Card, dict, dict, dict]:
    """The model of a case, its weights and inputs, and what autograd says."""
    kind, formula = CASES[name]
    model = made([f"y = {formula}", ROWS[kind]])
    weights, inputs = values(CARD.format(equations="1. $y = q$"))
    return model, weights, inputs, by_autograd(model, "L", weights, inputs)


def derived(name: str) -> vt.Card:
    """The backward card of a case, by the rules as they now are."""
    return replace(case(name)[0]).grad("L")  # a copy, for which none is kept


def wrong(name: str) -> float:
    _, weights, inputs, truth = case(name)
    return error(derived(name).run(None, weights, **inputs), truth)


@pytest.mark.parametrize("name", CASES)
def test_a_formula_against_autograd(name: str) -> None:
    assert wrong(name) < 1e-12


@pytest.mark.parametrize("name", ["softmax causal", "concat_h", "table where", "RoPE part", "LN"])
def test_a_backward_card_reads_back(name: str) -> None:
    page = derived(name)
    for form in ("md", "latex", "json"):
        assert read(write(page, form)) == page


# Mutations ----------------------------------------------------------------------------------------


@cache
def users() -> dict[int, set[str]]:
    """The cases in which each rule is applied."""
    used: dict[int, set[str]] = {k: set() for k in range(len(derivatives()))}
    known = {id(rule): k for k, rule in enumerate(derivatives())}
    plain, now = passing.Passing.rule, [""]

    def watched(self, e, c):  # type: ignore[no-untyped-def]
        found = plain(self, e, c)
        if found is not None:
            used[known[id(found[0])]].add(now[0])
        return found

    passing.Passing.rule = watched  # type: ignore[method-assign]
    try:
        for now[0] in CASES:
            derived(now[0])
    finally:
        passing.Passing.rule = plain  # type: ignore[method-assign]
    return used


NAMES = [show(rule.pattern) for rule in derivatives()]


def fails(name: str) -> bool:
    try:
        return not wrong(name) < 1e-9
    except vt.VieteError:
        return True


def simplest(names: set[str]) -> list[str]:
    return sorted(names, key=lambda name: (len(CASES[name][1]), name))


@pytest.mark.parametrize("k", range(len(NAMES)), ids=NAMES)
def test_a_perturbed_rule_is_noticed(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = derivatives()[k]
    for part, formula in rule.formulas:
        if part.startswith("partial{hat") or part.startswith("hat"):
            continue
        changed = tuple((p, Apply("times", (num(2), f)) if p == part else f)
                        for p, f in rule.formulas)  # fmt: skip
        mutant = (*derivatives()[:k], replace(rule, formulas=changed), *derivatives()[k + 1 :])
        for name in users()[k]:
            case(name)
        with monkeypatch.context() as m:
            m.setattr(passing, "derivatives", partial(tuple, mutant))
            assert any(map(fails, simplest(users()[k]))), f"{part} = {show(formula)}"


@pytest.mark.parametrize("k", range(len(NAMES)), ids=NAMES)
def test_a_rule_left_out_is_noticed_or_follows_from_the_definition(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    less = (*derivatives()[:k], *derivatives()[k + 1 :])
    names = simplest(users()[k])
    model = case(names[0])[0]
    monkeypatch.setattr(passing, "derivatives", lambda: less)
    others = [r for r in less if r.head == derivatives()[k].head]
    if derivatives()[k].head in model.function or others:
        # By its definition, or by the rule of a simpler pattern, it is the same or missed.
        defined = derivatives()[k].head in model.function
        assert (
            all(not fails(name) for name in names)
            if defined and not nested(derivatives()[k])
            else True
        )
    else:
        assert all(map(fails, names))


def nested(rule: Rule) -> bool:
    """softmax(causal(z)): without it two rules meet, and −∞ times 0 is not a number."""
    arguments: tuple[Expr, ...] = getattr(rule.pattern, "args", ())
    return any(isinstance(x, Apply) for a in arguments for x in walk(a))


def test_every_rule_has_a_case() -> None:
    assert [NAMES[k] for k, names in users().items() if not names] == []


# Blocks -------------------------------------------------------------------------------------------

LOOP = "\n\nFor $i = 1, …, N$:\n"
BLOCKS: dict[str, list[str]] = {
    "carried": ["x^0 = A", LOOP, "x^i = tanh(x^{i-1} W^i)", "L = <x^N_0, u>"],
    "used in its own block and the next": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        "z^i = sin(x^i X^i)",
        "L = <x^N_0, u> + <z^N_1, z^N_2>",
    ],
    "each block summed": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        r"L = \sum_{i=1}^{N} <x^i_0, x^i_1>",
    ],
    "summed from the start": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        r"y = \sum_{i=0}^{N} x^i",
        "L = <y_0, y_1>",
    ],
    "summed from the second": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        r"L = \sum_{i=2}^{N} <x^i_0, x^i_1> + <x^N_0, v>",
    ],
    "not carried": ["x^0 = A", LOOP, "z^i = tanh(A W^i)", r"L = \sum_{i=1}^{N} <z^i_0, z^i_1>"],
    "one block": ["x^0 = A", LOOP, "x^i = tanh(x^{i-1} W^i)", "L = <x^1_0, x^1_1>"],
    "the first and the last": ["x^0 = A", LOOP, "x^i = tanh(x^{i-1} W^i)", "L = <x^0_0, x^N_1>"],
    "what all blocks read": [
        "x^0 = A",
        "z = tanh(B M)",
        LOOP,
        "x^i = x^{i-1} + softmax(z W^i)",
        "L = <x^N_0, u>",
    ],
    "a part that is the same in all blocks": [
        "x^0 = A",
        LOOP,
        "x^i = x^{i-1} ⊙ LN(B M; u) + GELU(B) W^i",
        "L = <x^N_0, u>",
    ],
    "nothing after the last": [
        "x^0 = A",
        LOOP,
        "z^i = sin(x^{i-1} X^i)",
        "x^i = tanh(x^{i-1} W^i)",
        r"L = \sum_{i=1}^{N} <z^i_0, v>",
    ],
    "two that are carried": [
        "x^0 = A",
        "z^0 = B",
        LOOP,
        "x^i = tanh(x^{i-1} W^i + z^{i-1})",
        "z^i = x^i ⊙ z^{i-1}",
        "L = <z^N_0, x^N_1>",
    ],
    "weights outside of their loop": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        r"L = <x^N_0, u> + \sum_{i=1}^{N} <W^i_0, W^i_1>",
    ],
    "one block's weights": ["x^0 = A", LOOP, "x^i = tanh(x^{i-1} W^i)", "L = <(x^N W^1)_0, u>"],
    "encoder and decoder": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        "y^0 = B",
        LOOP,
        "y^i = y^{i-1} X^i + softmax(y^{i-1} {x^N}^⊤) x^N",
        "L = <y^N_0, y^N_1>",
    ],
    "two loops that share weights": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        "y^0 = B",
        LOOP,
        "y^i = sin(y^{i-1} W^i) + x^N",
        "L = <y^N_0, u>",
    ],
    "a block reads its like": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        "y^0 = B",
        LOOP,
        "y^i = sin(y^{i-1} X^i) + x^i",
        "L = <y^N_0, u>",
    ],
    "a family in a loop": [
        "x^0 = A",
        LOOP,
        "Q^{i,h} = x^{i-1} W^i ⊙ f^h",
        r"x^i = x^{i-1} + \sum_h (softmax(Q^{i,h} {Q^{i,1}}^⊤) x^{i-1})",
        "L = <x^N_0, u>",
    ],
    "one-sided": [
        "x^0 = A",
        LOOP,
        "x^i = where(i = 1, tanh(x^{i-1} W^i), x^{i-1} W^i)",
        "L = <x^N_0, u>",
    ],
}


SECOND = "\n\nFor $i = 2, …, N$:\n"
BLOCKS |= {
    "two blocks back": [
        "x^0 = A",
        "x^{1} = A M",
        SECOND,
        "x^i = x^{i-1} + x^{i-2} W^i",
        "L = <x^N_0, u> + <x^0_1, v> + <x^1_2, x^0_0>",
    ],
    "only two blocks back": [
        "x^0 = A",
        "x^{1} = A M",
        SECOND,
        "x^i = sin(x^{i-2} W^i)",
        "L = <x^N_0, u> + <x^1_1, v>",
    ],
    "three blocks back, each summed": [
        "x^0 = A",
        "x^{1} = A M",
        "x^{2} = B",
        "\n\nFor $i = 3, …, N$:\n",
        "z^i = sin(x^{i-3} W^i)",
        "x^i = x^{i-2} ⊙ z^i + tanh(x^{i-1})",
        r"L = <x^N_0, u> + \sum_{i=0}^{N} <x^i_1, x^i_2>",
    ],
    "before the first that is read": [
        "x^0 = A",
        "x^{1} = A M",
        SECOND,
        "x^i = tanh(x^{i-1} W^i)",
        "L = <x^N_0, u> + <x^0_1, v> + <x^1_2, x^0_0>",
    ],
    "before the loop alone": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(B W^i)",
        "L = <x^N_0, u> + <x^0_1, v>",
    ],
    "the first, read by all": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i) + x^0 X^i",
        "L = <x^N_0, u> + <x^0_1, v>",
    ],
    "nothing but the first": ["x^0 = A", LOOP, "x^i = tanh(x^0 W^i)", "L = <x^N_0, u>"],
    "read in a test alone": [
        "x^0 = A",
        LOOP,
        "x^i = A W^i + where(x^{i-1} > 0, 1, 2)",
        "L = <x^N_0, u>",
    ],
    "the mirrored block": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        "z^0 = x^N",
        LOOP,
        "z^i = z^{i-1} X^i + sin(x^{N-i+1})",
        "L = <z^N_0, u>",
    ],
    "one before the mirrored block": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        "z^0 = x^N",
        LOOP,
        "z^i = z^{i-1} X^i + sin(x^{N-i})",
        "L = <z^N_0, u>",
    ],
    "mirrored blocks summed": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        r"L = \sum_{i=1}^{N} (i * <x^{N-i+1}_0, x^N_1>)",
    ],
    "mirrored weights": ["x^0 = A", LOOP, "x^i = tanh(x^{i-1} W^i W^{N-i+1})", "L = <x^N_0, u>"],
    "a decoder with mirrored weights": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^i)",
        "z^0 = x^N",
        LOOP,
        "z^i = tanh(z^{i-1} W^{N-i+1})",
        "L = <z^N_0, u>",
    ],
    "weights of two blocks": [
        "x^0 = A",
        LOOP,
        "z^i = x^{i-1} W^{⌈i/2⌉}",
        "x^i = sin(z^i X^i)",
        "L = <x^N_0, u>",
    ],
    "weights of three blocks": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} W^{floor((i + 2) / 3)})",
        "L = <x^N_0, u>",
    ],
    "weights of all blocks": ["x^0 = A", LOOP, "x^i = tanh(x^{i-1} M + x^{i-1})", "L = <x^N_0, u>"],
    "a family of weights, each for some blocks": [
        "x^0 = A",
        LOOP,
        "x^i = tanh(x^{i-1} ⊙ F^{1 + i mod 2})",
        "L = <x^N_0, u>",
    ],
}

NEED_A_BLOCK = ("one block", "summed from the second", "one block's weights", "not carried",
                "used in its own block and the next", "each block summed",
                "nothing after the last", "two blocks back", "only two blocks back",
                "before the first that is read", "one before the mirrored block",
                "mirrored blocks summed", "three blocks back, each summed")  # fmt: skip


@pytest.mark.parametrize(
    "blocks", [0, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 6))]
)
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_against_autograd(name: str, blocks: int) -> None:
    if (blocks < 1 and name in NEED_A_BLOCK) or (blocks < 2 and name.startswith("three")):
        pytest.skip("there is no block to read")
    model = made(BLOCKS[name])
    derived = model.grad("L").bind(N=blocks)  # derived once, for any number of blocks
    model = model.bind(N=blocks)
    rng = np.random.default_rng(blocks)
    weights = {k: rng.uniform(-1, 1, s) for k, s in model.parameter_shapes.items()}
    inputs = {"t": np.array([2, 0, 2]), "c": np.array([1, 0, 1, 1])}
    run = derived.run(None, weights, **inputs)
    assert error(run, by_autograd(model, "L", weights, inputs)) < 1e-12


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_read_back(name: str) -> None:
    derived = made(BLOCKS[name]).grad("L")
    for form in ("md", "latex", "json"):
        assert read(write(derived, form)) == derived


# What is asked for --------------------------------------------------------------------------------


def test_by_some_parameters_alone() -> None:
    model, weights, inputs, truth = case("LN")
    run = model.grad(by=["A", "v"]).run(None, weights, **inputs)
    assert error(run, {k: truth[k] for k in ("A", "v")}) < 1e-12
    assert "∂u" not in run


def test_by_a_real_input() -> None:
    text = CARD.replace("- $c ∈", "- $z ∈ ℝ^{{n × m}}$\n- $c ∈").format(
        equations="1. $y = softmax(z M)$\n1. $L = <y_0, u>$"
    )
    model = read(text)
    weights, inputs = values(CARD.format(equations="1. $y = q$"))
    inputs = {**inputs, "z": np.random.default_rng(0).standard_normal((3, 4))}
    run = model.grad(by=["z"]).run(None, weights, **inputs)
    tensors = {k: torch.tensor(v) for k, v in (weights | inputs).items()}
    tensors["z"].requires_grad_()
    given = {k: tensors[k] for k in inputs}
    model.run(None, {k: tensors[k] for k in weights}, **given)["L"].backward()
    np.testing.assert_allclose(run["∂z"], tensors["z"].grad.numpy(), atol=1e-14)


@pytest.mark.parametrize("function", ["sigmoid(z) = 1 / (1 + z^2)", "std(z) = sqrt(var(z) + 1)",
                                      "var(z) = mean(z^2)", "softmax(z) = exp(z / 2)"])  # fmt: skip
@pytest.mark.parametrize("formula", ["SiLU(A)", "LN(A)", "A ⊙ std(A)", "softmax(A)", "sigmoid(A)"])
def test_a_card_s_own_function_of_a_library_name(function: str, formula: str) -> None:
    text = CARD.replace("- $own(z", f"- ${function}$\n- $own(z")
    model = read(text.format(equations=f"1. $y = {formula}$\n1. $L = <y_0, y_1>$"))
    weights, inputs = values(CARD.format(equations="1. $y = q$"))
    run = model.grad().run(None, weights, exact_definitions=True, **inputs)
    assert error(run, by_autograd(model, None, weights, inputs)) < 1e-12


TAKING = {
    "spread": "- $spread(z; a) = z^2 + sum(a)$",
    "gathered": "- $gathered(z; a, b) = z ⊙ z$",
    "part": "- $part(z; a, b) = sin(z)$",
    "placed": "- $placed(z; a, b) = sin(z)$",
    "onehot": "- $onehot(a, b) = 2 * b + 0 * a$",
    "softmax": "- $softmax(z) = softmax(z / 2)$",
}


@pytest.mark.parametrize("name", TAKING)
def test_a_card_s_own_function_of_a_name_that_a_derivation_writes(name: str) -> None:
    """The library's is still there, as ``spread_library``; the card's means what the card says."""
    text = CARD.replace("- $own(z", f"{TAKING[name]}\n- $own(z")
    calls = {"spread": "spread(A; A)", "onehot": "A + onehot(w, q)", "softmax": "softmax(A)"}
    call = calls.get(name, f"{name}(A; A, 2)")
    lines = [f"y = {call} + spread(sum(B); B)" if name != "spread" else f"y = {call}",
             "z = y[t]", "r = concat_h(F^h) + 0 * q", "s = z + M[:n]", "L = cross_entropy(s; t) + "
             "<r_0, r_1> + <C[1:]_0, u>"]  # fmt: skip
    model = read(text.format(equations="\n".join(f"1. ${x}$" for x in lines)))
    weights, inputs = values(CARD.format(equations="1. $y = q$"))
    derived = model.grad()
    truth = by_autograd(model, None, weights, inputs)
    for slow in (False, True):
        assert error(derived.run(None, weights, exact_definitions=slow, **inputs), truth) < 1e-12
    for form in ("md", "latex", "json"):
        assert read(write(derived, form)) == derived


def test_names_are_taken_in_any_spelling() -> None:
    llama = vt.read("llama")
    a = llama.grad("cross_entropy(logits; t)", by=["γ", r"W_Q^{i,g,r}"])
    assert a == llama.grad(r"cross_entropy(logits; t)", by=["gamma", "W_Q^{i,g,r}"])


# Bad input ----------------------------------------------------------------------------------------

FLAT = ["y = A M", "a = argmax(y)", "L = <p, a>"]
BAD = [
    (["y = A"], {}, "has no loss"),
    (["y = A"], {"of": "y"}, "only one real number can be differentiated, and this is (n, m)"),
    (["y^h = F^h"], {"of": "<y^h_0, y^h_1>"}, "one for each h"),
    (["y = A"], {"of": "argmax(y_0)"}, "a whole number, which has no derivative"),
    (["y = A"], {"of": "y_0 +"}, "ends too early"),
    (["y = A"], {"of": ""}, "missing"),
    (["y = A"], {"of": 3}, "formula as text"),
    (["y = argmax(A)", "z = y + 0", "L = <z, z>"], {}, "y = argmax(A) (line"),
    (["y = floor(A)", "L = <y_0, y_1>"], {}, "y = floor(A) (line"),
    (["y = A_0", "L = <y, y>"], {"by": ["t"]}, "t holds whole numbers"),
    (["y = A_0", "L = <y, y>"], {"by": ["nobody"]}, "neither in Small; it has A, B"),
    (["y = A_0", "L = <y, y>"], {"by": ["y"]}, "y is neither"),
    (["y = A_0", "L = <y, y>"], {"by": ["B"]}, "does not depend"),
    (["y = A_0", "L = <y, y>"], {"by": []}, "does not depend"),
    (["y = A_0", "L = <y, y>"], {"by": "A"}, "list of names"),
    (
        ["x^0 = A", LOOP, "z^i = x^{i-1} W^i", "x^i = z^i + z^{⌈i/2⌉}", "L = <x^N_0, u>"],
        {},
        "the derivative through z^{⌈i/2⌉} is not derived",
    ),
    (
        ["x^0 = A", LOOP, "z^i = x^{i-1} W^{1 + i mod 2}", "x^i = z^i", "L = <x^N_0, u>"],
        {},
        "the derivative through W^{1+i mod 2} is not derived",
    ),
]


@pytest.mark.parametrize(("equations", "asked", "said"), BAD, ids=[b[2] for b in BAD])
def test_bad_input_gets_one_sentence(equations: list[str], asked: dict, said: str) -> None:
    with pytest.raises(vt.VieteError) as caught:
        made(equations).grad(**asked)
    assert said in str(caught.value)
    assert ". " not in caught.value.message


def test_the_command_line_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from viete.cli import main

    path = tmp_path / "card.md"
    path.write_text(CARD.format(equations="1. $y = argmax(A)$\n1. $L = <y, p>$"))
    for arguments, said in (
        (["bert"], "has no loss"), ([str(path), "--by", "A"], "y = argmax(A)"),
        (["pythia", "--of", "logits"], "one real number"), (["nowhere"], "nowhere"),
        (["simple-transformer", "--by", "t"], "whole numbers"),
        (["simple-transformer", "-o", str(tmp_path / "none" / "x.md")], "cannot be written"),
        (["simple-transformer", "-o", str(tmp_path)], "cannot be written"),
        (["simple-transformer", "--of", "argmax(logits_0)"], "a whole number"),
        ([str(path), "-o", str(path), "--of", "<A_0, A_1>"], "would overwrite the card"),
    ):  # fmt: skip
        with pytest.MonkeyPatch.context() as m, pytest.raises(SystemExit) as ended:
            m.setattr("sys.argv", ["viete", "grad", *arguments])
            main.main()
        out = capsys.readouterr()
        assert ended.value.code == 2 and out.out == "" and said in out.err, arguments


def test_a_sum_of_a_thousand_shares_is_not_deep() -> None:
    names = [Symbol(f"y_{k}", "value").member for k in range(1000)]
    added = total([Share((), name, UNSAID) for name in names])
    assert [x for x in walk(added) if isinstance(x, Ref)] == names

    def depth(e: Expr) -> int:
        return 1 + max(map(depth, e.args)) if isinstance(e, Apply) else 0

    assert depth(added) < 100


def test_refs_of_a_rule_are_its_own() -> None:
    """A rule's formulas use the letters of its pattern, y, its parts and their derivatives."""
    for rule in derivatives():
        known = {x.key for x in walk(rule.pattern) if isinstance(x, Ref)} | {"y"}
        for part, formula in rule.formulas:
            used = {x.key for x in walk(formula) if isinstance(x, Ref)}
            assert {u.removeprefix("partial{").removesuffix("}") if u.startswith("partial") else u
                    for u in used} <= known | {"hat{y}"}, part  # fmt: skip
            known |= {part}
