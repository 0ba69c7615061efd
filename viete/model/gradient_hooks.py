"""Backward hooks: functions of the gradient that arrives at a value, with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viete.errors import VieteError
from viete.evaluate.labelled import Array


class GradientHook:
    """A backward hook, as a forward hook that leaves the value as it is.

    ``fn(gradient, hook)`` is called as soon as a derivative arrives at the value; its result
    replaces the gradient. Derivatives end at a value that depends on nothing with a gradient.
    """

    def __init__(self, fn: Callable[[Array, Any], Array | None]) -> None:
        self.fn = fn

    def __call__(self, value: Array, hook: Any) -> Array:
        if not hasattr(value, "register_hook"):
            raise VieteError(
                f"a hook on the way back, at {hook.name}, needs PyTorch, which takes the "
                f'derivative: load the model with framework="torch"; model.grad() has the '
                f"equations of gradients without it"
            )
        if not value.requires_grad:
            value.requires_grad_()
        value.register_hook(lambda gradient: self.fn(gradient, hook))
        return value


__all__ = ["GradientHook"]
