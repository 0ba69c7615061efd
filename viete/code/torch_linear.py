"""Projections as PyTorch's layers: which products of a card are calls of an ``nn.Linear``.

A projection is a product of a value with a matrix of parameters that contracts the value's last
axis: ``u W_Q^h`` for all heads at once, ``∑_h z^h W_O^h``, ``x W_E^⊤``. What changes the layers of
a model (LoRA, quantisation) then finds every projection, and acts because the layer is called.

Two products are none: of values and matrices that have a letter in common and are not added up
over it, which are as many products as the letter has members; and with a part of a family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from viete.code.expression import CodeEnv, CodeLetter
from viete.code.lowering import Lowering
from viete.errors import VieteError
from viete.graph.card import Equation
from viete.notation.tree import Apply, Bind, Expr, Idx, Ref, refs, walk

T = TypeVar("T")
Maker = Callable[[Ref], Expr | None]


@dataclass(frozen=True)
class Layer:
    """How the weight of an ``nn.Linear``, outputs × inputs, holds a parameter of a card.

    ``letters`` is the number of the parameter's index letters; those in ``inside`` are summed over,
    the others make further outputs. ``turned``: its rows are the outputs, as in ``x W^⊤``.
    """

    letters: int
    inside: tuple[int, ...] = ()
    turned: bool = False
    shared: bool = False  # something else reads the parameter, which the module keeps beside

    @property
    def order(self) -> tuple[int, ...]:
        """The parameter's axes in the order of the weight: all outputs, then all inputs."""
        m = self.letters
        rows, columns = (m, m + 1) if self.turned else (m + 1, m)
        outside = [k for k in range(m) if k not in self.inside]
        return (*outside, rows, *self.inside, columns)

    def weight(self, text: str) -> str:
        """The code of the weight, of the parameter's."""
        m, many = self.letters, len(self.inside)
        if self.order != tuple(range(m + 2)):
            straight = self.order == (*range(m), m + 1, m)
            text += (".mT" if m else ".T") if straight else f".permute{self.order}"
        text += f".flatten(0, {m - many})" if m > many else ""
        return text + (".flatten(1)" if many else "")

    def array(self, text: str, sizes: Sequence[str]) -> str:
        """The code of the parameter, of the weight's; ``sizes`` are those of its axes."""
        outputs, inputs, back = self.split(sizes)
        text += f".unflatten(1, ({', '.join(inputs)}))" if len(inputs) > 1 else ""
        text += f".unflatten(0, ({', '.join(outputs)}))" if len(outputs) > 1 else ""
        return text if back == tuple(range(len(back))) else f"{text}.permute{back}"

    def view(self, weight: Any, shape: Sequence[int]) -> Any:
        """The parameter, of this shape, as a view of the weight; or the weight itself."""
        if self.order == (0, 1):
            return weight
        outputs, inputs, back = self.split(shape)
        return weight.unflatten(1, inputs).unflatten(0, outputs).permute(back)

    def held(self, array: Any) -> Any:
        """The weight, of the parameter."""
        many = self.letters - len(self.inside)
        return array.permute(self.order).flatten(0, many).flatten(1)

    def split(self, sizes: Sequence[T]) -> tuple[list[T], list[T], tuple[int, ...]]:
        """The sizes of the outputs and the inputs, and the way to the axes' own order."""
        inner, order = len(self.inside) + 1, self.order
        outputs, inputs = ([sizes[k] for k in part] for part in (order[:-inner], order[-inner:]))
        return outputs, inputs, tuple(order.index(k) for k in range(len(order)))


@dataclass(frozen=True)
class Projection:
    """A product that is the call of a layer: the value, the parameter, and the letters summed."""

    x: Expr
    w: Ref
    layer: Layer
    binders: tuple[Bind, ...]


