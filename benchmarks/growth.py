"""What Viète itself costs: importing it, reading a card, and how that grows with the blocks.

    python benchmarks/growth.py [--blocks 10 20 40 80 160]

Everything but the import is timed in this process; 'cold' is the first time, 'warm' the median of
five more. Growth is Llama's card with tiny dimensions; its exponent is the slope of log time over
log N (1 is linear). 'unrolled' is the program of the forward and backward equations of every block,
'backward' their run, all gradients in float32; 'planned' is `viete grad --plan`: derived, unrolled,
recorded, laid out in memory and written. Memory is what Python allocated at the peak
(tracemalloc, in a run of its own).
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import viete as vt
from viete.report.plan import plan_document

LOSS = "cross_entropy(logits; t)"
TINY = {"V": 11, "d": 8, "H": 2, "G": 1, "d_f": 12}
IMPORT = """
import sys, time
start = time.perf_counter()
import viete{rest}
print(time.perf_counter() - start, *(m for m in ("torch", "jax", "scipy") if m in sys.modules))
"""


def seconds(f: Callable[[], Any]) -> float:
    gc.collect()
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def imports(rest: str, times: int = 10) -> None:
    """Time an import in fresh interpreters and see that no large library comes with it."""
    found = [
        subprocess.run(
            [sys.executable, "-c", IMPORT.format(rest=rest)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(times)
    ]
    taken = [float(words[0]) for words in found]
    extra = sorted({m for words in found for m in words[1:]})
    print(f"import viete{rest.replace(chr(10), '; '):34} best {min(taken):.3f} s, "
          f"median {statistics.median(taken):.3f} s of {times}; torch, jax, scipy imported: "
          f"{', '.join(extra) or 'none'}")  # fmt: skip


def llama(n: int) -> str:
    text = vt.read("llama").write("md")  # with what it shares with other cards
    lines = [
        f"| $N$ | {n} | num_hidden_layers | blocks |" if s.startswith("| $N$ |") else s
        for s in text.splitlines()
    ]
    return "\n".join(lines) + "\n"


def stages(n: int) -> dict[str, Callable[[], Any]]:
    """What is done with a card of n blocks, each step with the results of those before."""
    from viete.analysis.cost import costs
    from viete.analysis.shapes import Shapes
    from viete.evaluate.execution import execute
    from viete.evaluate.schedule import Program

    text, kept = llama(n), {}

    def keep(name: str, value: Any) -> None:
        kept[name] = value

    def forward() -> None:
        ready, w = kept["program"], kept["weights"]
        execute(ready, {"t": [1, 2, 3, 4, 5]}, w, ["logits"])

    def program() -> None:
        keep("program", Program(kept["model"].bind(**TINY)))

    def weights() -> None:
        keep("weights", kept["program"].model.initial_weights(0, "float32"))

    def grad() -> None:
        keep("derived", kept["model"].grad(LOSS))

    def program_back() -> None:
        keep("back", Program(kept["derived"].bind(**TINY)))

    def backward() -> None:
        bare = {x: x.replace("partial{", "", 1).replace("}", "", 1) for x in kept["back"].names}
        members = [x for x, name in bare.items() if x != name and name in kept["weights"]]
        execute(kept["back"], {"t": [1, 2, 3, 4, 5]}, kept["weights"], members)

    return {
        "read": lambda: keep("model", vt.read(text)),
        "shapes": lambda: Shapes(kept["model"]),
        "costs": lambda: costs(kept["model"]),
        "program": program,
        "weights": weights,
        "forward": forward,
        "grad": grad,
        "unrolled": program_back,
        "backward": backward,
        "planned": lambda: plan_document(kept["model"].bind(**TINY), LOSS, batch=2, length=5),
    }


def measured(n: int) -> dict[str, tuple[float, float, float]]:
    """Of each stage: seconds the first time, the median of five more, and bytes at the peak."""
    out: dict[str, tuple[float, float, float]] = {}
    for name, step in stages(n).items():
        cold = seconds(step)
        warm = statistics.median(seconds(step) for _ in range(5))
        tracemalloc.start()
        step()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        out[name] = cold, warm, peak
    return out


def exponent(sizes: list[int], values: list[float]) -> float:
    """The slope of log value over log size, by least squares."""
    x, y = [math.log(n) for n in sizes], [math.log(v) for v in values]
    mx, my = statistics.mean(x), statistics.mean(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / sum(
        (a - mx) ** 2 for a in x
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, nargs="+", default=[10, 20, 40, 80, 160])
    sizes = parser.parse_args().blocks
    print(f"load {os.getloadavg()[0]:.1f}")
    imports("")
    imports("\nviete.read('llama')")

    text = llama(80)

    def read_and_check() -> None:
        from viete.analysis.shapes import Shapes

        Shapes(vt.read(text))

    first = seconds(read_and_check)
    again = statistics.median(seconds(read_and_check) for _ in range(9))
    print(f"read and shape-check Llama of 80 blocks: {first:.3f} s cold (this process's imports "
          f"included), {again:.3f} s warm")  # fmt: skip

    read = vt.read(text)
    cold = seconds(lambda: read.grad(LOSS))
    print(f"derive its backward pass: {cold:.3f} s cold (reading the rules included)")
    table = {n: measured(n) for n in sizes}
    names = list(table[sizes[0]])
    for what, k, unit, scale in (("warm time", 1, "ms", 1e3), ("memory", 2, "kB", 1e-3)):
        print(f"\n{what}, {unit}: Llama with {', '.join(f'{k}={v}' for k, v in TINY.items())}, n=5")
        print("blocks   " + "".join(f"{name:>10}" for name in names))
        for n in sizes:
            print(f"{n:<9}" + "".join(f"{table[n][name][k] * scale:10.1f}" for name in names))
        slopes = (exponent(sizes, [table[n][name][k] for n in sizes]) for name in names)
        print("exponent " + "".join(f"{s:10.2f}" for s in slopes))


if __name__ == "__main__":
    main()
