"""Formulas as source code of one array library, with every axis resolved while writing.

A piece of code knows the labels of its value's axes, in order: index letters, then ``row`` and
``col`` for the axes it has on paper. So a family broadcasts by an axis inserted where it lacks
one, a sum over heads is a sum over an axis, and no name of an axis is left when the code runs.
In front there may be `LEAD`: axes that are not counted, a batch or a caller's families.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol

from viete.analysis.kinds import COMPARISONS, LOGICAL, OF_REALS, TRUTH, quotient
from viete.analysis.shapes import Shapes
from viete.analysis.types import Type, TypeEnv
from viete.code.dialects import Dialect
from viete.code.identifiers import Identifiers
from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW
from viete.graph.card import CardData
from viete.graph.evaluator import Env, Evaluator, Letter
from viete.graph.sizes import Size
from viete.notation.printer import show
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slice,
    walk,
)  # fmt: skip
from viete.rewrite.simplify import row_sum

LEAD = "…"
# Python's binding strengths, loose to tight.
ELSE, COMPARE, OR, AND, ADD, MUL, NEG, POWER, ATOM = range(1, 10)
INFIX = {
    "add": (ADD, "+"), "sub": (ADD, "-"), "had": (MUL, "*"), "times": (MUL, "*"), "div": (MUL, "/"),
    "mod": (MUL, "%"), "pow": (POWER, "**"), "lt": (COMPARE, "<"), "le": (COMPARE, "<="),
    "gt": (COMPARE, ">"), "ge": (COMPARE, ">="), "eq": (COMPARE, "=="), "ne": (COMPARE, "!="),
    "and": (AND, "&"), "or": (OR, "|"), "quotient": (MUL, "//"),
}  # fmt: skip
TESTS = frozenset("lt le gt ge eq ne and or not".split())
# Operations of which whole numbers alone would make something else than a real number.
PROMOTED = frozenset("add sub had times prod inner sum mod pow quotient".split())
WHOLE = frozenset("add sub had times neg mod max min abs where quotient".split())
BY_HAND = frozenset(("onehot", "gathered", "placed"))  # which make real numbers of whole ones
Axes = tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """An expression of Python, how strongly it binds, and what its value's axes are.

    ``const``: made of numbers, dimensions and indices alone; ``whole``: computed in whole numbers.
    """

    text: str
    level: int = ATOM
    axes: Axes = ()
    const: bool = False
    whole: bool = False
    checked: bool = False  # of places: whether it had to be looked at that they are inside
    python: bool = False  # a number or truth value of Python's, which has no method of an array's

    def at(self, level: int) -> str:
        """The text, in parentheses where a tighter level is asked for."""
        return self.text if self.level >= level else f"({self.text})"

    @property
    def core(self) -> Axes:
        return tuple(a for a in self.axes if a in (ROW, COL))

    @property
    def lead(self) -> Axes:
        return tuple(a for a in self.axes if a not in (ROW, COL))

    def relabel(self, old: str, new: str) -> Code:
        return replace(self, axes=tuple(new if a == old else a for a in self.axes))

    def without(self, label: str) -> Axes:
        return tuple(a for a in self.axes if a != label)

    def place(self, label: str) -> int:
        """Where an axis is: from the front if all axes are counted and it is the first."""
        k = self.axes.index(label)
        return 0 if k == 0 and LEAD not in self.axes else k - len(self.axes)


@dataclass(frozen=True, slots=True)
class CodeLetter(Letter):
    """An index letter as an axis; sizes are formulas, ``many`` is ``count`` by its normal form."""

    many: Size
    code: Code | None = None  # its values, where they have a name


@dataclass(frozen=True, slots=True)
class CodeEnv(Env[Code]):
    """Names in force; ``index`` maps a letter to its `CodeLetter`, or to a block number's code."""

    types: TypeEnv = field(default_factory=TypeEnv)
    like: str = ""  # an array whose dtype and device a table of numbers takes
    block: str = ""  # the letter of the block loop that this stands in


class Emitted(Protocol):
    """The functions that a file has: called with what one is called with, it gives the name."""

    precision: set[str]  # those that take an array of the run's kind, `like`

    def __call__(self, e: Apply, codes: Sequence[Code], env: CodeEnv) -> tuple[str, Axes]: ...


