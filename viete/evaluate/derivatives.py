"""Derivatives in questions: ``∂(logits_{-1,5})/∂x^3``, of any number with respect to any value.

The card's backward equations are derived for that number. Only those that the question needs are
run, on the values of the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from viete.errors import Text, VieteError
from viete.evaluate.origins import Origin, whole_names
from viete.evaluate.queries import query
from viete.evaluate.schedule import Program, program
from viete.graph.card import CardData, Input, memoised
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, rebuilt, replaced, transform, walk
from viete.rewrite.adjoint.grad import grad
from viete.rewrite.adjoint.shares import partial
from viete.rewrite.opening import underived

if TYPE_CHECKING:
    from viete.evaluate.run import Run

SIGN = "partial"  # what ∂ is in the tree of a question


def differentiates(e: Expr) -> bool:
    """Whether a formula applies ∂ to something other than a derivative that the card defines."""
    return any(isinstance(x, Apply) and x.op == SIGN for x in walk(e))


def derivatives(run: Run, source: Text, e: Expr) -> tuple[Run, Expr]:
    """A question with a name for each derivative in it, and a run that has these names.

    Raises VieteError for a ∂ without a numerator or denominator, for a numerator that is not one
    number, and for a denominator that no equation makes.
    """
    card, e = run.program.model, of_metric(run, e)
    origins = {name: Origin(run, name, {}) for name in whole_names(card)}
    inputs: list[Input] = []

    def rule(x: Expr) -> Expr | None:
        of, by = quotient(x)
        if of is None or by is None:
            return None
        value = aliased(card, by.value if isinstance(by, Pick) else by)
        if value is None:
            raise source.error(
                "a derivative is taken with respect to a value that an equation computes, as in "
                "∂(…)/∂x^3, and "
                f"{show(by)} is not one", *source.place(by),
            )  # fmt: skip
        if loose := sorted(of.free):
            raise source.error(
                f"{show(of)} is one number for each {' and '.join(loose)}, and a derivative is of "
                f"one number: give {loose[0]} a number, or sum over it", *source.place(of),
            )  # fmt: skip
        again = not of.keys.isdisjoint(i.name for i in inputs)
        if again or run.interventions:
            why = "a derivative" if again else "a run with replaced values"
            raise source.error(f"derivatives of {why} are not supported", *source.place(x))
        symbol = replace(value.symbol, base=f"{SIGN}{{{value.symbol.base}:{len(inputs)}}}",
                         kind="input")  # fmt: skip
        if any(isinstance(x, Bind) and x.ranges is None for x in walk(of)):
            of = query(run, of, source).formula  # which has the bounds of all its letters
        inner, shape = backward(run, source, of, value)
        inputs.append(Input(symbol, shape))
        origins[symbol.key] = Origin(inner, partial(value.symbol).key, {})
        name = Ref(symbol, value.index)
        return replaced(by, {by.value: name}) if isinstance(by, Pick) else name

    e = transform(e, rule)
    if differentiates(e):
        raise source.error(
            "write a derivative as a quotient, as in ∂(logits_{-1,5})/∂x^3: a number in "
            "parentheses above, a value below; ∂x^3 alone needs of=, the number to differentiate"
        )
    ready = Program(replace(card, inputs=(*card.inputs, *inputs)).unstated)
    return run.extended(ready, run.sizes, {}, origins), e


def of_metric(run: Run, e: Expr) -> Expr:
    """A formula in which each ∂ outside a quotient becomes a derivative of the run's own number."""
    above, below = quotient(e)
    if not run.metric or (above is not None and below is not None):
        return e
    if isinstance(e, Apply) and e.op == SIGN:
        (by,) = e.args
        value = aliased(run.program.model, by.value if isinstance(by, Pick) else by)
        of = None if value is None else run.metric.get(value.key)
        return e if of is None else Apply("div", (Apply(SIGN, (of,)), e))
    return rebuilt(e, [of_metric(run, x) for x in e.children])


def backward(
    run: Run, source: Text, of: Expr, by: Ref
) -> tuple[Run, tuple[Expr, ...]]:  # fmt: skip
    """A run of a number's backward equations, and the shape of its derivative in a value."""
    card = run.program.model
    try:
        back = differentiated(card, of)
    except VieteError as error:
        raise source.error(error.message, *source.place(of)) from None
    key, ready = partial(by.symbol).key, program(back)
    if key not in ready.shapes.types:
        raise source.error(
            f"there is no derivative of {show(of)} with respect to {show(by)}: no equation leads "
            f"from one to the other", *source.place(of),
        )  # fmt: skip
    # A dimension may be renamed there if a value has the same name.
    names = {a.name: b.name for a, b in zip(card.dims, back.dims, strict=False)}
    sizes = {names[name]: n for name, n in run.sizes.items()}
    origins = {name: Origin(run, name, {}) for name in whole_names(card)}
    shape = tuple(map(card.size_expr, run.program.shapes.types[by.key].shape))
    return run.extended(ready.at(sizes), sizes, {}, origins), shape


@memoised
def differentiated(card: CardData, of: Expr) -> CardData:
    """The card with a number's backward equations, for all weights and real inputs."""
    of = underived(card, of)
    real = [i.name for i in card.inputs if i.high is None]
    return grad(card, of, [*(p.name for p in card.parameters), *real])


def quotient(x: Expr) -> tuple[Expr | None, Expr | None]:
    """The numerator and denominator of a derivative; None twice for any other formula."""
    match x:
        case Apply("div", (Apply(a, (of,)), Apply(b, (by,)))) if a == b == SIGN:
            return of, by
        case Apply("div", (Apply(a, (of,)), below)) if a == SIGN:
            return of, bare(below)
        case Apply("div", (above, Apply(b, (by,)))) if b == SIGN:
            return bare(above), by
    return None, None


def bare(e: Expr) -> Expr | None:
    """X of a ``∂X`` that the card names, or of a row or an entry of ``∂X``."""
    if isinstance(e, Pick) and (value := bare(e.value)) is not None:
        return replaced(e, {e.value: value})
    if isinstance(e, Ref) and e.symbol.is_partial:
        return Ref(replace(e.symbol, base=e.symbol.base[len(SIGN) + 1 : -1]), e.index)
    return None


def aliased(card: CardData, e: Expr) -> Ref | None:
    """The value that a name stands for, through derived names that are only aliases."""
    derived = {d.name: d for d in card.derived}
    while isinstance(e, Ref) and e.key in derived:
        definition = derived[e.key]
        at = dict(zip(definition.left.symbol.slots, e.index, strict=True))
        e = card.substitute(definition.right, letters=at)
    made = isinstance(e, Ref) and e.symbol.kind in ("value", "parameter", "input")
    return e if made and isinstance(e, Ref) else None
