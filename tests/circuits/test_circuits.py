"""A circuit is what a model computes with the edges outside of it at their means."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.ask.card_claims import check_claims
from viete.circuits.card import live_edges
from viete.circuits.confirming import THRESHOLDS, Trials
from viete.circuits.edges import Wiring
from viete.circuits.findings import CircuitFindings
from viete.circuits.numbers import CircuitNumbers
from viete.circuits.search import Circuits
from viete.errors import VieteError
from viete.evaluate.schedule import program
from viete.notation.printer import show
from viete.notation.tree import num
from viete.nouns.searching import Searching
from viete.text.vocabulary import Characters, save_vocabulary

torch = pytest.importorskip("torch")

OF = "logits_{-1,3}"
SIZES = {"d": 8, "V": 11, "N": 2, "H": 2, "n_max": 9}
SMALL = {
    "attention-only-2": {},
    "gpt2": {},
    "pythia": {"ρ": "1/2"},
    "llama": {"G": 1, "d_f": 6},
    "gemma2": {"G": 1, "d_f": 6, "d_k": 4, "d_q": 4, "w": 3},
}
Tensor = Any
See = Callable[[str, Mapping[str, Tensor], Tensor], Tensor]  # what a reader sees of the writers


def small(name: str, **more: int) -> Any:
    """A shipped card with small dimensions, and weights of which none is 0."""
    card = vt.read(name)
    own = {d.name for d in card.dims if not (d.value is not None and "/" in show(d.value))}
    sizes = {k: v for k, v in {**SIZES, **SMALL[name], **more}.items() if k in own | {"ρ", "rho"}}
    card = card.bind(**sizes)
    draw = np.random.default_rng(1)
    return card.with_weights({
        n: draw.normal(0, 0.6, s) for n, s in card.parameter_shapes.items()
    })  # fmt: skip


def texts() -> list[np.ndarray]:
    """Texts of two lengths."""
    draw = np.random.default_rng(0)
    return [draw.integers(0, 11, n) for n in (4, 4, 6, 6, 6)]


class ByHand:
    """The models in PyTorch, with an input of its own for each reader.

    Embeddings are ``part`` of the way from their ``mean``.
    """

    part, mean, neurons = 1.0, None, 0

    def __init__(self, name: str, model: Any) -> None:
        self.name, self.card = name, model.card
        self.weights = {n: torch.tensor(w) for n, w in model.weights.items()}

    def norm(self, x: Tensor, label: str) -> Tensor:
        w = self.weights
        if self.name == "attention-only-2":
            return x
        scale = w["gamma" + label]
        eps = float(self.card.sizes["epsilon"])
        if self.name in ("gpt2", "pythia"):
            x = x - x.mean(-1, keepdim=True)
            return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * scale + w["beta" + label]
        scale = 1 + scale if self.name == "gemma2" else scale
        return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * scale

    def turned(self, x: Tensor) -> Tensor:
        if self.name in ("attention-only-2", "gpt2"):
            return x
        count = x.shape[-1] // 2 if self.name == "pythia" else x.shape[-1]
        half = count // 2
        freq = float(self.card.sizes["theta"]) ** (-torch.arange(half).double() * 2 / count)
        angle = torch.arange(x.shape[-2]).double()[:, None] * freq
        a, b, rest = x[..., :half], x[..., half:count], x[..., count:]
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def project(self, x: Tensor, label: str, i: int, head: str, at: tuple[int, ...]) -> Tensor:
        out = x @ self.weights[f"W_{label}^{{{i},{head}}}"][at]
        bias = self.weights.get(f"b_{label}^{{{i},{head}}}")
        return out if bias is None else out + bias[at]

    def pattern(self, q: Tensor, k: Tensor, i: int) -> Tensor:
        s = q @ k.mT
        if self.name != "attention-only-2":
            s = s / q.shape[-1] ** 0.5
        place = torch.arange(s.shape[-1])
        hidden = place[None] > place[:, None]
        if self.name == "gemma2":
            cap = float(self.card.sizes["c_A"])
            s = cap * torch.tanh(s / cap)
            if i % 2 == 1:
                hidden = hidden | (place[:, None] - place[None] >= SMALL["gemma2"]["w"])
        return s.masked_fill(hidden, -torch.inf).softmax(-1)

    def mlp(self, x: Tensor, i: int, u: slice = slice(None)) -> Tensor:
        w, act = self.weights, torch.nn.functional
        if self.name in ("llama", "gemma2"):
            gate = x @ w[f"W_G^{i}"][:, u]
            gate = act.silu(gate) if self.name == "llama" else act.gelu(gate, approximate="tanh")
            return (gate * (x @ w[f"W_1^{i}"][:, u])) @ w[f"W_2^{i}"][u]
        approximate = "tanh" if self.name == "gpt2" else "none"
        inner = act.gelu(x @ w[f"W_1^{i}"][:, u] + w[f"b_1^{i}"][u], approximate=approximate)
        out = inner @ w[f"W_2^{i}"][u]
        return out if u != slice(None) else out + w[f"b_2^{i}"]

    def logits(self, ids: np.ndarray, see: See) -> Tensor:
        w, out = self.weights, dict[str, Tensor]()
        out["x^0"] = w["W_E"][ids]
        if self.part < 1:
            mean = self.mean[: ids.shape[-1]]
            out["x^0"] = mean + self.part * (out["x^0"] - mean)
        fixed = torch.zeros_like(out["x^0"])
        if self.name == "gemma2":
            out["x^0"] = out["x^0"] * SIZES["d"] ** 0.5
        if self.name == "gpt2":
            fixed = fixed + w["W_P"][: ids.shape[-1]]
        grouped = self.name in ("llama", "gemma2")
        post = self.name == "gemma2"
        for i in (1, 2):
            before, fixed_before, heads = dict(out), fixed, dict[str, Tensor]()
            for h in (1, 2):
                at = (0, h - 1) if grouped else (h - 1,)
                own = f"{{{i},1,{h}}}" if grouped else f"{{{i},{h}}}"
                shared = f"{{{i},1}}" if grouped else own
                parts = {}
                for label, name in (("Q", own), ("K", shared), ("V", shared)):
                    x = self.norm(see(f"{label}^{name}", before, fixed_before), f"_A^{i}")
                    one = grouped and label != "Q"
                    head = ("g" if one else "g,r") if grouped else "h"
                    parts[label] = self.project(x, label, i, head, at[:1] if one else at)
                q, k = self.turned(parts["Q"]), self.turned(parts["K"])
                write = f"W_O^{{{i},g,r}}" if grouped else f"W_O^{{{i},h}}"
                base = "r" if self.name == "attention-only-2" else "o" if post else "a"
                heads[f"{base}^{own}"] = self.pattern(q, k, i) @ parts["V"] @ w[write][at]
            if post:
                zero = torch.zeros_like(fixed)
                out[f"a^{i}"] = self.norm(see(f"a^{i}", heads, zero), f"_Aout^{i}")
            else:
                out |= heads
            if f"b_O^{i}" in w:
                fixed = fixed + w[f"b_O^{i}"]
            if self.name == "attention-only-2":
                continue
            parallel = self.name == "pythia"
            reader = f"f^{i}" if post else f"m^{i}"
            if self.neurons:
                seen = dict(before if parallel else out), fixed_before if parallel else fixed
                for u in range(self.neurons):
                    x = self.norm(see(f"m^{{{i},{u + 1}}}", *seen), f"_M^{i}")
                    out[f"m^{{{i},{u + 1}}}"] = self.mlp(x, i, slice(u, u + 1))
                fixed = fixed + w.get(f"b_2^{i}", 0)
                continue
            x = see(reader, before if parallel else out, fixed_before if parallel else fixed)
            m = self.mlp(self.norm(x, f"_M^{i}"), i)
            out[f"m^{i}"] = self.norm(m, f"_Mout^{i}") if post else m
        x = self.norm(see("logits", out, fixed), "")
        found = x @ (w["W_U"] if "W_U" in w else w["W_E"].T)
        if post:
            found = self.capped(found, float(self.card.sizes["c_U"]))
        return found

    def capped(self, found: Tensor, cap: float) -> Tensor:
        return cap * torch.tanh(found / cap)


def means_by_hand(model: ByHand, given: Sequence[np.ndarray]) -> dict[str, Tensor]:
    """The mean of each writer at each position, over the texts that have it."""
    total: dict[str, Tensor] = {}
    count = torch.zeros(max(map(len, given)), 1).double()
    for ids in given:
        found: dict[str, Tensor] = {}

        def see(
            reader: str, writers: Mapping[str, Tensor], fixed: Tensor, found: Any = found
        ) -> Tensor:
            found.update(writers)
            return sum(writers.values()) + fixed

        model.logits(ids, see)
        count[: len(ids)] += 1
        for name, value in found.items():
            total.setdefault(name, torch.zeros(len(count), value.shape[1]).double())
            total[name][: len(ids)] += value
    return {name: value / count for name, value in total.items()}


@pytest.mark.parametrize("name", [*SMALL, "neurons of llama", "neurons of pythia"])
def test_a_circuit_is_the_model_with_the_other_edges_at_their_means(name: str) -> None:
    nodes, name = ("neurons" if "neurons" in name else "heads"), name.split()[-1]
    model = small(name, d_f=6) if nodes == "neurons" else small(name)
    given = texts()
    circuits = Circuits(model.card, model.weights, OF, given, nodes=nodes)
    hand = ByHand(name, model)
    hand.neurons = 6 if nodes == "neurons" else 0
    means = means_by_hand(hand, given)
    draw = np.random.default_rng(2)
    for share in (1.0, 0.6, 0.2, 0.0):
        kept = {e for e in circuits.edges if draw.random() < share}
        names = {(show(e.writer), show(e.reader)) for e in kept}
        met: set[tuple[str, str]] = set()

        def see(reader: str, writers: Mapping[str, Tensor], fixed: Tensor,
                names: Any = names, met: Any = met) -> Tensor:  # fmt: skip
            met |= {(w, reader) for w in writers}
            seen = [v if (w, reader) in names else means[w][: len(v)] for w, v in writers.items()]
            return sum(seen) + fixed

        found, weights = circuits.circuit(kept)
        values = circuits.each(found.card, weights)
        wanted = [float(hand.logits(ids, see)[-1, 3]) for ids in given]
        np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-10)
        assert met == {(show(e.writer), show(e.reader)) for e in circuits.edges}
        again = vt.read(vt.Card.of(found.card).write())
        assert again == vt.Card.of(found.card)


@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_a_circuit_of_positions_is_the_model_with_the_other_rows_at_their_means(name: str) -> None:
    model = small(name)
    given = [x for x in texts() if len(x) == 6]
    of = "logits_{-1,3}^2 + logits_{2,5}"
    circuits = Circuits(model.card, model.weights, of, given, positions=True)
    whole = Circuits(model.card, model.weights, of, given)
    assert len(circuits.edges) == 6 * len(whole.edges)
    hand = ByHand(name, model)
    means = means_by_hand(hand, given)
    draw = np.random.default_rng(2)
    for share in (1.0, 0.5):
        kept = {e for e in circuits.edges if draw.random() < share}
        names = {(show(e.writer), show(e.reader), e.position) for e in kept}

        def see(reader: str, writers: Mapping[str, Tensor], fixed: Tensor,
                names: Any = names) -> Tensor:  # fmt: skip
            out = fixed.clone()
            for w, value in writers.items():
                on = torch.tensor([[(w, reader, j) in names] for j in range(6)])
                out = out + torch.where(on, value, means[w])
            return out

        found, weights = circuits.circuit(kept)
        logits = [hand.logits(ids, see) for ids in given]
        wanted = [float(y[-1, 3] ** 2 + y[2, 5]) for y in logits]
        np.testing.assert_allclose(circuits.each(found.card, weights), wanted, rtol=0, atol=1e-10)
    assert vt.read(vt.Card.of(found.card).write()) == vt.Card.of(found.card)
    np.testing.assert_allclose(circuits.measured(circuits.edges), circuits.of_model, atol=1e-12)
    for edge in whole.edges:
        rows = [circuits.scores[replace(edge, position=j)] for j in range(6)]
        assert sum(rows) == pytest.approx(whole.scores[edge], abs=1e-12)
    for edge, lost in circuits.exact(circuits.edges[7::80]).items():
        rest = circuits.measured({*circuits.edges} - {edge})
        assert lost == pytest.approx((circuits.of_model - rest).mean(), abs=1e-10)


def test_what_a_circuit_of_positions_is_held_against_is_a_card(tmp_path: Path) -> None:
    model, of = small("attention-only-2"), "logits_{-1,3}^2"
    given = [x.tolist() for x in texts() if len(x) == 6]
    circuits = model.circuits(of, given, positions=True)
    edges = circuits.largest(9)
    assert len(edges) == 9
    runs, weights = circuits.beside(edges)
    card = vt.Card.of(runs.made.card)
    others = {*circuits.edges} - {*edges}
    wanted = [circuits.of_model, circuits.of_none, circuits.measured(edges)]
    wanted += [circuits.measured(others)]
    wanted += [circuits.measured({*edges} - {e}) for e in edges]
    found = [card.run(ids, weights=weights)[show(runs.number.member)] for ids in given]
    np.testing.assert_allclose(np.array(found).T, wanted, rtol=0, atol=1e-10)
    file = tmp_path / "texts.jsonl"
    file.write_text("\n".join(json.dumps({"text": ids}) for ids in given))
    model.circuit(of, file, edges=5, positions=True).save(tmp_path / "circuit.md")
    assert vt.load(tmp_path / "circuit.md").check().claims.ok
    with pytest.raises(VieteError, match=r"4 to 6 tokens long; .*one length"):
        model.circuits(of, texts(), positions=True)
    with pytest.raises(VieteError, match="positions are 0 to 5"):
        circuits.measured([replace(edges[0], position=6)])


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_scores_are_autograd_of_split_inputs_and_exact_ones_are_patches(name: str) -> None:
    model = small(name)
    given = texts()
    circuits = Circuits(model.card, model.weights, OF, given)
    hand = ByHand(name, model)
    means = means_by_hand(hand, given)
    wanted = scores_by_hand(hand, given, means)
    for edge, score in circuits.scores.items():
        assert score == pytest.approx(wanted[show(edge.writer), show(edge.reader)], abs=1e-10)
    for edge, lost in circuits.exact(circuits.edges[::9]).items():
        rest = circuits.measured({*circuits.edges} - {edge})
        assert lost == pytest.approx((circuits.of_model - rest).mean(), abs=1e-10)


@pytest.mark.parametrize("name", SMALL)
def test_what_a_circuit_is_held_against_is_a_card(name: str) -> None:
    model = small(name)
    circuits = Circuits(model.card, model.weights, OF, texts())
    edges = circuits.edges[::7]
    runs, weights = circuits.beside(edges)
    card = vt.Card.of(runs.made.card)
    assert vt.read(card.write()) == card
    others = {*circuits.edges} - {*edges}
    wanted = [circuits.of_model, circuits.of_none, circuits.measured(edges)]
    wanted += [circuits.measured(others)]
    wanted += [circuits.measured({*edges} - {e}) for e in edges[:2]]
    found = [card.run(ids, weights=weights)[show(runs.number.member)] for ids in texts()]
    count = len(wanted)
    np.testing.assert_allclose(np.array(found).T[:count], wanted, rtol=0, atol=1e-10)


class RelevantByHand(ByHand):
    """With what is held detached, products by half, and activations as ratios."""

    def norm(self, x: Tensor, label: str) -> Tensor:
        w = self.weights
        if self.name == "attention-only-2":
            return x
        eps, scale = float(self.card.sizes["epsilon"]), w["gamma" + label]
        if self.name in ("gpt2", "pythia"):
            x = x - x.mean(-1, keepdim=True)
            x = x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt().detach()
            return x * scale + w["beta" + label]
        scale = 1 + scale if self.name == "gemma2" else scale
        return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt().detach() * scale

    def pattern(self, q: Tensor, k: Tensor, i: int) -> Tensor:
        return super().pattern(q, k, i).detach()

    def mlp(self, x: Tensor, i: int) -> Tensor:
        w, act = self.weights, torch.nn.functional
        if self.name in ("llama", "gemma2"):
            gate, up = x @ w[f"W_G^{i}"], x @ w[f"W_1^{i}"]
            y = act.silu(gate) if self.name == "llama" else act.gelu(gate, approximate="tanh")
            y = gate * (y / gate).detach()
            return ((y * up.detach() + y.detach() * up) / 2) @ w[f"W_2^{i}"]
        approximate = "tanh" if self.name == "gpt2" else "none"
        z = x @ w[f"W_1^{i}"] + w[f"b_1^{i}"]
        ratio = (act.gelu(z, approximate=approximate) / z).detach()
        return (z * ratio) @ w[f"W_2^{i}"] + w[f"b_2^{i}"]

    def capped(self, found: Tensor, cap: float) -> Tensor:
        return found * (super().capped(found, cap) / found).detach()


@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_relevances_are_those_of_pytorch_with_the_rules_by_hand(name: str) -> None:
    model = small(name)
    given = texts()
    circuits = Circuits(model.card, model.weights, OF, given, score="relevance")
    hand = RelevantByHand(name, model)
    wanted = scores_by_hand(hand, given, means_by_hand(hand, given))
    for edge, score in circuits.scores.items():
        assert score == pytest.approx(wanted[show(edge.writer), show(edge.reader)], abs=1e-10)


def test_scores_of_several_steps_are_integrated_gradients() -> None:
    model = small("pythia")
    given = texts()
    circuits = Circuits(model.card, model.weights, OF, given, steps=2)
    hand = ByHand("pythia", model)
    means = means_by_hand(hand, given)
    each = []
    for hand.part in (0.25, 0.75):
        hand.mean = means["x^0"]
        each.append(scores_by_hand(hand, given, means))
    for edge, score in circuits.scores.items():
        key = show(edge.writer), show(edge.reader)
        assert score == pytest.approx((each[0][key] + each[1][key]) / 2, abs=1e-10)


def scores_by_hand(
    hand: ByHand, given: Sequence[np.ndarray], means: Mapping[str, Tensor]
) -> dict[tuple[str, str], float]:
    """How far each writer is from its mean, times the slope of each reader's own input."""
    scores: dict[tuple[str, str], float] = {}
    part = hand.part
    for ids in given:
        clean: dict[str, Tensor] = {}
        seen: list[tuple[str, Tensor, list[str]]] = []  # keys of a group twice

        def look(reader: str, writers: Mapping[str, Tensor], fixed: Tensor,
                 clean: Any = clean) -> Tensor:  # fmt: skip
            clean.update(writers)
            return sum(writers.values()) + fixed

        def see(reader: str, writers: Mapping[str, Tensor], fixed: Tensor,
                seen: Any = seen) -> Tensor:  # fmt: skip
            x = (sum(writers.values()) + fixed).requires_grad_()
            x.retain_grad()
            seen.append((reader, x, [*writers]))
            return x

        hand.part = 1.0
        hand.logits(ids, look)
        hand.part = part
        hand.logits(ids, see)[-1, 3].backward()
        for reader, x, writers in seen:
            slope = torch.zeros_like(x) if x.grad is None else x.grad
            for w in writers:
                away = clean[w] - means[w][: len(slope)]
                found = float((away * slope).sum()) / len(given)
                scores[w, reader] = scores.get((w, reader), 0.0) + found
    return scores


