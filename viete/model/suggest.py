"""Suggests which parameter a tensor with an unknown name may hold, and by which pattern.

Tensors whose names differ in a number are one family (``h.{i-1}.mlp.weight``), so a suggestion is a
line for the card's ``checkpoint`` column. Shapes decide first: unchanged, transposed, with heads
split or merged, with Q, K and V in one tensor. Where several fit, the words in the names decide;
otherwise the report asks the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, permutations, product
from math import prod, sqrt

from viete.evaluate.schedule import Program, program
from viete.formats.tensors import TensorInfo
from viete.graph.card import CardData, Parameter
from viete.model.expected import Expected
from viete.model.mapping import FileMatch
from viete.notation.tree import Ref

_NUMBER = re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")
MAX_OPTIONS = 20_000

# What people call things, in the words of the shipped cards' meanings.
WORDS = {
    "q": "query", "k": "key", "v": "value", "o": "output", "wq": "query weight",
    "wk": "key weight", "wv": "value weight", "wo": "output weight", "qkv": "query key value",
    "attn": "attention", "att": "attention", "sa": "attention", "wte": "token embedding",
    "wpe": "position embedding", "tok": "token", "pos": "position", "emb": "embedding",
    "embed": "embedding", "embeddings": "embedding", "ln": "norm", "layernorm": "norm",
    "rmsnorm": "norm", "gamma": "norm weight", "beta": "norm bias", "scale": "weight",
    "b": "bias", "w": "weight", "biases": "bias", "fc": "mlp", "ffn": "mlp", "ff": "mlp",
    "ffwd": "mlp", "feed": "mlp", "mlp": "mlp", "proj": "output", "lm": "head",
    "unembedding": "head", "unembed": "head", "up": "into", "in": "into", "down": "out",
    "wi": "into weight", "shift": "bias", "hidden": "into", "layer": "", "before": "", "s": "",
    "c": "",
}  # fmt: skip
# What single words would say wrongly: a norm that stands behind attention is the MLP's.
PHRASES = {
    r"post_?attention_?(layer_?)?norm|ln_?2|norm_?2": "norm mlp",
    r"input_?(layer_?)?norm|ln_?1|norm_?1": "norm attention",
    r"ln_?f|final_?(layer_?)?norm": "norm final",
    r"embed_?out|lm_?head": "head",
    r"embed_?in|embed_?tokens": "token embedding",
    r"h_to_4h|c_?fc|fc_?1|linear_?1": "mlp into",
    r"4h_to_h|fc_?2|linear_?2|mlp\.c_?proj": "mlp out",
}


@dataclass(frozen=True)
class Family:
    """Tensors of one shape whose names differ in numbers: each number's first value and count."""

    pieces: tuple[str, ...]  # the name around its numbers
    numbers: tuple[range, ...]
    shape: tuple[int, ...]
    names: tuple[str, ...]  # with the last number running fastest

    def name(self) -> str:
        """``h.{0…11}.weight``, with a range instead of each number."""
        ranges = (f"{{{r[0]}…{r[-1]}}}" if len(r) > 1 else str(r[0]) for r in self.numbers)
        return self.with_numbers([*ranges])

    def with_numbers(self, numbers: Sequence[str]) -> str:
        """The name with these texts for its numbers."""
        return "".join(a + b for a, b in zip(self.pieces, [*numbers, ""], strict=True))


@dataclass(frozen=True)
class Suggestion:
    """``parameters`` may be in ``tensors``: a line for the card's checkpoint column.

    ``others`` are patterns whose shape fits as well, ``why`` says what decided.
    """

    parameters: tuple[str, ...]
    tensors: str
    pattern: str
    why: str
    others: tuple[str, ...] = ()

    @property
    def column(self) -> str:
        return f"{self.tensors} : {self.pattern}" if self.pattern else self.tensors


@dataclass(frozen=True)
class Question:
    """A parameter that several tensors fit equally well."""

    parameters: tuple[str, ...]
    candidates: tuple[str, ...]


def families(infos: Iterable[TensorInfo]) -> list[Family]:
    """Tensors grouped by the common form of their names, in the order of the file."""
    groups: dict[tuple[object, ...], dict[tuple[int, ...], str]] = {}
    for info in infos:
        key = (tuple(_NUMBER.split(info.name)), info.shape)
        at = tuple(int(n) for n in _NUMBER.findall(info.name))
        groups.setdefault(key, {})[at] = info.name
    out = []
    for (pieces, shape), members in groups.items():
        out += [Family(pieces, ranges, shape, names) for ranges, names in _grids(members)]  # type: ignore[arg-type]
    return out


