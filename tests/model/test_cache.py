"""The cache of a run, and what is made of it: sums that must come out, and `transformers`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.model.small import card, error, small, streams, tokens, weights
from viete.errors import VieteError
from viete.evaluate.schedule import program
from viete.model.cache import ActivationCache

CARDS = streams()


# -- what is run -----------------------------------------------------------------------------------


def test_returns() -> None:
    model, t = small("gpt2"), tokens()
    logits = model.lens(t)
    assert error(logits, model.card.run(t, model.weights)["logits"]) == 0
    top = logits - logits.max(-1, keepdims=True)
    logp = top - np.log(np.exp(top).sum(-1, keepdims=True))
    wanted = -np.take_along_axis(logp[:, :-1], t[:, 1:, None], -1)[..., 0]
    assert error(model.lens(t, return_type="loss", loss_per_token=True), wanted) < 1e-12
    assert float(model.lens(t, return_type="loss")) == pytest.approx(wanted.mean())
    both = model.lens(t, return_type="both")
    assert error(both[0], logits) == 0 and float(both[1]) == pytest.approx(wanted.mean())
    assert model.lens(t, return_type=None) is None
    assert (
        error(model.lens(t[0]), logits[:1]) < 1e-12
        and error(model.lens(t[0].tolist()), logits[:1]) < 1e-12
    )


@pytest.mark.parametrize("name", CARDS)
def test_stopping_gives_the_stream(name: str) -> None:
    model, t = small(name), tokens()
    _, cache = model.lens.run_with_cache(t)
    for k in range(3):
        assert error(model.lens(t, stop_at_layer=k), cache["resid_pre", k]) < 1e-12
    assert error(model.lens(t, stop_at_layer=3), cache["resid_post", -1]) < 1e-12
    assert error(model.lens(t, stop_at_layer=-1), cache["resid_pre", 2]) < 1e-12
    stream, part = model.lens.run_with_cache(t, stop_at_layer=1)
    assert error(stream, cache["resid_pre", 1]) < 1e-12
    assert [n for n in part if "blocks." in n] == [n for n in cache if "blocks.0." in n]
    assert not any(n.startswith(("ln_final", "unembed")) for n in part)
    # Blocks and their parts are functions, which compose to the same stream.
    block, names = model.lens.blocks[1], model.lens.names
    before, after = cache["resid_pre", 1], cache["resid_post", 1]
    assert error(block(before), after) < 1e-12
    if "blocks.1.ln1.hook_scale" in names:
        added = block.attn(block.ln1(before))
        added = block.ln1_post(added) if "blocks.1.ln1_post.hook_scale" in names else added
        assert error(added, cache["attn_out", 1]) < 1e-12
    if "blocks.1.ln2.hook_scale" in names:
        middle = "resid_mid" if "blocks.1.hook_resid_mid" in names else "resid_pre"
        added = block.mlp(block.ln2(cache[middle, 1]))
        added = block.ln2_post(added) if "blocks.1.ln2_post.hook_scale" in names else added
        assert error(added, cache["mlp_out", 1]) < 1e-12
    assert error(model.lens.embed(t), cache["hook_embed"]) == 0
    if (gain := model.lens.state_dict().get("blocks.1.ln1.w")) is not None:
        assert error(block.ln1.w, gain) == 0 and gain.shape == after.shape[-1:]


def test_only_what_is_asked_is_kept_or_computed() -> None:
    model, t = small("gpt2"), tokens()
    out, cache = model.lens.run_with_cache(
        t, names_filter="blocks.1.attn.hook_pattern", return_type=None
    )
    assert out is None and list(cache) == ["blocks.1.attn.hook_pattern"]
    computed = {e.name for e in cache.run.program.model.equations}
    assert {k for k, _ in cache.run.store} & computed == {"A^{i,h}"}
    with pytest.raises(VieteError, match="hook_embed is not in this cache: it was not requested"):
        cache["embed"]


def test_filters() -> None:
    model, t = small("gpt2"), tokens()
    _, everything = model.lens.run_with_cache(t)
    for keep, names in {
        ("q", 1): ["blocks.1.attn.hook_q"],
        lambda n: n.endswith("hook_z"): [f"blocks.{k}.attn.hook_z" for k in range(3)],
    }.items():
        _, cache = model.lens.run_with_cache(t, names_filter=[keep])  # type: ignore[list-item]
        assert list(cache) == names
        assert all(error(cache[n], everything[n]) < 1e-12 for n in names)
    _, cache = model.lens.run_with_cache(
        t, names_filter=["hook_embed", "Q^{1,h} (K^{1,h})^T", "x^2"]
    )
    assert set(cache) == {"hook_embed", "Q^{1,h} (K^{1,h})^T", "x^2"}
    assert error(cache["Q^{1,h} (K^{1,h})^T"], everything["Q^{1,h} (K^{1,h})^T"]) < 1e-12
    assert "x^2" in cache and "x^1" not in cache and "hook_pos_embed" not in cache
    assert "y^1" in everything and "foo" not in everything


def test_the_card_is_run_as_it_is() -> None:
    """Without hooks, a run that keeps everything is that of the card itself."""
    model = small("gpt2")
    _, cache = model.lens.run_with_cache(tokens())
    assert cache.run.program is program(model.card)


def test_a_cache_without_its_batch_axis() -> None:
    model = small("gpt2")
    _, cache = model.lens.run_with_cache(tokens(1), remove_batch_dim=True)
    assert cache["q", 0].shape == (7, 6, 4) and cache.decompose_resid().shape == (8, 7, 24)
    assert cache.logit_attrs(cache.decompose_resid(), 3, has_batch_dim=False).shape == (8, 7)
    shapes = {name: cache.cache_dict[name].shape for name in cache}
    assert cache.remove_batch_dim() is cache and cache["W_E"].shape == (13, 24)
    assert {name: value.shape for name, value in cache.items()} == shapes
    with pytest.raises(VieteError, match="no batch axis to cut"):
        cache.apply_slice_to_batch_dim(0)
    _, cache = model.lens.run_with_cache(tokens(2))
    with pytest.raises(VieteError, match="holds 2 sequences"):
        cache.remove_batch_dim()


@pytest.mark.parametrize("pos", [None, (2, 5)])
def test_a_cache_of_some_texts(pos: Any) -> None:
    """Law: its values are those rows of the values, whatever was cut before, and so its stacks."""
    _, cache = small("gpt2").lens.run_with_cache(tokens(4), pos_slice=pos)
    arrays = ActivationCache(dict(cache), cache.model)
    for which, again in (((1, 4), [2, 0]), ([3, 1], 0), (2, None)):
        for whole in (cache, arrays):
            some = whole.apply_slice_to_batch_dim(which)
            at = slice(*which) if isinstance(which, tuple) else which
            assert all(error(some[name], cache[name][at]) == 0 for name in cache)
            assert some.has_batch_dim == (which != 2)
            if again is None:
                assert some.decompose_resid().shape == cache.decompose_resid()[:, 2].shape
                continue
            fewer = some.apply_slice_to_batch_dim(again)
            assert all(error(fewer[name], cache[name][at][again]) == 0 for name in cache)
            assert (
                error(
                    fewer.stack_head_results(apply_ln=True, pos_slice=-1),
                    cache.stack_head_results(apply_ln=True, pos_slice=-1)[:, at][:, again],
                )
                == 0
            )
    assert cache.apply_slice_to_batch_dim([2]).batch() == 1 == len(
        cache.apply_slice_to_batch_dim([2])["x^1"])  # fmt: skip


def test_before_the_first_block_the_rest_is_all() -> None:
    _, cache = small("gpt2").lens.run_with_cache(tokens())
    for stacked in (cache.stack_head_results, cache.stack_neuron_results):
        assert stacked(0).shape == (0, 2, 7, 24)
        rest, labels = stacked(0, incl_remainder=True, return_labels=True)
        assert labels == ["remainder"] and error(rest[0], cache["resid_pre", 0]) == 0


# -- stacks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CARDS)
def test_the_stream_is_the_sum_of_what_was_added(name: str) -> None:
    model, t = small(name), tokens()
    _, cache = model.lens.run_with_cache(t)
    for layer in (0, 1, None):
        parts, labels = cache.decompose_resid(layer, return_labels=True)
        stream = cache["resid_pre", layer] if layer is not None else cache["resid_post", -1]
        assert len(labels) == len(parts) and error(parts.sum(0), stream) < 1e-12
    heads, labels = cache.stack_head_results(return_labels=True, incl_remainder=True)
    assert labels[:7] == [*(f"L0H{h}" for h in range(6)), "L1H0"] and labels[-1] == "remainder"
    assert error(heads.sum(0), cache["resid_post", -1]) < 1e-11


@pytest.mark.parametrize("name", CARDS)
def test_heads_add_up_to_what_attention_adds(name: str) -> None:
    """All but a bias: the difference is the same at every position of every text."""
    _, cache = small(name).lens.run_with_cache(tokens())
    heads = cache.stack_head_results(layer=1)
    rest = cache["attn_out", 0] - heads.sum(0)
    scale = np.abs(cache["attn_out", 0]).max()
    assert np.ptp(rest, axis=(0, 1)).max() < 1e-12 * scale
    if name in ("gemma2", "olmo2"):  # with a norm of the sum in between
        assert "blocks.0.ln1_post.hook_scale" in cache and np.abs(rest).max() < 1e-12 * scale


@pytest.mark.parametrize("name", CARDS)
def test_logits_are_the_sum_of_what_each_part_adds(name: str) -> None:
    """Up to the constants: β through the unembedding, and its own bias. No caps come after."""
    model, t = small(name), tokens()
    if name == "gemma2":
        pytest.skip("its logits are capped")
    logits, cache = model.lens.run_with_cache(t)
    parts = cache.decompose_resid()
    answers, wrong = np.roll(t, 1, 1), (t + 1) % 13
    constant = model.lens.unembed(model.lens.ln_final(np.zeros(24)))  # LN(0) = β
    wanted = np.take_along_axis(logits - constant, answers[..., None], -1)[..., 0]
    assert error(cache.logit_attrs(parts, answers).sum(0), wanted) < 1e-10
    wanted -= np.take_along_axis(logits - constant, wrong[..., None], -1)[..., 0]
    assert error(cache.logit_attrs(parts, answers, wrong).sum(0), wanted) < 1e-10


@pytest.mark.parametrize("name", ["gpt2", "pythia", "llama", "gemma"])
def test_norms_of_terms_add_up_to_the_norm(name: str) -> None:
    """All but β: what a block's norm makes is the sum of what the terms contribute."""
    model, t = small(name), tokens()
    _, cache = model.lens.run_with_cache(t)
    parts = cache.decompose_resid(1, apply_ln=True)
    shift = model.weights.get("beta_A^2", 0)
    u = model.card.run(t, model.weights)["u^2"]
    assert error(parts.sum(0) + shift, u) < 1e-11
    middle = cache.decompose_resid(2, mlp_input=name != "pythia", apply_ln=False)
    scaled = cache.apply_ln_to_stack(middle, 2, mlp_input=True)
    shift = model.weights.get("beta_M^3", 0)
    v = model.card.run(t, model.weights)["v^3"]
    assert error(scaled.sum(0) + shift, v) < 1e-11


