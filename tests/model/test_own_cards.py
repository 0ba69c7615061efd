"""A card and weights of one's own: opened, called, hooked, folded, saved, in Greek."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from tests.evaluate.evaluated import EvaluatedGradients
from viete.errors import VieteError
from viete.formats.files import save_safetensors

CLASSIFIER = """
# Classifier

## Dimensions

| symbol | value |
| --- | --- |
| $n$ | $≤ 9$ |
| $d$ | 4 |
| $V$ | 5 |
| $N$ | 2 |
| $ε$ | 0.1 |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$
- $α ∈ ℝ^n = 1$
- $y ∈ \\{0, …, 2\\}$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $γ^i$ | $d$ |
| $W^i$ | $d × d$ |
| $U$ | $d × 3$ |

## Functions

- $pooled(z: n × d) = table_{c<d}(\\sum_{j=0}^{n-1} z_{j,c} / n)$

## Forward pass

1. $x^0 = E[t]$

For $i = 1, …, N$:

2. $x^i = x^{i-1} + LN(x^{i-1}; γ^i, 0, ε) W^i$

3. $scores = pooled(table_{k<n,e<d}(α_k * x^N_{k,e})) U$
4. $L = -logsoftmax(scores)_y$
"""
# The same with what tensors say: a size, a count, and an equation for a tensor that may be there.
CHOICES = """## Choices

| config | is | then |
| --- | --- | --- |
| `tensor b` | absent | $b = 0$ |
| | there | |

## Forward pass"""
HEADER = (
    "| symbol | value |\n| --- | --- |\n| $n$ | $≤ 9$ |\n| $d$ | 4 |\n| $V$ | 5 |\n| $N$ | 2 |\n"
)
WITH_KEYS = (
    "| symbol | value | config |\n| --- | --- | --- |\n| $n$ | $≤ 9$ | |\n| $d$ | 7 | size E 1 |\n"
    "| $V$ | 5 | |\n| $N$ | 9 | count W^* |\n"
)
ASKING = CLASSIFIER
for before, after in {
    HEADER: WITH_KEYS,
    "| $ε$ | 0.1 |": "| $ε$ | 0.1 | |",
    "| $d × 3$ |": "| $d × 3$ |\n| $b$ | $3$ |",
    ")) U$": ")) U + b$",
    "## Forward pass": CHOICES,
}.items():
    assert ASKING.count(before) == 1
    ASKING = ASKING.replace(before, after)
T = [3, 1, 4]


