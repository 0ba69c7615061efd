"""A card as a PyTorch module: its equations, its gradients, and what people do with modules."""

from __future__ import annotations

import copy
import io
import math
import socket
import traceback
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.code.exported import CARDS, bound, loss_of, made_inputs, made_weights
from tests.evaluate.evaluated import EvaluatedGradients
from viete.code.body import measured
from viete.code.prepared import prepared
from viete.errors import VieteError
from viete.train.dropout import with_masks
from viete.train.fitting import with_loss
from viete.train.metrics import read_metrics
from viete.train.module import source
from viete.train.setup import make_engine

torch = pytest.importorskip("torch")

from viete.train.sharded import blocks_of  # noqa: E402


@cache
def made(card: str) -> Any:
    """The module in float64, its weights, and three sequences."""
    p = prepared(bound(card), loss_of(card), backward=False)
    weights, one = made_weights(p.model), made_inputs(p.model)
    batch = {k: np.stack([v, v[::-1], np.roll(v, 1)]) for k, v in one.items()}
    return p, bound(card).to_torch(weights, loss_of(card)), weights, batch


def called(module: Any, inputs: dict[str, Any]) -> Any:
    return module(**{module.arguments[k]: torch.as_tensor(v.copy()) for k, v in inputs.items()})


def near(a: Any, b: Any, scale: float = 1.0) -> bool:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max()) <= 1e-12 * max(scale, 1)


@pytest.mark.parametrize("card", CARDS)
def test_logits_loss_and_gradients_are_the_card_s(card: str) -> None:
    p, module, weights, batch = made(card)
    module.zero_grad()
    output, loss = called(module, batch)
    loss.backward()
    wanted, gradients = EvaluatedGradients(p.model, p.loss.key)(None, weights, **batch)
    run = p.model.run(None, weights, **batch)
    assert near(output.detach(), run[p.output.key], np.abs(run[p.output.key]).max())
    assert near(loss.detach(), wanted, abs(float(wanted)))
    scale = max(np.abs(g).max() for g in gradients.values())
    assert gradients.keys() == module.weights().keys()
    for name, g in module.gradients().items():
        found = np.zeros(gradients[name].shape) if g is None else g
        assert near(found, gradients[name], scale), name


