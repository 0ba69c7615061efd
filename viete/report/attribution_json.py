"""Attribution graphs as the JSON of circuit-tracer and Neuronpedia, written and read.

That JSON counts blocks from 0. A target that is not a token's score gets a number after the
vocabulary, like circuit-tracer's own targets, and its formula as its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from viete.errors import VieteError
from viete.features.graph import EMBEDDING, ERROR, FEATURE, TARGET, FeatureGraph, FeatureNode
from viete.regular import decoded, field, read_text

KINDS = {
    FEATURE: "cross layer transcoder", ERROR: "mlp reconstruction error", EMBEDDING: "embedding",
    TARGET: "logit",
}  # fmt: skip
# What each part must have, and of which types: the schema of Neuronpedia's importer.
TOP = {"metadata": (dict,), "qParams": (dict,), "nodes": (list,), "links": (list,)}
METADATA = {"slug": (str,), "scan": (str,), "prompt_tokens": (list,), "prompt": (str,)}
NODE = {"node_id": (str,), "feature": (int, type(None)), "layer": (str, int), "ctx_idx": (int,),
        "feature_type": (str,), "jsNodeId": (str,), "clerp": (str,)}  # fmt: skip
LINK = {"source": (str,), "target": (str,), "weight": (float,)}
NUMBERS = ("activation", "influence", "token_prob")  # of a node, perhaps
NUMBER = re.compile(r"-?[0-9]{1,15}")


def attribution_json(graph: FeatureGraph, slug: str = "viete", scan: str = "viete") -> str:
    """The graph as JSON, with the name ``slug``; ``scan`` is the name of the model."""
    names = names_of(graph)
    said = {
        "metadata": {
            "slug": slug, "scan": scan, "transcoder_list": [], "prompt_tokens": [*graph.tokens],
            "prompt": "".join(graph.tokens), "schema_version": 1,
            "info": {"generator": {"name": "viete"}},
        },
        "qParams": {"pinnedIds": [], "supernodes": [], "linkType": "both", "clickedId": "",
                    "sg_pos": ""},
        "nodes": [node_json(graph, x, name) for x, name in zip(graph.nodes, names, strict=True)],
        "links": [{"source": names[s], "target": names[t], "weight": w} for s, t, w in graph.edges],
    }  # fmt: skip
    checked(said, "the graph")
    return json.dumps(said, ensure_ascii=False, indent=1) + "\n"


def names_of(graph: FeatureGraph) -> list[str]:
    """The identifier of each node."""
    out, targets = [], 0
    for x in graph.nodes:
        at = x.position
        if x.kind == EMBEDDING:
            out.append(f"E_{graph.ids[at] if at < len(graph.ids) else 0}_{at}")
        elif x.kind == TARGET:
            token = x.feature
            if token is None:  # behind every vocabulary
                token, targets = 10**9 + targets, targets + 1
            out.append(f"{graph.blocks + 1}_{token}_{at}")
        else:
            feature = -1 if x.feature is None else x.feature
            out.append(f"{layer(graph, x)}_{feature}_{at}")
    return out


def layer(graph: FeatureGraph, x: FeatureNode) -> int:
    """The number of a node's block, counted from 0."""
    assert x.block is not None
    return x.block - graph.first


def node_json(graph: FeatureGraph, x: FeatureNode, name: str) -> dict[str, Any]:
    """One node."""
    place, feature, _ = name.split("_")
    number = int(feature)
    if x.kind == FEATURE:  # the block and the feature as one number (Cantor)
        both = int(place) + number
        number = both * (both + 1) // 2 + number
    told = f'Output "{x.name}" (p={x.probability:.3f})' if x.kind == TARGET else ""
    return {
        "node_id": name, "feature": x.position if x.kind == EMBEDDING else number,
        "layer": place, "ctx_idx": x.position, "feature_type": KINDS[x.kind],
        "token_prob": x.probability, "is_target_logit": x.kind == TARGET, "run_idx": 0,
        "reverse_ctx_idx": 0, "jsNodeId": name.rpartition("_")[0] + "-" + (
            "0" if x.kind == FEATURE else str(x.position)),
        "clerp": told, "influence": None if x.kind == TARGET else x.influence,
        "activation": x.value if x.kind == FEATURE else None,
    }  # fmt: skip


