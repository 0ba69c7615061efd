"""Every function and sign of the notation, called with every kind of argument, in few cards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from string import ascii_lowercase
from typing import Any

import numpy as np

import viete as vt
from viete.analysis.well_formed import SIGNS
from viete.library.functions import library
from viete.notation.symbols import PRIMITIVES

CARD = r"""# Arguments
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $d$ | 4 |
| $n$ | $≤ 7$ |
| $h$ | $1, …, 2$ |
## Inputs
- $t ∈ \{0, …, V-1\}^n$: tokens
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W$ | $d × d$ |
## Forward pass
1. $x = E[t]$
2. $S = x x^⊤$
3. $Z = x E^⊤$
4. $u = table_{j<n}(1)$
5. $q = table_{j<n, c<d}(t_j)$
"""
TOKENS = np.array([2, 1, 4])
WEIGHTS = {"E": np.random.default_rng(0).normal(size=(5, 4)),
           "W": np.random.default_rng(1).normal(size=(4, 4))}  # fmt: skip
# A number, one that is not whole, a dimension, a length, an index letter, a token, a matrix of
# whole numbers, a truth value; and what is no place of an axis.
KINDS = ("2", "1/2", "d", "n", "h", "t_0", "q", "(t_0 > 1)", "9", "-1")
CALLS: dict[str, tuple[str, ...]] = {  # of what is not called with a matrix alone
    "LN": ("x", "E_0", "E_1", "1/10"), "RMSNorm": ("x", "E_0", "1/10"), "top": ("x", "2"),
    "places": ("4",), "entry": ("E_0", "1"), "rank": ("E_0", "1"), "SwiGLU": ("x", "W", "W"),
    "clip": ("x", "1/2"), "softcap": ("x", "1/2"), "dropout": ("x", "1/10"), "causal": ("S",),
    "window": ("S", "2"), "visible": ("S", "u"), "switched": ("x", "1/2"), "unpadded": ("S", "u"),
    "counted": ("u",), "sinusoidal": ("n", "d"), "angles": ("n", "d", "100"),
    "rotate": ("x", "x", "x"), "RoPE": ("x", "1", "100"), "freq": ("d", "100"),
    "spun": ("x", "freq(d; 100)"), "freq_llama3": ("freq(d; 100)", "8", "1", "4", "64"),
    "turns": ("8", "100", "32", "64"), "turned": ("8", "100", "1", "64"),
    "freq_yarn": ("freq(d; 100)", "100", "8", "1", "32", "64"), "quarter": ("4",),
    "pair_angles": ("n", "d", "100"), "RoPE_pairs": ("x", "d", "100"), "power": ("3",),
    "slope": ("1", "2"), "ALiBi": ("S", "1", "2"), "has_target": ("t",), "share": ("u",),
    "cross_entropy": ("Z", "t"), "weighted_loss": ("Z", "t", "u"), "onehot": ("t", "V"),
    "spread": ("2", "x"), "gathered": ("x", "t", "V"), "part": ("x", "1", "2"),
    "column": ("x", "1"), "stack": ("x", "E"), "written": ("E", "x", "t"),
    "placed": ("x", "1", "V"), "length": ("E_0",), "unit": ("E_0",), "cosine": ("E_0", "E_1"),
    "twice_arctan": ("E_{0,0}", "E_{0,1}"), "angle": ("E_0", "E_1"), "tr": ("S",),
    "where": ("x > 0", "x", "E_0"), "concat": ("x", "E[t]"), "inner": ("E_0", "E_1"),
    "log": ("(x^2 + 1)",), "sqrt": ("(x^2)",),
}  # fmt: skip
FORMS = {
    "add": "({} + {})", "sub": "({} - {})", "had": "({} ⊙ {})", "times": "({} * {})",
    "div": "({} / (1 + {}^2))", "mod": "({} mod {})", "prod": "({} @ {})", "pow": "({})^{{{}}}",
    "lt": "({} < {})", "le": "({} ≤ {})", "gt": "({} > {})", "ge": "({} ≥ {})", "eq": "({} = {})",
    "ne": "({} != {})", "and": "({} > 1 and {} > 1)", "or": "({} > 1 or {} > 1)",
    "neg": "(-{})", "not": "(not ({} > 1))", "T": "({})^⊤",
    "max 2": "max({}, {})", "min 2": "min({}, {})",
    "row": "x[{}]", "column by": "x[:, {}]", "slice to": "x[:{}]", "slice from": "x[{}:]",
    "entry by": "E[1, {}]", "table": r"table_{{j<{}}}(j)", "places of": "E[t - 1 + {}]",
}  # fmt: skip
ARGUMENTS = {"neg": ("x",), "not": ("x",), "T": ("x",), "prod": ("x", "W"), "pow": ("x", "2"),
             "row": ("0",), "column by": ("0",), "slice to": ("n",), "slice from": ("0",),
             "entry by": ("0",), "table": ("n",), "places of": ("1",)}  # fmt: skip


def formulas() -> Iterator[str]:
    """Each function and sign, one argument after the other of each kind."""
    names = [*library(), *(p for p in PRIMITIVES if p not in library())]
    written = {s for s in SIGNS if s not in ("pi", "inf")}
    assert written <= FORMS.keys()
    for name in names:
        base = CALLS.get(name, ("x",))
        form = name + "({}" + "; {}" * (len(base) > 1) + ", {}" * (len(base) - 2) + ")"
        if name in ("where", "concat", "inner"):
            form = form.replace(";", ",")
        yield from changed(form, base)
    for name, form in FORMS.items():
        yield from changed(form, ARGUMENTS.get(name, ("x", "E_0")))


def changed(form: str, base: Sequence[str]) -> Iterator[str]:
    for k in range(len(base)):
        for kind in KINDS:
            args = [*base[:k], kind, *base[k + 1 :]]
            yield rf"\sum_h({form.format(*args)})" if kind == "h" else form.format(*args)


@cache
def sorted_formulas(part: int, parts: int) -> tuple[dict[str, Any], list[str]]:
    """Those of a part with a value, and those that a run refuses."""
    run = vt.read(CARD).run(TOKENS, WEIGHTS)
    there, refused = dict[str, Any](), list[str]()
    with np.errstate(all="ignore"):
        for formula in list(dict.fromkeys(formulas()))[part::parts]:
            try:
                there[formula] = np.asarray(run[formula], float)
            except vt.VieteError:
                refused.append(formula)
    return there, refused


def card(some: Sequence[str]) -> tuple[vt.Card, dict[str, str]]:
    """A card with an equation for each formula, and the names of their values."""
    names = {f: "y" + ascii_lowercase[k // 26] + ascii_lowercase[k % 26] + "y"
             for k, f in enumerate(some)}  # fmt: skip
    lines = [f"{k}. ${name} = {f}$\n" for k, (f, name) in enumerate(names.items(), 6)]
    last = f"{len(lines) + 6}. $L = sum(x_0) + sum(W_0)$\n"
    return vt.read(CARD + "".join(lines) + last), names
