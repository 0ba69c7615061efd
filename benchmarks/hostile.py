"""JSON with values of other types in its fields, by seeds: `benchmarks/fuzz.py fields` reads it."""

from __future__ import annotations

import copy
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import viete as vt
from viete.explore.session import Session
from viete.formats.files import save_safetensors
from viete.model.coders import read_coders
from viete.report.attribution_json import read_attribution

ODD: list[Any] = [
    None, True, 0, -1, 10**400, 1.5, float("nan"), float("inf"), "", "x", "\ud800", "(" * 5000, [],
    [[]], {}, {"a": None},
]  # fmt: skip
HOOK = "blocks.1.hook_resid_post"
CONFIG = {
    "architecture": "topk", "k": 3, "activation_fn_kwargs": {"k": 3}, "activation_fn": "topk",
    "apply_b_dec_to_input": True, "normalize_activations": "layer_norm", "hook_name": HOOK,
    "reshape_activations": "none", "rescale_acts_by_decoder_norm": False,
    "metadata": {"hook_name_out": HOOK},
}  # fmt: skip
NODE = {"node_id": "0_5_1", "feature": 5, "layer": "0", "ctx_idx": 1, "jsNodeId": "a", "clerp": "",
        "feature_type": "cross layer transcoder", "activation": 1.0, "influence": 0.5,
        "token_prob": 0.0}  # fmt: skip
GRAPH = {
    "metadata": {"slug": "s", "scan": "m", "prompt_tokens": ["a", "b"], "prompt": "ab"},
    "qParams": {}, "nodes": [NODE],
    "links": [{"source": "0_5_1", "target": "0_5_1", "weight": 1.0}],
}  # fmt: skip
RUN = {"tokens": [1, 2], "choices": {"epsilon": 0.5}, "put": ["A^{2,1} = 0"], "parameters": {}}
MESSAGES = [
    {"kind": "run", **RUN}, {"kind": "ask", "question": "logits", "run": RUN},
    {"kind": "value", "member": "x^1", "meaning": "decimal", "run": RUN},
    {"kind": "expand", "of": "logits_{-1,5}", "into": "head", "run": RUN},
]  # fmt: skip


def changed(rng: random.Random, said: Any) -> Any:
    """A copy with one or two entries, at any depth, replaced by odd ones."""
    said = copy.deepcopy(said)
    for _ in range(rng.randint(1, 2)):
        here, depth = said, rng.randint(0, 3)
        while True:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            if not keys:
                break
            key = rng.choice(keys)
            if depth and isinstance(here[key], dict | list) and here[key]:
                here, depth = here[key], depth - 1
                continue
            here[key] = copy.deepcopy(rng.choice(ODD))
            break
    return said


def main(seed: int, count: int) -> int:
    """Read that many changed files and messages; the exit code is 1 if one had a traceback."""
    card = vt.read("gpt2").bind(V=11, d=8, N=2, H=2, d_f=8, n_max=16)
    model = card.with_weights(seed=1)
    session = Session.of(model.run([3, 1, 4]))
    folder = Path(tempfile.mkdtemp(prefix="viete-fields-"))
    shapes = {"W_enc": (8, 10), "b_enc": (10,), "W_dec": (10, 8), "b_dec": (8,)}
    save_safetensors(folder / "sae_weights.safetensors", {n: np.ones(s) for n, s in shapes.items()})

    def config(said: Any) -> None:
        (folder / "cfg.json").write_text(json.dumps(said))
        read_coders(folder).put(card)

    kinds: list[tuple[Any, Callable[[Any], Any]]] = [
        (CONFIG, config), (GRAPH, lambda said: read_attribution(json.dumps(said)).arrows()),
        *((m, session.answer) for m in MESSAGES),
    ]  # fmt: skip
    failed = 0
    for number in range(seed, seed + count):
        rng = random.Random(number)
        base, read = rng.choice(kinds)
        said = changed(rng, base)
        try:
            read(said)
        except vt.VieteError as error:
            str(error)
        except Exception as error:
            failed += 1
            print(f"seed {number}: {type(error).__name__}: {error}: {said!r:.300}")
    print(f"{count} read, {failed} with a traceback")
    return int(failed > 0)
