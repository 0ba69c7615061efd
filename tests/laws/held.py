"""The laws that hold for a random program, each beside the second reading of `reference.py`.

`held_rewritings.py` adds those of rewritings. `check(law, program)` raises AssertionError where a
law is broken. A refusal (VieteError) of a rewriting is an answer, where the law says which.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from tests.code.watching import watched, with_its_values
from tests.laws.nearness import close, host
from tests.laws.programs import Program
from tests.laws.reference import Reference
from viete.errors import VieteError
from viete.evaluate.plan.engine import Engine
from viete.meanings.run import run
from viete.train.optimiser import Adam
from viete.train.settings import Settings

Law = Callable[[Program], None]
LAWS: dict[str, Law] = {}
SAMPLED: dict[str, Law] = {}  # those that take long, which run for a sample of programs


def law(f: Law) -> Law:
    LAWS[f.__name__.replace("_", " ")] = f
    return f


def sampled(f: Law) -> Law:
    SAMPLED[f.__name__.replace("_", " ")] = f
    return f


def check(name: str, program: Program) -> None:
    """Raises AssertionError if the law does not hold for the program."""
    (LAWS | SAMPLED)[name](program)


def tensors(weights: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {k: torch.tensor(v) for k, v in weights.items()}


@lru_cache(maxsize=8)
def read_by_hand(p: Program) -> Reference:
    return Reference(p.card, p.weights(), p.given())


@law
def a_run_is_as_read_by_hand(p: Program) -> None:
    hand, given = read_by_hand(p), p.given()
    for weights in (p.weights(), tensors(p.weights())):
        made = run(p.card, None, weights, **given)
        for name in made:
            close(made[name], hand.whole(name), name)


# Derivatives --------------------------------------------------------------------------------------


def slope(p: Program, way: Mapping[str, np.ndarray], step: float, *texts: str) -> float:
    """How fast the loss changes on that way, by the second reading and central differences."""
    ends = []
    for sign in (1, -1):
        moved = {k: v + sign * step * way[k] for k, v in p.weights().items()}
        ends.append(float(Reference(p.card, moved, p.given(), texts)[p.loss]))
    return (ends[0] - ends[1]) / (2 * step)


@lru_cache(maxsize=8)
def by_autograd(p: Program) -> dict[str, np.ndarray]:
    """The derivatives by PyTorch, of weights and of real inputs; 0 where nothing depends."""
    weights = {k: v.requires_grad_() for k, v in tensors(p.weights()).items()}
    real = [k for k, v in p.given().items() if v.dtype.kind == "f"]
    given = {k: torch.tensor(v, requires_grad=k in real) for k, v in p.given().items()}
    loss = run(p.card, None, weights, names=[p.loss], **given)[p.loss]
    if loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]
    leaves = weights | {k: given[k] for k in real}
    return {k: host(torch.zeros_like(v) if v.grad is None else v.grad) for k, v in leaves.items()}


def close_gradients(found: Mapping[str, Any], truth: Mapping[str, np.ndarray], what: str) -> None:
    """Gradients of weights: each is measured by its own largest entry, or by that of all."""
    whole = max((float(np.abs(v[np.isfinite(v)]).max(initial=0.0)) for v in truth.values()),
                default=0.0)  # fmt: skip
    for name, true in truth.items():
        if name not in found:
            assert not np.abs(true).max(initial=0.0) > 1e-9 * whole, f"{what}: no ∂{name}"
            continue
        got = host(found[name])
        assert got.shape == true.shape, f"{what}: ∂{name} has shape {got.shape}, not {true.shape}"
        known = np.isfinite(true)  # PyTorch has NaN for the length of a zero
        size = max(float(np.abs(true[known]).max(initial=0.0)), 1e-3 * whole, 1e-6)
        error = float(np.abs(got - true)[known].max(initial=0.0))
        assert error <= 1e-7 * size, f"{what}: ∂{name} is {error / size:.2e} off\n{got}\n{true}"


def made_gradients(p: Program) -> dict[str, Any]:
    """What the backward equations give."""
    real = [k for k, v in p.given().items() if v.dtype.kind == "f"]
    by = [q.name for q in p.card.parameters] + real
    made = run(p.card.grad(p.loss, by), None, p.weights(), **p.given())
    return {k[1:]: made[k] for k in map(str, made) if k.startswith("∂")} | {
        name: made["∂" + name] for name in (*p.weights(), *real) if has(made, "∂" + name)
    }


def has(made: Any, name: str) -> bool:
    try:
        made[name]
    except VieteError:
        return False
    return True


@law
def the_backward_equations_are_the_derivative(p: Program) -> None:
    truth, found = by_autograd(p), made_gradients(p)
    close_gradients(found, truth, "beside autograd")
    rng = np.random.default_rng(p.seed)
    way = {k: rng.choice([-1.0, 1.0], v.shape) for k, v in p.weights().items()}
    along = sum(float((host(found[k]) * way[k]).sum()) for k in way if k in found)
    near, far = slope(p, way, 1e-5), slope(p, way, 2e-5)
    if abs(near - far) < 1e-6 * (1 + abs(near)):  # else there is a kink between
        assert abs(along - near) < 1e-5 * (1 + abs(near)), f"{along} where {near} is measured"


@law
def a_planned_step_has_the_loss_and_its_derivative(p: Program) -> None:
    truth, loss = by_autograd(p), float(read_by_hand(p)[p.loss])
    truth = {k: v for k, v in truth.items() if k in p.weights()}
    for kind, weights in (("NumPy", p.weights()), ("PyTorch", tensors(p.weights()))):
        engine = Engine(p.card, weights, p.loss)
        close(engine(None, **p.given()), loss, f"loss, {kind}")
        close_gradients(engine.gradients, truth, f"planned, {kind}")


# Programs for others ------------------------------------------------------------------------------


def spelled(name: str) -> str:
    return {"ξ": "xi"}.get(name, name)


def exported(p: Program, to: str) -> tuple[dict[str, Any], Callable[[Reference], None]]:
    """The names of an exported program, and a check that all its values are those of the card."""
    target = with_its_values(p.card, to, p.loss)
    names, became = watched(target.text())

    def held(hand: Reference) -> None:
        for e in {e.name: e for e in p.card.equations}.values():
            if e.name in target.body.lowering.inlined:
                continue
            found, want = became[target.body.names.symbol(e.left.symbol)], hand.in_order(e.name)
            assert len(found) == len(want), f"{e.name} is made {len(found)} times, not {len(want)}"
            for got, right in zip(found, want, strict=True):
                close(got, right, e.name)
        became.clear()

    return names, held


def arrays(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Every array with its name; what has one for each block is a dictionary by block."""
    return {f"{name} {block}": value for name, one in tree.items()
            for block, value in (one if isinstance(one, dict) else {"": one}).items()}  # fmt: skip


