"""Law 8: names do not matter.

Renaming a card's functions, bound letters or values changes no meaning and no rewriting, whatever
the new names mean in the library or to a rewriting; and every result is read back from its print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import Card, cards, random_inputs, random_weights, shipped, tiny
from tests.laws.test_incremental import check as check_incremental
from viete import read
from viete.analysis.next_token import text_of
from viete.analysis.roles import roles
from viete.errors import Text
from viete.graph.operator import Operator
from viete.library.functions import Function, behind, library, parse_function
from viete.model.names import Names
from viete.notation.tree import Apply, Bind, Expr, Idx, Ref, Symbol, Table, transform
from viete.nouns.model import reweighted
from viete.rewrite.folding import folded
from viete.rewrite.incremental import incremental

CARD = """# Law

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 7 |
| $d$ | 4 |
| $k$ | 2 |
| $N$ | 2 |
| $n$ | $≤ 6$ |
| $h$ | $1, …, 2$ |

## Inputs

- $t ∈ \\{0, …, V - 1\\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W_P$ | $6 × d$ |
| $γ^i$ | $d$ |
| $W_Q^{i,h}$ | $d × k$ |
| $W_K^{i,h}$ | $d × k$ |
| $W_V^{i,h}$ | $d × k$ |
| $W_O^{i,h}$ | $k × d$ |
| $W_1^i$ | $d × d$ |
| $W_U$ | $d × V$ |

## Functions

- $bump(z; s = 1/2) = z ⊙ exp(-s * z^2)$
- $twice(z: m) = table_{j<m}(2 * z_j)$
- $mixed(A: r × c; B: c × w) = table_{j<r, p<w}(\\sum_{e=0}^{c - 1} (A_{j,e} * bump(B_{e,p})))$

## Forward pass

1. $x^0 = E[t] + W_P[:n]$

For $i = 1, …, N$:

2. $u^i = LN(x^{i-1}; γ^i, 0, 1e-5)$
3. $Q^{i,h} = u^i W_Q^{i,h}$
4. $K^{i,h} = u^i W_K^{i,h}$
5. $S^{i,h} = u^i W_V^{i,h}$
6. $A^{i,h} = softmax(causal(Q^{i,h} {K^{i,h}}^⊤ / sqrt(k)))$
7. $y^i = x^{i-1} + \\sum_h A^{i,h} S^{i,h} W_O^{i,h}$
8. $f^i = table_{j<n, c<d}(twice(bump(y^i_j))_c)$
9. $x^i = y^i + mixed(f^i; W_1^i) + \\sum_{e=1}^{2} (A^{i,e} S^{i,e} W_O^{i,e}) / 3$

10. $r = x^N$
11. $logits = r W_U$
12. $L = cross_entropy(logits; t)$

## Derived

- $Δx^i = x^i - x^{i-1}$
- $resid_{post}^i = x^i$
- $B_i(z) = x^i with x^{i-1} = z$
- $M^i(z) = x^i - y^i with y^i = z$
"""
# What rewritings emit or ask for, what binds nothing here, and letters that rewritings bind.
FUNCTIONS = """stack written unpadded counted onehot gathered part placed spread softmax LN causal
std var visible cross_entropy weighted_loss column dropout RMSNorm GELU j v p q""".split()
LETTERS = "j k v c d V n t E r L u w p q a b".split()
VALUES = "V stack part unpadded placed G F J q m a p b v j spread c gathered".split()


@dataclass(frozen=True)
class Renaming:
    """New names of functions and of values' bases; ``seed`` draws the letters of binders."""

    functions: Mapping[str, str]
    values: Mapping[str, str]
    seed: int

    def of(self, model: vt.Card) -> vt.Card:
        """The same card with other names."""
        rng = Random(self.seed)
        bases = set(self.values.values())
        hidden: set[str] = set()

        def put(e: Expr, hidden: set[str]) -> Expr:
            """A formula in which ``hidden`` names do not mean the library's functions any more."""

            def rule(x: Expr) -> Expr | None:
                match x:
                    case Apply(op) if op in self.functions:
                        return replace(x, op=self.functions[op])
                    case Apply(op) if op in hidden and op in library():
                        return replace(x, op=behind(op))
                    case Ref() if x.symbol.kind in ("value", "function"):
                        return replace(x, symbol=self.symbol(x.symbol))
                return None

            return transform(e, rule)

        called = {*(self.functions.get(f.name, f.name) for f in model.functions), *library()}
        blocks = model.loop_letters  # of which a sum over blocks must be
        functions: list[Function] = []
        for f in model.functions:
            new = relettered(put(f.body, hidden), rng, called, blocks)
            functions.append(replace(f, name=self.functions.get(f.name, f.name), body=new))
            hidden.add(functions[-1].name)
        every = hidden | bases

        def formula(e: Expr) -> Expr:
            return relettered(put(e, every), rng, called, blocks)

        def equation(e: Any) -> Any:
            left = replace(e.left, symbol=self.symbol(e.left.symbol))
            return replace(e, left=left, right=formula(e.right))

        def operator(o: Operator) -> Operator:
            return replace(o, symbol=self.symbol(o.symbol), definition=formula(o.definition))

        return replace(
            model, functions=tuple(functions), operators=tuple(map(operator, model.operators)),
            equations=tuple(map(equation, model.equations)),
            derived=tuple(map(equation, model.derived)),
            claims=tuple(replace(c, statement=formula(c.statement)) for c in model.claims),
        )  # fmt: skip

    def symbol(self, symbol: Symbol) -> Symbol:
        return replace(symbol, base=self.values.get(symbol.base, symbol.base))

    def name(self, name: str) -> str:
        """A value's name as the renamed card has it."""
        base, sign, rest = name.partition("^")
        return self.values.get(base, base) + sign + rest


def relettered(
    e: Expr, rng: Random, avoid: set[str], blocks: frozenset[str],
    around: frozenset[str] = frozenset(),
) -> Expr:  # fmt: skip
    """A formula with other letters for its binders, none of which hides what stands in them."""

    def go(x: Expr) -> Expr:
        return relettered(x, rng, avoid, blocks, around)

    def letters(own: list[str], body: Expr) -> list[str]:
        if blocks.issuperset(own):
            return own
        used = (body.free - {*own}) | around
        used |= body.plain | body.binders
        free = [x for x in LETTERS if x not in used | avoid]
        return rng.sample(free, len(own))

    def within(own: list[str], new: list[str], body: Expr) -> Expr:
        at = dict(zip(own, new, strict=True))
        body = transform(body, lambda x: Idx(at[x.name]) if isinstance(x, Idx) and x.name in at
                         else None)  # fmt: skip
        return relettered(body, rng, avoid, blocks, around.union(new))

    match e:
        case Bind() if e.lower is not None and e.upper is not None:
            (new,) = letters([e.index], e.body)
            body = within([e.index], [new], e.body)
            return replace(e, index=new, lower=go(e.lower), upper=go(e.upper), body=body)
        case Bind():
            return replace(e, body=relettered(e.body, rng, avoid, blocks, around | {e.index}))
        case Table():
            own = [i for i, _ in e.ranges]
            new = letters(own, e.body)
            sizes = [go(s) for _, s in e.ranges]
            body = within(own, new, e.body)
            return replace(e, ranges=tuple(zip(new, sizes, strict=True)), body=body)
        case Apply():
            return replace(e, args=tuple(map(go, e.args)))
        case Ref():
            return replace(e, index=tuple(map(go, e.index)))
    if hasattr(e, "value") and hasattr(e, "items"):
        return replace(e, value=go(e.value), items=tuple(map(go, e.items)))
    return e


@st.composite
def renamings(draw: st.DrawFn, model: vt.Card, free: tuple[str, ...] = ("V",)) -> Renaming:
    """New names; of a dimension's those alone that no equation needs."""
    rng = Random(draw(st.integers(0, 2**20)))
    dims = {d.name for d in model.dims}
    own = [f.name for f in model.functions]
    functions = dict(zip(own, rng.sample(FUNCTIONS, len(own)), strict=True))
    bases = sorted({e.left.symbol.base for e in model.equations})
    taken = {s.base for s in model.symbols.values()} | model.scope.indices | {*functions.values()}
    pool = [x for x in VALUES if (x in free and x in dims) or x not in taken]
    some = rng.sample(bases, min(len(bases), 3, len(pool)))
    return Renaming(functions, dict(zip(some, rng.sample(pool, len(some)), strict=True)),
                    rng.randrange(2**20))  # fmt: skip


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-11)


