"""Values that another takes the place of while a run goes on, by their names in the notation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from array_api_compat import array_namespace

from viete.errors import VieteError
from viete.interpret.labelled import COL, ROW, Array, Value, expand
from viete.interpret.schedule import Member, Program

Change = Callable[[Value], Value]  # what stands in for a value, given it
ByName = Mapping[str, Callable[[Array], Array | None]]


def changes_by_name(ready: Program, given: ByName) -> dict[Member, Change]:
    """Functions of arrays, as ``run[name]`` has them, as functions of labelled values.

    What a function returns must have the same shape; if it returns None, the array is taken as the
    function leaves it. Raises VieteError for a name that no equation defines as a whole.
    """
    out: dict[Member, Change] = {}
    for name, function in given.items():
        if name not in ready.names:
            some = ", ".join(list(ready.names)[:6])
            raise VieteError(
                f"{name!s:.60} is not the value of an equation, so that nothing can take its "
                f"place; {ready.model.title} has {some} and more"
            )
        key, blocks = ready.names[name]
        slots = next(e.left.symbol.slots for e in ready.model.equations if e.name == key)
        letters = tuple(s for s in slots if s not in ready.model.loop_letters)
        out[key, blocks] = change(name, function, letters)
    return out


def change(
    name: str, function: Callable[[Array], Array | None], letters: tuple[str, ...]
) -> Change:
    """One function of an array as one of a value; the array that it gets is its own."""

    def apply(value: Value) -> Value:
        xp = array_namespace(value.array)
        axes = tuple(a for a in ("batch", *letters, ROW, COL) if a in value.axes)
        mine = xp.asarray(expand(xp, value.array, value.axes, axes), copy=True)
        made = function(mine)
        made = mine if made is None else made
        if tuple(getattr(made, "shape", ())) != tuple(mine.shape):
            raise VieteError(
                f"what takes the place of {name} must have its shape {tuple(mine.shape)}, not "
                f"{tuple(getattr(made, 'shape', ()))}"
            )
        return Value(made, axes)

    return apply


__all__ = ["ByName", "Change", "changes_by_name"]
