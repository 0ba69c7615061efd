"""Which tensor of a file holds which parameter of a card, both ways.

A file either uses the card's own names, in any spelling (``W_Q^{1,h}``, ``γ_1``), or those of the
``checkpoint`` column of its Parameters table::

    gpt_neox.layers.{i-1}.attention.query_key_value.weight : (h qkv k) d -> qkv h d k

Braces hold expressions over the parameter's index letters. Behind `` : `` comes an `einops`
pattern, and behind commas the lengths that einops cannot infer: ``(h k two) d -> h d (two k),
two=2``. The axes on its right side are, in order: one over the symbols that share the tensor, where
there are several (Q, K, V); one for each index letter that the name does not spell, in the
parameter's own order; rows; columns. Without a pattern the tensor is that array as it is.

Where a model is kept in more than one way, the cell has each: `` `A` or `B` ``. The first is
written, and that is read which a file fits best.

Every tensor of a file must be somebody's: a parameter's, an equal copy of a tensor that is (tied
weights are often saved twice), or named by the card's fact ``- **ignore**: *.rotary_emb.inv_freq``,
a list of shell-style patterns; a vector that is a copy is named by the fact ``- **copy**: …``.
Nothing else is dropped. Old files may spell a name otherwise, as the
fact ``- **renamed**: `LayerNorm.gamma` is `LayerNorm.weight``` says.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
from einops import EinopsError, parse_shape, rearrange

from viete.cards.config import HOLE
from viete.errors import Text, VieteError
from viete.evaluate.initial_weights import literal_weights
from viete.evaluate.schedule import Program, member_name, parameter_shapes, program
from viete.evaluate.spelling import by_own_names, declared, plain
from viete.formats.files import TensorFile, open_tensors, save_safetensors
from viete.formats.tensors import SIZES
from viete.graph.card import CardData, Parameter
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.symbols import Scope
from viete.notation.tree import Expr, Idx, walk

Array = Any
Place = tuple[int | slice, ...]
ALL = slice(None)
_RENAMED = re.compile(r"`([^`]+)`\s+is\s+`([^`]+)`")
_LENGTH = re.compile(r"\s*([^\W\d]\w*)\s*=(.+)", re.S)


@dataclass(frozen=True)
class Part:
    """One weight in a file tensor: where it lies behind the pattern, and where in the weight."""

    name: str
    source: Place
    target: Place


@dataclass(frozen=True)
class Expected:
    """A tensor that a card expects in a file.

    ``shape`` is the file tensor's and ``stacked`` that of the array behind the pattern, whose
    ``parts`` are the weights. ``dtype`` is what the card states, or empty.
    """

    shape: tuple[int, ...]
    stacked: tuple[int, ...]
    parts: tuple[Part, ...]
    pattern: str = ""
    lengths: Mapping[str, int] = field(default_factory=dict)
    dtype: str = ""

    @property
    def holds(self) -> tuple[str, ...]:
        """The names of the weights, as in `parameter_shapes`."""
        return tuple(dict.fromkeys(p.name for p in self.parts))

    def read(self, tensor: Array) -> Array:
        """A file tensor as the array of the weights."""
        return rearrange(tensor, self.pattern, **self.lengths) if self.pattern else tensor

    def write(self, array: Array) -> Array:
        """The inverse of `read`."""
        if not self.pattern:
            return array
        left, right = self.pattern.split("->")
        return rearrange(array, f"{right} -> {left}", **self.lengths)


# -- what a card expects ---------------------------------------------------------------------------


def expected_tensors(card: CardData, own: bool = False, layout: int = 0) -> dict[str, Expected]:
    """The tensors that hold a model's weights, by their names in a file.

    A parameter without a checkpoint name, or with ``own`` every one, goes by the card's own names;
    of several layouts that is the one counted from 0, or a parameter's last.
    Raises VieteError, pointing at the row, for a checkpoint name or pattern that does not fit.
    """
    return dict(_expected(id(card), card, own, layout))


@lru_cache(maxsize=32)
def _expected(key: int, card: CardData, own: bool, layout: int) -> dict[str, Expected]:
    ready = program(card)
    sharing: dict[str, list[tuple[Parameter, dict[str, int]]]] = {}
    for p in card.parameters:
        if p.given and not own:
            continue
        p = replace(p, checkpoint=layouts(p)[: layout + 1][-1])
        name, _, _ = p.checkpoint.partition(" : ")
        given = bool(name.strip()) and not own
        holes = [hole(p, card, m[1]) for m in HOLE.finditer(name)] if given else []
        letters = set(ready.loop_slots(p.symbol))
        if given:
            letters = {x.name for e in holes for x in walk(e) if isinstance(x, Idx)}
        spelled = [s for s in p.symbol.slots if s in letters]
        for values in product(*(ready.range_of(s) for s in spelled)):
            at = dict(zip(spelled, values, strict=True))
            if given:
                numbers = iter([whole(ready, e, at, p) for e in holes])
                file_name = HOLE.sub(lambda m, n=numbers: str(next(n)), name.strip())  # type: ignore[misc]
            else:
                file_name = member_name(p.symbol, at)
            sharing.setdefault(file_name, []).append((p, at))
    return {name: _one(ready, name, group, own) for name, group in sharing.items()}


def layouts(p: Parameter) -> list[str]:
    """A parameter's name and pattern in each layout that its cell names."""
    return p.checkpoint.split(" or ")


