"""A loaded model with its weights folded, as TransformerLens has it by default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import viete as vt  # noqa: E402
from tests.model.small import error, tokens  # noqa: E402
from viete.errors import VieteError  # noqa: E402
from viete.model.saving import save  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = transformers.GPT2Config(vocab_size=13, n_embd=24, n_layer=2, n_head=6, n_positions=32)
    net = transformers.GPT2LMHeadModel(config)
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=rng))
    path = tmp_path_factory.mktemp("gpt2")
    net.double().save_pretrained(path)
    return path


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_the_same_probabilities(folder: Path, framework: str) -> None:
    model = vt.load(folder, framework=framework)
    made = model.folded()
    before, after = (np.asarray(m.lens(tokens())) for m in (model, made))
    shift = after - before
    assert np.ptp(shift, axis=-1).max() < 1e-11  # one constant for all tokens of a position
    assert abs(after.mean(-1)).max() < 1e-11
    assert error(model.folded(center_unembed=False).lens(tokens()), before) < 1e-12
    assert made.card.title == "GPT-2, folded" and model.card.title == "GPT-2"
    assert made.card.equations != model.card.equations


def test_names_hold_in_both(folder: Path) -> None:
    model = vt.load(folder)
    made = model.folded()
    assert list(made.lens.names) == list(model.lens.names)
    _, a = model.lens.run_with_cache(tokens())
    _, b = made.lens.run_with_cache(tokens())
    for key in a:
        if key.endswith(("hook_pattern", "hook_scale", "hook_normalized", "hook_mlp_out")):
            x, y = a[key], b[key]
            if key.endswith("mlp_out"):
                x = x - x.mean(-1, keepdims=True)
            assert error(y, x) < 1e-10, key
    # What the parts of the stream add to a logit does not depend on where γ is.
    parts = [c.logit_attrs(c.decompose_resid(), 3, 4) for c in (a, b)]
    assert error(parts[1].sum(0), parts[0].sum(0)) < 1e-10
    assert not b.model.b_V.any() and made.lens.blocks[0].attn.W_Q.shape == (6, 24, 4)


def test_steps_by_themselves(folder: Path) -> None:
    model = vt.load(folder)
    alone = model.folded(fold_ln=False, center_writing_weights=False, center_unembed=False)
    assert "b_V^{i,h}" not in {p.name for p in alone.card.parameters}
    assert "gamma_A^i" in {p.name for p in alone.card.parameters}
    assert error(alone.lens(tokens()), model.lens(tokens())) < 1e-12
    with pytest.raises(VieteError, match="GPT-2, folded has no norm"):
        model.folded().folded(fold_ln=True)


def test_it_is_no_model_of_its_family_any_more(folder: Path, tmp_path: Path) -> None:
    """`transformers` would read it otherwise; with its own card it is saved and opened again."""
    made = vt.load(folder).folded()
    with pytest.raises(VieteError, match="transformers would compute something else"):
        save(made.card, made.weights, tmp_path / "there", made.config, to_hf=True)
    assert not (tmp_path / "there").exists()
    again = vt.load(made.save(tmp_path / "there"))
    assert sorted(p.name for p in (tmp_path / "there").iterdir()) == [
        "card.md", "model.safetensors",
    ]  # fmt: skip
    assert again.card == made.card and error(again.lens(tokens()), made.lens(tokens())) == 0
