"""Hypothesis profiles, double precision from JAX, and what wrong use must come to."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

os.environ.pop("COLUMNS", None)  # what is printed is as wide whoever runs the tests
# Before JAX is first imported: without it float64 weights would quietly become float32.
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Every operation is compiled for every shape: quickly counts, not well.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

# The same examples on every run: a red test is a changed program, never a new roll of the dice.
# A deeper search is `pytest --hypothesis-profile=search`.
quiet = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
settings.register_profile(
    "laws", max_examples=8, deadline=None, derandomize=True, suppress_health_check=quiet
)
settings.register_profile("all", settings.get_profile("laws"), max_examples=20)
settings.register_profile(
    "search", max_examples=1000, deadline=None, derandomize=False, suppress_health_check=quiet
)
settings.register_profile("quick", settings.get_profile("laws"), max_examples=3)
settings.load_profile("laws")

gc.disable()  # until all is imported, of which little is garbage: a second for each worker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="the laws with few examples, and one of everything"
    )
    parser.addoption(
        "--all", action="store_true", help="what is slow, too; every card, every combination"
    )
    parser.addoption(
        "--slowest",
        action="store_true",
        help="write tests/slowest.txt anew from how long they take",
    )


def pytest_configure(config: pytest.Config) -> None:
    # What one run of the tests has compiled, the next need not; each worker for itself.
    compiled = config.cache.mkdir(f"jax-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(compiled))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    for profile in ("all", "quick"):
        if config.getoption(profile):
            settings.load_profile(profile)
    if config.getoption("slowest") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Seconds())


class Seconds:
    """How long each case takes, from its set-up to its end."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.spent[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        from tests.choosing import SLOWEST, longest

        SLOWEST.write_text("".join(f"{x}\n" for x in longest(self.spent)), "utf-8")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest tests first, so that no worker is left alone with one; and what is asked for."""
    from tests.choosing import cases_of, place, slowest

    last = len(slowest())
    items.sort(
        key=lambda x: last if (k := place(x.nodeid)) is None else k
    )  # the rest in their order
    chosen = [x for x in items if is_wanted(x, config)]
    if not config.getoption("all"):
        named = tuple(x for x in config.args if "::" in x)  # a test that is named is run as it is
        some = cases_of(chosen)
        chosen = [x for x in chosen if x in some or (named and x.nodeid.startswith(named))]
    if config.getoption("quick"):
        chosen = one_of_everything(chosen)
    if left_out := set(items) - set(chosen):
        config.hook.pytest_deselected(items=[x for x in items if x in left_out])
        items[:] = chosen


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector need not look through it, not even once."""
    from viete.cli.main import collect_seldom

    share_compiler_context()
    gc.freeze()
    collect_seldom()
    gc.enable()


def share_compiler_context() -> None:
    """One for all that JAX compiles: to make one anew is a third of the work for an operation."""
    compiler: Any = sys.modules.get("jax._src.interpreters.mlir")
    if hasattr(compiler, "make_ir_context"):
        compiler.make_ir_context = cache(compiler.make_ir_context)


def pytest_sessionfinish() -> None:
    """Nor what all the tests have left, which pytest would have it do five times at its end."""
    gc.freeze()


def is_wanted(item: pytest.Item, config: pytest.Config) -> bool:
    """What takes long, or programs that are not Python's, is run where it is asked for."""
    asked, marks = config.getoption("markexpr"), ("browser", "notebooks", "tex")
    return all(mark in asked for mark in marks if item.get_closest_marker(mark))


def one_of_everything(items: list[pytest.Item]) -> list[pytest.Item]:
    """The first case of every law, and of each other file."""
    from tests.choosing import name_of

    first: dict[str, pytest.Item] = {}
    for item in items:
        path = item.nodeid.partition("::")[0]
        first.setdefault(name_of(item.nodeid) if path.startswith("tests/laws/") else path, item)
    return list(first.values())


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
