"""Pages in headless Chromium: how large they are, how soon one can use them, how long a step takes.

    OMP_NUM_THREADS=1 python benchmarks/pages.py [ROUNDS]

Of a page of a tiny card, of a model with Pythia-70M's shape in a file, and of the same one served.
A step is from the click until what it changed is painted, in a window of 1280 × 900 pixels; of the
served page also when its values come on demand. Medians over all steps and rounds; needs Chromium
and Node.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from queue import Queue
from statistics import median
from threading import Thread
from typing import Any

import numpy as np

import viete as vt
from tests.browser.devtools import look_at
from viete.explore.data import page_data
from viete.explore.page_file import page_html
from viete.explore.server import serve
from viete.explore.session import Session

PYTHIA_70M = {"N": 6, "d": 512, "H": 8, "d_k": 64, "d_f": 2048, "V": 50304, "n_max": 2048}
TOKENS = 64
MOST = 56  # steps of a walk
WALK = """(async () => {
  const one = (s) => document.querySelector(s);
  const painted = () => new Promise((done) => requestAnimationFrame(() => {
    const {port1, port2} = new MessageChannel();
    port1.onmessage = done;
    port2.postMessage(0);
  }));
  while (!one(".go.next")) await painted();
  const [mark] = performance.getEntriesByName("viete:interactive");
  const steps = [];
  let come = [];
  for (let k = 0; k < MOST && !one(".go.next").disabled; k++) {
    await painted();
    const start = performance.now();
    one(".go.next").click();
    await painted();
    steps.push(performance.now() - start);
    if (WAITS) while (one(".v-value.main.absent:not(:has(.again))")) await painted();
    come.push(performance.now() - start);
  }
  return {ready: mark.startTime, steps, come};
})()"""


def walks(address: str, rounds: int, waits: bool = False) -> list[dict[str, Any]]:
    """What a walk through the steps of a page took, several times."""
    code = WALK.replace("MOST", str(MOST)).replace("WAITS", str(waits).lower())
    found = [look_at(address, width=1280, dark=False, expression=code) for _ in range(rounds)]
    for one in found:
        assert one["thrown"] is None and not one["events"], one
    return [one["value"] for one in found]


def line(name: str, found: list[dict[str, Any]], size: int | None = None) -> None:
    steps = [t for one in found for t in one["steps"]]
    come = [t for one in found for t in one["come"]]
    print(
        f"| {name} | {'' if size is None else f'{size / 1000:,.0f} kB'} "
        f"| {median(one['ready'] for one in found):.0f} ms | {median(steps):.0f} ms "
        f"| {np.percentile(steps, 90):.0f} ms | {median(come):.0f} ms |",
        flush=True,
    )


def main(rounds: int) -> None:
    print("| page | size | can be used after | a step | nine in ten | until its values are there |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        card = vt.read("exact-lesson")
        tiny = card.run([0, 1], card.initial_weights())
        file.write_text(page_html(page_data(tiny)), "utf-8")
        line("exact-lesson", walks(file.as_uri(), rounds), file.stat().st_size)
        card = vt.read("pythia").bind(**PYTHIA_70M)
        model = card.with_weights(card.initial_weights(0, dtype="float32"))
        run = model.run(np.random.default_rng(0).integers(0, PYTHIA_70M["V"], TOKENS))
        file.write_text(page_html(page_data(run)), "utf-8")
        name = f"Pythia-70M's shape, {TOKENS} tokens"
        line(f"{name}, in a file", walks(file.as_uri(), rounds), file.stat().st_size)
    addresses: Queue[str] = Queue()
    Thread(target=serve, args=(Session.of(run), 0, addresses.put), daemon=True).start()
    line(f"{name}, served", walks(addresses.get(), rounds, waits=True))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
