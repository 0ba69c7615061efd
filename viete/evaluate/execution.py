"""Execution: inputs and weights in, a run out; replayed if it can be recorded, else evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from viete.evaluate.inputs import Feeding
from viete.evaluate.interventions import Intervention
from viete.evaluate.labelled import Array, Value
from viete.evaluate.plan.replay import replayed
from viete.evaluate.run import Run, listed
from viete.evaluate.schedule import Member, Program


def execute(
    ready: Program, inputs: Mapping[str, Array], weights: Mapping[str, Array],
    names: Sequence[str] | None = None, quick: bool = True,
    put: Mapping[Member, Intervention] | None = None, again: bool = True,
) -> Run:  # fmt: skip
    """Run a program on inputs by name, with weights unconverted; see `viete.meanings.run.run`.

    Each intervention in ``put`` replaces its value as soon as it is computed. With ``again``
    another run of these shapes is expected, so this one is recorded.
    """
    if len(ready.memo) > 4096:
        ready.memo.clear()
    names = None if names is None else listed(names)
    fed = Feeding(ready, inputs, weights)
    ready = ready.at(fed.sizes)
    put = {m: once(intervention) for m, intervention in (put or {}).items()}
    found = replayed(ready, fed, names, put) if quick and again else None
    if found is not None:
        return found
    out = Run(ready, fed.store, fed.like, fed.sizes, quick, put)
    pieces = fed.pieces() if names is not None and out.arrays.writes and not put else []
    if not pieces:
        out.compute(names)
    # The sequences of a batch are independent. A few at a time, the values between the inputs and
    # the wanted values stay in the cache, and never need memory for all sequences.
    given, batch = set(fed.store), pieces[-1][0].stop if pieces else 0
    for place, store in pieces:
        part = Run(ready, store, fed.like, fed.sizes, quick)
        part.compute(names)
        out.wanted, out.missing = part.wanted, part.missing
        for member in part.store.keys() - given:
            out.store_piece(member, part.store[member], place, batch)
    return out


def once(intervention: Intervention) -> Intervention:
    """An intervention called only once, even if a run is replayed in part and then evaluated."""
    made: list[Value] = []

    def call(value: Value, batch: int | None) -> Value:
        if not made:
            made.append(intervention(value, batch))
        return made[0]

    return call


__all__ = ["execute"]