def test_the_logit_lens() -> None:
    model, t = small("gpt2"), tokens()
    logits, cache = model.lens.run_with_cache(t)
    streams, labels = cache.accumulated_resid(apply_ln=True, return_labels=True)
    assert labels == ["0_pre", "1_pre", "2_pre", "final_post"]
    assert error(model.lens.unembed(streams[-1]), logits) < 1e-12
    early = model.card.run(t, model.weights)["LN(x^1; gamma, beta, epsilon) W_E^T"]
    assert error(model.lens.unembed(streams[1]), early) < 1e-12
    _, labels = cache.accumulated_resid(1, incl_mid=True, mlp_input=True, return_labels=True)
    assert labels == ["0_pre", "0_mid", "1_pre", "1_mid"]
    assert error(model.lens.unembed(model.lens.ln_final(cache["resid_post", -1])), logits) < 1e-12


def test_slices() -> None:
    model, t = small("gpt2"), tokens()
    _, cache = model.lens.run_with_cache(t)
    full = cache.decompose_resid(apply_ln=True)
    assert error(cache.decompose_resid(apply_ln=True, pos_slice=-1), full[:, :, -1]) == 0
    assert error(cache.decompose_resid(apply_ln=True, pos_slice=(1, 4)), full[:, :, 1:4]) == 0
    assert error(cache.decompose_resid(apply_ln=True, pos_slice=[0, 2]), full[:, :, [0, 2]]) == 0
    parts = cache.decompose_resid()
    assert error(cache.apply_ln_to_stack(parts, batch_slice=1), full[:, 1]) == 0
    assert cache.stack_activation("pattern", 2).shape == (2, 2, 6, 7, 7)
    assert cache.stack_activation("scale", sublayer_type="ln1").shape == (3, 2, 7, 1)


