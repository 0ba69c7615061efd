"""Hook points: the places of a model where functions can hook in, by TransformerLens' names.

A hook replaces a value as soon as it is computed, and everything computed from it follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from viete.analysis.value_names import heads_counted
from viete.errors import VieteError
from viete.evaluate.interventions import Intervention, composed, intervention, member_of
from viete.evaluate.labelled import Array
from viete.evaluate.schedule import Member, program
from viete.model.calls import NamedCalls
from viete.model.gradient_hooks import GradientHook
from viete.model.named_values import NamedValues
from viete.model.short_names import Key

Hook = Callable[[Array, "HookPoint"], Array | None]
Filter = Key | Callable[[str], bool] | Sequence[Key | Callable[[str], bool]]
Hooks = Sequence[tuple[Filter, Hook]]


@dataclass
class HookPoint:
    """The place of a hook, as its function receives it; ``ctx`` is a dict for the function."""

    name: str
    ctx: dict[str, Any] = field(default_factory=dict)
    add: Callable[..., None] | None = field(default=None, repr=False, compare=False)

    def layer(self) -> int:
        """The block. Raises VieteError for a value outside blocks, and for a name of the card."""
        parts = self.name.split(".")
        if parts[0] != "blocks":
            raise VieteError(f"{self.name} is in no block that TransformerLens numbers")
        return int(parts[1])

    def add_hook(self, hook: Hook, dir: str = "fwd", is_permanent: bool = False) -> None:
        """As `Hooking.add_hook`, at this place."""
        assert self.add is not None
        self.add(self.name, hook, dir, is_permanent)


class Hooking(NamedCalls):
    """The functions that hook into every run of a model, and their places."""

    @cached_property
    def hook_dict(self) -> dict[str, HookPoint]:
        """The places to hook into, by name."""
        return {name: HookPoint(name, add=self.add_hook) for name in self.names}

    @cached_property
    def hooked(self) -> list[tuple[str, Hook]]:
        """The functions that hook into every run, in order."""
        return []

    @cached_property
    def permanent(self) -> list[tuple[str, Hook]]:
        """The hooks that stay when hooks are reset."""
        return []

    @contextmanager
    def hooks(self, fwd_hooks: Hooks = (), bwd_hooks: Hooks = ()) -> Iterator[Self]:
        """Add these hooks to every run inside the ``with`` block."""
        before = list(self.hooked)
        try:
            for dir, hooks in (("fwd", fwd_hooks), ("bwd", bwd_hooks)):
                for where, fn in hooks:
                    self.add_hook(where, fn, dir)
            yield self
        finally:
            self.hooked[:] = before

    def add_hook(
        self, where: Filter, fn: Hook, dir: str = "fwd", is_permanent: bool = False
    ) -> None:
        """Let a function hook into every run from now on.

        ``where`` names values as TransformerLens does, or as the card does: ``x^1``, ``A^{1,h}``.
        With ``dir`` "bwd" the function receives the gradient with respect to the value, when
        derivatives are taken with PyTorch. A permanent hook stays when hooks are reset. Raises
        VieteError for any other name.
        """
        if not callable(fn):
            raise VieteError(
                f"a hook must be a function of a value and a hook point, not {fn!r:.40}"
            )
        if dir not in ("fwd", "bwd"):
            raise VieteError(f"dir must be 'fwd' or 'bwd', not {dir!r:.40}")
        found = self.chosen(where)
        ready = program(self.card)
        own = {m: name for name, m in ready.names.items()}
        for k, name in enumerate(found):
            if name not in self.names:
                member = member_of(ready, name)
                found[k] = name if heads_counted(self.card, name) else own[member]
            self.hook_dict.setdefault(found[k], HookPoint(found[k], add=self.add_hook))
        new = [(name, fn if dir == "fwd" else GradientHook(fn)) for name in found]
        self.hooked.extend(new)
        if is_permanent:
            self.permanent.extend(new)

    def add_perma_hook(self, name: Filter, hook: Hook, dir: str = "fwd") -> None:
        """As `add_hook`, with a hook that stays when hooks are reset."""
        self.add_hook(name, hook, dir, is_permanent=True)

    def reset_hooks(
        self, clear_contexts: bool = True, direction: str = "both",
        including_permanent: bool = False,
    ) -> None:  # fmt: skip
        """Remove the hooks of one ``direction``, "fwd" or "bwd", or of both.

        Permanent hooks stay unless ``including_permanent``. The contexts of hook points are emptied
        unless ``clear_contexts`` is False.
        """
        if direction not in ("fwd", "bwd", "both"):
            raise VieteError(f"direction must be 'fwd', 'bwd' or 'both', not {direction!r:.40}")

        def stays(hook: tuple[str, Hook]) -> bool:
            own = "bwd" if isinstance(hook[1], GradientHook) else "fwd"
            kept = hook in self.permanent and not including_permanent
            return kept or direction not in (own, "both")

        self.hooked[:] = [hook for hook in self.hooked if stays(hook)]
        self.permanent[:] = [hook for hook in self.permanent if hook in self.hooked]
        if clear_contexts:
            self.clear_contexts()

    def clear_contexts(self) -> None:
        """Empty the contexts of all hook points."""
        for point in self.hook_dict.values():
            point.ctx.clear()

    # -- how ---------------------------------------------------------------------------------------

    def chosen(self, where: Filter) -> list[str]:
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

    def general(self, hook: tuple[str, Hook]) -> str:
        """A hook's name as in names.md; empty for a name of the card."""
        return self.names.split(hook[0])[0] if hook[0] in self.names else ""

    def interventions(
        self, named: NamedValues, hooks: Sequence[tuple[str, Hook]]
    ) -> dict[Member, Intervention]:
        """What hooks do to the values of a run."""
        by_member: dict[Member, list[Intervention]] = {}
        for name, fn in sorted(hooks, key=lambda hook: isinstance(hook[1], GradientHook)):
            by_member.setdefault(named.member(name), []).append(self.intervention(named, name, fn))
        return {member: composed(each) for member, each in by_member.items()}

    def intervention(self, named: NamedValues, name: str, fn: Hook) -> Intervention:
        """One hook as an intervention: called with the value in TransformerLens's layout."""
        order, point = named.layout(name), self.hook_dict[name]
        return intervention(lambda array: fn(array, point), lambda value: order, name)


def is_key(where: Any) -> bool:
    """Whether this is one name, ``("q", 5)``, and not several names."""
    if not isinstance(where, tuple) or len(where) < 2:
        return False
    return where[1] is None or hasattr(where[1], "__index__")


__all__ = ["Filter", "Hook", "HookPoint", "Hooking", "Hooks"]
