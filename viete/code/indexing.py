"""Names, index letters and binders as code: members of an axis, computed places, tables, blocks.

The index of a value becomes an axis, a slice, or a `take_along_axis` where the places and the value
share axes. `lowering` writes operations and functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from viete.analysis.shapes import Shapes
from viete.analysis.types import Type
from viete.code.dialects import Dialect
from viete.code.expression import (
    ATOM,
    LEAD,
    Code,
    CodeEnv,
    CodeLetter,
    core_of,
    folded,
    length,
    many,
    number,
)
from viete.code.identifiers import Identifiers, plain_letter
from viete.errors import VieteError
from viete.evaluate.labelled import ROW
from viete.graph.card import CardData
from viete.graph.dependence import forward_slice
from viete.graph.evaluator import Evaluator, Letter
from viete.graph.sizes import Size
from viete.notation.tree import Apply, Bind, Expr, Idx, Num, Pick, Ref, Slice, num

if TYPE_CHECKING:
    from viete.code.functions import Functions


class Indexing(Evaluator[Code, CodeEnv]):
    """Names, index letters and binders of one model, as code of one library.

    ``variable`` writes a value, parameter or input of given block numbers; ``functions`` are those
    of the file, which are written when they are first called.
    """

    zero = Num(Fraction(0))

    def __init__(
        self, card: CardData, dialect: Dialect, names: Identifiers, shapes: Shapes,
        variable: Callable[[Ref, Sequence[Expr], CodeEnv], tuple[str, bool]],
        functions: Functions,
    ) -> None:  # fmt: skip
        self.card, self.dialect, self.names, self.shapes = card, dialect, names, shapes
        self.variable, self.functions = variable, functions
        self.xp = dialect.xp
        self.inlined: set[str] = set()  # values that are written where they are used alone
        self.numbers: frozenset[str] = frozenset()  # values that are numbers of Python's
        self.given = forward_slice(card, {i.name for i in card.inputs})
        index: dict[str, CodeLetter | Code] = {}
        for i in card.indices:
            count = shapes.count(i.lower, i.upper, i.text)
            index[i.name] = CodeLetter(i.name, i.name, i.lower, length(i.lower, i.upper), count)
        self.env: CodeEnv = CodeEnv(index=index, types=shapes.env)

    def type(self, e: Expr, env: CodeEnv) -> Type:
        return self.shapes.of(e, env.types)

    # -- names -------------------------------------------------------------------------------------

    def number(self, value: Fraction) -> Code:
        return number(value)

    def dimension(self, e: Ref, env: CodeEnv) -> Code:
        value = self.card.sizes.get(e.key)
        whole = value is None or value.denominator == 1
        return Code(self.names.symbol(e.symbol), const=True, whole=whole)

    def named(self, e: Ref, blocks: Sequence[Expr], env: CodeEnv) -> Code:
        text, lead = self.variable(e, blocks, env)
        t = self.shapes.types[e.key]
        axes = ((LEAD,) if lead else ()) + self.card.heads_of(e.symbol) + core_of(t)
        return Code(text, axes=axes, whole=t.interval is not None, python=e.key in self.numbers)

    def idx(self, e: Idx, env: CodeEnv) -> Code:
        meaning = env.index[e.name]
        if isinstance(meaning, Code):
            return meaning
        if meaning.code is not None:
            return meaning.code
        return Code(self.arange(meaning, env), axes=(meaning.label,), const=True, whole=True)

    def size(self, e: Expr, env: CodeEnv) -> Expr:
        return e

    def lengths(
        self, e: Expr, v: Code, labels: Sequence[str], env: CodeEnv
    ) -> list[Size]:  # fmt: skip
        return list(self.type(e, env).shape)

    def arange(self, family: CodeLetter, env: CodeEnv) -> str:
        """The values of an index letter."""
        first, n = self.of(family.first, env), self.integer(family.count, env)
        bounds = n
        if first.text != "0":
            upper = folded(Apply("add", (family.first, family.count)))
            bounds = f"{first.text}, {self.integer(upper, env)}"
        more = ""
        if self.dialect.casts:
            more = f", device={env.like or 'like'}.device"
        return f"{self.xp}.arange({bounds}{more})"

    def integer(self, e: Expr, env: CodeEnv) -> str:
        """A size or a bound, as a whole number."""
        code = self.of(e, env)
        return code.text if code.whole else f"int({code.text})"

    # -- axes --------------------------------------------------------------------------------------

    def members(
        self, v: Code, old: str, new: Letter, among: Letter, env: CodeEnv
    ) -> Code:  # fmt: skip
        assert isinstance(new, CodeLetter)
        same = self.same(new.first, among.first)
        if same and self.shapes.same(new.many, many(among)):
            return v.relabel(old, new.label)
        start = self.zero if same else folded(Apply("sub", (new.first, among.first)))
        stop = folded(Apply("add", (start, new.count)))
        first, last = self.integer(start, env), self.integer(stop, env)
        cut = self.dialect.index(v, old, f"{'' if first == '0' else first}:{last}")
        return v.as_atom(cut).relabel(old, new.label)

    def gather(
        self, v: Code, label: str, at: Code, index: Expr, among: Letter, env: CodeEnv
    ) -> Code:  # fmt: skip
        if self.of(among.first, env).text != "0":
            index = folded(Apply("sub", (index, among.first)))
            at = self.of(index, env)
        at = self.checked_places(at, index, v, label, many(among), env)
        return replace(self.take(v, label, at, env), whole=v.whole)

    def from_end(
        self, v: Code, label: str, k: int, item: Expr, among: Letter, env: CodeEnv
    ) -> Code:  # fmt: skip
        least = self.shapes.as_number(among.count).interval
        if least is not None and k <= least[0]:
            return replace(self.take(v, label, Code(f"-{k}", whole=True), env), whole=v.whole)
        # Python counts -1 of n - 2 from the end too: what may be too much is counted from 0.
        if env.arguments is None:
            item = Apply("sub", (self.card.size_expr(among.count), num(k)))
        return self.gather(v, label, self.of(item, env), item, among, env)

    def cut(self, v: Code, label: str, item: Slice, e: Pick, env: CodeEnv) -> Code:
        start = "" if item.start is None else self.integer(item.start, env)
        stop = "" if item.stop is None else self.integer(item.stop, env)
        if not start and not stop:
            return v
        count = f"{v.at(ATOM)}.shape[{v.axis(label)}]"
        size = self.type(e.value, env).shape[-2 if label.endswith(ROW) else -1]
        if not self.inside_axis(item.start, item.stop, size, env):
            called = f"{self.functions.helper('within')}({start or '0'}, {stop or count}, {count})"
            return v.as_atom(self.dialect.index(v, label, called))
        short = f"{start}:{stop}" if (start + stop).isidentifier() else f"{start} : {stop}"
        return v.as_atom(self.dialect.index(v, label, short.strip()))

    def inside_axis(
        self, start: Expr | None, stop: Expr | None, size: Size, env: CodeEnv
    ) -> bool:  # fmt: skip
        """Whether 0 ≤ start ≤ stop ≤ size is known of a slice."""
        ends = [None if e is None else self.shapes.size(e, env.types) for e in (start, stop)]
        first = Size.of(0) if start is None else ends[0]
        last = size if stop is None else ends[1]
        if first is None or last is None:
            return False
        known = [self.shapes.as_number(x).interval for x in (first, last - first, size - last)]
        return all(x is not None and x[0] >= 0 for x in known)

    def checked_places(
        self, at: Code, e: Expr, code: Code, label: str, count: Size, env: CodeEnv
    ) -> Code:  # fmt: skip
        """Computed places ``e`` in an axis, as whole numbers, checked if they may be outside."""
        if (not at.whole and at.axes and at.const) or (not at.whole and not at.const):
            at = replace(self.dialect.whole_numbers(at), whole=True)
        interval, size = self.type(e, env).whole, self.shapes.number(count)
        inside = size is not None and interval is not None
        if isinstance(e, Num) or (inside and interval[0] >= 0 and interval[1] < size):  # type: ignore[index,operator]
            return replace(at, checked=bool(e.keys & self.given))
        size_of_axis = self.card.size_expr(count) if env.arguments is None else None
        if size_of_axis is None:
            bound = f"{code.at(ATOM)}.shape[{code.axis(label)}]"
        else:
            bound = self.integer(size_of_axis, env)
        return at.as_atom(f"{self.functions.helper('inside')}({at.text}, {bound})", checked=True)

    def same(self, a: Expr, b: Expr) -> bool:
        x, y = self.card.size(a), self.card.size(b)
        return a == b or (x is not None and y is not None and self.shapes.same(x, y))

    def take(self, code: Code, label: str, at: Code, env: CodeEnv) -> Code:
        """Members of an axis at computed places; the axes of the places replace it."""
        const = code.const and at.const
        if not at.axes:
            text = at.text if at.whole or not at.const else f"int({at.text})"
            taken = self.dialect.index(code, label, text, at.checked)
            return Code(taken, axes=code.without(label), const=const)
        rest = code.without(label)
        if not set(at.axes) & set(rest):
            k = code.axes.index(label)
            axes = code.axes[:k] + at.axes + code.axes[k + 1 :]
            if LEAD in axes[1:]:
                if LEAD in code.axes:
                    raise VieteError("members picked by several inputs at once")
                # A batch of places goes to the front, past the families before it.
                text = self.dialect.index(code, label, at.text, at.checked)
                moved = (LEAD, *(a for a in axes if a != LEAD))
                text = self.dialect.moved(text, range(k), range(1 - len(axes), 1 - len(axes) + k))
                return Code(text, axes=moved, const=const)
            text = self.dialect.index(code, label, at.text, at.checked)
            return Code(text, axes=axes, const=const)
        extra = [a for a in at.axes if a not in rest and a != LEAD]
        # Along the axes they share: place by place, the same for all but one of the others.
        before, after = code.axes[: code.axes.index(label)], code.axes[code.axes.index(label) + 1 :]
        if LEAD in at.axes and LEAD not in before:
            before = (LEAD, *before)
        target = (*before, *(extra or ["one"]), *after)
        # A batch that only one of both has comes in front of the other's axes by itself.
        own = tuple(a for a in target if a != LEAD or LEAD in at.axes)
        places = self.dialect.brought(at, own, True)
        name = f"{self.xp}.{self.dialect.take_along}"
        leads = (LEAD in at.axes) + (LEAD in code.axes)
        if leads == 1 or (leads and env.arguments is not None):  # which may be of unlike numbers
            name = self.functions.helper("entries")
        own = tuple(a for a in (*before, *extra[:-1], label, *after)
                    if a != LEAD or LEAD in code.axes)  # fmt: skip
        text = self.dialect.brought(code, own, True)
        text = f"{name}({text}, {places}, {-len(after) - 1})"
        if extra:
            return Code(text, axes=target, const=const)
        rest = (*before, *after)
        picked = Code(text, axes=(*before, label, *after))
        return Code(self.dialect.index(picked, label, "0"), axes=rest, const=const)

    def tensor(self, number: Code, env: CodeEnv) -> str:
        """A number of PyTorch's, in full precision, where the arrays are."""
        kind = "" if number.whole else ", dtype=torch.float64"
        there = f", device={env.like or 'like'}.device"
        return f"torch.as_tensor({number.text}{kind}{there})"

    # -- binders -----------------------------------------------------------------------------------

    def column(self, v: Code) -> Code:
        return v  # a value on paper without rows has columns

    def merge(self, v: Code, label: str) -> Code:
        return self.dialect.merge(v, label)

    def bound_letter(self, e: Bind, env: CodeEnv, label: str) -> CodeLetter:
        if e.lower is None or e.upper is None:
            return replace(env.index[e.index], label=label, code=None)
        low = self.shapes.needed_size(e.lower, env.types)
        count = self.shapes.needed_size(e.upper, env.types) - low + Size.of(1)
        return CodeLetter(e.index, label, e.lower, length(e.lower, e.upper), count)

    def binding(self, env: CodeEnv, letters: Mapping[str, Letter]) -> CodeEnv:
        families = {}
        for i, x in letters.items():
            if not isinstance(x, CodeLetter):  # a table's
                given = env.index.get(i)
                code = given.code if isinstance(given, CodeLetter) else None
                count = self.shapes.needed_size(x.count, env.types)
                x = CodeLetter(i, x.label, x.first, x.count, count, code)
            families[i] = x
        starts = {i: self.shapes.size(x.first, env.types) for i, x in families.items()}
        first = {**env.types.first, **{i: n for i, n in starts.items() if n is not None}}
        ranges = {**env.types.ranges, **{i: x.many for i, x in families.items()}}
        types = replace(env.types, ranges=ranges, first=first)
        return replace(super().binding(env, families), types=types)

    def blocks(self, e: Bind, env: CodeEnv) -> Code:
        assert e.lower is not None and e.upper is not None
        i = plain_letter(e.index)
        index = {**env.index, e.index: Code(i, const=True, whole=True)}
        types = self.shapes.inside(e, env.types)
        inner = replace(env, index=index, types=types)
        code = self.of(e.body, inner)
        span = f"range({self.integer(e.lower, env)}, {self.above(e.upper, env)})"
        if e.op == "sum":
            return code.as_atom(f"sum({code.text} for {i} in {span})")
        if e.op == "concat":
            raise VieteError("blocks cannot be concatenated")
        name = self.dialect.reductions.get(e.op, e.op)
        return code.as_atom(f"{self.xp}.stack([{code.text} for {i} in {span}]).{name}(0)")

    def above(self, upper: Expr, env: CodeEnv) -> str:
        """One more than an inclusive bound."""
        return self.integer(folded(Apply("add", (upper, num(1)))), env)

    def spread(self, v: Code, letters: Sequence[Letter], env: CodeEnv) -> Code:
        labels = tuple(x.label for x in letters)
        lead = tuple(a for a in v.axes if a not in labels)
        order = (*lead, *labels)
        if set(labels) <= set(v.axes):
            return self.dialect.permuted(v, order)
        sizes = ", ".join(self.integer(x.count, env) for x in letters)
        sizes += "," if len(labels) == 1 else ""
        if lead:  # repeated along what is missing, whatever stands in front
            text = self.dialect.brought(v, order, True)
            there = f", device={env.like or 'like'}.device" if self.dialect.casts else ""
            shape = f"{self.xp}.empty(({sizes}){there})"
            text = f"{self.xp}.{self.dialect.broadcast}({text}, {shape})[0]"
            return Code(text, axes=order, const=v.const, whole=v.whole)
        text = self.dialect.brought(v, labels)
        if not v.axes and self.dialect.casts:
            text = self.tensor(v, env)
        text = f"{self.xp}.broadcast_to({text}, ({sizes}))"
        return Code(text, axes=labels, const=v.const, whole=v.whole)
