"""Hooks replace a value, and what is computed from it follows."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.model.small import card, error, small, streams, tokens, weights
from viete.errors import VieteError
from viete.evaluate.plan import replay

CARDS = streams()


def keep(value: Any, hook: Any) -> Any:
    return value


@pytest.mark.parametrize("name", CARDS)
def test_a_hook_that_changes_nothing_changes_nothing(name: str) -> None:
    model = small(name)
    logits = model.lens(tokens())
    assert (
        error(model.lens.run_with_hooks(tokens(), fwd_hooks=[(lambda n: True, keep)]), logits)
        < 1e-12
    )


@pytest.mark.parametrize("name", CARDS)
def test_no_hook_is_without_effect(name: str) -> None:
    """Whatever name is offered: to change its value changes the logits."""
    model = small(name)
    logits = model.lens(tokens())
    names = [n for n in model.lens.names if "blocks." not in n or "blocks.1." in n]

    def moved(value: Any, hook: Any) -> Any:
        return value + np.cos(np.arange(value.size)).reshape(value.shape)

    with model.lens.hooks([(names, keep)]):  # all lifted out once, and not each anew
        for key in names:
            out = model.lens.run_with_hooks(tokens(), fwd_hooks=[(key, moved)])
            assert error(out, logits) > 1e-6, key


def test_a_sweep_of_hooks_is_recorded_once() -> None:
    """Runs that hook into the same values are one recording, whatever the functions do."""
    model, names = small("gpt2"), ["blocks.0.attn.hook_z", "blocks.1.hook_mlp_out"]
    with (
        patch.object(replay, "Replay", wraps=replay.Replay) as made,
        model.lens.hooks([(names, keep)]),
    ):
        for key in (*names, *names):
            model.lens.run_with_hooks(tokens(3, 5), fwd_hooks=[(key, lambda v, hook: 2 * v)])
    assert made.call_count == 1


def test_as_if_the_weights_were_others() -> None:
    """Without head 2 of block 1: as with its output matrix 0."""
    model = small("gpt2")

    def without(value: Any, hook: Any) -> None:
        assert (hook.name, hook.layer()) == ("blocks.1.attn.hook_z", 1)
        value[:, :, 2] = 0  # in place

    arrays = {k: np.array(v) for k, v in model.weights.items()}
    arrays["W_O^{2,h}"][2] = 0
    wanted = model.card.with_weights(arrays).lens(tokens())
    for key, fn in {("z", 1): without, "blocks.1.attn.hook_z": without}.items():
        assert error(model.lens.run_with_hooks(tokens(), fwd_hooks=[(key, fn)]), wanted) < 1e-12


def test_what_is_computed_before_stays_and_what_comes_after_follows() -> None:
    model = small("llama")
    _, before = model.lens.run_with_cache(tokens())
    with model.lens.hooks([("blocks.1.hook_resid_mid", lambda v, hook: 2 * v)]):
        _, after = model.lens.run_with_cache(tokens())
    changed = {k for k in before if error(after[k], before[k]) > 1e-9}
    names = list(before)
    first = names.index("blocks.1.hook_resid_mid")
    assert changed == set(names[first:])
    assert error(after["resid_mid", 1], 2 * before["resid_mid", 1]) < 1e-12
    # RMSNorm does not see the factor but through ε.
    assert error(after["normalized", 1, "ln2"], before["normalized", 1, "ln2"]) < 1e-4


def test_patching_from_another_run() -> None:
    """The stream of another text put in at one position makes all after it that text's."""
    model, t = small("pythia"), tokens()
    other = t.copy()
    other[:, 0] = (other[:, 0] + 1) % 13
    _, clean = model.lens.run_with_cache(t)

    def patched(value: Any, hook: Any) -> Any:
        value[:, 0] = clean[hook.name][:, 0]
        return value

    everywhere = [(lambda n: n.endswith("hook_resid_pre"), patched)]
    assert error(model.lens.run_with_hooks(other, fwd_hooks=everywhere), model.lens(t)) < 1e-12


def test_hooks_follow_one_another() -> None:
    model = small("gpt2")
    seen: list[float] = []

    def watch(value: Any, hook: Any) -> None:
        seen.append(float(np.sum(value)))

    key = "blocks.0.hook_attn_out"
    model.lens.run_with_hooks(
        tokens(), fwd_hooks=[(key, watch), (key, lambda v, hook: 3 * v), (key, watch)]
    )
    assert seen[1] == pytest.approx(3 * seen[0])


