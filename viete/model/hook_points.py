"""Hook points: the places of a model where functions can hook in, by TransformerLens' names.

A hook replaces a value as soon as it is computed, and everything computed from it follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from viete.errors import VieteError
from viete.evaluate.labelled import Array

Hook = Callable[[Array, "HookPoint"], Array | None]


@dataclass(frozen=True, eq=False)
class LensHandle:
    """A function at a hook point; ``context_level`` counts the ``with`` blocks around it."""

    user_hook: Hook
    is_permanent: bool = False
    context_level: int | None = None

    def fits(self, including_permanent: bool, level: int | None) -> bool:
        """Whether this is of the level, if one is given, and not permanent unless included."""
        if self.is_permanent and not including_permanent:
            return False
        return level is None or self.context_level == level


@dataclass(eq=False)
class HookPoint:
    """The place of a hook, as its function receives it; ``ctx`` is a dict for the function.

    ``fwd_hooks`` and ``bwd_hooks`` are the functions here, in the order of their calls.
    """

    name: str | None = None
    ctx: dict[str, Any] = field(default_factory=dict)
    fwd_hooks: list[LensHandle] = field(default_factory=list)
    bwd_hooks: list[LensHandle] = field(default_factory=list)

    def layer(self) -> int:
        """The block. Raises VieteError for a value outside blocks, and for a name of the card."""
        parts = str(self.name).split(".")
        if parts[0] != "blocks":
            raise VieteError(f"{self.name} is in no block that TransformerLens numbers")
        return int(parts[1])

    def add_hook(
        self, hook: Hook, dir: str = "fwd", is_permanent: bool = False, level: int | None = None,
        prepend: bool = False,
    ) -> LensHandle:  # fmt: skip
        """Let a function hook in here from now on, after the others, or with ``prepend`` first.

        With ``dir`` "bwd" it receives the gradient with respect to the value, when derivatives are
        taken with PyTorch. A permanent hook stays when hooks are reset.
        """
        if not callable(hook):
            raise VieteError(
                f"a hook must be a function of a value and a hook point, not {hook!r:.40}"
            )
        if dir not in ("fwd", "bwd"):
            raise VieteError(f"dir must be 'fwd' or 'bwd', not {dir!r:.40}")
        hooks, handle = self.of(dir)[0], LensHandle(hook, is_permanent, level)
        hooks.insert(0 if prepend else len(hooks), handle)
        return handle

    def add_perma_hook(self, hook: Hook, dir: str = "fwd") -> None:
        """As `add_hook`, with a hook that stays when hooks are reset."""
        self.add_hook(hook, dir, is_permanent=True)

    def has_hooks(
        self, dir: str = "both", including_permanent: bool = True, level: int | None = None
    ) -> bool:
        """Whether there is a function of a direction, "fwd", "bwd" or "both", and of a level."""
        return any(h.fits(including_permanent, level) for hooks in self.of(dir) for h in hooks)

    def remove_hooks(
        self, dir: str = "fwd", including_permanent: bool = False, level: int | None = None
    ) -> None:
        """Remove the functions of a direction and level; permanent ones only where included."""
        for hooks in self.of(dir):
            hooks[:] = [h for h in hooks if not h.fits(including_permanent, level)]

    def clear_context(self) -> None:
        """Empty the context."""
        self.ctx.clear()

    def of(self, dir: str) -> tuple[list[LensHandle], ...]:
        """The hooks of a direction. Raises VieteError for an unknown one."""
        known = {"fwd": (self.fwd_hooks,), "bwd": (self.bwd_hooks,),
                 "both": (self.fwd_hooks, self.bwd_hooks)}  # fmt: skip
        if dir not in known:
            raise VieteError(f"direction must be 'fwd', 'bwd' or 'both', not {dir!r:.40}")
        return known[dir]

    def __call__(self, value: Array) -> Array:
        """The value after the hooks, in order, as a module of PyTorch calls its own.

        Every function on the way back receives the gradient with respect to the result. What the
        last of them returns is the gradient with respect to the value that came.
        """
        if self.bwd_hooks and not hasattr(value, "register_hook"):
            raise VieteError(
                f"a hook on the way back, at {self.name}, needs PyTorch, which takes the "
                f'derivative: load the model with framework="torch"; model.grad() has the '
                f"equations of gradients without it"
            )
        if self.bwd_hooks and not value.requires_grad:
            value.requires_grad_()
        out = value.clone() if self.bwd_hooks and self.fwd_hooks else value
        for handle in self.fwd_hooks:
            changed = handle.user_hook(out, self)
            out = out if changed is None else changed
        if self.bwd_hooks and getattr(out, "requires_grad", False):
            back = Back(self, tuple(self.bwd_hooks))
            out.register_hook(back.arriving)
            value.register_hook(back.leaving)
        return out

    def __repr__(self) -> str:
        return f"<hook point {self.name}: {len(self.fwd_hooks)} fwd, {len(self.bwd_hooks)} bwd>"


@dataclass
class Back:
    """The way back through a hook point, with the hooks that it had in the run."""

    point: HookPoint
    hooks: tuple[LensHandle, ...]
    given: Array | None = None

    def arriving(self, gradient: Array) -> None:
        """Call the hooks with the gradient with respect to the result."""
        for handle in self.hooks:
            found: Any = handle.user_hook(gradient, self.point)
            if found is not None:
                self.given = found[0] if isinstance(found, tuple) else found

    def leaving(self, gradient: Array) -> Array | None:
        """The gradient that the hooks give for the value that came, if they give one."""
        given, self.given = self.given, None
        return given


__all__ = ["Hook", "HookPoint", "LensHandle"]