def _grids(
    members: dict[tuple[int, ...], str],
) -> Iterator[tuple[tuple[range, ...], tuple[str, ...]]]:
    """One family if the numbers fill a grid; else split by the last number that does not."""
    count = len(next(iter(members)))
    values = [sorted({at[k] for at in members}) for k in range(count)]
    solid = [v[-1] - v[0] + 1 == len(v) for v in values]
    if all(solid) and prod(map(len, values)) == len(members):
        ranges = tuple(range(v[0], v[-1] + 1) for v in values)
        yield ranges, tuple(members[at] for at in product(*ranges))
        return
    last = max((k for k in range(count) if not solid[k]), default=None)
    last = max(k for k in range(count) if len(values[k]) > 1) if last is None else last
    for value in values[last]:
        yield from _grids({at: n for at, n in members.items() if at[last] == value})


# -- patterns by shape -----------------------------------------------------------------------------

Axis = tuple[str, int, bool]  # name, size, whether it is rows or columns


def patterns(axes: Sequence[Axis], shape: tuple[int, ...]) -> list[str]:
    """The einops patterns that read a tensor of ``shape`` as these axes, the simplest first.

    '' where the tensor is the array as it is. Axes of heads and other letters may stand anywhere by
    themselves, or merged in front of a row or column axis.
    """
    core = [a for a in axes if a[2]]
    free = [a for a in axes if not a[2]]
    if prod(a[1] for a in axes) != prod(shape):
        return []
    found: dict[str, tuple[int, ...]] = {}
    right = " ".join(a[0] for a in axes)
    for turn, order in enumerate(permutations(core)):
        for shuffle, letters in enumerate(permutations(free)):
            # A letter is merged into the axis that follows it, or stands alone.
            for merged in product((True, False), repeat=len(letters)):
                for row in _placed(order, letters, merged):
                    if tuple(prod(a[1] for a in group) for group in row) != shape:
                        continue
                    left = " ".join(
                        g[0][0] if len(g) == 1 else f"({' '.join(a[0] for a in g)})" for g in row
                    )
                    pattern = "" if left == right else f"{left} -> {right}"
                    found.setdefault(pattern, (bool(pattern), turn, shuffle, len(row)))
    return sorted(found, key=found.__getitem__)


def _placed(
    core: tuple[Axis, ...], letters: tuple[Axis, ...], merged: tuple[bool, ...]
) -> Iterator[list[list[Axis]]]:
    """The axes of a tensor: unmerged letters in front, merged ones before a row or column axis."""
    alone = [[a] for a, m in zip(letters, merged, strict=True) if not m]
    inside = [a for a, m in zip(letters, merged, strict=True) if m]
    if not inside:
        yield alone + [[a] for a in core]
        return
    for k in range(len(core)):
        yield alone + [[*inside, a] if j == k else [a] for j, a in enumerate(core)]


# -- guesses ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """One way to fill some parameters from one family of tensors."""

    parameters: tuple[Parameter, ...]
    family: Family
    name: str
    patterns: tuple[str, ...]
    score: float

    def excludes(self, other: Option) -> bool:
        return self.family is other.family or any(
            p is q for p in self.parameters for q in other.parameters
        )


