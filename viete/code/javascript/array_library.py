"""The array functions that a JavaScript module needs, from a few files and three patterns.

Entrywise functions and reductions are each written once as a pattern; their rows are here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources

FILES = (
    "arrays.js", "broadcasting.js", "entrywise.js", "indexing.js", "layout.js", "products.js",
    "functions.js",
)  # fmt: skip
# Of an entry {x}.
UNARY = {
    **{name: f"Math.{name}({{x}})" for name in "exp log sqrt tanh sin cos abs floor".split()},
    "arctan": "Math.atan({x})",
    "erf": "erf_of({x})",
    "negative": "-{x}",
    "logical_not": "{x} ? 0 : 1",
}
# Of entries {x} and {y}; a test is 1 or 0.
BINARY = {
    "add": "{x} + {y}", "sub": "{x} - {y}", "mul": "{x} * {y}", "div": "{x} / {y}",
    "quotient": "Math.floor({x} / {y})", "mod": "mod_of({x}, {y})", "power": "power_of({x}, {y})",
    "less": "{x} < {y} ? 1 : 0", "less_equal": "{x} <= {y} ? 1 : 0",
    "greater": "{x} > {y} ? 1 : 0", "greater_equal": "{x} >= {y} ? 1 : 0",
    "equal": "{x} === {y} ? 1 : 0", "not_equal": "{x} !== {y} ? 1 : 0",
    "logical_and": "{x} && {y} ? 1 : 0",
    "logical_or": "{x} || {y} ? 1 : 0",
    "maximum": "Math.max({x}, {y})", "minimum": "Math.min({x}, {y})",
    "logaddexp": "{x} === {y} ? {x} + Math.LN2 "
                 ": Math.max({x}, {y}) + Math.log1p(Math.exp(-Math.abs({x} - {y})))",
}  # fmt: skip
# What a sum so far {x} and the next entry {y} become, and what it begins with.
FOLDS = {
    "sum": ("{x} + {y}", "0"),
    "max": ("{y} > {x} || {y} !== {y} ? {y} : {x}", "-Infinity"),
    "min": ("{y} < {x} || {y} !== {y} ? {y} : {x}", "Infinity"),
}
UNARY_PATTERN = """\
function NAME(a) {
    if (typeof a !== "object") return SCALAR;
    const x = a.data, out = new Float64Array(x.length);
    for (let k = 0; k < out.length; k++) out[k] = ENTRY;
    return made(a.shape, out);
}"""
BINARY_PATTERN = """\
function NAME(a, b) {
    if (typeof a !== "object" && typeof b !== "object") return SCALAR;
    const {shape, rows, width, from: [s, t], steps: [p, q]} = fitted(a, b);
    const x = data_of(a), y = data_of(b), out = new Float64Array(rows * width);
    for (let r = 0, k = 0; r < rows; r++) {
        const end = k + width, i = s[r] - k, j = t[r] - k;
        if (p && q) for (; k < end; k++) out[k] = ENTRY;
        else if (p) for (const v = y[j + k]; k < end; k++) out[k] = RIGHT;
        else for (const u = x[i + k]; k < end; k++) out[k] = LEFT;
    }
    return made(shape, out);
}"""
FOLD_PATTERN = """\
function NAME(a, axis, keepdims = false) {
    const {before, n, after, outer, inner} = along(a, axis);
    const x = a.data, out = new Float64Array(outer * inner).fill(START);
    for (let i = 0, k = 0; i < outer; i++) {
        if (inner === 1) {
            let s = START;
            for (const end = k + n; k < end; k++) s = ROW;
            out[i] = s;
        } else for (let j = 0; j < n; j++)
            for (let o = i * inner, end = o + inner; o < end; o++, k++) out[o] = ENTRY;
    }
    return made([...before, ...(keepdims ? [1] : []), ...after], out);
}"""
ALIASES = {
    "gathered_each": "gathered", "placed_each": "placed", "cross_entropy_some": "cross_entropy",
    "take_along_axis": "entries", "empty": "zeros",
}  # fmt: skip


@cache
def functions() -> dict[str, str]:
    """The source of each function with its comment, by name, in the order of the file."""
    here = resources.files("viete.code.javascript")
    text = "\n".join(here.joinpath(f).read_text("utf-8") for f in FILES)
    found = re.findall(r"^(/\*\*(?:(?!\*/).)*\*/\nfunction (\w+)\(.*?^\}$)", text, re.M | re.S)
    out = {name: source for source, name in found}
    for name, entry in UNARY.items():
        out[name] = patterned(UNARY_PATTERN, name, entry, {"SCALAR": ("a",), "ENTRY": ("x[k]",)})
    # A number on one side stands still while the other side's row is walked.
    sides = {
        "ENTRY": ("x[i + k]", "y[j + k]"),
        "RIGHT": ("x[i + k]", "v"),
        "LEFT": ("u", "y[j + k]"),
    }
    for name, entry in BINARY.items():
        out[name] = patterned(BINARY_PATTERN, name, entry, sides | {"SCALAR": ("a", "b")})
    for name, (entry, start) in FOLDS.items():
        source = patterned(
            FOLD_PATTERN, name, entry, {"ENTRY": ("out[o]", "x[k]"), "ROW": ("s", "x[k]")}
        )
        out[name] = source.replace("START", start)
    return out


def patterned(pattern: str, name: str, entry: str, operands: Mapping[str, Sequence[str]]) -> str:
    """A function from a pattern, with the operands' entries put in."""
    source = pattern.replace("NAME", name)
    for place, names in operands.items():
        source = source.replace(place, entry.format(**dict(zip("xy", names, strict=False))))
    return source


@cache
def needs(name: str) -> frozenset[str]:
    """The other functions that a function calls."""
    code = re.sub(r"/\*\*.*?\*/|//[^\n]*", "", functions()[name], flags=re.S)
    called = re.findall(r"(?<![\w.])(\w+)\(", code)
    return (frozenset(called) | passed(code)) & functions().keys() - {name}


def passed(code: str) -> frozenset[str]:
    """Names of functions that are passed as arguments: ``shapes.map(shape_of)``."""
    return frozenset(re.findall(r"\((\w+)\)", code))


def library(used: Iterable[str]) -> list[str]:
    """The source of functions and of everything they call, in one fixed order."""
    wanted, left = set[str](), list(used)
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += needs(name)
    return [source for name, source in functions().items() if name in wanted]
