"""Exported JavaScript beside exported NumPy: the dialog transformer on the reference dialogs.

    OMP_NUM_THREADS=1 python benchmarks/javascript.py

Forward with the loss, backward and Adam of one round over the dialogs, on one thread; needs Node.
Prints the quickest of many rounds in milliseconds, and how many times NumPy's time JavaScript's is.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import viete as vt
from viete.code import export
from viete.train.fitting import with_corpus

ROUNDS = 300
SCRIPT = """
import {readFileSync} from "node:fs";
const m = await import(process.argv[2]), {texts, weights, rounds} = JSON.parse(readFileSync(0));
const array = ({shape, data}) => ({shape, data: Float64Array.from(data)});
const named = Object.fromEntries(Object.entries(weights).map(([k, x]) => [k, array(x)]));
const params = m.renamed(named), state = {}, out = {forward: [], step: []};
for (let k = 0; k < rounds; k++) {
    let start = performance.now();
    for (const [x, y] of texts) m.forward(x, y, params);
    out.forward.push(performance.now() - start);
    start = performance.now();
    for (const [x, y] of texts) {
        const [, loss, kept] = m.forward(x, y, params);
        m.adam(params, m.backward(kept, x, y, params), state);
        out.loss = loss;
    }
    out.step.push(performance.now() - start);
}
process.stdout.write(JSON.stringify(out));
"""


def milliseconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    for name in ("dialog-transformer", "dialog-all"):
        card, corpus = with_corpus(vt.read(name), "dialogs")
        ids = [[corpus.characters.index(c) for c in a + b] for a, b in corpus.texts]
        texts = [(x[:-1], x[1:]) for x in ids]
        weights = vt.read(card.write()).initial_weights(0)
        compare(name, card, texts, weights)


def compare(title: str, card: Any, texts: list[Any], weights: dict[str, np.ndarray]) -> None:
    script: dict[str, Any] = {"__name__": "exported"}
    exec(export(card, "numpy"), script)
    params, state = script.get("renamed", dict)({k: v.copy() for k, v in weights.items()}), {}
    arrays = [(np.array(x), np.array(y)) for x, y in texts]

    def forward() -> None:
        for x, y in arrays:
            script["forward"](x, y, **params)

    def step() -> None:
        for x, y in arrays:
            _, _, kept = script["forward"](x, y, **params)
            script["adam"](params, script["backward"](kept, x, y, **params), state)

    numpy = {"forward": [], "step": []}
    for _ in range(ROUNDS):
        numpy["forward"].append(milliseconds(forward))
        numpy["step"].append(milliseconds(step))
    with tempfile.TemporaryDirectory() as folder:
        module, run = Path(folder, "model.mjs"), Path(folder, "run.mjs")
        module.write_text(export(card, "js"), "utf-8")
        run.write_text(SCRIPT, "utf-8")
        given = {"texts": texts, "rounds": ROUNDS,
                 "weights": {k: {"shape": v.shape, "data": v.ravel().tolist()}
                             for k, v in weights.items()}}  # fmt: skip
        done = subprocess.run(["node", run, module.as_uri()], input=json.dumps(given),
                              stdout=subprocess.PIPE, text=True, check=True)  # fmt: skip
    javascript = json.loads(done.stdout)
    print(f"{title}: texts of {', '.join(str(len(x)) for x, _ in texts)} tokens")
    for what in ("forward", "step"):
        a, b = (min(x[what]) for x in (numpy, javascript))
        print(f"  {what:8} NumPy {a:7.3f} ms   JavaScript {b:7.3f} ms   {b / a:5.2f} times")


if __name__ == "__main__":
    main()
