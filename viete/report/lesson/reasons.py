"""Why an equation is there and what is there after it: sentences for the roles that it plays."""

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
        """Which equation of the card it is, also where a choice of a block is settled in it."""
        return self.places[e.left, e.loop]

    def reasons(self, e: Equation, found: str, at: Put = unchanged) -> Iterator[str]:
        """Sentences without their full stops, on one role of an equation.

        ``at`` puts in the number of its block.
        """
        match found:
            case role.EMBED:
                table = self.parameter(e, "token")
                yield (f"The model calculates with vectors, not with words. The table {table} has "
                       "a row of numbers for every token: each token of the text is replaced by "
                       f"its row{self.looked_up(e)}")  # fmt: skip
            case role.POSITIONS if table := self.parameter(e, "position"):
                yield from self.first_rows(e)
                yield (f"Row 0 of {table} is added at position 0, row 1 at position 1, and so on. "
                       "So the same token is another vector in another place. Without that, "
                       "attention could not tell in which order the tokens stand")  # fmt: skip
            case role.POSITIONS:
                yield ("Numbers that depend on the place alone are added. Without them, attention "
                       "could not tell in which order the tokens stand")  # fmt: skip
            case role.QUERY:
                yield ("Attention lets each position read from others. To choose from which, a "
                       "position makes a query: a vector for what it looks for. What to look for "
                       "is learned, in the numbers of the matrix")  # fmt: skip
            case role.KEY:
                yield ("Each position also makes a key: a vector for what it has to offer. "
                       "Queries will be compared with keys. A key has a matrix of its own, since "
                       "what a position offers is not what it looks for")  # fmt: skip
            case role.VALUE:
                yield ("Each position also makes a value. The key decides how much others read "
                       "from a position; the value is what they read")  # fmt: skip
            case role.TURN:
                yield ("The entries of each row are taken in pairs, and each pair is turned, as a "
                       "point in the plane, by an angle that grows with the position: with the "
                       "cosine c and the sine s of the angle, a pair (a, b) becomes "
                       "(ac − bs, bc + as). At position 0 the angle is 0 and nothing changes. Each "
                       "pair has a speed of its own" if self.rotates(e) else
                       "Each row is changed in a way that depends on its position")  # fmt: skip
                yield ("The score of a query and a key then depends on how far apart the two "
                       "positions are")  # fmt: skip
            case role.SCORES:
                yield ("The inner product of a query with a key says how well the two match: the "
                       "greater, the better. Row j holds the scores of the query at position j, "
                       "one for each key")  # fmt: skip
                if width := self.divisor(e):
                    yield (f"The longer the vectors, the larger their inner products. The division "
                           f"by {width} makes up for that: of very large scores softmax would "
                           "choose one position and ignore the others")  # fmt: skip
            case role.MASK:
                if self.hides_later(e):
                    yield ("A position has to predict the next token, so it must not read from "
                           "later positions. The mask replaces their scores by −∞")  # fmt: skip
                else:
                    yield "The mask replaces the scores of positions that may not be read by −∞"
                yield "Softmax makes the weight 0 of −∞, because exp(−∞) = 0"
            case role.WEIGHTS:
                yield ("Softmax turns each row of scores into weights. They are at least 0 and sum "
                       "to 1, so they are shares: how much is read from each position")  # fmt: skip
            case role.MIX:
                yield ("Each position now reads: every value it sees is multiplied by its weight, "
                       "and the products are added up. This is where information moves from one "
                       "position to another")  # fmt: skip
            case role.OUTPUT:
                yield ("A matrix turns what attention has read into a vector that the next steps "
                       "can use")  # fmt: skip
            case role.NORM:
                yield from self.norm(e, at)
            case role.RESIDUAL:
                added = capital(self.added(e))
                yield f"{added} is added to {self.what_stays(e, at)}, and does not replace it"
                yield ("So nothing from before is lost, and each part of the model only has to say "
                       "what to change")  # fmt: skip
                yield "These sums, from the first to the last, are called the residual stream"
            case role.MLP:
                yield ("Attention has gathered; the MLP (multi-layer perceptron) works on what "
                       "each position has, without a look at the others" if self.after_mix(e) else
                       "The MLP (multi-layer perceptron) works on each position by itself, without "
                       "a look at the others")  # fmt: skip
                yield ("Between its matrices a function that is not linear acts on each entry. "
                       "Without it, the matrices would do no more than a single one")  # fmt: skip
            case role.BACK:
                yield ("A matrix brings what the MLP has made back to the width of the stream, so "
                       "that it can be added")  # fmt: skip
            case role.UNEMBED:
                yield ("Each row is compared with a vector for every token of the vocabulary, by "
                       "an inner product. The results are scores, called logits: the greater the "
                       "score of a token, the likelier it comes next")  # fmt: skip
                if table := self.parameter(e, "token"):
                    yield f"These vectors are the rows of {table} again"
            case role.PROBABILITIES:
                yield ("Softmax turns each row of scores into probabilities: they are positive and "
                       "sum to 1")  # fmt: skip
            case role.ARGMAX:
                yield ("The prediction at a position is the token with the greatest score. Its "
                       "number is its place in the vocabulary")  # fmt: skip
            case role.LOSS:
                yield ("The loss says how wrong the predictions are. It is small where the token "
                       "that really comes next has a high probability; training makes it "
                       "smaller")  # fmt: skip
            case role.PLACES:
                yield "The position table is looked up by number: here each token gets its number"
            case role.COUNTED:
                yield "Only what is marked with a 1 is counted when the positions get their numbers"
            case role.PAIRS:
                yield ("A number is added to each score. It depends on where the two positions "
                       "stand, not on what stands there: so near differs from far")  # fmt: skip
            case role.ROUTE:
                yield ("Several MLPs, the experts, stand side by side: these weights say how much "
                       "of each one's answer a position uses")  # fmt: skip
            case role.SQUEEZE:
                yield "A curved function keeps great scores from growing without bound"
            case role.SHARE:
                yield "Divided by their sum, the weights keep their proportions and sum to 1"
            case role.SIZE:
                yield "Rows are divided by this number, so that what follows reads one size"
            case role.POOL:
                yield ("One vector stands for the whole text: what is said of the text as a whole "
                       "is read from it")  # fmt: skip

    def outcome(self, e: Equation, at: Put) -> Iterator[str]:
        """What is there when an equation is computed; ``at`` puts in the number of its block."""
        for found in self.roles(e):
            match found:
                case role.EMBED:
                    yield "Every token is a vector now."
                case role.POSITIONS:
                    yield "Every vector says which place it stands in."
                case role.MIX:
                    yield f"${show(at(e.left), self.style)}$ holds what each position has read."
                case role.RESIDUAL:
                    yield f"The stream holds {self.what_stays(e, at)} and {self.added(e)}."
                case role.NORM:
                    yield "The rows are of one size again."
                case role.MLP:
                    yield "Each position has been worked on by itself."
                case role.UNEMBED:
                    yield "Every position has a score for each token."

    # -- facts -------------------------------------------------------------------------------------

    def norm(self, e: Equation, at: Put) -> Iterator[str]:
        """What a norm does to a row, and which learned numbers it uses."""
        calls = [x for x in walk(e.right) if isinstance(x, Apply) and x.op in self.card.function]
        centred = any(
            isinstance(x, Apply) and x.op == "sub"
            and any(isinstance(y, Apply) and y.op == "mean" for y in walk(x.args[1]))
            for call in calls for x in walk(self.card.function[call.op].body)
        )  # fmt: skip
        yield "Sums make rows grow. So each row is brought back to one size: " + (
            "its mean is subtracted, and it is divided by its standard deviation" if centred
            else "it is divided by its root mean square")  # fmt: skip
        own = {p.name for p in self.card.parameters}
        learned = dict.fromkeys(
            f"${show(at(a), self.style)}$" for x in calls if x.semi for a in x.args[x.semi :]
            if isinstance(a, Ref) and a.key in own
        )  # fmt: skip
        if learned:
            verb = "scale and shift" if len(learned) > 1 else "scale"
            yield f"Learned numbers, {listed(learned)}, then {verb} each row"

    def rotates(self, e: Equation) -> bool:
        """Whether a function that an equation calls uses a cosine and a sine."""
        called = functions_called(self.card.function, [e.right])
        used = {x.op for name in called for x in walk(self.card.function[name].body)
                if isinstance(x, Apply)}  # fmt: skip
        return {"cos", "sin"} <= used

    def divisor(self, e: Equation) -> str:
        """What scores are divided by, if it depends on the model's width and not on the text."""
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
        """How the rows of the tokens are written."""
        for x in walk(e.right):
            match x:
                case Pick(Ref() as table, (Ref(),)) if "token" in self.traits.embeddings.get(
                    table.key, ()
                ):
                    return f", and ${show(x, self.style)}$ stands for these rows"
        return ""

    def first_rows(self, e: Equation) -> Iterator[str]:
        """What a slice of the first rows of a table stands for."""
        for x in walk(e.right):
            match x:
                case Pick(Ref() as table, (Slice(start=None, stop=Expr() as stop),)):
                    yield (f"${show(x, self.style)}$ stands for the first ${show(stop, self.style)}"
                           f"$ rows of ${show(table, self.style)}$, one for each position of the "
                           "text")  # fmt: skip

    def learned(self, e: Equation) -> bool:
        return bool(self.parameter(e, "position")) or role.EMBED not in self.roles(e)

    def hides_later(self, e: Equation) -> bool:
        """Whether what a mask leaves is summed over positions that are not later."""
        k = self.ahead[e.left, e.loop]
        after = {k, *self.uses.readers[k]}
        return any(j in after for j, _ in self.traits.masked(True))

    def after_mix(self, e: Equation) -> bool:
        """Whether an equation before it mixes values."""
        return any(role.MIX in found for found in self.all[: self.ahead[e.left, e.loop]])

    def residuals(self, e: Equation) -> list[Ref]:
        """What a residual sum keeps, in the order of writing."""
        found = self.uses.residuals[self.ahead[e.left, e.loop]]
        return list(dict.fromkeys(x for x in walk(e.right) if isinstance(x, Ref) and x in found))

    def what_stays(self, e: Equation, at: Put) -> str:
        """``$x^0$``: what a residual sum keeps, as prose has it."""
        return listed(f"${show(at(r), self.style)}$" for r in self.residuals(e))

    def added(self, e: Equation) -> str:
        """What a residual sum adds: what attention found, or what the MLP makes."""
        k = self.ahead[e.left, e.loop]
        kept = {r.key for r in self.uses.residuals[k]}
        names = set(self.roles(e))
        for u in self.uses.all:
            if u.reader == k and u.maker is not None and not u.added and u.ref.key not in kept:
                names |= self.behind(u.maker)
        parts = ["what attention found"] * bool(names & {role.MIX, role.OUTPUT})
        parts += ["what the MLP makes"] * bool(names & {role.MLP, role.BACK})
        return listed(parts) or "what was computed from it"

    def behind(self, k: int) -> set[str]:
        """The roles of an equation, and of the one that it normalises."""
        found = set(self.all[k])
        if found and found <= {role.NORM}:
            found |= {r for j in self.uses.makers[k] if j < k for r in self.all[j]}
        return found


__all__ = ["Reasons"]
