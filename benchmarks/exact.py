"""The exact pass beside SymPy and python-flint: time and memory against length, width and blocks.

    python benchmarks/exact.py [--sweep n d N] [--timeout 60] [--peers …] [--seed 0] [--plots .]

The card and the peers are in exact_peers.py; random fractions are the weights, V = 10. Every run is
a process of its own, after a tiny pass that loads the libraries. A peer that ran out of time at one
size is not asked for a larger one. Ratios are to ours at the same size in the same run; the flint
fractions stop at the first variance, and so does what they are compared with. Times of ours contain
reading the card, deciding the argmax and 15 certified digits of each logit; no SymPy number is
certified, and sympy_named decides nothing. The plots are exact-n.svg and so on.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from itertools import chain
from pathlib import Path

from exact_peers import PEERS, Measured, measure

# Of each axis: the sizes n, d, N, H to try.
SWEEPS = {
    "n": [(n, 5, 1, 1) for n in range(1, 9)],
    "d": [(5, d, 1, 1) for d in (2, 3, 4, 5, 6, 7, 8, 16, 32)],
    "N": [(5, 6, blocks, 2) for blocks in (1, 2, 4, 8)],
}
PLACE = {"n": 0, "d": 1, "N": 2}
OURS = {"flint_fractions": "viete_to_variance", "flint_one_e": "viete_to_variance"}
COLOURS = "#17807a #20242c #b5483a #d9a860 #86a8d3 #7a5ea8 #8a8f3c #c77fa3 #565e6b".split()

Results = dict[str, dict[int, Measured]]


def sweep(axis: str, peers: list[str], seed: int, limit: float) -> Results:
    found: Results = {peer: {} for peer in peers}
    for sizes in SWEEPS[axis]:
        for peer in peers:
            before = list(found[peer].values())
            if not before or not before[-1].error:
                found[peer][sizes[PLACE[axis]]] = measure(peer, *sizes, seed, limit)
    return found


def cell(m: Measured | None, what: str) -> str:
    if m is None:
        return "·"
    value = f"{m.peak / 2**20:.0f}" if what == "MB" else f"{m.seconds:.4f}"
    if m.error:
        return (">" if m.error == "out of time" else "!") + value
    return value


def ratio(found: Results, peer: str, size: int) -> str:
    """How many times as long as ours a peer took; at least so many, where it was stopped."""
    ours, m = found[OURS.get(peer, "viete")].get(size), found[peer].get(size)
    if m is None or ours is None or ours.error or m.error not in ("", "out of time"):
        return "·"
    return (">" if m.error else "") + f"{m.seconds / ours.seconds:.3g}"


def exponent(points: dict[int, Measured]) -> float | None:
    """The slope of log seconds over log size by least squares, of the runs that finished."""
    good = [(math.log(k), math.log(m.seconds)) for k, m in points.items() if not m.error]
    if len(good) < 2:
        return None
    x, y = zip(*good, strict=True)
    mx, my = statistics.mean(x), statistics.mean(y)
    return sum((a - mx) * (b - my) for a, b in good) / sum((a - mx) ** 2 for a in x)


def report(axis: str, found: Results, limit: float) -> None:
    sizes = list(dict.fromkeys(s[PLACE[axis]] for s in SWEEPS[axis]))
    n, d, blocks, heads = (str(k) for k in SWEEPS[axis][0])
    fixed = {"n": n, "d": d, "N": blocks, "H": heads} | {axis: "…"}
    print(f"\n### {', '.join(f'{k} = {v}' for k, v in fixed.items())}; at most {limit:g} s each")
    header = f"| | {' | '.join(f'{axis}={k}' for k in sizes)} | exponent |\n|" + " --- |" * (
        len(sizes) + 2
    )
    for what in ("seconds", "MB"):
        print(f"\n{what} ('>': stopped there, '!': failed, '·': not tried)\n\n{header}")
        for peer, points in found.items():
            slope = exponent(points) if what == "seconds" else None
            cells = [cell(points.get(k), what) for k in sizes]
            print(f"| {peer} | {' | '.join(cells)} | {'' if slope is None else f'{slope:.2f}'} |")
    print(f"\ntimes as long as ours\n\n{header}")
    for peer in found:
        if not peer.startswith("viete") and OURS.get(peer, "viete") in found:
            print(f"| {peer} | {' | '.join(ratio(found, peer, k) for k in sizes)} | |")
    for peer, points in found.items():
        for k, m in points.items():
            last = f" after {list(m.stages)[-1]}" if m.stages else ""
            if m.error:
                print(f"- {peer}, {axis} = {k}: {m.error}{last}")
        if m := next((m for m in reversed(points.values()) if m.counts), None):
            size = next(k for k in points if points[k] is m)
            print(f"- {peer}, {axis} = {size}: {m.counts[0]:,} operations written out, "
                  f"{m.counts[1]:,} distinct{last_stage(m)}")  # fmt: skip
    for size in sizes:
        agree(found, axis, size)


def last_stage(m: Measured) -> str:
    return f" after {list(m.stages)[-1]}" if m.error and m.stages else ""


def agree(found: Results, axis: str, size: int) -> None:
    """Whoever has logits must have the same."""
    rows = {peer: p[size].logits for peer, p in found.items() if size in p and p[size].logits}
    for (one, a), (other, b) in zip(list(rows.items()), list(rows.items())[1:], strict=False):
        pairs = zip(chain(*a), chain(*b), strict=True)
        if any(not math.isclose(p, q, rel_tol=1e-9, abs_tol=1e-9) for p, q in pairs):
            print(f"- DISAGREE at {axis} = {size}: {one} and {other}")


def plot(axis: str, found: Results, what: str, at: Path) -> None:
    """Lines over logarithmic axes as an SVG; an open circle is a run that was stopped."""
    lines = {
        peer: [(k, m.peak / 2**20 if what == "MB" else m.seconds, bool(m.error))
               for k, m in points.items() if m.error in ("", "out of time")]
        for peer, points in found.items()
    }  # fmt: skip
    every = [p for line in lines.values() for p in line]
    if not every:
        return
    sizes = sorted({k for k, _, _ in every})
    low, high = (f(math.log10(v) for _, v, _ in every) for f in (min, max))
    low, high = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    across = math.log(sizes[-1] / sizes[0]) or 1.0

    def place(k: float, v: float) -> tuple[float, float]:
        x = 70 + 420 * math.log(k / sizes[0]) / across
        return x, 330 - 290 * (math.log10(v) - low) / (high - low)

    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="680" height="390" font-size="13" '
        'font-family="sans-serif"><rect width="680" height="390" fill="#fcfbf8"/>',
        f'<text x="70" y="24">{what} over {axis}, both logarithmic</text>',
    ]
    for power in range(low, high + 1):
        _, y = place(sizes[0], 10**power)
        out.append(f'<path d="M70 {y:.1f}H490" stroke="#d9d3c3"/>')
        out.append(f'<text x="62" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    out += [f'<text x="{place(k, 1)[0]:.1f}" y="352" text-anchor="middle">{k}</text>'
            for k in sizes]  # fmt: skip
    for row, (peer, line) in enumerate(lines.items()):
        colour = COLOURS[row % len(COLOURS)]
        spots = [(*place(k, v), stopped) for k, v, stopped in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in spots)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y, stopped in spots:
            fill = "#fcfbf8" if stopped else colour
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" stroke="{colour}" fill="{fill}"/>')
        out.append(f'<text x="510" y="{50 + 20 * row}" fill="{colour}">{peer}</text>')
    at.write_text("\n".join([*out, "</svg>\n"]), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep", nargs="+", choices=list(SWEEPS), default=list(SWEEPS))
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds a run may take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plots", type=Path, help="a folder for the plots")
    said = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    for axis in said.sweep:
        found = sweep(axis, said.peers, said.seed, said.timeout)
        report(axis, found, said.timeout)
        if said.plots:
            plot(axis, found, "seconds", said.plots / f"exact-{axis}.svg")
            plot(axis, found, "MB", said.plots / f"exact-{axis}-memory.svg")


if __name__ == "__main__":
    main()
