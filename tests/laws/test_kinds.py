"""Law 2, of formulas of tokens, positions, masks, NaN and ∞: every meaning and export agrees.

A random card has a dozen values made of whole numbers, truth values and special real numbers, in
one another's company. What is a whole number is one everywhere, and what is real has the precision
of the run.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.evaluate.evaluated import EvaluatedGradients
from tests.laws.strategies import SPECIAL
from viete import read
from viete.analysis.shapes import Shapes
from viete.errors import VieteError
from viete.evaluate.plan.engine import Engine
from viete.meanings.run import run

torch = pytest.importorskip("torch")
N = 4

# Where numbers that are not tokens are inputs; a NumPy script, which learns tokens, has none.
GIVEN = r"""- $r ∈ ℝ^n$: numbers, NaN and infinities among them
- $q ∈ ℝ^n$: quarters
"""
HEAD = r"""# Whole numbers among others
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 7 |
| $Z$ | 10000000000 |
| $d$ | 3 |
| $n_{max}$ | 6 |
| $n$ | $≤ n_{max}$ |
## Inputs
- $t ∈ \{0, …, V - 1\}^n$: tokens
- $u ∈ \{0, …, V - 1\}^n$: more tokens
- $a ∈ \{0, …, 1\}^n$: a mask
- $T ∈ \{0, …, Z\}^n$: ids so large that their products are beyond 64 bits
INPUTS## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $b$ | $V$ |
| $R, S, K$ | $n_{max}$ |
## Forward pass
"""
MADE = """1. $q = K[:n]$
2. $r = log(R[:n]) ⊙ S[:n]$
"""


class Formulas:
    """Random entries of an n × n table, as text; j and k are its letters.

    ``rational``: only what exact numbers decide at once, without functions and without NaN.
    """

    def __init__(self, seed: int, rational: bool = False) -> None:
        self.random, self.rational = Random(seed), rational

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def whole(self, depth: int) -> str:
        if depth <= 0:
            return str(self.one("t_j", "t_k", "u_k", "a_j", "j", "k", "2", "3", "n", "T_j"))
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        test = self.truth(depth - 1)
        return str(self.one(
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"max({a}, {b})", f"min({a}, {b})",
            f"abs({a} - {b})", f"(-{a})", f"({a} mod 3)", f"floor({a} / 4)", f"⌈{a} / 3⌉",
            f"where({test}, {a}, {b})", f"where({test}, {a}, 0)", f"(({test}) * {a})",
            f"({a})^2", f"sum_{{i=0}}^{{n - 1}}(t_i * ({a}))", f"t_{{({a}) mod n}}",
            "argmax(E_{t_j})", f"(({test}) + ({test}))",
        ))  # fmt: skip

    def truth(self, depth: int) -> str:
        if depth <= 0:
            return str(
                self.one("j <= k", "a_k = 1", "t_j = u_k", "q_j > 1", "r_k > 0", "r_j = r_k")
                if not self.rational
                else self.one("j <= k", "a_k = 1", "q_j > q_k")
            )
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        return str(self.one(
            f"({a} < {b})", f"({a} = {b})", f"({a} >= {self.real(0)})", self.truth(0),
            f"({self.truth(0)} and {self.truth(depth - 1)})", f"(not ({self.truth(depth - 1)}))",
        ))  # fmt: skip

    def real(self, depth: int) -> str:
        if depth <= 0:
            plain = ["q_j", "q_k", "t_j / 4", "(j - k) / 2", "1/4"]
            return str(self.one(*plain) if self.rational else self.one(*plain, "r_j", "r_k"))
        a, b, w = self.real(depth - 1), self.real(depth - 1), self.whole(depth - 1)
        test = self.truth(depth - 1)
        some = [
            f"({a} + {w})", f"({a} * {w})", f"({a} - {b})", f"where({test}, {a}, {w})",
            f"where({a} > 0, {b}, 0)", f"({w} / 4)", f"max({a}, {w})", f"E_{{({w}) mod 7, 0}}",
            f"mean_{{i=0}}^{{n - 1}}(t_i + {a})", f"(({test}) / 2)", f"where({test}, 1/4, 0)",
        ]  # fmt: skip
        if not self.rational:
            some += [
                f"sin({w})", f"exp(-abs({w} mod 5))", f"tanh({a})", f"({w} mod u_k)", f"sqrt({w})",
                f"where({test}, {a}, -inf)", f"E_{{t_j, 1}} * {w}", f"sigmoid({w} mod 9)",
                f"floor({a} * 2)", f"(t_j + 1)^{{-1}} * {a}", f"abs({a})", f"({a} + sin(j))",
            ]  # fmt: skip
        return str(self.one(*some))

    def rows(self) -> str:
        """A value of the whole text at once."""
        w = f"table_{{j<n, k<n}}({self.whole(1)})"
        if self.rational:
            return str(self.one(f"sum({w})", f"max({w})", f"mean({w})", f"({w}) ({w})"))
        w = f"table_{{j<n, k<n}}({self.whole(1)} mod 7)"
        c = f"table_{{j<n, k<n}}({self.truth(1)})"
        return str(self.one(
            f"softmax({w})", f"RMSNorm({w}; 1, 1)", f"LN({w}; 1, 0, 1)", f"sigmoid({w})",
            f"ReLU({w} - 3)", f"GELU({w})", f"SiLU({w})", f"logsoftmax({w})", f"mean({c})",
            f"sum({c})", f"softmax({c})", f"max({w})", f"mean({w})", f"({w}) ({w})", f"causal({w})",
            f"argmax({w}) * 2", f"concat({w} + t, ({c}) ⊙ (t + 1))", "concat(t > 2, a = 1)",
            f"({w}) E[t]", "E[t] E[floor(t / 2)]^⊤",
            f"logsumexp({w})", f"log(sum(exp({c})))",
            "softmax(t)", "mean(a) * t", "E[argmax(b)]", "E_{t_0}", "clip(t; 2)", f"({c}) ({w})^⊤",
        ))  # fmt: skip

    def card(self, count: int, made: bool = False) -> vt.Card:
        """A card of so many values; ``made``: r and q are made of parameters."""
        makers = [
            lambda: f"table_{{j<n, k<n}}({self.whole(3)})",
            lambda: f"table_{{j<n, k<n}}({self.real(3)})",
            lambda: f"table_{{j<n, k<n}}({self.truth(2)})",
            lambda: f"table_{{j<n}}({self.real(2).replace('_k', '_j').replace('k', 'j')})",
            self.rows,
        ]
        lines = [f"{m}. $y_{{{m}}} = {makers[m % len(makers)]()}$" for m in range(1, count + 1)]
        lines.append(f"{count + 1}. $L = sum(b ⊙ b) + sum(E_0) + 0 * sum(t)$")
        head = HEAD.replace("INPUTS", "" if made else GIVEN) + MADE * made
        return read(head + "\n".join(lines) + "\n")


def inputs(seed: int, special: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    quarters = rng.integers(-6, 7, N) / 4
    return {
        "t": rng.integers(0, 7, N), "u": rng.integers(0, 7, N), "a": rng.integers(0, 2, N),
        "T": rng.integers(10**9, 10**10, N), "q": quarters,
        "r": rng.choice([*SPECIAL, 0.5, -1.25], N) if special else quarters,
    }  # fmt: skip


def weights(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    made = {"R": rng.choice([-1.0, 0.0, 1.0, 2.0, 2.0], 6), "S": rng.choice([-1.0, 1.0], 6)}
    made["K"] = rng.integers(-6, 7, 6) / 4
    return {"E": rng.integers(-8, 9, (7, 3)) / 4, "b": rng.integers(-8, 9, 7) / 4, **made}


def host(x: Any) -> np.ndarray:
    return np.asarray(x.detach() if isinstance(x, torch.Tensor) else x)


def alike(found: Any, wanted: Any, what: str, bound: float = 1e-9) -> None:
    """Equal but for rounding, NaN and infinities at the same places."""
    a, b = host(found).astype(np.float64), host(wanted).astype(np.float64)
    np.testing.assert_allclose(a, b, rtol=bound, atol=bound, err_msg=what)


KINDS = {
    "numpy": lambda w: w,
    "torch": lambda w: {k: torch.from_numpy(v) for k, v in w.items()},
}


def runs_agree(model: vt.Card, seed: int, kinds: dict[str, Any]) -> None:
    given_, types = inputs(seed, True), Shapes(model).types
    wanted = run(model, None, weights(seed), exact_definitions=True, **given_)
    names = list(wanted)
    for kind, make in kinds.items():
        for dtype in ("float64", "float32")[: 1 + (kind != "jax")]:
            cast = {k: v.astype(dtype) for k, v in weights(seed).items()}
            found = run(model, None, make(cast), **given_)
            for name in names:
                said = types[name].kind if types[name].whole is not None else "float"
                wide = {"int": "int64", "bool": "bool", "float": dtype}[said]
                there = str(found[name].dtype).removeprefix("torch.")
                what = f"{name} on {kind} in {dtype}: {model.equations[names.index(name)].text}"
                assert there == wide, f"{what} is {there}"
                if dtype == "float64":
                    alike(found[name], wanted[name], what)


@given(st.integers(0, 10**6))
def test_numpy_and_torch_agree(seed: int) -> None:
    runs_agree(Formulas(seed).card(10), seed, KINDS)


@settings(max_examples=1)  # JAX compiles every operation for every shape
@given(st.integers(0, 10**6))
def test_jax_agrees(seed: int) -> None:
    jax = pytest.importorskip("jax")
    make = {"jax": lambda w: {k: jax.numpy.asarray(v) for k, v in w.items()}}
    runs_agree(Formulas(seed).card(8), seed, make)


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_exact_agrees(seed: int) -> None:
    model = Formulas(seed, rational=True).card(8)
    given_ = inputs(seed, False)
    wanted = run(model, None, weights(seed), **given_)
    exact = {k: np.vectorize(Fraction, otypes=[object])(v) for k, v in weights(seed).items()}
    quarters = {k: np.vectorize(Fraction, otypes=[object])(given_[k]) for k in "rq"}
    found = run(model, None, exact, meaning="exact", **{**given_, **quarters})
    for name in wanted:
        numbers = np.vectorize(float, otypes=[float])(np.asarray(found[name], dtype=object))
        alike(numbers, wanted[name], f"{name}: {[str(e.text) for e in model.equations]}")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4)
@given(seed=st.integers(0, 10**6))
def test_plans_agree(kind: str, seed: int) -> None:
    """The gradients of a plan are those of the backward equations, run one by one."""
    some = Formulas(seed, rational=True)
    entries = [f"{some.real(3)} + E_{{t_j, 0}} * {some.whole(2)}" for _ in range(3)]
    lines = [f"{m}. $y_{{{m}}} = table_{{j<n, k<n}}({e})$" for m, e in enumerate(entries, 1)]
    rows = " + ".join(f"mean_{{i=0}}^{{n - 1}}(sum(y_{{{m}}}[i]))" for m in range(1, 4))
    lines.append(f"4. $L = {rows} + sum(b ⊙ E[argmax(b)]_0) + mean(sin(E[floor(t / 2)])_0)$")
    model = read(HEAD.replace("INPUTS", GIVEN) + "\n".join(lines) + "\n")
    batch = {k: np.stack([v, v[::-1]]) for k, v in inputs(seed, False).items()}
    used = weights(seed)
    given_ = {i.name: batch[i.name] for i in model.inputs}
    loss, wanted = EvaluatedGradients(model)(None, used, **given_)
    engine = Engine(model, KINDS[kind](used), None)
    with torch.no_grad():
        alike(engine(None, **given_), loss, f"the loss on {kind}")
    for name, g in wanted.items():
        alike(engine.gradients[name], g, f"the gradient of {name} on {kind}")


def exported(model: vt.Card, to: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(model.export(to), f"exported_{to}.py", "exec"), names)
    return names


def forward(model: vt.Card, to: str, seed: int) -> Any:
    """The output of an exported program, in float64."""
    used, values = weights(seed), inputs(seed, True)
    names = exported(model, to)
    keys = [i.name for i in model.inputs]
    if to == "torch":
        kind = next(v for v in reversed(names.values()) if isinstance(v, type)
                    and issubclass(v, torch.nn.Module) and v.__module__ == "exported")  # fmt: skip
        module = kind().double()
        module.load_state_dict(names["renamed"](KINDS["torch"](used)))
        call = module
        arrays = {k: torch.from_numpy(values[k]) for k in keys}
    else:
        if to == "jax":
            from jax import numpy as jnp

            used = {k: jnp.asarray(v) for k, v in used.items()}
            values = {k: jnp.asarray(v) for k, v in values.items()}
        ready = names.get("renamed", dict)(used)
        arrays = {k: values[k] for k in keys}

        def call(**given_: Any) -> Any:
            return names["forward"](**given_, **ready)

    taken = inspect.signature(module.forward if to == "torch" else names["forward"]).parameters
    with np.errstate(all="ignore"):
        found = call(**{k: v for k, v in arrays.items() if k in taken})
    return found[0] if isinstance(found, tuple) else found


def exports_agree(seed: int, to: str, count: int) -> None:
    whole = Formulas(seed).card(count, made=True)
    given_ = {i.name: inputs(seed, True)[i.name] for i in whole.inputs}
    wanted = run(whole, None, weights(seed), **given_)
    for e in whole.equations[2:-1]:  # one output each, which is the last value but the loss
        kept = [*whole.equations[:2], e, whole.equations[-1]]
        model = replace(whole, equations=tuple(kept))
        what = f"{e.text} in {to}"
        try:
            found = forward(model, to, seed)
        except VieteError as error:
            raise AssertionError(f"{what}: {error}") from None
        alike(found, wanted[e.name], what)


@pytest.mark.parametrize("to", ["numpy", "torch"])
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6))
def test_exports_agree(to: str, seed: int) -> None:
    exports_agree(seed, to, 5)


@settings(max_examples=1)
@given(st.integers(0, 10**6))
def test_jax_exports_agree(seed: int) -> None:
    pytest.importorskip("jax")
    exports_agree(seed, "jax", 5)
