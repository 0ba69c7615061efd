"""The incremental form of a model: the same equations for new positions of a text alone.

Found by rewriting. A value's rows for new positions are computed from the rows of other values,
most from the same row; where an equation needs all rows of a value (K in ``Q K^T``, V in ``A V``),
the rows of the positions before come in as an input, ``K_past``, and stand stacked over the new
ones. Those inputs are the *cache*. `viete.rewrite.positions` rewrites the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viete.analysis.masks import Mask
from viete.analysis.shapes import Mismatch, Shapes, shapes_of
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Dimension, Equation, Function, Input, Loop, memoised
from viete.graph.dependence import forward_slice, functions_called, names_read
from viete.graph.distinct import distinct
from viete.graph.sizes import Size
from viete.notation.printer import show
from viete.notation.tree import (
    Apply,
    Expr,
    Idx,
    Pick,
    Ref,
    Slice,
    Slot,
    Symbol,
    num,
    transform,
    walk,
)  # fmt: skip
from viete.rewrite.fixed import Fixed
from viete.rewrite.positions import (
    ALL,
    COL,
    NEW,
    ROW,
    WHOLE,
    Form,
    Positions,
    Sees,
    Stuck,
    Want,
)  # fmt: skip

PAST, ROOM = Slot("past"), Slot("room")
NAMES = "m p c r m_past".split()  # for the number of positions that came before
ROOMS = "c r w m c_room".split()  # for the number of positions that there is room for
PLACES = "q p r u q_new".split()  # for the new positions


@dataclass(frozen=True)
class Derived:
    """An incremental form.

    ``past`` maps the key of each input for earlier positions to the value or input whose rows it
    takes, ``axis`` the latter to where its positions are, 'row' or 'col'. ``once`` are values that
    no token of the text changes, such as an encoder's: computed by the card itself, they are inputs
    here. ``start`` is the name of the number of positions before, or of the room that there is for
    positions where shapes are fixed; ``places`` then is the input that says which are new.
    """

    model: CardData
    target: str
    past: dict[str, str]
    axis: dict[str, str]
    once: tuple[str, ...]
    start: str
    places: str = ""


@dataclass
class Known:
    """What is known of a named value so far."""

    sees: Sees = frozenset()
    mask: Mask | None = None
    why: str = ""  # why it has no form, or sees later positions


@dataclass
class Rewritten:
    """An equation's new right side, and the values whose earlier rows it takes."""

    right: Expr
    past: frozenset[str]


def incremental(card: CardData, of: str | None = None, fixed: bool = False) -> CardData:
    """The model for ``n`` new tokens that come after ``m`` others, whose K and V are given.

    Its inputs are the new tokens and, for each value whose earlier rows are needed, those rows
    (``K_past^{i,h}``: m × d_k), its values the rows of the new positions: those of the whole run.
    ``of`` is the value wanted for every position (by default `scores`). What only training needs
    is left out. With ``fixed`` there is room for ``c`` rows (``K_room^{i,h}``), into which the new
    ones are written, and an input ``q`` says which positions are new: the shapes of one step are
    those of the next.

    Raises VieteError, naming the equation, where a position reads later ones.
    """
    return derived(card, of, fixed).model


def derived(card: CardData, of: str | None = None, fixed: bool = False) -> Derived:
    """As `incremental`, with what a sampler must know of the result.

    Kept on the model object, so that it is derived once.
    """
    kept = card.__dict__.setdefault("_incremental", {})
    if (of, fixed) not in kept:
        kept[of, fixed] = Incremental(card, of, fixed).derive()
    found = kept[of, fixed]
    assert isinstance(found, Derived)
    return found


def scores(card: CardData, shapes: Shapes | None = None) -> str:
    """The value with a score for each token of the vocabulary at every position: ``logits``.

    Else the last such value that is not a softmax. Raises VieteError where there is none.
    """
    shapes = shapes or shapes_of(card)
    tokens = text_of(card)
    for name in scored(card, tokens, shapes):
        return name
    said = " × ".join("?" if s is None else str(s) for s in score_shape(card, tokens))
    raise VieteError(
        f"{card.title} has no value of shape {said}, a score for each next token; it cannot be "
        f"sampled"
    )


