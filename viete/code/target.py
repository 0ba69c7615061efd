"""A target: one model as a source file; what the files of all libraries have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction

from viete.analysis.def_use import targets
from viete.code.blocks import first_block, per_block, shifted
from viete.code.body import Body, Turn, measured
from viete.code.dialects import DIALECTS
from viete.code.functions import word
from viete.code.initial import Initial
from viete.code.layout import STEP, docstring, filled, joined, statement
from viete.code.lowering import Lowering
from viete.code.prepared import Prepared
from viete.graph.card import CardData, Input, Loop, Parameter
from viete.notation.printer import show, show_equation
from viete.notation.tree import Expr, Ref, Symbol

COMPLETE = '''def complete(call):
    """Refuses parameters that are missing or of another shape than the card's."""
    @functools.wraps(call)
    def checking(*inputs, **params):
        for name, shape in shapes().items():
            params[name] = checked(params.get(name), name, shape)
        return call(*inputs, **params)
    return checking'''


class Target(ABC):
    """A card as one file: ``forward``, and around it what a library needs.

    ``depth`` is that of the lines of ``forward``, and ``reserved`` are names of the file's own.
    """

    library: str
    reserved: frozenset[str]
    what: str  # the file as its docstring calls it
    depth = 1
    lists = False  # what each block has is a list, without the numbers of the blocks
    completes = True  # `forward` is given all parameters, and refuses others
    lowering: type[Lowering] = Lowering

    def __init__(self, p: Prepared, outputs: Iterable[str] = ()) -> None:
        self.p, self.model = p, p.model
        stages = [p.forward, p.more] + ([p.backward] if p.backward else [])
        self.body = Body(self, p.model, DIALECTS[self.library], stages, outputs)
        self.initial = Initial(self.body)

    def block_list(self, loop: Loop) -> str | None:
        """The name of the list of all blocks over which to loop, if a target keeps one."""
        return None

    def turn(self, loop: Loop) -> tuple[str, Turn] | None:
        """An array of the numbers of a function called for each block, and its writer of lines."""
        return None

    def parameter(self, e: Ref, places: tuple[str, ...]) -> str:
        """The code of a parameter at given block numbers."""
        return self.member(e.symbol, places)

    def member(self, symbol: Symbol, places: tuple[str, ...]) -> str:
        """The code of a parameter or input at given block numbers."""
        name, letters = self.body.names.symbol(symbol), self.model.blocks_of(symbol)
        if self.lists:
            each = zip(places, letters, strict=True)
            return name + "".join(f"[{shifted(k, first_block(self.body, x))}]" for k, x in each)
        return f"{name}[{', '.join(places)}]" if places else name

    def name(self, item: Input) -> str:
        return self.body.names.symbol(item.symbol)

    # -- the file ----------------------------------------------------------------------------------

    @abstractmethod
    def text(self) -> str:
        """The file."""

    def file(self, parts: Sequence[list[str]], more: Sequence[str] = ()) -> str:
        """The text of a file: ``parts`` below a docstring, imports, dimensions and functions.

        ``more`` are paragraphs of the docstring.
        """
        functions = [line for f in self.body.functions.written.values() for line in ["", "", *f]]
        code = [*functions, *(line for part in parts for line in part)]
        dims = self.body.dimensions(code)
        bare = "\n".join(line.split("#")[0] for line in [*code, *dims])
        standard = [f"import {x}" for x in ("functools", "math", "sys") if word(x, bare)]
        out = [*docstring([*about(self.p, self.what), *more]), "", *standard]
        out += [*([""] if standard else []), *self.imports(bare), "", *dims, *functions]
        for part in parts:
            out += ["", "", *part] if part else []
        return "\n".join(out) + "\n"

    @abstractmethod
    def imports(self, code: str) -> list[str]:
        """The import lines of the library."""

    def drawing(self, signature: str, keys: list[str], xavier: list[str]) -> list[str]:
        """The function that draws the parameters; ``keys`` is its source of random numbers."""
        items = []
        for p in self.model.parameters:
            made = per_block(self.body, p, self.initial.of(p))
            items.append(f"{self.body.names.symbol(p.symbol)}={made}")
        rows = arguments(items, 24)
        draws = self.initial.xavier or any(word("rng", r) or word("keys", r) for r in rows)
        return [
            f"def initial({signature}):", *docstring(["Parameters to begin with"], 1),
            *(keys if draws else []), *(xavier if self.initial.xavier else []),
            "    return dict(", *rows, "    )",
        ]  # fmt: skip

    # -- forward -----------------------------------------------------------------------------------

    @property
    def targets(self) -> list[Input]:
        """The inputs that only the loss needs."""
        first = self.p.inputs(self.p.forward)
        return [i for i in self.p.inputs(self.p.more) if i not in first and i.default is None]

    @property
    def inputs(self) -> list[Input]:
        """All inputs, the required ones first."""
        every = self.p.inputs((*self.p.forward, *self.p.more))
        return sorted(every, key=lambda i: not self.required(i))

    def required(self, item: Input) -> bool:
        return item not in self.targets and item.default is None

    def signature(self, name: str, code: Iterable[str], before: Sequence[str] = ()) -> list[str]:
        """``def name(inputs, *, parameters):`` with the parameters that the code uses."""
        given = [self.name(i) + ("" if self.required(i) else "=None") for i in self.inputs]
        used = [self.body.names.symbol(p.symbol) for p in self.used(code)]
        less = len(used) < len(self.model.parameters)
        star, rest = ["*"] if used else [], ["**_"] if less else []
        return joined([*before, *given, *star, *used, *rest], f"def {name}(", "):")

    def used(self, code: Iterable[str]) -> list[Parameter]:
        """The parameters that the code uses."""
        bare = "\n".join(line.split("#")[0] for line in code)
        return [p for p in self.model.parameters if word(self.body.names.symbol(p.symbol), bare)]

    def complete(self) -> list[list[str]]:
        """What refuses parameters that `forward` cannot take, if it takes any."""
        if not self.taken:
            return []
        checked = self.body.functions.helper("checked")
        return [self.shapes(), COMPLETE.replace("checked(", f"{checked}(").split("\n")]

    def shapes(self) -> list[str]:
        """A function with the shapes of the parameters that `forward` takes."""
        items = []
        for p in self.taken:
            sizes = [x for part in self.initial.sizes(p) for x in part]
            made = per_block(self.body, p, tupled(sizes))
            items.append(f"{self.body.names.symbol(p.symbol)}={made}")
        rows = arguments(items, 48) if items else []
        said = docstring(["The shapes of the parameters"], 1)
        return ["def shapes():", *said, "    return dict(", *rows, "    )"]

    def forward(self) -> list[str]:
        p, body = self.p, self.body
        first = body.statements(0, self.depth)
        second = body.statements(1, self.depth) if p.more else []
        closing = self.closing() if p.more or p.backward else self.scores(self.depth)
        early: list[str] = []
        if second and self.targets:
            none = " or ".join(f"{self.name(i)} is None" for i in self.targets)
            early, second = self.without_targets(none, second)
        complete = ["@complete"] if self.completes and self.used([*first, *second]) else []
        head = [*complete, *self.signature("forward", [*first, *second]),
                *docstring([self.summary(bool(p.more))], self.depth)]  # fmt: skip
        self.taken = self.used([*first, *second])
        limits = self.limits()
        ready = self.ready([*first, *second, *closing], limits)
        return [*head, *ready, *first, *early, *second, *closing]

    def ready(self, code: list[str], limits: Sequence[str] = ()) -> list[str]:
        """Lines that check the inputs, measure lengths for the code, and put in defaults."""
        before, after = list[str](), list[str]()
        for item in self.inputs:
            if item.high is None and not item.shape:
                continue  # any number
            known = [not self.own(item, k) for k in range(len(item.shape))]
            if not all(known) and self.required(item):
                before += self.checked(item, known, early=True)
            if (
                all(known)
                or not self.required(item)
                or any(b and self.lengths(e) for b, e in zip(known, item.shape, strict=True))
            ):
                after += self.checked(item, known)
        every = self.p.inputs((*self.p.forward, *self.p.more))
        code = [*code, *limits, *after]
        lengths, defaults = self.body.preparations(code, every, self.depth)
        return [*before, *lengths, *limits, *defaults, *after]

    def own(self, item: Input, axis: int) -> bool:
        """Whether an axis of an input says how long a text is."""
        found = [measured(n, self.inputs) for n in self.lengths(item.shape[axis])]
        return (item, axis - len(item.shape)) in found

    def lengths(self, size: Expr) -> list[str]:
        return [n for n in self.model.lengths if n in size.keys]

    def checked(self, item: Input, known: Sequence[bool], early: bool = False) -> list[str]:
        """A line that refuses a wrong input; ``early``, while no length is known."""
        low, env, name = self.body.lowering, self.body.lowering.env, self.name(item)
        sizes = [low.integer(env.index[h].count, env) for h in self.model.heads_of(item.symbol)]
        for e, there in zip(item.shape, known, strict=True):
            named = not there or (early and self.lengths(e))
            sizes.append(f'"{show(e)}"' if named else low.integer(e, env))
        given = [name, f'"{item.name}"', per_block(self.body, item, tupled(sizes))]
        if item.low is not None and item.high is not None:
            lacks = item.name in targets(self.model)
            given += ["0" if lacks else low.integer(item.low, env), low.integer(item.high, env)]
            given += ["-100"] if lacks else []
        text = f"{self.body.functions.helper('checked')}({', '.join(given)})"
        optional = item in self.targets
        text = f"None if {name} is None else {text}" if optional else text
        return statement(f"{name} = {text}", self.depth)

    def scores(self, depth: int) -> list[str]:
        """The lines that return the result of a call without a loss."""
        return [f"{STEP * depth}return {self.output}"]

    @abstractmethod
    def summary(self, loss: bool) -> str:
        """The result of ``forward`` in words."""

    @abstractmethod
    def closing(self) -> list[str]:
        """The lines that return the result of ``forward``, including the loss."""

    def without_targets(self, none: str, second: list[str]) -> tuple[list[str], list[str]]:
        """The lines of a call without targets, and those that compute the loss."""
        return ["", f"{STEP * self.depth}if {none}:", *self.scores(self.depth + 1)], second

    def limits(self) -> list[str]:
        """Checks that refuse texts longer than the context."""
        return self.body.limits([i for i in self.inputs if i not in self.targets], self.depth)

    @property
    def output(self) -> str:
        out = self.p.output
        return self.body.variable(out, self.model.block_index(out), self.body.lowering.env)[0]

    @property
    def loss(self) -> str:
        assert self.p.loss is not None
        return self.body.names.symbol(self.p.loss.symbol)


def largest(card: CardData, item: Input) -> int:
    """The largest number that an input may hold."""
    size = None if item.high is None else card.size(item.high)
    return 9 if size is None else int(size.evaluate(card.greatest | {"": Fraction(0)}))


def tupled(items: Sequence[str]) -> str:
    """The code of a tuple."""
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


def arguments(items: list[str], most: int) -> list[str]:
    """The arguments of a call: on as few lines as possible if all are short, else a line each."""
    short = len(items) > 1 and max(map(len, items)) < most
    return filled(items, 2) if short else [x for i in items for x in entry(i, 2)]


def entry(text: str, depth: int) -> list[str]:
    """One argument of a call, on separate lines."""
    return statement(text, depth, ",")


def about(p: Prepared, what: str) -> list[str]:
    """The paragraphs of a file's docstring."""
    m = p.model
    said = "written by Viète: each line stands under the equation it came from"
    out = [f"{m.title} {what}, {said}", *m.about[:1]]
    out += [a for a in m.about[1:] if a.startswith("Source")]
    if p.added and p.loss is not None:
        e = next(e for e in m.equations if e.name == p.loss.key)
        out.append(f"The card has no loss; here it is {show_equation(e.left, e.right, 'unicode')}.")
    if p.left_out:
        shown = "; ".join(show_equation(e.left, e.right, "unicode") for e in p.left_out)
        out.append(f"Left out, since nothing here needs it: {shown}.")
    return out