def test_one_text_of_a_batch_has_the_scale_of_that_text() -> None:
    """Law: to cut the batch from a stack before or after its norm is the same."""
    _, cache = small("gpt2").lens.run_with_cache(tokens())
    parts = cache.decompose_resid()
    for pos in (None, -1, (2, 5), [0, 3]):
        some = cache.decompose_resid(pos_slice=pos)
        for k in (0, 1, -1, (0, 1), [1]):
            whole = cache.logit_attrs(some, 3, 4, pos_slice=pos)
            at = slice(*k) if isinstance(k, tuple) else k
            cut = cache.logit_attrs(some, 3, 4, pos_slice=pos, batch_slice=k)
            given = some[:, at]
            alone = cache.logit_attrs(
                given, 3, 4, pos_slice=pos, batch_slice=k, has_batch_dim=False
            )
            assert error(cut, whole[:, at]) == 0 == error(alone, whole[:, at])
    assert error(cache.apply_ln_to_stack(parts[:, -1], batch_slice=-1, has_batch_dim=False),
                 cache.apply_ln_to_stack(parts)[:, -1]) == 0  # fmt: skip


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (lambda c: c.decompose_resid(9), "layer must be a block from 0 to 3, not 9"),
        (
            lambda c: c.decompose_resid(mode="heads"),
            "mode must be 'all', 'attn' or 'mlp'",
        ),
        (lambda c: c.decompose_resid(0, incl_embeds=False), "nothing to stack"),
        (lambda c: c.stack_activation("q", 0), "nothing to stack"),
        (lambda c: c["blocks.0.hook_nothing"], "is not a name of a value"),
        (lambda c: c["nothing"], "nothing"),
        (lambda c: c.model(tokens(), return_type="logit"), "return_type must be one of"),
        (
            lambda c: c.model(tokens(), stop_at_layer=4),
            "stop_at_layer must be a block from 0 to 3, not 4",
        ),
        (lambda c: c.model([[1]], return_type="loss"), "needs a text of at least 2 tokens"),
        (lambda c: c.model.W_gate, "GPT-2 has no W_gate: none of its parameters has this role"),
        (lambda c: c.logit_attrs(c.decompose_resid(), [1, 2], 3), "must have the same length"),
    ],
)
def test_wrong_requests(job: Any, sentence: str) -> None:
    _, cache = small("gpt2").lens.run_with_cache(tokens())
    with pytest.raises(VieteError, match=re.escape(sentence)):
        job(cache)


