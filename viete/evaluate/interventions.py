"""Hooks on a run: functions or values that replace a named value as soon as it is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from viete.analysis.value_names import heads_counted, value_named
from viete.errors import Text, VieteError
from viete.evaluate.inputs import host
from viete.evaluate.labelled import (
    BATCH,
    Array,
    Layout,
    Value,
    device_of,
    in_order,
    is_float,
    traced,
)
from viete.evaluate.schedule import Member, Program
from viete.notation.tree import Idx, Ref

# The replacement of a value, given the value and the batch size (None: no batch).
Intervention = Callable[[Value, int | None], Value]
# By name: an array, or a function of one. By member: a function of labelled values, as for hooks.
Put = Mapping[str | Member, Any]


def interventions(ready: Program, put: Put) -> dict[Member, Intervention]:
    """Arrays and functions of arrays (as ``run[name]`` gives them) as functions of labelled values.

    An array replaces a value; so does the result of a function, or if that is None, the array as
    the function leaves it. Either must have the value's shape. Raises VieteError for a name that no
    equation defines as a whole.
    """
    out: dict[Member, list[Intervention]] = {}
    for name, by in put.items():
        if isinstance(name, tuple):
            out.setdefault(name, []).append(by)
            continue
        member = member_of(ready, name)
        out.setdefault(member, []).append(by_name(ready, name, member, by))
    return {member: composed(each) for member, each in out.items()}


def composed(several: list[Intervention]) -> Intervention:
    """Several interventions applied one after the other."""

    def apply(value: Value, batch: int | None) -> Value:
        for each in several:
            value = each(value, batch)
        return value

    return apply


def member_of(ready: Program, name: str) -> Member:
    """The value that a name stands for in any spelling, or through an alias.

    Raises VieteError for a name that no equation defines as a whole.
    """
    if isinstance(name, str) and name in ready.names:
        return ready.names[name]
    if isinstance(name, str):
        derived = {e.name: e for e in ready.model.derived}
        e = value_named(ready.model, Text(name, "<name>"))
        while isinstance(e, Ref) and e.key in derived:
            definition = derived[e.key]
            at = dict(zip(e.symbol.slots, e.index, strict=True))
            e = ready.model.substitute(definition.right, letters=at)
        if isinstance(e, Ref) and whole(ready, e):
            member = e.key, ready.places(e, {})
            if member in ready.names.values():
                return member
        if isinstance(e, Ref) and (wider := of_all_letters(ready, e)) is not None:
            raise VieteError(
                f"{name!s:.60} is a part of {wider}, which is computed as one: name {wider}, and "
                f"change that part of the array"
            )
    some = ", ".join(list(ready.names)[:6])
    raise VieteError(
        f"{name!s:.60} is not the value of an equation, so nothing can replace it; "
        f"{ready.model.title} has {some} and more"
    )


def whole(ready: Program, ref: Ref) -> bool:
    """Whether a reference is a value of one block for all of its other index letters."""
    blocks = ready.model.loop_letters
    pairs = zip(ref.symbol.slots, ref.index, strict=True)
    return all(not isinstance(i, Idx) if s in blocks else i == Idx(s) for s, i in pairs)


def of_all_letters(ready: Program, ref: Ref) -> str | None:
    """The name of the whole value that a reference is part of: ``A^{2,h}`` for ``A^{2,1}``."""
    slots, blocks = ref.symbol.slots, ready.model.loop_letters
    pairs = zip(slots, ref.index, strict=True)
    wider = replace(ref, index=tuple(i if s in blocks else Idx(s) for s, i in pairs))
    if wider == ref or not whole(ready, wider):
        return None
    own = {member: name for name, member in ready.names.items()}
    return own.get((wider.key, ready.places(wider, {})))


def letters_of(ready: Program, member: Member) -> tuple[str, ...]:
    """The index letters of a value except those of blocks."""
    return ready.model.heads_of(ready.model.symbols[member[0]])


def layout_of(ready: Program, name: str, axes: Sequence[str]) -> Layout:
    """The axes of a value as an array by that name has them; heads of all groups are one axis.

    An example is ``A^{2,h}``, where h counts the heads of all groups. Raises VieteError for a value
    that all heads of a group share.
    """
    heads = heads_counted(ready.model, name)
    if heads is None:
        return Layout(tuple((a,) for a in axes), {s: len(ready.range_of(s)) for s in axes
                                                  if s in ready.model.ranges})  # fmt: skip
    both = heads.group, heads.member
    if ready.model.symbols[member_of(ready, name)[0]] not in heads.families:
        raise VieteError(
            f"{name} is what all heads of a group have in common; write {heads.group} for "
            f"{heads.letter}"
        )
    groups: list[tuple[str, ...]] = [(a,) for a in axes if a not in both]
    groups.insert(int(axes[0] == BATCH), both)
    return Layout(tuple(groups), {s: len(ready.range_of(s)) for s in both})


def by_name(ready: Program, name: str, member: Member, by: Any) -> Intervention:
    """An array, or a function of the array ``run[name]``, as an intervention on that value."""
    if not callable(by) and not is_array_api_obj(by):
        raise VieteError(
            f"the replacement of {name} must be an array, or a function of the array that is "
            f"there, not {type(by).__name__}"
        )
    letters = letters_of(ready, member)

    def layout(value: Value) -> Layout:
        return layout_of(ready, name, in_order(value, letters))

    return intervention(by if callable(by) else lambda array: by, layout, name)


def intervention(
    by: Callable[[Array], Array | None], layout: Callable[[Value], Layout], name: str
) -> Intervention:
    """An intervention that calls a function on a copy of the value, laid out as an array."""

    def apply(value: Value, batch: int | None) -> Value:
        xp, order = array_namespace(value.array), layout(value)
        array = order.outward(xp, value.array, value.axes, 1 if batch is None else batch)
        mine = array.clone() if hasattr(array, "clone") else xp.asarray(array, copy=True)
        shape = tuple(mine.shape)
        made = by(mine)
        what = f"what takes the place of {name}"
        made = mine if made is None else as_library(made, value.array, what)
        out = order.inward(xp, made, shape, what)
        # A run of one text has no axis for the batch, and a function may have been given one.
        alone = batch is None and out.axes[:1] == ("batch",)
        return Value(out.array[0], out.axes[1:]) if alone else out

    return apply


def as_library(array: Any, like: Array, what: str) -> Any:
    """An array moved to the library and device of another; what is not an array is unchanged.

    Raises VieteError for complex numbers and for arrays without numbers.
    """
    if not is_array_api_obj(array):
        return array
    kind = str(array.dtype).removeprefix("torch.")
    wrong = VieteError(f"{what} must be real numbers, not {kind}")
    if "complex" in kind or getattr(array.dtype, "kind", "f") not in "biufVO":
        raise wrong
    if kind == "object" and is_float(like):
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise wrong from None
    xp = array_namespace(like)
    if array_namespace(array) is xp:
        move = hasattr(array, "detach") and array.device != like.device
        return array.to(like.device) if move else array
    if traced(array):
        raise VieteError(
            f"{what} has no values here, so it must be an array of the weights' library"
        )
    if hasattr(array, "detach") and is_float(array):
        array = array.double()  # NumPy has no bfloat16
    return xp.asarray(np.array(host(array)), device=device_of(like))


def as_like(array: Any, like: Array, what: str) -> Array:
    """Numbers as an array of the library, precision and device of another array.

    Raises VieteError as `as_library` does.
    """
    made, xp = as_library(array, like, what), array_namespace(like)
    if is_array_api_obj(made) or traced(made):  # PyTorch's asarray would warn of a derivative
        return xp.astype(made, like.dtype, copy=False)
    return xp.asarray(made, dtype=like.dtype, device=device_of(like))


__all__ = [
    "Intervention", "Put", "as_library", "as_like", "composed", "intervention", "interventions",
    "layout_of", "letters_of", "member_of",
]  # fmt: skip
