"""Initial weights of a card: the literals of its `value` column, and draws by its `init` column."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from viete.cards.init import read_init
from viete.cards.literals import entries_of, is_matrix, literals_of, number
from viete.errors import Text, VieteError
from viete.evaluate.array import Arrays
from viete.evaluate.memory import check_room, rounded
from viete.evaluate.schedule import program
from viete.graph.card import CardData, Parameter
from viete.notation.parser import parse

Nested = Any  # a Fraction, or a list of Nested
FLOATS = {"float16", "float32", "float64"}  # of the dtype column, those that NumPy computes in
_CELL = re.compile(r"(?<!\\)\|")


def literal_fractions(card: CardData) -> dict[str, Nested]:
    """The exact weights in the `value` column, by the names of `run`.

    Each is a Fraction or nested lists of Fractions, in the shape that `parameter_shapes` gives.
    Parameters without a value are left out. Raises VieteError, pointing at the cell, for an invalid
    literal or one that does not fit the parameter's shape.
    """
    out: dict[str, Nested] = {}
    for name, (p, _, _) in program(card).parameters.items():
        if p.value:
            out[name] = literal_array(card, name)
    return out


def literal_weights(card: CardData, dtype: str | type = "float64") -> dict[str, np.ndarray]:
    """As `literal_fractions`, rounded once to arrays of ``dtype``."""
    kind = float_type(dtype)
    return {
        name: rounded_literal(card, name, kind)
        for name, (p, _, _) in program(card).parameters.items() if p.value
    }  # fmt: skip


def rounded_literal(card: CardData, name: str, kind: np.dtype) -> np.ndarray:
    """A parameter's literal as an array."""
    p, _, shape = program(card).parameters[name]
    if len(member_texts(p)) > 1:
        return np.array(floats(literal_array(card, name)), dtype=kind).reshape(shape)
    entries = np.array(floats(literal(p, shape[len(shape) - len(p.shape) :])), dtype=kind)
    return np.array(np.broadcast_to(entries, shape))


def initial_weights(
    card: CardData, seed: int, dtype: str | type = "float64"
) -> dict[str, np.ndarray]:
    """Initial weights: from the `value` column first, then from the `init` column.

    ``init`` is `normal(s)` (mean 0, standard deviation s), `uniform(a)` (from −a to a), `xavier`
    (Glorot & Bengio 2010, eq. 16: uniform with a = √(6 / (rows + columns))) or a number that fills;
    s, a and the number may be formulas of the card's dimensions, as in `normal(0.02 / sqrt(2 N))`.
    With an empty cell a matrix is normal with standard deviation 1/√rows, and a vector or a single
    number is normal(1).

    Every array has a separate generator, ``numpy.random.default_rng([seed, *name in UTF-8])`` with
    the name that `run` uses, and is drawn in float64; so weights depend neither on the order of
    rows nor on what else the card has.

    Raises VieteError, pointing at the cell, for a literal or an init that cannot be read.
    """
    make = initial_weight(card, seed, dtype)
    return {name: make(name) for name in program(card).parameters}


def weights_among(card: CardData, seed: int, among: str) -> dict[str, np.ndarray]:
    """As `initial_weights`, exactly, with random entries drawn from given numbers: ``-1, 0, 1/2``.

    All numbers are equally likely; one listed twice is twice as likely. The `value` column and an
    init that is a number are kept. The arrays hold Fractions.
    """
    texts = re.findall(r"[^\s,;]+", among)
    if not texts:
        raise VieteError("--among takes the numbers to draw from, such as --among='-1, 0, 1/2'")
    numbers = []
    for text in texts:
        try:
            numbers.append(number(Text(text)))
        except VieteError:
            what = f"--among: {text!r} is not a number; give some as in -1, 0.5 or 1/2"
            raise VieteError(what) from None
    check_seed(seed)
    check_memory(card, np.dtype("float64"), 1)
    given, out = literal_fractions(card), {}
    for name, (p, _, shape) in program(card).parameters.items():
        if p.value:
            out[name] = np.broadcast_to(np.array(given[name], dtype=object), shape)
        elif (fill := filling(card, p, len(p.shape))) is not None:
            out[name] = np.full(shape, Fraction(fill), dtype=object)
        else:
            rng = np.random.default_rng([int(seed), *name.encode()])
            out[name] = np.array(numbers, dtype=object)[rng.integers(len(numbers), size=shape)]
    return out


