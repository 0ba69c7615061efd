"""A card's weights go into a file and come back, under the card's names or a checkpoint's."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import viete as vt
import viete.cards.reader as reader
from tests.model.released import released, save_weights
from viete import read
from viete.errors import VieteError
from viete.evaluate.schedule import parameter_shapes
from viete.formats.files import open_tensors, save_safetensors
from viete.meanings.run import run
from viete.model.expected import expected_tensors
from viete.model.mapping import load_weights, to_checkpoint

SHIPPED = Path(reader.__file__).parent / "shipped"
many = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])

CARD = """# Card

{facts}

## Dimensions

| symbol | value |
| --- | --- |
| $d$ | 6 |
| $k$ | 4 |
| $N$ | 3 |
| $H$ | 2 |
| $n$ | ≤ 5 |
| $h$ | $1, …, H$ |
| $g$ | $0, …, 2$ |

## Inputs

- $t ∈ \\{{0, …, 5\\}}^n$

## Parameters

| symbol | shape | checkpoint |
| --- | --- | --- |
{rows}

## Forward pass

1. $x^0 = t$

For $i = 1, …, N$:

2. $x^i = x^{{i-1}} + i$
3. $y = x^N$
"""


def card(*rows: tuple[str, str, str], facts: str = "") -> vt.Card:
    return read(CARD.format(facts=facts, rows="\n".join(f"| {' | '.join(r)} |" for r in rows)))


def weights_of(model: vt.Card, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = parameter_shapes(model)
    return {n: np.asarray(rng.normal(size=s), np.float32) for n, s in shapes.items()}


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[n], b[n]) for n in a)


# -- round trips -----------------------------------------------------------------------------------


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """Parameters in any layout that a pattern can say."""
    rng, out = Random(draw(st.integers(0, 2**30))), []
    for k in range(draw(st.integers(1, 5))):
        letters = rng.sample("ihg", rng.randint(0, 3))
        core = rng.choice([[], ["d"], ["d", "k"], ["k", "d"], ["d", "d"]])
        count = rng.randint(1, 3)
        slots = "^{" + ",".join(letters) + "}" if letters else ""
        symbols = ", ".join(f"$W_{{{k}{'abc'[j]}}}{slots}$" for j in range(count))
        spelled = [s for s in letters if rng.random() < 0.6]
        name = f"part{k}" + "".join("." + rng.choice([f"{{{s}}}", f"{{{s} + 2}}"]) for s in spelled)
        axes = ["s"] * (count > 1) + [s for s in letters if s not in spelled]
        axes += [f"r{j}" for j in range(len(core))]
        pattern = ""
        if rng.random() < 0.8:
            left, groups = rng.sample(axes, len(axes)), list[list[str]]()
            for axis in left:
                if groups and rng.random() < 0.5:
                    groups[-1].append(axis)
                else:
                    groups.append([axis])
            shown = ["(" + " ".join(g) + ")" if len(g) > 1 else g[0] for g in groups]
            pattern = f" : {' '.join(shown)} -> {' '.join(axes)}"
        cell = f"`{name}.weight{pattern}`" if rng.random() < 0.9 else ""
        out.append((symbols, " × ".join(core) or "scalar", cell))
    return out


@many
@given(rows())
def test_what_is_written_is_read_again(tmp_path: Path, drawn: list[tuple[str, str, str]]) -> None:
    model = card(*drawn)
    weights = weights_of(model)
    tensors = to_checkpoint(model, weights)
    expected = expected_tensors(model)
    assert {n: a.shape for n, a in tensors.items()} == {n: e.shape for n, e in expected.items()}
    assert sum(a.size for a in tensors.values()) == sum(a.size for a in weights.values())
    assert {w for e in expected.values() for w in e.holds} == set(weights)
    save_safetensors(tmp_path / "theirs", tensors)
    assert same(load_weights(model, tmp_path / "theirs"), weights)
    save_weights(model, weights, tmp_path / "ours")
    assert set(open_tensors(tmp_path / "ours").infos) == set(weights)
    assert same(load_weights(model, tmp_path / "ours"), weights)


@many
@given(rows())
def test_pytorch_tensors_go_the_same_way(tmp_path: Path, drawn: list[tuple[str, str, str]]) -> None:
    torch = pytest.importorskip("torch")
    model = card(*drawn)
    weights = weights_of(model)
    mine = to_checkpoint(model, {n: torch.tensor(w).requires_grad_() for n, w in weights.items()})
    theirs = to_checkpoint(model, weights)
    assert same({n: a.detach().numpy() for n, a in mine.items()}, theirs)
    save_safetensors(tmp_path / "file", mine)
    loaded = load_weights(model, tmp_path / "file", "torch", "float64")
    assert all(w.dtype == torch.float64 for w in loaded.values())
    assert same({n: w.float().numpy() for n, w in loaded.items()}, weights)


def test_a_pattern_means_what_it_says() -> None:
    """The rows of GPT-NeoX's fused matrix: for each head its query's, key's and value's."""
    model = read(SHIPPED / "pythia.md").bind(d=12, H=2, N=2, V=5, d_f=7, n_max=8)
    weights = weights_of(model)
    fused = to_checkpoint(model, weights)["gpt_neox.layers.1.attention.query_key_value.weight"]
    assert fused.shape == (36, 12)
    for h, s, k, d in product(range(2), range(3), range(6), range(12)):
        assert fused[h * 18 + s * 6 + k, d] == weights[f"W_{'QKV'[s]}^{{2,h}}"][h, d, k]


def test_letters_that_a_name_does_not_spell_are_axes() -> None:
    model = card(
        ("$A^{i,h}$", "$d × k$", "`a : i (h k) d -> i h d k`"),
        ("$B^{i,h}$", "$d × k$", "`b.{i-1}.{h-1} : k d -> d k`"),
        ("$C$", "$d × k$", "`c : (r two) k -> (two r) k, two=2`"),
    )
    expected = expected_tensors(model)
    assert expected["a"].shape == (3, 8, 6)
    assert expected["b.2.1"].shape == (4, 6) and expected["b.2.1"].holds == ("B^{3,h}",)
    weights = weights_of(model)
    tensors = to_checkpoint(model, weights)
    assert np.array_equal(tensors["b.2.1"], weights["B^{3,h}"][1].T)
    assert np.array_equal(tensors["a"][2, 5], weights["A^{3,h}"][1, :, 1])
    assert np.array_equal(tensors["c"][[0, 2, 4, 1, 3, 5]], weights["C"])


# -- names -----------------------------------------------------------------------------------------

ROWS = (("$W_Q^{i,h}$", "$d × k$", "`m.{i-1}.q`"), ("$γ_1, β$", "$d$", "`m.norm.{weight,bias}`"))


def test_a_file_may_use_the_cards_names_in_any_spelling(tmp_path: Path) -> None:
    model = card(*ROWS)
    weights = weights_of(model)
    spellings = ["W_Q^{1,h}", "W^{2,h}_Q", "W_{Q}^{3, h}", r"\gamma_1", "β"]
    save_safetensors(tmp_path / "f", dict(zip(spellings, weights.values(), strict=True)))
    assert same(load_weights(model, tmp_path / "f"), weights)


@pytest.mark.parametrize("rename", [lambda n: "module." + n, lambda n: n.removeprefix("m.")])
def test_a_prefix_of_all_names_may_differ(tmp_path: Path, rename: Any) -> None:
    model = card(*ROWS)
    weights = weights_of(model)
    tensors = {rename(n): a for n, a in to_checkpoint(model, weights).items()}
    save_safetensors(tmp_path / "f", tensors)
    assert same(load_weights(model, tmp_path / "f"), weights)


def test_nothing_is_dropped_unsaid(tmp_path: Path) -> None:
    model = card(*ROWS, facts="- **ignore**: `*.mask`, freq")
    weights = weights_of(model)
    tensors = to_checkpoint(model, weights)
    copy = {"m.tied": tensors["m.1.q"].copy(), "m.0.mask": np.ones(3), "freq": np.ones(2)}
    save_safetensors(tmp_path / "f", tensors | copy)
    assert same(load_weights(model, tmp_path / "f"), weights)  # a mask, an equal copy
    copy["m.tied"][0, 0, 0] += 1
    save_safetensors(tmp_path / "f", tensors | copy)
    with pytest.raises(VieteError, match=r"unused: m\.tied \(2 × 6 × 4\)"):
        load_weights(model, tmp_path / "f")


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    model = card(*ROWS)
    tensors = to_checkpoint(model, weights_of(model))
    tensors["m.0.q"] = tensors["m.0.q"][:, :2]
    del tensors["m.norm.bias"]
    save_safetensors(tmp_path / "f", tensors | {"other": np.zeros((2, 2), np.float32)})
    with pytest.raises(VieteError) as error:
        load_weights(model, tmp_path / "f")
    text = str(error.value)
    assert "missing: m.norm.bias (6), which holds beta" in text
    assert "m.0.q is 2 × 2 × 4, and the card says 2 × 6 × 4" in text
    assert "unused: other (2 × 2)" in text


def test_weights_that_do_not_fit_are_not_saved(tmp_path: Path) -> None:
    model = card(*ROWS)
    weights = weights_of(model)
    for wrong in (
        weights | {"beta": np.zeros(5, np.float32)},
        weights | {"more": np.zeros(5, np.float32)},
        {n: w for n, w in weights.items() if n != "beta"},
    ):
        with pytest.raises(VieteError, match="do not fit"):
            save_weights(model, wrong, tmp_path / "f")
        with pytest.raises(VieteError, match="do not fit"):
            to_checkpoint(model, wrong)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "cell, said",
    [
        ("w : d k -> k d e", "does not fit W, whose array is 6 × 4"),
        ("w : d -> d k", "only on one side"),
        ("w : (d k -> d k", "[Pp]arenthes"),
        ("w : d k", "is written"),
        ("w : k d -> d k q", "does not fit W"),
        ("w.{j} : k d -> d k", "unknown symbol j"),
        ("w.{i/2}", "1/2"),
        ("w.{i-2}", "-1"),
        ("w.{i mod 2}", "two indices"),
        ("w : (r two) k -> (two r) k", "does not fit W"),
        ("w : (r two) k -> (two r) k, two=4", "does not fit W"),
        ("w : (r two) k -> (two r) k, two", "write axis=size"),
    ],
)
def test_a_wrong_checkpoint_cell_is_pointed_at(cell: str, said: str) -> None:
    model = card(("$W^i$", "$d × k$", f"`{cell}`")) if "{" in cell else card(
        ("$W$", "$d × k$", f"`{cell}`"))  # fmt: skip
    with pytest.raises(VieteError, match=said) as error:
        expected_tensors(model)
    assert error.value.where is not None and error.value.where.line == 25


def test_dtypes_and_frameworks_are_checked(tmp_path: Path) -> None:
    model = card(*ROWS)
    save_weights(model, weights_of(model), tmp_path / "f")
    assert load_weights(model, tmp_path / "f", dtype="float64")["beta"].dtype == np.float64
    for options in ({"dtype": "int8"}, {"dtype": "wide"}, {"framework": "theano"}):
        with pytest.raises(VieteError):
            load_weights(model, tmp_path / "f", **options)
    with pytest.raises(VieteError):
        load_weights(model, tmp_path / "nothing")


# -- released layouts ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pythia", "gpt2", "llama"])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_released_layout_runs_as_released(name: str, framework: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    net = released(name, tmp_path)
    model = read(SHIPPED / f"{name}.md", tmp_path)
    file = open_tensors(tmp_path / "model.safetensors")
    weights = load_weights(model, file, framework)
    tokens = torch.arange(0, 50, 3)
    logits = run(model, tokens if framework == "torch" else tokens.numpy(), weights)["logits"]
    with torch.no_grad():
        peer = net(tokens[None]).logits[0].numpy()
    assert np.abs(np.asarray(logits) - peer).max() < 1e-5 * np.abs(peer).max()
    back = to_checkpoint(model, weights)
    assert set(back) == set(file.infos)
    assert all(np.array_equal(np.asarray(back[n]), file.load(n)) for n in back)


def test_buffers_of_older_files_are_ignored_as_the_cards_say(tmp_path: Path) -> None:
    model = read(SHIPPED / "gpt2.md").bind(d=8, H=2, N=1, V=5, n_max=4)
    weights = weights_of(model)
    # OpenAI's own file: no prefix, and each layer's mask beside its weights.
    tensors = {n.removeprefix("transformer."): a for n, a in to_checkpoint(model, weights).items()}
    tensors["h.0.attn.bias"] = np.tril(np.ones((1, 1, 4, 4), np.float32))
    save_safetensors(tmp_path / "f", tensors)
    assert same(load_weights(model, tmp_path / "f"), weights)
    bare = replace(model, facts=())
    with pytest.raises(VieteError, match=r"unused: h\.0\.attn\.bias"):
        load_weights(bare, tmp_path / "f")
