"""How a file differs from its card, judged by its names, shapes and numbers.

It finds a bias beside a weight that the card has, tensors that are all 0 or all 1, and square
matrices in a file that stores its other matrices transposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from einops import EinopsError, parse_shape

from viete.errors import VieteError
from viete.evaluate.schedule import Program, program
from viete.formats.files import TensorFile, TensorInfo
from viete.graph.card import CardData, Parameter
from viete.model.expected import Expected
from viete.model.mapping import FileMatch, listed, match
from viete.model.suggest import Family, axes, families, patterns, spelled_name
from viete.notation.printer import show, show_symbol
from viete.notation.tree import Apply, Pick, Ref, Symbol, walk

MOST_ENTRIES = 1_000_000  # of a tensor whose numbers are looked at
BIAS = {"gamma": "beta"}  # what the bias of such a parameter is called; else b


@dataclass(frozen=True)
class Bias:
    """Tensors that are biases of parameters of the card.

    ``row`` is a row for the card's Parameters (symbol, shape, checkpoint), ``term`` the product
    with the bias added, and ``equation`` the number of its equation, from 1.
    """

    tensors: str
    of: tuple[str, ...]
    row: str
    term: str
    equation: int


def biases(found: FileMatch) -> Iterator[Bias]:
    """The unexpected tensors ``p.bias`` next to an expected ``p.weight``."""
    ready, there = program(found.card), {**found.fits, **found.misshaped}
    free = (found.file.infos[n] for n in found.extra if n.endswith(".bias"))
    for family in families(free):
        beside = [there.get(n.removesuffix("bias") + "weight") for n in family.names]
        if beside[0] is not None and all(e is not None for e in beside):
            yield from bias(ready, family, beside[0].parameters)


def bias(ready: Program, family: Family, of: tuple[Parameter, ...]) -> Iterator[Bias]:
    """The bias of these parameters, if the family's shape fits their columns."""
    model = ready.model
    symbols = [replace(p.symbol, base=BIAS.get(p.symbol.base, "b")) for p in of]
    spelled = spelled_name(ready, of[0], family)
    known = {s.key for group in model.scope.symbols.values() for s in group}
    if spelled is None or known & {s.key for s in symbols}:
        return
    name, letters = spelled
    core = axes(ready, of, letters)
    if len(of[0].shape) == 2:
        del core[-2]  # the rows, over which a product sums
    fits = patterns(core, family.shape)
    if fits:
        column = f"{name} : {fits[0]}" if fits[0] else name
        shape = show(of[0].shape[-1])
        row = f"| ${', '.join(map(show_symbol, symbols))}$ | ${shape}$ | `{column}` |"
        yield Bias(name, tuple(p.name for p in of), row, *term(model, of[0], symbols[0]))


def term(card: CardData, p: Parameter, symbol: Symbol) -> tuple[str, int]:
    """The first product with a parameter, with its bias added, and the number of the equation."""
    for k, e in enumerate(card.equations, 1):
        for x in walk(e.right):
            match x:
                case Apply("prod", (_, Ref() as b)) if b.key == p.name:
                    return show(Apply("add", (x, Ref(symbol, b.index)))), k
    return "", 0


def constant(info: TensorInfo, tensors: TensorFile) -> str:
    """``0`` or ``1`` where all numbers of a tensor are 0 or 1."""
    if "float" not in info.dtype or not 0 < np.prod(info.shape) <= MOST_ENTRIES:
        return ""
    array = np.asarray(tensors.load(info.name), np.float64)
    return next((str(n) for n in (0, 1) if (array == n).all()), "")


