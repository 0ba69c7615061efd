"""The incremental form of a model: the same equations, for the new positions of a text only.

It is found by rewriting. The rows of a value for new positions are computed from rows of other
values, mostly from the same row. Where an equation needs all rows of a value (K in ``Q K^T``, V in
``A V``), the earlier rows come in as an input, ``K_past``, above the new ones. These inputs are the
KV cache. `viete.rewrite.positions` rewrites the formulas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from viete.analysis.flows import flows_of, reads_later
from viete.analysis.next_token import scores, text_of
from viete.analysis.shapes import shapes_of
from viete.analysis.types import Mismatch
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Dimension, Equation, Input, Loop, Parameter, memoised
from viete.graph.dependence import (
    equations_by_name,
    forward_slice,
    functions_called,
    greatest,
    names_read,
    reachable,
)
from viete.graph.distinct import distinct
from viete.graph.evaluator import COL, ROW
from viete.library.functions import Function
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Ref, Slot, Symbol, num, refs, transform
from viete.rewrite.kv_cache import (
    ALL,
    BEFORE,
    NEW,
    PLACES,
    ROOM,
    DynamicCache,
    StaticCache,
    Stuck,
    with_names,
)
from viete.rewrite.positions import WHOLE, Form, Positions, Want

NAMES = "m p c r m_past".split()  # for the number of positions that came before
ROOMS = "c r w m c_room".split()  # for the number of positions that there is room for
PLACE_NAMES = "q p r u q_new".split()  # for the new positions


@dataclass(frozen=True)
class Derived:
    """An incremental form.

    ``past`` maps the key of each input for earlier positions to the value or input whose rows it
    takes, and ``axis`` maps the latter to the axis of its positions, 'row' or 'col'. ``once`` are
    values that no token of the text changes, such as an encoder's: the card computes them, and here
    they are inputs. ``start`` is the name of the number of earlier positions, or of the room for
    positions where shapes are fixed; ``places`` then is the input with the new positions.
    """

    model: CardData
    target: str
    past: dict[str, str]
    axis: dict[str, str]
    once: tuple[str, ...]
    start: str
    places: str = ""


@dataclass
class Rewritten:
    """An equation's new right side, and the values whose earlier rows it takes."""

    right: Expr
    past: frozenset[str]


@memoised
def incremental(card: CardData, of: str | None = None, fixed: bool = False) -> CardData:
    """The model for ``n`` new tokens that come after ``m`` others, whose K and V are given.

    Its inputs are the new tokens and, for each value whose earlier rows are needed, those rows
    (``K_past^{i,h}``: m × d_k). Its values are the rows of the new positions, as in the whole run.
    ``of`` is the value wanted for every position (by default `scores`). Equations that only
    training needs are left out. With ``fixed`` it has room for ``c`` rows (``K_room^{i,h}``), into
    which the new ones are written, and an input ``q`` says which positions are new: the shapes of
    one step are those of the next.

    Raises VieteError, naming the equation, where a position reads later ones.
    """
    return derived(card, of, fixed).model


@memoised
def derived(card: CardData, of: str | None = None, fixed: bool = False) -> Derived:
    """The incremental form as in `incremental`, with the details that a sampler needs."""
    return IncrementalForm(card, of, fixed).derive()