def read_attribution(source: str | Path) -> FeatureGraph:
    """A graph from a file or its text, as circuit-tracer, Neuronpedia or this program wrote it.

    Raises VieteError for anything else, naming the node or the link.
    """
    text, called = (read_text(source), str(source)) if isinstance(source, Path) else (
        source, "the graph")  # fmt: skip
    try:
        said = decoded(text)
    except ValueError as error:
        raise VieteError(f"{called} is not JSON: {error}") from None
    checked(said, called)
    kinds = {there: kind for kind, there in KINDS.items()}
    graph = FeatureGraph(tokens=said["metadata"]["prompt_tokens"])
    places: dict[str, int] = {}
    layers = [str(x["layer"]) for x in said["nodes"]]
    top = max((int(k) for k, x in zip(layers, said["nodes"], strict=True)
               if x["feature_type"] == "logit" and NUMBER.fullmatch(k)), default=1)  # fmt: skip
    graph.blocks, ids = top - 1, dict[int, int]()
    for k, x in zip(layers, said["nodes"], strict=True):
        parts, kind = x["node_id"].split("_"), kinds.get(x["feature_type"])
        plain = len(parts) == 3 and NUMBER.fullmatch(parts[1]) and 0 <= x["ctx_idx"] < 2**31
        if kind is None or not plain or not (kind == EMBEDDING or NUMBER.fullmatch(k)):
            raise VieteError(f"{called} has a node {x['node_id']:.40} of the wrong type")
        number = int(parts[1])
        if kind == EMBEDDING:
            ids[x["ctx_idx"]] = number
        feature = number if kind == FEATURE or (kind == TARGET and number < 10**9) else None
        # circuit-tracer's errors have the block in another place of their identifier
        block = int(k) + graph.first if kind in (FEATURE, ERROR) else None
        if x["node_id"] in places:
            raise VieteError(f"{called} has two nodes {x['node_id']}, so its links are ambiguous")
        places[x["node_id"]] = len(graph.nodes)
        value, influence, probability = (
            field(x, name, f"the node {x['node_id']}", float, default=0.0) for name in NUMBERS
        )
        graph.nodes.append(FeatureNode(
            kind, block, x["ctx_idx"], feature, value, influence, probability,
            x["clerp"] or x["node_id"]))  # fmt: skip
    graph.ids = [ids.get(k, 0) for k in range(len(graph.tokens))]
    for link in said["links"]:
        for end in ("source", "target"):
            if link[end] not in places:
                raise VieteError(
                    f"{called} has a link with the {end} {link[end]:.40}, which is not a node"
                )
        graph.edges.append(
            (
                places[link["source"]],
                places[link["target"]],
                field(link, "weight", f"a link of {called}", float),
            )
        )  # fmt: skip)
    return graph


def checked(said: Any, called: str) -> None:
    """Check that all fields of the schema are there. Raises VieteError, naming what is missing."""
    hold(said, TOP, called)
    hold(said["metadata"], METADATA, f"metadata of {called}")
    for k, x in enumerate(said["nodes"]):
        hold(x, NODE, f"node {k} of {called}")
    for k, x in enumerate(said["links"]):
        hold(x, LINK, f"link {k} of {called}")
    if not all(isinstance(x, str) for x in said["metadata"]["prompt_tokens"]):
        raise VieteError(f"{called} has prompt_tokens that are not all text")


def hold(said: Any, wanted: Mapping[str, tuple[type, ...]], called: str) -> None:
    """Check that an object has some keys, with values of their types."""
    for key, kinds in wanted.items():
        field(said, key, called, *kinds, default=None if type(None) in kinds else ...)


__all__ = ["attribution_json", "read_attribution"]