def _one(
    ready: Program, name: str, group: list[tuple[Parameter, dict[str, int]]], own: bool
) -> Expected:
    """The tensor that every (parameter, spelled indices) of ``group`` shares."""
    first = group[0][0]
    blocks = ready.model.loop_letters
    parts: list[Part] = []
    stacks = set()
    for k, (p, spelled) in enumerate(group):
        if sum(q is p for q, _ in group) > 1:
            raise _at(p, name, f"{name} would be {p.name} at two indices; spell every index of it")
        free = [s for s in p.symbol.slots if s not in spelled]
        loops = [s for s in free if s in blocks]
        core: tuple[int, ...] = ()
        for values in product(*(ready.range_of(s) for s in loops)):
            turn = {**spelled, **dict(zip(loops, values, strict=True))}
            weight = member_name(p.symbol, {s: n for s, n in turn.items() if s in blocks})
            shape = ready.parameters[weight][2]
            core = shape[len(shape) - len(p.shape) :]
            source = tuple(turn[s] - ready.range_of(s)[0] if s in loops else ALL for s in free)
            target = tuple(
                spelled[s] - ready.range_of(s)[0] if s in spelled else ALL
                for s in p.symbol.slots if s not in blocks
            )  # fmt: skip
            parts.append(Part(weight, (k, *source) if len(group) > 1 else source, target))
        stacks.add((*(len(ready.range_of(s)) for s in free), *core))
        if (p.checkpoint if not own else "") != (first.checkpoint if not own else ""):
            raise _at(p, name, f"{name} has two patterns: {first.checkpoint} and {p.checkpoint}")
    if len(stacks) > 1:
        shown = " and ".join(map(show_shape, sorted(stacks)))
        raise _at(first, name, f"{name} is shared by parameters of different shapes: {shown}")
    stacked = ((len(group),) if len(group) > 1 else ()) + stacks.pop()
    said = "" if own else first.checkpoint.partition(" : ")[2]
    pattern, _, rest = said.partition(",")
    lengths = _lengths(ready, first, rest) if rest else {}
    return _fitted(first, stacked, tuple(parts), pattern.strip(), lengths)


