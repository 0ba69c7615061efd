"""Lowering: formulas as source code for one array library, with every axis resolved in advance.

The walk is the evaluator's. Its values are Python expressions (see `expression`), and a `Dialect`
writes what a library writes differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viete.analysis.kinds import COMPARISONS, LOGICAL, OF_REALS, TRUTH, quotient
from viete.analysis.types import Type
from viete.code.expression import (
    ADD,
    ATOM,
    COMPARE,
    ELSE,
    INFIX,
    LEAD,
    MUL,
    NEG,
    POWER,
    Axes,
    Code,
    CodeEnv,
    CodeLetter,
    as_float,
    folded,
    together,
)
from viete.code.indexing import Indexing
from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW
from viete.notation.printer import show
from viete.notation.tree import MEASURES, Apply, Bind, Expr, Idx, Pick, walk
from viete.rewrite.simplify import row_sum

TESTS = frozenset("lt le gt ge eq ne and or not".split())
# Operations of which whole numbers alone would make something else than a real number.
PROMOTED = frozenset("add sub had times prod inner sum mod pow quotient".split())
ROTATIONS = frozenset(("RoPE", "rotate"))  # whose sines have the type of what they turn
BY_HAND = frozenset(("onehot", "gathered", "placed"))  # which make real numbers of whole ones


class Lowering(Indexing):
    """Formulas of one card as code for one library: the evaluator's walk with text as values."""

    # -- operations --------------------------------------------------------------------------------

    def apply(self, e: Apply, env: CodeEnv) -> Code:
        match row_sum(e):
            case Apply("log", (Apply("sum", (Apply("exp", (z,)),)),)):
                return self.of_rows("logsumexp", z, env)
        op = e.op
        if op in ("inf", "pi"):
            return Code(f"math.{op}", const=True)
        if op in self.card.function:
            return self.call(e, env)
        if op in MEASURES:
            value = self.of(e.args[0], env)
            first = op == "rows" or (op == "len" and ROW in value.axes)
            shape = f"{value.at(ATOM)}.shape[{-2 if first else -1}]"
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
            code = self.dialect.fold(op, args[0], COL, keep)
            return code.relabel(ROW, COL) if op == "argmax" else code
        if op == "concat":
            return replace(self.concat(args, env), whole=whole)
        if op == "floor" and args[0].whole and args[0].axes:
            return args[0]
        if op == "where" and args[0].const and not args[0].axes and not self.dialect.casts:
            args[1:] = self.with_all_axes(e, args[1:], env)
        divides = op == "div" and env.arguments is None and self.divides(e)
        code = self.entrywise("had" if op == "prod" else op, args, env, divides)
        scalar = code.const and not code.axes
        if whole and op in ("add", "sub", "had", "times", "neg") and not code.whole and code.axes:
            return self.dialect.whole_numbers(code)
        return code if scalar else replace(code, whole=whole)

    def reduction(self, e: Bind, env: CodeEnv, label: str) -> Code:
        code = self.of(e.body, env)
        if label not in code.axes:
            raise VieteError(f"{show(e)} folds an index that its body has no axis of")
        found = self.shapes.of(e, env.types)
        (code,) = self.operands(e.op, [code], [self.type(e.body, env)], found, env)
        return self.dialect.fold(e.op, code, label)

    def with_all_axes(self, e: Apply, codes: list[Code], env: CodeEnv) -> list[Code]:
        """The sides of a choice made in Python, each with the axes of both, by adding zeros."""
        fitted, axes = self.dialect.aligned(codes)
        # The sizes in a function are those of its caller.
        if env.arguments is not None or all(c.axes == axes for c in codes):
            return codes
        zeros = f"{self.xp}.zeros({self.shape(e, axes, env)})"
        return [c if c.axes == axes else Code(zeros, axes=axes) if c.text == "0" else
                Code(f"{c.at(ADD)} + {zeros}", ADD, axes) for c in fitted]  # fmt: skip

    def shape(self, e: Expr, axes: Axes, env: CodeEnv) -> str:
        """The shape of a value with these axes, as the analysis knows it."""
        core = [self.card.size_expr(x) for x in self.type(e, env).shape]
        families = {x.label: x.count for x in env.index.values() if isinstance(x, CodeLetter)}
        lead = [families[a] for a in axes if a not in (ROW, COL)]
        sizes = [self.integer(x, env) for x in (*lead, *core)]
        return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"

    def operands(
        self, op: str, codes: Sequence[Code], types: Sequence[Type], found: Type, env: CodeEnv
    ) -> list[Code]:  # fmt: skip
        """The operands of an operation: all whole numbers, or converted to real ones.

        Truth values become 0 and 1. Where every array is whole and the result is real, PyTorch has
        to be told of which precision, and all have to be told where whole numbers would overflow or
        have no value for a remainder.
        """
        alike = len({t.kind for t in types}) == 1
        if alike and (op in ("T", "concat") or found.kind == TRUTH == types[0].kind):
            return list(codes)
        out = [self.dialect.whole_numbers(c) if t.kind == TRUTH and (c.axes or not c.const) else c
               for c, t in zip(codes, types, strict=True)]  # fmt: skip
        arrays = [c for c in out if c.axes or not c.const]
        if found.interval is not None or op in COMPARISONS or op in ("T", "argmax"):
            return out
        if not self.dialect.casts and op not in PROMOTED:
            return out
        if op in ("prod", "inner"):  # whose sides must be of one kind
            return [self.real(c, env) if c.whole else c for c in out]
        return [self.real(c, env) if all(x.whole for x in arrays) and c in arrays and c.whole
                else c for c in out]  # fmt: skip

    def real(self, code: Code, env: CodeEnv) -> Code:
        """Whole numbers as the run's floats."""
        return self.dialect.real_numbers(code, env.like or "like")

    def cast(self, codes: Sequence[Code], env: CodeEnv) -> list[Code]:
        """Tables of numbers converted to the type of the arrays they meet."""
        return self.dialect.cast(codes, env.like or "like")

    def of_rows(self, named: str, z: Expr, env: CodeEnv) -> Code:
        """log Σ exp z or the length of z, for each row."""
        code = self.of(z, env)
        code = self.dialect.permuted(code, (*code.lead, *code.core))
        keep = ROW in code.axes
        form = self.dialect.form(named)
        if self.type(z, env).kind == TRUTH:
            code = self.dialect.whole_numbers(code)
        more = f", {self.dialect.keep}=True" if keep else ""
        if form:
            code = self.real(code, env) if code.whole else code
            text = form.format(code.text, axis=code.axis(COL), keep=more)
        else:
            name, _ = self.functions(self.card.library(named, z), [code], env)
            text = f"{name}({code.text}{more})"
        return Code(text, axes=code.axes if keep else code.lead, const=code.const)

    def concat(self, args: list[Code], env: CodeEnv) -> Code:
        """Parts joined along the columns; each needs all the other axes."""
        aligned, axes = self.dialect.aligned(args)
        codes = ", ".join(c.text for c in self.cast(aligned, env))
        text = f"{self.xp}.{self.dialect.concatenate}([{codes}], {self.dialect.axis}=-1)"
        if any(set(c.axes) != set(axes) for c in args):
            text = f"{self.functions.helper('beside')}({codes})"
        return Code(text, axes=axes, const=all(c.const for c in args))

    def transpose(self, code: Code) -> Code:
        if code.core == (COL,):
            return code.as_atom(f"{code.at(ATOM)}[..., None, :]", axes=(*code.lead, ROW, COL))
        mark = ".T" if not code.lead else ".mT"
        return code.as_atom(code.at(ATOM) + mark)

    def product(self, a: Code, b: Code) -> Code:
        """The matrix product ``@``, entrywise in the letters that both operands have."""
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
        left, right = (self.dialect.fitted(c, (*lead, *c.core)) for c in (a, b))
        core = ((ROW,) if not row else ()) + ((COL,) if not column else ())
        core = (COL,) if core == (ROW,) else core
        return Code(f"{left.at(MUL)} @ {right.at(NEG)}", MUL, (*lead, *core), const)

    def inner(self, args: list[Code]) -> Code:
        if not args[0].lead and not args[1].lead:
            return Code(f"{args[0].at(MUL)} @ {args[1].at(NEG)}", MUL)
        (a, b), axes = self.dialect.aligned(args)
        both = Code(f"{a.at(MUL)} * {b.at(NEG)}", MUL, axes)
        return self.dialect.fold("sum", both, COL)

    def entrywise(self, op: str, args: list[Code], env: CodeEnv, divides: bool = False) -> Code:
        const = all(c.const for c in args)
        scalar = not any(c.axes for c in args)
        if op not in TESTS and not (op == "where" and scalar):
            tail = self.cast(args[1:] if op == "where" else args, env)
            args = [*args[: op == "where"], *tail]
        codes, axes = self.dialect.aligned(args)
        whole = all(c.whole for c in codes[op == "where" :]) and (op != "div" or divides)
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
            if self.dialect.casts and not test.axes and test.const and not const:
                yes, no = self.as_like(yes, no), self.as_like(no, yes)
            same = set(yes.axes) == set(no.axes)
            if not test.axes and test.const and same:  # else 0 would lose its shape
                text = f"{yes.at(COMPARE)} if {test.at(COMPARE)} else {no.at(ELSE)}"
                return Code(text, ELSE, axes, const, whole)
            if not test.axes and test.const and self.dialect.casts:
                sides = [self.tensor(x, env) if x.const and not x.axes else x.text
                         for x in (yes, no)]  # fmt: skip
                text = f"torch.broadcast_tensors({', '.join(sides)})[0 if {test.text} else 1]"
                return Code(text, ATOM, axes, const, whole)
            fixed = [as_float(x) if not x.axes and x.const and not whole else x.text
                     for x in (yes, no)]  # fmt: skip
            text = f"{self.xp}.where({test.text}, {', '.join(fixed)})"
            if not yes.axes and not no.axes and self.dialect.casts and not whole:
                text += ".double()" if const else f".to({env.like or 'like'})"
            return Code(text, ATOM, axes, const, whole)
        given = ", ".join(c.text for c in codes)
        if scalar and const and op in ("max", "min", "abs"):
            return Code(f"{op}({given})", const=True, whole=whole)
        if scalar and const:
            name = "atan" if op == "arctan" else op
            return Code(f"math.{name}({given})", const=True, whole=op == "floor")
        if op in ("max", "min") and self.dialect.casts:
            value, bound = codes if codes[1].const and not codes[1].axes else codes[::-1]
            if bound.const and not bound.axes:
                side = "min" if op == "max" else "max"
                text = f"{value.at(ATOM)}.clamp({side}={bound.text})"
                return Code(text, ATOM, axes, const, whole)
        name = self.dialect.calls.get(op) or self.functions.helper(op)
        return Code(f"{name}({given})", ATOM, axes, const, whole)

    def as_like(self, side: Code, other: Code) -> Code:
        """A number as a choice beside an array, with the array's shape."""
        if side.axes or not side.const or not other.axes:
            return side
        text = f"{self.xp}.full_like({other.text}, {as_float(side)})"
        return Code(text, axes=other.axes)

    def infix(self, op: str, codes: list[Code], axes: Axes, const: bool, whole: bool) -> Code:
        level, sign = INFIX[op]
        a, b = codes
        if op == "pow":
            base = f"{a.text}.0" if a.text.isdigit() and (b.axes or not b.whole) else (
                a.at(POWER + 1))  # fmt: skip
            return Code(f"{base} ** {b.at(NEG)}", POWER, axes, const, whole)
        if op == "div" and whole:
            sign = "//"
        left = a.at(level + (level == COMPARE))
        return Code(f"{left} {sign} {b.at(level + 1)}", level, axes, const,
                    whole and op not in TESTS)  # fmt: skip

    def divides(self, e: Expr) -> bool:
        """Whether a quotient of dimensions is a whole number for their values."""
        size = self.card.size(e)
        value = None if size is None else self.shapes.number(size)
        return value is not None and value.denominator == 1

    # -- named functions ---------------------------------------------------------------------------

    def call(self, e: Apply, env: CodeEnv) -> Code:
        """A named function: the library's own, or one that is written into the file."""
        named = self.card.library_name(e)
        length = named == "length" and self.dialect.form(named) and self.type(e.args[0], env).shape
        if named == "logsumexp" or length:
            return self.of_rows(named, e.args[0], env)
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
            self.dialect.fitted(c, (*(a for a in lead if a != LEAD or LEAD in c.lead), *c.core),
                        picks and bool(c.lead)) if c.axes else c
            for c in args
        ]  # fmt: skip
        const = all(c.const for c in args)
        for c in args[1:]:  # a number for each of a family makes a result for each
            if self.dialect.casts and args[0].core and not c.core and set(c.lead) - {*args[0].lead}:
                axes = (*lead, *args[0].core)
                shaped = self.dialect.brought(c, axes, True)
                text = f"torch.broadcast_tensors({ready[0].text}, {shaped})[0]"
                ready[0] = ready[0].as_atom(text, axes=axes)
        form = "" if named == "length" else self.dialect.form(named)  # here of a number
        if named == "onehot" and not self.functions.fits(e.args[0], e.args[1], env):
            form = self.dialect.form("onehot_some") or form
        if named == "placed" and self.dialect.name == "numpy" and args[1].text == "0" and not lead:
            fits = self.has_room(e, env) and args[0].level == ATOM
            form = "np.pad({0}, ((0, {2} - len({0})), (0, 0)))" if fits else ""
        if named == "LN" and self.dialect.name == "torch":
            form = torch_norm(ready)
        if named == "held" and ready[0].const and not ready[0].axes:
            return ready[0]
        if self.dialect.by_hand(named) or named == "ReLU":
            truths = [self.type(a, env).kind == TRUTH for a in e.args]
            ready = [self.dialect.whole_numbers(c) if b and (c.axes or not c.const) else c
                     for c, b in zip(ready, truths, strict=True)]  # fmt: skip
        if named in ROTATIONS and self.dialect.casts:
            ready = [self.real(c, env) if c.whole and c.axes else c for c in ready]
        if named in OF_REALS:
            if self.type(e.args[0], env).kind == TRUTH:
                ready[0] = self.dialect.whole_numbers(ready[0])
            if ready[0].whole and (self.dialect.casts or form):
                ready[0] = self.real(ready[0], env)
        if named in OF_REALS | {"ReLU"} and ready[0].const and not ready[0].axes:
            ready[0] = self.dialect.as_argument(ready[0], named in OF_REALS, bool(form))
        whole = self.type(e, env).interval is not None and named not in BY_HAND
        if form:
            const &= any(c.axes for c in ready)  # what a library makes of a number is an array
            axes = (*lead, ROW, COL) if named == "onehot" else (*lead, *args[0].core)
            texts = [c.at(ATOM) if f"{{{k}}}." in form else c.text for k, c in enumerate(ready)]
            return Code(form.format(*texts), ATOM, axes, const, whole)
        if named == "cross_entropy" and lead:
            raise VieteError("a loss for each of a family")
        name, core = self.functions(e, ready, env)
        given = [c.text for c in ready]
        if name in self.functions.precision:  # of whole numbers alone
            given.append(f"like={env.like or 'like'}")
        return Code(f"{name}({', '.join(given)})", ATOM, (*lead, *core), const, whole)

    def has_room(self, e: Apply, env: CodeEnv) -> bool:
        """Whether the rows placed from the first on are no more than those of the result."""
        have, room = self.type(e.args[0], env).shape[0], self.card.size(e.args[2])
        if room is None:
            return False
        least, most = (x.value(self.card.greatest) for x in (have, room))
        return least is not None and most is not None and least <= most

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
        count = self.integer(family.count, env)
        text = f"{self.xp}.stack({self.xp}.split({value.text}, {count}, axis=-1))"
        return Code(text, axes=(family.label, ROW, COL))


def torch_norm(args: Sequence[Code]) -> str:
    """PyTorch's layer norm, if scale and shift are plain vectors."""
    if len(args) < 3 or any(c.axes != (COL,) for c in args[1:3]) or (args[3:] and args[3].axes):
        return ""
    return "functional.layer_norm({0}, {1}.shape, {1}, {2}, " + ("{3})" if args[3:] else "0.0)")
