"""Law 9: every primitive has a rule in every meaning. A new one needs a row here, and a rule there.

Each row is a formula that has the primitive in it and is differentiable by x; what a meaning makes
of it is held to the array that NumPy gives. So a cell that fails names what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

import viete as vt
from viete.analysis.cost import costs
from viete.analysis.well_formed import SIGNS, check_well_formed
from viete.meanings.exact.namespace import COMPARE
from viete.meanings.exact.namespace import RULES as exact_rules
from viete.meanings.interval import RULES as interval_rules
from viete.notation.parser import parse
from viete.notation.printer import STYLES, show
from viete.notation.symbols import BINDERS, PRIMITIVES
from viete.notation.tree import Apply, Bind, Pick, Slice, Table, walk

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

# Over x (n × d), p > 0 (n × d), W (d × d), heads X^h (n × d) and the tokens t.
FORMULAS = {
    "exp": "exp(x)", "log": "log(p)", "sqrt": "sqrt(p)", "erf": "erf(x)", "tanh": "tanh(x)",
    "sin": "sin(x)", "cos": "cos(x)", "arctan": "arctan(x)", "abs": "abs(x)",
    "floor": "floor(3 * x) ⊙ x",
    "neg": "-x", "add": "x + p", "sub": "x - p", "had": "x ⊙ p", "times": "3 * x", "div": "x / p",
    "mod": "x mod 2", "pow": "p^{3/2}", "prod": "x W", "pi": "pi * x", "inf": "max(x, -∞)",
    "sum": "table_{j<n}(sum(x_j))", "mean": "table_{j<n}(mean(x_j))", "max": "max(x, p / 2)",
    "min": "min(x, p / 2)", "argmax": "table_{j<n}(argmax(x_j) * sum(x_j))",
    "rows": "cols(x) * x", "cols": "cols(x) * x", "len": "len(W) * x",
    "T": "table_{j<n}(sum(x_j W^T))",
    "inner": "table_{j<n}(<x_j, p_j>)", "concat": "concat(x, p)",
    "where": "where(x > 0, x, 2 * p)", "not": "where(not x > 0, x, p)",
    "and": "where(x > 0 and p < 2, x, p)", "or": "where(x > 0 or p < 2, x, p)",
    "lt": "where(x < 0, x, p)", "le": "where(x <= 0, x, p)", "gt": "where(x > 0, x, p)",
    "ge": "where(x >= 0, x, p)", "eq": "where(floor(x) = 0, x, p)",
    "ne": "where(floor(x) != 0, x, p)",
    "sum_k": r"table_{j<n}(\sum_{k=0}^{d-1} x_{j,k})", "sum_h": r"\sum_h X^h",
    "mean_k": "mean_h(X^h)", "max_k": "max_h(X^h)", "concat_k": "concat_h(X^h)",
    "table": "table_{j<n, k<d}(x_{j,k} * (k + 1))", "pick": "E[t] ⊙ x", "slice": "x[:, 1:3]",
}  # fmt: skip
CARD = r"""# One primitive

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 5 |
| $d$ | 4 |
| $H$ | 2 |
| $n$ | ≤ 6 |
| $h$ | $1, …, H$ |

## Inputs

- $t ∈ {0, …, V-1}^n$

## Parameters

| parameter | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W$ | $d × d$ |
| $W_X^h$ | $d × d$ |

## Forward pass

1. $x = E[t]$
2. $p = x ⊙ x + 1$
3. $X^h = x W_X^h$
4. $y = FORMULA$
5. $L = \sum_{j=0}^{n-1} (LOSS)$
"""


@cache
def model_of(name: str) -> vt.Card:
    formula = FORMULAS[name]
    square = "y_j * y_j" if formula.startswith("table_{j<n}(") else "<y_j, y_j>"
    return vt.read(CARD.replace("FORMULA", formula).replace("LOSS", square))


@cache
def given() -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = model_of("exp").parameter_shapes
    return {k: rng.normal(0, 1, v) for k, v in shapes.items()}, np.array([3, 1, 4, 1, 0])


@cache
def reference(name: str) -> Any:
    weights, t = given()
    return model_of(name).run(t, weights)


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found, float), wanted, rtol=1e-9, atol=1e-9)


def arrays(convert: Callable[[np.ndarray], Any]) -> Callable[[str], None]:
    def agrees(name: str) -> None:
        weights, t = given()
        run = model_of(name).run(t, {k: convert(v) for k, v in weights.items()})
        close(run["y"], reference(name)["y"])

    return agrees


def exact(name: str) -> None:
    """Of small fractions, which floats hold."""
    rng, t = np.random.default_rng(3), given()[1][:2]
    weights = {k: rng.integers(-9, 9, v.shape) / 8 for k, v in given()[0].items()}
    close(model_of(name).run(t, weights, meaning="exact")["y"], model_of(name).run(t, weights)["y"])


def interval(name: str) -> None:
    """The bounds hold what floats give, but for a library's last digits, and are close to it."""
    weights, t = given()
    model = model_of(name)
    found = model.run(t, weights, meaning="interval")["y"]
    wanted = reference(name)["y"]
    slack = 4 * np.spacing(abs(wanted) * 1.0)
    assert (found["lower"] - slack <= wanted).all() and (wanted <= found["upper"] + slack).all()
    close(found["lower"], wanted)