def _fitted(
    p: Parameter, stacked: tuple[int, ...], parts: tuple[Part, ...], pattern: str,
    given: Mapping[str, int],
) -> Expected:  # fmt: skip
    """With the file tensor's shape, found by einops on an array that takes no memory."""
    if not pattern:
        return Expected(stacked, stacked, parts, dtype=p.dtype)
    if prod(stacked) >= 2**60:
        raise p.text.error(f"{p.name} would be {show_shape(stacked)}, which no file can hold")
    if pattern.count("->") != 1:
        raise _at(p, pattern, f"a pattern is written 'f d -> d f', not '{pattern}'")
    try:
        draft = _tried(stacked, pattern, tuple(given.items()))
    except (EinopsError, ValueError, RuntimeError) as error:
        why = str(error).strip().splitlines()[-1].strip()
        raise _at(
            p, pattern,
            f"the pattern '{pattern}' does not fit {p.name}, whose array is "
            f"{show_shape(stacked)}: {why}",
        ) from None  # fmt: skip
    return replace(draft, parts=parts, dtype=p.dtype)


@lru_cache(maxsize=1024)  # the same in every block
def _tried(stacked: tuple[int, ...], pattern: str, given: tuple[tuple[str, int], ...]) -> Expected:
    """A pattern there and back; EinopsError, ValueError or RuntimeError where it does not fit."""
    array = np.broadcast_to(np.zeros(()), stacked)
    _, right = pattern.split("->")
    # Composite axes on the right have no length of their own; einops infers those.
    plain = parse_shape(array, re.sub(r"\([^()]*\)", "_", right))
    draft = Expected((), stacked, (), pattern, {**plain, **dict(given)})
    shape = draft.write(array).shape
    if draft.read(np.broadcast_to(np.zeros(()), shape)).shape != stacked:
        raise ValueError("it does not lead back to the parameter")
    return replace(draft, shape=tuple(shape))


def _lengths(ready: Program, p: Parameter, text: str) -> dict[str, int]:
    """``two=2, k=d_k`` behind a pattern."""
    out = {}
    for item in text.split(","):
        m = _LENGTH.fullmatch(item)
        if m is None:
            raise _at(p, item.strip(), f"'{item.strip()}' is no length; write axis=size")
        out[m[1]] = whole(ready, hole(p, ready.model, m[2]), {}, p)
    return out


def hole(p: Parameter, card: CardData, text: str) -> Expr:
    """The expression in a pair of braces."""
    scope = Scope(indices=set(p.symbol.slots))
    for d in card.dims:
        scope.declare(d.symbol)
    line = p.text.whole or ""
    column = line.find(text, p.text.column) + 1
    place = Text(text, p.text.file, p.text.line, column or 1, line) if column else Text(text)
    return parse(place.cut(0), scope)


def whole(ready: Program, e: Expr, at: Mapping[str, int], p: Parameter) -> int:
    value = ready.index_size(e, at)
    if value.denominator != 1 or value < 0:
        raise _at(p, show(e), f"{show(e)} is {value} in the checkpoint name of {p.name}, no count")
    return int(value)


def _at(p: Parameter, what: str, message: str) -> VieteError:
    """An error that points into the parameter's row."""
    line = p.text.whole or p.text.text
    start = line.find(what)
    place = Text(line, p.text.file, p.text.line)
    return place.error(message, start, start + len(what)) if start >= 0 else p.text.error(message)


def show_shape(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) or "a single number"


# -- a card's names against a file's ---------------------------------------------------------------


@dataclass(frozen=True)
class Match:
    """What a file has of what a card expects.

    ``fits`` and ``misshaped`` go by the names in the file, ``missing`` by the card's. ``prefix``
    says how the two differ (``+ transformer.``), and ``prefixed`` in which of the file's names.
    ``copies`` maps a tensor that nobody expects to the expected one that it equals, number by
    number.
    """

    fits: dict[str, Expected]
    missing: dict[str, Expected]
    misshaped: dict[str, Expected]
    extra: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    prefixed: tuple[str, ...] = ()


