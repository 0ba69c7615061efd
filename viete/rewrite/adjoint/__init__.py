"""Backward equations, derived from the forward ones by rewriting.

The result is a model like any other: the forward equations, then one for every ∂X = ∂L/∂X. Every
step is a rule of derivatives.md applied to one operation; what was repeated on the way forward is
summed on the way back.
"""

from viete.rewrite.adjoint.grad import grad

__all__ = ["grad"]