def test_scale_before_normalized_and_scores_before_pattern() -> None:
    """A name sees what hooks on the names before it have done."""
    model = small("gpt2")
    order: list[str] = []
    hooks = [(lambda n: n.startswith("blocks.0."), lambda v, hook: order.append(hook.name))]
    model.lens.run_with_hooks(tokens(), fwd_hooks=hooks)
    names = [n for n in model.lens.names if n.startswith("blocks.0.")]
    assert order == names
    twice = [("blocks.0.ln1.hook_scale", lambda v, hook: 2 * v)]
    with model.lens.hooks(twice):
        _, cache = model.lens.run_with_cache(tokens())
    _, plain = model.lens.run_with_cache(tokens())
    assert error(2 * cache["normalized", 0, "ln1"], plain["normalized", 0, "ln1"]) < 1e-12


def test_added_hooks_stay_until_they_are_reset() -> None:
    model = card("gpt2").with_weights(weights(card("gpt2")))
    logits = model.lens(tokens())
    model.lens.add_hook("blocks.0.mlp.hook_post", lambda v, hook: 0 * v)
    assert error(model.lens(tokens()), logits) > 1e-3
    with model.lens.hooks([("blocks.1.mlp.hook_post", lambda v, hook: 0 * v)]) as same:
        assert same is model.lens
        twice = model.lens(tokens())
    assert error(model.lens(tokens()), twice) > 1e-3
    model.lens.hook_dict["blocks.0.mlp.hook_post"].ctx["seen"] = 1
    model.lens.reset_hooks()
    assert error(model.lens(tokens()), logits) == 0
    assert model.lens.hook_dict["blocks.0.mlp.hook_post"].ctx == {}
    # Permanent ones stay.
    model.lens.add_perma_hook("blocks.0.hook_mlp_out", lambda value, hook: value * 2)
    kept = model.lens(tokens())
    model.lens.hook_dict["blocks.0.mlp.hook_post"].add_hook(lambda value, hook: value * 3)
    assert error(model.lens(tokens()), kept) > 1e-3
    model.lens.reset_hooks(direction="bwd")
    assert error(model.lens(tokens()), kept) > 1e-3
    model.lens.reset_hooks()
    assert error(model.lens(tokens()), kept) == 0
    model.lens.reset_hooks(including_permanent=True)
    assert error(model.lens(tokens()), logits) == 0


@pytest.mark.parametrize("where", ["blocks.0.mlp.hook_post", "blocks.1.attn.hook_attn_scores"])
def test_added_hooks_act_on_every_kind_of_run(where: str) -> None:
    """On a call, on ``run`` with and without a batch, and on what is sampled."""
    model, t = card("gpt2").with_weights(weights(card("gpt2"))), tokens()
    plain, free = model.lens(t), list(model.sample(t[0, :3], most=4, greedy=True))
    seen: list[tuple[int, ...]] = []

    def changed(value: Any, hook: Any) -> Any:
        seen.append(value.shape)
        return np.where(np.isfinite(value), -3 * value, value)

    model.lens.add_hook(where, changed)
    logits = model.lens(t)
    assert error(logits, plain) > 1e-3 and seen.pop()[0] == 2
    assert error(model.run(t)["logits"], logits) < 1e-12
    only = model.run(t[0], names=["logits"])
    assert error(only["logits"], logits[0]) < 1e-12 and seen.pop()[0] == 1
    drawn = list(model.sample(t[0, :3], most=4, greedy=True, count=2))
    text = [*t[0, :3]]
    for both in drawn:
        assert both == (int(np.argmax(model.lens([text])[0, -1])),) * 2
        text.append(both[0])
    assert drawn != [(k, k) for (k,) in free]
    model.lens.reset_hooks()
    assert list(model.sample(t[0, :3], most=4, greedy=True)) == free


def test_hooks_by_the_cards_own_names() -> None:
    model, t = card("gpt2").with_weights(weights(card("gpt2"))), tokens()
    pairs = {"x^1": "blocks.0.hook_resid_post", "resid_post^2": "blocks.1.hook_resid_post",
             "A^{2,h}": "blocks.1.attn.hook_pattern", "logits": "unembed.hook_out"}  # fmt: skip
    for own, field in pairs.items():
        shapes: list[tuple[int, ...]] = []

        def halved(value: Any, hook: Any, shapes: list[tuple[int, ...]] = shapes) -> Any:
            shapes.append(value.shape)
            return value / 2

        wanted = model.lens.run_with_hooks(t, fwd_hooks=[(field, halved)])
        assert error(model.lens.run_with_hooks(t, fwd_hooks=[(own, halved)]), wanted) < 1e-12
        assert shapes[0] == shapes[1]
        with model.lens.hooks([(own, halved)]):
            assert error(model.run(t[0])["logits"], wanted[0]) < 1e-12
    with model.lens.hooks([("x^3", lambda v, hook: 1 / 0)]):  # it comes after what is asked for
        model.lens(t, stop_at_layer=1)
    with pytest.raises(VieteError, match=r"x\^1 is in no block"):
        model.lens.hook_dict["x^1"].layer()


