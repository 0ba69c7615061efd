"""What the users of other libraries bring: type checkers, trainers, adapters on every layer."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import viete as vt
from tests.code.exported import bound
from viete.errors import VieteError

HOUSE = Path(__file__).parents[2]
TYPED = """import viete as vt

def card_of(model: vt.Model) -> vt.Card:
    return model.card
"""


BLANKS = """# Blanks

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 7 |
| $d$ | 4 |
| $n$ | $≤ 9$ |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$: tokens
- $y ∈ \\{0, …, V-1\\}^n$: targets

## Parameters

| symbol | shape | init |
| --- | --- | --- |
| $E$ | $V × d$ | normal(1) |
| $W$ | $d × V$ | normal(1) |

## Forward pass

1. $x = E[t]$
2. $A = softmax(x x^⊤)$
3. $logits = (A x) W$
4. $L = cross_entropy(logits; y)$
"""


@pytest.mark.slow
def test_a_model_without_type_arguments_is_strictly_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "mine.py").write_text(TYPED)
    options = "--strict", "--follow-imports=silent", f"--config-file={HOUSE / 'pyproject.toml'}"
    made = subprocess.run(
        [sys.executable, "-m", "mypy", *options, f"--cache-dir={tmp_path}", "mine.py"],
        cwd=tmp_path, env={"MYPYPATH": str(HOUSE)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr


def test_a_module_without_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "viete.train.module", raising=False)
    card: Any = vt.read("letters-causal")
    for noun in card, card.with_weights(seed=0):
        with pytest.raises(VieteError, match=r"^for a PyTorch module you need torch: pip install"):
            noun.to_torch()


def adapted(module: Any) -> list[Any]:
    """Freeze a module, and put LoRA of rank 2 around its layers as PEFT does: the new parameters.

    They are A and B of ``x W^⊤ + x A^⊤ B^⊤``, and B = 0 at first.
    """
    torch = pytest.importorskip("torch")

    class Lora(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, base: Any) -> None:
            super().__init__()
            self.base, like = base, {"dtype": base.weight.dtype}
            self.A = torch.nn.Parameter(torch.randn(2, base.in_features, **like))
            self.B = torch.nn.Parameter(torch.zeros(base.out_features, 2, **like))

        def forward(self, x: Any) -> Any:
            return self.base(x) + x @ self.A.T @ self.B.T

    module.requires_grad_(False)
    own = []
    for name, layer in list(module.named_modules()):
        if isinstance(layer, torch.nn.Linear):
            owner, _, last = name.rpartition(".")
            setattr(module.get_submodule(owner), last, new := Lora(layer))
            own += [new.A, new.B]
    return own


@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral"])
def test_lora_on_every_layer(name: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = bound(name).to_torch(bound(name).initial_weights(seed=0))
    base = module.weights()
    before = {k: w.clone() for k, w in base.items()}
    t = torch.randint(0, 11, (4, 6))
    logits = module(t)
    own = adapted(module)
    assert torch.equal(module(t), logits)
    losses = []
    for _ in range(5):
        loss = module(t[:, :-1], t[:, 1:])[1]
        grads = torch.autograd.grad(loss, own)  # which raises for a layer that is not called
        with torch.no_grad():
            for x, g in zip(own, grads, strict=True):
                x -= 0.1 * g
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0], losses
    for k, w in before.items():
        assert torch.equal(base[k], w), k


def ids(*shape: int) -> Any:
    torch = pytest.importorskip("torch")
    return torch.randint(0, 7, shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("padding", ["none", "right", "left"])
def test_the_loss_of_transformers(padding: str) -> None:
    """Of a GPT-2 with the same weights; there positions of left padding are given by hand."""
    torch, hf = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16}
    ends = {"bos_token_id": None, "eos_token_id": None}
    net = hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, **ends)).double().eval()
    module = vt.from_transformers(net).to_torch()
    assert module.config.n_embd == 8 and module.config.tie_word_embeddings
    t, mask = ids(3, 6), torch.ones(3, 6, dtype=int)
    if padding != "none":
        mask[0, 4:] = mask[1, 2:] = 0
    if padding == "left":
        mask = mask.flip(1)
    labels = t.masked_fill(mask == 0, -100)
    labels[2, 3] = -100
    if padding == "left":  # which transformers has the padding before it predict
        labels[0, 2] = labels[1, 4] = -100
    given = {"input_ids": t, "attention_mask": mask, "labels": labels}
    wanted = net(**given, position_ids=(mask.cumsum(-1) - 1).clamp(min=0))
    found = module(**given)
    assert list(found) == ["loss", "logits"]
    loss = wanted.loss.double()  # which transformers computes in float32
    torch.testing.assert_close(found["loss"], loss, rtol=1e-6, atol=0)
    torch.testing.assert_close(found.logits[mask > 0], wanted.logits[mask > 0], rtol=0, atol=1e-12)
    one = torch.autograd.grad(found.loss, module.W_E)[0]
    two = torch.autograd.grad(wanted.loss, net.transformer.wte.weight)[0]
    torch.testing.assert_close(one, two, rtol=0, atol=1e-6)


def test_labels_of_a_card_that_fills_blanks_are_of_their_own_position() -> None:
    """And padding, which every position would read, is left out."""
    torch = pytest.importorskip("torch")
    card = vt.read(BLANKS)
    module = card.to_torch(card.initial_weights(seed=0))
    t, mask = ids(2, 5), torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 1, 0]])
    labels = t.flip(1).clone()
    labels[0, 1] = -100
    found = module(input_ids=t, attention_mask=mask, labels=labels)
    one, two = module(t[0], labels[0]), module(t[1, 1:4], labels[1, 1:4])
    torch.testing.assert_close(found.logits[0], one[0])
    torch.testing.assert_close(found.logits[1, 1:4], two[0])
    torch.testing.assert_close(found.loss, (4 * one[1] + 3 * two[1]) / 7)
    alone = module(input_ids=t[1], attention_mask=mask[1], labels=labels[1])
    torch.testing.assert_close(alone.loss, two[1])
    torch.testing.assert_close(alone.logits, found.logits[1])


def test_a_trainer_s_loop() -> None:
    torch = pytest.importorskip("torch")
    module = bound("simple-transformer").to_torch()
    asked = list(inspect.signature(module.forward).parameters)
    assert asked == ["t", "y", "input_ids", "attention_mask", "labels", "num_items_in_batch"]
    batch = {"input_ids": ids(4, 6) % 5, "attention_mask": torch.ones(4, 6, dtype=int)}
    batch = {k: x.to(module.device) for k, x in batch.items()}
    losses = []
    for _ in range(3):
        loss = module(**batch, labels=batch["input_ids"])["loss"]
        own = list(module.parameters())
        with torch.no_grad():
            for x, g in zip(own, torch.autograd.grad(loss, own), strict=True):
                x -= 0.1 * g
        losses.append(float(loss.detach()))
    assert losses == sorted(losses, reverse=True)
    logits, loss = module(batch["input_ids"][:, :-1], batch["input_ids"][:, 1:])  # its own way
    assert float(loss.detach()) < losses[-1] and logits.shape[:2] == (4, 5)


def test_gradients_of_parts_of_a_batch_add_up_to_those_of_the_whole() -> None:
    """`transformers.Trainer` says how many targets all the parts have, by `num_items_in_batch`."""
    torch = pytest.importorskip("torch")
    module = bound("simple-transformer").to_torch().double()
    given, mask = ids(4, 6) % 5, torch.arange(6) < torch.tensor([[3], [2], [6], [5]])
    labels = given.masked_fill(~mask, -100)
    own = list(module.parameters())

    def gradients(rows: slice, **more: int) -> list[Any]:
        some = {"input_ids": given[rows], "attention_mask": mask[rows], "labels": labels[rows]}
        return torch.autograd.grad(module(**some, **more)["loss"], own)

    assert type(module).accepts_loss_kwargs
    many = int((labels[:, 1:] != -100).sum())
    parts = (gradients(slice(k, k + 2), num_items_in_batch=many) for k in (0, 2))
    for whole, a, b in zip(gradients(slice(None)), *parts, strict=True):
        torch.testing.assert_close(a + b, whole)


def test_a_config_has_the_sizes() -> None:
    module = pytest.importorskip("torch") and bound("llama").to_torch()
    config = pickle.loads(pickle.dumps(module)).config
    assert config.model_type == "llama" and config.hidden_size == 8
    assert config.to_dict() == dict(module.config) and config.get("nope") is None
    assert not hasattr(config, "nope") and json.loads(config.to_json_string()) == config
    assert module.dtype.is_floating_point and module.device.type == "cpu"


def test_a_tied_weight_is_saved_once() -> None:
    torch = pytest.importorskip("torch")
    one, two = bound("gpt2").to_torch(), bound("gpt2").to_torch()
    state = one.state_dict()
    assert len({x.data_ptr() for x in state.values()}) == len(state)
    two.load_state_dict(state)
    t = ids(2, 4)
    assert torch.equal(one(t), two(t)) and two.W_E is two.W_E_linear.weight


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("t5", ("input_ids",), "T5 needs its input s beside input_ids"),
        ("bert", ("input_ids", "labels"), "BERT has no loss with targets that labels could be"),
        ("gpt2", ("labels",), "give input_ids, with attention_mask and labels by their names"),
    ],
)
def test_what_does_not_fit_is_said(name: str, given: tuple[str, ...], said: str) -> None:
    module = pytest.importorskip("torch") and bound(name).to_torch()
    with pytest.raises(VieteError, match=said):
        module(**dict.fromkeys(given, ids(2, 4)))


def test_a_card_of_real_inputs_takes_no_ids() -> None:
    pytest.importorskip("torch")
    text = BLANKS.replace("$t ∈ \\{0, …, V-1\\}^n$", "$u ∈ ℝ^{n×d}$").replace("E[t]", "u")
    module = vt.read(text.replace("| $E$ | $V × d$ | normal(1) |\n", "")).to_torch()
    with pytest.raises(VieteError, match="Blanks reads no token ids that input_ids could be"):
        module(input_ids=ids(2, 4))


def test_masks_that_do_not_fit_are_said() -> None:
    module = pytest.importorskip("torch") and bound("gpt2").to_torch()
    for mask, said in {ids(2, 3): "has shape", 0 * ids(2, 4): "a text without a token"}.items():
        with pytest.raises(VieteError, match=said):
            module(ids(2, 4), attention_mask=mask)


@pytest.mark.slow
def test_the_trainer_of_transformers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("accelerate")
    hf = pytest.importorskip("transformers")
    module = bound("gpt2").to_torch()
    texts = [{"input_ids": t, "attention_mask": torch.ones_like(t), "labels": t} for t in ids(8, 6)]
    options = {"max_steps": 3, "save_steps": 3, "report_to": [], "use_cpu": True}
    trainer = hf.Trainer(
        module, hf.TrainingArguments(str(tmp_path), **options), train_dataset=texts
    )
    assert trainer.train().global_step == 3
    assert (tmp_path / "checkpoint-3" / "model.safetensors").exists()
