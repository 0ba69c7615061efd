"""Exported modules, run by Node; numbers come back as NumPy arrays."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

RUN = Path(__file__).with_name("module.mjs")


def outcomes(requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What each of several modules computes of its weights and inputs, see `module.mjs`."""
    assert shutil.which("node"), "install Node 20 or newer: apt-get install nodejs"
    given = [
        {**r, "weights": {k: {"shape": v.shape, "data": v.ravel().tolist()}
                          for k, v in r["weights"].items()},
         "inputs": {k: spelled(v) for k, v in r["inputs"].items()}}
        for r in requests
    ]  # fmt: skip
    made = subprocess.run(["node", RUN], input=json.dumps(given), capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert made.returncode == 0, made.stderr
    return [{k: arrays(x) for k, x in one.items()} for one in json.loads(made.stdout)]


def spelled(x: Any) -> Any:
    """Lists of numbers; JSON has no name for those that are not finite."""
    if isinstance(x, list | np.ndarray):
        return [spelled(v) for v in x]
    number = np.asarray(x).item()
    return number if np.isfinite(number) else str(number).replace("inf", "Infinity")


def arrays(x: Any) -> Any:
    """``{shape, data}`` anywhere, as arrays."""
    if not isinstance(x, dict):
        return x
    if x.keys() == {"shape", "data"}:
        return np.array([float(v) for v in x["data"]]).reshape(x["shape"])
    return {k: arrays(v) for k, v in x.items()}