def test_confirmed_edges_are_what_a_threshold_leaves() -> None:
    model = small("attention-only-2")
    circuits = Circuits(model.card, model.weights, OF, texts())
    some, span = circuits.largest(6), abs(np.subtract(*circuits.ends))
    for k, found in enumerate(Trials(circuits, some).pruned()):
        if k % 5:
            continue
        left, now = [*some], circuits.measured(some).mean()
        for edge in reversed(some):
            other = circuits.measured({*left} - {edge}).mean()
            if abs(other - now) < THRESHOLDS[k] * span:
                left.remove(edge)
                now = other
        assert found == live_edges(circuits.wiring, left)
    first, best = (abs(circuits.measured(x).mean() - circuits.of_model.mean())
                   for x in (circuits.largest(3), circuits.confirmed(3)))  # fmt: skip
    assert best <= first and len(circuits.confirmed(3)) <= 3
    assert circuits.largest(10**6) == circuits.edges


def test_a_card_without_neurons_is_refused() -> None:
    with pytest.raises(VieteError, match="has no neurons"):
        small("attention-only-2").circuits(OF, [[3, 1, 4]], nodes="neurons")


def test_a_card_without_a_residual_stream_has_no_edges() -> None:
    card = vt.read("simple-transformer")
    root = next(e.left for e in card.equations if e.name == "logits")
    with pytest.raises(VieteError, match="has no residual stream"):
        Wiring(program(card), [root])