def suggest(found: FileMatch) -> tuple[tuple[Suggestion, ...], tuple[Question, ...]]:
    """Guesses for the missing parameters, and the parameters that several tensors fit equally."""
    card, ready = found.card, program(found.card)
    names = {p.name for e in found.missing.values() for p in e.parameters}
    lacking = [p for p in card.parameters if p.name in names]
    extra = (found.file.infos[n] for n in found.extra)
    groups = [g for f in families(extra) for g in _readable(ready, f)]
    options = _one_way(_options(ready, lacking, groups))
    chosen, why = list[tuple[Option, str]](), "the only one of its shape"
    while options:
        sure = [o for o in options if not any(o.excludes(x) for x in options if x is not o)]
        if not sure:
            rivals = {
                id(o): max((x.score for x in options if x is not o and o.excludes(x)), default=0)
                for o in options
            }
            sure = [o for o in options if o.score > rivals[id(o)] + 0.02][:1]
            why = "the nearest name and layout"
        if not sure:
            break
        chosen += [(o, why) for o in sure]
        options = [o for o in options if o not in sure and not any(o.excludes(x) for x in sure)]
        why = "what is left" if why.startswith("the nearest") else why
    guesses = tuple(
        Suggestion(tuple(p.name for p in o.parameters), o.name, o.patterns[0], reason,
                   o.patterns[1:4])
        for o, reason in chosen
    )  # fmt: skip
    asked = []
    for p in lacking:
        fits = [o for o in options if any(q is p for q in o.parameters)]
        fits.sort(key=lambda o: -o.score)
        candidates = [o.name for o in fits]
        if not any(p is q for o, _ in chosen for q in o.parameters) and not fits:
            # No name that a column could spell: one of its blocks may be any tensor that fits it.
            named = axes(ready, (p,), set(card.loop_letters))
            taken = {id(o.family) for o, _ in chosen}
            candidates = [
                n for g in groups if id(g) not in taken and patterns(named, g.shape)
                for n in g.names
            ]  # fmt: skip
        if candidates:
            asked.append(Question((p.name,), tuple(dict.fromkeys(candidates))))
    return guesses, tuple(asked)


def _readable(ready: Program, family: Family) -> Iterator[Family]:
    """Split a family by numbers that no parameter's letters can count: ``ln_1`` and ``ln_2``."""
    several = [k for k, numbers in enumerate(family.numbers) if len(numbers) > 1]
    if not several or any(spelled_name(ready, p, family) for p in ready.model.parameters):
        yield family
        return
    k = several[-1]
    for n in family.numbers[k]:
        at = (*family.numbers[:k], range(n, n + 1), *family.numbers[k + 1 :])
        names = tuple(family.with_numbers([*map(str, places)]) for places in product(*at))
        yield from _readable(ready, Family(family.pieces, at, family.shape, names))


def _options(ready: Program, lacking: list[Parameter], groups: list[Family]) -> list[Option]:
    single = [(p,) for p in lacking]
    shared: list[tuple[Parameter, ...]] = []
    for _, run in groupby(lacking, key=lambda p: (p.shape, p.symbol.slots, p.symbol.base)):
        row = list(run)
        shared += [tuple(row[k : k + n]) for n in (2, 3) for k in range(len(row) - n + 1)]
    out: list[Option] = []
    for parameters in [*single, *shared]:
        for family in groups:
            named = spelled_name(ready, parameters[0], family)
            if named is None or len(out) > MAX_OPTIONS:
                continue
            name, spelled = named
            found = patterns(axes(ready, parameters, spelled), family.shape)
            if found:
                score = similarity(ready.model, parameters, family)
                out.append(Option(parameters, family, name, tuple(found), score))
    return out


def spelled_name(ready: Program, p: Parameter, family: Family) -> tuple[str, set[str]] | None:
    """The family's name with expressions over the parameter's letters instead of its numbers."""
    blocks = ready.model.blocks_of(p.symbol)
    counts = {s: ready.range_of(s) for s in (*blocks, *ready.model.heads_of(p.symbol))}
    shown, spelled = list[str](), set[str]()
    for numbers in family.numbers:
        fits = [s for s, n in counts.items() if s not in spelled and len(n) == len(numbers)]
        if len(numbers) == 1 and not {*fits} & {*blocks}:
            shown.append(str(numbers[0]))
            continue
        if not fits:
            return None
        spelled.add(fits[0])
        shown.append(hole(fits[0], numbers[0] - counts[fits[0]][0]))
    return family.with_numbers(shown), spelled


def hole(letter: str, shift: int) -> str:
    """``{i-1}`` or ``{i}``, for a tensor's name."""
    return f"{{{letter}{shift:+d}}}" if shift else f"{{{letter}}}"


def axes(ready: Program, parameters: tuple[Parameter, ...], spelled: set[str]) -> list[Axis]:
    """Named axes of the array of these parameters, without the letters that are ``spelled``."""
    p = parameters[0]
    found: list[Axis] = []
    if len(parameters) > 1:
        labels = [slot.text for q in parameters for slot in (q.symbol.sub + q.symbol.sup)[:1]]
        found.append(("".join(labels).lower(), len(parameters), False))
    found += [(s, len(ready.range_of(s)), False) for s in p.symbol.slots if s not in spelled]
    shape = next(shape for q, _, shape in ready.parameters.values() if q is p)
    core = shape[len(shape) - len(p.shape) :]
    for e, size in zip(p.shape, core, strict=True):
        found.append((e.key if isinstance(e, Ref) else "r", size, True))
    out: list[Axis] = []
    for k, (name, size, is_core) in enumerate(found):
        good = name.isidentifier() and name.isascii() and "_" not in (name[0], name[-1])
        if not good or any(name == a[0] for a in out):
            name = f"{name}{k}" if good else f"a{k}"
        out.append((name, size, is_core))
    return out