def match(model: CardData, file: TensorFile) -> Match:
    """Pair a card's expected tensors with a file's."""
    older = [
        pair for key, text in model.facts if key == "renamed" for pair in _RENAMED.findall(text)
    ]
    tried = []
    for k in range(max([len(layouts(p)) for p in model.parameters], default=1)):
        wanted = expected_tensors(model, layout=k)
        tried.append((wanted, *_renamed(wanted, file, older)))
    wanted, found, prefix = max(tried, key=lambda t: len(t[1]))
    if len(found) < len(wanted):
        own = expected_tensors(model, own=True)
        spelled = {name: own[card] for name, card in own_names(model, file).items()}
        if len(spelled) > len(found):
            found, wanted, prefix = spelled, own, ""
    seen = {id(e) for e in found.values()}
    missing = {name: e for name, e in wanted.items() if id(e) not in seen}
    fits = {n: e for n, e in found.items() if file.infos[n].shape == e.shape}
    rest = [n for n in file.infos if n not in found]
    ignored = tuple(n for n in rest if _told(model, "ignore", n))
    rest = [n for n in rest if n not in ignored]
    # Two vectors may be equal by chance, as where both are 0: of those the card must say so.
    told = [n for n in rest if len(file.infos[n].shape) > 1 or _told(model, "copy", n)]
    copies = {n: same for n in told if (same := _copy_of(n, fits, file))}
    extra = tuple(n for n in rest if n not in copies)
    misshaped = {n: e for n, e in found.items() if n not in fits}
    what = prefix.partition(" ")[2]
    new = [n for n in found if n not in wanted] if what else []
    prefixed = tuple(n for n in new if n.removeprefix(what) in wanted or what + n in wanted)
    return Match(fits, missing, misshaped, extra, ignored, copies, prefix, prefixed)


def _told(card: CardData, fact: str, name: str) -> bool:
    """Whether a fact of the card lists a tensor's name, by a shell-style pattern."""
    globs = [g for key, text in card.facts if key == fact for g in _words(text)]
    return any(fnmatchcase(name, g) for g in globs)


