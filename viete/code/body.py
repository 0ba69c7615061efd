"""Equations as statements, each below the equation it came from; block loops become Python loops.

A value of a block loop is one variable that every block overwrites, unless something later reads an
earlier block's value. Then it is a dictionary by block number, ``x[i]`` for xⁱ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING

from viete.analysis.kinds import TRUTH
from viete.analysis.shapes import shapes_of
from viete.code.blocks import per_block
from viete.code.dialects import Dialect
from viete.code.expression import ATOM, INFIX, LEAD, Code, CodeEnv
from viete.code.functions import Functions, word
from viete.code.identifiers import Identifiers, plain_letter
from viete.code.layout import comment, statement
from viete.errors import VieteError
from viete.graph.card import CardData, Equation, Input, Loop
from viete.graph.dependence import equations_by_name, forward_slice, greatest, names_read, offset
from viete.notation.printer import show_equation
from viete.notation.tree import Apply, Expr, Idx, Num, Ref, Symbol, refs

if TYPE_CHECKING:
    from viete.code.target import Target

Turn = Callable[[list[str]], list[str]]  # a loop's lines to those of a loop of calls


class Body:
    """The statements of one model in one library.

    ``target`` says how it writes parameters and loops over blocks, ``outputs`` are the keys of the
    values wanted, and ``stages`` the equations written one after the other, those of a stage
    together.
    """

    def __init__(
        self, target: Target, card: CardData, dialect: Dialect,
        stages: Sequence[Sequence[Equation]], outputs: Iterable[str],
    ) -> None:  # fmt: skip
        self.target, self.model, self.dialect, self.stages = target, card, dialect, stages
        self.shapes = shapes_of(card)
        self.outputs = set(outputs)
        self.names = Identifiers(
            {dialect.xp, "math", "jax", "functional", "nn", "self", *target.reserved}
            | {plain_letter(x) for x in card.loop_letters}
        )
        self.functions = Functions(card, dialect, self.names, self.shapes)
        for symbol in self.declared():
            self.names.symbol(symbol)
        self.number = {id(e): k for k, e in enumerate(card.equations, 1)}
        self.parameters = {p.name for p in card.parameters}
        self.inputs = {i.name for i in card.inputs}
        self.varying = forward_slice(card, self.inputs)  # they differ from sequence to sequence
        # Stretches of equations in one loop, or in none, of each stage and of all of them.
        self.stretches = [[(loop, list(es)) for loop, es in groupby(stage, lambda e: e.loop)]
                          for stage in stages]  # fmt: skip
        self.every = [stretch for stage in self.stretches for stretch in stage]
        self.rolling = {e.name for s in stages for e in s if self.rolls(e.name)}
        self.lowering = target.lowering(
            card, dialect, self.names, self.shapes, self.variable, self.functions
        )
        if not dialect.casts:
            self.lowering.numbers = self.plain_numbers()
        self.begun: set[str] = set()
        self.part = ""  # the titled part of the card that was written last
        self.loop: Loop | None = None  # the one that is being written

    def declared(self) -> list[Symbol]:
        m = self.model
        written = [e for stage in self.stages for e in stage]
        used = names_read(written) | {e.name for e in written}
        symbols = [p.symbol for p in m.parameters] + [i.symbol for i in m.inputs]
        symbols += [e.left.symbol for e in m.equations if e.name in used]
        return [*symbols, *(d.symbol for d in m.dims)]

    def plain_numbers(self) -> frozenset[str]:
        """The values that Python computes from numbers, dimensions and each other."""
        types, made = self.shapes.types, equations_by_name(self.model)
        numbers = {name for name in made if not types[name].shape and not types[name].family}

        def plain(e: Expr) -> bool:
            match e:
                case Num() | Idx():
                    return True
                case Ref():
                    return e.symbol.kind == "dim" or e.key in numbers
                case Apply(op, args) if op in INFIX or op == "neg":
                    return all(map(plain, args))
            return isinstance(e, Apply) and e.constant

        def reading(name: str) -> list[str]:
            return [e.name for e in self.model.equations if name in e.reads]

        return frozenset(greatest(
            numbers, lambda name: not all(plain(e.right) for e in made[name]), reading
        ))  # fmt: skip

    # -- names -------------------------------------------------------------------------------------

    def variable(self, e: Ref, blocks: Sequence[Expr], env: CodeEnv) -> tuple[str, bool]:
        """The code of a value, and whether it may have a batch axis in front."""
        lead = self.dialect.batched and e.key in self.varying
        places = tuple(self.lowering.integer(b, env) for b in blocks)
        if e.key in self.parameters:
            return self.target.parameter(e, places), lead
        if e.key in self.inputs:
            return self.target.member(e.symbol, places), lead
        name = self.names.symbol(e.symbol)
        if not places or e.key in self.rolling:
            return name, lead
        return f"{name}[{', '.join(places)}]", lead

    def rolls(self, key: str) -> bool:
        """Whether one variable serves a value in all blocks."""
        makers = [(s, k, e) for s in self.every for k, e in enumerate(s[1]) if e.name == key]
        inside = [m for m in makers if m[0][0] is not None]
        symbol = makers[0][2].left.symbol
        slots = self.model.blocks_of(symbol)
        if not slots:
            return True
        if len(slots) > 1 or len(inside) != 1 or key in self.outputs:
            return False
        (loop, equations), place, maker = inside[0]
        assert loop is not None
        at = symbol.slots.index(slots[0])
        step = -1 if loop.down else 1
        own = offset(maker.left.index[at], loop.index)
        if own is None:
            return False
        first, last = (self.value(x) for x in (loop.lower, loop.upper))
        if first is None or last is None:
            return False
        first, last = (last, first) if loop.down else (first, last)
        before, after = first - step + own, last + own
        seen = False
        for _, stretch in self.every:
            here = stretch is equations
            seen = seen or here
            for k, e in enumerate(stretch):
                for x in refs(e.right):
                    if x.key != key:
                        continue
                    if here:
                        away = offset(x.index[at], loop.index)
                        if away is None or (away - own, k > place) not in (
                            (0, True), (-step, False)
                        ):  # fmt: skip
                            return False
                    elif self.value(x.index[at]) != (after if seen else before):
                        return False
                if e.name == key and not here and (
                    seen or self.value(e.left.index[at]) != before
                ):  # fmt: skip
                    return False
        return True

    def value(self, e: Expr) -> Fraction | None:
        size = self.model.size(e)
        return None if size is None else self.shapes.number(size)

    # -- statements --------------------------------------------------------------------------------

    def statements(self, stage: int, depth: int) -> list[str]:
        """The lines of one stage."""
        out: list[str] = []
        part = self.part
        for loop, equations in self.stretches[stage]:
            inside = depth
            env = self.lowering.env
            turn = None if loop is None else self.target.turn(loop)
            self.loop = loop
            if equations[0].part != part and loop is not None and turn is None:
                out += self.heading(equations[0].part, depth, bool(out))
                part = equations[0].part
            if loop is not None:
                out += self.dictionaries(equations, depth)
                inside += turn is None
                letter = Code(plain_letter(loop.index), const=True, whole=True)
                index = {**env.index, loop.index: letter}
                like = env.like if turn is None else turn[0]
                env = replace(env, index=index, like=like)
            lines: list[str] = []
            for k, e in enumerate(equations):
                if e.part != part:
                    apart = bool(out or lines) and not (loop and k == 0)
                    lines += self.heading(e.part, inside, apart)
                    part = e.part
                lines += self.one(e, env, inside)
            if turn is not None:
                lines = turn[1](lines)
            elif loop is not None:
                out += statement(self.loop_head(loop, lines), depth)
            out += lines
        self.part = part
        return out

    def heading(self, part: str, depth: int, apart: bool) -> list[str]:
        return ([""] if apart and not part else []) + (comment(f"-- {part}", depth) if part else [])

    def dictionaries(self, equations: list[Equation], depth: int) -> list[str]:
        """Dictionaries by block number for values of a loop that later code reads."""
        done = self.rolling | self.begun | self.lowering.inlined
        fresh = [e for e in equations if e.name not in done]
        names = [self.names.symbol(e.left.symbol) for e in fresh]
        self.begun |= {e.name for e in fresh}
        out = []
        while names:
            count = next(k for k in range(len(names), 0, -1)
                         if k == 1 or len(", ".join(names[:k])) + 4 * k < 88)  # fmt: skip
            some, names = names[:count], names[count:]
            out += statement(f"{', '.join(some)} = {', '.join(['{}'] * len(some))}", depth)
        return out

    def loop_head(self, loop: Loop, lines: list[str]) -> str:
        """``for i in range(1, N + 1):``, or a loop over the target's list of blocks."""
        i, low = plain_letter(loop.index), self.lowering
        blocks = self.target.block_list(loop)
        if blocks is not None:
            bare = "\n".join(line.split("#")[0] for line in lines)
            if not word(i, bare):
                return f"for block in {blocks}:"
            return f"for {i}, block in enumerate({blocks}, {low.integer(loop.lower, low.env)}):"
        span = f"range({low.integer(loop.lower, low.env)}, {low.above(loop.upper, low.env)})"
        return f"for {i} in {f'reversed({span})' if loop.down else span}:"

    def one(self, e: Equation, env: CodeEnv, depth: int) -> list[str]:
        """One equation below its own text."""
        said = show_equation(e.left, e.right, "unicode")
        why = f", {e.meaning}" if e.text.file == "<backward>" else f": {e.meaning}"
        out = comment(f"({self.number[id(e)]}) {said}{why if e.meaning else ''}", depth)
        if e.name in self.lowering.inlined:
            return out
        if (added := self.added_up(e, env)) is not None:
            return out + [line for text in added for line in statement(text, depth)]
        try:
            code = self.lowering.of(e.right, env)
            code = self.stored(code, e, env)
            left, _ = self.variable(e.left, self.model.block_index(e.left), env)
            text = self.full(code, self.model.heads_of(e.left.symbol))
        except VieteError as error:
            if error.where is None:
                raise e.text.error(f"this cannot be exported: {error.message}") from None
            raise
        name, bracket, place = left.partition("[")
        if bracket and e.name not in self.begun:
            self.begun.add(e.name)
            left, text = name, f"{{{place[:-1]}: {text}}}"
        return out + statement(f"{left} = {text}", depth)

    def stored(self, code: Code, e: Equation, env: CodeEnv) -> Code:
        """A value in the type of its name in every block: whole numbers, or the run's floats."""
        low, kept = self.lowering, self.shapes.types[e.name]
        if code.const and not code.axes and self.dialect.casts:  # whose functions take no number
            whole = kept.interval is not None
            dtype = f"torch.{'bool' if kept.kind == TRUTH else 'int64'}"
            dtype = dtype if whole or kept.kind == TRUTH else f"{env.like}.dtype"
            made = f"torch.as_tensor({code.text}, dtype={dtype}, device={env.like}.device)"
            return Code(made, whole=whole)
        if kept.kind == TRUTH:
            return code
        if low.type(e.right, env).kind == TRUTH:
            code = self.dialect.whole_numbers(code)
        if kept.interval is None and (code.whole or (code.const and code.axes)):
            if self.dialect.casts:
                return code.as_atom(f"{code.at(ATOM)}.to({env.like})", whole=False)
            return low.real(code, env) if code.whole else code
        return code

    def added_up(self, e: Equation, env: CodeEnv) -> list[str] | None:
        """``∂E = gathered(∂x; t, V)`` in NumPy's idiom for adding rows at places."""
        match self.model.library_name(e.right), e.right:
            case "gathered", Apply(args=(y, t, rows)) if self.dialect.name == "numpy":
                width = self.model.size_expr(self.shapes.of(y, env.types).shape[-1])
                codes = [self.lowering.of(x, env) for x in (y, t)]
                fits = self.functions.fits(t, rows, env)
                if any(c.lead for c in codes) or e.left.index or not fits:
                    return None
                columns, count = (self.lowering.integer(x, env) for x in (width, rows))
                name = self.names.symbol(e.left.symbol)
                return [f"{name} = np.zeros(({count}, {columns}))",
                        f"np.add.at({name}, {codes[1].text}, {codes[0].text})"]  # fmt: skip
        return None

    def full(self, code: Code, wanted: tuple[str, ...]) -> str:
        """The value with its families in the order of its name."""
        have = tuple(a for a in code.lead if a != LEAD)
        lead = (LEAD,) if LEAD in code.axes else ()
        missing = tuple(a for a in wanted if a not in have)
        if not missing:
            return self.dialect.permuted(code, (*lead, *wanted, *code.core)).text
        # The same for every member of a family: repeated, so that a sum over it counts them all.
        low, xp = self.lowering, self.dialect.xp
        counts = {a: low.integer(low.env.index[a].count, low.env) for a in missing}
        if not lead and wanted[: len(missing)] == missing and code.text.isidentifier():
            sizes = ", ".join(counts[a] for a in missing)
            return f"{xp}.broadcast_to({code.text}, ({sizes}, *{code.text}.shape))"
        order = (*lead, *wanted, *code.core)
        ones = ", ".join(counts.get(a, "1") for a in order if a != LEAD)
        zeros = f"{xp}.zeros(({ones}))" + (f".to({low.env.like})" if self.dialect.casts else "")
        return f"{self.dialect.brought(code, order, True)} + {zeros}"

    # -- what comes first --------------------------------------------------------------------------

    def preparations(
        self, code: list[str], inputs: Sequence[Input], depth: int
    ) -> tuple[list[str], list[str]]:
        """The lengths that the code uses, and the defaults of inputs."""
        out: list[str] = []
        text = "\n".join(code)
        for item in inputs:
            if item.default is None:
                continue
            name = self.names.symbol(item.symbol)
            twin = next((i for i in self.model.inputs if i.shape == item.shape and i != item
                         and not i.symbol.slots and not item.symbol.slots), None)  # fmt: skip
            fill = self.lowering.of(item.default).text
            if twin is None:
                low, env = self.lowering, self.lowering.env
                counts = [env.index[h].count for h in self.model.heads_of(item.symbol)]
                sizes = "".join(f"{low.integer(s, env)}, " for s in (*counts, *item.shape))
                made = f"{self.dialect.xp}.full(({sizes.rstrip()}), {fill})"
                made = per_block(self, item, made)
            else:
                like = self.names.symbol(twin.symbol)
                made = f"{self.dialect.xp}.full_like({like}, {fill})"
            if word(name, text):
                out += statement(f"{name} = {made} if {name} is None else {name}", depth)
        lengths = []
        bare = "\n".join(line.split("#")[0] for line in code + out)
        for length in self.model.lengths:
            name = self.length(length)
            found = measured(length, inputs)
            if found is None or not word(name, bare):
                continue
            item, axis = found
            given = self.names.symbol(item.symbol)
            first = len(item.shape) == 1 and self.dialect.counts
            size = f"len({given})" if first else f"{given}.shape[{axis}]"
            lengths += statement(f"{name} = {size}", depth)
        return lengths, out

    def limits(self, inputs: Sequence[Input], depth: int) -> list[str]:
        """Checks that refuse texts longer than the context.

        ``inputs`` are those that a call cannot do without. A check of a shape is one that a
        compiler makes once, when it traces the code.
        """
        out: list[str] = []
        for length, most in self.model.lengths.items():
            found = measured(length, [i for i in inputs if i.default is None])
            if found is None:
                continue
            name, given = self.length(length), self.names.symbol(found[0].symbol)
            limit = self.lowering.integer(most, self.lowering.env)
            said = f"{given} is {{{name}}} long, and {name} is at most {{{limit}}}"
            out += statement(f"if {name} > {limit}:", depth)
            out += statement(f'raise ValueError(f"{said}")', depth + 1)
        return out

    def length(self, key: str) -> str:
        """The variable of a length."""
        return self.names.symbol(next(d.symbol for d in self.model.dims if d.name == key))

    def dimensions(self, code: list[str]) -> list[str]:
        """The card's dimensions that the code uses, a line each."""
        out: list[tuple[str, str]] = []
        text = "\n".join(line.split("#")[0] for line in code)
        left = [(self.names.symbol(d.symbol), d.value, d.meaning)
                for d in reversed(self.model.dims) if d.value is not None]  # fmt: skip
        while used := [x for x in left if word(x[0], text)]:
            for name, e, meaning in used:
                value = self.lowering.of(e).text
                text += f" {value}"
                out.append((f"{name} = {value}", meaning))
            left = [x for x in left if x not in used]
        return [f"{a}  # {m}" if m and len(a + m) < 96 else a for a, m in sorted_dims(out)]


def measured(length: str, inputs: Sequence[Input]) -> tuple[Input, int] | None:
    """The first input with a given length, and the axis that has it, counted from the last.

    What a family has a member each of comes as a dictionary, which has no shape.
    """
    for item in inputs:
        for axis, size in enumerate(item.shape, -len(item.shape)):
            if isinstance(size, Ref) and size.key == length and not item.symbol.slots:
                return item, axis
    return None


def sorted_dims(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Dimensions in an order in which each comes after those that define it."""
    left, out = lines[::-1], list[tuple[str, str]]()
    while left:
        names = {a.split(" = ")[0] for a, _ in left}
        ready = next(x for x in left if not any(word(n, x[0].split(" = ")[1]) for n in names))
        out.append(ready)
        left.remove(ready)
    return out
