"""The title of a step and the sentences below it, from the roles that its equation plays."""

from __future__ import annotations

import re
from collections.abc import Iterator

from viete.analysis import roles as role
from viete.document.tree import capital, listed
from viete.graph.card import CardData, Equation
from viete.graph.dependence import functions_called
from viete.notation.printer import show
from viete.notation.tree import Apply, walk
from viete.report.lesson.explaining import Explainer
from viete.report.lesson.reasons import Put, Reasons, unchanged

PHRASES = {
    role.EMBED: "look up the vector of each token",
    role.POSITIONS: "add the vector of each position",
    role.NORM: "rescale each row", role.QUERY: "compute the queries", role.KEY: "compute the keys",
    role.VALUE: "compute the values", role.SCORES: "compare every query with every key",
    role.MASK: "mask what may not be read", role.WEIGHTS: "turn the scores into weights",
    role.MIX: "add up the values by their weights",
    role.OUTPUT: "turn the result into the model's width",
    role.RESIDUAL: "add to the residual stream", role.MLP: "apply the MLP to each position",
    role.BACK: "turn the result into the width of the residual stream",
    role.TURN: "rotate by position", role.UNEMBED: "give every token a score",
    role.PROBABILITIES: "turn the scores into probabilities",
    role.ARGMAX: "pick the token with the greatest score", role.LOSS: "compute the loss",
    role.PLACES: "number the positions", role.COUNTED: "mark the tokens that are counted",
    role.PAIRS: "compute what two positions add to their score",
    role.ROUTE: "compute the weights of the experts",
    role.SHARE: "make the weights sum to 1", role.SQUEEZE: "keep the scores within bounds",
    role.SIZE: "compute the size of each row",
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
NOUNS = {
    role.EMBED: "the tokens as vectors", role.QUERY: "queries: what each position is looking for",
    role.KEY: "keys: what can be found at each position",
    role.VALUE: "values: what others read from each position",
    role.SCORES: "scores: how well each query matches each key",
    role.WEIGHTS: "attention weights: how much each position reads from each",
    role.MIX: "what each position has read", role.OUTPUT: "the attention output",
    role.RESIDUAL: "the residual stream", role.NORM: "rescaled rows",
    role.MLP: "the MLP output", role.BACK: "the MLP output",
    role.UNEMBED: "a score for every token",
    role.PROBABILITIES: "a probability for every token", role.ARGMAX: "predicted tokens",
    role.LOSS: "the loss: how wrong the predictions are",
}  # fmt: skip
NORMS = {"LN": "layernorm", "RMSNorm": "RMSnorm"}
HEADINGS = {
    "embed": "embedding", "+pos": "positions", "+residual": "residual connection",
    "layernorm": "layer norm", "RMSnorm": "RMS norm", "unembed": "unembedding",
    "argmax": "prediction",
}  # fmt: skip


BACKWARD = re.compile(
    r"from \d+(?=$|[ ,])"
)  # the meaning that `grad` gives: from 4 by the rule of …
RULE = re.compile(r"by the rule of (\w+)")


class StepWords(Reasons):
    """Titles, chips and reasons of one card's equations; formulas are in ``style``."""

    def __init__(self, card: CardData, style: str) -> None:
        super().__init__(card, style)
        self.explainer = Explainer(card, style)
        self.told: set[str] = set()  # reasons that were given

    def forget(self) -> None:
        """Give the next reasons in full again."""
        self.told.clear()
        self.explainer.defined.clear()

    def mixes(self, e: Equation) -> bool:
        """Whether a row of an equation's result may depend on rows of other positions."""
        found = self.roles(e)
        return not found or bool({role.SCORES, role.MASK, role.MIX, role.PAIRS} & {*found})

    def title(self, e: Equation) -> str:
        """``Add the position table``; for an equation without a role its meaning."""
        found = [r for r in self.roles(e) if r != role.TURN or len(self.roles(e)) == 1]
        phrases = [self.phrase(e, r) for r in found]
        if phrases:
            return capital(listed(phrases))
        if derived(e):
            derivative = e.name.startswith("partial{")
            return "The derivative of the loss" if derivative else "A part of the backward pass"
        short = e.meaning.split(":")[0].split(";")[0]
        if short and len(short) <= 60 and "$" not in short:
            return capital(short)
        return f"Compute ${show(e.left, self.style)}$"

    def phrase(self, e: Equation, found: str) -> str:
        if found == role.MASK and self.hides_later(e):
            return "mask later positions"
        if found == role.RESIDUAL:
            return f"add {self.added(e)} to the residual stream"
        if found == role.POSITIONS and not self.learned(e):
            return "add numbers for each position"
        return PHRASES[found]

    def noun(self, e: Equation) -> str:
        """An equation's result in a few words: the card's own, or those of its last role."""
        return e.meaning or next((NOUNS[r] for r in reversed(self.roles(e)) if r in NOUNS), "")

    def chips(self, e: Equation) -> list[str]:
        """The stages of the pipeline for an equation."""
        name = f"${show(e.left, self.style)}$"
        out = [self.chip(e, r) for r in self.roles(e) if r not in (role.TURN, role.SQUEEZE)]
        return [*dict.fromkeys(out), *[name] * (role.UNEMBED in self.roles(e))] or [name]

    def chip(self, e: Equation, found: str) -> str:
        if found == role.NORM:
            names = [n for x in walk(e.right) if (n := self.card.library_name(x)) in NORMS]
            return NORMS[names[-1]] if names and names[-1] is not None else "norm"
        if found == role.SIZE:  # it is part of what it is for
            reader = self.forward.equations[min(self.uses.readers[self.ahead[e.left, e.loop]])]
            return self.chip(reader, self.roles(reader)[-1])
        return CHIPS[found]

    # -- why ---------------------------------------------------------------------------------------

    def why(self, e: Equation, at: Put = unchanged) -> list[str]:
        """The card's own words about an equation, and its purpose; ``at`` inserts the block."""
        order = sorted(self.roles(e), key=lambda r: r == role.TURN)  # first what it is for
        found = list(dict.fromkeys(s for r in order for s in self.reasons(e, r, at)))
        found = [s for s in found if s not in self.told]
        self.told.update(found)
        own = [sentence(derived(e) or capital(e.meaning))] * (
            len(e.meaning.split()) >= (3 if self.roles(e) else 1)
        )
        own = [s if "*" in s else f"*{s}*" for s in own]
        if not self.roles(e):
            found = [s for s in self.explainer.equation(e.right, "", False) if s]
        return own + list(map(sentence, found))

    def definitions(self, e: Equation) -> list[str]:
        """The functions that an equation with a role is calculated with, each at its first use."""
        return [sentence(s) for s in self.defined(e)] if self.roles(e) else []

    def defined(self, e: Equation) -> Iterator[str]:
        for x in walk(e.right):
            if isinstance(x, Apply) and x.op in self.card.function:
                f = self.card.function[x.op]
                tables = "table" in show(f.body) or functions_called(self.card.function, [f.body])
                if x.op not in self.explainer.defined and not tables:
                    yield self.explainer.function(x.op)


def sentence(text: str) -> str:
    """A text with its full stop."""
    return text if text.endswith((".", "!", "?")) else text + "."


def derived(e: Equation) -> str:
    """How `grad` derived an equation: ``By the rule of softmax``; empty for any other."""
    found = BACKWARD.match(e.meaning)
    if not found:
        return ""
    rules = dict.fromkeys(RULE.findall(e.meaning))
    return f"By the rule of {listed(rules)}" if rules else "By the chain rule"


__all__ = ["StepWords"]
