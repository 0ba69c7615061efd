"""Folding weights: rewritings of a card that keep what it computes.

Each gives a card with fewer or simpler weights, and says how these are computed from the old ones:
``W_Q = (γ_A ⊙ W_Q^T)^T``. The logits stay the same; if the unembedding is centred, the
probabilities do. A rewriting that would change them is refused, with the equation named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from viete.analysis.def_use import lone
from viete.analysis.next_token import scores
from viete.errors import VieteError
from viete.graph.card import CardData, Equation
from viete.graph.dependence import greatest
from viete.library.functions import inlined, with_defaults
from viete.notation.printer import show, show_equation
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, num, refs, replaced, transform, walk
from viete.rewrite.lifting import again
from viete.rewrite.reparametrization import Folding, Work, is_parameter

NORMS = ("LN", "RMSNorm")
BLIND_TO_A_CONSTANT = ("softmax", "logsoftmax", "cross_entropy", "weighted_loss", "argmax")


def fold_norms(card: CardData) -> Folding:
    """Put the scale γ and the shift β of norms into the weights that follow them.

    ``LN(x; γ, β, ε) W + b`` is ``LN(x; 1, 0, ε) (diag(γ) W) + (b + β W)``. This is done for every
    norm that is only read in such products. The output of layer norm adds up to 0, so that the mean
    of each column of the new matrix has no effect: it is subtracted. Raises VieteError where the
    card has no such norm.
    """
    work = Work(card)
    for k in range(len(card.equations)):
        for norm in list(norms_in(work, work.equations[k].right)):
            fold_norm(work, k, norm)
    if not work.made:
        raise VieteError(f"{card.title} has no norm whose scale or shift only matrices read")
    return work.folding("Its norms are folded into the weights that follow them.")


def center_stream(card: CardData) -> Folding:
    """Subtract the mean from every row of a weight that writes to the residual stream.

    Layer norm subtracts the mean anyway. Raises VieteError where the stream is read in another way:
    by RMSNorm, or directly.
    """
    work = Work(card)
    blind = blind_values(work)
    stream = [k for k, e in enumerate(work.equations) if e.name in blind]
    if not stream:
        raise VieteError(f"the stream of {card.title} cannot be centred: {reader_of_mean(work)}")
    for k in stream:
        terms = [t for t in summands(work.equations[k].right) if lone(t) is None]
        for term in terms:
            for ref in weights_of(term):
                work.untie(ref)
                work.change(k, term, ref, Apply("sub", (ref, Apply("mean", (ref,)))))
    if not work.made:
        raise VieteError(f"the stream of {card.title} is not written to by weights")
    return work.folding("What it writes to the stream is centred.")


def center_unembedding(card: CardData) -> Folding:
    """Subtract the mean over tokens from their scores: probabilities do not change.

    Raises VieteError where scores are not ``r W`` or ``r W + b``, or are read other than by
    softmax.
    """
    work = Work(card)
    k = next(k for k, e in enumerate(work.equations) if e.name == scores(card))
    equation = work.equations[k]
    right, bias = equation.right, None
    if isinstance(right, Apply) and right.op == "add":
        right, bias = right.args
    if (
        not isinstance(right, Apply) or right.op != "prod" or not of_weights(right.args[1])
        or not (bias is None or is_parameter(bias))
    ):  # fmt: skip
        raise VieteError(
            f"the unembedding of {card.title} cannot be centred: the logits are not a product "
            f"with it, {equation_text(equation)}"
        )
    for e in work.equations:
        for parent, ref in parents(e.right):
            blind = card.library_name(parent) in BLIND_TO_A_CONSTANT
            if ref.key == equation.name and not blind:
                raise VieteError(
                    f"the unembedding of {card.title} cannot be centred: {equation_text(e)} sees a "
                    f"constant that is added to all scores"
                )
    for part in (right.args[1], *(() if bias is None else (bias,))):
        work.change(k, part, part, Apply("sub", (part, Apply("mean", (part,)))))
    return work.folding("Its unembedding is centred.")


def fold_value_biases(card: CardData) -> Folding:
    """Put the biases of values into attention's output bias: rows of a softmax add up to 1.

    Raises VieteError where values have no bias, or are read other than as ``A V W_O``.
    """
    work = Work(card)
    found = [
        (k, e.right.args[1]) for k, e in enumerate(work.equations)
        if isinstance(e.right, Apply) and e.right.op == "add" and is_parameter(e.right.args[1])
        and averaged(work, e.left)
    ]  # fmt: skip
    if not found:
        raise VieteError(f"{card.title} has no value biases that attention only averages")
    for k, bias in found:
        value = work.equations[k]
        assert isinstance(bias, Ref) and isinstance(value.right, Apply)
        work.equations[k] = again(value, value.left, value.right.args[0])
        for j, e in enumerate(work.equations):
            for term in summands(e.right):
                inner = unbound(term)
                if matches_mean(inner, value.left):
                    assert isinstance(inner, Apply)
                    added = replaced(term, {inner: Apply("prod", (bias, inner.args[1]))})
                    weight = inner.args[1]
                    assert isinstance(weight, Ref)
                    work.add_bias(j, term, weight, added)
    return work.folding("The biases of its values are folded into those of its attention.")


def folded(card: CardData, wanted: Mapping[str, bool | None] | None = None) -> list[Folding]:
    """All rewritings in `STEPS`, one after the other, each of the card that the last one gave.

    In ``wanted``, False leaves a step out and True insists on it; otherwise steps that would change
    the result are left out.
    """
    out: list[Folding] = []
    for name, step in STEPS.items():
        said = (wanted or {}).get(name)
        if said is False:
            continue
        try:
            out.append(step(out[-1].model if out else card))
        except VieteError:
            if said:
                raise
    return out


# -- norms -----------------------------------------------------------------------------------------


def norms_in(work: Work, e: Expr) -> Iterator[Apply]:
    """The norms in a formula whose scale or shift is made of parameters."""
    for x in walk(e):
        if isinstance(x, Apply) and work.model.library_name(x) in NORMS:
            scale, shift = parts(work, x)
            if (scale, shift) != (num(1), num(0)) and of_weights(scale) and of_weights(shift):
                yield x


def parts(work: Work, norm: Apply) -> tuple[Expr, Expr]:
    """γ and β of a norm."""
    args = with_defaults(norm, work.model.function)
    return args[1], args[2] if is_layer_norm(work, norm) else num(0)


def is_layer_norm(work: Work, x: Expr) -> bool:
    """Whether a formula is the norm that subtracts the mean."""
    return work.model.library_name(x) == "LN"


def unscaled(work: Work, norm: Apply) -> Expr:
    """The norm with a scale of 1 and a shift of 0."""
    args = with_defaults(norm, work.model.function)
    ones = (num(1), num(0)) if is_layer_norm(work, norm) else (num(1),)
    return Apply(norm.op, (args[0], *ones, args[-1]), 1)


def fold_norm(work: Work, k: int, norm: Apply) -> None:
    """Fold one norm of equation k, if only products with weights follow it."""
    equation = work.equations[k]
    alone = equation.right == norm
    name: Expr = equation.left if alone else norm
    if alone:
        with_definitions_of(work, equation.left)
    places = [k] if not alone else [j for j in range(len(work.equations)) if j != k]
    products: list[tuple[int, Apply]] = []
    for j in places:
        total = sum(mentions(x, name) for x in walk(work.equations[j].right))
        found = [x for x in walk(work.equations[j].right) if follows(x, name)]
        if total != len(found):
            return
        products += [(j, x) for x in found if isinstance(x, Apply)]
    scale, shift = parts(work, norm)
    letters = scale.free | shift.free  # a weight that all blocks share takes no block's scale
    if not products or not all(letters <= x.args[1].free for _, x in products):
        return
    for j, product in products:
        weight = product.args[1]
        rows: Expr = Apply("had", (scale, Apply("T", (weight,))))
        if is_layer_norm(work, norm):
            rows = Apply("sub", (rows, Apply("mean", (rows,))))
        scaled = Apply("T", (rows,))
        left = work.change(j, product, weight, scaled)
        if shift != num(0):
            beside = replace(product, args=(product.args[0], left))
            work.add_bias(j, beside, left, Apply("prod", (shift, weight)))
    work.equations[k] = again(
        equation, equation.left, replaced(work.equations[k].right, {norm: unscaled(work, norm)})
    )


def mentions(x: Expr, name: Expr) -> bool:
    """Whether a formula is the value ``name``, in any block."""
    return x == name or (isinstance(x, Ref) and isinstance(name, Ref) and x.key == name.key)


def follows(x: Expr, name: Expr) -> bool:
    """Whether a formula is ``name W`` for a weight W."""
    return isinstance(x, Apply) and x.op == "prod" and x.args[0] == name and of_weights(x.args[1])


def with_definitions_of(work: Work, name: Ref) -> None:
    """Write out functions of the value, such as ``SwiGLU(v; W, U)``."""
    for k, e in enumerate(work.equations):
        right = transform(e.right, lambda x: body_of(work.model, x, name))
        if right != e.right:
            work.equations[k] = again(e, e.left, work.model.apart(right))


def body_of(card: CardData, x: Expr, name: Ref) -> Expr | None:
    """The definition of a function applied to the value and to weights."""
    if not isinstance(x, Apply) or x.op not in card.function or name not in x.args:
        return None
    function = card.function[x.op]
    args = with_defaults(x, card.function)
    if any(a.pattern for a in function.arguments) or not any(is_parameter(a) for a in args):
        return None
    return inlined(x, card.function, taken=card.names)


# -- the stream ------------------------------------------------------------------------------------


def blind_values(work: Work) -> set[str]:
    """Values that only layer norm reads, or sums of which only layer norm reads."""
    read = {ref.key for e in work.equations for ref in other_reads(work, e)}

    def terms(name: str) -> Iterator[str]:
        totals = (x for e in work.equations if e.name == name for x in summands(e.right))
        return (t.key for t in map(lone, totals) if t is not None)

    return greatest(
        (e.name for e in work.equations), lambda key: key in read or not work.uses(key), terms
    )


def other_reads(work: Work, e: Equation) -> list[Ref]:
    """Values that an equation reads neither by layer norm nor as a term of its sum."""
    terms = [t for t in map(lone, summands(e.right)) if t is not None]
    normed = [
        x.args[0] for x in walk(e.right)
        if isinstance(x, Apply) and is_layer_norm(work, x)
    ]  # fmt: skip
    out = [x for x in refs(e.right) if x.symbol.kind == "value"]
    for x in (*terms, *normed):
        if isinstance(x, Ref) and x in out:
            out.remove(x)
    return out


def reader_of_mean(work: Work) -> str:
    """The equation that depends on the mean of the stream, in words."""
    sums = {
        t.key for e in work.equations for t in map(lone, summands(e.right))
        if t is not None and len(summands(e.right)) > 1
    }  # fmt: skip
    for e in work.equations:
        for ref in other_reads(work, e):
            if ref.key in sums:
                return f"{equation_text(e)} sees the mean of {show(ref, 'unicode')}"
    return "nothing that it adds up is read by layer norm"


def summands(e: Expr) -> list[Expr]:
    """The terms of a sum, without their signs."""
    if isinstance(e, Apply) and e.op in ("add", "sub"):
        return [*summands(e.args[0]), *summands(e.args[1])]
    if isinstance(e, Apply) and e.op == "neg":
        return summands(e.args[0])
    return [e]


def weights_of(term: Expr) -> list[Ref]:
    """The weight whose rows make a term of the stream; empty if the term has another form."""
    match term:
        case Ref() if term.symbol.kind == "parameter":
            return [term]
        case Pick(Ref() as ref, (_,)) if ref.symbol.kind == "parameter":
            return [ref]
        case Apply("times" | "prod" | "had", (a, b)) if a.constant:
            return weights_of(b)
        case Apply("prod", (_, Ref() as ref)) if ref.symbol.kind == "parameter":
            return [ref]
        case Bind("sum", body=body):
            return weights_of(body)
    return []


# -- values of attention ---------------------------------------------------------------------------


def averaged(work: Work, value: Ref) -> bool:
    """Whether every use of a value is ``A V W``, where A is a softmax."""
    found = 0
    for e in work.equations:
        total = sum(mentions(x, value) for x in walk(e.right))
        for term in summands(e.right):
            inner = unbound(term)
            if matches_mean(inner, value) and softmaxed(work, inner):
                found, total = found + 1, total - 1
        if total:
            return False
    return found > 0


def matches_mean(e: Expr, value: Ref) -> bool:
    """Whether a formula is ``A V W`` with a weight W."""
    match e:
        case Apply("prod", (Apply("prod", (Ref(), x)), Ref() as weight)):
            return x == value and weight.symbol.kind == "parameter"
    return False


def softmaxed(work: Work, e: Expr) -> bool:
    """Whether the rows of A in ``A V W`` add up to 1."""
    pattern = next(refs(e))
    return any(
        q.name == pattern.key and work.model.library_name(q.right) == "softmax"
        for q in work.equations
    )


def unbound(e: Expr) -> Expr:
    """The formula below the sums over heads."""
    while isinstance(e, Bind) and e.op == "sum":
        e = e.body
    return e


# -- formulas --------------------------------------------------------------------------------------


def of_weights(e: Expr) -> bool:
    """Whether a formula contains only numbers, dimensions and parameters."""
    return e.made_of <= {"dim", "parameter", "index"}


def parents(e: Expr) -> Iterator[tuple[Expr, Ref]]:
    """Every name in a formula, with the operation around it."""
    for x in walk(e):
        for child in x.children:
            if isinstance(child, Ref):
                yield x, child
    if isinstance(e, Ref):
        yield e, e


def equation_text(e: Equation) -> str:
    return show_equation(e.left, e.right, "unicode")


STEPS: Mapping[str, Callable[[CardData], Folding]] = {
    "fold_ln": fold_norms,
    "center_writing_weights": center_stream,
    "center_unembed": center_unembedding,
    "fold_value_biases": fold_value_biases,
}

__all__ = [
    "STEPS", "Folding", "center_stream", "center_unembedding", "fold_norms", "fold_value_biases",
    "folded",
]  # fmt: skip