def again(model: vt.Card) -> vt.Card:
    """A model read back from its print, which must be itself."""
    back = read(model.write())
    assert back == model
    return back


# What is held to the law: the card, the renaming, the renamed card, weights and inputs ------------


def runs(old: vt.Card, by: Renaming, new: vt.Card, weights: Any, inputs: Any) -> None:
    a, b = (m.run(None, weights, **inputs) for m in (old, new))
    for e in old.equations:
        if not e.left.symbol.slots:
            same(a[e.name], b[by.name(e.name)])
    if old.operators:  # blocks as functions of another stream, and of rows
        stream = np.asarray(a["x^1"])[::-1]
        for question in ("(B_2 ∘ B_1)(own)", "M^2(own)"):
            renamed = question.replace("M", by.name("M"))
            same(a.ask(question, own=stream), b.ask(renamed, own=stream))


def grads(old: vt.Card, by: Renaming, new: vt.Card, weights: Any, inputs: Any) -> None:
    a = old.grad().run(None, weights, **inputs)
    b = again(new.grad()).run(None, weights, **inputs)
    for name in weights:
        same(a["∂" + name], b["∂" + name])


def plans(old: vt.Card, by: Renaming, new: vt.Card, weights: Any, inputs: Any) -> None:
    batch = {k: np.asarray(v)[None] for k, v in inputs.items()}
    a, b = (m.planned(weights) for m in (old, new))
    same(a(None, **batch), b(None, **batch))
    for name in weights:
        same(a.gradients[name], b.gradients[name])


