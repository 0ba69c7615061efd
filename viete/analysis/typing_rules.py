"""The typing rules: the type of an expression from the types of its parts, a method for each node.

A mismatch is an error that points at the sub-expression and names both shapes. That is why typing
is not an `Evaluator`: an evaluator combines values that fit and does not see the node from which
they come, while most of the work here is to say of a node that its parts do not fit. An evaluator
also needs the number of values that a letter takes; here a block's letter takes an unknown number,
and a claim's own letter gets its range from what it indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from viete.analysis.card_sizes import MEANT, in_numbers, possible
from viete.analysis.kinds import (
    BIT,
    COMPARISONS,
    LOGICAL,
    MOST,
    REAL,
    TRUTH,
    WHOLE,
    interval_of,
    kind_of,
    quotient,
)  # fmt: skip
from viete.analysis.own_letters import OwnLetters
from viete.analysis.types import Mismatch, Shape, Type, TypeEnv, text
from viete.graph.card import CardData
from viete.graph.evaluator import REDUCTIONS
from viete.graph.opening import body_of
from viete.graph.operator import Operator
from viete.graph.sizes import ONE, ZERO, Size, size_of
from viete.notation.lexer import ELEMENTARY
from viete.notation.printer import show
from viete.notation.symbols import LAST, TEXTS
from viete.notation.tree import (
    CALL,
    COMPOSE,
    MEASURES,
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slice,
    Table,
    refs,
)

ENTRYWISE = frozenset((*ELEMENTARY, *"neg abs floor add sub had times div pow mod".split()))


class TypingRules(OwnLetters):
    """Types expressions over named values whose ``types`` are known."""

    env: TypeEnv  # the names in force at the top level

    def __init__(self, card: CardData) -> None:
        super().__init__(card)
        self.types: dict[str, Type] = {}  # of named values
        self.typed: dict[tuple[Hashable, ...], Type] = {}  # of calls of functions
        self.calls: dict[tuple[object, ...], Type] = {}  # of those of a card's values
        self.outside: dict[Expr, Type] = {}  # of formulas under no binder
        self.settled = False  # whether the types of all values are known

    def of(self, e: Expr, env: TypeEnv | None = None) -> Type:
        """The type of an expression; raises Mismatch."""
        if env is not None and env is not self.env:
            if env.shared is None or e not in env.shared:
                return self.found(e, env)
            t = env.shared[e] = env.shared[e] or self.found(e, env)
            return t
        found = self.outside.get(e)
        if found is None:
            found = self.found(e, self.env)
            if self.settled:
                self.outside[e] = found
        return found

    def found(self, e: Expr, env: TypeEnv) -> Type:
        match e:
            case Num():
                return self.as_number(Size.of(e.value))
            case Idx():
                return self.letter(e, env)
            case Ref():
                return self.ref(e, env)
            case Pick():
                return self.picked(e, env)
            case Bind():
                return self.bind(e, env)
            case Table():
                return self.table(e, env)
            case Slice():
                raise Mismatch("a slice stands only inside brackets", e)
            case Apply():
                return self.apply(e, env)
        raise TypeError(e)

    def size(self, e: Expr, env: TypeEnv) -> Size | None:
        """An expression as a symbolic size, seen from inside ``env``."""

        def lookup(r: Ref) -> Size | None:
            if env.of_library and env.arguments is not None:
                found = env.sizes.get(r.key)
                argument = env.arguments.get(r.key)
                return found or (argument.size if argument else None)
            return Size.of(r.key) if r.symbol.kind == "dim" else None

        return size_of(e, lookup, measure=self.measure(env))

    def measure(self, env: TypeEnv) -> Callable[[Apply], Size | None] | None:
        """The size of ``cols(x)``: None, since not every meaning could take it for a size."""
        return None

    def letter(self, e: Idx, env: TypeEnv) -> Type:
        """The type of an index letter: an integer from its first value on."""
        count, first = env.ranges.get(e.name), env.first.get(e.name)
        start = None if first is None else self.as_number(first).interval
        interval = (start or (-MOST, MOST))[0], (start or BIT)[1] + MOST
        if start is not None and count is not None:
            interval = start[0], max(start[1] + self.most(count) - 1, start[0])
        block = e.name in env.ranges and count is None
        family = frozenset[str]() if block else frozenset((e.name,))
        return Type(family=family, kind=WHOLE, interval=interval)

    def needed_size(self, e: Expr, env: TypeEnv) -> Size:
        size = self.size(e, env)
        if size is None:
            raise Mismatch(f"{show(e)} is not made of dimensions, so it is not a size", e)
        return size

    def ref(self, e: Ref, env: TypeEnv) -> Type:
        if env.arguments is not None and (env.alone or e.key in env.arguments):
            if e.key in env.sizes:
                return self.as_number(env.sizes[e.key])
            return env.arguments[e.key]
        if e.symbol.kind == "dim":
            return self.as_number(Size.of(e.key))
        found = self.types.get(e.key)
        if found is None:
            raise Mismatch(f"{e.key} is not defined before this", e)
        family = set(found.family.difference(e.symbol.slots))  # A^{q,s} of A^{s,q} has both again
        for letter, index in zip(e.symbol.slots, e.index, strict=True):
            t = self.of(index, env)
            if t.shape:
                raise Mismatch(f"an index is one number, and {show(index)} is {text(t.shape)}", e)
            self.check_block(letter, index, e)
            self.check_index(index, t)
            if letter in found.family:
                if isinstance(index, Idx):
                    self.check_range(letter, index, env)
                self.count_places(index, *self.places_of(letter), env)
                family |= t.family
            elif t.family:
                raise Mismatch(
                    f"{show(index)} cannot stand for the block index {letter} of {e.key}", e
                )
        return found if family == found.family else replace(found, family=frozenset(family))

    def check_block(self, letter: str, index: Expr, e: Expr) -> None:
        """Check that L, used as a block, is not a value: L or N means the last block."""
        named = (x for x in refs(index) if x.key in LAST and x.symbol.kind != "dim")
        if letter in self.model.loop_letters and (other := next(named, None)) is not None:
            last = next(loop.upper for loop in self.model.loops if loop.index == letter)
            raise Mismatch(
                f"{other.key} is a value of {self.model.title} and no block; the last block is "
                f"{show(last)} here", e,
            )  # fmt: skip

    def check_index(self, index: Expr, t: Type) -> None:
        """Check that an index is an integer, or may be one once dimensions have values."""
        known = None if t.size is None else self.number(t.size)
        if t.kind == TRUTH:
            raise Mismatch(f"{show(index)} cannot be an index: it is a condition", index)
        if t.kind == REAL and (t.size is None or known is not None):
            said = "need not be one" if known is None else "is not a whole number"
            raise Mismatch(
                f"an index is a whole number, and {show(index)} {said}; floor({show(index)}) is",
                index,
            )

    def check_range(self, letter: str, index: Idx, env: TypeEnv) -> None:
        declared, used = self.env.ranges.get(letter), env.ranges.get(index.name)
        if declared is not None and used is not None and not self.same(declared, used):
            raise Mismatch(
                f"{index.name} takes {used} values here, and {letter} has {declared}: it must take "
                f"them all; those of some are written out, with a number for {letter}",
                index,
            )

    def picked(self, e: Pick, env: TypeEnv) -> Type:
        value = self.of(e.value, env)
        if len(e.items) > len(value.shape):
            what = f"{len(e.items)} indices" if len(e.items) > 1 else "an index"
            angle = isinstance(e.value, Ref) and e.value.key == "theta" and len(e.items) == 2
            raise Mismatch(
                f"{what} on {show(e.value)}, which is "
                + (f"of shape {text(value.shape)}" if value.shape else "one number")
                + ("; the angle between two vectors is angle(a, b) here" if angle else ""), e,
            )  # fmt: skip
        shape: list[Size] = []
        family = set(value.family)
        for axis, (size, item) in enumerate(zip(value.shape, e.items, strict=False)):
            if isinstance(item, Slice):
                start = self.needed_size(item.start, env) if item.start else Size.of(0)
                stop = self.needed_size(item.stop, env) if item.stop else size
                self.check_slice(start, stop, size, item)
                shape.append(stop - start)
                continue
            self.count_places(item, ZERO, size, env)
            t = self.of(item, env)
            if len(t.shape) > 1:
                raise Mismatch(
                    f"{show(item)} is a matrix here, and cannot be an index; take another letter",
                    item,
                )
            if (k := e.from_end(axis)) is not None and self.most(size) < k:
                raise Mismatch(
                    f"-{k} is not an index: from the end, {places_of(e, axis, value)} are -1 to "
                    f"-{self.among(size)}", item,
                )  # fmt: skip
            if isinstance(item, Num) and (
                item.value < 0 or item.value.denominator != 1
                or ((n := size.value(self.model.greatest)) is not None and item.value >= n)
            ):  # fmt: skip
                raise Mismatch(
                    f"{item.value} is not an index: {places_of(e, axis, value)} are 0 to "
                    f"{self.among(size, less=1)}", item,
                )  # fmt: skip
            self.check_index(item, t)
            family |= t.family
            shape += t.shape
        return replace(
            value, shape=(*shape, *value.shape[len(e.items) :]), family=frozenset(family), size=None
        )

    def among(self, size: Size, less: int = 0) -> str:
        """The last place, as ``5 (d = 6)``, or ``n - 1`` of a size without a number."""
        number, last = self.number(size), size - Size.of(less)
        if number is None:
            return ", ".join(x for x in (str(last), self.ends(size).strip()) if x)
        said = self.valued(size)
        return f"{number - less}" + (f" ({said})" if " = " in said else "")

    def check_slice(self, start: Size, stop: Size, size: Size, item: Expr) -> None:
        a, b, n = (x.value(self.model.greatest) for x in (start, stop, size))
        if len(stop.names() & self.model.lengths.keys()) > 1:
            b = None  # m + n: both are not at their greatest at once
        for end, x in ((start, a), (stop, b)):
            if x is not None and x.denominator != 1:
                raise Mismatch(
                    f"{show(item)} ends between places: {self.valued(end)} is not a whole number",
                    item,
                )
        if (a is not None and a < 0) or (b is not None and n is not None and b > n):
            raise Mismatch(
                f"{show(item)} {self.ends(stop + size)}goes beyond what there is: "
                f"{self.valued(size)} places",
                item,
            )
        if a is not None and b is not None and a > b:
            raise Mismatch(f"{show(item)} ends before it starts", item)

    def ends(self, stop: Size) -> str:
        """``with n ≤ 2000 `` for a slice that is as long as the input."""
        known = sorted(stop.names() & self.model.lengths.keys() & self.model.greatest.keys())
        said = ", ".join(f"{n} ≤ {self.model.greatest[n]}" for n in known)
        return f"with {said} " if said else ""

    def whole(self, size: Size, what: str, node: Expr) -> None:
        if not possible(size.value(self.model.greatest), 0):
            raise Mismatch(f"{what} is {in_numbers(self.model, size)}, but it {MEANT} 0", node)

    def inside(self, e: Bind | Table, env: TypeEnv) -> TypeEnv:
        """The environment of the body of a binder."""
        if isinstance(e, Table):
            sizes = {i: self.needed_size(s, env) for i, s in e.ranges}
            first = {**env.first, **dict.fromkeys(sizes, Size.of(0))}
            return replace(env, ranges={**env.ranges, **sizes}, first=first)
        first, count = dict(env.first), env.ranges.get(e.index)
        if e.ranges is None and e.index in self.env.ranges:  # as declared, whatever is around it
            count = self.env.ranges[e.index]
            first |= {k: v for k, v in self.env.first.items() if k == e.index}
        elif e.ranges is not None:
            own = env.letters is not None and self.model.over_blocks(e)
            if own or (e.index in self.model.loop_letters and not env.of_library):
                count = None
            else:
                lower, upper = (self.needed_size(x, env) for x in e.ranges)
                count = upper - lower + ONE
            if (start := self.size(e.ranges[0], env)) is not None:
                first[e.index] = start
        return replace(env, ranges={**env.ranges, e.index: count}, first=first)

    def bind(self, e: Bind, env: TypeEnv) -> Type:
        count: Size | None = None
        texts = e.index == TEXTS and env.letters is not None
        blocks = env.letters is not None and self.model.over_blocks(e)
        if e.ranges is None and texts:
            body = self.of(e.body, env)
        elif e.ranges is None and not blocks and e.index not in env.ranges:
            body, count = self.over_own(e, env)
        else:
            inner = self.inside(e, env)
            count = inner.ranges[e.index]
            if e.ranges is not None and count is not None:
                self.whole(count, f"the number of values of {e.index}", e)
            body = self.of(e.body, inner)
        varies = e.body.free if count is None else body.family
        if e.index not in varies and not texts:
            raise Mismatch(f"nothing under this {e.op} depends on {e.index}", e)
        family = body.family - {e.index}
        if e.op == "concat":
            if count is None:
                raise Mismatch(
                    "blocks cannot be concatenated, nor texts, only heads and other indices", e
                )
            if not body.shape:
                return replace(body, shape=(count,), family=family, size=None)
            *rows, columns = body.shape
            return replace(body, shape=(*rows, count * columns), family=family, size=None)
        kind = kind_of(e.op if e.op == "mean" else "sum", [body.kind])
        interval = body.whole if kind == WHOLE else None
        if e.op == "sum":
            many = MOST if count is None else self.most(count)
            interval = interval_of("sum", [interval], count=many)
        return replace(body, family=family, size=None, kind=kind, interval=interval)

    def table(self, e: Table, env: TypeEnv) -> Type:
        sizes = {i: self.needed_size(s, env) for i, s in e.ranges}
        if taken := sizes.keys() & env.ranges.keys():
            raise Mismatch(f"the index {min(taken)} is in use already; take another letter", e)
        for letter, size in sizes.items():
            self.whole(size, f"the number of values of {letter}", e)
        body = self.of(e.body, self.inside(e, env))
        if body.shape:
            raise Mismatch(
                f"a table's entry must be one number, and this one has shape {text(body.shape)}",
                e.body,
            )
        shape, family = tuple(sizes.values()), body.family.difference(sizes)
        return Type(shape, family, body.kind, interval=body.interval)

    def apply(self, e: Apply, env: TypeEnv) -> Type:
        op = e.op
        if op in ("inf", "pi"):
            return Type()
        args = [Type() if is_function(a) else self.of(a, env) for a in e.args]
        family = frozenset[str]().union(*(t.family for t in args))
        if op in self.model.function:
            return self.call(e, args)
        if op == CALL:
            return self.derived_call(e, e.args[0], args[1:], env)
        for t, a in zip(args, e.args, strict=True):
            logical = op in LOGICAL or (op == "where" and a is e.args[0])
            if logical and t.kind != TRUTH:
                raise Mismatch(f"{show(a)} is not a condition, which is needed here", a)
        found = self.operation(e, args, family, env)
        return found if found.size is not None else self.with_kind(e, args, found, env)

    def with_kind(self, e: Apply, args: list[Type], found: Type, env: TypeEnv) -> Type:
        """The type of an operation with its kind and, for an integer, its interval."""
        if e.op in ("T", "concat"):
            kind = kind_of("where", [t.kind for t in args])
            hull = interval_of("concat", [t.whole for t in args])
            return replace(found, kind=kind, interval=hull if kind == WHOLE else None)
        if e.op == "argmax":
            return replace(found, kind=WHOLE, interval=(0, self.most(args[0].shape[-1])))
        of = args[1:] if e.op == "where" else args
        whole, count, op = [t.whole for t in of], 1, e.op
        kind = kind_of(op, [t.kind for t in of])
        if op == "pow" and args[0].kind != REAL and natural(args[1]):
            kind = WHOLE
        if op in ("sum", "prod", "inner") and args[0].shape:
            both = op == "sum" or args[1].shape
            count = self.most(args[0].shape[-1]) if both else 1
        if (parts := quotient(e)) is not None:
            op, whole = "quotient", [self.of(x, env).whole for x in parts]
        interval = interval_of(op, whole, count=count) if kind == WHOLE else None
        if (kind, interval) == (found.kind, found.interval):
            return found
        return replace(found, kind=kind, interval=interval)

    def operation(
        self, e: Apply, args: list[Type], family: frozenset[str], env: TypeEnv
    ) -> Type:  # fmt: skip
        """The shape of an operation, and its size if it is a number made of dimensions."""
        op = e.op
        if op == "prod":
            return self.product(e, args, family)
        if op == "T":
            if len(args[0].shape) != 2:
                raise Mismatch(
                    f"only a matrix has a transpose, and this has shape {text(args[0].shape)}", e
                )
            return Type((args[0].shape[1], args[0].shape[0]), family)
        if op in REDUCTIONS and len(args) == 1:
            return self.reduced(e, args[0])
        if op in MEASURES:
            shape = args[0].shape
            if len(shape) < (2 if op == "rows" else 1):
                raise Mismatch(f"{show(e.args[0])} has no {op}: its shape is {text(shape)}", e)
            return self.as_number(shape[-1] if op == "cols" else shape[0])
        if op == "inner":
            u, v = (t.shape for t in args)
            if len(u) != 1 or len(v) != 1 or not self.same(u[0], v[0]):
                raise Mismatch(
                    "an inner product needs two vectors of one length, "
                    f"not {text(u)} and {text(v)}",
                    e,
                )
            return Type((), family)
        if op == "concat":
            return self.concat(e, args, family)
        if op == "times" and all(t.shape for t in args):
            raise Mismatch(
                f"* is for numbers; between {text(args[0].shape)} and {text(args[1].shape)} write "
                f"⊙ (entry by entry) or a space (matrix product)", e,
            )  # fmt: skip
        names = {"had": "entry-by-entry product", "add": "sum", "sub": "difference",
                 "div": "quotient"}  # fmt: skip
        shape = self.align(args, e, names.get(op, op))
        if op in COMPARISONS or op in LOGICAL or op == "where":
            return Type(shape, family)
        if op in ENTRYWISE or op in ("max", "min"):
            size = None if shape else self.size(e, env)
            return Type(shape, family) if size is None else self.as_number(size)
        raise Mismatch(f"{op} has no meaning here", e)

    def product(self, e: Apply, args: list[Type], family: frozenset[str]) -> Type:
        a, b = (t.shape for t in args)
        if not a or not b:
            if not a and not b and args[0].size and args[1].size:
                return self.as_number(args[0].size * args[1].size)
            return Type(a or b, family)
        if len(a) == 1 and len(b) == 1:
            raise Mismatch(
                f"two vectors {text(a)} and {text(b)} side by side: write <u, v> for the inner "
                f"product or ⊙ for entry by entry", e,
            )  # fmt: skip
        left, right = a[-1], b[0]
        if not self.same(left, right):
            x, y = e.args
            raise Mismatch(
                f"{show(x)} has shape {text(a)} and {show(y)} has shape {text(b)}: the inner "
                f"sizes {left} and {right} differ", e,
            )  # fmt: skip
        return Type(a[:-1] + b[1:], family)

    def reduced(self, e: Apply, t: Type) -> Type:
        if not t.shape:
            raise Mismatch(f"{e.op} of one number", e)
        if e.op == "argmax":
            return Type(t.shape[:-1], t.family)
        return Type((t.shape[0], ONE) if len(t.shape) == 2 else (), t.family)

    def concat(self, e: Apply, args: list[Type], family: frozenset[str]) -> Type:
        first = args[0].shape
        if not first or any(len(t.shape) != len(first) for t in args):
            raise Mismatch("only vectors, or matrices of equally many rows, can be concatenated", e)
        if len(first) == 2 and not all(self.same(t.shape[0], first[0]) for t in args):
            shapes = ", ".join(text(t.shape) for t in args)
            raise Mismatch(f"these have different numbers of rows: {shapes}", e)
        return Type((*first[:-1], sum((t.shape[-1] for t in args), ZERO)), family)

    def call(self, e: Apply, args: list[Type]) -> Type:
        """The type of a named function's body, with the arguments' types for its letters."""
        key = (e.op, *args)
        if key not in self.typed:
            env = self.applied(e, args)
            try:
                found = self.of(self.model.function[e.op].body, env)
            except Mismatch as error:
                raise Mismatch(f"in {e.op}({', '.join(text(t.shape) for t in args)}): "
                               f"{error.message}", e) from None  # fmt: skip
            self.typed[key] = replace(found, family=frozenset(f[:-1] for f in found.family))
        return self.typed[key]

    def derived_call(self, e: Apply, f: Expr, args: list[Type], env: TypeEnv) -> Type:
        """The type of a function of the card's values: of its body among the card's names."""
        if isinstance(f, Bind):
            inner = self.derived_call(e, f.body, args, self.inside(f, env))
            if len(args) != 1 or not self.same_shape(inner.shape, args[0].shape):
                shapes = f"{text(inner.shape)} of {text(args[0].shape)}"
                raise Mismatch(f"{show(f.body)} makes {shapes}, so no other can follow it", e)
            return inner
        assert isinstance(f, Ref)
        operator = self.model.operator[f.symbol]
        places = {x: self.index_type(i, env) for x, i in zip(f.symbol.slots, f.index, strict=True)}
        given = [*(places[x] for x in operator.places), *args]
        body = body_of(self.model, operator)
        key = (f.symbol, *places.values(), *args)
        if key not in self.calls:
            # As in `call`: the letters of the arguments are not those of the body.
            types = [replace(t, family=frozenset(f"{x}*" for x in t.family)) for t in given]
            own = (a.symbol.key for a in body.arguments)
            inner_env = replace(
                self.env, arguments=dict(zip(own, types, strict=True)), alone=False,
                shared=dict.fromkeys(body.shared),
            )  # fmt: skip
            try:
                found = self.of(body.formula, inner_env)
            except Mismatch as error:
                raise Mismatch(self.misapplied(operator, args, error), e) from None
            family = set(found.family)
            for letter in family.intersection(operator.letters):
                family = (family - {letter}) | places[letter].family
            plain = frozenset(x.removesuffix("*") for x in family)
            self.calls[key] = replace(found, family=plain, size=None)
        return self.calls[key]

    def index_type(self, index: Expr, env: TypeEnv) -> Type:
        """The type of an index of a function's name, an integer."""
        t = self.of(index, env)
        if t.shape:
            raise Mismatch(f"an index is one number, and {show(index)} is {text(t.shape)}", index)
        self.check_index(index, t)
        return t

    def misapplied(self, operator: Operator, args: Sequence[Type], error: Mismatch) -> str:
        """What is wrong with the arguments of a function of the card's values."""
        name = show(operator.symbol.member)
        shapes = ", ".join(text(t.shape) for t in args)
        if len(args) == 1 and len(args[0].shape) == 1:
            return (
                f"{name} takes a matrix with a row for each position, not one vector; row j of "
                f"what it makes of x is {name}(x)_j"
            )
        return f"in {name}({shapes}): {error.message}"

    def applied(self, e: Apply, args: Sequence[Type]) -> TypeEnv:
        """The environment of a function's definition where it is applied."""
        function = self.model.function[e.op]
        # A definition's own index letters must not meet its caller's: stars keep them apart.
        types = [replace(t, family=frozenset(f + "*" for f in t.family)) for t in args]
        types += [
            self.of(a.default, TypeEnv()) for a in function.arguments[len(args) :] if a.default
        ]
        sizes: dict[str, Size] = {}
        for k, (argument, t) in enumerate(zip(function.arguments, types, strict=True)):
            if argument.pattern and len(t.shape) != len(argument.pattern):
                wanted = " × ".join(s.key for s in argument.pattern)
                raise Mismatch(
                    f"{e.op} takes {argument.symbol.key}: {wanted}, not {text(t.shape)}", e.args[k]
                )
            for symbol, size in zip(argument.pattern, t.shape, strict=False):
                if not self.same(sizes.setdefault(symbol.key, size), size):
                    raise Mismatch(
                        f"{e.op} needs the same {symbol.key} everywhere, and gets "
                        f"{sizes[symbol.key]} and {size}", e.args[k],
                    )  # fmt: skip
        keys = (a.symbol.key for a in function.arguments)
        return TypeEnv(dict(zip(keys, types, strict=True)), sizes)

    def align(self, types: list[Type], node: Expr, what: str) -> Shape:
        """The shape of an entrywise combination: a vector is repeated along every row."""
        out: Shape = ()
        for t in types:
            a, b = (out, t.shape) if len(out) >= len(t.shape) else (t.shape, out)
            tail = a[len(a) - len(b) :]
            merged = [self.broadcast(x, y) for x, y in zip(tail, b, strict=True)]
            if any(m is None for m in merged):
                raise Mismatch(f"{what}: {text(out)} and {text(t.shape)} do not match", node)
            out = a[: len(a) - len(b)] + tuple(m for m in merged if m is not None)
        return out


def is_function(e: Expr) -> bool:
    """Whether a formula is the function of a call, which has no value by itself."""
    return (isinstance(e, Ref) and e.symbol.kind == "function") or (
        isinstance(e, Bind) and e.op == COMPOSE
    )


def natural(t: Type) -> bool:
    """Whether an exponent is a number such as 2, so that powers of integers are integers."""
    return t.size is not None and t.interval is not None and t.interval[0] == t.interval[1] >= 0


def places_of(e: Pick, axis: int, value: Type) -> str:
    """What an index counts: ``the columns of A``."""
    return f"the {('rows', 'columns')[axis] if value.shape[1:] else 'places'} of {show(e.value)}"