def derivative(name: str) -> None:
    """Against central differences, and through a plan."""
    weights, t = given()
    model = model_of(name)
    back = model.grad(by=["E"])
    run = back.run(t, weights)
    for place in ((3, 0), (1, 2)):
        ends = []
        for step in (1e-6, -1e-6):
            moved = {k: v.copy() for k, v in weights.items()}
            moved["E"][place] += step
            ends.append(float(model.run(t, moved)["L"]))
        np.testing.assert_allclose(
            run["∂E"][place], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-5
        )
    step = model.planned(weights)
    close(step(t), reference(name)["L"])
    close(step.gradients["E"], run["∂E"])


def exported(to: str) -> Callable[[str], None]:
    def agrees(name: str) -> None:
        weights, t = given()
        names: dict[str, Any] = {"__name__": "exported"}
        exec(compile(model_of(name).export(to), "exported.py", "exec"), names)
        if to == "torch":
            kinds = [v for v in names.values() if isinstance(v, type)]
            net = next(k for k in kinds[::-1] if issubclass(k, torch.nn.Module))().double()
            net.load_state_dict(names["renamed"]({k: torch.tensor(v) for k, v in weights.items()}))
            loss = net(torch.tensor(t))[1].detach()
        else:
            put = jax.numpy.asarray if to == "jax" else np.asarray
            named = names.get("renamed", dict)({k: put(v) for k, v in weights.items()})
            loss = names["forward"](t=put(t), **named)[1]
        close(loss, reference(name)["L"])

    return agrees


def spellings(name: str) -> None:
    """Printed in each of the three, it is read back as itself."""
    model = model_of(name)
    for style in STYLES:
        for e in model.equations:
            assert parse(show(e.right, style), model.scope) == e.right


def cost(name: str) -> None:
    assert costs(model_of(name), {"n": 4}).equations


def incremental(name: str) -> None:
    """Row by row: the new rows of y are made of new tokens alone."""
    weights, t = given()
    form = model_of(name).incremental(of="y")
    check_well_formed(form)
    rows = [np.asarray(form.run(t[k : k + 1], weights)["y"]) for k in range(len(t))]
    close(np.concatenate(rows), reference(name)["y"])


MEANINGS: dict[str, Callable[[str], None]] = {
    "torch": arrays(torch.from_numpy), "jax": arrays(jax.numpy.asarray), "exact": exact,
    "interval": interval,
    "derivative": derivative, "code for numpy": exported("numpy"),
    "code for torch": exported("torch"), "code for jax": exported("jax"),
    "spellings": spellings, "cost": cost, "incremental": incremental,
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_every_meaning_has_a_rule(name: str) -> None:
    failed = {}
    for meaning, rule in MEANINGS.items():
        try:
            rule(name)
        except Exception as error:
            failed[meaning] = f"{type(error).__name__}: {error}"[:300]
    assert not failed


def test_every_primitive_has_a_row() -> None:
    nodes = {"table": Table, "pick": Pick, "slice": Slice}
    rows = {*PRIMITIVES, *SIGNS, *nodes, *(f"{b}_k" for b in BINDERS)}
    assert rows <= FORMULAS.keys()
    for name in rows:
        parts = [x for e in model_of(name).equations for x in walk(e.right)]
        assert any(
            isinstance(x, nodes[name]) if name in nodes
            else isinstance(x, Bind) and x.op == name[:-2] if name.endswith("_k")
            else isinstance(x, Apply) and x.op in (name, "cols" if name == "rows" else name)
            for x in parts
        ), name  # fmt: skip


@pytest.mark.parametrize(
    "rules", [{**exact_rules, **COMPARE}, interval_rules], ids=["exact", "interval"]
)
def test_namespaces_have_every_operation_on_entries(rules: Mapping[str, Any]) -> None:
    """What the evaluator does not do itself, with what folds, joins and names values."""
    moved = {"sum", "mean", "argmax", "rows", "cols", "len", "T", "inner", "concat", "pi", "inf"}
    chosen = {"max", "min", "where", "and", "or", "not"}  # by comparing, in exact's namespace
    assert {*PRIMITIVES, *SIGNS} - moved <= rules.keys() | chosen
    assert rules.keys() <= {*PRIMITIVES, *SIGNS}
