"""Why an equation is there and what it achieves: sentences for the roles that it plays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from viete.analysis import roles as role
from viete.analysis.def_use import def_use
from viete.analysis.roles import roles
from viete.analysis.traits import Traits
from viete.document.tree import capital, listed
from viete.graph.card import CardData, Equation, Loop
from viete.graph.dependence import functions_called
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Pick, Ref, Slice, walk
from viete.rewrite.adjoint.grad import forward_pass

Put = Callable[[Expr], Expr]


def unchanged(e: Expr) -> Expr:
    """A formula for any block."""
    return e


def places_of(card: CardData) -> dict[tuple[Ref, Loop | None], int]:
    """The place of each equation by what it makes."""
    return {(e.left, e.loop): k for k, e in enumerate(card.equations)}


class Reasons:
    """The reasons of one card's equations; formulas are in ``style``.

    Backward equations have no roles: they read values in other ways than the forward pass does.
    """

    def __init__(self, card: CardData, style: str) -> None:
        self.card, self.style = card, style
        self.forward = forward = forward_pass(card)
        self.uses, self.traits, self.all = def_use(forward), Traits(forward), roles(forward)
        self.ahead = places_of(forward)
        self.places = self.ahead if forward is card else places_of(card)

    def roles(self, e: Equation) -> tuple[str, ...]:
        k = self.ahead.get((e.left, e.loop))
        return () if k is None else self.all[k]

    def place(self, e: Equation) -> int:
        """The number of an equation in the card, also where a choice of its block is settled."""
        return self.places[e.left, e.loop]

    def reasons(self, e: Equation, found: str, at: Put = unchanged) -> Iterator[str]:
        """Sentences without their full stops, on one role of an equation.

        ``at`` inserts the number of its block.
        """
        match found:
            case role.EMBED:
                table = self.parameter(e, "token")
                yield (f"A model calculates with vectors, not with words. The table {table} holds "
                       "one vector, a row of numbers, for every token of the vocabulary. Each "
                       f"token of the text is replaced by its row{self.looked_up(e)}")  # fmt: skip
                yield "Training can give similar vectors to tokens that are used alike"
            case role.POSITIONS if table := self.parameter(e, "position"):
                yield from self.first_rows(e)
                yield (f"Row 0 of {table} is added at position 0, row 1 at position 1, and so on. "
                       "Without this, attention would see which tokens there are, but not in "
                       "which order")  # fmt: skip
            case role.POSITIONS:
                yield ("Numbers that depend only on the position are added. Without them, "
                       "attention would see which tokens there are, but not in which "
                       "order")  # fmt: skip
            case role.QUERY:
                yield ("Attention lets a position collect information from other positions. Its "
                       "query is a vector that says what it is looking for. Training finds the "
                       "matrix, and with it what to look for")  # fmt: skip
            case role.KEY:
                yield ("The key of a position is a vector that says what can be found there. "
                       "Every query will be compared with every key. Keys have a matrix of their "
                       "own, because what can be found at a position is not what the position is "
                       "looking for")  # fmt: skip
            case role.VALUE:
                yield ("The value of a position is the information that others get when they read "
                       "it. The key decides how much they read, the value decides what they "
                       "read")  # fmt: skip
            case role.TURN:
                yield ("The entries of each row are taken in pairs. Each pair is rotated, as a "
                       "point in the plane, by an angle that grows with the position. With the "
                       "cosine c and the sine s of the angle, a pair (a, b) becomes "
                       "(ac − bs, bc + as). At position 0 the angle is 0, so nothing changes. Each "
                       "pair rotates at its own speed" if self.rotates(e) else
                       "Each row is changed in a way that depends on its position")  # fmt: skip
                yield ("The score of a query and a key then depends on how far apart the two "
                       "positions are")  # fmt: skip
            case role.SCORES:
                yield ("The inner product of a query and a key says how well the two match: the "
                       "greater, the better. Row j holds the scores of position j, one for each "
                       "position that it could read")  # fmt: skip
                if width := self.divisor(e):
                    yield (f"Longer vectors have larger inner products. The division by {width} "
                           "makes up for that. Without it, softmax would put nearly all weight on "
                           "one position")  # fmt: skip
            case role.MASK:
                later = self.hides_later(e)
                if later:
                    yield ("A position predicts the next token, so it must not see that token or "
                           "any later one. The mask sets the scores of later positions to "
                           "−∞")  # fmt: skip
                else:
                    yield "The mask sets the scores of positions that may not be read to −∞"
                yield ("A score of −∞ becomes weight 0 after softmax, because exp(−∞) = 0. So "
                       f"{'later' if later else 'these'} positions have no influence")  # fmt: skip
            case role.WEIGHTS:
                yield ("Softmax turns each row of scores into weights: numbers of at least 0 that "
                       "sum to 1. The greater the score, the greater the weight. Weight k in row j "
                       "says how much position j reads from position k")  # fmt: skip
            case role.MIX:
                yield ("Each position now reads: it multiplies every value by its weight and adds "
                       "up the products. Here information moves from one position to "
                       "another")  # fmt: skip
            case role.OUTPUT:
                yield ("This matrix turns what attention has read into a vector that the next "
                       "steps can use")  # fmt: skip
            case role.NORM:
                yield from self.norm(e, at)
            case role.RESIDUAL:
                added, verb = capital(self.added(e)), "are" if " and " in self.added(e) else "is"
                kept = self.what_stays(e, at)
                yield f"{added} {verb} added to {kept}, and {kept} is kept"
                yield ("So nothing from before is lost, and each part of the model only has to "
                       "compute a change")  # fmt: skip
                yield "The sum is called the residual stream: every part reads it and adds to it"
            case role.MLP:
                yield (
                    "Attention has moved information between positions. The MLP (multi-layer "
                    "perceptron) now transforms each position on its own"
                    if self.after_mix(e)
                    else "The MLP (multi-layer perceptron) transforms each position on its own"
                )
                yield ("Between its matrices a function that is not linear acts on each entry. "
                       "Without it, several matrices could do no more than a single "
                       "one")  # fmt: skip
            case role.BACK:
                yield ("This matrix turns the result of the MLP into a vector of the model's "
                       "width, so that it can be added to the residual stream")  # fmt: skip
            case role.UNEMBED if not any(
                isinstance(x, Apply) and x.op == "prod" for x in walk(e.right)
            ) and (table := self.parameter(e, "token")):
                yield (f"Each token of the text looks up its row of the table {table}. The row has "
                       "a score for every token that may come next. Scores are called "
                       "logits")  # fmt: skip
            case role.UNEMBED:
                yield ("Each row is compared with one vector for every token of the vocabulary, by "
                       "an inner product. The results are scores, called logits. The greater the "
                       "score of a token, the more likely the model takes it to come "
                       "next")  # fmt: skip
                if table := self.parameter(e, "token"):
                    yield f"These vectors are the rows of {table} again"
            case role.PROBABILITIES:
                yield ("Softmax turns each row of scores into probabilities: positive numbers that "
                       "sum to 1")  # fmt: skip
            case role.ARGMAX:
                yield ("The model predicts the token with the greatest score. The result is the "
                       "number of that token, its place in the vocabulary")  # fmt: skip
            case role.LOSS:
                yield ("The loss says how wrong the predictions are. It is small where the token "
                       "that really comes next gets a high probability. Training changes the "
                       "weights to make the loss smaller")  # fmt: skip
            case role.PLACES:
                yield "Positions are looked up in a table: here each token gets its number"
            case role.COUNTED:
                yield "Only tokens that are marked with 1 get a number of their own"
            case role.PAIRS:
                yield ("A number is added to each score. It depends only on the two positions, so "
                       "that attention can tell near from far")  # fmt: skip
            case role.ROUTE:
                yield ("Several MLPs, called experts, stand side by side. These weights say how "
                       "much of the result of each expert a position uses")  # fmt: skip
            case role.SQUEEZE:
                yield "This function keeps large scores from growing without bound"
            case role.SHARE:
                yield "Each weight is divided by the sum of all, so that the weights sum to 1"
            case role.SIZE:
                yield "Each row is divided by this number, so that all rows have one size"
            case role.POOL:
                yield ("One vector is taken for the whole text. What the model says about the text "
                       "as a whole is computed from it")  # fmt: skip

    def outcome(self, e: Equation, at: Put) -> Iterator[str]:
        """The state after an equation, as sentences; ``at`` inserts the number of its block."""
        for found in self.roles(e):
            match found:
                case role.EMBED:
                    yield "Each token is now a vector."
                case role.POSITIONS:
                    yield "Each vector now also depends on its position."
                case role.MIX:
                    yield f"${show(at(e.left), self.style)}$ holds what each position has read."
                case role.RESIDUAL:
                    kept = self.what_stays(e, at)
                    yield f"The residual stream is now {kept} plus {self.added(e)}."
                case role.NORM:
                    yield "All rows have the same size again."
                case role.MLP:
                    yield "The MLP has transformed each position on its own."
                case role.UNEMBED:
                    yield "Each position now has a score for every token."

    # -- facts -------------------------------------------------------------------------------------

    def norm(self, e: Equation, at: Put) -> Iterator[str]:
        """The effect of a norm on a row, and the learned numbers that it uses."""
        calls = [x for x in walk(e.right) if isinstance(x, Apply) and x.op in self.card.function]
        centred = any(
            isinstance(x, Apply) and x.op == "sub"
            and any(isinstance(y, Apply) and y.op == "mean" for y in walk(x.args[1]))
            for call in calls for x in walk(self.card.function[call.op].body)
        )  # fmt: skip
        yield "Sums make the numbers of a row grow, so each row is rescaled: " + (
            "its mean is subtracted, and it is divided by its standard deviation" if centred
            else "it is divided by its root mean square")  # fmt: skip
        own = {p.name for p in self.card.parameters}
        learned = dict.fromkeys(
            f"${show(at(a), self.style)}$" for x in calls if x.semi for a in x.args[x.semi :]
            if isinstance(a, Ref) and a.key in own
        )  # fmt: skip
        if learned:
            verb = "scale and shift" if len(learned) > 1 else "scale"
            yield f"The learned numbers {listed(learned)} then {verb} its entries"

    def rotates(self, e: Equation) -> bool:
        """Whether a function that an equation calls uses a cosine and a sine."""
        called = functions_called(self.card.function, [e.right])
        used = {x.op for name in called for x in walk(self.card.function[name].body)
                if isinstance(x, Apply)}  # fmt: skip
        return {"cos", "sin"} <= used

    def divisor(self, e: Equation) -> str:
        """The divisor of scores, if it depends on the model's width and not on the text."""
        for x in walk(e.right):
            if isinstance(x, Apply) and x.op == "div":
                names = [y for y in walk(x.args[1]) if isinstance(y, Ref)]
                if names and all(y.symbol.kind == "dim" for y in names):
                    return f"${show(x.args[1], self.style)}$"
        return ""

    def parameter(self, e: Equation, kind: str) -> str:
        names = [x for x in walk(e.right) if isinstance(x, Ref)
                 and kind in self.traits.embeddings.get(x.key, ())]  # fmt: skip
        return f"${show(names[0], self.style)}$" if names else ""

    def looked_up(self, e: Equation) -> str:
        """The formula for the rows of the tokens, as a clause."""
        for x in walk(e.right):
            match x:
                case Pick(Ref() as table, (Ref(),)) if "token" in self.traits.embeddings.get(
                    table.key, ()
                ):
                    return f", and ${show(x, self.style)}$ stands for these rows"
        return ""

    def first_rows(self, e: Equation) -> Iterator[str]:
        """The meaning of a slice of the first rows of a table."""
        for x in walk(e.right):
            match x:
                case Pick(Ref() as table, (Slice(start=None, stop=Expr() as stop),)):
                    yield (f"${show(x, self.style)}$ stands for the first ${show(stop, self.style)}"
                           f"$ rows of ${show(table, self.style)}$, one for each position of the "
                           "text")  # fmt: skip

    def learned(self, e: Equation) -> bool:
        return bool(self.parameter(e, "position")) or role.EMBED not in self.roles(e)

    def hides_later(self, e: Equation) -> bool:
        """Whether the rest after a mask is summed over positions that are not later."""
        k = self.ahead[e.left, e.loop]
        after = {k, *self.uses.readers[k]}
        return any(j in after for j, _ in self.traits.masked(True))

    def after_mix(self, e: Equation) -> bool:
        """Whether an equation before it mixes values."""
        return any(role.MIX in found for found in self.all[: self.ahead[e.left, e.loop]])

    def residuals(self, e: Equation) -> list[Ref]:
        """The values that a residual sum keeps, in the order of writing."""
        found = self.uses.residuals[self.ahead[e.left, e.loop]]
        return list(dict.fromkeys(x for x in walk(e.right) if isinstance(x, Ref) and x in found))

    def what_stays(self, e: Equation, at: Put) -> str:
        """``$x^0$``: the values that a residual sum keeps, for prose."""
        return listed(f"${show(at(r), self.style)}$" for r in self.residuals(e))

    def added(self, e: Equation) -> str:
        """The term that a residual sum adds: the output of attention or of the MLP."""
        k = self.ahead[e.left, e.loop]
        kept = {r.key for r in self.uses.residuals[k]}
        names = set(self.roles(e))
        for u in self.uses.all:
            if u.reader == k and u.maker is not None and not u.added and u.ref.key not in kept:
                names |= self.behind(u.maker)
        parts = ["the attention output"] * bool(names & {role.MIX, role.OUTPUT})
        parts += ["the MLP output"] * bool(names & {role.MLP, role.BACK})
        return listed(parts) or "the result"

    def behind(self, k: int) -> set[str]:
        """The roles of an equation and, for a norm, of the equations that it normalises."""
        found = set(self.all[k])
        if found and found <= {role.NORM}:
            found |= {r for j in self.uses.makers[k] if j < k for r in self.all[j]}
        return found


__all__ = ["Reasons"]