@law
def the_numpy_script_is_the_card(p: Program) -> None:
    names, held = exported(p, "numpy")
    given = {spelled(k): v for k, v in p.given().items()}
    own = names["renamed"](p.weights()) if "renamed" in names else p.weights()
    taken, backward = (inspect.signature(names[x]).parameters for x in ("forward", "backward"))
    own = {k: v for k, v in own.items() if k in taken}
    out = names["forward"](**{k: v for k, v in given.items() if k in taken}, **own)
    held(read_by_hand(p))
    close(out[1] if isinstance(out, tuple) else out, read_by_hand(p)[p.loss], "loss")
    given = {k: v for k, v in given.items() if k in backward}
    gradients = names["backward"](out[-1], **given, **own)
    truth = {k: v for k, v in by_autograd(p).items() if k in p.weights()}
    truth = arrays(names["renamed"](truth) if "renamed" in names else truth)
    close_gradients(arrays(gradients), truth, "exported backward")


@law
def an_exported_step_is_the_step_of_training(p: Program) -> None:
    """Two steps of Adam, whose ε is above the rounding of gradients that are 0."""
    names, _ = exported(p, "numpy")
    engine = Engine(p.card, p.weights(), p.loss)
    settings = Settings(eps=1e-3)
    adam, state = Adam(engine.flat, (), settings), dict[str, Any]()
    renamed = names.get("renamed", lambda weights: {**weights})
    params, given = renamed(p.weights()), {spelled(k): v for k, v in p.given().items()}
    taken, backward = (inspect.signature(names[x]).parameters for x in ("forward", "backward"))
    for _ in range(2):
        own = {k: v for k, v in params.items() if k in taken}
        kept = names["forward"](**{k: v for k, v in given.items() if k in taken}, **own)[-1]
        there = {k: v for k, v in given.items() if k in backward}
        gradients = names["backward"](kept, **there, **own)
        names["adam"](params, gradients, state, rate=0.01, tiny=1e-3)
        engine(None, **p.given())
        adam(engine.flat_gradient, 0.01)
    moved, wanted = arrays(params), arrays(renamed(engine.weights))
    assert moved.keys() == wanted.keys()
    for name, value in moved.items():
        close(value, wanted[name], name, 1e-12)