class Lowering(Evaluator[Code, CodeEnv]):
    """Formulas of one model as code of one library: the evaluator's walk, with text for values.

    ``variable`` writes a value, parameter or input of given block numbers; ``function`` gives the
    name of a function emitted for arguments of given axes, and the axes of its result.
    """

    zero = Num(Fraction(0))

    def __init__(
        self, card: CardData, dialect: Dialect, names: Identifiers, shapes: Shapes,
        variable: Callable[[Ref, Sequence[Expr], CodeEnv], tuple[str, bool]],
        function: Emitted,
        like: str = "",
    ) -> None:  # fmt: skip
        self.card, self.dialect, self.names, self.shapes = card, dialect, names, shapes
        self.variable, self.function = variable, function
        self.xp = dialect.xp
        self.inlined: set[str] = set()  # values that are written where they are used alone
        self.numbers: frozenset[str] = frozenset()  # values that are numbers of Python's
        index: dict[str, CodeLetter | Code] = {}
        for i in card.indices:
            count = shapes.count(i.lower, i.upper, i.text)
            index[i.name] = CodeLetter(i.name, i.name, i.lower, length(i.lower, i.upper), count)
        self.env: CodeEnv = CodeEnv(index=index, types=shapes.env, like=like)

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
        core = (ROW, COL)[2 - len(self.shapes.types[e.key].shape) :]
        letters = tuple(s for s in e.symbol.slots if s not in self.card.loop_letters)
        axes = ((LEAD,) if lead else ()) + letters + core
        return Code(text, axes=axes, whole=self.shapes.types[e.key].interval is not None,
                    python=e.key in self.numbers)  # fmt: skip

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
        first, n = self.of(family.first, env), self.whole(family.count, env)
        bounds = n
        if first.text != "0":
            upper = folded(Apply("add", (family.first, family.count)))
            bounds = f"{first.text}, {self.whole(upper, env)}"
        more = ""
        if self.dialect.casts:
            more = f", device={env.like}.device" if env.like else ""
        return f"{self.xp}.arange({bounds}{more})"

    def whole(self, e: Expr, env: CodeEnv) -> str:
        """A size or a bound, as a whole number."""
        code = self.of(e, env)
        return code.text if code.whole else f"int({code.text})"

    # -- axes --------------------------------------------------------------------------------------

    def index(self, code: Code, label: str, text: str, checked: bool = False) -> str:
        """``code[…]`` with something in the place of one axis."""
        k = code.place(label)
        if k >= 0:
            items = [":"] * k + [text]
        elif LEAD not in code.axes:
            items = [":"] * (len(code.axes) + k) + [text]
        else:
            items = ["...", text, *[":"] * (-k - 1)]
        if checked and self.dialect.name == "jax":  # whose brackets take the nearest there is
            return f'{code.at(ATOM)}.at[{", ".join(items)}].get(mode="fill")'
        return f"{code.at(ATOM)}[{', '.join(items)}]"

    def members(
        self, v: Code, old: str, new: Letter, among: Letter, env: CodeEnv
    ) -> Code:  # fmt: skip
        assert isinstance(new, CodeLetter)
        same = self.same(new.first, among.first)
        if same and self.shapes.same(new.many, many(among)):
            return v.relabel(old, new.label)
        start = self.zero if same else folded(Apply("sub", (new.first, among.first)))
        stop = folded(Apply("add", (start, new.count)))
        first, last = self.whole(start, env), self.whole(stop, env)
        cut = self.index(v, old, f"{'' if first == '0' else first}:{last}")
        return replace(v, text=cut, level=ATOM).relabel(old, new.label)

    def gather(
        self, v: Code, label: str, at: Code, index: Expr, among: Letter, env: CodeEnv
    ) -> Code:  # fmt: skip
        if self.of(among.first, env).text != "0":
            index = folded(Apply("sub", (index, among.first)))
            at = self.of(index, env)
        at = self.place(at, index, v, label, many(among), env)
        return replace(self.take(v, label, at, env), whole=v.whole)

    def cut(self, v: Code, label: str, item: Slice, e: Pick, env: CodeEnv) -> Code:
        start = "" if item.start is None else self.whole(item.start, env)
        stop = "" if item.stop is None else self.whole(item.stop, env)
        if not start and not stop:
            return v
        short = f"{start}:{stop}" if (start + stop).isidentifier() else f"{start} : {stop}"
        return replace(v, text=self.index(v, label, short.strip()), level=ATOM)

    def place(
        self, at: Code, e: Expr, code: Code, label: str, count: Size, env: CodeEnv
    ) -> Code:  # fmt: skip
        """Computed places ``e`` in an axis, as whole numbers, checked if they may be outside."""
        interval, size = self.type(e, env).whole, self.shapes.number(count)
        if (not at.whole and at.axes and at.const) or (not at.whole and not at.const):
            at = replace(self.whole_numbers(at), whole=True)
        inside = size is not None and interval is not None
        if isinstance(e, Num) or (inside and interval[0] >= 0 and interval[1] < size):  # type: ignore[index,operator]
            return at
        name, _ = self.function(Apply("inside", ()), [at], env)
        size_of_axis = self.card.size_expr(count) if env.arguments is None else None
        if size_of_axis is None:
            bound = f"{code.at(ATOM)}.shape[{code.place(label)}]"
        else:
            bound = self.whole(size_of_axis, env)
        return replace(at, text=f"{name}({at.text}, {bound})", level=ATOM, checked=True)

    def whole_numbers(self, code: Code) -> Code:
        """Truth values, or floats that are whole, as whole numbers."""
        if code.python:
            return Code(f"int({code.text})", whole=True, python=True)
        cast = "long()" if self.dialect.name == "torch" else "astype(int)"
        return replace(code, text=f"{code.at(ATOM)}.{cast}", level=ATOM, whole=True)

    def same(self, a: Expr, b: Expr) -> bool:
        x, y = self.card.size(a), self.card.size(b)
        return a == b or (x is not None and y is not None and self.shapes.same(x, y))

    def take(self, code: Code, label: str, at: Code, env: CodeEnv) -> Code:
        """Members of an axis at computed places, whose own axes come instead of it."""
        const = code.const and at.const
        if not at.axes:
            text = at.text if at.whole or not at.const else f"int({at.text})"
            taken = self.index(code, label, text, at.checked)
            return Code(taken, axes=code.without(label), const=const)
        rest = code.without(label)
        if not set(at.axes) & set(rest):
            k = code.axes.index(label)
            axes = code.axes[:k] + at.axes + code.axes[k + 1 :]
            if LEAD in axes[1:]:
                if LEAD in code.axes:
                    raise VieteError("members picked by several inputs at once")
                # A batch of places goes to the front, past the families before it.
                text = self.index(code, label, at.text, at.checked)
                moved = (LEAD, *(a for a in axes if a != LEAD))
                source = list(range(k))
                goal = [j - (len(axes) - 1) for j in range(k)]
                text = f"{self.xp}.{self.movable}({text}, {bare(source)}, {bare(goal)})"
                return Code(text, axes=moved, const=const)
            return Code(self.index(code, label, at.text, at.checked), axes=axes, const=const)
        extra = [a for a in at.axes if a not in rest and a != LEAD]
        # Along the axes they share: place by place, the same for all but one of the others.
        before, after = code.axes[: code.axes.index(label)], code.axes[code.axes.index(label) + 1 :]
        if LEAD in at.axes and LEAD not in before:
            before = (LEAD, *before)
        target = (*before, *(extra or ["one"]), *after)
        places = self.brought(at, target, True)
        name = "take_along_dim" if self.dialect.name == "torch" else "take_along_axis"
        name = f"{self.xp}.{name}"
        leads = (LEAD in at.axes) + (LEAD in code.axes)
        if leads == 1 or (leads and env.arguments is not None):  # which may be of unlike numbers
            name, _ = self.function(Apply("entries", ()), [], env)
        text = self.brought(code, (*before, *extra[:-1], label, *after), True)
        text = f"{name}({text}, {places}, {-len(after) - 1})"
        if extra:
            return Code(text, axes=target, const=const)
        rest = (*before, *after)
        picked = Code(text, axes=(*before, label, *after))
        return Code(self.index(picked, label, "0"), axes=rest, const=const)

    @property
    def movable(self) -> str:
        return "movedim" if self.dialect.name == "torch" else "moveaxis"

    def brought(self, code: Code, target: Axes, fully: bool = False) -> str:
        """The code with its axes in the order of ``target``, 1 where it lacks one.

        What is missing in front broadcasts by itself, and is left out unless ``fully``.
        """
        have = tuple(a for a in target if a in code.axes)
        code = self.permuted(code, have)
        first = target.index(have[0]) if have and not fully else 0
        wanted = target[first:] if have else ()
        if wanted == have:
            return code.text
        missing = [k for k, a in enumerate(wanted) if a not in have]
        if self.dialect.name == "torch" and len(missing) == 1:
            return f"{code.at(ATOM)}.unsqueeze({missing[0] - len(wanted)})"
        items = [":" if a in have else "None" for a in wanted]
        if wanted[0] == LEAD:
            items[0] = "..."
        while items[-1] == ":" and items[0] != "...":
            items.pop()
        return f"{code.at(ATOM)}[{', '.join(items)}]"

    def permuted(self, code: Code, order: Axes) -> Code:
        if code.axes == order:
            return code
        moved = [k for k, (a, b) in enumerate(zip(code.axes, order, strict=True)) if a != b]
        n = len(order)
        if len(moved) == 2:
            i, j = (k - n for k in moved)
            text = f"{code.at(ATOM)}.mT" if (i, j) == (-2, -1) else (
                f"{code.at(ATOM)}.swapaxes({i}, {j})")  # fmt: skip
            return replace(code, text=text, level=ATOM, axes=order)
        source = [code.axes.index(order[k]) - n for k in moved]
        goal = [k - n for k in moved]
        text = f"{self.xp}.{self.movable}({code.text}, {bare(source)}, {bare(goal)})"
        return replace(code, text=text, level=ATOM, axes=order)

    def aligned(self, codes: Sequence[Code]) -> tuple[list[Code], Axes]:
        """Codes that broadcast together, and the axes that they have together."""
        target = together([c.axes for c in codes])
        return [self.fitted(c, target) if c.axes else c for c in codes], target

    def fitted(self, code: Code, target: Axes, fully: bool = False) -> Code:
        """As `brought`, still bound as it was if nothing had to be done."""
        text = self.brought(code, target, fully)
        return code if text == code.text else replace(code, text=text, level=ATOM)

    def cast(self, codes: Sequence[Code], env: CodeEnv) -> list[Code]:
        """In PyTorch, tables of numbers with the dtype and device of what they meet."""
        if not self.dialect.casts or all(c.const for c in codes):
            return list(codes)
        if all(c.whole for c in codes):
            return list(codes)
        like = next((c.text for c in codes if not c.const and not c.whole and c.level == ATOM
                     and c.text.isidentifier()), env.like or "like")  # fmt: skip
        return [
            replace(c, text=f"{c.at(ATOM)}.to({like})", level=ATOM) if c.const and c.axes else c
            for c in codes
        ]

    # -- binders -----------------------------------------------------------------------------------

    def reduction(self, e: Bind, env: CodeEnv, label: str) -> Code:
        code = self.of(e.body, env)
        if label not in code.axes:
            raise VieteError(f"{show(e)} folds an index that its body has no axis of")
        found = self.shapes.of(e, env.types)
        (code,) = self.operands(e.op, [code], [self.type(e.body, env)], found, env)
        return self.fold(e.op, code, label)

    def column(self, v: Code) -> Code:
        return v  # a value on paper without rows has columns

    def merge(self, v: Code, label: str) -> Code:
        order = (*(a for a in v.axes if a not in (label, COL)), label, COL)
        axes = (*order[:-2], COL)
        if v.axes == (label, ROW, COL) and self.dialect.name != "torch":
            return Code(f"{self.xp}.concatenate({v.text}, axis=-1)", axes=axes, whole=v.whole)
        v = self.permuted(v, order)
        if self.dialect.name == "torch":
            return replace(v, text=f"{v.at(ATOM)}.flatten(-2)", level=ATOM, axes=axes)
        text = f"{v.at(ATOM)}.reshape(*{v.at(ATOM)}.shape[:-2], -1)"
        return replace(v, text=text, level=ATOM, axes=axes)

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

    def fold(self, op: str, code: Code, label: str, keep: bool = False) -> Code:
        """An axis folded away by a reduction; kept as 1 on paper for rows' sums."""
        name = self.dialect.reductions.get(op, op)
        more = f", {self.dialect.keep}=True" if keep else ""
        text = f"{code.at(ATOM)}.{name}({code.place(label)}{more})"
        whole = op == "argmax" or (code.whole and op in ("sum", "max", "min"))
        axes = code.axes if keep else code.without(label)
        return Code(text, axes=axes, const=code.const, whole=whole)

    def blocks(self, e: Bind, env: CodeEnv) -> Code:
        assert e.lower is not None and e.upper is not None
        i = plain_letter(e.index)
        index = {**env.index, e.index: Code(i, const=True, whole=True)}
        types = self.shapes.inside(e, env.types)
        inner = replace(env, index=index, types=types, block="")
        code = self.of(e.body, inner)
        span = f"range({self.whole(e.lower, env)}, {self.above(e.upper, env)})"
        if e.op == "sum":
            return replace(code, text=f"sum({code.text} for {i} in {span})", level=ATOM)
        if e.op == "concat":
            raise VieteError("blocks cannot be concatenated")
        name = self.dialect.reductions.get(e.op, e.op)
        text = f"{self.xp}.stack([{code.text} for {i} in {span}]).{name}(0)"
        return replace(code, text=text, level=ATOM)

    def above(self, upper: Expr, env: CodeEnv) -> str:
        """One beyond an inclusive bound."""
        return self.whole(folded(Apply("add", (upper, Num(Fraction(1))))), env)

    def spread(self, v: Code, letters: Sequence[Letter], env: CodeEnv) -> Code:
        labels = tuple(x.label for x in letters)
        lead = tuple(a for a in v.axes if a not in labels)
        order = (*lead, *labels)
        if set(labels) <= set(v.axes):
            return self.permuted(v, order)
        sizes = ", ".join(self.whole(x.count, env) for x in letters)
        sizes += "," if len(labels) == 1 else ""
        if lead:  # repeated along what is missing, whatever stands in front
            text = self.brought(v, order, True)
            many = "tensors" if self.dialect.name == "torch" else "arrays"
            there = f", device={env.like}.device" if self.dialect.casts and env.like else ""
            shape = f"{self.xp}.empty(({sizes}){there})"
            text = f"{self.xp}.broadcast_{many}({text}, {shape})[0]"
            return Code(text, axes=order, const=v.const, whole=v.whole)
        text = self.brought(v, labels)
        if not v.axes and self.dialect.casts:
            kind = "" if v.whole else ", dtype=torch.float64"
            text = f"torch.as_tensor({text}{kind})"
        text = f"{self.xp}.broadcast_to({text}, ({sizes}))"
        return Code(text, axes=labels, const=v.const, whole=v.whole)

    # -- operations --------------------------------------------------------------------------------

    def apply(self, e: Apply, env: CodeEnv) -> Code:
        match row_sum(e):
            case Apply("log", (Apply("sum", (Apply("exp", (z,)),)),)):
                return self.logsumexp(z, env)
        op = e.op
        if op in ("inf", "pi"):
            return Code(f"math.{op}", const=True)
        if op in self.card.function:
            return self.call(e, env)
        if op in ("rows", "cols"):
            value = self.of(e.args[0], env)
            shape = f"{value.at(ATOM)}.shape[{-1 if op == 'cols' else -2}]"
            return Code(shape, const=True, whole=True)
        if op in LOGICAL:
            return self.entrywise(op, [self.of(a, env) for a in e.args], env)
        parts, found = e.args, self.type(e, env)
        args = [self.of(a, env) for a in parts]
        if found.interval is not None and (rounded := quotient(e)) is not None and args[0].axes:
            op, parts = "quotient", rounded
            args = [self.of(a, env) for a in parts]
        tests, sides = (args[:1], args[1:]) if op == "where" else ([], args)
        types = [self.type(a, env) for a in parts[len(tests) :]]
        args = [*tests, *self.operands(op, sides, types, found, env)]
        whole = found.interval is not None
        if op == "prod" and all(a.core for a in args):
            return replace(self.product(*self.cast(args, env)), whole=whole)
        if op == "inner":
            return replace(self.inner(args), whole=whole)
        if op == "T":
            return self.transpose(args[0])
        if op in ("sum", "mean", "max", "min", "argmax") and len(args) == 1:
            keep = ROW in args[0].axes and op != "argmax"
            code = self.fold(op, args[0], COL, keep)
            return code.relabel(ROW, COL) if op == "argmax" else code
        if op == "concat":
            return replace(self.concat(args, env), whole=whole)
        if op == "floor" and args[0].whole and args[0].axes:
            return args[0]
        if op == "where" and args[0].const and not args[0].axes and not self.dialect.casts:
            args[1:] = self.with_all_axes(e.args[1:], args[1:], env)
        divides = op == "div" and env.arguments is None and self.divides(e)
        code = self.entrywise("had" if op == "prod" else op, args, env, divides)
        scalar = code.const and not code.axes
        return code if scalar else replace(code, whole=whole)

    def with_all_axes(self, sides: Sequence[Expr], codes: list[Code], env: CodeEnv) -> list[Code]:
        """The sides of a choice that Python makes: it computes one of them, which has to have the
        axes of both. How long these are is told by an array with all of them."""
        fitted, axes = self.aligned(codes)
        there = [name for x in sides for name in self.arrays(x, axes, env)]
        if not there or all(c.axes == axes for c in codes):
            return codes
        zeros = f"{self.xp}.zeros({there[0]}.shape)"
        return [c if c.axes == axes else Code(zeros, axes=axes) if c.text == "0" else
                Code(f"{c.at(ADD)} + {zeros}", ADD, axes) for c in fitted]  # fmt: skip

    def arrays(self, e: Expr, axes: Axes, env: CodeEnv) -> Iterator[str]:
        """The values that a formula is computed from, outside of its binders, with these axes."""
        if isinstance(e, Apply):
            for x in e.args:
                yield from self.arrays(x, axes, env)
        elif isinstance(e, Ref) and e.symbol.kind not in ("dim", "argument"):
            code = self.of(e, env)
            if code.axes == axes:
                yield code.at(ATOM)

    def operands(
        self, op: str, codes: Sequence[Code], types: Sequence[Type], found: Type, env: CodeEnv
    ) -> list[Code]:  # fmt: skip
        """What an operation is computed with: all whole numbers, or such as make real ones.

        Truth values become 0 and 1. Where every array is whole and the result is real, PyTorch has
        to be told of which precision, and all have to be told where whole numbers would overflow or
        have no value for a remainder.
        """
        alike = len({t.kind for t in types}) == 1
        if alike and (op in ("T", "concat") or found.kind == TRUTH == types[0].kind):
            return list(codes)
        out = [self.whole_numbers(c) if t.kind == TRUTH and (c.axes or not c.const) else c
               for c, t in zip(codes, types, strict=True)]  # fmt: skip
        arrays = [c for c in out if c.axes or not c.const]
        if found.interval is not None or op in COMPARISONS or op in ("T", "argmax"):
            return out
        torch = self.dialect.name == "torch"
        if not torch and op not in PROMOTED:
            return out
        if op in ("prod", "inner"):  # whose sides must be of one kind
            return [self.realed(c, env) if c.whole else c for c in out]
        return [self.realed(c, env) if all(x.whole for x in arrays) and c in arrays and c.whole
                else c for c in out]  # fmt: skip

    def realed(self, code: Code, env: CodeEnv) -> Code:
        """Whole numbers as real ones of the run's kind; a constant with all digits there are."""
        if code.const and not code.axes:
            return code
        if code.python:
            return Code(f"float({code.text})", python=True)
        cast = "astype(float)"
        if self.dialect.name == "torch":
            cast = "double()" if code.const else f"to({env.like or 'like'})"
        return replace(code, text=f"{code.at(ATOM)}.{cast}", level=ATOM, whole=False)

    def taken(self, code: Code, real: bool, inline: bool) -> Code:
        """A plain number as the library's own functions take it."""
        if self.dialect.name == "torch":
            kind = ", dtype=torch.float64" if real or not code.whole else ""
            return replace(code, text=f"torch.tensor({code.text}{kind})", level=ATOM)
        if inline and real and code.whole:
            return replace(code, text=f"float({code.text})", level=ATOM, whole=False)
        return code

    def logsumexp(self, z: Expr, env: CodeEnv) -> Code:
        """log Σ exp z, for each row."""
        code = self.of(z, env)
        code = self.permuted(code, (*code.lead, *code.core))
        keep = ROW in code.axes
        form = self.dialect.inline.get("logsumexp")
        if self.type(z, env).kind == TRUTH:
            code = self.whole_numbers(code)
        if code.whole and form is not None:
            code = self.realed(code, env)
        if form is None:
            name, _ = self.function(self.card.library("logsumexp"), [code], env)
            text = f"{name}({code.text}{', keepdims=True' if keep else ''})"
        else:
            more = f", {self.dialect.keep}=True" if keep else ""
            text = form.format(code.text, axis=code.place(COL), keep=more)
        return Code(text, axes=code.axes if keep else code.lead, const=code.const)

    def concat(self, args: list[Code], env: CodeEnv) -> Code:
        """Parts side by side; all but the last axis have to be there in each."""
        aligned, axes = self.aligned(args)
        codes = ", ".join(c.text for c in self.cast(aligned, env))
        text = f"{self.xp}.{self.dialect.concat}([{codes}], {self.dialect.axis}=-1)"
        if any(set(c.axes) != set(axes) for c in args):
            name, _ = self.function(Apply("beside", ()), aligned, env)
            text = f"{name}({codes})"
        return Code(text, axes=axes, const=all(c.const for c in args))

    def transpose(self, code: Code) -> Code:
        if code.core == (COL,):
            return replace(code, text=f"{code.at(ATOM)}[..., None, :]", level=ATOM,
                           axes=(*code.lead, ROW, COL))  # fmt: skip
        mark = ".T" if not code.lead else ".mT"
        return replace(code, text=code.at(ATOM) + mark, level=ATOM)

    def product(self, a: Code, b: Code) -> Code:
        """The matrix product ``@``, entry by entry in the letters that both have."""
        lead = together([a.lead, b.lead])
        const = a.const and b.const
        row, column = a.core == (COL,), b.core == (COL,)
        if row and b.lead and a.lead:
            a = Code(f"{a.at(ATOM)}[..., None, :]", axes=(*a.lead, ROW, COL))
            out = self.product(a, b)
            return Code(f"{out.at(ATOM)}[..., 0, :]", axes=(*out.lead, COL), const=const)
        if column and (b.lead or row):
            b = Code(f"{b.at(ATOM)}[..., None]", axes=(*b.lead, COL, "one"))
            b = replace(b, axes=(*b.lead[:-1], ROW, COL))
            out = self.product(a, b)
            return Code(f"{out.at(ATOM)}[..., 0]", axes=(*out.lead, COL), const=const)
        texts = [self.fitted(c, (*lead, *c.core)).at(level) for c, level in ((a, MUL), (b, NEG))]
        core = ((ROW,) if not row else ()) + ((COL,) if not column else ())
        core = (COL,) if core == (ROW,) else core
        return Code(f"{texts[0]} @ {texts[1]}", MUL, (*lead, *core), const)

    def inner(self, args: list[Code]) -> Code:
        if not args[0].lead and not args[1].lead:
            return Code(f"{args[0].at(MUL)} @ {args[1].at(NEG)}", MUL)
        (a, b), axes = self.aligned(args)
        both = Code(f"{a.at(MUL)} * {b.at(NEG)}", MUL, axes)
        return self.fold("sum", both, COL)

    def entrywise(self, op: str, args: list[Code], env: CodeEnv, divides: bool = False) -> Code:
        const = all(c.const for c in args)
        scalar = not any(c.axes for c in args)
        if op not in TESTS and not (op == "where" and scalar):
            tail = self.cast(args[1:] if op == "where" else args, env)
            args = [*args[: op == "where"], *tail]
        codes, axes = self.aligned(args)
        whole = all(c.whole for c in codes[op == "where" :]) and (op != "div" or divides)
        whole &= scalar or op in WHOLE
        python = all(c.python or (c.const and not c.axes) for c in codes)
        if op == "neg":
            return Code(f"-{codes[0].at(NEG)}", NEG, axes, const, whole, python=python)
        if op in INFIX:
            return replace(self.infix(op, codes, axes, const, whole), python=python)
        if op == "not":
            text = f"not {codes[0].at(COMPARE)}" if scalar and const else (
                f"{self.xp}.logical_not({codes[0].text})")  # fmt: skip
            return Code(text, COMPARE if scalar and const else ATOM, axes, const)
        if op == "where":
            test, yes, no = codes
            same = set(yes.axes) == set(no.axes) or self.dialect.casts
            if not test.axes and test.const and same:  # else 0 would lose its shape
                text = f"{yes.at(COMPARE)} if {test.at(COMPARE)} else {no.at(ELSE)}"
                return Code(text, ELSE, axes, const, whole)
            fixed = [as_float(x) if not x.axes and x.const and not whole else x.text
                     for x in (yes, no)]  # fmt: skip
            text = f"{self.xp}.where({test.text}, {', '.join(fixed)})"
            if not yes.axes and not no.axes and self.dialect.casts and not whole:
                text += ".double()" if const else f".to({env.like or 'like'})"
            return Code(text, ATOM, axes, const, whole)
        if scalar and const:
            if op in ("max", "min"):
                return Code(f"{op}({codes[0].text}, {codes[1].text})", const=True, whole=whole)
            if op == "abs":
                return Code(f"abs({codes[0].text})", const=True, whole=whole)
            return Code(f"math.{op}({codes[0].text})", const=True, whole=op == "floor")
        if op in ("max", "min") and self.dialect.casts:
            value, bound = codes if codes[1].const else codes[::-1]
            if bound.const and not bound.axes:
                side = "min" if op == "max" else "max"
                text = f"{value.at(ATOM)}.clamp({side}={bound.text})"
                return Code(text, ATOM, axes, const, whole)
        if op == "erf" and self.dialect.name == "numpy":
            name, _ = self.function(Apply("erf", ()), codes, env)
        else:
            said = self.dialect.calls[op]
            name = said if "." in said else f"{self.xp}.{said}"
        return Code(f"{name}({', '.join(c.text for c in codes)})", ATOM, axes, const, whole)

    def infix(self, op: str, codes: list[Code], axes: Axes, const: bool, whole: bool) -> Code:
        level, sign = INFIX[op]
        a, b = codes
        if op in ("and", "or"):
            return Code(f"{a.at(level)} {sign} {b.at(level + 1)}", level, axes, const)
        if level == COMPARE:
            return Code(f"{a.at(COMPARE + 1)} {sign} {b.at(COMPARE + 1)}", COMPARE, axes, const)
        if op == "pow":
            base = f"{a.text}.0" if a.text.isdigit() and (b.axes or not b.whole) else (
                a.at(POWER + 1))  # fmt: skip
            return Code(f"{base} ** {b.at(NEG)}", POWER, axes, const, whole)
        if op == "div" and whole:
            sign = "//"
        return Code(f"{a.at(level)} {sign} {b.at(level + 1)}", level, axes, const, whole)

    def divides(self, e: Expr) -> bool:
        """Whether a quotient of dimensions is whole, by the numbers that they have."""
        size = self.card.size(e)
        value = None if size is None else self.shapes.number(size)
        return value is not None and value.denominator == 1

    # -- named functions ---------------------------------------------------------------------------

    def call(self, e: Apply, env: CodeEnv) -> Code:
        """A named function: the library's own, or one written into the file."""
        named = self.card.library_name(e)
        if named == "logsumexp":
            return self.logsumexp(e.args[0], env)
        if named == "part" and self.dialect.name == "numpy":
            found = self.heads(e, env)
            if found is not None:
                return found
        args = [self.of(a, env) for a in e.args]
        lead = together([c.lead for c in args])
        # Axes that are missing in front broadcast, save where entries are picked place by place.
        body = self.card.function[e.op].body
        picks = len({c.lead for c in args if c.lead}) > 1 and any(
            isinstance(x, Pick) for x in walk(body)
        )
        # The batch has an axis only where there is one: nothing is put in its place.
        ready = [
            self.fitted(c, (*(a for a in lead if a != LEAD or LEAD in c.lead), *c.core),
                        picks and bool(c.lead)) if c.axes else c
            for c in args
        ]  # fmt: skip
        const = all(c.const for c in args)
        form = self.dialect.inline.get(named)
        if named == "onehot" and self.type(e.args[0], env).may_be_negative:
            form = self.dialect.inline.get("onehot_some", form)
        if named == "placed" and self.dialect.name == "numpy" and args[1].text == "0" and not lead:
            form = "np.pad({0}, ((0, {2} - len({0})), (0, 0)))" if args[0].level == ATOM else None
        if form is None and named == "LN" and self.dialect.name == "torch":
            form = torch_norm(ready)
        if named in OF_REALS:
            if self.type(e.args[0], env).kind == TRUTH:
                ready[0] = self.whole_numbers(ready[0])
            if ready[0].whole and (self.dialect.name == "torch" or form is not None):
                ready[0] = self.realed(ready[0], env)
        if named in OF_REALS | {"ReLU"} and ready[0].const and not ready[0].axes:
            ready[0] = self.taken(ready[0], named in OF_REALS, form is not None)
        whole = self.type(e, env).interval is not None and named not in BY_HAND
        if form is not None:
            const &= any(c.axes for c in ready)  # what a library makes of a number is an array
            axes = (*lead, ROW, COL) if named == "onehot" else (*lead, *args[0].core)
            texts = [c.at(ATOM) if f"{{{k}}}." in form else c.text for k, c in enumerate(ready)]
            return Code(form.format(*texts), ATOM, axes, const, whole)
        if named == "cross_entropy" and lead:
            raise VieteError("a loss for each of a family")
        name, core = self.function(e, ready, env)
        given = [c.text for c in ready]
        if name in self.function.precision:  # of whole numbers alone
            given.append(f"like={env.like or 'like'}")
        return Code(f"{name}({', '.join(given)})", ATOM, (*lead, *core), const, whole)

    def heads(self, e: Apply, env: CodeEnv) -> Code | None:
        """``part(y; h − 1, d_k)`` for all heads: the columns of each."""
        place = e.args[1]
        value = self.of(e.args[0], env)
        letters = place.free
        if value.lead or len(letters) != 1:
            return None
        family = env.index[next(iter(letters))]
        if not isinstance(family, CodeLetter) or family.label in value.axes:
            return None
        zero = folded(Apply("sub", (Idx(next(iter(letters))), family.first)))
        if place != zero:
            return None
        count = self.whole(family.count, env)
        text = f"{self.xp}.stack({self.xp}.split({value.text}, {count}, axis=-1))"
        return Code(text, axes=(family.label, ROW, COL))