def turned_squares(found: FileMatch) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The matrices of a file that are transposed, and the square ones that may be too.

    Empty where some other matrix, not a table of rows, is as the card expects.
    """

    def unread(tensors: Mapping[str, Expected]) -> dict[str, Expected]:
        matrices = {n: e for n, e in tensors.items() if is_matrix(found.card, e)}
        return {n: e for n, e in matrices.items() if not e.pattern}

    other = [n for n, e in unread(found.misshaped).items()
             if found.file.infos[n].shape == e.shape[::-1]]  # fmt: skip
    fits = unread(found.fits)
    square = [n for n, e in fits.items() if e.shape[0] == e.shape[1]]
    return (tuple(other), tuple(square)) if other and len(square) == len(fits) else ((), ())


def is_matrix(card: CardData, e: Expected) -> bool:
    """Whether a tensor is a factor in products, not a table of rows, which nobody transposes."""
    tables = {x.value.key for q in card.equations for x in walk(q.right)
              if isinstance(x, Pick) and isinstance(x.value, Ref)}  # fmt: skip
    return len(e.shape) == 2 and not any(p.name in tables for p in e.parameters)


def sizes(found: FileMatch) -> dict[str, int]:
    """Dimensions that make more tensors fit, whether their matrices are transposed or not."""
    if not found.misshaped:
        return {}
    infos = found.file.infos

    def fits(new: dict[str, int]) -> int:
        try:
            there = match(found.card.bind(**new), found.file)
        except VieteError:
            return -1
        other = there.misshaped.items()
        return len(there.fits) + sum(infos[n].shape == e.shape[::-1] for n, e in other)

    return max({}, *(agreed(found, turned) for turned in (False, True)), key=fits)


def agreed(found: FileMatch, turned: bool) -> dict[str, int]:
    """Dimensions that the tensors of other shape agree on, where they differ from the card's.

    ``turned`` reads matrices transposed.
    """
    card, known = found.card, program(found.card).sizes
    seen: dict[str, set[int]] = {}
    for name, e in found.misshaped.items():
        shape = found.file.infos[name].shape
        if turned and is_matrix(card, e):
            shape = shape[::-1]
        for dim, n in read_sizes(e, shape).items():
            if dim:
                seen.setdefault(dim, set()).add(n)
    new = {dim: next(iter(ns)) for dim, ns in seen.items() if len(ns) == 1}
    new = {dim: n for dim, n in new.items() if n > 0 and known.get(dim) != n}
    # What follows from the others (d_f = 4 d) need not be said.
    derived = {dim for dim in new if dim in card.definitions}
    bound = card.bind(**{d: n for d, n in new.items() if d not in derived}).sizes
    return {d: n for d, n in new.items() if d not in derived or bound.get(d) != n}


def read_sizes(e: Expected, shape: tuple[int, ...]) -> dict[str, int]:
    """The sizes of a parameter's dimensions by a tensor's shape; '' for no dimension."""
    dims = [d.key if isinstance(d, Ref) else "" for d in e.parameters[0].shape]
    if not e.pattern:
        return dict(zip(dims, shape, strict=True)) if len(dims) == len(shape) else {}
    left, right = e.pattern.split("->")
    last = right.split()[-len(dims) :] if dims else []
    try:
        by_axis = parse_shape(np.broadcast_to(0.0, shape), re.sub(r"\([^()]*\)", "_", left))
    except (EinopsError, RuntimeError):
        return {}
    return {d: by_axis[a] for d, a in zip(dims, last, strict=True) if a in by_axis}


def ambiguous(found: FileMatch) -> list[str]:
    """What the shapes of the fitting tensors leave undecided."""
    fits = found.fits.items()
    squares = [n for n, e in fits if len(e.parameters[0].shape) == 2
               and e.stacked[-2] == e.stacked[-1]]  # fmt: skip
    heads = [n for n, e in fits if "(" in e.pattern and found.card.heads_of(e.parameters[0].symbol)]
    packed = [n for n, e in fits if len(e.parameters) > 1]
    questions = {
        "whether square matrices are transposed": squares,
        "the order of heads within a tensor": heads,
        "the order of what is packed into one": packed,
    }
    return [f"{what} ({listed(names, 2)})" for what, names in questions.items() if names]