def score_shape(card: CardData, tokens: Input) -> tuple[Size | None, Size]:
    """A score for each token of the vocabulary at every position of a text."""
    assert tokens.high is not None and tokens.low is not None
    high, low = card.size(tokens.high), card.size(tokens.low)
    assert high is not None and low is not None
    return card.size(tokens.shape[0]), high - low + Size.of(1)


def scored(card: CardData, tokens: Input, shapes: Shapes) -> list[str]:
    """The values with a score for each next token of a text that they are made of, best first."""
    shape = score_shape(card, tokens)
    after = forward_slice(card, [tokens.name])
    fits = [
        e for e in card.equations
        if not e.left.symbol.slots and shapes.types[e.name].kind == "real" and e.name in after
        and len(shapes.types[e.name].shape) == 2
        and all(b is not None and shapes.same_number(a, b)
                for a, b in zip(shapes.types[e.name].shape, shape, strict=True))
    ]  # fmt: skip
    plain = [e for e in fits if card.library_name(e.right) != "softmax"]
    return [e.name for e in [*(e for e in fits if e.name == "logits"), *reversed(plain)]]


@memoised
def text_of(card: CardData) -> Input:
    """The input that is continued: the last one of token ids without a default, as long as a text.

    It is one that has scores for its next tokens, if there is one: not an encoder's source, nor
    the targets of a loss (``y``), wherever they stand.
    """
    lengths = [
        i for i in card.inputs
        if i.high is not None and i.default is None and len(i.shape) == 1
        and isinstance(i.shape[0], Ref) and i.shape[0].key in card.lengths
    ]  # fmt: skip
    looked_up = {
        key for e in card.equations for p in walk(e.right) if isinstance(p, Pick)
        for item in p.items for key in item.keys
    }  # fmt: skip
    found = [i for i in lengths if i.name in looked_up]
    if not found:
        raise VieteError(
            f"{card.title} has no input of token ids as long as the text, which could be continued"
        )
    return next((i for i in reversed(found) if scored(card, i, shapes_of(card))), found[-1])