class Projections:
    """The projections in equations, by the formulas that are them; ``layers`` by parameter."""

    def __init__(self, lowering: Lowering, varying: set[str]) -> None:
        self.lowering, self.varying = lowering, varying
        self.card = lowering.card
        self.parameters = {p.name: p for p in self.card.parameters}
        self.calls: dict[Expr, Projection] = {}
        self.layers: dict[str, Layer] = {}
        self.through: set[str] = set()  # values that a projection of all heads computes itself
        self.others: set[str] = set()  # parameters that are read otherwise

    def find(self, e: Equation, maker: Maker) -> None:
        """Find those of an equation; ``maker`` gives the formula of a value that it alone reads."""
        self.into(e.right, self.lowering.env, maker)

    def settle(self) -> None:
        """Give each parameter one layer; other readings of it stay what they are."""
        for e, found in list(self.calls.items())[::-1]:
            kept = self.layers.setdefault(found.w.key, found.layer)
            if kept != found.layer:
                self.others.add(found.w.key)
                del self.calls[e]
        for key in self.others & self.layers.keys():
            self.layers[key] = replace(self.layers[key], shared=True)

    def into(self, e: Expr, env: CodeEnv, maker: Maker) -> None:
        """Look for projections in a formula, and for other readings of parameters."""
        found = self.projection(e, env, maker)
        if found is not None:
            self.calls[e] = found
            self.into(found.x, env, maker)
            return
        if isinstance(e, Apply) and (body := opened_call(self.lowering, e)) is not None:
            self.into(body, env, maker)
            return
        if isinstance(e, Ref) and e.key in self.parameters:
            self.others.add(e.key)
        inner = env
        if isinstance(e, Bind) and not self.lowering.over_blocks(e, env):
            inner, _ = self.lowering.bound(e, env)
        for x in e.children:
            self.into(x, inner, maker)

    def projection(self, e: Expr, env: CodeEnv, maker: Maker) -> Projection | None:
        """The projection that a formula is."""
        binders: list[Bind] = []
        while isinstance(e, Bind) and e.op == "sum" and not self.lowering.over_blocks(e, env):
            binders.append(e)
            env, _ = self.lowering.bound(e, env)
            e = e.body
        made = maker(e) if binders and isinstance(e, Ref) else None
        match made or e:
            case Apply("prod", (x, Ref() as w)) if self.matrix(w):
                turned = False
            case Apply("prod", (x, Apply("T", (Ref() as w,)))) if self.matrix(w):
                turned = True
            case Apply("prod", (Ref() as w, x)) if self.matrix(w) and self.axes(x, env) == 1:
                turned = True
            case _:
                return None
        if not self.axes(x, env):
            return None
        letters = self.letters(w, env)
        bound = {b.index for b in binders}
        if letters is None or bound - set(letters) or not bound <= x.free:
            return None
        if (set(letters) - bound) & x.free or not any(y.key in self.varying for y in refs(x)):
            return None
        if made is not None:
            self.through |= e.keys
        inside = tuple(k for k, i in enumerate(letters) if i in bound)
        return Projection(x, w, Layer(len(letters), inside, turned), tuple(binders))

    def matrix(self, w: Ref) -> bool:
        """Whether a name is that of a matrix that is learned, or of a family of them."""
        p = self.parameters.get(w.key)
        return p is not None and not p.from_config and len(p.shape) == 2

    def width(self, p: Projection) -> Expr:
        """The number of outputs of each member of a family."""
        return self.parameters[p.w.key].shape[0 if p.layer.turned else 1]

    def letters(self, w: Ref, env: CodeEnv) -> list[str] | None:
        """The letters of a whole family; None if single members are read."""
        out = []
        for slot, i in zip(w.symbol.slots, w.index, strict=True):
            if slot in self.card.loop_letters:
                continue
            own, among = env.index.get(i.name) if isinstance(i, Idx) else None, env.index[slot]
            if not isinstance(own, CodeLetter) or not isinstance(among, CodeLetter):
                return None
            assert isinstance(i, Idx)
            same = self.lowering.same(own.first, among.first)
            if i.name in out or not same or not self.lowering.shapes.same(own.many, among.many):
                return None
            out.append(i.name)
        return out

    def axes(self, e: Expr, env: CodeEnv) -> int:
        """The number of axes of a formula on paper."""
        try:
            return len(self.lowering.type(e, env).shape)
        except VieteError:
            return 0


def opened_call(lowering: Lowering, e: Apply) -> Expr | None:
    """A call whose function multiplies by a matrix of parameters that is given to it, opened.

    Inside a Python function it would be an array, and no layer.
    """
    card = lowering.card
    function = card.function.get(e.op)
    if function is None or lowering.dialect.form(e.op) or lowering.dialect.by_hand(e.op):
        return None
    given = {a.symbol.key: x for a, x in zip(function.arguments, e.args, strict=False)}
    body = function.body
    if not {x.key for x in refs(body)} <= given.keys():
        return None
    parameters = {p.name for p in card.parameters if len(p.shape) == 2 and not p.from_config}
    for x in walk(body):
        match x:
            case Apply("prod", (_, Ref() as w)):
                matrix = given[w.key]
                if isinstance(matrix, Ref) and matrix.key in parameters:
                    return card.substitute(body, arguments=given)
    return None