class IncrementalForm:
    """Derives one incremental form."""

    def __init__(self, card: CardData, of: str | None, fixed: bool) -> None:
        card = distinct(card)
        self.model, self.shapes, self.fixed = card, shapes_of(card), fixed
        self.tokens = text_of(card)
        length = self.tokens.shape[0]
        assert isinstance(length, Ref)
        self.length = length
        if of is not None and not any(e.name == of for e in card.equations):
            raise VieteError(f"no equation of {card.title} defines {of}")
        self.target = of or scores(card)
        self.cache: DynamicCache = StaticCache() if fixed else DynamicCache()
        self.start = Ref(self.fresh("dim", ROOMS if fixed else NAMES))
        self.places = Ref(self.fresh("input", [x for x in PLACE_NAMES if x != self.start.key]))
        self.own = {BEFORE.key: self.start, ROOM.key: self.start, PLACES.key: self.places}
        self.inputs = {i.name: i for i in card.inputs}
        self.made = equations_by_name(card)
        self.dependent = self.dependent_on_text()
        self.refusals: dict[str, str] = {}  # why values have no form, or read later positions
        self.taken: set[str] = set()  # values whose earlier rows the equation at hand takes
        self.positions = Positions(card, self.shapes, length.key, self.cache, self.value)

    def fresh(self, kind: str, names: list[str]) -> Symbol:
        """A symbol that is new to the card."""
        # A symbol that begins with a function's name would hide the function.
        wishes = [n for n in names if n.partition("_")[0] not in self.model.function]
        base, _, label = self.model.fresh(*wishes, names[-1].partition("_")[2]).partition("_")
        return Symbol(kind, base, (Slot(label),) if label else ())

    def dependent_on_text(self) -> set[str]:
        """Inputs as long as the text, and all values that depend on one or on its length."""
        longer = {
            d for d, size in self.model.definitions.items() if self.length.key in size.names()
        } | {self.length.key}  # fmt: skip
        inputs = {i.name for i in self.model.inputs if any(e.keys & longer for e in i.shape)}
        return forward_slice(self.model, inputs | longer)

    # -- values ------------------------------------------------------------------------------------

    def value(self, e: Ref, want: Want) -> Form:
        """The form of a value or an input; all its rows are the earlier ones and the new ones."""
        if e.key not in self.dependent:
            return Form(e)
        axes = self.positional(e.key)
        own = self.axis(e.key)
        why = self.refusals.get(e.key)
        if why and not any(axes):
            raise Stuck(why)
        form = Form(e)
        kind = want[0] if own == ROW else want[1]
        if axes == [True, True]:  # its rows are new positions', its columns all of them
            if kind == ALL:
                raise Stuck(f"{show(e)} is asked for at all its rows")
            return form if want[1] == ALL else Form(self.cache.new_columns(e))
        if kind == NEW or not any(axes):
            return form
        if why:
            raise Stuck(why)
        if e.key not in self.inputs and self.shapes.types[e.key].kind != "real":
            raise Stuck(f"{show(e)} holds whole numbers, whose earlier rows are not kept")
        self.taken.add(e.key)
        before = Ref(self.past_of(e.symbol), e.index)
        stacked = self.model.library("stack", before, e)
        in_room = self.model.library("written", before, e, PLACES)
        return Form(self.cache.joined(before, e, own == ROW, stacked, in_room))

    def positional(self, key: str) -> list[bool]:
        """Whether each axis of a value counts the positions of the text."""
        return [self.positions.size(s) == WHOLE for s in self.shapes.types[key].shape]

    def axis(self, key: str) -> str:
        """The axis of a value's own positions: its rows, else its columns."""
        axes = self.positional(key)
        return ROW if len(axes) == 2 and axes[0] else COL

    # -- equations ---------------------------------------------------------------------------------

    def derive(self) -> Derived:
        """The form. Raises VieteError with the equation that has none."""
        rewritten = self.rewritten()
        if self.target in self.refusals:
            raise self.refused(self.target)
        needed, past = self.needed(rewritten)
        there = self.computable(needed, rewritten, past)
        right = {k: found.right for k, found in rewritten.items()
                 if self.model.equations[k].name in there}  # fmt: skip
        return self.assembled(right, past)

    def refused(self, name: str) -> VieteError:
        return VieteError(f"{self.model.title} has no incremental form: {self.refusals[name]}")

    def needed(self, rewritten: dict[int, Rewritten]) -> tuple[set[str], set[str]]:
        """The values that the target needs, and those of which it needs earlier rows."""
        numbers = {id(e): k for k, e in enumerate(self.model.equations)}
        past = set[str]()

        def reads(name: str) -> Iterator[str]:
            for e in self.made.get(name, ()) if name in self.dependent else ():
                found = rewritten.get(numbers[id(e)])
                if found is None:
                    raise self.refused(name)
                past.update(found.past)
                yield from (found.right.keys & self.dependent) | found.past

        return set(reachable([self.target], reads)), past

    def computable(
        self, needed: set[str], rewritten: dict[int, Rewritten], past: set[str]
    ) -> set[str]:
        """The needed values, and those that can be computed without other earlier rows.

        A value is included with all of its equations, x^i with x^0, or not at all.
        """
        there = needed | (self.dependent & self.made.keys()) - self.refusals.keys()
        there |= {*self.inputs, self.length.key}
        forms: dict[str, list[Rewritten | None]] = {}
        for k, e in enumerate(self.model.equations):
            forms.setdefault(e.name, []).append(rewritten.get(k))

        def fails(name: str) -> bool:
            return name not in needed and any(
                f is None or f.past - past or (f.right.keys & self.dependent) - there
                for f in forms.get(name, ())
            )

        def readers(name: str) -> Iterator[str]:
            return (other for other, found in forms.items() if other not in needed
                    and any(f is not None and name in f.right.keys for f in found))  # fmt: skip

        return greatest(there, fails, readers)

    def rewritten(self) -> dict[int, Rewritten]:
        """All equations that have a form; the lack of one is followed around loops to the end."""
        flows = flows_of(self.model).found
        while True:
            before = set(self.refusals)
            out: dict[int, Rewritten] = {}
            for k, e in enumerate(self.model.equations):
                if e.name not in self.dependent:
                    continue
                self.taken = set()
                try:
                    f = self.equation(e)
                except Stuck as why:
                    self.refusals[e.name] = self.because(k, e, str(why))
                    continue
                out[k] = Rewritten(f, frozenset(self.taken))
                first = next((x for r in refs(e.right) if (x := self.refusals.get(r.key))), "")
                if first or reads_later(self.model, *flows[k], self.length.key):
                    later = "a position reads later ones, or may, and would change with a new token"
                    self.refusals.setdefault(e.name, first or self.because(k, e, later))
            if before == set(self.refusals):
                return out

    def equation(self, e: Equation) -> Expr:
        """The form of a right side, with rows for the new positions."""
        axes = self.positional(e.name)
        want = (NEW, ALL) if len(axes) == 2 and axes[0] else (ALL, NEW)
        try:
            return self.formula(e.right, want)
        except Mismatch as error:  # the card's shapes were checked, so this is a form's own
            raise Stuck(error.message) from None

    def formula(self, e: Expr, want: Want) -> Expr:
        """The form of a formula of the card, in the card's names."""
        env = self.positions.env
        f = self.positions.number(self.positions.of(e, env, want), env)
        return with_names(with_names(f.expr, self.cache.counts(self.length, None)), self.own)

    def because(self, k: int, e: Equation, why: str) -> str:
        return f"in equation {k + 1}, {show(e.left)} = {show(e.right)}, {why}"

    # -- the model ---------------------------------------------------------------------------------

    def assembled(self, right: dict[int, Expr], past: set[str]) -> Derived:
        """The card with these right sides, and inputs for the given values."""
        model = self.model
        once = list(dict.fromkeys(
            x.key for e in right.values() for x in refs(e)
            if x.key in self.made and x.key not in self.dependent
        ))  # fmt: skip

        def as_input(x: Expr) -> Expr | None:
            if isinstance(x, Ref) and x.key in once:
                return replace(x, symbol=replace(x.symbol, kind="input"))
            return None

        equations = []
        loops: dict[Loop | None, Loop | None] = {None: None}
        for k, e in enumerate(model.equations):
            if k in right:
                if e.loop is not None:  # counted anew: an encoder's may be gone
                    loops.setdefault(e.loop, replace(e.loop, order=len(loops) - 1))
                new = transform(right[k], as_input)
                text = Text(f"{show(e.left)} = {show(new)}", "<incremental>")
                equations.append(replace(e, right=new, loop=loops[e.loop], stated=None, text=text))
        gone = model.loop_letters - {loop.index for loop in loops if loop is not None}
        parameters = tuple(p for p in model.parameters if not gone & {*p.symbol.slots})
        read = names_read(equations)
        if self.start.key in read and not past and not self.fixed:
            past = {self.tokens.name}  # something must say how many there were
        rows = {key: self.past_input(key) for key in (*self.inputs, *self.made) if key in past}
        inputs = [replace(i) for i in model.inputs if i.name in read or i == self.tokens]
        inputs += [self.places_input()] * self.fixed
        inputs += [self.value_input(key) for key in once]
        n = next(d for d in model.dims if d.name == self.length.key)
        # Where no rows are kept, none say how much room there is.
        room = model.lengths[self.length.key] if self.fixed and not past else None
        said = "positions that there is room for" if self.fixed else "positions before the new ones"
        came = Dimension(self.start.symbol, room, None if room else n.at_most, "", said,
                         Text(self.start.key))  # fmt: skip
        dims = list(model.dims)
        dims.insert(dims.index(n) + 1, came)
        others = (
            f"at the places ${self.places.key}$ of a text, with room for ${self.start.key}$"
            if self.fixed else f"after ${self.start.key}$ others"
        )  # fmt: skip
        about = (
            f"The incremental form of {model.title}: ${self.length.key}$ new positions {others}. "
            f"Of the earlier ones it is given the rows that the new ones read.",
        )
        out = type(model)(
            model.title, about, (), model.vocabulary, (), tuple(dims), model.indices,
            (*inputs, *rows.values()), parameters,
            (*model.functions, *self.new_functions(equations)), tuple(equations),
            self.unchanged(equations, parameters, gone),
        )  # fmt: skip
        return Derived(
            out, self.target, {item.name: key for key, item in rows.items()},
            {key: self.axis(key) for key in rows}, tuple(once), self.start.key,
            self.places.key if self.fixed else "",
        )  # fmt: skip

    def new_functions(self, equations: list[Equation]) -> list[Function]:
        """The new functions that the equations call, directly or through each other."""
        made = {f.name: f for f in self.positions.functions.values()}
        used = functions_called(made, (e.right for e in equations))
        return [f for name, f in made.items() if name in used]

    def unchanged(
        self, forward: list[Equation], parameters: tuple[Parameter, ...], gone: frozenset[str]
    ) -> tuple[Equation, ...]:
        """Derived names whose definitions stay valid, with all their parts in the form."""
        there = {e.name for e in forward} | {p.name for p in parameters}
        there |= {d.name for d in self.model.dims} - {self.length.key}
        out = []
        for e in self.model.derived:
            self.taken = set()
            try:
                f = self.formula(e.right, (NEW, ALL))
            except (Stuck, Mismatch):
                continue
            of_gone = not gone.isdisjoint(e.left.symbol.slots)
            if e.reads <= there and not (self.taken or of_gone) and f == e.right:
                out.append(e)
                there.add(e.name)
        return tuple(out)

    # -- inputs ------------------------------------------------------------------------------------

    def past_of(self, symbol: Symbol) -> Symbol:
        """``K_past^{i,h}`` for ``K^{i,h}``."""
        return replace(symbol, kind="input", sub=(*symbol.sub, self.cache.label))

    def value_input(self, key: str) -> Input:
        """A given value as an input."""
        symbol = replace(self.made[key][0].left.symbol, kind="input")
        shape = tuple(self.model.size_expr(s) for s in self.shapes.types[key].shape)
        said = "computed once: no token of the text changes it"
        return Input(symbol, shape, meaning=said, text=Text(key))

    def past_input(self, key: str) -> Input:
        """The rows of a value for the earlier positions, as an input."""
        item = self.inputs.get(key) or self.value_input(key)
        shape = tuple(
            self.model.substitute(e, names={self.length.key: self.start}) for e in item.shape
        )
        symbol = self.past_of(item.symbol)
        value = item.symbol.member
        where = "the positions before" + ", in the rows of their places" * self.fixed
        return replace(item, symbol=symbol, shape=shape, text=Text(symbol.key),
                       meaning=f"${show(value, 'latex')}$ at {where}")  # fmt: skip

    def places_input(self) -> Input:
        """The input with the new positions."""
        most = self.model.lengths[self.length.key]
        return Input(self.places.symbol, (self.length,), num(0), Apply("sub", (most, num(1))),
                     meaning="places of the new positions", text=Text(self.places.key))  # fmt: skip
