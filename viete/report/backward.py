"""The backward pass as a lecture prints it: ∂L/∂X = …, each equation with its shape and reason."""

from __future__ import annotations

from collections.abc import Sequence

from viete.analysis.def_use import called
from viete.cards.writer import CardWriter
from viete.document.rendering import STYLES, check_format, render
from viete.document.tree import Block, heading, item, listed, paragraph
from viete.graph.card import CardData, Equation
from viete.notation.printer import printer, show, show_symbol
from viete.notation.tree import Apply, Ref, Symbol, walk
from viete.rewrite.adjoint import grad
from viete.rewrite.adjoint.grad import with_loss


def write_backward(
    card: CardData, form: str, of: str | None = None, by: Sequence[str] | None = None
) -> str:
    """The document of `backward` in one of `PAGES`."""
    check_format("a backward pass", form)
    return render(backward(card, of, by, STYLES[form]), form)


def backward(
    card: CardData, of: str | None = None, by: Sequence[str] | None = None, style: str = "latex"
) -> list[Block]:
    """The forward equations, followed by the backward ones with the numbers continued.

    ``of`` and ``by`` as `grad` takes them; formulas are in ``style`` between dollar signs. Raises
    VieteError as `grad` does.
    """
    card, loss = with_loss(card, of)
    whole = grad(card, show(loss), by)
    first = len(card.equations)
    write = CardWriter(whole, style, loss)
    out: list[Block] = [heading(1, f"{card.title}: backward pass")]
    out += [paragraph(p) for p in conventions(whole, loss, first, write)]
    out += [heading(2, "Equations"), *write.forward()]
    if functions := new_functions(whole, first):
        out += [heading(2, "Functions of the backward pass")]
        found = [whole.function[f] for f in functions]
        out += [item(write.math(write.function(f)), f.meaning) for f in found]
    return out


def conventions(card: CardData, loss: Ref, first: int, write: CardWriter) -> list[str]:
    """How to read the document: the quotients, the sums of rows, the helper names."""
    equations = card.equations[first:]
    p, dot = printer(write.style, loss), write.sign(".", r"\cdot", "·")
    d = p.show(Ref(Symbol("value", "partial{X}")))
    number = next(k for k, e in enumerate(card.equations, 1) if e.left == loss)
    out = [
        f"Equations 1 to {first} are the card's. The equations after them are the derivatives of "
        f"${write.e(loss)}$ (equation {number}), in the order in which they are computed. ${d}$ "
        f"has the shape of $X$: its entries are the derivatives with respect to the entries of "
        "$X$. What the forward pass repeats for every row, head or block, the backward pass sums."
    ]
    ops = {x.op for e in equations for x in walk(e.right) if isinstance(x, Apply)}
    if means := [f"${p.function(f)}({dot})$" for f in ("sum", "mean", "max") if f in ops]:
        verb = "give" if len(means) > 1 else "gives"
        out[0] += f" {listed(means)} of a matrix {verb} one number for each row."
    back, again, hats = helpers(equations)
    said = []
    if again:
        parts = of_many(again, "an unnamed part", "unnamed parts")
        said.append(f"{spread(again, write.style)} {parts} of the forward pass")
    if back:
        parts = of_many(back, "the derivative", "derivatives")
        those = "such parts" if again else "parts of the forward pass that have no name"
        said.append(
            f"{spread(back, write.style)} {parts} of ${write.e(loss)}$ with respect to {those}"
        )
    if hats:
        hat = show_symbol(hats[0].left.symbol, write.style)
        said.append(f"${hat}$ is the normalized value before its scale and shift")
    if said:
        out.append("; ".join(said) + ".")
    return out


def helpers(
    equations: Sequence[Equation],
) -> tuple[list[Equation], list[Equation], list[Equation]]:
    """Equations of unnamed derivatives, of unnamed parts of the forward pass, and of x̂."""
    derived: set[str] = set()
    found: tuple[list[Equation], ...] = [], [], []
    for e in equations:
        base = e.left.symbol.base
        late = any(k in derived or k.startswith("partial{") for k in e.reads)
        if late:
            derived.add(e.name)
        if base.startswith("hat{"):
            found[2].append(e)
        elif not base.startswith("partial{"):
            found[0 if late else 1].append(e)
    return found[0], found[1], found[2]


def spread(equations: Sequence[Equation], style: str) -> str:
    """``$G_1$, …, $G_8$`` without index letters."""
    bare = [Symbol("value", e.left.symbol.base, e.left.symbol.sub) for e in equations]
    shown = [f"${show_symbol(s, style)}$" for s in bare]
    return f"{shown[0]}, …, {shown[-1]}" if len(shown) > 2 else listed(shown)


def of_many(equations: Sequence[Equation], one: str, many: str) -> str:
    """``is a part`` or ``are parts``."""
    return f"are {many}" if len(equations) > 1 else f"is {one}"


def new_functions(card: CardData, first: int) -> list[str]:
    """Named functions in the backward equations that the forward ones do not use."""

    def names(equations: Sequence[Equation]) -> dict[str, None]:
        return dict.fromkeys(f.name for e in equations for f in called(card, e.right))

    before = names(card.equations[:first])
    return [f for f in names(card.equations[first:]) if f not in before]
