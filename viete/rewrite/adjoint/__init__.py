"""The adjoint: backward equations, derived from the forward ones by rewriting.

The result is a card like any other: the forward equations, then one equation for every ∂X = ∂L/∂X.
Every step applies a rule of derivatives.md to one operation. A value that was broadcast on the way
forward is summed on the way back.
"""

from viete.rewrite.adjoint.grad import grad

__all__ = ["grad"]
