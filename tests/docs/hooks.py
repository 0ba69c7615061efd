"""The hooks of the site, which mkdocs loads by their paths, as modules for tests."""

from __future__ import annotations

from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

HOOKS = Path(__file__).parents[2] / "docs/.hooks"


@cache
def hook(name: str) -> ModuleType:
    """A hook of the site."""
    spec = spec_from_file_location(f"hook_{name}", HOOKS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