def test_a_claim_may_be_about_all_texts_together() -> None:
    model = small("attention-only-2")
    given = texts()
    each = [model.run(ids)["logits"][-1, 3] for ids in given]
    number = "mean_{texts}(logits_{-1,3})"
    for offset, ok in ((0.0, True), (0.01, False)):
        value = np.mean(each) + offset
        found = model.check(f"{number} ≈ {value:.9f} within 0.000001", texts=given)
        assert found.ok is ok
    assert model.check("max_{texts}(logits_{-1,3}) > " + f"{sorted(each)[-2]:.9f}", texts=given).ok
    with pytest.raises(VieteError, match="one number"):
        model.check("mean_{texts}(logits_{-1}) ≥ 0", texts=given)


def test_a_number_may_name_tokens_that_texts_bring_along(tmp_path: Path) -> None:
    model = small("attention-only-2")
    given, draw = texts(), np.random.default_rng(4)
    pairs = draw.integers(0, 11, (len(given), 2)).tolist()
    some = [{"text": x.tolist(), "answer": a, "wrong": b}
            for x, (a, b) in zip(given, pairs, strict=True)]  # fmt: skip
    of = "logits_{-1,answer} - logits_{-1,wrong}"
    circuits = model.circuits(of, some)
    last = [model.run(ids)["logits"][-1] for ids in given]
    wanted = [y[a] - y[b] for y, (a, b) in zip(last, pairs, strict=True)]
    np.testing.assert_allclose(circuits.of_model, wanted, rtol=0, atol=1e-12)
    file = tmp_path / "pairs.jsonl"
    file.write_text("\n".join(map(json.dumps, some)))
    circuit = model.circuit(of, file, edges=8)
    assert circuit.check().claims.ok
    file.write_text(file.read_text().replace('"wrong"', '"wrnog"', 1))
    with pytest.raises(VieteError, match=r"pairs.jsonl:1:1: the question uses wrong"):
        circuit.check()
    file.write_text('{"text": [3, 1, 4]}')
    with pytest.raises(VieteError, match=r"1:1: the question uses answer, .* write it beside"):
        circuit.check(texts=file)
    with pytest.raises(VieteError, match="the question uses answer"):
        circuit.check(texts=[[3, 1, 4]])


