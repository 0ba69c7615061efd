"""A card held against a file: what differs is found, and what it may come from is said."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
import viete.cards.reader as reader
from tests.model.released import released, save_weights
from viete import read
from viete.errors import VieteError
from viete.evaluate.schedule import parameter_shapes
from viete.formats.files import open_tensors, save_safetensors
from viete.meanings.run import run
from viete.model.compare import Report, compare
from viete.model.mapping import load_weights, to_checkpoint

SHIPPED = Path(reader.__file__).parent / "shipped"
Arrays = dict[str, np.ndarray]


def weights_of(model: vt.Card, seed: int = 0) -> Arrays:
    """Random weights, of which no norm is neutral and no bias zero."""
    rng = np.random.default_rng(seed)
    shapes = parameter_shapes(model)
    return {n: np.asarray(rng.normal(0, 0.5, s), np.float32) for n, s in shapes.items()}


def saved(path: Path, arrays: Arrays) -> Any:
    save_safetensors(path, arrays)
    return open_tensors(path)


# -- the real case ---------------------------------------------------------------------------------


def tiny_transformer(extra: bool = True) -> tuple[Arrays, Arrays]:
    """The system behind the symbolic card, by hand: 15 tensors, ReLU, ε = 1e-5, two norms."""
    rng = np.random.default_rng(1)
    shapes = {"E": (10, 5), "W^Q": (5, 5), "W^K": (5, 5), "W^V": (5, 5), "W^O": (5, 5)}
    shapes |= {"gamma_1": (5,), "beta_1": (5,), "W^{ff}_1": (5, 5), "W^{ff}_2": (5, 5)}
    shapes |= {"W^{out}": (5, 10)}
    more = {"b^{ff}_1": (5,), "b^{ff}_2": (5,), "gamma_2": (5,), "beta_2": (5,), "b^{out}": (10,)}
    w = {n: rng.normal(0, 0.5, s).astype(np.float32) for n, s in (shapes | more).items()}

    def norm(z: np.ndarray, k: int) -> np.ndarray:
        centred = z - z.mean(-1, keepdims=True)
        scaled = centred / np.sqrt(z.var(-1, keepdims=True) + 1e-5)
        return w[f"gamma_{k}"] * scaled + w[f"beta_{k}"]

    x = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    r: Arrays = {"x": x, "h_0": w["E"][x].astype(np.float64)}
    q, k, v = (r["h_0"] @ w[f"W^{s}"] for s in "QKV")
    r["S"] = q @ k.swapaxes(-1, -2) / np.sqrt(5)
    r["A"] = np.exp(r["S"]) / np.exp(r["S"]).sum(-1, keepdims=True)
    r["h_{attn}"] = r["A"] @ v @ w["W^O"]
    r["h_1"] = norm(r["h_0"] + r["h_{attn}"], 1)
    hidden = np.maximum(r["h_1"] @ w["W^{ff}_1"] + w["b^{ff}_1"], 0)
    r["h_{ff}"] = hidden @ w["W^{ff}_2"] + w["b^{ff}_2"]
    r["h_2"] = norm(r["h_1"] + r["h_{ff}"], 2)
    r["logits"] = r["h_2"] @ w["W^{out}"] + w["b^{out}"]
    r["y"] = r["logits"].argmax(-1)
    return w, {n: a if a.dtype.kind == "i" else a.astype(np.float32) for n, a in r.items()}


def test_a_card_of_ten_tensors_and_gelu_for_a_file_of_fifteen_and_relu(tmp_path: Path) -> None:
    model = read(SHIPPED / "symbolic-transformer.md")
    weights, values = tiny_transformer()
    files = saved(tmp_path / "weights", weights), saved(tmp_path / "values", values)
    report = compare(model, *files)
    assert not report.ok
    assert (report.card_tensors, report.file_tensors) == (10, 15)
    assert (report.card_count, report.file_count) == (260, 290)
    assert not report.missing and not report.shapes and not report.dtypes
    extra = {x.name for x in report.extra}
    assert extra == {"b^{ff}_1", "b^{ff}_2", "gamma_2", "beta_2", "b^{out}"}
    assert report.recorded is not None
    assert report.recorded.agree == ("h_0", "S", "A", "h_{attn}", "y")
    found = {d.name: d.fits for d in report.recorded.differences}
    assert list(found) == ["h_1", "h_{ff}", "h_2", "logits"]  # in the order of the equations
    reads_as = {name: fits[0][1] for name, fits in found.items()}
    assert reads_as == {
        "h_1": "h_1 = LN(h_0 + h_attn; gamma_1, beta_1, 1e-5)",
        "h_{ff}": "h_ff = ReLU(h_1 W_1^ff + b^{ff}_1) W_2^ff + b^{ff}_2",
        "h_2": "h_2 = LN(h_1 + h_ff; gamma_2, beta_2, 1e-5)",
        "logits": "logits = h_2 W^out + b^{out}",
    }
    assert all(len(fits) == 1 for fits in found.values())
    assert "GELU is ReLU" in found["h_{ff}"][0][0]
    text = "\n".join(report.lines())
    assert "290 parameters in 15 tensors" in text and "Not in the card (5)" in text
    assert "The first that differs is h_1, equation 8" in text and "GELU is ReLU" in text


def test_where_the_card_is_right_nothing_is_found(tmp_path: Path) -> None:
    model = read(SHIPPED / "symbolic-transformer.md")
    weights = weights_of(model)
    values = run(model, [3, 1, 4], {n: w.astype(np.float64) for n, w in weights.items()})
    arrays = {n: np.asarray(values[n]).astype(np.float32) for n in values}
    file = saved(tmp_path / "weights", weights)
    report = compare(model, file, saved(tmp_path / "values", arrays), [3, 1, 4])
    assert report.ok, report.lines()
    assert set(report.recorded.agree) == set(values)  # type: ignore[union-attr]


# -- one thing wrong at a time ---------------------------------------------------------------------

CARD = """# Small

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 11 |
| $d$ | 8 |
| $N$ | 2 |
| $m$ | 6 |
| $n$ | ≤ 6 |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | V × d |
| $P$ | m × d |
| $W_Q^i, W_K^i, W_F^i$ | d × d |
| $b^i$ | d |
| $γ^i, β^i$ | d |
| $U$ | d × V |

