"""Edges of features beside those of circuit-tracer, which has them from PyTorch's hooks.

    python -m benchmarks.circuit_tracer

in an environment of its own with ``pip install circuit-tracer`` (0.5.0). Small random networks of
`transformers` get random transcoders in circuit-tracer's files, which both read. All edges into all
features that lead to the target are compared but those at the first position, where circuit-tracer
takes no features. It is given double precision. Each then reads the other's JSON.
"""

from __future__ import annotations

import json
import tempfile
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

import viete as vt
from benchmarks.transformer_lens import FAMILIES, Family, lens, network
from viete.features.graph import EMBEDDING, TARGET, FeatureGraph
from viete.features.search import feature_graph
from viete.model.coders import read_coders
from viete.report.attribution_json import attribution_json, read_attribution

F, TOKEN, TEXT = 40, 5, [0, 7, 3, 9, 4, 1, 8, 2]
KINDS = {"ReLU": (False, False), "JumpReLU": (True, False), "skip": (False, True)}
Key = tuple[str, int | None, int, int | None]


def shifted(drawn: Any, name: str, layers: int) -> Any:
    """Random weights, with few features active.

    The first features never are: circuit-tracer names the errors of its files as these.
    """
    if name == "b_enc":
        drawn = drawn - 0.5
        drawn[..., :layers] = -100.0
    return drawn


def transcoders(layers: int, d: int, jump: bool, skip: bool, folder: Path) -> Any:
    """Random transcoders of circuit-tracer, saved in its layout."""
    single = import_module("circuit_tracer.transcoder.single_layer_transcoder")
    gates = import_module("circuit_tracer.transcoder.activation_functions")
    generator = torch.Generator().manual_seed(0)
    each = {}
    for k in range(layers):
        gate = gates.JumpReLU(torch.full((F,), 0.5, dtype=torch.float64), 0.1)
        made = single.SingleLayerTranscoder(
            d, F, gate if jump else torch.nn.functional.relu, k, skip, dtype=torch.float64
        )
        for name, p in made.named_parameters():
            if "threshold" not in name:
                drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64)
                p.data = shifted(0.3 * drawn, name, layers)
        each[k] = made
    found = single.TranscoderSet(each, "ln2.hook_normalized", "hook_mlp_out", scan="random")
    found.to_safetensors(str(folder))
    return found


def cross_layer(layers: int, d: int, folder: Path) -> Any:
    """A random cross-layer transcoder of circuit-tracer, saved in its layout."""
    across = import_module("circuit_tracer.transcoder.cross_layer_transcoder")
    made = across.CrossLayerTranscoder(
        layers, F, d, lazy_decoder=False, dtype=torch.float64, scan="random",
        feature_input_hook="ln2.hook_normalized",
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for name, p in made.named_parameters():
        drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64)
        p.data = shifted(0.3 * drawn, name, layers)
    made.to_safetensors(str(folder))
    return made


def replaced(net: Any, family: Family, features: Any) -> Any:
    """The network as circuit-tracer's replacement model, with a tokenizer of numbers."""
    there = import_module("circuit_tracer.replacement_model.replacement_model_transformerlens")
    plain = lens(net, family, process=False)
    model = there.TransformerLensReplacementModel(plain.cfg)
    model.load_state_dict(plain.state_dict(), strict=False)
    for block, other in zip(model.blocks, plain.blocks, strict=True):
        block.attn.rotary_sin, block.attn.rotary_cos = other.attn.rotary_sin, other.attn.rotary_cos
    model._configure_replacement_model(features)
    model.tokenizer = SimpleNamespace(
        all_special_ids=[0],
        vocab_size=net.config.vocab_size,
        padding_side="right",
        decode=lambda ids: f"<{ids}>",
    )
    return model


def edges_there(graph: Any) -> dict[tuple[Key, Key], float]:
    """The edges of a graph of circuit-tracer, by their ends."""
    layers, n = graph.cfg.n_layers, graph.n_pos
    keys: list[Key] = [
        ("feature", int(i) + 1, int(j), int(f)) for i, j, f in graph.active_features.tolist()
    ]
    keys += [("error", i + 1, j, None) for i in range(layers) for j in range(n)]
    keys += [(EMBEDDING, None, j, None) for j in range(n)]
    keys += [(TARGET, None, n - 1, None)] * len(graph.logit_targets)
    matrix = graph.adjacency_matrix.double().numpy()
    return {(keys[s], keys[t]): float(matrix[t, s]) for t, s in zip(*matrix.nonzero(), strict=True)}