def filling(card: CardData, p: Parameter, axes: int) -> float | None:
    """The number that a parameter's init column fills it with; None if it is drawn."""
    if not p.init:
        return None
    kind, text = read_init(cell(p, p.init), p.name, axes)
    return amount(card, text) if kind == "fill" else None


def check_seed(seed: Any) -> None:
    """Raise VieteError for an invalid seed."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise VieteError(f"the seed must be a whole number from 0 up, not {seed!r}")


def initial_weight(
    card: CardData, seed: int, dtype: str | type = "float64", parts: int = 1
) -> Callable[[str], np.ndarray]:
    """A function that makes `initial_weights` one by one, for a caller that keeps 1 / ``parts``."""
    check_seed(seed)
    kind = float_type(dtype)
    check_memory(card, kind, parts)

    def make(name: str) -> np.ndarray:
        p, _, shape = program(card).parameters[name]
        if p.value:
            return rounded_literal(card, name, kind)
        rng = np.random.default_rng([int(seed), *name.encode()])
        return drawn(card, p, shape, rng).astype(kind, copy=False)

    return make


def check_memory(card: CardData, kind: np.dtype, parts: int) -> None:
    """Check that the weights, or a part of them, fit into memory before any is drawn."""
    count = sum(math.prod(shape) for _, _, shape in program(card).parameters.values()) // parts
    what = f"{card.title} with its {rounded(count)} weights as {kind}"
    check_room(count * kind.itemsize, what, "choose smaller dimensions with --set")


# -- literals --------------------------------------------------------------------------------------


def literal_array(card: CardData, name: str) -> Nested:
    """The literal of one weight of `run`, as lists in its shape: heads, then rows and columns."""
    p, _, shape = program(card).parameters[name]
    texts, heads = member_texts(p), shape[: len(shape) - len(p.shape)]
    core, each = shape[len(heads) :], math.prod(heads)
    if len(texts) == 1:
        return repeat(repeat_number(literal(p, core), core), heads)
    family = [k for k, (q, _, _) in program(card).parameters.items() if q is p]
    if len(texts) != len(family) * each:
        members = len(family) * each
        raise cell(p, p.value).error(
            f"this cell has {len(texts)} values, and {p.name} is a single one: write a vector as "
            "[1 2 3], a matrix as [1 0; 0 1]"
            if members == 1
            else f"this cell has {len(texts)} values, and {p.name} has {members}, for its blocks "
            "and heads: write one for all, or one for each, block after block, head after head"
        )
    first = family.index(name) * each
    made = [repeat_number(literal(p, core, x), core) for x in texts[first : first + each]]
    for size in reversed(heads):
        made = [made[k : k + size] for k in range(0, len(made), size)]
    return made[0]


def member_texts(p: Parameter) -> list[Text]:
    """The literals of a parameter: one for all blocks and heads, or one for each."""
    return literals_of(cell(p, p.value))


def repeat_number(value: Nested, core: tuple[int, ...]) -> Nested:
    """A matrix, or a number that fills, as lists in the shape ``core``."""
    return value if isinstance(value, list) else repeat(value, core)


def literal(p: Parameter, core: tuple[int, ...], text: Text | None = None) -> Nested:
    """A literal: a Fraction that fills, or lists in the shape ``core``; by default the only one."""
    text = text or cell(p, p.value)
    said = " × ".join(map(str, core)) or "one number"
    if text.text == "I":
        if len(core) != 2 or core[0] != core[1]:
            raise text.error(f"I is a square matrix, but {p.name} is {said}")
        return [[Fraction(int(j == k)) for k in range(core[1])] for j in range(core[0])]
    if not is_matrix(text):
        return number(text)
    rows = [list(map(number, row)) for row in entries_of(text)]
    found = (len(rows), len(rows[0]))
    if odd := next((k for k, row in enumerate(rows) if len(row) != found[1]), None):
        raise text.error(f"row {odd + 1} has {len(rows[odd])} entries and the first has {found[1]}")
    if len(core) == 1 and found == (1, core[0]):
        return rows[0]
    if found != core:
        raise text.error(f"this matrix is {found[0]} × {found[1]}, but {p.name} is {said}")
    return rows


def repeat(value: Nested, lead: tuple[int, ...]) -> Nested:
    """The value repeated over the leading axes, each time as new lists."""
    if not lead:
        return [repeat(v, ()) for v in value] if isinstance(value, list) else value
    return [repeat(value, lead[1:]) for _ in range(lead[0])]


def floats(value: Nested) -> Any:
    return [floats(v) for v in value] if isinstance(value, list) else float(value)


# -- draws -----------------------------------------------------------------------------------------


def drawn(
    card: CardData, p: Parameter, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """One array drawn or filled by the `init` column, in float64."""
    core = shape[len(shape) - len(p.shape) :]
    if not p.init:
        return rng.normal(0.0, 1 / math.sqrt(max(core[0], 1)) if len(core) == 2 else 1.0, shape)
    text = cell(p, p.init)
    kind, formula = read_init(text, p.name, len(core))
    if kind == "xavier":
        bound = math.sqrt(6 / max(sum(core), 1))
        return rng.uniform(-bound, bound, shape)
    if kind == "fill":
        return np.full(shape, amount(card, text))
    spread = amount(card, formula)
    if spread < 0:
        raise text.error(f"{kind} needs a number from 0 up, not {spread:g}")
    if kind == "normal":
        return rng.normal(0.0, spread, shape)
    return rng.uniform(-spread, spread, shape)


def amount(card: CardData, text: Text) -> float:
    """The value of a formula of the card's dimensions."""

    def nothing(key: str, loops: tuple[int, ...]) -> Any:
        raise VieteError(f"{key} is not a dimension")

    e = parse(text, card.size_scope)
    try:
        with np.errstate(all="ignore"):
            found = Arrays(card, card.sizes, np.zeros(0), nothing).of(e).array
        value = math.nan if isinstance(found, bool) or np.ndim(found) else float(found)
    except VieteError as error:
        raise text.error(error.message) from None
    except (KeyError, OverflowError):  # an index range without its size; too large for a float
        value = math.nan
    if not math.isfinite(value):
        raise text.error("this is not one finite number")
    return value


def cell(p: Parameter, content: str) -> Text:
    """A cell of the parameter's row with its place; only its line if the card is no table."""
    name = p.text
    line = name.whole or ""
    edges = [m.start() for m in _CELL.finditer(line)] + [len(line)]
    for a, b in pairwise(edges):
        start = line.find(content, a, b)
        if a >= name.column and start > 0 and line[a + 1 : b].strip(" $`") == content:
            return Text(content, name.file, name.line, start + 1, line)
    return Text(content, name.file, name.line)


def stated_dtype(card: CardData) -> str:
    """The dtype that the card gives all its parameters; float64 if it gives none or several."""
    found = {p.dtype for p in card.parameters}
    return found.pop() if found <= FLOATS and len(found) == 1 else "float64"


def float_type(dtype: str | type) -> np.dtype:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(bool)
    if kind.kind != "f":
        raise VieteError(f"weights must be floating-point numbers, such as float64, not {dtype}")
    return kind


__all__ = ["initial_weights", "literal_fractions", "literal_weights", "weights_among"]