class Incremental:
    """One derivation."""

    def __init__(self, card: CardData, of: str | None, fixed: bool) -> None:
        card = distinct(card)
        self.model, self.shapes, self.fixed = card, shapes_of(card), fixed
        self.tokens = text_of(card)
        length = self.tokens.shape[0]
        assert isinstance(length, Ref)
        self.length = length
        self.target = self.wanted(of)
        self.start = Ref(self.fresh("dim", ROOMS if fixed else NAMES))
        self.places = Ref(self.fresh("input", [x for x in PLACES if x != self.start.key]))
        self.label = ROOM if fixed else PAST
        self.inputs = {i.name: i for i in card.inputs}
        self.moving = self.moved()
        self.known: dict[str, Known] = {}
        self.taken: set[str] = set()  # values whose earlier rows the equation at hand takes
        own = (self.places, self.start) if fixed else (self.start,)
        self.positions = (Fixed if fixed else Positions)(
            card, self.shapes, length.key, own, self.value
        )

    def fresh(self, kind: str, names: list[str]) -> Symbol:
        """A symbol that the card has not."""
        # A symbol that begins with a function's name would hide the function.
        wishes = [n for n in names if n.partition("_")[0] not in self.model.function]
        base, _, label = self.model.fresh(*wishes, names[-1].partition("_")[2]).partition("_")
        return Symbol(kind, base, (Slot(label),) if label else ())

    def wanted(self, of: str | None) -> str:
        if of is None:
            return scores(self.model, self.shapes)
        if not any(e.name == of for e in self.model.equations):
            raise VieteError(f"no equation of {self.model.title} defines {of}")
        return of

    def moved(self) -> set[str]:
        """Inputs as long as the text, and all values that depend on one or on its length."""
        longer = {
            d for d, size in self.model.definitions.items() if self.length.key in size.names()
        } | {self.length.key}  # fmt: skip
        inputs = {i.name for i in self.model.inputs if any(e.keys & longer for e in i.shape)}
        return forward_slice(self.model, inputs | longer)

    # -- values ------------------------------------------------------------------------------------

    def value(self, e: Ref, want: Want) -> Form:
        """A named value or an input; all rows of one are those before and the new ones."""
        item = self.inputs.get(e.key)
        if e.key not in self.moving:
            return Form(e, e)
        axes = [self.positions.sized(s)[0] == WHOLE for s in self.shapes.types[e.key].shape]
        own = self.own(e.key)
        known = Known(frozenset({own})) if item is not None else self.known.get(e.key, Known())
        if known.why and known.sees is None and not any(axes):
            raise Stuck(known.why)
        others = axes == [True, True]
        form = Form(e, e, known.sees, known.mask)
        kind = want[0] if own == ROW else want[1]
        if not any(axes) or (kind == NEW and not others):
            return form
        if others:
            if kind == ALL:
                raise Stuck(f"{show(e)} is asked for at all its rows")
            if want[1] == ALL:
                return form
            if self.fixed:
                raise Stuck(f"{show(e)} is asked for at its new columns alone")
            new = Slice(self.start, None)
            expr: Expr = Pick(e, (Slice(None, None), new))
            return replace(form, expr=expr, whole=expr)
        if known.sees is None:
            raise Stuck(known.why)
        if item is None and self.shapes.types[e.key].kind != "real":
            raise Stuck(f"{show(e)} holds whole numbers, whose earlier rows are not kept")
        self.taken.add(e.key)
        before = Ref(past_of(e.symbol, self.label), e.index)
        if self.fixed and own == COL:
            raise Stuck(f"{show(e)} has its positions as columns")
        if self.fixed:
            expr = self.model.library("written", before, e, self.places)
        else:
            rows = self.model.library("stack", before, e)
            expr = rows if own == ROW else Apply("concat", (before, e))
        return replace(form, expr=expr, whole=expr)

    def own(self, key: str) -> str:
        """The axis of a value's own positions: its rows, else its columns."""
        axes = self.shapes.types[key].shape
        rows = len(axes) == 2 and self.positions.sized(axes[0])[0] == WHOLE
        return ROW if rows else COL

    # -- equations ---------------------------------------------------------------------------------

    def derive(self) -> Derived:
        rewritten = self.rewritten()
        if self.known[self.target].sees is None:
            raise VieteError(f"{self.model.title} has no incremental form: "
                             f"{self.known[self.target].why}")  # fmt: skip
        needed, past = self.needed(rewritten)
        there = self.beside(needed, rewritten, past)
        right = {k: found.right for k, found in rewritten.items()
                 if self.model.equations[k].name in there}  # fmt: skip
        return self.assembled(right, past)

    def beside(self, needed: set[str], rewritten: dict[int, Rewritten], past: set[str]) -> set[str]:
        """The values that are needed, and those that can be computed from no other earlier rows.

        A value is there with all of its equations, x^i with x^0, or not at all.
        """
        there = needed | {name for name, known in self.known.items() if known.sees is not None}
        given = {*self.inputs, self.length.key}

        def computed(k: int) -> bool:
            found = rewritten.get(k)
            if found is None or found.past - past:
                return False
            return found.right.keys & self.moving <= there | given

        while gone := {e.name for k, e in enumerate(self.model.equations)
                       if e.name in there - needed and not computed(k)}:  # fmt: skip
            there -= gone
        return there

    def rewritten(self) -> dict[int, Rewritten]:
        """All equations that have a form; what values see is followed around loops to the end."""
        while True:
            before = {k: (v.sees, v.mask) for k, v in self.known.items()}
            out: dict[int, Rewritten] = {}
            for k, e in enumerate(self.model.equations):
                if e.name not in self.moving:
                    continue
                self.taken = set()
                try:
                    f = self.equation(e)
                except Stuck as why:
                    self.known[e.name] = Known(None, None, self.because(k, e, str(why)))
                    continue
                out[k] = Rewritten(f.expr, frozenset(self.taken))
                self.note(k, e, f)
            if before == {k: (v.sees, v.mask) for k, v in self.known.items()}:
                return out

    def equation(self, e: Equation) -> Form:
        axes = [self.positions.sized(s)[0] == WHOLE for s in self.shapes.types[e.name].shape]
        want = (NEW, ALL) if axes[:1] == [True] and len(axes) == 2 else (ALL, NEW)
        try:
            return self.settled(e.right, want)
        except Mismatch as error:  # the card's shapes were checked, so this is a form's own
            raise Stuck(error.message) from None

    def settled(self, e: Expr, want: Want) -> Form:
        env = self.positions.env
        return self.positions.settled(self.positions.of(e, env, want), env)

    def note(self, k: int, e: Equation, f: Form) -> None:
        """Join what an equation says of its value to what is known of it."""
        old = self.known.get(e.name)
        if f.sees is None:
            if old is None or not old.why:
                refs = (x.key for x in walk(e.right) if isinstance(x, Ref))
                first = next((x.why for r in refs if (x := self.known.get(r)) and x.why), "")
                later = "a position reads later ones, or may, and would change with a new token"
                why = first or self.because(k, e, later)
                self.known[e.name] = Known(None, None, why)
            return
        if old is None:
            self.known[e.name] = Known(f.sees, f.mask)
        elif old.sees is not None:
            mask = old.mask if old.mask == f.mask else None
            self.known[e.name] = Known(old.sees | f.sees, mask)

    def because(self, k: int, e: Equation, why: str) -> str:
        return f"in equation {k + 1}, {show(e.left)} = {show(e.right)}, {why}"

    def needed(self, rewritten: dict[int, Rewritten]) -> tuple[set[str], set[str]]:
        """The values that the target needs, and those whose earlier rows it does."""
        needed, past = {self.target}, set[str]()
        size = 0
        while size != len(needed) + len(past):
            size = len(needed) + len(past)
            for k, e in enumerate(self.model.equations):
                if e.name in needed and e.name in self.moving:
                    if k not in rewritten:
                        raise VieteError(f"{self.model.title} has no incremental form: "
                                         f"{self.known[e.name].why}")  # fmt: skip
                    right, taken = rewritten[k].right, rewritten[k].past
                    past |= taken
                    needed |= right.keys & self.moving
                    needed |= taken
        return needed, past

    # -- the model ---------------------------------------------------------------------------------

    def assembled(self, right: dict[int, Expr], past: set[str]) -> Derived:
        model = self.model
        made = {e.name for e in model.equations}
        once = list(dict.fromkeys(
            x.key for e in right.values() for x in walk(e)
            if isinstance(x, Ref) and x.key in made and x.key not in self.moving
        ))  # fmt: skip

        def given(x: Expr) -> Expr | None:
            if isinstance(x, Ref) and x.key in once:
                return replace(x, symbol=replace(x.symbol, kind="input"))
            return None

        equations = []
        loops: dict[Loop, Loop] = {}
        for k, e in enumerate(model.equations):
            if k in right:
                if e.loop is not None:  # counted anew: an encoder's may be gone
                    loops.setdefault(e.loop, replace(e.loop, order=len(loops)))
                    e = replace(e, loop=loops[e.loop])
                new = transform(right[k], given)
                text = Text(f"{show(e.left)} = {show(new)}", "<incremental>")
                equations.append(replace(e, right=new, stated=None, text=text))
        gone = model.loop_letters - {
            loop.index for loop in loops
        }  # an encoder's weights go with it
        parameters = tuple(p for p in model.parameters if not gone & {*p.symbol.slots})
        refs = names_read(equations)
        if self.start.key in refs and not past and not self.fixed:
            past = {self.tokens.name}  # something must say how many there were
        inputs = [replace(i) for i in model.inputs if i.name in refs or i == self.tokens]
        if self.fixed:
            inputs.append(self.places_input())
        inputs += [self.value_input(key, key) for key in once]
        inputs += [self.past_input(key) for key in self.in_order(past)]
        n = next(d for d in model.dims if d.name == self.length.key)
        said = "positions that there is room for" if self.fixed else "positions before the new ones"
        # Where no rows are kept, none say how much room there is.
        room = self.model.lengths[self.length.key] if self.fixed and not past else None
        most = n.at_most if room is None else None
        came = Dimension(self.start.symbol, room, most, "", said, Text(self.start.key))
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
        out = CardData(
            model.title, about, (), model.vocabulary, (), tuple(dims), model.indices, tuple(inputs),
            parameters, (*model.functions, *self.new_functions(equations)), tuple(equations),
            self.kept(model.derived, equations),
        )  # fmt: skip
        table = {self.past_input(key).name: key for key in self.in_order(past)}
        axis = {key: self.own(key) for key in past}
        places = self.places.key if self.fixed else ""
        return Derived(out, self.target, table, axis, tuple(once), self.start.key, places)

    def in_order(self, keys: set[str]) -> list[str]:
        order = [*self.inputs, *(e.name for e in self.model.equations)]
        return sorted(keys, key=order.index)

    def new_functions(self, equations: list[Equation]) -> list[Function]:
        """Those that the equations call, directly or through each other."""
        made = {f.name: f for f in self.positions.functions.values()}
        used = functions_called(made, (e.right for e in equations))
        return [f for name, f in made.items() if name in used]

    def kept(
        self, equations: tuple[Equation, ...], forward: list[Equation]
    ) -> tuple[Equation, ...]:
        """Derived names whose definitions hold as they stand."""
        there = {e.name for e in forward} | {p.name for p in self.model.parameters}
        there |= {d.name for d in self.model.dims} - {self.length.key}
        out = []
        for e in equations:
            self.taken = set()
            try:
                f = self.settled(e.right, (NEW, ALL))
            except (Stuck, Mismatch):
                continue
            if e.reads <= there and not self.taken and f.expr == e.right:
                out.append(e)
                there.add(e.name)
        return tuple(out)

    def symbol(self, key: str) -> Symbol:
        if key in self.inputs:
            return self.inputs[key].symbol
        return next(e.left.symbol for e in self.model.equations if e.name == key)

    def value_input(self, key: str, of: str) -> Input:
        symbol = replace(self.symbol(of), kind="input")
        shape = tuple(self.model.size_expr(s) for s in self.shapes.types[of].shape)
        said = "computed once: no token of the text changes it"
        return Input(symbol, shape, meaning=said, text=Text(key))

    def past_input(self, key: str) -> Input:
        """The rows of a value for the positions before."""

        item = self.inputs.get(key) or self.value_input(key, key)
        shape = tuple(
            self.model.substitute(e, names={self.length.key: self.start}) for e in item.shape
        )
        symbol = past_of(item.symbol, self.label)
        said = show(Ref(self.symbol(key), tuple(map(Idx, item.symbol.slots))), "latex")
        where = "the positions before" + ", in the rows of their places" * self.fixed
        return replace(item, symbol=symbol, shape=shape, text=Text(symbol.key),
                       meaning=f"${said}$ at {where}")  # fmt: skip

    def places_input(self) -> Input:
        """Which positions are new."""
        most = self.model.lengths[self.length.key]
        return Input(self.places.symbol, (self.length,), num(0), Apply("sub", (most, num(1))),
                     meaning="places of the new positions", text=Text(self.places.key))  # fmt: skip


def past_of(symbol: Symbol, label: Slot) -> Symbol:
    """``K_past^{i,h}`` for ``K^{i,h}``."""
    return replace(symbol, kind="input", sub=(*symbol.sub, label))