def _is_turned(pattern: str) -> int:
    """+1 where a pattern swaps rows and columns, −1 where it keeps them."""
    if not pattern:
        return -1
    left, right = (re.findall(r"\w+", side) for side in pattern.split("->"))
    return 1 if left.index(right[-1]) < left.index(right[-2]) else -1


def _one_way(options: list[Option]) -> list[Option]:
    """The options, preferring the orientation of the matrices that fit in only one way."""

    def matrix(o: Option) -> bool:
        return len(o.parameters[0].shape) == 2 and "embedding" not in _words_of(o.parameters)

    ways: dict[int, set[int]] = {}
    for o in filter(matrix, options):
        ways.setdefault(id(o.family), set()).update(map(_is_turned, o.patterns))
    way = sum(sum(w) for w in ways.values() if len(w) == 1)

    def turned(o: Option) -> Option:
        found = tuple(sorted(o.patterns, key=lambda p: -way * _is_turned(p)))
        against = way * _is_turned(found[0]) < 0
        return replace(o, patterns=found, score=o.score - 0.2 * against)

    return [turned(o) if matrix(o) and way else o for o in options]


def _words(text: str) -> set[str]:
    for phrase, meant in PHRASES.items():
        text = re.sub(rf"(?<![A-Za-z0-9])({phrase})(?![A-Za-z0-9])", f" {meant} ", text, flags=re.I)
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    found = re.findall(r"[A-Za-z]+", split)
    words = [w for f in found for w in WORDS.get(f.lower(), f.lower()).split()]
    return set(words) - {"the", "of", "a", "its", "their", "and", "transformer", "model", "h"}


def _words_of(parameters: tuple[Parameter, ...], card: CardData | None = None) -> set[str]:
    out = set[str]()
    for p in parameters:
        bias = p.symbol.base in ("b", "beta")
        meaning = p.meaning
        row = [q for q in card.parameters if q.meaning == meaning] if card is not None else []
        if len(each := meaning.split(",")) == len(row) > 1:  # "query, key, value"
            meaning = each[row.index(p)]
        if card is not None and re.match(r"(its|their)\b", meaning):  # of the row above
            above = card.parameters[: card.parameters.index(p)]
            meaning += next((f" {q.meaning}" for q in above[::-1] if q.meaning != p.meaning), "")
        key = " ".join(slot.text for slot in p.symbol.sub + p.symbol.sup if not slot.index)
        out |= _words(f"{p.symbol.base} {key}") | _words(meaning)
        out = (out - {"weight"}) | {"bias"} if bias else out | {"weight"}
    return out


def similarity(card: CardData, parameters: tuple[Parameter, ...], family: Family) -> float:
    """How many words a name shares with a parameter's symbol and meaning, from 0 to 1."""
    name = family.with_numbers([str(r[0]) if len(r) == 1 else "" for r in family.numbers])
    a, b = _words(name), _words_of(parameters, card)
    numbers = {n for p in parameters for n in re.findall(r"\d", p.symbol.key)}
    literal = set(re.findall(r"\d", name))
    same = len(a & b) + 0.5 * bool(numbers & literal)
    return same / sqrt(max(1, len(a)) * max(1, len(b)))


def tied(found: FileMatch) -> dict[str, tuple[str, ...]]:
    """For a missing matrix, the tensors with its shape, or that shape transposed.

    A matrix of a block is tied to nothing: no family shares it with another block.
    """

    def single(e: Expected) -> bool:
        return len(e.shape) == 2 and not any(found.card.blocks_of(p.symbol) for p in e.parameters)

    out = {}
    for name, e in found.missing.items():
        shapes = (e.shape, e.shape[::-1])
        same = [n for n, x in found.fits.items() if single(x) and x.shape in shapes]
        if single(e) and 0 < len(same) <= 3:
            out[name] = tuple(same)
    return out
