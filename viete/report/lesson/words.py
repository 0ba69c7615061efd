"""What a step is called and why it is there, from the roles that its equation plays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from viete.analysis import roles as role
from viete.analysis.def_use import def_use
from viete.analysis.roles import roles
from viete.analysis.traits import Traits
from viete.document.tree import capital, listed
from viete.graph.card import CardData, Equation
from viete.graph.dependence import functions_called
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Ref, walk
from viete.report.lesson.explaining import Explainer

PHRASES = {
    role.EMBED: "look up the tokens", role.POSITIONS: "add the position table",
    role.NORM: "normalise each row", role.QUERY: "make the queries", role.KEY: "make the keys",
    role.VALUE: "make the values", role.SCORES: "score every query against every key",
    role.MASK: "hide what may not be seen", role.WEIGHTS: "turn the scores into weights",
    role.MIX: "mix the values", role.OUTPUT: "turn the mix into the model's width",
    role.RESIDUAL: "add to the stream", role.MLP: "run the MLP on each position",
    role.BACK: "bring the result back to the width of the stream",
    role.TURN: "turn by position", role.UNEMBED: "score every token",
    role.PROBABILITIES: "turn the scores into probabilities",
    role.ARGMAX: "pick the greatest", role.LOSS: "measure the loss",
    role.PLACES: "number the positions", role.COUNTED: "mark the tokens that are counted",
    role.PAIRS: "find what two places add to their score", role.ROUTE: "weigh the experts",
    role.SHARE: "make the weights sum to 1", role.SQUEEZE: "squeeze the scores",
    role.SIZE: "measure the size of each row",
    role.POOL: "take one position for the whole text",
}  # fmt: skip
CHIPS = {
    role.EMBED: "embed", role.POSITIONS: "+pos", role.RESIDUAL: "+residual", role.MLP: "MLP",
    role.BACK: "MLP",
    role.UNEMBED: "unembed", role.PROBABILITIES: "probabilities", role.ARGMAX: "argmax",
    role.LOSS: "loss", **dict.fromkeys(role.ATTENTION, "attention"), role.POOL: "pooling",
    **dict.fromkeys((role.PLACES, role.COUNTED, role.PAIRS), "positions"),
    **dict.fromkeys((role.ROUTE, role.SHARE), "experts"),
}  # fmt: skip
NORMS = {"LN": "layernorm", "RMSNorm": "RMSnorm"}
HEADINGS = {
    "embed": "embedding", "+pos": "position table", "+residual": "residual connection",
    "layernorm": "layer norm", "RMSnorm": "RMS norm", "unembed": "unembedding",
    "argmax": "prediction",
}  # fmt: skip


class StepWords:
    """Titles, chips and reasons of one card's equations; formulas are in ``style``."""

    def __init__(self, card: CardData, style: str) -> None:
        self.card, self.style = card, style
        self.uses, self.traits, self.all = def_use(card), Traits(card), roles(card)
        self.places = {(e.left, e.loop): k for k, e in enumerate(card.equations)}
        self.explainer = Explainer(card, style)
        self.told: set[str] = set()  # reasons that were given

    def forget(self) -> None:
        """Give the next reasons in full, as if nothing had been said."""
        self.told.clear()
        self.explainer.defined.clear()

    def roles(self, e: Equation) -> tuple[str, ...]:
        return self.all[self.place(e)]

    def place(self, e: Equation) -> int:
        """Which equation of the card it is, also where a choice of a block is settled in it."""
        return self.places[e.left, e.loop]

    def title(self, e: Equation) -> str:
        """``Add the position table``; of an equation without a role its meaning."""
        found = [r for r in self.roles(e) if r != role.TURN or len(self.roles(e)) == 1]
        phrases = [self.phrase(e, r) for r in found]
        if phrases:
            return capital(listed(phrases))
        short = e.meaning.split(":")[0].split(";")[0]
        if short and len(short) <= 60 and "$" not in short:
            return capital(short)
        return f"Compute ${show(e.left, self.style)}$"

    def phrase(self, e: Equation, found: str) -> str:
        if found == role.MASK and self.hides_later(e):
            return "hide what comes later"
        if found == role.RESIDUAL:
            return f"add {self.added(e)} to the stream"
        if found == role.POSITIONS and not self.learned(e):
            return "add the positions"
        return PHRASES[found]

    def chips(self, e: Equation) -> list[str]:
        """The stages of the pipeline that an equation is."""
        name = f"${show(e.left, self.style)}$"
        out = [self.chip(e, r) for r in self.roles(e) if r not in (role.TURN, role.SQUEEZE)]
        return [*dict.fromkeys(out), *[name] * (role.UNEMBED in self.roles(e))] or [name]

    def chip(self, e: Equation, found: str) -> str:
        if found == role.NORM:
            names = [n for x in walk(e.right) if (n := self.card.library_name(x)) in NORMS]
            return NORMS[names[-1]] if names and names[-1] is not None else "norm"
        if found == role.SIZE:  # it is part of what it is for
            reader = self.card.equations[min(self.uses.readers[self.place(e)])]
            return self.chip(reader, self.roles(reader)[-1])
        return CHIPS[found]

    # -- why ---------------------------------------------------------------------------------------

    def why(self, e: Equation) -> list[str]:
        """What an equation is for, and the card's own words about it."""
        order = sorted(self.roles(e), key=lambda r: r == role.TURN)  # first what it is for
        found = list(dict.fromkeys(s for r in order for s in self.reasons(e, r)))
        found = [s for s in found if s not in self.told]
        self.told.update(found)
        own = [capital(e.meaning)] * (len(e.meaning.split()) >= (3 if self.roles(e) else 1))
        if not self.roles(e):
            found = [s for s in self.explainer.equation(e.right, "", False) if s]
        else:
            found += self.definitions(e)
        return [s if s.endswith((".", "!", "?")) else s + "." for s in (*found, *own)]

    def definitions(self, e: Equation) -> Iterator[str]:
        """The functions of an equation by which it is calculated, each when it first comes up."""
        for x in walk(e.right):
            if isinstance(x, Apply) and x.op in self.card.function:
                f = self.card.function[x.op]
                tables = "table" in show(f.body) or functions_called(self.card.function, [f.body])
                if x.op not in self.explainer.defined and not tables:
                    yield self.explainer.function(x.op)

    def reasons(self, e: Equation, found: str) -> Iterator[str]:
        match found:
            case role.EMBED:
                table = self.parameter(e, "token")
                yield (f"A transformer calculates with vectors, not with words: each token is "
                       f"replaced by its row of {table}")  # fmt: skip
            case role.POSITIONS if table := self.parameter(e, "position"):
                yield (f"Position j adds row j of {table}, so that the same token is another "
                       "vector in another place: attention needs that for the order")  # fmt: skip
            case role.POSITIONS:
                yield "Numbers that depend on the place alone tell attention the order of tokens"
            case role.QUERY:
                yield "The query of a position says what it looks for in the positions it sees"
            case role.KEY:
                yield "The key of a position says what it offers; queries are compared with it"
            case role.VALUE:
                yield "The value of a position is what it hands to those that attend to it"
            case role.TURN:
                yield ("Each row is changed in a way that depends on its position, so that the "
                       "score of two positions depends on how far apart they are")  # fmt: skip
            case role.SCORES:
                yield ("The inner product of a query with a key says how well the two match: row j "
                       "holds the scores of position j")  # fmt: skip
                if any(isinstance(x, Apply) and x.op == "div" for x in walk(e.right)):
                    yield ("Wide heads would have large scores, and softmax would then choose one "
                           "position alone: the division prevents that")  # fmt: skip
            case role.MASK if self.hides_later(e):
                yield ("A position must not see what it has to predict: scores of later positions "
                       "become −∞, and softmax gives them the weight 0")  # fmt: skip
            case role.MASK:
                yield "Scores that become −∞ get the weight 0 from softmax: nothing is read there"
            case role.WEIGHTS:
                yield ("Softmax turns a row of scores into weights that are positive and sum to 1: "
                       "how much is read from each position")  # fmt: skip
            case role.MIX:
                yield ("Each position gets the mean of the values it sees, weighted by its row of "
                       "weights: here information moves between positions")  # fmt: skip
            case role.OUTPUT:
                yield "What the heads have read is mapped to what is handed on"
            case role.NORM:
                yield self.norm(e)
            case role.RESIDUAL:
                yield f"To the stream, which otherwise stays as it was, {self.added(e)} is added"
                yield "So the stream is a sum, with a term from every layer"
            case role.MLP:
                yield ("The MLP works on each position by itself: no position sees another here. "
                       "Between its matrices a function that is not linear acts on each entry; "
                       "without it, they would do no more than one matrix")  # fmt: skip
            case role.BACK:
                yield ("A matrix brings what the MLP has made back to the width of the stream, so "
                       "that it can be added")  # fmt: skip
            case role.UNEMBED:
                yield ("Each row is compared with a vector for every token of the vocabulary: the "
                       "greater the product, the likelier that token comes next")  # fmt: skip
            case role.PROBABILITIES:
                yield "Softmax turns a row of scores into probabilities"
            case role.ARGMAX:
                yield "The prediction of a position is the token with the greatest logit"
            case role.LOSS:
                yield "The loss is small where the target gets a high probability"
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

    def outcome(self, e: Equation, at: Callable[[Expr], Expr]) -> Iterator[str]:
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
                    kept = listed(f"${show(at(r), self.style)}$" for r in self.residuals(e))
                    yield f"The stream holds {kept} and {self.added(e)}."
                case role.NORM:
                    yield "The rows are of one size again."
                case role.MLP:
                    yield "Each position has been worked on by itself."
                case role.UNEMBED:
                    yield "Every position has a score for each token."

    # -- facts -------------------------------------------------------------------------------------

    def norm(self, e: Equation) -> str:
        centred = any(
            isinstance(x, Apply) and x.op == "sub" and any(
                isinstance(y, Apply) and y.op == "mean" for y in walk(x.args[1]))
            for name in (y.op for y in walk(e.right) if isinstance(y, Apply))
            if name in self.card.function for x in walk(self.card.function[name].body)
        )  # fmt: skip
        how = "mean 0 and variance 1" if centred else "the root mean square 1"
        after = "scales and shifts it" if centred else "scales it"
        return (f"A norm brings each row to {how}, however large it has grown, and then {after}: "
                "what comes next always reads numbers of one size")  # fmt: skip

    def parameter(self, e: Equation, kind: str) -> str:
        names = [x for x in walk(e.right) if isinstance(x, Ref)
                 and kind in self.traits.embeddings.get(x.key, ())]  # fmt: skip
        return f"${show(names[0], self.style)}$" if names else ""

    def learned(self, e: Equation) -> bool:
        return bool(self.parameter(e, "position")) or role.EMBED not in self.roles(e)

    def hides_later(self, e: Equation) -> bool:
        """Whether what a mask leaves is summed over positions that are not later."""
        k = self.place(e)
        after = {k, *self.uses.readers[k]}
        return any(j in after for j, _ in self.traits.masked(True))

    def residuals(self, e: Equation) -> list[Ref]:
        """What a residual sum keeps, in the order of writing."""
        found = self.uses.residuals(self.place(e))
        return list(dict.fromkeys(x for x in walk(e.right) if isinstance(x, Ref) and x in found))

    def added(self, e: Equation) -> str:
        """What a residual sum adds: what attention found, or what the MLP makes."""
        k = self.place(e)
        kept = {r.key for r in self.uses.residuals(k)}
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


__all__ = ["StepWords"]