def many(letter: Letter) -> Size:
    """How many members an axis has."""
    return letter.many if isinstance(letter, CodeLetter) else letter.count


def torch_norm(args: Sequence[Code]) -> str | None:
    """PyTorch's layer norm, where scale and shift are plain vectors."""
    if len(args) < 3 or any(c.axes != (COL,) for c in args[1:3]) or (args[3:] and args[3].axes):
        return None
    return "functional.layer_norm({0}, {1}.shape, {1}, {2}, " + ("{3})" if args[3:] else "0.0)")


def together(axes: Iterable[Axes]) -> Axes:
    """All axes of several values: those of the longest, with others' letters before them."""
    found = list(axes)
    out = max(found, key=len, default=())
    extra = dict.fromkeys(a for x in found for a in x if a not in out)
    lead = (LEAD,) if LEAD in out or LEAD in extra else ()
    core = tuple(a for a in (ROW, COL) if a in out or a in extra)
    middle = (*(a for a in extra if a not in (LEAD, ROW, COL)),
              *(a for a in out if a not in (LEAD, ROW, COL)))  # fmt: skip
    return (*lead, *middle, *core)


def number(value: Fraction) -> Code:
    """A rational as Python writes it, exactly where a float would be the same."""
    size = abs(value)
    if value.denominator == 1:
        code = Code(str(size) if size < 10**15 else repr(float(size)), const=True, whole=True)
    elif Fraction(repr(float(size))) == size:
        code = Code(repr(float(size)), const=True)
    else:
        code = Code(f"{size.numerator} / {size.denominator}", MUL, const=True)
    return code if value >= 0 else replace(code, text=f"-{code.at(NEG)}", level=NEG)


