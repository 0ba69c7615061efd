"""A name of TransformerLens means what its equation says, in every shipped card."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.model.small import card, error, small, streams, tokens, weights
from viete.analysis.well_formed import check_well_formed
from viete.errors import VieteError
from viete.model.named_values import named_values
from viete.model.names import Found, Names
from viete.model.table import VALUE, conventions
from viete.notation.printer import show, show_equation

CARDS = streams()
ALWAYS = ["hook_embed", "unembed.hook_in", "unembed.hook_out"] + [
    f"blocks.{{l}}.{n}" for n in (
        "hook_resid_pre", "attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_attn_scores",
        "attn.hook_pattern", "attn.hook_z", "attn.hook_result", "hook_attn_out", "hook_mlp_out",
        "hook_resid_post",
    )
]  # fmt: skip


def test_families_are_there() -> None:
    assert {"gpt2", "pythia", "llama", "gemma2", "olmo2", "phi", "bloom"} <= set(CARDS)


@pytest.mark.parametrize("name", CARDS)
def test_what_every_decoder_has(name: str) -> None:
    names = Names(card(name))
    mlps = name != "attention-only-2"
    assert [n for n in ALWAYS if names.found(n) is None] == ["blocks.{l}.hook_mlp_out"][mlps:]
    if mlps and "E" not in names.model.sizes:  # experts have MLPs of their own
        assert names.found("blocks.{l}.mlp.hook_pre") and names.found("blocks.{l}.mlp.hook_post")


@pytest.mark.parametrize("name", CARDS)
def test_lifting_all_names_out_keeps_what_is_computed(name: str) -> None:
    """Law: what was found is what ``back`` says, with the value for y."""
    model = small(name)
    named = named_values(
        model.lens.names, [n for n in model.lens.names.entries if model.lens.names.found(n)]
    )
    ours = vt.read(name)  # the card itself is not touched
    assert ours.equations == vt.read(name).equations
    check_well_formed(named.model)
    run = named.model.run(tokens(), model.weights)
    plain = model.card.run(tokens(), model.weights)
    for e in model.card.equations:
        if not e.left.symbol.slots and e.name in plain:  # a loss has no targets here
            assert error(run[e.name], plain[e.name]) < 1e-12


@pytest.mark.parametrize("name", CARDS)
def test_a_lifted_value_is_the_formula_it_stands_for(name: str) -> None:
    model = small(name)
    _, lazily = model.lens.run_with_cache(tokens())
    _, lifted = model.lens.run_with_cache(tokens(), names_filter=lambda n: True)
    assert list(lazily) == list(lifted) == list(model.lens.names)
    for key in lazily:
        assert error(lazily[key], lifted[key]) < 1e-12, key


@pytest.mark.parametrize("name", CARDS)
def test_shapes_are_those_of_the_axes(name: str) -> None:
    model = small(name)
    cfg = model.lens.cfg
    sizes = {"batch": 2, "pos": 7, "query": 7, "key": 7, "head": cfg.n_heads, "1": 1,
             "kv_head": cfg.n_key_value_heads, "d_model": cfg.d_model, "d_head": cfg.d_head,
             "d_mlp": cfg.d_mlp, "d_vocab": cfg.d_vocab}  # fmt: skip
    _, cache = model.lens.run_with_cache(tokens())
    for key in cache:
        axes = model.lens.names.get(model.lens.names.split(key)[0]).row.axes
        assert cache[key].shape == tuple(sizes[a] for a in ("batch", *axes)), key


@pytest.mark.parametrize("name", CARDS)
def test_the_stream_is_what_the_claims_say(name: str) -> None:
    model = small(name)
    _, cache = model.lens.run_with_cache(tokens())
    first = cache["embed"] + (cache["pos_embed"] if "hook_pos_embed" in model.lens.names else 0)
    assert error(first, cache["resid_pre", 0]) < 1e-12
    sums = any("resid_post" in show_equation(*c.statement.args) and "+" in show_equation(
        *c.statement.args) for c in model.card.claims)  # fmt: skip
    if not sums:
        return
    for k in range(model.lens.names.layers):
        after = cache["resid_pre", k] + cache["attn_out", k] + cache["mlp_out", k]
        assert error(after, cache["resid_post", k]) < 1e-12
        if ("resid_mid", k) in cache:
            middle = cache["resid_pre", k] + cache["attn_out", k]
            assert error(middle, cache["resid_mid", k]) < 1e-12


def of_the_card(run: Any, found: Found, layer: int | None, names: Names) -> np.ndarray:
    """The array of a formula of the card, (batch, heads, …), with the axes in their order."""
    axes = found.row.axes
    value = np.asarray(run[show(names.at(found.formula, layer))])
    heads = {s for s in (*names.heads, *names.shared) if s in found.letters}
    if heads:
        value = value.reshape(len(value), -1, *value.shape[1 + len(heads) :])
    order = [a for a in axes if a in ("head", "kv_head")]
    value = np.moveaxis(value, 1, 1 + axes.index(order[0])) if order else value
    return value if value.ndim > len(axes) else np.stack([value, value])  # one for all texts


@pytest.mark.parametrize("name", ["gpt2", "llama", "olmo2", "pythia"])
def test_every_alias_is_the_array_of_the_cards_own_name(name: str) -> None:
    """Law: by each of its spellings in the table a name is the formula of the card."""
    model = small(name)
    names = model.lens.names
    _, cache = model.lens.run_with_cache(tokens())
    run = model.card.run(tokens(), model.weights)
    others: dict[str, list[str]] = {}
    for short, word in conventions().short.items():
        others.setdefault(word, []).append(short)
    for key in names:
        general, layer = names.split(key)
        if layer == 2:
            continue  # as block 1
        wanted = of_the_card(run, names.get(general), layer, names)
        assert error(cache[key], wanted) < 1e-12, key
        *parts, last = general.removeprefix("blocks.{l}.").split(".")
        word = last.removeprefix("hook_")
        of_word = [n for n in conventions().values if n.endswith(f"hook_{word}")
                   and ("{l}" in n) == (layer is not None)]  # fmt: skip
        words = [w.removeprefix("block ") for w in others.get(word, []) if "part " not in w]
        for spelled in (word, *words):
            where = [p.removeprefix("part ") for p in others.get("".join(parts), [])
                     if p.startswith("part ")]  # fmt: skip
            keys = [(spelled, layer, p) for p in (*parts, *where)] if layer is not None else []
            keys += [(spelled, layer)] if len(of_word) == 1 else []
            if layer is not None:
                keys += [f"{w}{k}{p or ''}" for w, k, p in ((*k, None)[:3] for k in keys)]
            for k in keys:
                assert names.full(k) == key, k


def test_values_by_hand() -> None:
    """Formulas of the GPT-2 paper, by NumPy."""
    model = small("gpt2")
    w, t = model.weights, tokens()
    _, cache = model.lens.run_with_cache(t)
    x = w["W_E"][t] + w["W_P"][:7]
    np.testing.assert_allclose(cache["resid_pre", 0], x, rtol=1e-12)
    scale = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(cache["scale", 0, "ln1"], scale, rtol=1e-12)
    normed = (x - x.mean(-1, keepdims=True)) / scale
    np.testing.assert_allclose(cache["normalized", 0, "ln1"], normed, rtol=1e-11)
    u = normed * w["gamma_A^1"] + w["beta_A^1"]
    q, k, v = (np.einsum("bnd,hdk->bnhk", u, w[f"W_{s}^{{1,h}}"]) + w[f"b_{s}^{{1,h}}"]
               for s in "QKV")  # fmt: skip
    for name, value in {"q": q, "k": k, "v": v}.items():
        np.testing.assert_allclose(cache[name, 0], value, rtol=1e-10)
    scores = np.einsum("bnhk,bmhk->bhnm", q, k) / 2
    scores[..., np.triu(np.ones((7, 7), bool), 1)] = -np.inf
    np.testing.assert_allclose(cache["attn_scores", 0], scores, rtol=1e-9, atol=1e-12)
    pattern = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(cache["pattern", 0], pattern, rtol=1e-10)
    z = np.einsum("bhnm,bmhk->bnhk", pattern, v)
    np.testing.assert_allclose(cache["z", 0], z, rtol=1e-9, atol=1e-12)
    result = np.einsum("bnhk,hkd->bnhd", z, w["W_O^{1,h}"])
    np.testing.assert_allclose(cache["result", 0], result, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(cache["attn_out", 0], result.sum(2) + w["b_O^1"], rtol=1e-9)


def test_grouped_heads_are_on_one_axis_the_group_first() -> None:
    model = small("qwen2")
    _, cache = model.lens.run_with_cache(tokens())
    run = model.card.run(tokens(), model.weights)
    pattern = cache["pattern", 1]
    for head in range(6):
        g, r = divmod(head, 3)
        np.testing.assert_array_equal(pattern[:, head], run[f"A^{{2,{g + 1},{r + 1}}}"])
    assert cache["k", 1].shape == (2, 7, 2, 4) and cache["q", 1].shape == (2, 7, 6, 4)
    np.testing.assert_array_equal(model.lens.W_K[:, 0], model.lens.W_K[:, 2])
    np.testing.assert_array_equal(model.lens.W_Q[1, 4], model.weights["W_Q^{2,g,r}"][1, 1])


# -- what is not there -----------------------------------------------------------------------------


def test_a_name_that_a_card_lacks_is_refused_with_its_own_equations() -> None:
    wanted = {
        ("pythia", "blocks.0.hook_resid_mid"): "Pythia has no hook_resid_mid: no MLP reads what "
        "attention has added: vⁱ = LN(xⁱ⁻¹; γ_Mⁱ, β_Mⁱ, ε), xⁱ = xⁱ⁻¹ + aⁱ + mⁱ",
        ("gpt2", "blocks.0.attn.hook_rot_q"): "GPT-2 has no attn.hook_rot_q: its queries are not "
        "rotated: Q^{i,h} = uⁱ W_Q^{i,h} + b_Q^{i,h}",
        ("llama", "hook_pos_embed"): "Llama has no hook_pos_embed: its embedding is x⁰ = W_E[t]",
        ("mixtral", "blocks.0.mlp.hook_post"): "Mixtral has no mlp.hook_post: its MLP is mⁱ = ",
    }
    for (name, key), sentence in wanted.items():
        with pytest.raises(VieteError, match=re.escape(sentence)):
            Names(card(name)).meaning(key)
        with pytest.raises(VieteError, match=re.escape(sentence)):
            small(name).lens.run_with_cache(tokens(), names_filter=key)
        with pytest.raises(VieteError, match=re.escape(sentence)):
            small(name).lens.run_with_hooks(tokens(), fwd_hooks=[(key, lambda v, hook: v)])


def test_a_stream_that_nothing_reads_is_none() -> None:
    """In parallel blocks resid_mid would be a sum that no equation reads (issue 1644 of theirs)."""
    config = {"model_type": "gpt_neox", "vocab_size": 13, "hidden_size": 24, "num_hidden_layers": 2,
              "num_attention_heads": 6, "intermediate_size": 20, "layer_norm_eps": 1e-5,
              "rotary_pct": 0.5, "max_position_embeddings": 40}  # fmt: skip
    for parallel in (True, False):
        names = Names(vt.read("pythia", {**config, "use_parallel_residual": parallel}))
        assert (names.found("blocks.{l}.hook_resid_mid") is None) == parallel


def test_additive_contributions() -> None:
    """attn_out is what is added to the stream, normed where the card norms it (issue 1648)."""
    for name in ("olmo2", "gemma2"):
        said = Names(card(name)).meaning(("attn_out", 0))
        assert said.startswith("blocks.0.hook_attn_out = a¹, where aⁱ = RMSNorm(oⁱ; ")


@pytest.mark.parametrize("name", ["symbolic-transformer", "transformer-2017"])
def test_cards_without_a_stream_have_few_names(name: str) -> None:
    names = Names(vt.read(name))
    with pytest.raises(VieteError, match="has no hook_resid_post"):
        names.get("blocks.{l}.hook_resid_post")


# -- how names are written -------------------------------------------------------------------------


def test_short_names() -> None:
    names = Names(card("gpt2"))
    full = "blocks.2.attn.hook_q"
    for key in (full, ("q", 2), "q2", ("q", -1), ("query", 2), ("q", 2, "attn"), ("q", 2, "a")):
        assert names.full(key) == full
    assert names.full(("scale", 1, "ln2")) == names.full("scale1ln2") == "blocks.1.ln2.hook_scale"
    assert names.full("resid_post1") == "blocks.1.hook_resid_post"
    assert names.full(("attn", 0)) == "blocks.0.attn.hook_pattern"
    assert names.full("embed") == "hook_embed"
    assert names.full("normalized") == "ln_final.hook_normalized"


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("foo", "'foo' is not a name of a value"),
        ("blocks.0.attn.hook_qq", "hook_qq is not a name of a value; there are blocks"),
        (("scale", 1), "it may be blocks.{l}.ln1.hook_scale or blocks.{l}.ln1_post.hook_scale or "),
        (("q", 3), "there is no block 3; the 3 blocks of GPT-2 are 0 to 2"),
        ("blocks.7.hook_resid_pre", "there is no block 7"),
        (("q", "1"), "is not a name of a value; write it as"),
        (7, "7 is not a name of a value"),
        ((), "is not a name of a value"),
    ],
)
def test_wrong_names(key: object, sentence: str) -> None:
    with pytest.raises(VieteError, match=re.escape(sentence)):
        Names(card("gpt2")).full(key)  # type: ignore[arg-type]


def test_meanings() -> None:
    names = Names(card("pythia"))
    assert names.meaning("blocks.2.hook_resid_pre") == (
        "blocks.2.hook_resid_pre = x², where xⁱ = xⁱ⁻¹ + aⁱ + mⁱ"
    )
    assert names.meaning(("resid_pre", 0)) == "blocks.0.hook_resid_pre = x⁰, where x⁰ = W_E[t]"
    assert names.meaning(("z", 0)) == (
        "blocks.0.attn.hook_z = A^{1,h} V^{1,h}, in aⁱ = ∑_h A^{i,h} V^{i,h} W_O^{i,h} + b_Oⁱ"
    )
    assert names.meaning(("q", 1)).endswith("in Q^{i,h} = RoPE(uⁱ W_Q^{i,h} + b_Q^{i,h}; ρ, θ)")
    assert names.meaning(("rot_q", 1)).startswith("blocks.1.attn.hook_rot_q = Q^{2,h}, where")


def test_names_of_the_table_are_written_well() -> None:
    """Every row has axes; a value comes with what is then left, and the other way round."""
    table = conventions()
    for entry in table.values.values():
        assert entry.otherwise, entry.name
        for row in entry.rows:
            assert row.axes and (row.value is None) == (row.back is None), entry.name
            if row.back is not None:
                assert VALUE in str(row.back)
    assert all(row.axes for entry in table.weights.values() for row in entry.rows)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    from viete.cli.app import command

    command()(["show", "pythia", "--names"], standalone_mode=False)
    printed = capsys.readouterr().out
    assert re.search(
        r"blocks\.\{i-1\}\.attn\.hook_z +batch, pos, head, d_head +A\^\{i,h\} V", printed
    )
    assert "Pythia has no hook_resid_mid" in printed
    command()(["show", "llama", "--folded", "-f", "md"], standalone_mode=False)
    printed = capsys.readouterr().out
    assert vt.read(printed).title == "Llama, folded"


def test_keys_counted_in_a_letter_of_their_own() -> None:
    """Query head h reads key/value head ⌈h G / H⌉: what Llama says by two letters."""
    text = card("gpt2").write()
    group = r"\lceil \frac{h G}{H} \rceil"
    for old, new in [
        ("| $h$ |", "| $G$ | 2 | | groups |\n| $g$ | $1, \\dots, G$ | | group |\n| $h$ |"),
        ("{K^{i,h}}^", f"{{K^{{i,{group}}}}}^"), ("A^{i,h} V^{i,h}", f"A^{{i,h}} V^{{i,{group}}}"),
        ("K^{i,h} =", "K^{i,g} ="), ("V^{i,h} =", "V^{i,g} ="),
        *((f"{w}^{{i,h}}", f"{w}^{{i,g}}") for w in ("W_K", "W_V", "b_K", "b_V")),
    ]:  # fmt: skip
        text = text.replace(old, new)
    circuits = ("W_{\\mathrm{QK}}", "W_{\\mathrm{OV}}")
    model = vt.read("\n".join(x for x in text.splitlines() if not any(c in x for c in circuits)))
    ours = model.with_weights(weights(model)).lens
    assert ours.names.heads == ("h",) and ours.names.shared == ("g",)
    _, cache = ours.run_with_cache(tokens())
    assert cache["q", 0].shape == (2, 7, 6, 4) and cache["k", 0].shape == (2, 7, 2, 4)
    assert cache["z", 0].shape == (2, 7, 6, 4) and ours.cfg.n_key_value_heads == 2
    z = np.einsum("bhnm,bmhk->bnhk", cache["pattern", 1], np.repeat(cache["v", 1], 3, axis=2))
    assert error(cache["z", 1], z) < 1e-12
    np.testing.assert_array_equal(ours.W_K[2], np.repeat(ours.weights["W_K^{3,g}"], 3, axis=0))
    moved = ours.run_with_hooks(tokens(), fwd_hooks=[(("v", 1), lambda v, hook: 0 * v)])
    assert error(moved, ours(tokens())) > 1e-3
