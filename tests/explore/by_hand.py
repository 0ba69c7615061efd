"""Page data read back, and operations carried out by NumPy as they are described there."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from scipy.special import erf

PRIMITIVES: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "neg": np.negative, "times": np.multiply,
    "had": np.multiply, "prod": np.multiply, "div": np.divide, "pow": np.power, "mod": np.mod,
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "erf": erf, "tanh": np.tanh, "sin": np.sin,
    "cos": np.cos, "arctan": np.arctan, "abs": np.abs, "floor": np.floor, "max": np.maximum,
    "min": np.minimum, "where": np.where, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and,
    "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip


def decoded(stored: dict[str, Any]) -> np.ndarray:
    """A value of the page as an array."""
    array = np.frombuffer(base64.b64decode(stored["data"]), "<f8")
    return array.reshape(stored["shape"])


class StepByHand:
    """The operations of one step, on the values that the page has."""

    def __init__(self, step: dict[str, Any], values: dict[str, Any]) -> None:
        self.step, self.values = step, values
        self.operations = {o["id"]: o for o in step["operations"]}

    def value(self, key: str) -> np.ndarray:
        return decoded(self.values[key])

    def operand(self, x: dict[str, Any], sizes: dict[str, int]) -> np.ndarray:
        """An operand's array, with its own axes."""
        match x["value"]:
            case str(key):
                return self.value(key)
            case {"operation": k}:
                return self.value(self.operations[k]["value"])
            case {"number": word}:
                return np.asarray(float(word))
            case {"from": first}:
                return np.arange(first, first + sizes[x["axes"][0]], dtype=float)
            case number:
                return np.asarray(number)

    def aligned(self, x: dict[str, Any], labels: list[str], sizes: dict[str, int]) -> np.ndarray:
        """An operand with an axis for each label, of one entry where it has none."""
        array = self.operand(x, sizes)
        assert array.ndim == len(x["axes"]) and set(x["axes"]) <= set(labels)
        array = np.transpose(array, [x["axes"].index(a) for a in labels if a in x["axes"]])
        return array[tuple(slice(None) if a in x["axes"] else None for a in labels)]

    def carried_out(self, o: dict[str, Any]) -> np.ndarray:
        """An operation's result."""
        if "last" in o:
            return self.carried_out(self.operations[o["last"]])
        sizes = o["sizes"]
        if o["op"] == "pick":
            return self.picked(o)
        if o["op"] == "concat":
            return self.joined(o)
        labels = [*o["axes"], *o["over"]]
        arrays = [self.aligned(x, labels, sizes) for x in o["operands"]]

        def entry(formula: Any) -> np.ndarray:
            if isinstance(formula, int):
                return arrays[formula]
            return PRIMITIVES[formula[0]](*map(entry, formula[1:]))

        out = np.broadcast_to(entry(o["formula"]), [sizes[a] for a in labels])
        if o["over"]:
            axis = tuple(range(len(o["axes"]), len(labels)))
            fold = getattr(np, o["fold"])
            out = fold(out, axis[0]) if o["fold"] == "argmax" else fold(out, axis)
        return np.asarray(out, float)

    def picked(self, o: dict[str, Any]) -> np.ndarray:
        """Each entry at its place of the source."""
        source, index = o["operands"]
        places = np.broadcast_to(self.aligned(index, o["axes"], o["sizes"]),
                                 [o["sizes"][a] for a in o["axes"]])  # fmt: skip
        array, out = self.operand(source, o["sizes"]), np.empty(places.shape)
        for at in np.ndindex(places.shape):
            here = dict(zip(o["axes"], at, strict=True)) | {o["at"]: int(places[at]) - o["first"]}
            out[at] = array[tuple(0 if array.shape[k] == 1 else here[a]
                                  for k, a in enumerate(source["axes"]))]  # fmt: skip
        return out

    def joined(self, o: dict[str, Any]) -> np.ndarray:
        """Operands side by side."""
        rest = [a for a in o["axes"] if a != o["to"]]
        parts = []
        for x in o["operands"]:
            array = self.aligned(x, [*rest, *o["along"]], o["sizes"])
            shape = [o["sizes"][a] for a in rest]
            array = np.broadcast_to(array, (*shape, *array.shape[len(rest) :]))
            parts.append(array.reshape(*shape, -1))
        out = np.concatenate(parts, -1)
        return np.moveaxis(out, -1, o["axes"].index(o["to"]))