def test_a_circuit_is_a_model_whose_claims_hold(tmp_path: Path) -> None:
    model = small("attention-only-2")
    of = r"\sum_{j=0}^{n-2} logsoftmax(logits_j)[t_{j+1}] / (n - 1)"
    circuit = model.circuit(of, "random(6)", edges=4)
    circuit.save(tmp_path / "circuit")
    again = vt.load(tmp_path / "circuit")
    found = again.check().claims
    assert found.ok and len(found.verdicts) == 1 + 2 + 2 + 4
    circuit.save(tmp_path / "circuit.md")
    assert vt.load(tmp_path / "circuit.md").check().claims.ok
    there = tmp_path / "circuit.md"
    asked = ("circuit", tmp_path / "circuit", "--of", of, "--texts", "random(6)", "-o", there)
    assert f"{there}: is a file; give another name" in viete(*asked, code=2).err
    done = viete(*asked[:-1], tmp_path / "new.md").err
    assert [Path(x.split(": ")[1]).name for x in done.splitlines() if x.startswith("written")] == [
        "new.md", "new.safetensors", "new-edges.md", "new-edges.safetensors",
    ]  # fmt: skip
    changed = vt.load(tmp_path / "circuit.md").evidence
    changed.weights["W_E"] = 2 * changed.weights["W_E"]
    assert not check_claims(changed.card, changed.weights).ok
    (tmp_path / "circuit-edges.md").unlink()
    with pytest.raises(VieteError, match="no such model beside it"):
        vt.load(tmp_path / "circuit.md").check()
    one = [3, 1, 4]
    np.testing.assert_allclose(again.run(one)["logits"], circuit.run(one)["logits"], atol=1e-12)
    search = model.circuits(of, "random(6)")
    assert search.sweep([0, len(search.edges)]) == pytest.approx([0, 1])
    with pytest.raises(VieteError, match="nothing to explain"):
        model.circuits("0 logits_{-1,3}", "random(6)").sweep([3])
    with pytest.raises(VieteError, match="one number of each text"):
        model.circuits("logits_{-1}", "random(6)")


