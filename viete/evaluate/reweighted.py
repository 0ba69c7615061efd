"""The weights of a folded card, computed from those of the card that it was made of."""

from __future__ import annotations

from collections.abc import Mapping

from viete.evaluate.labelled import COL, ROW, Array, expand
from viete.evaluate.run import execute
from viete.evaluate.schedule import program
from viete.notation.substitution import substitute
from viete.notation.tree import num
from viete.rewrite.folding import Folding


def reweighted(folding: Folding, weights: Mapping[str, Array]) -> dict[str, Array]:
    """The weights of ``folding.model``; those that it left alone are the same arrays."""
    run = execute(program(folding.old), {}, weights, [])
    made = {e.name: e.right for e in folding.weights}
    ready, out = program(folding.model), dict[str, Array]()
    for name, (p, blocks, shape) in ready.parameters.items():
        if p.name not in made:
            out[name] = weights[name]
            continue
        places = {k: num(block) for k, block in ready.loops_of(p.symbol, blocks).items()}
        value = run.arrays.of(substitute(made[p.name], letters=places))
        heads = tuple(s for s in p.symbol.slots if s not in folding.model.loop_letters)
        axes = (*heads, *(ROW, COL)[2 - len(p.shape) :])
        array = expand(run.arrays.xp, run.arrays.lift(value), value.axes, axes)
        out[name] = run.arrays.xp.broadcast_to(array, shape)
    return out


__all__ = ["reweighted"]