def weights(model: vt.Card) -> dict[str, np.ndarray]:
    return model.initial_weights(1)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with both cards, the weights in two kinds of file, and a folder of transformers."""
    model = vt.read(CLASSIFIER)
    (tmp_path / "mine.md").write_text(CLASSIFIER, "utf-8")
    (tmp_path / "asking.md").write_text(ASKING, "utf-8")
    save_safetensors(tmp_path / "mine.safetensors", weights(model))
    np.savez(tmp_path / "greek.npz", **{  # type: ignore[arg-type]
        k.replace("gamma", "γ"): v for k, v in weights(model).items()
    })  # fmt: skip
    (tmp_path / "folder").mkdir()
    save_safetensors(tmp_path / "folder" / "model.safetensors", weights(model))
    said = {"model_type": "llama", "hidden_size": 99, "secret_sauce": 3}
    (tmp_path / "folder" / "config.json").write_text(json.dumps(said))
    return tmp_path


def test_a_card_and_a_file_or_a_folder_or_arrays(files: Path) -> None:
    """With keys of a config or without, by its path or read: all are the same model."""
    model = vt.read(CLASSIFIER)
    wanted = model.run(T, weights(model))["scores"]
    sources: list[Any] = [files / n for n in ("mine.safetensors", "greek.npz", "folder")]
    greek = {k.replace("gamma", "γ"): v for k, v in weights(model).items()}
    cards: list[Any] = [files / "mine.md", str(files / "asking.md"), model]
    for source in (*sources, weights(model), greek):
        for card in cards:
            found = vt.load(source, card=card)
            assert found.card.sizes["d"] == 4 and found.card.sizes["N"] == 2
            np.testing.assert_array_equal(found.run(T)["scores"], wanted)
    for source in ("mine.safetensors", "greek.npz", "folder"):
        for card in ("mine.md", "asking.md"):
            args = ("-t", "3,1,4", "--show", "scores")
            by_option = viete("run", files / source, "--card", files / card, *args).out
            assert f"{wanted[0]:.4f}" in by_option
            checked = viete("check", files / source, "--card", files / card).out
            assert "Every tensor has its parameter" in checked
            if source != "folder":
                found_by = viete("run", files / card, "-w", files / source, *args).out
                assert f"{wanted[0]:.4f}" in found_by
                assert (
                    viete("check", files / card, "-w", files / source).out.splitlines()[0]
                    == (checked.splitlines()[0])
                )


def test_what_the_tensors_say_is_what_is_there(files: Path) -> None:
    """With one tensor more the other row of Choices holds, in every way of opening it."""
    model = vt.read(CLASSIFIER)
    biased = {**weights(model), "b": np.array([1.0, 2, 3])}
    save_safetensors(files / "biased.safetensors", biased)
    wanted = model.run(T, weights(model))["scores"] + biased["b"]
    for source in (files / "biased.safetensors", biased):
        np.testing.assert_allclose(
            vt.load(source, card=files / "asking.md").run(T)["scores"], wanted
        )
    args = ("-t", "3,1,4", "--show", "scores")
    for line in (["asking.md", "-w", "biased.safetensors"],
                 ["biased.safetensors", "--card", "asking.md"]):  # fmt: skip
        said = viete("run", *(files / x if x[0] != "-" else x for x in line), *args).out
        assert f"{wanted[2]:.3f}" in said


def test_arrays_of_torch_stay_what_they_are() -> None:
    torch = pytest.importorskip("torch")
    model = vt.read(CLASSIFIER)
    arrays = {k: torch.tensor(v, requires_grad=True) for k, v in weights(model).items()}
    found = vt.load(arrays, card=model)
    assert found.weights["E"].data_ptr() == arrays["E"].data_ptr()
    np.testing.assert_allclose(found.lens([T])[0], model.run(T, weights(model))["scores"])


def test_a_config_that_is_insisted_on(files: Path) -> None:
    with pytest.raises(VieteError, match=r"the card Classifier names no keys of a config\.json"):
        vt.load(files / "folder", card=files / "mine.md", config={"hidden_size": 3})
    with pytest.raises(VieteError, match=r"secret_sauce is 3, unheard_of is 1, and no "
                       r"equation .* accept secret_sauce, unheard_of$"):  # fmt: skip
        vt.read("llama", {**LLAMA, "secret_sauce": 3, "unheard_of": 1})
    vt.read("llama", {**LLAMA, "secret_sauce": 3, "unheard_of": 1},
            accept=["secret_sauce", "unheard_of"])  # fmt: skip


LLAMA = {
    "model_type": "llama", "vocab_size": 13, "hidden_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 20,
    "max_position_embeddings": 40, "rms_norm_eps": 1e-5, "hidden_act": "silu",
}  # fmt: skip


def test_numbers_of_a_shipped_card_are_one_models(files: Path) -> None:
    """So they do not stand for a file that says nothing; those of one's own card do."""
    with pytest.raises(VieteError, match="is missing, so"):
        vt.load(files / "mine.safetensors", card="llama", config={"model_type": "llama"})
    with pytest.raises(VieteError, match="model_type is missing"):
        vt.load(files / "mine.safetensors", card="llama")
    with_key = WITH_KEYS.replace("7 | size E 1", "4 | n_embd").replace("9 | count W^*", "2 |")
    named = CLASSIFIER.replace(HEADER, with_key).replace("| $ε$ | 0.1 |", "| $ε$ | 0.1 | |")
    (files / "named.md").write_text(named, "utf-8")
    assert vt.load(files / "mine.safetensors", card=files / "named.md").weights["E"].shape == (5, 4)
    empty = named.replace("| $d$ | 4 |", "| $d$ | |")
    assert empty != named
    (files / "empty.md").write_text(empty, "utf-8")
    with pytest.raises(VieteError, match="n_embd is missing, so d has no value"):
        vt.load(files / "mine.safetensors", card=files / "empty.md")