def test_a_circuit_has_circuits() -> None:
    """Its means are means of means, and the patterns of a head that reads none of a text."""
    of, circuit = "logsoftmax(logits_{-2})[t_{-1}]", vt.load("two-layers")
    for edges in (9, 5, 5):
        circuits = circuit.circuits(of, "repeated(8)")
        chosen = circuits.largest(edges)
        exact = circuits.exact(chosen)
        assert max(exact.values()) > 0.5 and [*exact] == [*chosen]
        circuit = circuit.circuit(of, "repeated(8)", edges=chosen)
    assert circuits.sweep([len(circuits.edges)]) == pytest.approx([1])
    assert {"M2", "mu"} <= {s.base for s in circuit.card.symbols.values()}


@pytest.mark.parametrize(
    "asked",
    [
        ("circuit", "two-layers", "--of", "logits_{-1,3}", "--texts", "random(4)", "-o"),
        ("probe", "two-layers", "--of", "x^1_{-1}", "--label", "t_0", "--texts", "random(4)", "-o"),
    ],
)
def test_another_tokenizer_is_found_before_the_search(
    asked: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_vocabulary(Characters(["a", "b"]), tmp_path / "tokenizer.json")
    for search in ("circuits", "probes"):
        monkeypatch.setattr(Searching, search, lambda *_, **__: pytest.fail("searched"))
    err = viete(*asked, tmp_path / "found.md", code=2).err
    assert "tokenizer.json: is another tokenizer; write to another folder" in err


def test_little_to_explain_is_said() -> None:
    def said(span: float) -> str:
        model, none = np.array([3.0, -3.0, 3.0, -3.0]) + span, np.zeros(4)
        numbers = CircuitNumbers(model, none, model, none, {})
        found = CircuitFindings(of=num(1), texts="4 texts", count=0, edges=(), numbers=numbers,
                                estimates={}, exact={}, score="gradient")  # fmt: skip
        return str(found)

    error = np.std([3, -3, 3, -3], ddof=1) / 2
    assert "There is little to explain" in said(1.9 * error)
    assert "There is little to explain" not in said(2.1 * error)
