"""One hypothesis profile for all tests, and one way to get double precision from JAX."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Before JAX is first imported: without it float64 weights would quietly become float32.
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# The same examples on every run: a red test is a changed program, never a new roll of the dice.
# A deeper search is `pytest --hypothesis-profile=search`.
quiet = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
settings.register_profile(
    "laws", max_examples=40, deadline=None, derandomize=True, suppress_health_check=quiet
)
settings.register_profile(
    "search", max_examples=1000, deadline=None, derandomize=False, suppress_health_check=quiet
)
settings.load_profile("laws")