def test_no_other_attribute_is_a_weight() -> None:
    with pytest.raises(AttributeError, match="'Lens' object has no attribute 'W_X'"):
        _ = small("gpt2").lens.W_X
    block = small("gpt2").lens.blocks[1]
    assert block.attn.W_Q.shape == (6, 24, 4) and block.mlp.b_in.shape == (20,)
    with pytest.raises(AttributeError):
        _ = block.W_E


# -- weights ---------------------------------------------------------------------------------------


def test_weights() -> None:
    model = small("gpt2")
    w = model.weights
    np.testing.assert_array_equal(model.lens.W_Q[1], w["W_Q^{2,h}"])
    np.testing.assert_array_equal(model.lens.W_U, w["W_E"].T)
    assert (
        model.lens.W_pos.shape == (40, 24)
        and not model.lens.b_U.any()
        and model.lens.b_U.shape == (13,)
    )
    opt = small("opt")
    np.testing.assert_array_equal(opt.lens.W_pos, opt.weights["W_P"][2:])
    llama = small("llama")
    assert llama.lens.W_gate.shape == (3, 24, 20) and llama.lens.b_K.shape == (3, 6, 4)
    assert not llama.lens.b_K.any()


def test_circuits() -> None:
    model = small("gpt2")
    run = model.card.run(tokens(), model.weights)
    assert error(model.lens.OV.AB[1, 2], run["W_V^{2,3} W_O^{2,3}"]) < 1e-12
    assert error(model.lens.QK[0, 1].AB, run["W_Q^{1,2} (W_K^{1,2})^T"]) < 1e-12
    assert model.lens.QK.shape == (3, 6, 24, 24) and model.lens.QK.mdim == 4


