"""The end of a lesson: what was exact, what was named and where, and what is not claimed."""

from __future__ import annotations

from collections.abc import Callable

from viete.errors import VieteError
from viete.evaluate.schedule import Step
from viete.meanings.exact.run import CLOSED, NAMED, RATIONAL, ExactRun
from viete.report.lesson.positions import Track


def closing(
    run: ExactRun, tracks: list[Track], name: Callable[[Step], str], stopped: VieteError | None
) -> list[str]:
    """Sentences derived from the run."""
    turns = [t for t in run.program.steps if t.makes in run.status]
    made = {level: [t for t in turns if run.status[t.makes].level == level]
            for level in (RATIONAL, CLOSED, NAMED)}  # fmt: skip
    out = []
    if turns and len(made[RATIONAL]) == len(turns):
        out.append("Everything here is a fraction, computed exactly; nothing was rounded.")
    else:
        out.append(
            f"{some(made[RATIONAL], name)} made of fractions alone, computed exactly."
            if made[RATIONAL]
            else "No value is made of fractions alone."
        )
        if made[CLOSED]:
            out.append(
                f"{some(made[CLOSED], name)} made of roots and powers of e, for which "
                "equality is decided (Besicovitch 1940; Lindemann–Weierstrass)."
            )
        if made[NAMED]:
            out.append(
                f"{some(made[NAMED], name)} named, from {name(made[NAMED][0])} on: exact by "
                "definition, with enclosures to any precision. That two such numbers differ is "
                "proven; that two are equal, only where it follows from how they are made."
            )
    if len(run.names):
        out.append(
            f"{len(run.names)} intermediate quantities were given names, so that no "
            "formula grows beyond what can be held."
        )
    decided = [t for t in turns if run.status[t.makes].bits]
    if decided:
        bits = max(run.status[t.makes].bits for t in decided)
        places = "Comparisons in " + ", ".join(dict.fromkeys(name(t) for t in decided[:6]))
        more = f" and {len(decided) - 6} more" if len(decided) > 6 else ""
        out.append(
            f"{places}{more} were decided by enclosures of at most {bits} bits, which "
            "contain the numbers for certain."
        )
    for t in turns:
        out += [f"In {name(t)}, {tie}." for tie in run.status[t.makes].ties]
    if stopped is not None:
        out.append(f"The run ended early: {stopped.message}.")
    if len(made[RATIONAL]) < len(turns):
        out.append("All digits after ≈ are proven; the last one is rounded.")
    claims = "This lesson claims nothing about what a computation in floating point would give"
    if made[NAMED]:
        claims += ", nor that the named quantities are independent of each other"
    out.append(claims + ", nor about weights or inputs other than these.")
    return out


def some(turns: list[Step], name: Callable[[Step], str], most: int = 8) -> str:
    """``x, Q and K are``."""
    names = list(dict.fromkeys(name(t) for t in turns))
    if len(names) == 1:
        return f"{names[0]} is"
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more are"
    return f"{', '.join(names[:-1])} and {names[-1]} are"
