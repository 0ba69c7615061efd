"""Hook points own their hooks, and call them as modules of PyTorch do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.small import card, error, small, tokens, weights
from viete.errors import VieteError
from viete.model import utilities
from viete.model.hook_points import HookPoint

Log = list[tuple[str, int, float]]
KINDS: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "watches": lambda v, k: None,
    "replaces": lambda v, k: v * (1 + k) + k,
}


@st.composite
def registrations(draw: st.DrawFn) -> list[tuple[str, str, bool, bool]]:
    """Hooks in any order: direction, what it does, whether it goes first, whether it stays."""
    one = st.tuples(st.sampled_from(["fwd", "bwd"]), st.sampled_from(["watches", "replaces"]),
                    st.booleans(), st.booleans())  # fmt: skip
    return draw(st.lists(one, min_size=1, max_size=6))


def called(value: torch.Tensor, log: Log, dir: str, kind: str, k: int) -> Any:
    log.append((dir, k, value.sum().item()))
    return KINDS[kind](value, k)


@settings(max_examples=30)
@given(registrations(), st.sampled_from([None, "fwd", "bwd", "both"]))
def test_hooks_act_as_those_of_a_module(hooks: Any, removed: str | None) -> None:
    """Law: values, gradients and the order of calls are those of `torch.nn.Module`."""
    point, module = HookPoint("here"), torch.nn.Identity()
    logs: tuple[Log, Log] = ([], [])
    handles = []
    for k, (dir, kind, prepend, stays) in enumerate(hooks):

        def ours(v: Any, hook: Any, dir: str = dir, kind: str = kind, k: int = k) -> Any:
            return called(v, logs[0], dir, kind, k)

        def forward(m: Any, i: Any, out: Any, kind: str = kind, k: int = k) -> Any:
            return called(out, logs[1], "fwd", kind, k)

        def back(m: Any, i: Any, out: Any, kind: str = kind, k: int = k) -> Any:
            found = called(out[0], logs[1], "bwd", kind, k)
            return None if found is None else (found,)

        point.add_hook(ours, dir, is_permanent=stays, prepend=prepend)
        if dir == "fwd":
            handle = module.register_forward_hook(forward, prepend=prepend)
        else:
            handle = module.register_full_backward_hook(back, prepend=prepend)
        handles.append((dir, stays, handle))
    if removed is not None:
        point.remove_hooks(removed)
    for dir, stays, handle in handles:
        if not stays and removed in (dir, "both"):
            handle.remove()
    found = []
    for job in (point, module):
        x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
        y = job(x * 3)
        (y**2).sum().backward()
        found += [y.detach(), x.grad]
    assert torch.equal(found[0], found[2]) and torch.equal(found[1], found[3])
    assert logs[0] == logs[1]


def test_a_point_counts_and_removes_its_hooks() -> None:
    point = HookPoint("blocks.3.hook_mlp_out")
    point.add_hook(lambda v, hook: v)
    point.add_hook(lambda v, hook: v, "bwd", level=2)
    point.add_perma_hook(lambda v, hook: v)
    assert [h.is_permanent for h in point.fwd_hooks] == [False, True]
    assert point.bwd_hooks[0].context_level == 2 and point.layer() == 3
    assert point.has_hooks("bwd", level=2) and not point.has_hooks("fwd", level=2)
    point.remove_hooks("both")
    assert [len(point.fwd_hooks), len(point.bwd_hooks)] == [1, 0]
    assert point.has_hooks() and not point.has_hooks(including_permanent=False)
    point.remove_hooks("both", including_permanent=True)
    assert not point.has_hooks()
    for job in (point.has_hooks, point.remove_hooks):
        with pytest.raises(VieteError, match="direction must be 'fwd', 'bwd' or 'both'"):
            job("sideways")
    with pytest.raises(VieteError, match="dir must be 'fwd' or 'bwd', not 'both'"):
        point.add_hook(lambda v, hook: v, "both")


def test_hooks_of_nested_blocks_go_with_their_block() -> None:
    lens = card("gpt2").with_weights(weights(card("gpt2"))).lens
    seen: list[str] = []

    def hook(word: str) -> Any:
        return [("hook_embed", lambda v, hook: seen.append(word))]

    point = lens.hook_dict["hook_embed"]
    with lens.hooks(hook("outer")):
        with lens.hooks(hook("inner")):
            lens(tokens())
            assert len(point.fwd_hooks) == 2
        lens.add_hook(*hook("added")[0], prepend=True)
        lens(tokens())
        with pytest.raises(ZeroDivisionError), lens.hooks([("hook_embed", lambda v, hook: 1 / 0)]):
            lens(tokens())
        assert len(point.fwd_hooks) == 2
    assert seen == ["outer", "inner", "added", "outer", "added", "outer"]
    assert list(lens.list_hooks()) == ["hook_embed"] and len(point.fwd_hooks) == 1
    lens.remove_all_hook_fns()
    assert lens.list_hooks() == {} and lens.hook_dict["hook_embed"] is point


def test_hooks_of_one_value_are_called_in_the_order_of_their_names() -> None:
    """The stream that a block leaves is the stream that the next one reads."""
    lens, seen = card("gpt2").with_weights(weights(card("gpt2"))).lens, []
    names = ["blocks.1.hook_resid_pre", "blocks.0.hook_resid_post"]
    for name in names:
        lens.add_hook(name, lambda v, hook: seen.append(hook.name))
    lens(tokens())
    assert seen == names[::-1]


def test_hooks_stay_when_a_model_is_moved() -> None:
    arrays = {k: torch.as_tensor(v) for k, v in weights(card("gpt2")).items()}
    model = card("gpt2").with_weights(arrays)
    before = model.lens(tokens())
    model.lens.add_hook("blocks.0.hook_mlp_out", lambda v, hook: 2 * v)
    hooked = model.lens(tokens())
    assert model.to(torch.float32) is model and model.lens.cfg.dtype == torch.float32
    assert model.lens.W_Q.dtype == torch.float32 == model.lens(tokens()).dtype
    assert error(model.lens(tokens()), hooked) < 1e-5 < error(model.lens(tokens()), before)
    assert error(model.run(tokens())["logits"], hooked) < 1e-5
    model.lens.reset_hooks()
    assert error(model.lens(tokens()), before) < 1e-5


def test_a_model_has_no_name_of_transformer_lens() -> None:
    """They stand behind one property, and what a card's rewriting gives has a lens of its own."""
    model = small("gpt2")
    own = {n for n in dir(type(model)) if not n.startswith("_")}
    theirs = {n for n in dir(type(model.lens)) if not n.startswith("_")}
    assert own & theirs == {"to", "tokenizer", "weights"}
    assert model.lens.tokenizer is None and model.lens.card is model.card
    with pytest.raises(TypeError):
        model(tokens())  # type: ignore[operator]
    assert model.put("m^1 = 0").lens.model is not model