def test_a_loss_of_its_own_is_the_mean_over_the_batch() -> None:
    """Also one in which a cross-entropy is a part, and with weights of the positions."""
    old, y = r"\operatorname{cross\_entropy}(\mathrm{logits}; y)", "- $y "
    text = bound("dialog-transformer").write()
    assert old in text and y in text
    weighted = text.replace(old, "weighted_loss(logits; y, w)")
    weighted = weighted.replace(y, f"- $w ∈ ℝ^n$: what a position counts\n{y}")
    for new in weighted, text.replace(old, f"{old}^2 + sum(b_{{out}}^2) {old}"):
        model = vt.read(new)
        weights, batch = made_weights(model), dict(made("dialog-transformer")[3])
        if new == weighted:
            batch["w"] = np.random.default_rng(0).random((3, 5))
        module = model.to_torch(weights, mean="texts")
        wanted, _ = EvaluatedGradients(model)(None, weights, **batch)
        assert near(called(module, batch)[1].detach(), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("card", CARDS)
def test_dynamo_takes_the_whole_graph(card: str) -> None:
    _, module, _, batch = made(card)
    whole = torch.compile(module, fullgraph=True, backend="eager")
    assert near(called_with(whole, module, batch), called(module, batch)[1].detach())
    torch.compiler.reset()


def called_with(compiled: Any, module: Any, batch: dict[str, Any]) -> Any:
    given = {module.arguments[k]: torch.as_tensor(v.copy()) for k, v in batch.items()}
    return compiled(**given)[1].detach()


@pytest.mark.slow
def test_torch_compile() -> None:
    _, module, _, batch = made("attention-only-1")
    found = called_with(torch.compile(module), module, batch)
    assert near(found, called(module, batch)[1].detach())


@pytest.mark.parametrize("card", ["gpt2", "llama", "dialog-transformer"])
def test_bfloat16_by_autocast(card: str) -> None:
    _, module, _, batch = made(card)
    module = copy.deepcopy(module).float()
    with torch.autocast("cpu", torch.bfloat16):
        loss = called(module, batch)[1]
    loss.backward()
    exact = float(called(made(card)[1], batch)[1].detach())
    assert 0 < abs(float(loss.detach()) - exact) < 0.03 * abs(exact)
    assert all(p.grad is None or p.grad.dtype == torch.float32 for p in module.parameters())


@pytest.mark.parametrize("card", ["gpt2", "llama", "pythia", "bert", "dialog-transformer"])
def test_attention_is_one_call_of_the_kernel(card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one block, for all heads: those of Llama share keys and values in groups."""
    kernel, calls = torch.nn.functional.scaled_dot_product_attention, []

    def counted(*arrays: Any, **options: Any) -> Any:
        calls.append(options)
        return kernel(*arrays, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    p, module, _, batch = made(card)
    assert p.model.export("torch").count("scaled_dot_product_attention(") == 1
    called(module, batch)
    assert len(calls) == p.model.sizes.get("N", 1)
    assert all(c.get("enable_gqa", False) == (card == "llama") for c in calls)


def test_a_table_that_is_read_elsewhere_is_not_fused_away() -> None:
    text = bound("gpt2").write()
    for old, new in (
        (r"$a^i = \sum_{h}", r"$a^i = \sum_{h} A^{i,h} A^{i,h}"),
        (r"= \operatorname{softmax}(", r"= 2 \operatorname{softmax}("),
        (r"{\sqrt{d_k}}))", r"{\sqrt{d_k}}) + W_P[:n] {W_P[:n]}^\top)"),
    ):
        assert old in text
        model = vt.read(text.replace(old, new))
        assert "scaled_dot" not in model.export("torch")
        weights, batch = made("gpt2")[2], made("gpt2")[3]
        wanted = model.run(batch["t"], weights)["logits"]
        found = model.to_torch(weights)(torch.as_tensor(batch["t"].copy())).detach()
        assert near(found, wanted, np.abs(wanted).max())


def test_values_read_after_they_changed_are_not_fused() -> None:
    """x is another block's by the time that A is used."""
    card = """
# Late
## Dimensions
| symbol | value | meaning |
| --- | --- | --- |
| $V$ | 7 | |
| $d$ | 4 | |
| $N$ | 2 | |
| $n$ | $≤ 6$ | |
## Inputs
- $t ∈ \\{0, …, V-1\\}^n$: tokens
## Parameters
| symbol | shape | init | meaning |
| --- | --- | --- | --- |
| $E$ | $V × d$ | normal(1) | |
| $W^i$ | $d × d$ | normal(1) | |
## Forward pass
1. $x^0 = E[t]$
For $i = 1, …, N$:
2. $A^i = softmax(causal(x^{i-1} {x^{i-1}}^⊤))$
3. $v^i = x^{i-1} W^i$
4. $x^i = 2 v^i$
5. $y^i = A^i v^i$
6. $logits = x^N E^⊤ + y^N E^⊤$
"""
    model = vt.read(card)
    weights = made_weights(model)
    tokens = np.array([[1, 5, 2, 6]])
    module = model.to_torch(weights)
    assert near(module(torch.as_tensor(tokens)).detach(), model.run(tokens, weights)["logits"], 100)


def test_state_dict_deepcopy_and_pickle() -> None:
    _, module, weights, batch = made("gpt2")
    other = bound("gpt2").to_torch().double()
    assert all(name.isidentifier() for key in other.state_dict() for name in key.split(".")
               if not name.isdigit())  # fmt: skip
    other.load_state_dict(module.state_dict())
    for name, w in other.weights().items():
        assert np.array_equal(w.detach(), weights[name])
    wanted = called(module, batch)[1].detach()
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    for twin in other, copy.deepcopy(module), torch.load(file, weights_only=False):
        assert type(twin) is type(module)
        assert torch.equal(called(twin, batch)[1].detach(), wanted)
    with torch.no_grad():
        copy.deepcopy(module).weights()["W_E"].zero_()
    assert torch.equal(called(module, batch)[1].detach(), wanted)


@pytest.mark.parametrize("card", CARDS)
def test_a_text_beyond_the_context_is_refused(card: str) -> None:
    p, module, _, batch = made(card)
    for length in p.model.lengths:
        most = int(p.model.greatest[length])
        item, _ = measured(length, p.model.inputs)
        given = {**batch, item.name: np.zeros((3, most + 1), int)}
        said = f"{module.arguments[item.name]} is {most + 1} long, and .* is at most {most}"
        with pytest.raises(ValueError, match=said):
            called(module, given)


@pytest.mark.parametrize("card", ["gpt2", "t5", "transformer-2017"])
def test_a_turn_of_a_loop_is_the_call_of_a_block(card: str) -> None:
    """Hooks, activation checkpoints and FSDP2 work at such calls."""
    from torch.utils.checkpoint import checkpoint

    _, module, _, batch = made(card)
    module = copy.deepcopy(module)
    blocks = blocks_of(module)
    lists = [x for x in module.children() if isinstance(x, torch.nn.ModuleList)]
    assert len(blocks) == sum(map(len, lists)) > 1
    assert len(lists) == (1 if card == "gpt2" else 2)  # an encoder's, and a decoder's
    own = {id(p) for block in blocks for p in block.parameters()}
    assert {id(p) for x in lists for p in x.parameters()} == own
    seen: list[Any] = []
    for block in blocks:
        block.register_forward_hook(lambda block, given, out: seen.append((block, out)))
    loss = called(module, batch)[1]
    loss.backward()
    assert [block for block, _ in seen] == blocks
    wanted = {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}
    module.zero_grad()
    for block in blocks:
        inner = block.forward
        block.forward = lambda *x, inner=inner: checkpoint(inner, *x, use_reentrant=False)
    called(module, batch)[1].backward()
    for name, p in module.named_parameters():
        assert p.grad is None or torch.equal(p.grad, wanted[name])


def test_blocks_that_keep_their_values_stay_in_the_nets_forward() -> None:
    """A later equation reads x of every block: they are a dictionary, and no block is called."""
    text = vt.read("attention-only-2").bind(V=7, d=8, H=2, N=3).write()
    last = next(line for line in text.splitlines() if "logits" in line and line[0].isdigit())
    kept = vt.read(text.replace(last, last.replace("x^N", "(x^1 + x^N)")))
    weights = made_weights(kept)
    module = kept.to_torch(weights)
    assert "x[i]" in source(module) and not blocks_of(module)
    tokens = np.array([3, 1, 4])
    assert near(module(torch.as_tensor(tokens)).detach(), kept.run(tokens, weights)["logits"])


def test_it_is_a_module_like_any_other() -> None:
    _, module, _, batch = made("gpt2")
    assert isinstance(module, torch.nn.Module)
    twin = copy.deepcopy(module).to(torch.float32)
    assert {w.dtype for w in twin.weights().values()} == {torch.float32}
    tokens = torch.as_tensor(batch["t"].copy())
    wanted = twin.train()(tokens)
    assert wanted.dtype == torch.float32 and torch.equal(twin.eval()(tokens), wanted)
    assert next(twin.to("meta").parameters()).is_meta


def test_accelerate() -> None:
    """The loop of `accelerate`'s documentation gives the steps of one by hand."""
    accelerate = pytest.importorskip("accelerate", reason="no accelerate here")
    model = vt.read("gpt2").bind(V=50, d=32, H=4, N=2, n_max=16)
    texts = torch.randint(0, 50, (12, 17), generator=torch.Generator().manual_seed(0))
    ends = []
    for ready in False, True:
        module = model.to_torch(model.initial_weights(0))
        adam = torch.optim.AdamW(module.parameters())
        loader: Any = torch.utils.data.DataLoader(texts, batch_size=4)
        backward = torch.Tensor.backward
        if ready:
            accelerator = accelerate.Accelerator(cpu=True)
            module, adam, loader = accelerator.prepare(module, adam, loader)
            backward, module = accelerator.backward, accelerator.unwrap_model(module)
        for text in loader:
            backward(module(text[:, :-1], text[:, 1:])[1])
            adam.step()
            adam.zero_grad()
        ends.append(module.weights())
    for name, w in ends[0].items():
        assert torch.equal(w, ends[1][name])


def test_weights_are_drawn_as_the_card_says() -> None:
    torch.manual_seed(0)
    model = vt.read("gpt2").bind(V=500, d=32, H=2, N=2, n_max=16)
    drawn, own = model.to_torch().weights(), model.initial_weights()
    assert drawn.keys() == own.keys()
    for name, w in drawn.items():
        assert tuple(w.shape) == own[name].shape
        assert abs(float(w.detach().std(correction=0)) - own[name].std()) < 0.004, name


def test_bad_weights_get_a_sentence() -> None:
    model = bound("gpt2")
    weights = made_weights(model)
    for change, said in (
        ({"W_X": weights["W_E"]}, "has no weight W_X"),
        ({"W_E": weights["W_E"][1:]}, "W_E has shape"),
        ({"W_E": weights["W_E"].astype("int64")}, "W_E is not an array of real numbers"),
        ({"W_E": "these"}, "W_E is not an array of real numbers"),
    ):
        with pytest.raises(VieteError, match=said):
            model.to_torch({**weights, **change})
    del weights["gamma"]
    with pytest.raises(VieteError, match="a weight gamma, which is not given"):
        model.to_torch(weights)


def test_a_traceback_shows_the_line() -> None:
    _, module, _, _ = made("gpt2")
    module = copy.deepcopy(module)
    module.W_P.data = module.W_P.data[:, 1:]
    try:
        module(torch.full((1, 5), 1))
    except RuntimeError as error:
        assert "x = self.W_E[t] + self.W_P[:n]" in "".join(traceback.format_exception(error))
    else:
        raise AssertionError("positions of another width were taken")


def test_ddp_of_one_process() -> None:
    dist = torch.distributed
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("PyTorch was built without gloo")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    try:
        _, module, _, batch = made("gpt2")
        module.zero_grad()
        called(module, batch)[1].backward()
        twin = copy.deepcopy(module)
        twin.zero_grad()
        wrapped = torch.nn.parallel.DistributedDataParallel(twin)
        given = {module.arguments[k]: torch.as_tensor(v.copy()) for k, v in batch.items()}
        wrapped(**given)[1].backward()
        del wrapped  # before the group that it is of
        for a, b in zip(module.parameters(), twin.parameters(), strict=True):
            assert torch.allclose(a.grad, b.grad, rtol=0, atol=1e-14)
    finally:
        dist.destroy_process_group()


# -- the engine ------------------------------------------------------------------------------------


def dropping() -> Any:
    text = bound("gpt2").write()
    new = text.replace("LN}(y^i;", "LN}(dropout(y^i; 0.2);").replace(
        "A^{i,h} V^{i,h}", "dropout(A^{i,h} V^{i,h}; 0.1)", 1)  # fmt: skip
    assert new.count("dropout") == 2
    return with_loss(vt.read(new))


def test_the_engine_is_the_planned_one_to_rounding() -> None:
    card = dropping()
    masks = with_masks(card)
    weights = made_weights(card)
    one, two = (make_engine(kind, masks.model, card, weights) for kind in ("numpy", "module"))
    rng = np.random.default_rng(3)
    for k in range(2):  # gradients do not pile up
        tokens, targets = rng.integers(0, 11, (2, 3, 5))
        given = {"y" if "y" in {i.name for i in card.inputs} else "target": targets}
        given |= masks.draw(0, k, 5, 3, "float64")
        assert near(one(tokens, **given), two(tokens, **given))
        assert one.weights.keys() == two.weights.keys()
        for name, g in one.gradients.items():
            assert near(g, two.gradients[name]), name
        # The order of flat is each engine's own.
        assert near(np.sort(one.flat_gradient), np.sort(two.flat_gradient))
        two.flat -= 0.1 * two.flat_gradient  # the parameters are views
        one.flat -= 0.1 * one.flat_gradient
        plain = {k: v for k, v in given.items() if not k.startswith("D")}
        assert near(one.evaluate(tokens, **plain), two.evaluate(tokens, **plain))


def test_a_run_with_it(tmp_path: Path) -> None:
    from tests.train.test_loop import losses, trained

    more = {"dtype": "float64", "accumulate": 2, "steps": 6}
    trained(tmp_path / "numpy", **more)
    trained(tmp_path / "module", engine="module", **more)
    assert near(losses(tmp_path / "numpy"), losses(tmp_path / "module"))
    trained(tmp_path / "half", engine="module", bf16=True, steps=6, accumulate=2)
    found = losses(tmp_path / "half")
    assert 0 < max(abs(a - b) for a, b in zip(found, losses(tmp_path / "numpy"), strict=True)) < 0.1
    assert [r["step"] for r in read_metrics(tmp_path / "half") if "loss" in r] == list(range(1, 7))
    with pytest.raises(VieteError, match="--bf16 needs --engine module"):
        trained(tmp_path / "none", bf16=True)


def test_weights_that_cannot_be_written_are_copied_without_a_warning() -> None:
    model = vt.read("dialog-transformer")
    weights = model.initial_weights(0)
    for w in weights.values():
        w.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = model.to_torch(weights)
    np.testing.assert_array_equal(module.weights()["W_Q"].detach(), weights["W_Q"])


@pytest.mark.parametrize("kind", ["torch", "module"])
def test_an_engine_takes_arrays_that_cannot_be_written_without_a_warning(kind: str) -> None:
    model = vt.read("dialog-transformer")
    weights, tokens = model.initial_weights(0), np.array([[1, 2, 3]])
    for array in (*weights.values(), tokens):
        array.flags.writeable = False
    torch.set_warn_always(True)  # not once a process
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine = make_engine(kind, model, model, weights)
            assert math.isfinite(engine.evaluate(tokens, y=tokens))
    finally:
        torch.set_warn_always(False)