def test_a_classifier_at_work(files: Path) -> None:
    model = vt.load(files / "mine.safetensors", card=files / "mine.md")
    wanted = model.run([T, T], α=[[1, 1, 1]] * 2)["scores"]
    np.testing.assert_allclose(model.lens([T, T]), wanted)
    np.testing.assert_allclose(model.lens(T), wanted[:1])
    out, cache = model.lens.run_with_cache(T, names_filter=["x^1", "scores"])
    np.testing.assert_allclose(out, wanted[:1])
    assert cache["x^1"].shape == (1, 3, 4)
    assert model.lens(T, return_type=None) is None
    for return_type in ("loss", "both"):
        with pytest.raises(
            VieteError, match="no value of shape n × V, a score for each next token"
        ):
            model.lens(T, return_type=return_type)
    halved = model.lens.run_with_hooks(T, fwd_hooks=[("x^2", lambda v, hook: v / 2)])
    np.testing.assert_allclose(halved, wanted[:1] / 2)
    folded = model.folded()
    assert "gamma^i" not in {p.name for p in folded.card.parameters}
    np.testing.assert_allclose(folded.lens(T), wanted[:1])
    with pytest.raises(VieteError, match="it cannot be sampled"):
        model.sample(T)
    said = viete("sample", files / "mine.safetensors", "--card", files / "mine.md", "-t", "1",
                 code=2).err  # fmt: skip
    assert said.count("\n") == 1 and "it cannot be sampled" in said
    assert model.lens.cfg.n_layers == 2 and model.lens.cfg.n_ctx == 9


def test_real_inputs_of_one_length() -> None:
    text = """
# Regression

## Dimensions

| symbol | value |
| --- | --- |
| $n$ | 3 |
| $d$ | 2 |

## Inputs

- $X ∈ ℝ^{n × d}$

## Parameters

| symbol | shape |
| --- | --- |
| $w$ | $d$ |

## Forward pass

1. $p = sigmoid(X w)$
"""
    model = vt.load({"w": np.array([1.0, -1.0])}, card=vt.read(text))
    X = np.arange(6.0).reshape(3, 2)
    assert model.lens(X).shape == (1, 3) and model.lens(np.stack([X, X])).shape == (2, 3)


def test_names_of_the_field_say_what_is_missing(files: Path) -> None:
    model = vt.load(files / "mine.safetensors", card=files / "mine.md")
    sentence = (
        "Classifier has no hook_resid_post: its Derived section does not say which value that is; "
        "add the line - $resid_post^i = …$ there, a formula of its values xⁱ, scores, L"
    )
    with pytest.raises(VieteError, match=re.escape(sentence)):
        model.lens.add_hook("blocks.0.hook_resid_post", lambda v, hook: v)
    derived = CLASSIFIER + "\n## Derived\n\n- $resid_post^i = x^i$\n"
    model = vt.load(files / "mine.safetensors", card=vt.read(derived))
    zero = model.lens.run_with_hooks(
        T, fwd_hooks=[("blocks.1.hook_resid_post", lambda v, hook: 0 * v)]
    )
    assert not zero.any()


def test_heads_that_read_the_stream_without_a_name_for_their_values() -> None:
    model = vt.load("two-layers")
    ids = np.array([[1, 2, 3, 4, 1, 2, 3, 4]])
    _, cache = model.lens.run_with_cache(ids)
    for block in range(2):
        x, pattern = cache["resid_pre", block][:, :, None], cache["pattern", block]
        v = np.einsum("bnhd,hde->bnhe", x.repeat(2, 2), model.lens.W_V[block])
        z = np.einsum("bhnm,bmhe->bnhe", pattern, v)
        result = np.einsum("bnhe,hed->bnhd", z, model.lens.W_O[block])
        for name, theirs in (("v", v), ("z", z), ("result", result)):
            assert np.allclose(cache[name, block], theirs, atol=1e-5)
        assert np.allclose(cache["attn_out", block], result.sum(2), atol=1e-5)
    stream = cache.decompose_resid().sum(0)
    assert np.allclose(stream, cache["resid_post", 1], atol=1e-4)
    again = model.lens.run_with_hooks(
        ids, fwd_hooks=[("blocks.1.attn.hook_v", lambda v, hook: 0 * v)]
    )
    assert np.allclose(again, model.put("r^{2,h} = 0").run(ids)["logits"], atol=1e-5)
    greedy = model.lens.generate(ids, 3, do_sample=False)
    assert (model.lens.generate(ids, 3, temperature=0) == greedy).all()


