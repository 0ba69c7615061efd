"""Well-formedness: the checks that the result of every rewriting must pass.

A card that was read passes them already, since its formulas are parsed against its declarations. A
rewriting makes formulas from formulas, and these are checked here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from viete.analysis.shapes import shapes_of
from viete.errors import Text
from viete.graph.card import CardData
from viete.library.functions import Function
from viete.notation.printer import INFIX, show
from viete.notation.symbols import PRIMITIVES
from viete.notation.tree import CALL, WITH, Apply, Expr, Idx, Ref, Symbol

# Operations that have a sign and no name, by how many arguments they take.
SIGNS = dict.fromkeys(INFIX, 2) | {
    "prod": 2,
    "pow": 2,
    "neg": 1,
    "not": 1,
    "T": 1,
    "pi": 0,
    "inf": 0,
}


def check_well_formed(card: CardData) -> None:
    """Check that names are declared once, used as declared, and not unbound.

    Raises VieteError that says which formula is wrong, and why; also for errors of shapes and of
    the order of equations.
    """
    for source, why in faults(card):
        raise source.error(why)
    shapes_of(card)


def faults(card: CardData) -> Iterator[tuple[Text, str]]:
    """The faults of a card, each with its place in the text."""
    declared: dict[str, list[Symbol]] = {}
    symbols = [d.symbol for d in card.dims]
    symbols += [i.symbol for i in card.inputs] + [p.symbol for p in card.parameters]
    for symbol in symbols:
        declared.setdefault(symbol.key, []).append(symbol)
    for name, found in declared.items():
        if len(found) > 1:
            yield Text(name), f"{name} is declared twice"
    for e in (*card.equations, *card.derived):
        if all(s.kind != "value" for s in declared.get(e.name, ())):
            declared.setdefault(e.name, []).append(e.left.symbol)
    for o in card.operators:
        declared.setdefault(o.name, []).append(o.symbol)
    letters = {i.name for i in card.indices} | card.loop_letters
    own_names = {f.name for f in card.functions}
    before = {n: f for n, f in card.function.items() if n not in own_names}
    for f in card.functions:
        own = [a.symbol for a in f.arguments] + [s for a in f.arguments for s in a.pattern]
        known = {d.name: [d.symbol] for d in card.dims} | {s.key: [s] for s in own}
        yield from parts(f.text, f.body, known, letters, before)
        before[f.name] = f  # a function is made of those before it
    for e in (*card.equations, *card.derived):
        for x in (e.left, e.right):
            yield from parts(e.text, x, declared, letters, card.function)
    for o in card.operators:
        given = {a.symbol.key: [a.symbol] for a in o.arguments}
        yield from parts(o.text, o.definition, declared | given, letters, card.function)
    for c in card.claims:
        for x in c.formulas:
            yield from parts(c.text, x, declared, letters | c.free, card.function)


def parts(
    source: Text, e: Expr, declared: dict[str, list[Symbol]], letters: Collection[str],
    functions: dict[str, Function],
) -> Iterator[tuple[Text, str]]:  # fmt: skip
    """The faults of a formula, under binders of ``letters``."""
    match e:
        case Ref(symbol):
            if all(s != symbol or s.kind != symbol.kind for s in declared.get(e.key, ())):
                yield source, f"{e.key} is no {symbol.kind} that is declared"
            if len(e.index) != len(symbol.slots):
                yield source, f"{e.key} has {len(e.index)} of {len(symbol.slots)} indices"
        case Idx(name) if name not in letters:
            yield source, f"{name} is bound by nothing"
        case Apply(op, args):
            signature = functions[op].signature if op in functions else PRIMITIVES.get(op)
            least, most = (SIGNS.get(op),) * 2
            if op in (CALL, WITH):
                least, most = (2, None) if op == CALL else (3, None)
            if signature is not None:
                least, most = signature.least, signature.most
            if least is None:
                yield source, f"{op} is not an operation"
            elif len(args) < least or (most is not None and len(args) > most):
                yield source, f"{op} has {len(args)} arguments"
    for x in e.children[:-1]:
        yield from parts(source, x, declared, letters, functions)
    for x in e.children[-1:]:  # what a binder binds
        if hidden := x.plain.intersection(e.bound):
            yield source, f"{show(e)} binds {min(hidden)}, which is a name in it"
        yield from parts(source, x, declared, {*letters, *e.bound}, functions)
