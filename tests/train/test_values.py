"""Cards of features: their loss by hand in PyTorch, what they learn, and what is read of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.cards.catalogue import coders
from viete.evaluate.plan.engine import Engine
from viete.model.coders import read_coders
from viete.model.trained_coders import learned_coder, save_coder
from viete.text.data import read_data
from viete.text.vocabulary import make_vocabulary, save_vocabulary
from viete.train.loop import train
from viete.train.metrics import read_metrics
from viete.train.settings import Settings
from viete.train.setup import begin, resume

torch = pytest.importorskip("torch")

D, F, K = 6, 10, 3
SIGMA, TAU, RATE, RAMP = 1.5, 0.75, 0.2, 0.1
TOY = """# Toy

Each token has some of K features, whose directions share d dimensions.

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 120 |
| $K$ | 10 |
| $d$ | 8 |
| $n_{max}$ | 32 |
| $n$ | $≤ n_{max}$ |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$: tokens

## Parameters

| symbol | shape |
| --- | --- |
| $C$ | $V × K$ |
| $D$ | $K × d$ |

## Forward pass

1. $x = C[t] D$
2. $logits = x D^⊤ C^⊤$
"""


class Jump(torch.autograd.Function):
    """z where it is above θ, times or alone; by θ the derivative of a ramp of width ε."""

    @staticmethod
    def forward(c: Any, z: Any, theta: Any, times: bool) -> Any:
        c.save_for_backward(z, theta)
        c.times = times
        return (z if times else torch.ones_like(z)) * (z > theta)

    @staticmethod
    def backward(c: Any, g: Any) -> Any:
        z, theta = c.saved_tensors
        ramp = ((z - theta).abs() < RAMP / 2) / RAMP * (theta if c.times else 1)
        return g * (z > theta) if c.times else None, (-ramp * g).sum(0), None


def by_hand(name: str, w: dict[str, Any], x: Any, y: Any) -> Any:
    """The loss of a card of features, as its paper has it."""
    u, size = x / SIGMA, w["W_dec"].norm(dim=1)
    aside, target = 0.0, u
    if name == "transcoder":
        pre, target = u @ w["W_enc"] + w["b_enc"], y / TAU
    elif name == "sae-gated":
        q = (u - w["b_dec"]) @ w["W_enc"]
        gate, pre = q + w["b_gate"], q * w["r"].exp() + w["b_mag"]
    else:
        pre = (u - w["b_dec"]) @ w["W_enc"] + w["b_enc"]
    f = torch.relu(pre)
    penalty = f @ size
    if name == "sae-topk":
        rest = f.sort(dim=1, descending=True).values[:, K - 1 : K]
        f, penalty = f * (f >= rest), torch.zeros(len(f))
    if name == "sae-jumprelu":
        f, penalty = (Jump.apply(pre, w["theta"], times) for times in (True, False))
        penalty = penalty.sum(1)
    if name == "sae-gated":
        f = f * (gate > 0)
        opened, held = torch.relu(gate), w["W_dec"].detach()
        penalty = opened @ held.norm(dim=1)
        aside = ((u - opened @ held - w["b_dec"].detach()) ** 2).mean()
    v = f @ w["W_dec"] + w["b_dec"]
    return ((target - v) ** 2).mean() + RATE * penalty.mean() / D**0.5 + aside


@pytest.mark.parametrize("name", coders())
def test_loss_and_gradient_are_those_of_pytorch_by_hand(name: str) -> None:
    rng = np.random.default_rng(1)
    sizes = {"d": D, "e": D, "F": F, "k": K, "sigma": SIGMA, "tau": TAU}
    card = vt.read(name)
    card = card.bind(**{k: v for k, v in sizes.items() if k in card.sizes})
    weights = {k: rng.normal(size=a.shape) for k, a in card.initial_weights().items()}
    if "theta" in weights:
        weights["theta"] = abs(weights["theta"]) / 4
    inputs = {i.name: rng.normal(size=(40, D)) for i in card.inputs}
    own = {k: torch.tensor(a, requires_grad=True) for k, a in weights.items()}
    x, y = torch.tensor(inputs["x"]), torch.tensor(inputs.get("y", inputs["x"]))
    loss = by_hand(name, own, x, y)
    loss.backward()
    engine = Engine(card, weights)
    assert engine(None, **{k: a[None] for k, a in inputs.items()}) == pytest.approx(loss.item())
    module = card.to_torch(weights)
    module(*(torch.tensor(a)[None] for a in inputs.values()))[-1].backward()
    for k, w in own.items():
        assert abs(engine.gradients[k] - w.grad.numpy()).max() < 1e-12, k
        assert (module.gradients()[k] - w.grad).abs().max() < 1e-12, k
    assert name != "sae-jumprelu" or abs(own["theta"].grad).max() > 0.01


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in whose one value ten known features share eight dimensions, and a text."""
    folder, rng = tmp_path_factory.mktemp("toy"), np.random.default_rng(0)
    codes = np.zeros((120, 10))
    for row in codes:
        some = rng.choice(10, rng.integers(1, 3), replace=False)
        row[some] = rng.uniform(0.5, 1.5, len(some))
    directions = rng.normal(size=(10, 8))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    text = "".join(chr(0x4E00 + k) for k in rng.integers(0, 120, 8000))
    (folder / "text.txt").write_text(text, encoding="utf-8")
    vt.read(TOY).with_weights({"C": codes, "D": 3 * directions}).save(folder / "model")
    vocabulary = make_vocabulary(read_data(folder / "text.txt"))
    save_vocabulary(vocabulary, folder / "model" / "tokenizer.json")
    return folder


