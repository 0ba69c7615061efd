"""What notebooks for TransformerLens use besides: patching, gradients, neurons, split inputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import viete as vt
from tests.model.small import card, error, small, tokens, weights
from viete.errors import VieteError
from viete.model import patching, utilities
from viete.model.cache import ActivationCache


def on_torch(name: str) -> vt.Model:
    arrays = {k: torch.as_tensor(v) for k, v in weights(card(name)).items()}
    return card(name).with_weights(arrays)


def metric(logits: Any) -> Any:
    return logits[0, -1, 3] - logits[1, -2, 5]


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "olmo2", "pythia"])
def test_all_that_the_stream_is_the_sum_of(name: str) -> None:
    """Law: heads, neurons, embeddings and biases add up to it, at the end and before each norm."""
    model = small(name)
    _, cache = model.lens.run_with_cache(tokens())
    for layer in range(1, model.lens.cfg.n_layers + 1):
        last = layer == model.lens.cfg.n_layers
        stream = cache["resid_post", -1] if last else cache["resid_pre", layer]
        for expand in (True, False):
            parts, labels = cache.get_full_resid_decomposition(
                layer, expand_neurons=expand, return_labels=True
            )
            assert len(parts) == len(labels) == len(set(labels))
            assert error(parts.sum(0), stream) < 1e-12
    onto = np.random.default_rng(0).standard_normal((model.lens.cfg.d_model, 2))
    for given in ({}, {"layer": 1}, {"layer": 1, "mlp_input": name == "gpt2"}):
        for ln in (False, True):
            parts = cache.get_full_resid_decomposition(pos_slice=-1, apply_ln=ln, **given)
            for p in (onto, onto[:, 0]):
                there = cache.get_full_resid_decomposition(
                    pos_slice=-1, apply_ln=ln, project_output_onto=p, **given
                )
                assert error(there, parts @ p) < 1e-11


def test_neurons_add_up_to_their_layer() -> None:
    model = small("llama")
    _, cache = model.lens.run_with_cache(tokens())
    each = cache.get_neuron_results(1)
    assert error(each.sum(-2), cache["mlp_out", 1]) < 1e-12
    some, labels = cache.stack_neuron_results(
        2, pos_slice=-1, neuron_slice=(3, 5), return_labels=True, incl_remainder=True
    )
    assert labels == ["L0N3", "L0N4", "L1N3", "L1N4", "remainder"]
    assert error(some[3], each[:, -1, 4]) < 1e-12
    assert error(some.sum(0), cache["resid_pre", 2][:, -1]) < 1e-12


@pytest.mark.parametrize("name", ["gpt2", "pythia", "gemma2", "olmo2"])
def test_inputs_of_queries_keys_and_values(name: str) -> None:
    """Law: what a head makes of its own input, it makes of a stream that is the same."""
    model, key = small(name), "blocks.1.hook_q_input"
    _, cache = model.lens.run_with_cache(tokens(), names_filter=[key, ("resid_pre", 1), ("q", 1)])
    assert all(error(cache[key][:, :, h], cache["resid_pre", 1]) == 0 for h in range(6))

    def one_head(value: Any, hook: Any) -> None:
        value[:, :, 2] *= value[:, :, 2]

    with model.lens.hooks([(key, one_head)]):
        _, changed = model.lens.run_with_cache(tokens(), names_filter=[("q", 1), ("k", 1)])
    with model.lens.hooks([(("resid_pre", 1), lambda value, hook: value * value)]):
        _, other = model.lens.run_with_cache(tokens(), names_filter=[("q", 1)])
    assert error(changed["q", 1][:, :, 2], other["q", 1][:, :, 2]) < 1e-12
    assert error(changed["q", 1][:, :, 3], cache["q", 1][:, :, 3]) < 1e-12


def test_split_inputs_have_norms_of_their_own() -> None:
    model = card("gpt2").with_weights(weights(card("gpt2")))
    both = [(("q_input", 1), lambda v, hook: v), (("scale", 1, "ln1"), lambda v, hook: v)]
    with pytest.raises(VieteError, match="and none of them reads"):
        model.lens.run_with_hooks(tokens(), fwd_hooks=both)
    assert "blocks.0.hook_q_input" not in list(model.lens.names)
    model.lens.set_use_split_qkv_input(True)
    _, cache = model.lens.run_with_cache(tokens())
    assert cache["k_input", 2].shape == (2, 7, 6, 24) and cache["mlp_in", 0].shape == (2, 7, 24)


@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_gradients_that_hooks_see_are_those_of_autograd(name: str) -> None:
    """The derivative of a shift of the value, by finite differences, at every value."""
    model, ids = on_torch(name), torch.as_tensor(tokens())
    seen: dict[str, Any] = {}
    back = [(lambda n: "blocks.1." in n, lambda g, hook: seen.update({hook.name: g}))]
    metric(model.lens.run_with_hooks(ids, bwd_hooks=back)).backward()
    plain = small(name)
    for key in list(seen)[::3]:
        if key.endswith("attn_scores"):
            continue  # where they are masked nothing can be moved
        rng = np.random.default_rng(1)
        way = rng.standard_normal(tuple(seen[key].shape))

        def at(step: float, key: str = key, way: Any = way) -> float:
            hooks = [(list(seen), lambda v, hook: v), (key, lambda v, hook: v + step * way)]
            return float(metric(plain.lens.run_with_hooks(tokens(), fwd_hooks=hooks)))

        slope = (at(1e-6) - at(-1e-6)) / 2e-6
        assert abs(slope - float((seen[key].numpy() * way).sum())) < 1e-5 * max(1, abs(slope)), key


def test_a_cache_of_gradients() -> None:
    model, ids = on_torch("gpt2"), torch.as_tensor(tokens())
    gradients: dict[str, Any] = {}
    model.lens.add_hook(lambda n: True, lambda g, hook: gradients.update({hook.name: g}), "bwd")
    model.lens(ids, return_type="loss").backward()
    model.lens.reset_hooks()
    cache = ActivationCache(gradients, model.lens)
    stacked = cache.accumulated_resid(-1, incl_mid=True)
    assert (
        stacked.shape == (7, 2, 7, 24)
        and error(stacked[2], gradients["blocks.1.hook_resid_pre"]) == 0
    )
    _, both = model.lens.run_with_cache(ids, return_type="loss", incl_bwd=True)
    assert error(both["blocks.1.attn.hook_z_grad"], cache["z", 1]) < 1e-12
    assert both["z", 1].shape == (2, 7, 6, 4)
    with pytest.raises(VieteError, match="has no run to compute it"):
        cache["Q^{1,h}"]
    with pytest.raises(VieteError, match='framework="torch"'):
        small("gpt2").lens.run_with_hooks(tokens(), bwd_hooks=[(("z", 1), lambda g, hook: None)])


@pytest.mark.parametrize("name", ["gpt2", "pythia", "gemma2", "mixtral", "bloom"])
def test_started_at_a_block(name: str) -> None:
    """Law: to go on from the stream of a block gives what the whole run gives."""
    model = small(name)
    for layer in (0, 2):
        stream = model.lens(tokens(), stop_at_layer=layer)
        assert error(model.lens(stream, start_at_layer=layer), model.lens(tokens())) < 1e-12
    seen: list[str] = []
    hooks = [(lambda n: True, lambda v, hook: seen.append(hook.name))]
    model.lens.run_with_hooks(
        model.lens(tokens(), stop_at_layer=2), fwd_hooks=hooks, start_at_layer=2
    )
    assert not any(n.startswith(("blocks.0.", "blocks.1.", "hook_")) for n in seen) and seen


def test_patching_is_the_loop_that_one_would_write() -> None:
    model = small("llama")  # with grouped queries
    clean, other = tokens(2, 4), (tokens(2, 4) + 1) % 13
    _, cache = model.lens.run_with_cache(clean)
    found = patching.get_act_patch_attn_head_by_pos_every(model.lens, other, cache, metric)
    assert found.shape == (5, 3, 4, 6) and (found[2, :, :, 2:] == 0).all()
    axes = {"z": (0, "bph"), "q": (1, "bph"), "v": (3, "bph"), "pattern": (4, "bhp")}
    for name, (row, order) in axes.items():
        for layer, pos, head in ((0, 1, 1), (2, 3, 0)):
            place = tuple({"b": slice(None), "p": pos, "h": head}[a] for a in order)

            def mended(v: Any, hook: Any, place: Any = place) -> None:
                v[place] = cache[hook.name][place]

            out = model.lens.run_with_hooks(other, fwd_hooks=[((name, layer), mended)])
            assert found[row, layer, pos, head] == pytest.approx(metric(out), abs=1e-12)
    whole = patching.get_act_patch_resid_pre(model.lens, clean, cache, metric)
    assert error(whole, np.full((3, 4), metric(model.lens(clean)))) < 1e-12
    some, rows = patching.generic_activation_patch(
        model.lens, other, cache, metric, lambda v, index, clean: clean, "resid_pre",
        index_df=[(0,), (2,)], return_index_df=True,
    )  # fmt: skip
    assert rows == [(0,), (2,)] and error(some, np.full(2, metric(model.lens(clean)))) < 1e-12
    with pytest.raises(VieteError, match="is not an axis"):
        patching.generic_activation_patch(
            model.lens, other, cache, metric, max, "z", ("layer", "neuron")
        )


def test_composition_scores_by_hand() -> None:
    model = small("gpt2")
    scores = model.lens.all_composition_scores("K")
    assert scores.shape == (3, 6, 3, 6) and (scores[1:, :, :2] == 0).sum() >= 2 * 36
    left = model.lens.W_V[0, 2] @ model.lens.W_O[0, 2]
    right = (model.lens.W_Q[2, 5] @ model.lens.W_K[2, 5].T).T
    norm = np.linalg.norm
    wanted = norm(left @ right) / norm(left) / norm(right)
    assert scores[0, 2, 2, 5] == pytest.approx(wanted)
    assert model.lens.all_head_labels()[7] == "L1H1"


def test_loss_of_logits() -> None:
    model = small("pythia")
    for options in ({}, {"loss_per_token": True}):
        wanted = model.lens(tokens(), return_type="loss", **options)
        found = model.lens.loss_fn(model.lens(tokens()), tokens(), per_token=bool(options))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    mask = np.ones((2, 7), int)
    mask[:, 4:] = 0
    short = model.lens.loss_fn(model.lens(tokens()), tokens(), mask)
    assert short == pytest.approx(model.lens(tokens()[:, :4], return_type="loss"), rel=1e-9)


def test_parts_of_a_model() -> None:
    model = card("gpt2").with_weights(weights(card("gpt2")))
    named = dict(model.lens.named_parameters())
    assert error(named["blocks.2.attn.W_O"], model.lens.blocks[2].attn.W_O) == 0
    assert error(model.lens.embed.W_E, named["embed.W_E"]) == 0 and "unembed.b_U" in named
    before = model.lens(tokens())
    model.lens.blocks[1].attn.hook_z.add_hook(lambda z, hook: 0 * z)
    without = model.lens.run_with_hooks(tokens(), fwd_hooks=[(("z", 1), lambda z, hook: 0 * z)])
    assert error(model.lens(tokens()), without) == 0 and error(before, without) > 1e-3
    model.lens.reset_hooks()
    assert error(model.lens.forward(tokens()), before) == 0
    zero = [(("z", 1), lambda z, hook: 0 * z)]
    model.lens.run_with_hooks(tokens(), fwd_hooks=zero, reset_hooks_end=False)
    assert error(model.lens(tokens()), without) == 0
    with pytest.raises(AttributeError, match=re.escape("a block has no attn.hook_nothing")):
        _ = model.lens.blocks[1].attn.hook_nothing


def test_ids_and_arrays() -> None:
    model = small("gpt2")
    out = model.lens.generate(tokens(2, 3), max_new_tokens=4, do_sample=False)
    for row in out:
        assert [t for (t,) in model.sample(row[:3], most=4, greedy=True)] == list(row[3:])
    half = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    assert utilities.to_numpy(half).tolist() == utilities.to_numpy([1.0, 1]).tolist()
    assert utilities.get_corner(out, 2).shape == (2, 2)
    assert str(utilities.get_device()) in ("cpu", "cuda", "mps")


def test_a_prompt_and_its_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from tests.model.test_tokens import PAIRS, PLAIN
    from tests.model.test_tokens import model as written

    files = {"tokenizer.json": PAIRS.dumps(), "tokenizer_config.json": PLAIN}
    model = vt.load(written(tmp_path, files))
    utilities.test_prompt("the cat", "sat", model.lens, top_k=2)
    shown = capsys.readouterr().out
    assert "Top 1th token" in shown and "Ranks of the answer tokens: [(' sat', " in shown
    text = model.lens.generate("the cat", max_new_tokens=2, seed=1)
    assert isinstance(text, str) and text.startswith("the cat")
