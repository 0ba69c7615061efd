"""Splits ``E with EQ, EQ``, a question after interventions, into its parts."""

from __future__ import annotations

from itertools import pairwise

from viete.ask.own_questions import OWN
from viete.errors import Text
from viete.evaluate.run import Run
from viete.notation.cursor import top_level
from viete.notation.lexer import Token, tokenize
from viete.notation.symbols import Scope
from viete.rewrite.replacement import words_of


def changes_of(run: Run, name: object) -> tuple[Text, list[Text]] | None:
    """The formula and the equations of ``E with EQ, EQ``; None for any other question."""
    if not isinstance(name, str) or "with" not in name or "with" in run.scope.symbols:
        return None
    text = Text(name, "<name>")
    tokens = tokenize(text)
    place = next((k for k in words_of(tokens, 0) if tokens[k].text == "with"), None)
    if place is None:
        refuse_inside(text, tokens)
        return None
    formula = text.cut(0, tokens[place].start)
    if not formula.text:
        raise text.error("a formula must stand before 'with'", tokens[place].start)
    return formula, equations(text, tokens, place + 1, run.scope)


def refuse_inside(text: Text, tokens: list[Token]) -> None:
    """Refuse a ``with`` in parentheses: a change applies to a whole question.

    The parentheses of ``top_3(…)`` contain a whole question.
    """
    own = tokens[0].text in OWN
    open_: list[str] = []
    for token in tokens:
        if token.text in ("(", "[", "{"):
            open_.append(token.text)
        elif token.text in (")", "]", "}") and open_:
            open_.pop()
        elif token.text == "with" and len(open_) > own and set(open_) == {"("}:
            raise text.error(
                "'with' changes the whole question, so it must follow the question, outside "
                "parentheses; to compare with the unchanged value, give the same text as the "
                "other one and write a prime: logits_{-1,5} - logits'_{-1,5} with x^1 = 0",
                token.start,
            )


def equations(text: Text, tokens: list[Token], first: int, scope: Scope) -> list[Text]:
    """The equations after ``with``; a comma after a ``for`` may continue its conditions."""
    end = len(tokens) - 1
    cuts = [first - 1]
    for comma in top_level(tokens[:end], ",", start=first):
        holds = any(t.text == "for" for t in tokens[cuts[-1] + 1 : comma])
        if not holds or begins(tokens, comma + 1, scope):
            cuts.append(comma)
    out = [text.cut(tokens[a + 1].start, tokens[b].start)
           for a, b in pairwise([*cuts, end])]  # fmt: skip
    if not all(x.text for x in out):
        raise text.error("an equation must follow 'with', such as A^{2,1} = 0", tokens[first].start)
    return out


def begins(tokens: list[Token], first: int, scope: Scope) -> bool:
    """Whether an equation begins here, and not a further condition: a value and =."""
    sign = next(top_level(tokens, "=", ",", start=first), None)
    value = sign is not None and (sign > first + 1 or tokens[first].text in scope.symbols)
    return value and sign is not None and tokens[sign].text == "="


__all__ = ["changes_of"]