def settings(toy: Path, card: str = "sae", **given: Any) -> Settings:
    chosen = {"model": str(toy / "model"), "reads": "x", "data": str(toy / "text.txt"), "batch": 4,
              "lr": 0.01, "log_every": 1, **given}  # fmt: skip
    return Settings(card=card, **chosen)


def test_known_features_in_superposition_are_found(toy: Path, tmp_path: Path) -> None:
    found = begin(settings(toy, steps=500, schedule="cosine", log_every=0),
                  vt.read("sae").bind(F=20), tmp_path)  # fmt: skip
    train(found)
    coder = learned_coder(tmp_path)
    wanted = vt.load(toy / "model").weights["D"]
    back = coder.arrays["W_dec"]
    back = back / np.linalg.norm(back, axis=1, keepdims=True)
    cosines = (wanted / np.linalg.norm(wanted, axis=1, keepdims=True)) @ back.T
    assert cosines.max(1).min() > 0.85 and cosines.max(1).mean() > 0.93
    # In the units of the model: the card's own, and what a file says.
    batch = next(found.validation.evaluation(1))["x"][0]  # type: ignore[union-attr]
    made = vt.load(tmp_path).run(batch.astype(np.float32))["decoded"]
    assert ((batch - made) ** 2).sum() < 0.15 * ((batch - batch.mean(0)) ** 2).sum()
    f = np.maximum(
        (batch - coder.arrays["b_dec"]) @ coder.arrays["W_enc"] + coder.arrays["b_enc"], 0
    )
    assert np.allclose(f @ coder.arrays["W_dec"] + coder.arrays["b_dec"], made, atol=1e-4)


def test_a_batch_has_the_rows_of_the_model_whatever_came_before(toy: Path, tmp_path: Path) -> None:
    job = begin(settings(toy, steps=40), vt.read("sae").bind(F=12), tmp_path / "a")
    batches: Any = job.batches
    assert batches.mixed > 1
    rows = np.concatenate([batches.batch(k)["x"].reshape(-1, 8) for k in range(batches.mixed)])
    again = [batches.batch(k)["x"] for k in (20, 3)][-1]
    assert np.array_equal(again, rows.reshape(batches.mixed, *again.shape)[3])
    ids = np.concatenate([batches.text.batch(k)["t"] for k in range(batches.mixed)])
    wanted = vt.load(toy / "model").run(ids)["x"].reshape(-1, 8)
    assert np.allclose(np.sort(rows, 0), np.sort(wanted, 0), atol=1e-6)
    assert not np.allclose(rows, wanted, atol=1e-6)
    train(job)
    begun = begin(settings(toy, steps=18), vt.read("sae").bind(F=12), tmp_path / "b")
    train(begun)
    train(resume({"steps": 40}, tmp_path / "b", "latest"))
    a, b = ([r["loss"] for r in read_metrics(tmp_path / x) if "loss" in r] for x in "ab")
    assert a == b