def edges_here(graph: FeatureGraph) -> dict[tuple[Key, Key], float]:
    """The edges of a graph of ours, by their ends."""
    keys: list[Key] = [
        (x.kind, x.block, x.position, None if x.kind == TARGET else x.feature) for x in graph.nodes
    ]
    return {(keys[s], keys[t]): w for s, t, w in graph.edges}


def first(key: Key) -> bool:
    """Whether features there are left out by circuit-tracer."""
    return key[0] in ("feature", "error") and key[2] == 0


def files(theirs: Any, ours: FeatureGraph, folder: Path) -> str:
    """What each reads of the other's JSON."""
    make = import_module("circuit_tracer.utils.create_graph_files")
    prune = import_module("circuit_tracer.graph").prune_graph
    models = import_module("circuit_tracer.frontend.graph_models")
    tokenizer = SimpleNamespace(decode=lambda t: f"<{int(t)}>")
    masks = prune(theirs)
    nodes = make.create_nodes(theirs, masks.node_mask, tokenizer, masks.cumulative_scores)
    used, links = make.create_used_nodes_and_edges(theirs, nodes, masks.edge_mask)
    model = make.build_model(theirs, used, links, "slug", "scan", 0.8, tokenizer)
    (folder / "graph.json").write_text(model.model_dump_json(indent=2))
    again = read_attribution(folder / "graph.json")
    read = models.Model(**json.loads(attribution_json(ours)))
    both = edges_there(theirs)
    near = all(abs(both[pair] - w) < 1e-6 for pair, w in edges_here(again).items())
    return (
        f"theirs: {len(again.nodes)} nodes, {len(again.edges)} edges read, "
        f"{'as they were' if near and len(again.edges) == len(links) else 'OTHERWISE'}; "
        f"ours: {len(read.nodes)} nodes, {len(read.links)} links in its own model"
    )


def main() -> None:
    """Print a line for each network and kind of transcoder."""
    attribute = import_module("circuit_tracer.attribution.attribute").attribute
    for name in ("Gemma 2", "Llama, grouped"):
        family = FAMILIES[name]
        net = network(family)
        layers, d = net.config.num_hidden_layers, net.config.hidden_size
        with tempfile.TemporaryDirectory() as there:
            net.save_pretrained(there)
            for kind in (*KINDS, "cross-layer"):
                folder = Path(there) / kind
                made = (
                    transcoders(layers, d, *KINDS[kind], folder)
                    if kind in KINDS
                    else cross_layer(layers, d, folder)
                )
                (folder / "config.yaml").write_text("feature_input_hook: ln2.hook_normalized\n")
                model = replaced(net, family, made)
                target = [("U", 1.0, model.unembed_proj[:, TOKEN])]
                run = vt.load(there, dtype="float64").put(read_coders(folder)).run(TEXT)
                start = time.perf_counter()
                theirs = attribute(TEXT, model, attribution_targets=target)
                middle = time.perf_counter()
                of = f"⟨U_{TOKEN}, norm(x^N_{{-1}})⟩"
                ours = feature_graph(run, of, top=10**6, nodes=10**6)
                end = time.perf_counter()
                a, b = edges_there(theirs), edges_here(ours)
                leading = {t for _, t in b}  # circuit-tracer also explains what leads nowhere
                shared = {(s, t) for s, t in a.keys() | b.keys()
                          if t in leading and not first(s) and not first(t)}  # fmt: skip
                most = max(abs(x) for x in a.values())
                apart = max(abs(a.get(pair, 0.0) - b.get(pair, 0.0)) for pair in shared)
                print(
                    f"{name}, {kind}: {len(shared)} edges, greatest {most:.3f}, "
                    f"greatest difference {apart:.1e}; circuit-tracer {middle - start:.2f} s, "
                    f"here {end - middle:.2f} s"
                )
                print(f"  JSON: {files(theirs, ours, folder)}")


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)  # of circuit-tracer's matrix of edges
    main()
