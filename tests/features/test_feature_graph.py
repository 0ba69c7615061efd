"""Feature graphs against PyTorch's autograd on a network written by hand, and their JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from tests.laws.strategies import tiny
from viete.evaluate.run import Run
from viete.features.graph import EMBEDDING, TARGET
from viete.features.search import feature_graph
from viete.model.coders import Coder, Coders, coders_of, read_coders
from viete.report.attribution_json import attribution_json, read_attribution

torch = pytest.importorskip("torch")
D, F, N, SIZES = 8, 10, 3, {"d": 8, "N": 3, "H": 2, "V": 11, "d_f": 12, "n_max": 16}
TEXT, TOKEN = [3, 1, 4, 1, 5], 7


def random_coders(rng: np.random.Generator, kind: str) -> Coders:
    blocks = {}
    for k in range(N):
        back = (F, N - k, D) if kind == "across" else (F, D)
        arrays = {"W_enc": rng.normal(size=(D, F)), "b_enc": rng.normal(size=F),
                  "W_dec": rng.normal(size=back), "b_dec": rng.normal(size=D)}  # fmt: skip
        if kind == "jumprelu":
            arrays["threshold"] = abs(rng.normal(size=F))
        if kind == "skip":
            arrays["W_skip"] = rng.normal(size=(D, D))
        blocks[k] = Coder(arrays, Path(kind), 3 if kind == "topk" else 0)
    return Coders(blocks, across=kind == "across")


def replaced(name: str, kind: str) -> vt.Model:
    """A small random model in which features stand for the MLPs."""
    card = vt.read(name).bind(**{k: v for k, v in SIZES.items() if k in vt.read(name).symbols})
    if name == "gemma2":
        card = card.bind(d_k=4, G=1)
    rng = np.random.default_rng(3)
    w = card.initial_weights(seed=1)
    model = card.with_weights({k: a + 0.3 * rng.normal(size=a.shape) for k, a in w.items()})
    return model.put(random_coders(rng, kind))


def by_hand(name: str, run: Run, w: dict[str, Any], across: bool) -> dict[str, Any]:
    """The network with patterns, scales, features and errors given, in PyTorch."""

    def t(a: object) -> Any:
        return torch.as_tensor(np.array(a, dtype=float))

    def norm(x: Any, scale: str, gain: str, shift: str) -> Any:
        if name == "gemma2":
            return (
                (1 + t(w[gain])) * x / t(run[scale]).reshape(-1, 1)
                if gain
                else x / t(run[scale]).reshape(-1, 1)
            )
        y = (x - x.mean(-1, keepdim=True)) / t(run[scale]).reshape(-1, 1)
        return y * t(w[gain]) + t(w[shift]) if gain else y

    leaf = lambda a: t(a).requires_grad_()  # noqa: E731
    out = {"x": leaf(run["x^0"]), "f": [leaf(run[f"feature^{i}"]) for i in range(1, N + 1)],
           "e": [leaf(run[f"error^{i}"]) for i in range(1, N + 1)], "pre": []}  # fmt: skip
    x = out["x"]
    for k, i in enumerate(range(1, N + 1)):
        u = norm(x, f"scale_A^{i}", f"gamma_A^{i}", f"beta_A^{i}")
        a = 0
        for h in range(2):
            wv = next(w[n] for n in w if n.startswith(f"W_V^{{{i}"))
            v = u @ t(wv[min(h, len(wv) - 1)])
            if name == "gpt2":
                v = v + t(w[f"b_V^{{{i},h}}"][h])
            wo = next(w[n] for n in w if n.startswith(f"W_O^{{{i}"))
            a = a + t(run[f"A^{{{i},{h + 1}}}"]) @ v @ t(wo.reshape(2, -1, D)[h])
        a = a + t(w[f"b_O^{i}"]) if name == "gpt2" else norm(
            a, f"scale_Aout^{i}", f"gamma_Aout^{i}", "")  # fmt: skip
        y = x + a
        read = norm(y, f"scale_M^{i}", "", "")
        out["pre"].append(read @ t(w[f"W_enc^{i}"]) + t(w[f"b_enc^{i}"]))
        m = t(w[f"b_dec^{i}"]) + out["e"][k]
        if f"W_skip^{i}" in w:
            m = m + read @ t(w[f"W_skip^{i}"])
        for j in range(k + 1) if across else [k]:
            back = w[f"W_dec^{{{j + 1},l}}"][k] if across else w[f"W_dec^{i}"]
            m = m + out["f"][j] @ t(back)
        x = y + m
    last = norm(x, "scale", "gamma", "beta")[-1]
    u = t(w["W_E"][TOKEN])
    out["number"] = last @ u
    return out


@pytest.mark.parametrize(
    ("name", "kind"),
    [("gpt2", "relu"), ("gpt2", "across"), ("gemma2", "jumprelu"), ("gemma2", "skip"),
     ("gpt2", "topk")],
)  # fmt: skip
def test_edges_are_those_of_autograd(name: str, kind: str) -> None:
    model = replaced(name, kind)
    run = model.run(TEXT)
    hand = by_hand(name, run, dict(model.weights), kind == "across")
    graph = feature_graph(run, f"⟨U_{TOKEN}, norm(x^N_{{-1}})⟩", top=10**6, nodes=20)
    sources = [hand["x"], *hand["f"], *hand["e"]]
    explained = {t for _, t, _ in graph.edges}
    assert len(explained) > 5
    for target in explained:
        node = graph.nodes[target]
        number = (
            hand["number"]
            if node.kind == TARGET
            else (hand["pre"][node.block - 1][node.position, node.feature])
        )  # type: ignore[operator]
        slopes = torch.autograd.grad(number, sources, retain_graph=True, allow_unused=True)
        wanted = {}
        for k, (s, g) in enumerate(zip(sources, slopes, strict=True)):
            if g is None:
                continue
            share = (s * g).detach().numpy()
            if 1 <= k <= N:
                wanted |= {("feature", k, *at): share[at] for at in np.ndindex(*share.shape)}
            else:
                key = (EMBEDDING, None) if k == 0 else ("error", k - N)
                wanted |= {(*key, j, None): v for j, v in enumerate(share.sum(-1))}
        found = {(s.kind, s.block, s.position, s.feature): v
                 for a, b, v in graph.edges if b == target for s in [graph.nodes[a]]}  # fmt: skip
        assert all(abs(v) < 1e-9 for key, v in wanted.items() if key not in found)
        for key, v in found.items():
            assert v == pytest.approx(wanted[key], abs=1e-9), key


def test_a_feature_set_to_a_value_is_a_put() -> None:
    """What an edge says is lost is lost, where all else that is given stays."""
    model = replaced("gpt2", "jumprelu")
    run = model.run(TEXT)
    of = f"logits_{{-1,{TOKEN}}}"
    graph = feature_graph(run, of, top=10**6, nodes=0)
    s, _, weight = next(e for e in graph.edges if graph.nodes[e[0]].kind == "feature")
    node = graph.nodes[s]
    given = ["A^{i,h}", "scale_A^i", "scale_M^i", "scale", "error^i"]
    place = f"feature^{node.block}_{{{node.position},{node.feature}}}"
    given += [f"feature^{k}" for k in range(node.block + 1, N + 1)]  # type: ignore[operator]
    without = model.cut(*given, values=run).put(f"{place} = 0")
    assert without.run(TEXT)[of] == pytest.approx(float(run[of]) - weight, abs=1e-9)


def test_an_expansion_has_each_feature_once_and_the_errors() -> None:
    for kind in ("jumprelu", "across"):
        run = replaced("gpt2", kind).run(TEXT)
        e = run.expand(f"⟨U_{TOKEN}, norm(x^N_{{-1}})⟩", "feature")
        assert sum(t.value for t in e) == pytest.approx(float(e.total))
        last = [t for t in e.terms if t.label.startswith("block 3")]
        active = int((run["feature^3"][-1] > 0).sum())
        assert sum("error" in t.label for t in last) == 1
        if kind == "jumprelu":
            assert sum("feature" in t.label for t in last) == active


def test_graphs_are_written_and_read(tmp_path: Path) -> None:
    graph = feature_graph(replaced("gpt2", "across").run(TEXT), f"logits_{{-1,{TOKEN}}}", top=40)
    text = attribution_json(graph)
    again = read_attribution(text)
    assert attribution_json(again).count("node_id") == len(graph.nodes)
    assert [(e[0], e[1]) for e in again.edges] == [(e[0], e[1]) for e in graph.edges]
    assert [(x.kind, x.block, x.position, x.feature) for x in again.nodes] == [
        (x.kind, x.block, x.position, x.feature) for x in graph.nodes
    ]
    (logit,) = (x for x in json.loads(text)["nodes"] if x["feature_type"] == "logit")
    assert logit["node_id"] == f"{N + 1}_{TOKEN}_4" and 0 < logit["token_prob"] < 1
    twice = json.loads(text)
    twice["nodes"].append(twice["nodes"][0])
    with pytest.raises(vt.VieteError, match="two nodes"):
        read_attribution(json.dumps(twice))
    broken = json.loads(text)
    del broken["nodes"][0]["clerp"]
    with pytest.raises(vt.VieteError, match="node 0 of the graph has no clerp"):
        read_attribution(json.dumps(broken))


def test_layouts_of_files(tmp_path: Path) -> None:
    """GemmaScope, SAELens and circuit-tracer hold the same features in their own ways."""
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    coder = random_coders(rng, "jumprelu").blocks
    for k, c in coder.items():
        a = dict(c.arrays)
        turned = {**a, "W_enc": np.ascontiguousarray(a["W_enc"].T)}
        single = {**turned, "activation_function.threshold": turned["threshold"]}
        del single["threshold"]
        scope = tmp_path / f"scope/layer_{k}/width_16k/average_l0_9"
        scope.mkdir(parents=True)
        np.savez(scope / "params.npz", **a)
        (tmp_path / "tracer").mkdir(exist_ok=True)
        save_file(single, tmp_path / f"tracer/layer_{k}.safetensors")
        two = {{"W_enc": "w_enc", "W_dec": "w_dec"}.get(n, n): v for n, v in a.items()}
        (tmp_path / f"scope2/layer_{k}").mkdir(parents=True)
        save_file(two, tmp_path / f"scope2/layer_{k}/params.safetensors")
        (tmp_path / "clt").mkdir(exist_ok=True)
        enc = {f"{n}_{k}": v for n, v in turned.items() if n != "W_dec"}
        save_file(enc, tmp_path / f"clt/W_enc_{k}.safetensors")
        across = np.zeros((F, N - k, D))
        across[:, 0] = a["W_dec"]
        save_file({f"W_dec_{k}": across}, tmp_path / f"clt/W_dec_{k}.safetensors")
        lens = tmp_path / f"lens/layer_{k}"
        lens.mkdir(parents=True)
        save_file(a, lens / "sae_weights.safetensors")
        hooks = {"hook_name": f"blocks.{k}.ln2.hook_normalized",
                 "hook_name_out": f"blocks.{k}.hook_mlp_out"}  # fmt: skip
        config = {"architecture": "jumprelu_transcoder", "d_in": D, "metadata": hooks}
        (lens / "cfg.json").write_text(json.dumps(config))
    card = vt.read("gpt2").bind(**SIZES)
    model = card.with_weights(card.initial_weights(seed=1))
    runs = [
        model.put(read_coders(tmp_path / x)).run(TEXT)
        for x in ("scope", "tracer", "clt", "lens", "scope2")
    ]
    for run in runs:
        np.testing.assert_allclose(run["logits"], model.run(TEXT)["logits"], atol=1e-9)
        for k in range(1, N + 1):
            np.testing.assert_allclose(run[f"error^{k}"], runs[0][f"error^{k}"], atol=1e-9)
    (tmp_path / "clt/config.yaml").write_text('feature_input_hook: "hook_resid_mid"\nscan: x\n')
    assert read_coders(tmp_path / "clt").reads == "hook_resid_mid"
    save_file({**a, "r_mag": a["b_enc"]}, tmp_path / "other.safetensors")
    with pytest.raises(vt.VieteError, match="an unknown array r_mag"):
        read_coders(tmp_path / "other.safetensors", block=0)
    sae = tmp_path / "lens/layer_1/cfg.json"
    sae.write_text(json.dumps({"architecture": "pursuit", "hook_name": "blocks.1.hook_resid_post"}))
    with pytest.raises(vt.VieteError, match="features of the kind pursuit"):
        read_coders(sae.parent)
    sae.write_text(
        json.dumps({"architecture": "jumprelu", "hook_name": "blocks.1.hook_resid_post"})
    )
    one = model.put(read_coders(sae.parent))
    assert one.run(TEXT)["logits"] == pytest.approx(model.run(TEXT)["logits"], abs=1e-9)
    graph = feature_graph(one.run(TEXT), "logits_{-1,7}")
    assert {x.block for x in graph.nodes if x.kind == "feature"} == {2}
    before = json.dumps({"architecture": "jumprelu", "hook_name": "blocks.1.hook_resid_pre"})
    sae.write_text(before)  # which block 1 makes, as the card counts
    other = model.put(read_coders(sae.parent)).run(TEXT)
    assert other["logits"] == pytest.approx(model.run(TEXT)["logits"], abs=1e-9)
    x = np.asarray(model.run(TEXT)["x^1"])
    pre = (x - other["b_dec^1"]) @ other["W_enc^1"] + other["b_enc^1"]
    np.testing.assert_allclose(other["pre^1"], pre, rtol=1e-9)
    assert np.ptp(other["feature^2"]) == 0
    sae.write_text(before.replace("s.1.", "s.0."))
    with pytest.raises(vt.VieteError, match="features of block 0, counted from 0, replace a value"):
        model.put(read_coders(sae.parent))


@pytest.mark.parametrize(
    ("name", "reads"), [("phi", "u^i"), ("olmo2", "y^i"), ("mixtral", "v^i"), ("opt", "v^i")]
)
def test_features_in_other_families(name: str, reads: str) -> None:
    """Parallel blocks, norms behind, experts: the model computes what it did."""
    rng = np.random.default_rng(5)
    card = tiny(name)
    d, blocks = int(card.sizes["d"]), int(card.sizes["N"])
    shapes = {"W_enc": (d, 6), "b_enc": (6,), "W_dec": (6, d), "b_dec": (d,)}
    arrays = [{k: rng.normal(size=s) for k, s in shapes.items()} for _ in range(blocks)]
    model = card.with_weights(card.initial_weights(seed=1))
    each = {k: Coder(a, Path(name)) for k, a in enumerate(arrays)}
    run = model.put(Coders(each, reads, "m^i")).run([1, 2, 0])
    np.testing.assert_allclose(run["logits"], model.run([1, 2, 0])["logits"], atol=1e-9)
    graph = feature_graph(run, "logits_{-1,1}", top=10**6, nodes=2)
    kinds = {graph.nodes[s].kind for s, _, _ in graph.edges}
    assert {"feature", "error", EMBEDDING} <= kinds


def test_the_command_draws_and_writes_features(tmp_path: Path) -> None:
    for k, coder in random_coders(np.random.default_rng(1), "jumprelu").blocks.items():
        (tmp_path / f"coders/layer_{k}").mkdir(parents=True)
        np.savez(tmp_path / f"coders/layer_{k}/params.npz", **coder.arrays)
    card = vt.read("gpt2").bind(**SIZES)
    folder = card.with_weights(card.initial_weights(seed=1)).save(tmp_path / "model")
    base = ["expand", folder, "--put", tmp_path / "coders", "-t", "3,1,4", "--of", "logits_{-1,7}"]
    options = ["--into", "feature", "--graph", "--top", "12"]
    found = read_attribution(viete(*base, *options, "--json").out)
    assert len(found.edges) == 12
    for name in ("graph.svg", "again.svg"):
        viete(*base, *options, "-o", tmp_path / name)
    drawn = (tmp_path / "graph.svg").read_text()
    assert (tmp_path / "again.svg").read_text() == drawn  # to the last letter
    assert drawn.count('class="arrow"') - drawn.count("stroke-dasharray") <= 12
    assert "of all sizes" in drawn  # what leads to a node besides is folded
    given = [*base[:2], "--put", f"m^i = {tmp_path / 'coders'}(v^i)", *base[4:]]
    options = ["--into", "feature", "--graph", "--top", "1000", "--json"]
    whole = read_attribution(viete(*given, *options).out)
    assert read_attribution(viete(*base, *options).out).edges == whole.edges
    sizes = [x for name, size in SIZES.items() for x in ("--set", f"{name}={size}")]
    for weights in (["--seed", "1"], ["--weights", folder / "model.safetensors"]):  # not a model's
        other = viete("expand", "gpt2", *sizes, *weights, *base[2:], *options).out
        np.testing.assert_allclose(read_attribution(other).edges, whole.edges)
    at = next(x for x in whole.nodes if x.kind == "feature" and x.block == 2)
    set_to_0 = f"feature^2_{{{at.position},{at.feature}}} = 0"
    changed = read_attribution(viete(*given, *options, "--cut", "error^i", "--put", set_to_0).out)
    assert {e[2] for e in whole.edges} != {e[2] for e in changed.edges}
    places = {(x.block, x.position, x.feature) for x in changed.nodes if x.kind == "feature"}
    assert (2, at.position, at.feature) not in places


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x^9 = FILE(x^9)", "x^9 is in no block: the blocks are 1 to 3"),
        ("x^2 = FILE(x^3)", "features of block 2 read x^3, which belongs to a later block"),
        ("FILE", "does not say its block"),
        ("x^2 = FILE.npz(x^2)", "there is no file or folder"),
    ],
)
def test_where_features_stand(text: str, message: str, tmp_path: Path) -> None:
    """What is put as an equation says of which block a file is, and what is wrong with that."""
    arrays = random_coders(np.random.default_rng(1), "jumprelu").blocks[0].arrays
    np.savez(tmp_path / "sae.npz", **arrays)
    card = vt.read("gpt2").bind(**SIZES)
    one = coders_of(f"x^2 = {tmp_path / 'sae.npz'}(x^2)")
    assert one is not None and "where(i = 2, decoded^i" in card.put(one).write("text").replace(
        "ⁱ", "^i"
    )
    assert coders_of("A^{2,1} = Q^{2,1} K^T / sqrt(d)") is None
    with pytest.raises(vt.VieteError, match=re.escape(message)):
        card.put(coders_of(text.replace("FILE", str(tmp_path / "sae.npz"))))
