"""Runs that start in the middle: from the stream that a block reads, or through one part of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from viete.errors import Text, VieteError
from viete.evaluate.inputs import Feeding
from viete.evaluate.interventions import Intervention, as_library
from viete.evaluate.labelled import Array
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, program
from viete.model.calls import array_like
from viete.model.hooking import Hooking
from viete.model.named_values import NamedValues, named_values
from viete.model.table import conventions
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr

# What a part of a block reads, by its names in names.md, tried in turn; what it makes of that; and
# the norm that stands between this and the stream, if a card has one.
PARTS = {
    "": (("resid_{pre}^i",), "resid_{post}^i", None),
    "attn": (("u^i", "resid_{pre}^i"), "attn_{out}^i", "ln1_post"),
    "mlp": (("v^i", "resid_{mid}^i", "resid_{pre}^i"), "mlp_{out}^i", "ln2_post"),
}


class Starting(Hooking):
    """Runs of some of the equations."""

    def started(
        self, stream: Array, named: NamedValues, first: str, needed: list[str],
        put: dict[Member, Intervention], inputs: Mapping[str, Any],
    ) -> Run:  # fmt: skip
        """A run from the stream that a block reads on."""
        if getattr(stream, "ndim", 0) != 3:
            raise VieteError("a block is started with the stream that it reads, (batch, n, d)")
        text, ready = self.text, program(named.model)
        ids = np.zeros(tuple(stream.shape[:2]), int)  # for the number of positions alone
        given = {text.name: array_like(next(iter(self.weights.values())), ids), **inputs}
        fed = Feeding(ready, given, self.weights)
        ready, member = ready.at(fed.sizes), named.member(first)
        array = as_library(stream, fed.like, "the stream")
        shape = (*ids.shape, self.cfg.d_model)
        value = named.layout(first).inward(array_namespace(array), array, shape, "the stream")
        value = put[member](value, stream.shape[0]) if member in put else value
        store = {**fed.store, member: value}
        if text.name not in inputs:
            del store[text.name, ()]  # what needs ids after all is refused
        run = Run(ready, store, fed.like, fed.sizes, True, put)
        run.compute(needed)
        return run

    def part(self, layer: int, name: str, array: Array) -> Array:
        """The result of a part of a block, or with an empty name of the block, for a given input.

        ``array`` is (batch, n, d_model), and so is the result. Norms are not part of ``attn`` and
        ``mlp``. Raises VieteError where the card has no such part, and where the part needs the
        text as well. Hooks do not act on it.
        """
        reads, makes, norm = PARTS[name]
        first = next(filter(None, map(self.symbol_of_names, reads)), None)
        target = self.symbol_of_names(makes)
        if norm is not None and (found := self.names.found(f"blocks.{{l}}.{norm}.hook_scale")):
            assert found.place is not None and isinstance(found.place.whole, Apply)
            target = found.place.whole.args[0]
        if first is None or target is None:
            part = name or "block"
            raise VieteError(f"{self.card.title} has no {part} under the names of TransformerLens")
        named = named_values(self.names, ())
        first, target = (self.names.at(e, layer) for e in (first, target))
        run = self.started(array, named, show(first), [show(target)], {}, {})
        value = run.arrays.of(target)
        order = named.layout(f"blocks.{layer}.hook_resid_post")
        return order.outward(run.arrays.xp, run.arrays.lift(value), value.axes, run.batch or 1)

    def symbol_of_names(self, text: str) -> Expr | None:
        """A symbol of names.md in the card; None where it has no such value."""
        return self.names.own(parse(Text(text, "names.md"), conventions().scope))


__all__ = ["Starting"]