def test_a_stack_of_what_has_no_names_is_refused(files: Path) -> None:
    model = vt.load(files / "mine.safetensors", card=files / "mine.md")
    _, cache = model.lens.run_with_cache(T)
    with pytest.raises(VieteError, match="Classifier has no hook_attn_out"):
        cache.decompose_resid()


def test_with_stands_behind_the_whole_question() -> None:
    run = vt.read("attention-only-2").bind(V=7, d=8, H=2).with_weights(seed=0).run([1, 2, 3])
    with pytest.raises(VieteError, match="'with' changes the whole question, so it must follow"):
        run["(logits_{-1,5} with x^1 = 0) - logits_{-1,5}"]
    change = run.ask("logits_{-1,5} - logits'_{-1,5} with x^1 = 0", against=run)
    assert np.allclose(change, run["logits_{-1,5} with x^1 = 0"] - run["logits_{-1,5}"])


def test_saved_and_opened_again(files: Path) -> None:
    model = vt.read(CLASSIFIER)
    out = model.save(files / "out", {k.replace("gamma", "γ"): v
                                         for k, v in weights(model).items()})  # fmt: skip
    again = vt.load(out)
    assert again.card == model
    np.testing.assert_array_equal(again.lens(T)[0], model.run(T, weights(model))["scores"])
    again.card.__dict__.clear()
    vt.load(files / "folder", card=files / "asking.md").save(files / "out")  # over its own
    assert vt.load(files / "out").card.sizes["d"] == 4
    args = ("-t", "3,1,4", "--show", "scores")
    assert viete("run", out, *args).out == viete("run", out / "card.md", "-w",
                                                 out / "model.safetensors", *args).out  # fmt: skip
    for folder, what in (("folder", "config.json"), ("mine.md", "is a file")):
        with pytest.raises(VieteError, match=what):
            model.save(files / folder, weights(model))
    with pytest.raises(VieteError, match="do not fit Classifier"):
        model.save(files / "new", {"E": np.zeros((5, 4))})
    assert not (files / "new").exists()


def test_a_file_that_is_not_there(files: Path) -> None:
    for command in ("run", "check", "show"):
        more = ["-t", "1"] * (command == "run")
        said = viete(command, files / "gone.safetensors", "--card", files / "mine.md", *more,
                     code=2).err  # fmt: skip
        assert "gone.safetensors: there is no such file" in said


def test_greek_everywhere(files: Path) -> None:
    model = vt.read(CLASSIFIER)
    greek = {k.replace("gamma", "γ"): v for k, v in weights(model).items()}
    assert model.bind(ε=0.5).sizes["epsilon"] == 0.5
    wanted = model.run(T, weights(model), alpha=[2, 2, 2], y=1)
    for inputs in ({"α": [2, 2, 2]}, {"inputs": {"α": [2, 2, 2]}}):
        run = model.run(T, greek, y=1, **inputs)
        np.testing.assert_array_equal(run["scores"], wanted["scores"])
        np.testing.assert_array_equal(run["γ^1"], wanted["gamma^1"])
    with pytest.raises(VieteError, match=r"gamma\^1 is given twice, in two spellings"):
        model.run(T, {**greek, **weights(model)}, y=1)
    assert model.grad(by=["γ^i", "α"]).run(T, greek, y=1)["∂γ^1"].shape == (4,)
    loss, found = EvaluatedGradients(model, "scores_0")(T, greek)
    engine = model.planned(greek, "scores_0")
    assert engine(T, α=[1, 1, 1]) == pytest.approx(float(loss))
    np.testing.assert_allclose(engine.gradients["gamma^1"], found["gamma^1"])
    said = viete("run", files / "mine.md", "-w", files / "greek.npz", "-t", "3,1,4", "--set",
                 "ε=0.5", "--input", "α=2,2,2", "--show", "γ^1").out  # fmt: skip
    assert said.startswith("γ^1  (d = 4)")


def test_greek_weights_on_torch() -> None:
    torch = pytest.importorskip("torch")
    model = vt.read(CLASSIFIER)
    greek = {k.replace("gamma", "γ"): v for k, v in weights(model).items()}
    module = model.to_torch(greek)
    np.testing.assert_array_equal(module.weights()["gamma^1"].detach(), greek["γ^1"])
    assert torch.is_tensor(module.weights()["E"])