def test_hooks_are_called_whatever_is_asked_for() -> None:
    model = small("gpt2")
    seen: list[str] = []
    hooks = [(lambda n: True, lambda v, hook: seen.append(hook.name))]
    model.lens.run_with_hooks(tokens(), fwd_hooks=hooks, return_type=None)
    assert sorted(seen) == sorted(model.lens.names)
    seen.clear()
    with model.lens.hooks(hooks):
        model.lens.run_with_cache(tokens(), names_filter="hook_embed", return_type=None)
    assert sorted(seen) == sorted(model.lens.names)
    seen.clear()
    model.lens.run_with_hooks(tokens(), fwd_hooks=hooks, stop_at_layer=1)
    early = [n for n in model.lens.names if "blocks.0." in n or n.startswith("hook_")]
    assert sorted(seen) == sorted(early)


def test_hooks_go_when_their_block_raises() -> None:
    model = small("gpt2")

    def broken(value: Any, hook: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        model.lens.run_with_hooks(tokens(), fwd_hooks=[("hook_embed", broken)])
    assert model.lens.list_hooks() == {}


def test_a_context_of_its_own() -> None:
    model = small("gpt2")

    def store(value: Any, hook: Any) -> None:
        hook.ctx["mean"] = float(np.mean(value))

    def use(value: Any, hook: Any) -> Any:
        return 0 * value + hook.ctx["mean"]

    key = "blocks.1.hook_resid_pre"
    model.lens.run_with_hooks(tokens(), fwd_hooks=[(key, store)])
    model.lens.run_with_hooks(tokens(), fwd_hooks=[(key, use)])
    with pytest.raises(VieteError, match="hook_embed is in no block"):
        model.lens.hook_dict["hook_embed"].layer()
    model.lens.reset_hooks()


@pytest.mark.parametrize(
    ("where", "fn", "sentence"),
    [
        ("hook_embed", 3, "a hook must be a function of a value and a hook point, not 3"),
        ("x^1 + x^2", keep, "x^1 + x^2 is not the value of an equation, so nothing can"),
        ("A^{1,2}", keep, "A^{1,2} is a part of A^{1,h}, which is computed as one: name A^{1,h}"),
        ("hook_embedd", keep, "hook_embedd is not a name of a value; there are hook_embed"),
        ("blocks.9.hook_resid_pre", keep, "there is no block 9"),
        ("hook_embed", lambda v, hook: v[:1], "must have its shape (2, 7, 24), not (1, 7, 24)"),
        ("hook_embed", lambda v, hook: 1.0, "must have its shape (2, 7, 24), not 1.0"),
    ],
)
def test_wrong_hooks(where: Any, fn: Any, sentence: str) -> None:
    model = small("gpt2")
    with pytest.raises(VieteError, match=re.escape(sentence)):
        model.lens.run_with_hooks(tokens(), fwd_hooks=[(where, fn)])
    assert model.lens.list_hooks() == {}


def test_on_torch_derivatives_pass_through() -> None:
    torch = pytest.importorskip("torch")
    arrays = {k: torch.as_tensor(v) for k, v in weights(card("gpt2")).items()}
    model = card("gpt2").with_weights(arrays)
    ids = torch.as_tensor(tokens())
    added = torch.zeros(24, dtype=torch.float64, requires_grad=True)
    hooks = [("blocks.0.hook_resid_mid", lambda v, hook: v + added)]
    loss = model.lens.run_with_hooks(ids, fwd_hooks=hooks, return_type="loss")
    loss.backward()
    step = 1e-6
    with torch.no_grad():
        plain = float(model.lens(ids, return_type="loss"))
        hooks = [("blocks.0.hook_resid_mid", lambda v, hook: v + step * added.grad)]
        moved = float(model.lens.run_with_hooks(ids, fwd_hooks=hooks, return_type="loss"))
    assert (moved - plain) / step == pytest.approx(float((added.grad**2).sum()), rel=1e-4)
    assert error(model.lens(ids).detach(), small("gpt2").lens(tokens())) < 1e-12
