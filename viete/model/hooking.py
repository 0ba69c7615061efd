"""Functions that hook into every run of a model, at its hook points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Self

from viete.analysis.value_names import heads_counted
from viete.evaluate.interventions import Intervention, composed, intervention, member_of
from viete.evaluate.labelled import Layout, Value
from viete.evaluate.schedule import Member, program
from viete.graph.card import CardData
from viete.model.calls import NamedCalls
from viete.model.hook_points import Hook, HookPoint, LensHandle
from viete.model.named_values import NamedValues, named_values
from viete.model.short_names import Key

Filter = Key | Callable[[str], bool] | Sequence[Key | Callable[[str], bool]]
Hooks = Sequence[tuple[Filter, Hook]]


class Hooking(NamedCalls):
    """The hook points of a model."""

    level = 0  # how many ``with`` blocks of hooks there are around

    @cached_property
    def points(self) -> dict[str, HookPoint]:
        """The hook points that something has asked for, by name."""
        return {}

    def point(self, name: str) -> HookPoint:
        """The hook point of a full name."""
        return self.points.setdefault(name, HookPoint(name))

    @property
    def hook_dict(self) -> dict[str, HookPoint]:
        """The places to hook into, by name."""
        return {name: self.point(name) for name in self.names} | self.points

    def hook_points(self) -> list[HookPoint]:
        """The places to hook into."""
        return list(self.hook_dict.values())

    def list_hooks(
        self, name_filter: Filter | None = None, dir: str = "both", including_permanent: bool = True
    ) -> dict[str, list[LensHandle]]:
        """The hooks at each of the places that have some, by name."""
        names = list(self.points) if name_filter is None else self.chosen(name_filter)
        found = {
            name: [h for hooks in self.point(name).of(dir) for h in hooks
                   if h.fits(including_permanent, None)]
            for name in names
        }  # fmt: skip
        return {name: hooks for name, hooks in found.items() if hooks}

    @contextmanager
    def hooks(
        self, fwd_hooks: Hooks = (), bwd_hooks: Hooks = (), reset_hooks_end: bool = True,
        clear_contexts: bool = False,
    ) -> Iterator[Self]:  # fmt: skip
        """Add these hooks to every run inside the ``with`` block.

        With ``reset_hooks_end`` False they stay after it. With ``clear_contexts`` the contexts of
        hook points are emptied at the end.
        """
        self.level += 1
        level = self.level if reset_hooks_end else None
        try:
            for dir, hooks in (("fwd", fwd_hooks), ("bwd", bwd_hooks)):
                for where, fn in hooks:
                    self.add_hook(where, fn, dir, level=level)
            yield self
        finally:
            if reset_hooks_end:
                self.reset_hooks(clear_contexts, level=self.level)
            elif clear_contexts:
                self.clear_contexts()
            self.level -= 1

    def add_hook(
        self, name: Filter, hook: Hook, dir: str = "fwd", is_permanent: bool = False,
        level: int | None = None, prepend: bool = False,
    ) -> None:  # fmt: skip
        """Let a function hook into every run from now on.

        ``name`` names values as TransformerLens does, or as the card does: ``x^1``, ``A^{1,h}``.
        See `HookPoint.add_hook` for the rest. Raises VieteError for any other name.
        """
        for found in self.chosen(name):
            self.point(found).add_hook(hook, dir, is_permanent, level, prepend)

    def add_perma_hook(self, name: Filter, hook: Hook, dir: str = "fwd") -> None:
        """As `add_hook`, with a hook that stays when hooks are reset."""
        self.add_hook(name, hook, dir, is_permanent=True)

    def reset_hooks(
        self, clear_contexts: bool = True, direction: str = "both",
        including_permanent: bool = False, level: int | None = None,
    ) -> None:  # fmt: skip
        """As `remove_all_hook_fns`; empties the contexts of hook points too, unless told not to."""
        self.remove_all_hook_fns(direction, including_permanent, level)
        if clear_contexts:
            self.clear_contexts()

    def remove_all_hook_fns(
        self, direction: str = "both", including_permanent: bool = False, level: int | None = None
    ) -> None:
        """Remove the hooks of one ``direction``, "fwd" or "bwd", or of both.

        Permanent hooks stay unless ``including_permanent``. With a ``level``, only those that a
        ``with`` block of that level added are removed.
        """
        for point in self.points.values():
            point.remove_hooks(direction, including_permanent, level)

    def clear_contexts(self) -> None:
        """Empty the contexts of all hook points."""
        for point in self.points.values():
            point.clear_context()

    # -- how ---------------------------------------------------------------------------------------

    def with_hooks(self, options: dict[str, Any]) -> tuple[CardData, dict[str, Any]]:
        """The card with the values that functions hook into, and the options with these hooks."""
        if not (hooked := self.hooked()):
            return self.card, options
        named = named_values(self.names, {n for n in map(self.general, hooked) if n})
        if options.get("names") is not None:
            needed = [named.value(str(point.name)) for point in hooked]
            options["names"] = [*options["names"], *needed]
        options["put"] = {**(options.get("put") or {}), **self.interventions(named, hooked)}
        return named.model, options

    def hooked(self) -> list[HookPoint]:
        """The points that have hooks, those of one value in the order of their names in a run."""
        found = [point for point in self.points.values() if point.has_hooks()]
        return sorted(found, key=lambda point: self.place(str(point.name)))

    def place(self, name: str) -> tuple[int, int]:
        """A name's place in a run; names of the card come last."""
        if name not in self.names:
            return self.names.layers, len(self.names.entries)
        general, layer = self.names.split(name)
        order = list(self.names.entries).index(general)
        if layer is None:
            layer = -1 if self.names.comes_first(general) else self.names.layers
        return layer, order

    def chosen(self, where: Filter) -> list[str]:
        """The full names that a filter selects; of a value of the card, its own name.

        Raises VieteError for a name that the card has no value for.
        """
        return [name if name in self.names else self.own_name(name) for name in self.asked(where)]

    def own_name(self, name: str) -> str:
        """The card's own name of a value, in any spelling."""
        if name in self.points or heads_counted(self.card, name):
            return name
        ready = program(self.card)
        member = member_of(ready, name)
        return next(own for own, m in ready.names.items() if m == member)

    def asked(self, where: Filter) -> list[str]:
        """The full names that a filter selects, and the formulas in it.

        Raises VieteError for a name that the card has no value for.
        """
        one = isinstance(where, str) or callable(where) or is_key(where)
        items: list[Any] = [where] if one else list(where)  # type: ignore[arg-type]
        out: list[str] = []
        for item in items:
            if callable(item):
                out += [name for name in self.names if item(name)]
                continue
            name = self.names.full_or_formula(item)
            if name is not None:
                self.names.get(self.names.split(name)[0])
            out.append(item if name is None else name)
        return list(dict.fromkeys(out))

    def general(self, point: HookPoint) -> str:
        """A point's name as in names.md; empty for a name of the card."""
        name = str(point.name)
        return self.names.split(name)[0] if name in self.names else ""

    def interventions(
        self, named: NamedValues, hooked: Sequence[HookPoint]
    ) -> dict[Member, Intervention]:
        """What hooks do to the values of a run."""
        by_member: dict[Member, list[Intervention]] = {}
        for point in hooked:
            name = str(point.name)
            made = intervention(point, partial(as_laid_out, named.layout(name)), name)
            by_member.setdefault(named.member(name), []).append(made)
        return {member: composed(each) for member, each in by_member.items()}


def as_laid_out(order: Layout, value: Value) -> Layout:
    """The order of a value's axes, whatever the value."""
    return order


def is_key(where: Any) -> bool:
    """Whether this is one name, ``("q", 5)``, and not several names."""
    if not isinstance(where, tuple) or len(where) < 2:
        return False
    return where[1] is None or hasattr(where[1], "__index__")


__all__ = ["Filter", "Hooking", "Hooks"]
