"""The laws over many random programs: what was run, and the smallest program that breaks each.

    python benchmarks/laws.py 0 5000            # seeds 0 to 4999, four sizes each: 20,000 programs
    python benchmarks/laws.py 0 5000 --law run  # only laws with this word in their names

Programs are those of `tests/laws/programs.py`, so a seed and a size name one. It prints how often
each law held, and for each kind of failure its seeds and the smallest program, with every equation
left out that the failure does not need. The first program of each kind is named on the error
stream as soon as it is found. A range of seeds can be continued by another call.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.laws.held_rewritings import LAWS, SAMPLED, check
from tests.laws.programs import Program, program

SIZES = (1, 2, 3, 5)


def kind(error: BaseException) -> str:
    """What kind of failure: numbers and names do not count."""
    said = f"{type(error).__name__} {str(error).splitlines()[0] if str(error) else ''}"
    said = re.sub(r"<card>:\d+:\d+: ", "", said)
    said = re.sub(r"[\w\\{}^'~.,∂+-]*[\d^_'{}∂][\w\\{}^'~.,+-]*", "*", said)
    return re.sub(r"\s+", " ", said)[:70]


def failure(law: str, p: Program) -> str:
    """The kind of failure of a law; nothing if it holds."""
    try:
        check(law, p)
    except Exception as error:
        return kind(error)
    return ""


def smallest(law: str, p: Program, what: str, most: int = 200) -> Program:
    """The program without the equations that the failure does not need."""
    tries, k = 0, 0
    while k < len(p.lines()) and tries < most:
        lines = p.text.split("\n")
        at = p.lines()[len(p.lines()) - 1 - k]
        less = replace(p, text="\n".join(lines[:at] + lines[at + 1 :]))
        tries += 1
        try:
            found = failure(law, less)
        except RecursionError:
            found = ""
        p, k = (less, k) if found == what else (p, k + 1)
    return p


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("first", type=int)
    arguments.add_argument("last", type=int)
    arguments.add_argument("--law", default="", help="only laws with this in their names")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    arguments.add_argument("--small", action="store_true", help="look for the smallest program")
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    gc.set_threshold(200_000, 20, 100)  # what a program leaves is gone with it: a tenth of the time
    laws = [name for name in LAWS if given.law in name]
    some = [name for name in SAMPLED if given.law in name]  # JAX and enclosures: one program of 100
    held, broken = Counter[str](), dict[tuple[str, str], list[tuple[int, int, str]]]()
    start, seed, spent = time.monotonic(), given.first, Counter[str]()
    for seed in range(given.first, given.last):
        if time.monotonic() - start > given.seconds:
            break
        for size in SIZES:
            p = program(seed, size)
            sample = len(SIZES) * (seed - given.first) % 100 == 0 and size == 3
            for law in [*laws, *(some if sample or given.law else ())]:
                began = time.monotonic()
                try:
                    check(law, p)
                    held[law] += 1
                except Exception as error:
                    key = law, kind(error)
                    if key not in broken:
                        print(f"{seed} {size}: {law}: {key[1]}", file=sys.stderr, flush=True)
                    broken.setdefault(key, []).append((size, seed, str(error)))
                spent[law] += time.monotonic() - began  # type: ignore[assignment]
    else:
        seed = given.last
    print(f"seeds {given.first} to {seed - 1}, sizes {SIZES}, {time.monotonic() - start:.0f} s")
    for law in [*laws, *some]:
        lost = sum(len(v) for (name, _), v in broken.items() if name == law)
        print(f"  {held[law]:6} held, {lost:4} broken, {spent[law]:6.0f} s: {law}")
    for (law, what), cases in sorted(broken.items(), key=lambda x: -len(x[1])):
        size, first, said = min(cases)
        print(
            f"\n{law}\n  {what}\n  {len(cases)} times: {[(s, z) for z, s, _ in sorted(cases)][:6]}"
        )
        print("  " + "\n  ".join(said.splitlines()[:6]))
        if given.small:
            text = smallest(law, program(first, size), what).text
            print("  " + "\n  ".join(text[text.index("## Parameters") :].splitlines()))


if __name__ == "__main__":
    main()