@pytest.mark.parametrize("name", CARDS)
def test_sizes(name: str) -> None:
    cfg = small(name).lens.cfg
    assert (cfg.n_layers, cfg.n_heads, cfg.d_model, cfg.d_head, cfg.d_vocab) == (3, 6, 24, 4, 13)
    if name == "attention-only-2":
        assert cfg.attn_only and cfg.normalization_type is cfg.eps is cfg.d_mlp is None
        return
    assert cfg.normalization_type in ("LN", "RMS") and cfg.eps and cfg.n_ctx
    assert cfg.parallel_attn_mlp == (name in ("pythia", "gpt-j", "phi"))
    assert cfg.n_key_value_heads in (2, 6) and not cfg.attn_only


def test_on_torch() -> None:
    torch = pytest.importorskip("torch")
    arrays = {k: torch.as_tensor(v) for k, v in weights(card("gpt2")).items()}
    model = card("gpt2").with_weights(arrays)
    ours, other = (
        model.lens.run_with_cache(tokens())[1],
        small("gpt2").lens.run_with_cache(tokens())[1],
    )
    assert all(isinstance(ours[n], torch.Tensor) and error(ours[n], other[n]) < 1e-12 for n in ours)
    parts, same = ours.decompose_resid(), other.decompose_resid()
    answers = np.roll(tokens(), 1, 1)
    attrs = ours.logit_attrs(parts, torch.as_tensor(answers))
    assert error(attrs, other.logit_attrs(same, answers)) < 1e-12
    assert float(model.lens(tokens(), return_type="loss")) == pytest.approx(
        float(small("gpt2").lens(tokens(), return_type="loss"))
    )
    logits = model.lens(tokens())
    assert (
        model.lens.eval().to(torch.float32)(tokens()).dtype == torch.float32 == model.lens.cfg.dtype
    )
    assert error(model.lens.cpu().to(torch.float64)(tokens()), logits) < 1e-5
    assert ours.to("cpu")["q", 0].device.type == "cpu" == next(model.lens.parameters()).device.type
    assert other.to("cpu")["q", 0] is not None
    with pytest.raises(VieteError, match="cuda needs PyTorch arrays"):
        other.to("cuda", move_model=True)
    with pytest.raises(VieteError, match="has no mlp under the names of TransformerLens"):
        vt.read("attention-only-2").bind(V=9, d=8, H=2, n_max=9).with_weights().lens.blocks[0].mlp(
            np.ones((1, 3, 8))
        )


# -- against transformers --------------------------------------------------------------------------


def test_hidden_states_and_attentions(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.GPTNeoXConfig(
        vocab_size=13, hidden_size=48, num_hidden_layers=3, num_attention_heads=6,
        intermediate_size=20, max_position_embeddings=40, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    net = transformers.GPTNeoXForCausalLM(config).eval()
    net.save_pretrained(tmp_path)
    with torch.no_grad():
        theirs = net(torch.as_tensor(tokens()), output_hidden_states=True, output_attentions=True)
    model = vt.load(tmp_path)
    logits, cache = model.lens.run_with_cache(tokens())
    assert error(logits, theirs.logits) < 1e-5
    for k in range(3):
        assert error(cache["resid_pre", k], theirs.hidden_states[k]) < 1e-5
        assert error(cache["pattern", k], theirs.attentions[k]) < 1e-5
    assert error(cache["unembed.hook_in"], theirs.hidden_states[3]) < 1e-5
