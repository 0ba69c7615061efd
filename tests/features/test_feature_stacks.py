"""Features of an encoder, of an encoder and its decoder, and of cards that were changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from viete.analysis.features import features_of
from viete.evaluate.run import Run
from viete.features.graph import TARGET, FeatureGraph
from viete.features.search import feature_graph
from viete.model.coders import Coder, Coders
from viete.report.attribution_json import attribution_json, read_attribution
from viete.report.drawing.arrows import arrows_svg

torch = pytest.importorskip("torch")
D, F, TOKEN = 8, 6, 5
SIZES = {"V": 11, "d": D, "N": 2, "H": 2, "d_f": 12}


def t(a: object) -> Any:
    return torch.as_tensor(np.array(a, dtype=float))


def coders(reads: str, writes: str, seed: int = 0, blocks: int = 2) -> Coders:
    rng = np.random.default_rng(seed)
    shapes = {"W_enc": (D, F), "b_enc": (F,), "W_dec": (F, D), "b_dec": (D,)}
    each = {
        k: Coder({n: rng.normal(size=s) for n, s in shapes.items()}, Path("random"))
        for k in range(blocks)
    }
    return Coders(each, reads, writes)


def model_of(name: str, *features: Coders, **sizes: Any) -> vt.Model:
    card = vt.read(name).bind(**SIZES, **sizes)
    rng = np.random.default_rng(3)
    w = {k: a + 0.3 * rng.normal(size=a.shape) for k, a in card.initial_weights(seed=1).items()}
    return card.with_weights(w).put(*features)


class Hand:
    """A network by hand: what is given are leaves, by their names, and what is read is kept."""

    def __init__(self, run: Run, weights: Any) -> None:
        self.run, self.w, self.leaves, self.read = run, weights, {}, {}

    def leaf(self, name: str) -> Any:
        return self.leaves.setdefault(name, t(self.run[name]).requires_grad_())

    def heads(self, x: Any, pattern: str, v: str, o: str, bias: str = "") -> Any:
        out = 0
        for h in range(2):
            value = x @ t(self.w[v][h]) + (t(self.w[bias][h]) if bias else 0)
            out = out + t(self.run[pattern.replace("h", str(h + 1))]) @ value @ t(
                self.w[o].reshape(2, -1, D)[h])  # fmt: skip
        return out

    def coded(self, x: Any, label: str, i: int) -> Any:
        enc, low = (f"{{enc,{label[1:]}}}", label) if label else ("enc", "")
        self.read[f"feature{low}^{i}"] = x @ t(self.w[f"W_{enc}^{i}"]) + t(self.w[f"b_{enc}^{i}"])
        dec = enc.replace("enc", "dec")
        features, error = self.leaf(f"feature{low}^{i}"), self.leaf(f"error{low}^{i}")
        return features @ t(self.w[f"W_{dec}^{i}"]) + t(self.w[f"b_{dec}^{i}"]) + error


def bert(hand: Hand) -> Any:
    run, w = hand.run, hand.w

    def norm(x: Any, at: str) -> Any:
        x = (x - x.mean(-1, keepdim=True)) / t(run[f"scale_{at}"]).reshape(-1, 1)
        return x * t(w[f"gamma_{at}"]) + t(w[f"beta_{at}"])

    x = hand.leaf("x^0")
    for i in (1, 2):
        a = hand.heads(x, f"A^{{{i},h}}", f"W_V^{{{i},h}}", f"W_O^{{{i},h}}", f"b_V^{{{i},h}}")
        u = norm(x + a + t(w[f"b_O^{i}"]), f"A^{i}")
        x = norm(u + hand.coded(u, "", i), f"M^{i}")
    return x[1] @ t(w["W_E"][TOKEN])


def t5(hand: Hand) -> Any:
    run, w = hand.run, hand.w

    def norm(x: Any, scale: str, gain: str) -> Any:
        return x / t(run[scale]).reshape(-1, 1) * t(w[gain])

    x = hand.leaf("x_e^0")
    for i in (1, 2):
        u = norm(x, f"scale_{{A,e}}^{i}", f"gamma_{{1,e}}^{i}")
        names = (f"A_e^{{{i},h}}", f"W_{{V,e}}^{{{i},h}}", f"W_{{O,e}}^{{{i},h}}")
        x = x + hand.heads(u, *names)
        x = x + hand.coded(norm(x, f"scale_{{M,e}}^{i}", f"gamma_{{2,e}}^{i}"), "_e", i)
    z, x = norm(x, "scale_e", "gamma_e"), hand.leaf("x^0")
    for i in (1, 2):
        u = norm(x, f"scale_A^{i}", f"gamma_1^{i}")
        x = x + hand.heads(u, f"A^{{{i},h}}", f"W_V^{{{i},h}}", f"W_O^{{{i},h}}")
        x = x + hand.heads(z, f"A_c^{{{i},h}}", f"W_{{V,c}}^{{{i},h}}", f"W_{{O,c}}^{{{i},h}}")
        x = x + hand.coded(norm(x, f"scale_M^{i}", f"gamma_2^{i}"), "", i)
    return norm(x, "scale", "gamma")[-1] @ t(w["W_E"][TOKEN]) / D**0.5


def check(graph: FeatureGraph, hand: Hand, number: Any) -> None:
    explained = {b for _, b, _ in graph.edges}
    assert len(explained) > 5
    for target in explained:
        node, row = graph.nodes[target], graph.nodes[target].name.partition("_{")[2]
        read = number
        if node.kind != TARGET:
            name, _, row = node.name.rpartition("_{")
            read = hand.read[name][tuple(map(int, row[:-1].split(",")))]
        leaves = list(hand.leaves.items())
        slopes = torch.autograd.grad(
            read, [x for _, x in leaves], retain_graph=True, allow_unused=True
        )
        wanted = {}
        for (name, x), g in zip(leaves, slopes, strict=True):
            share = np.zeros(x.shape) if g is None else (x * g).detach().numpy()
            share = share if name.startswith("feature") else share.sum(-1)
            wanted |= {f"{name}_{{{','.join(map(str, at))}}}": share[at]
                       for at in np.ndindex(*share.shape) if abs(share[at]) > 1e-12}  # fmt: skip
        found = {graph.nodes[a].name: v for a, b, v in graph.edges if b == target}
        assert found == pytest.approx(wanted, abs=1e-9)


def test_edges_in_an_encoder_are_those_of_autograd() -> None:
    model = model_of("bert", coders("u^i", "m^i"), n_max=8)
    run = model.run([3, 1, 4, 1])
    graph = feature_graph(run, f"⟨W_E[{TOKEN}], x^N_1⟩", top=10**6, nodes=12)
    hand = Hand(run, dict(model.weights))
    check(graph, hand, bert(hand))


def test_edges_through_an_encoder_and_its_decoder_are_those_of_autograd() -> None:
    features = coders("v_e^l", "m_e^l"), coders("v^i", "m^i", 1)
    model = model_of("t5", *features, d_k=4, N_e=2)
    run = model.run([3, 1, 4, 1], t=[0, 4, 5])
    graph = feature_graph(run, f"logits_{{-1,{TOKEN}}}", top=10**6, nodes=20)
    hand = Hand(run, dict(model.weights))
    check(graph, hand, t5(hand))
    assert graph.blocks == 4 and list(graph.ids) == [3, 1, 4, 1, 0, 4, 5]
    again = read_attribution(attribution_json(graph))
    assert [(x.kind, x.block, x.position) for x in again.nodes] == [
        (x.kind, x.block, x.position) for x in graph.nodes
    ]
    assert ">l = 2<" in arrows_svg(graph.arrows())


def test_features_have_any_names() -> None:
    """A card with features says the same with other names, and the graph is the same."""
    model = model_of("gpt2", coders("v^i", "m^i"), n_max=8)
    card = model.card.write("md")
    for old, new in {"feature": "z", "decoded": "r", "error": "w", "pre": "q"}.items():
        card = card.replace(rf"\mathrm{{{old}}}^i", f"{new}^i")
    other = vt.read(card).with_weights(dict(model.weights))
    (found,) = features_of(other.card)
    assert [x.base for x in (found.feature, found.error)] == ["z", "w"]
    runs = model.run([3, 1, 4]), other.run([3, 1, 4])
    mine, theirs = (feature_graph(run, "logits_{-1,5}", top=30) for run in runs)
    assert mine.edges == theirs.edges
    assert {x.name[0] for x in theirs.nodes} == {"z", "w", "x", "l"}


def test_the_graph_of_a_changed_feature() -> None:
    """Its edges are those with the new value, which nothing made."""
    model = model_of("gpt2", coders("v^i", "m^i"), n_max=8)
    run = model.run([3, 1, 4])
    before = feature_graph(run, "logits_{-1,5}")
    at, weight = next((x, w) for s, t, w in before.edges
                      if (x := before.nodes[s]).kind == "feature" and t == 0)  # fmt: skip
    given = "A^{i,h}", "scale_A^i", "scale_M^i", "scale", "error^i"
    changed = model.cut(*given, values=run).put(f"{at.name} = {2 * at.value}").run([3, 1, 4])
    graph = feature_graph(changed, "logits_{-1,5}", top=10**6, nodes=100)
    places = [(x.kind, x.block, x.position, x.feature) for x in graph.nodes]
    k = places.index((at.kind, at.block, at.position, at.feature))
    assert graph.nodes[k].value == pytest.approx(2 * at.value)
    assert all(target != k for _, target, _ in graph.edges)
    assert [w for s, t, w in graph.edges if (s, t) == (k, 0)] == [pytest.approx(2 * weight)]


def test_what_is_given_has_a_name() -> None:
    """A norm without a name would let derivatives through, so that edges would not add up."""
    card = vt.read("gpt2").bind(**SIZES, n_max=8).write("md")
    lines = [x for x in card.splitlines() if not x.startswith(r"- $\mathrm{scale}_A")]
    bare = vt.read("\n".join(lines))
    model = bare.with_weights(bare.initial_weights(seed=1)).put(coders("v^i", "m^i"))
    with pytest.raises(vt.VieteError, match="the scale of a norm without a name"):
        feature_graph(model.run([3, 1, 4]), "logits_{-1,5}")