@law
def the_module_is_the_card(p: Program) -> None:
    module = p.card.to_torch(p.weights(), p.loss)
    taken = list(inspect.signature(module.forward).parameters)
    for inputs in (p.given(4, 1), p.given()):
        given = {spelled(k): torch.tensor(v) for k, v in inputs.items()}
        out = module(**{k: v for k, v in given.items() if k in taken})
        loss = out[-1] if isinstance(out, tuple) else out
        close(loss, Reference(p.card, p.weights(), inputs)[p.loss], "loss")
    loss.backward()
    slopes = module.gradients()
    found = {k: torch.zeros_like(v) if slopes[k] is None else slopes[k]
             for k, v in module.weights().items()}  # fmt: skip
    truth = by_autograd(p)
    close_gradients(found, {k: v for k, v in truth.items() if k in found}, "module")


@law
def an_exported_module_has_the_values_of_the_card(p: Program) -> None:
    names, held = exported(p, "torch")
    module = names["RandomProgram"]().double()
    module.load_state_dict(names["renamed"](tensors(p.weights())))
    taken = inspect.signature(module.forward).parameters
    given = {spelled(k): torch.tensor(v) for k, v in p.given().items()}
    given = {k: v for k, v in given.items() if k in taken}
    module(**given)
    held(read_by_hand(p))
    module.to("meta")(**{k: v.to("meta") for k, v in given.items()})  # all on one device


@sampled
def the_jax_functions_are_the_card(p: Program) -> None:
    import jax

    names, held = exported(p, "jax")
    with jax.enable_x64(True):
        weights = {k: jax.numpy.asarray(v) for k, v in p.weights().items()}
        weights = names["renamed"](weights) if "renamed" in names else weights
        given = {spelled(k): jax.numpy.asarray(v) for k, v in p.given().items()}
        taken = inspect.signature(names["forward"]).parameters
        there = {k: v for k, v in (given | weights).items() if k in taken}
        out = names["forward"](**there)
        held(read_by_hand(p))
        if isinstance(out, tuple):  # else nothing of it needs targets: all is one output
            close(out[1], read_by_hand(p)[p.loss], "loss")


@sampled
def jax_runs_the_card(p: Program) -> None:
    import jax

    with jax.enable_x64(True):
        weights = {k: jax.numpy.asarray(v) for k, v in p.weights().items()}
        made, hand = run(p.card, None, weights, **p.given()), read_by_hand(p)
        for name in made:
            close(made[name], hand.whole(name), name)


@sampled
def an_enclosure_holds_the_value(p: Program) -> None:
    made = run(p.card, None, p.weights(), meaning="interval", **p.given())
    hand = read_by_hand(p)
    for name in made:
        low, high = np.moveaxis(np.asarray(made[name].tolist(), float), -1, 0)
        want = hand.whole(name)
        assert low.shape == want.shape, f"{name}: shapes {low.shape} and {want.shape}"
        slack = 1e-9 * np.maximum(1.0, np.abs(want))
        inside = ~np.isfinite(want) | ((low - slack <= want) & (want <= high + slack))
        assert inside.all(), f"{name}: {want} is not in [{low}, {high}]"