## Forward pass

1. $x^0 = E[t] + P[:n]$

For $i = 1, …, N$:

2. $u^i = LN(x^{i-1}; γ^i, β^i, 1e-5)$
3. $S^i = u^i W_Q^i (u^i W_K^i)^⊤ / \\sqrt{d}$
4. $A^i = softmax(causal(S^i))$
5. $a^i = A^i u^i$
6. $x^i = x^{i-1} + a^i + GELU(u^i W_F^i + b^i)$
7. $logits = x^N U$
"""

WRONG = {
    "another function": ("GELU(", "SiLU(", "x^1", "SiLU is GELU"),
    "no mask": ("softmax(causal(S^i))", "softmax(S^i)", "A^1", "the scores are causal"),
    "a mask": ("causal(S^i)", "window(S^i; 2)", "A^1", ""),
    "another ε": ("β^i, 1e-5", "β^i, 0.1", "u^1", "LN has ε = 1e-5"),
    "a square matrix turned": ("W_F^i +", "{W_F^i}^⊤ +", "x^1", "W_F^i is transposed"),
    "no positions": ("E[t] + P[:n]", "E[t]", "x^0", "P[:6] is added to the right side"),
    "no bias": ("W_F^i + b^i", "W_F^i", "x^1", "b^{i} is added to u^i W_F^i"),
    "a scale": ("A^i u^i", "A^i u^i / 2", "a^1", "without / 2"),
    "no norm": ("u^i = LN(x^{i-1}; γ^i, β^i, 1e-5)", "u^i = x^{i-1}", "u^1", "goes through LN"),
}


@pytest.mark.parametrize("fault", WRONG)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_fault_is_found_and_named(fault: str, dtype: str, tmp_path: Path) -> None:
    right, wrong, name, said = WRONG[fault]
    assert right in CARD
    true, card = read(CARD), CARD.replace(right, wrong)
    if "P[" not in card:
        card = card.replace("| $P$ | m × d |\n", "")
    if fault == "no bias":
        card = card.replace("| $b^i$ | d |\n", "")
    if fault == "no norm":
        card = card.replace("| $γ^i, β^i$ | d |\n", "")
    weights = weights_of(true)
    tokens = [1, 5, 3, 3, 10, 0]
    values = run(true, tokens, {n: w.astype(np.float64) for n, w in weights.items()})
    arrays = {n: np.asarray(values[n]).astype(dtype) for n in values}
    file = saved(tmp_path / "weights", weights)
    report = compare(read(card), file, saved(tmp_path / "values", arrays), tokens)
    assert report.recorded is not None
    first = report.recorded.differences[0]
    assert first.name == name
    if not said:
        assert first.fits == ()
        return
    assert said in first.fits[0][0], first.fits
    # With the change the second block agrees as well.
    assert len(report.recorded.differences) == 1, report.lines()


def test_the_fault_is_found_behind_the_logits_alone(tmp_path: Path) -> None:
    """Nothing else was recorded: every equation before them may be the wrong one."""
    true = read(CARD)
    weights, tokens = weights_of(true), np.array([[1, 5, 3, 3, 10, 0], [2, 2, 7, 8, 1, 4]])
    logits = run(true, tokens, {n: w.astype(np.float64) for n, w in weights.items()})["logits"]
    values = saved(tmp_path / "values", {"logits": logits, "tokens": tokens, "unknown": logits})
    card = read(CARD.replace("GELU(", "GELU_tanh("))
    report = compare(card, saved(tmp_path / "weights", weights), values)
    assert report.recorded is not None
    (difference,) = report.recorded.differences
    assert difference.name == "logits" and set(difference.where) == {"batch", "row", "col"}
    assert difference.fits[0][0] == "GELU_tanh is GELU"
    assert difference.fits[0][1].endswith("+ a^i + GELU(u^i W_F^i + b^i)")
    assert "unknown" in report.recorded.skipped
    assert any(line.startswith("Not compared: unknown") for line in report.lines())


def test_values_of_another_shape_and_values_whose_weights_are_missing(tmp_path: Path) -> None:
    model = read(CARD)
    weights, tokens = weights_of(model), [1, 2, 3]
    values = {n: np.asarray(v) for n, v in run(model, tokens, weights).items()}
    values["A^1"] = values["A^1"][:, :2]
    values["S^1"] = values["S^1"][None]  # a batch of one is not a difference
    del weights["U"]
    file, recorded = saved(tmp_path / "w", weights), saved(tmp_path / "v", values)
    report = compare(model, file, recorded, tokens)
    assert report.recorded is not None
    (difference,) = report.recorded.differences
    assert difference.name == "A^1" and difference.shapes == ((3, 2), (3, 3))
    assert "needs the weight U" in report.recorded.skipped["logits"]
    assert "S^1" in report.recorded.agree and "x^2" in report.recorded.agree
    assert "recorded as 3 × 2, and the card gives 3 × 3" in "\n".join(report.lines())


def test_recorded_values_need_their_tokens(tmp_path: Path) -> None:
    model = read(CARD)
    weights = saved(tmp_path / "w", weights_of(model))
    outputs = saved(tmp_path / "v", {"logits": np.zeros((3, 11), np.float32)})
    with pytest.raises(VieteError, match="for which input"):
        compare(model, weights, outputs)
    for bad in ([99], [], [[[1]]], [0.5]):
        with pytest.raises(VieteError):
            compare(model, weights, outputs, bad)


# -- names, shapes and dtypes ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pythia", "gpt2", "llama"])
def test_a_released_file_compares_clean(name: str, tmp_path: Path) -> None:
    released(name, tmp_path)
    model = read(SHIPPED / f"{name}.md", tmp_path)
    report = compare(model, open_tensors(tmp_path / "model.safetensors"))
    assert report.ok and report.card_count == report.file_count, report.lines()
    assert "Every tensor has its parameter" in "\n".join(report.lines())


def with_columns(model: vt.Card, report: Report) -> vt.Card:
    """The card with the suggested lines in its checkpoint column."""
    columns = {p: s.column for s in report.suggestions for p in s.parameters}
    return replace(
        model, parameters=tuple(replace(p, checkpoint=columns[p.name]) for p in model.parameters)
    )


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_foreign_names_are_guessed_well_enough_to_run(name: str, tmp_path: Path) -> None:
    """A card without a checkpoint column, filled in by the suggestions, computes the same."""
    released(name, tmp_path)
    model = read(SHIPPED / f"{name}.md", tmp_path)
    file = open_tensors(tmp_path / "model.safetensors")
    bare = replace(model, parameters=tuple(replace(p, checkpoint="") for p in model.parameters))
    report = compare(bare, file)
    assert not report.ok and not report.questions
    guessed = load_weights(with_columns(bare, report), file)
    true = load_weights(model, file)
    assert all(np.array_equal(guessed[n], true[n]) for n in true)
    assert len(report.lines()) < 80


def test_what_no_name_decides_is_asked(tmp_path: Path) -> None:
    model = read(CARD)
    foreign = {f"p{k:02}": w for k, w in enumerate(weights_of(model).values())}
    report = compare(model, saved(tmp_path / "w", foreign))
    sure = {s.parameters: s.column for s in report.suggestions}
    assert sure == {("E",): "p00", ("P",): "p01", ("U",): "p14"}
    asked = {q.parameters: q.candidates for q in report.questions}
    assert asked[("W_F^i",)] == tuple(f"p{k:02}" for k in range(2, 8))
    assert asked[("beta^i",)] == tuple(f"p{k:02}" for k in range(8, 14))


def test_tied_and_copied_tensors(tmp_path: Path) -> None:
    model = read(SHIPPED / "llama.md").bind(d=8, H=2, N=1, V=11, d_f=12, n_max=4)
    tensors = to_checkpoint(model, weights_of(model))
    embed, head = "model.embed_tokens.weight", "lm_head.weight"
    report = compare(model, saved(tmp_path / "w", {n: a for n, a in tensors.items() if n != head}))
    (missing,) = report.missing
    assert missing.name == head and missing.tied == (embed,)
    assert f"may be tied to {embed}" in "\n".join(report.lines())
    # A copy of a tensor that is used is no other tensor; one of an unused tensor is said to be.
    report = compare(model, saved(tmp_path / "w", tensors | {"copy": tensors[embed].copy()}))
    assert report.ok and report.copies == {"copy": embed}
    turned = {"turned": np.ascontiguousarray(tensors[embed].T)}
    report = compare(model, saved(tmp_path / "w", tensors | turned))
    assert report.extra[0].equals == (f"{embed} transposed",)


def test_other_dimensions_and_other_layouts(tmp_path: Path) -> None:
    card = read(SHIPPED / "pythia.md")
    small = card.bind(d=16, H=2, N=2, V=11, n_max=8)
    tensors = to_checkpoint(small, weights_of(small))
    report = compare(card.bind(d=32, H=2, N=2, V=20, n_max=8), saved(tmp_path / "w", tensors))
    assert report.sizes == {"V": 11, "d": 16} and not report.missing and not report.extra
    assert "--set V=11 --set d=16" in "\n".join(report.lines())
    fused = "gpt_neox.layers.1.attention.query_key_value.weight"
    wide = "gpt_neox.layers.0.mlp.dense_h_to_4h.weight"
    turned = {n: np.ascontiguousarray(tensors[n].T) for n in (fused, wide)}
    report = compare(small, saved(tmp_path / "w", tensors | turned))
    found = {s.name: s.patterns for s in report.shapes}
    assert found[wide] == ("",)  # as it is
    assert "d (qkv h d_k) -> qkv h d d_k" in found[fused]


def test_dtypes_that_the_card_states(tmp_path: Path) -> None:
    model = read(SHIPPED / "symbolic-transformer.md")
    weights = weights_of(model)
    weights["E"] = weights["E"].astype(np.float16)
    report = compare(model, saved(tmp_path / "w", weights))
    assert report.dtypes == (("E", "float32", "float16"),) and not report.ok


def test_heads_in_tensors_of_their_own(tmp_path: Path) -> None:
    """Hand-written models keep a small matrix for every head, numbered from 0."""
    model = read(SHIPPED / "simple-transformer.md").bind(V=13, d=12, H=3, d_h=9, T_max=5)
    weights, short = weights_of(model), {"W_Q": "query", "W_K": "key", "W_V": "value"}
    tensors = {n: w for n, w in weights.items() if n[:3] not in short}
    for n, w in weights.items():
        if n[:3] in short:
            for h in range(3):
                tensors[f"heads.{h}.{short[n[:3]]}.weight"] = np.ascontiguousarray(w[h].T)
    file = saved(tmp_path / "w", tensors)
    report = compare(model, file)
    columns = {s.parameters[0]: s.column for s in report.suggestions}
    assert columns["W_Q^h"] == "heads.{h-1}.query.weight : d_k d -> d d_k"
    filled = replace(model, parameters=tuple(
        replace(p, checkpoint=columns.get(p.name, "")) for p in model.parameters
    ))  # fmt: skip
    loaded = load_weights(filled, file)
    assert all(np.array_equal(loaded[n], weights[n]) for n in weights)


@cache
def in_small(name: str) -> vt.Card:
    """A shipped card in small dimensions, read once."""
    model = read(SHIPPED / f"{name}.md")
    if name == "symbolic-transformer":
        return model
    return model.bind(d=10, H=2, N=2, V=5, d_f=10, n_max=5)


@settings(max_examples=30)
@given(
    st.sampled_from(["symbolic-transformer", "pythia", "llama"]),
    st.dictionaries(
        st.text("W_Qγ^{}1,h.i\\\\()", min_size=1, max_size=7)
        | st.sampled_from(["E", "x", "S", "h.0.b"]),
        st.tuples(
            st.lists(st.sampled_from([0, 1, 2, 5, 10]), max_size=4),
            st.sampled_from(["float32", "int64", "bool", "float16", "complex64"]),
        ),
        max_size=8,
    ),
)
def test_any_file_gets_a_report(name: str, drawn: dict[str, Any]) -> None:
    model = in_small(name)
    arrays = {n: np.ones(shape, dtype) for n, (shape, dtype) in drawn.items()}
    with TemporaryDirectory() as folder:
        file = saved(Path(folder) / "f", arrays)
        report = compare(model, file)
        assert not report.ok and report.lines()
        with suppress(VieteError):  # tokens of a wrong shape, say
            assert compare(model, file, file).lines()


def test_a_saved_card_compares_clean_with_itself(tmp_path: Path) -> None:
    model = read(CARD)
    save_weights(model, weights_of(model), tmp_path / "w")
    report = compare(model, open_tensors(tmp_path / "w"))
    assert report.ok and report.card_tensors == report.file_tensors == len(parameter_shapes(model))