def test_parameters_and_the_first_stream() -> None:
    lens = small("gpt2").lens
    assert lens.n_params_total == sum(w.size for w in lens.weights.values())
    stream, ids, third, mask = lens.input_to_embed(tokens())
    assert third is mask is None and error(ids, tokens()) == 0
    assert error(stream, lens(tokens(), stop_at_layer=0)) == 0
    assert error(lens(stream, start_at_layer=0), lens(tokens())) < 1e-12


@pytest.mark.parametrize("pos", [-1, 0, (2, 5), (None, None, 2), [0, 3]])
def test_a_cache_of_some_positions(pos: Any) -> None:
    """Law: it has these rows of every value; of a pattern, the rows of those that attend."""
    lens = small("llama").lens
    _, whole = lens.run_with_cache(tokens())
    _, some = lens.run_with_cache(tokens(), pos_slice=pos)
    at = utilities.Slice([pos] if isinstance(pos, int) else pos)
    assert list(some) == list(whole)
    for key in whole:
        axes = lens.names.get(lens.names.split(key)[0]).row.axes
        along = 1 + axes.index("query" if "query" in axes else "pos")
        assert error(some[key], at.apply(whole[key], along)) == 0, key
    kept, there, _ = lens.get_caching_hooks(("pattern", 1), pos_slice=pos)
    lens.run_with_hooks(tokens(), fwd_hooks=there, return_type=None)
    assert error(kept["blocks.1.attn.hook_pattern"], some["pattern", 1]) == 0


def test_slices() -> None:
    x = torch.arange(12).reshape(3, 4)
    cases: list[tuple[Any, Any, list[int]]] = [
        (1, x[:, 1], [1]), ((1, 3), x[:, 1:3], [1, 2]), ((3,), x[:, :3], [0, 1, 2]),
        ([3, 0], x[:, [3, 0]], [3, 0]), (None, x, [0, 1, 2, 3]),
        (slice(0, 4, 2), x[:, ::2], [0, 2]),
        (torch.tensor([True, False, False, True]), x[:, [0, 3]], [0, 3]),
    ]  # fmt: skip
    for where, wanted, places in cases:
        found = utilities.Slice(where)
        assert torch.equal(found.apply(x, dim=1), wanted)
        assert found.indices(4).tolist() == places
    for wrong in ("1:3", 1.5):
        with pytest.raises(VieteError, match="a slice is a number, a tuple such as"):
            utilities.Slice(wrong)
    with pytest.raises(VieteError, match="give max_ctx"):
        utilities.Slice((1, 3)).indices()
    with pytest.raises(VieteError, match="hook_nothing"):
        small("gpt2").lens.run_with_cache(tokens(), names_filter="hook_nothing", pos_slice=1)
