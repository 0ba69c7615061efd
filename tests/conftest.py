"""Hypothesis profiles, double precision from JAX, and what wrong use must come to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
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


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs the command line in a folder; it must say one thing and leave all there as it was."""
    from tests.command_line import viete

    def there() -> dict[Path, int]:
        return {p: p.lstat().st_mtime_ns if p.is_file() else 0 for p in tmp_path.rglob("*")}

    def run(*arguments: str | Path, **streams: Any) -> str:
        before = there()
        monkeypatch.chdir(tmp_path)
        started = time.process_time()
        ended = viete(*arguments, code=2, **streams)
        assert time.process_time() - started < 5
        assert ended.out == "" and ended.err.startswith("viete: ")
        assert "Traceback" not in ended.err
        assert there() == before
        return ended.err

    return run