def as_float(code: Code) -> str:
    """A whole number among floats."""
    return f"{code.text}.0" if code.text.lstrip("-").isdigit() else code.text


def bare(places: Sequence[int]) -> str:
    """One place, or a tuple of them."""
    return str(places[0]) if len(places) == 1 else f"({', '.join(map(str, places))})"


def plain_letter(letter: str) -> str:
    """An index letter as a Python name."""
    from viete.code.identifiers import TAKEN

    return f"{letter}_" if letter in TAKEN else letter


def folded(e: Expr) -> Expr:
    """``h - 1 + 1`` as ``h``, ``2 - 1`` as 1."""
    if isinstance(e, Apply) and e.op in ("add", "sub"):
        a, b = e.args
        if isinstance(b, Num) and b.value == 0:
            return a
        if e.op == "add" and isinstance(a, Num) and a.value == 0:
            return b
        if e.op == "add" and isinstance(b, Apply) and b.op == "sub" and b.args[1] == a:
            return b.args[0]
        if isinstance(a, Num) and isinstance(b, Num):
            return Num(a.value + b.value if e.op == "add" else a.value - b.value)
        if isinstance(a, Apply) and a.op in ("add", "sub") and a.op != e.op and a.args[1] == b:
            return a.args[0]
    return e


def length(lower: Expr, upper: Expr) -> Expr:
    """How many whole numbers there are from ``lower`` to ``upper``."""
    one = Num(Fraction(1))
    if isinstance(lower, Num) and lower.value == 1:
        return upper
    return folded(Apply("add", (folded(Apply("sub", (upper, lower))), one)))