def pieces(old: vt.Card, by: Renaming, new: vt.Card, weights: Any, inputs: Any) -> None:
    for fixed in (False, True):
        again(incremental(new, by.values.get("logits", "logits"), fixed))
    longest = np.asarray(inputs[text_of(new).name]).shape[-1]
    check_incremental(new, weights, inputs, [0, 2, longest])


def padding(old: vt.Card, by: Renaming, new: vt.Card, weights: Any, inputs: Any) -> None:
    tokens = np.asarray(inputs["t"])
    a = np.array([1, 1, 1, 0, 0])[: len(tokens)]
    first, second = old.padded(), again(new.padded())
    mask = [m.inputs[-1].name for m in (first, second)]
    one = first.run(None, weights, t=tokens, **{mask[0]: a})["logits"]
    two = second.run(None, weights, t=tokens, **{mask[1]: a})[by.name("logits")]
    same(one[a == 1], two[a == 1])


def foldings(old: vt.Card, by: Renaming, new: vt.Card, weights: Any, inputs: Any) -> None:
    a, b = folded(old), folded(new)
    assert [{p.name for p in f.model.parameters} for f in a] == [
        {p.name for p in f.model.parameters} for f in b
    ]
    arrays = weights
    for f in b:
        arrays = reweighted(f, arrays)
    last = again(b[-1].model) if b else new
    found = np.asarray(last.run(None, arrays, **inputs)[by.name("logits")])
    true = np.asarray(old.run(None, weights, **inputs)["logits"])
    same(*(x - x.mean(-1, keepdims=True) for x in (found, true)))


def exports(old: vt.Card, by: Renaming, new: vt.Card, weights: Any, inputs: Any) -> None:
    for to in ("numpy", "torch", "jax"):
        compile(new.export(to=to), to, "exec")


def names(old: vt.Card, by: Renaming, new: vt.Card, weights: Any, inputs: Any) -> None:
    """Names of the field are said of the card's values, so these keep their own."""
    assert list(Names(again(replace(by, values={}).of(old)))) == list(Names(old))


def recognised(old: vt.Card, by: Renaming, new: vt.Card, weights: Any, inputs: Any) -> None:
    assert roles(new) == roles(old)


WAYS = [runs, grads, plans, pieces, padding, foldings, exports, names, recognised]
MODEL = read(CARD)


@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
@settings(max_examples=4, deadline=None)
@given(st.data())
def test_names_do_not_matter(way: Callable[..., None], data: st.DataObject) -> None:
    by = data.draw(renamings(MODEL))
    weights, inputs = random_weights(MODEL, 1), random_inputs(MODEL, 2)
    way(MODEL, by, again(by.of(MODEL)), weights, inputs)


@settings(max_examples=8, deadline=None)
@given(cards(), st.data())
def test_random_cards(card: Card, data: st.DataObject) -> None:
    """Their letters and functions by other names; what they are is theirs and not their names'."""
    by = replace(data.draw(renamings(card.model)), values={})
    weights, inputs = random_weights(card.model, 1), random_inputs(card.model, 2, n=4)
    new = again(by.of(card.model))
    runs(card.model, by, new, weights, inputs)
    if card.causal:
        check_incremental(new, weights, inputs, [0, 1, 4])


OWN = "softmax LN RMSNorm causal stack written unpadded counted part gathered spread onehot".split()


@pytest.mark.parametrize("name", ["gpt2", "opt", "gemma2"])
def test_a_card_s_own_functions_are_no_rewriting_s(name: str) -> None:
    """Functions that nothing calls, of the names of all that rewritings do."""
    old = tiny(next(p for p in shipped() if Path(p).stem == name))
    functions = tuple(parse_function(Text(f"{f}(z) = z / 3"), {}) for f in OWN)
    new = Renaming({}, {}, 0).of(replace(old, functions=(*old.functions, *functions)))
    assert again(new).function["softmax"].body != library()["softmax"].body
    weights, inputs = random_weights(old, 1), random_inputs(old, 2)
    same(*(m.run(None, weights, **inputs)["logits"] for m in (old, new)))
    of = "cross_entropy(logits; t)"
    a = old.grad(of).run(None, weights, **inputs)
    b = again(new.grad(of))
    found = b.run(None, weights, **inputs)
    for key in weights:
        same(a["∂" + key], found["∂" + key])
    padding(old, Renaming({}, {}, 0), new, weights, inputs)
    check_incremental(new, weights, inputs, [0, 2, 5])


def test_a_value_that_a_rewriting_leaves_out_hides_no_function_in_what_it_wrote() -> None:
    """The cache needs no ``stack``, and calls the function of the library that it hid."""
    more = "13. $stack = r ⊙ r$\n"
    old = read(CARD.replace("\n## Derived", f"{more}\n## Derived"))
    found = incremental(old)
    assert read(found.write()).write() == found.write()
    check_incremental(old, random_weights(old, 1), random_inputs(old, 2), [0, 2, 5])