@pytest.mark.parametrize(
    ("card", "reads", "writes"),
    [("sae-topk", "Q^{2,1}", ""), ("sae-gated", "blocks.1.hook_attn_out", ""),
     ("transcoder", "x^1", "m^2")],
)  # fmt: skip
def test_a_run_is_put_into_its_model(card: str, reads: str, writes: str, tmp_path: Path) -> None:
    """The card's features, its file and the model with its file agree."""
    sizes = {"V": 30, "d": 8, "N": 2, "H": 2, "n_max": 16}
    model = vt.read("gpt2").bind(**sizes).with_weights(seed=3)
    model.save(tmp_path / "model")
    (tmp_path / "text.txt").write_text(
        "".join(chr(97 + k * k % 26) + "+-?!"[k % 4] for k in range(400))
    )
    vocabulary = make_vocabulary(read_data(tmp_path / "text.txt"))
    save_vocabulary(vocabulary, tmp_path / "model" / "tokenizer.json")
    viete("train", card, "--model", tmp_path / "model", "--reads", reads,
          *(["--writes", writes] if writes else []), "--data", tmp_path / "text.txt",
          "--set", "F=9", *(["--set", "k=2"] if "topk" in card else []), "--steps", 6, "--lr", 0.05,
          "-o", tmp_path / "run")  # fmt: skip
    text = np.array([3, 1, 4, 1, 5])
    run, own = model.run(text), vt.load(tmp_path / "run")
    place = {"blocks.1.hook_attn_out": "a^2"}.get(reads, reads)
    rows = [run[p].astype(np.float32) for p in (place, writes) if p]
    alone = own.run(rows[0], **({"y": rows[1]} if writes else {}))
    viete("export", tmp_path / "run", "--to", "saelens", "-o", tmp_path / "folder")
    config = json.loads((tmp_path / "folder" / "cfg.json").read_text())
    assert config["d_sae"] == 9 and config["metadata"]["model_name"] == "model"
    for source in ("run", "folder"):
        coded = model.put(read_coders(tmp_path / source))
        there = coded.run(text)
        assert np.allclose(there["logits"], run["logits"], atol=1e-6)
        assert np.allclose(there["feature^2"], alone["feature"], atol=1e-5)
        assert np.allclose(there["decoded^2"], alone["decoded"], atol=1e-5)


def test_what_does_not_fit_is_said(toy: Path, tmp_path: Path) -> None:
    def said(*options: object) -> str:
        given = {"--model": toy / "model", "--reads": "x", "--data": toy / "text.txt",
                 "-o": tmp_path / "run"}  # fmt: skip
        card, *more = options
        given |= dict(zip(more[::2], more[1::2], strict=True))  # type: ignore[arg-type]
        words = [x for pair in given.items() for x in pair]
        return viete("train", card, *words, code=2).err

    assert "does not learn values of a model" in said("gpt2")
    assert "give --reads and --writes" in said("transcoder")
    assert "leave out --writes" in said("sae", "--writes", "x")
    assert "with a row for each position" in said("sae", "--reads", "x_0")
    assert "what features read" not in said("sae", "--reads", "z")
    assert "learned from running text" in said("sae", "--data", "dialogs")
    assert "go together" in viete("train", "sae", "--reads", "x", "--data", "dialogs",
                                  "-o", tmp_path / "run", code=2).err  # fmt: skip
    assert not (tmp_path / "run").exists()
    (tmp_path / "toy.md").write_text(TOY)
    assert "is not a card of features" in viete("export", toy / "model", "--to", "saelens", "-o",
                                             tmp_path / "out", code=2).err  # fmt: skip
    with pytest.raises(vt.VieteError, match="does not say what its features read"):
        vt.read("sae").bind(d=8, F=4).with_weights(seed=0).save(tmp_path / "bare")
        save_coder(learned_coder(tmp_path / "bare"), tmp_path / "out")