def _renamed(
    wanted: dict[str, Expected], file: TensorFile, older: Sequence[tuple[str, str]]
) -> tuple[dict[str, Expected], str]:
    """The expected tensors by their names in the file, which may lack a prefix or add one.

    ``older`` are spellings of parts of a name, each with the present one.

    A GPT-2 is saved with ``transformer.`` in front of its names or without, depending on the class
    that saved it, a model wrapped for training with ``module.``.
    """
    names = file.infos
    added: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    if any(n not in names for n in wanted):
        for e in list(wanted)[:: max(1, len(wanted) // 16)]:
            for n in names:
                if n.endswith("." + e):
                    added[n[: -len(e)]] += 1
                elif e.endswith("." + n):
                    dropped[e[: -len(n)]] += 1

    def under(add: str = "", drop: str = "") -> dict[str, Expected]:
        out: dict[str, Expected] = {}
        for n, e in wanted.items():
            new = n if n in names else add + n.removeprefix(drop)
            for old, present in older:
                new = new if new in names else new.replace(present, old)
            if new in names:
                out.setdefault(new, e)
        return out

    best, how = under(), ""
    for prefix, _ in added.most_common(4):
        if len(found := under(add=prefix)) > len(best):
            best, how = found, f"+ {prefix}"
    for prefix, _ in dropped.most_common(4):
        if len(found := under(drop=prefix)) > len(best):
            best, how = found, f"− {prefix}"
    return best, how


def own_names(model: CardData, file: TensorFile) -> dict[str, str]:
    """The card's name for every tensor whose name is one of the card's, in any spelling."""
    scope = declared(model)
    card = parameter_shapes(model)
    first: dict[str, str] = {}
    for name in file.infos:
        written = name if name in card else plain(name, scope, model.loop_letters)
        # Of two spellings of one name, the second is a tensor too many.
        if written in card and (written not in first or name == written):
            first[written] = name
    return {name: written for written, name in first.items()}


def _words(text: str) -> list[str]:
    return [w for w in re.split(r"[,\s`]+", text) if w]


def _copy_of(name: str, fits: Mapping[str, Expected], file: TensorFile) -> str:
    info = file.infos[name]
    for other in fits:
        there = file.infos[other]
        alike = (there.shape, there.dtype) == (info.shape, info.dtype)
        if alike and np.array_equal(file.load(name), file.load(other)):
            return other
    return ""


# -- loading and saving ----------------------------------------------------------------------------


def load_weights(
    card: CardData, source: TensorFile | str | os.PathLike[str], framework: str = "numpy",
    dtype: str | None = None, device: str | None = None,
) -> dict[str, Array]:  # fmt: skip
    """A card's weights from a tensor file, as `run` takes them.

    ``framework`` is 'numpy' or 'torch', ``device`` one of PyTorch's; ``dtype`` ('float32', …)
    converts, otherwise they stay as stored. A NumPy array may be a read-only view of the file: copy
    what you mean to change.

    Raises VieteError that lists every tensor that is missing, of another shape, or nobody's.
    """
    file = source if isinstance(source, TensorFile) else open_tensors(source)
    if dtype is not None and not (dtype in SIZES and "float" in dtype):
        raise VieteError(f"weights cannot be of dtype {dtype!r}; say float32, float64 or bfloat16")
    found = match(card, file)
    lines = problems(found, file)
    if lines:
        raise VieteError(f"{file.path} does not fit the card {card.title}:", lines=lines)
    for name in found.fits:
        if re.match(r"u?int|bool|complex", kind := file.infos[name].dtype):
            raise VieteError(
                f"{file.path}: '{name}' is {kind}, and weights are floating-point numbers"
            )
    weights = read_weights(found, file, framework, dtype, device)
    like = next(iter(weights.values()), None)
    for name, numbers in given_weights(card).items():  # they are in no file but a run's
        weights.setdefault(name, in_array(numbers, like))
    shapes = parameter_shapes(card)
    whole = {}
    for name, shape in shapes.items():
        whole[name] = weights[name]
        assert tuple(whole[name].shape) == shape, name
    return whole


def given_weights(card: CardData) -> dict[str, Array]:
    """The numbers that a config gave."""
    names = {p.name for p in card.parameters if p.given}
    found = literal_weights(card) if names else {}
    return {name: found[name] for name in names & found.keys()}


def in_array(numbers: Array, like: Array) -> Array:
    """NumPy's numbers as an array of the kind that another is."""
    if hasattr(like, "new_tensor"):
        return like.new_tensor(numbers)
    return numbers if like is None else numbers.astype(like.dtype)


def read_weights(
    found: Match, file: TensorFile, framework: str = "numpy", dtype: str | None = None,
    device: str | None = None,
) -> dict[str, Array]:  # fmt: skip
    """The weights that are wholly there, of a match that may lack others."""
    shapes: dict[str, int] = {}
    for e in (*found.missing.values(), *found.misshaped.values()):
        shapes |= dict.fromkeys(e.holds, 0)
    out: dict[str, Any] = {}
    for name, tensor in file.load_many(found.fits, framework, dtype, device):
        e = found.fits[name]
        array = e.read(tensor)
        for part in e.parts:
            if part.name in shapes:
                continue
            piece = array[(*part.source, ...)]
            if all(isinstance(k, slice) for k in part.target):
                out[part.name] = side_by_side(piece)
                continue
            # A weight in pieces, one for each head: its axes are as long as the tensors say.
            pieces = out.setdefault(part.name, {})
            pieces[tuple(-1 if isinstance(k, slice) else k for k in part.target)] = piece
    return {n: _joined(w, framework) if isinstance(w, dict) else w for n, w in out.items()}


def _joined(pieces: dict[tuple[int, ...], Array], framework: str) -> Array:
    """Pieces by their place (−1 where a piece has the whole axis) as one array."""
    first = next(iter(pieces.values()))
    rest = iter(first.shape)
    counts = [1 + max(at[k] for at in pieces) for k in range(len(next(iter(pieces))))]
    shape = [n or next(rest) for n in counts] + list(rest)
    if framework == "torch":
        out: Any = first.new_empty(shape)
    else:
        out = np.empty(shape, first.dtype)
    for at, piece in pieces.items():
        out[(*(ALL if k < 0 else k for k in at), ...)] = piece
    return out


def side_by_side(array: Any) -> Any:
    """A family of matrices in which products need not move anything: (…, rows, columns).

    That is where its members' rows, or their columns, follow each other in memory, so that all of
    them are one matrix. What lies between other things (of each head its query, key and value) is
    copied, in the order that it has.
    """
    torch = hasattr(array, "stride")
    strides = array.stride() if torch else array.strides
    letters = range(array.ndim - 2)

    def joined(*axes: int) -> bool:
        return all(
            array.shape[i] == 1 or strides[i] == array.shape[j] * strides[j]
            for i, j in pairwise(axes)
        )

    if not letters or joined(*letters, array.ndim - 2) or joined(*letters, array.ndim - 1):
        return array
    order = sorted(range(array.ndim), key=lambda k: -strides[k])
    back = [order.index(k) for k in range(array.ndim)]
    if torch:
        return array.permute(order).contiguous().permute(back)
    return np.ascontiguousarray(array.transpose(order)).transpose(back)


def problems(found: Match, file: TensorFile) -> list[str]:
    """What keeps a file from being loaded, a line each; empty if nothing does."""
    out = []
    for name, e in found.missing.items():
        why = f"not readable ({file.refused[name]})" if name in file.refused else "missing"
        out.append(f"  {why}: {name} ({show_shape(e.shape)}), which holds {listed(e.holds)}")
    for name, e in found.misshaped.items():
        have, want = show_shape(file.infos[name].shape), show_shape(e.shape)
        out.append(f"  misshaped: {name} is {have}, and the card says {want}")
    for name in found.extra:
        out.append(f"  nobody's: {name} ({show_shape(file.infos[name].shape)})")
    if len(out) > 24:
        out[20:] = [f"  and {len(out) - 20} more; `viete check CARD --weights FILE` lists them all"]
    elif found.extra:
        out.append("  (a card names what is no parameter in a line - **ignore**: name, *.name)")
    return out


def listed(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def save_weights(
    card: CardData, weights: Mapping[str, Array], path: str | os.PathLike[str]
) -> None:
    """Write a card's weights as safetensors, under the card's own names.

    Raises VieteError for weights that do not fit the card; ``path`` is then as it was.
    """
    weights = fitting(card, weights)
    save_safetensors(path, {name: weights[name] for name in parameter_shapes(card)})


def to_checkpoint(card: CardData, weights: Mapping[str, Array]) -> dict[str, Array]:
    """A card's weights as the tensors of its checkpoint column: the inverse of `load_weights`.

    NumPy or PyTorch arrays as the weights are; an array may be a view of its weight.
    """
    weights = fitting(card, weights)
    return {name: e.write(_stacked(e, weights)) for name, e in expected_tensors(card).items()}


def _stacked(e: Expected, weights: Mapping[str, Array]) -> Array:
    first = e.parts[0]
    if len(e.parts) == 1:
        return weights[first.name][(*first.target, ...)]
    like = weights[first.name]
    out: Any
    if type(like).__module__.startswith("torch"):
        out = like.detach().new_empty(e.stacked)
    else:
        out = np.empty(e.stacked, np.asarray(like).dtype)
    for part in e.parts:
        piece = weights[part.name][(*part.target, ...)]
        out[(*part.source, ...)] = piece.detach() if hasattr(piece, "detach") else piece
    return out


def fitting(card: CardData, weights: Mapping[str, Array]) -> Mapping[str, Array]:
    """Weights by the card's own names. Raises VieteError for other names or shapes."""
    shapes = parameter_shapes(card)
    weights = by_own_names(card, weights, shapes)
    wrong = [f"  missing: {n}" for n in shapes if n not in weights]
    wrong += [f"  not in the card: {n}" for n in weights if n not in shapes]
    for n in shapes.keys() & weights.keys():
        if (shape := tuple(np.shape(weights[n]))) != shapes[n]:
            wrong.append(f"  {n} is {show_shape(shape)}, and the card says {show_shape(shapes[n])}")
    if wrong:
        raise VieteError(f"these weights do not fit {card.title}:", lines=wrong[:20])
    return weights


__all__ = [
    "Expected", "Match", "Part", "expected_tensors", "load_weights", "match", "save_weights",
    "to_checkpoint",
]  # fmt: skip
