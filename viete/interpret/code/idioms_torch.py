"""Named functions as people write them in PyTorch; see `idioms`."""

from __future__ import annotations

from typing import Any

import torch

Array = Any


def rotate(a: Array, b: Array, phi: Array) -> Array:
    """Turns every pair (a, b) by phi, whose sines are taken before they are rounded."""
    cos, sin = phi.cos().to(a), phi.sin().to(a)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
