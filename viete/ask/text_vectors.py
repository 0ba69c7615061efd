"""``T("I live in D")``: the last residual vector of a run of the same model on another text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from viete.ask.asking import asked
from viete.errors import Text, VieteError
from viete.evaluate.run import Run
from viete.graph.card import CardData
from viete.notation.lexer import tokenize
from viete.notation.printer import show
from viete.notation.tree import WITH, Apply, Ref
from viete.notation.words import quoted, unquoted

Place = tuple[int, int, str]  # where a text begins and ends in a question, and what it is


def texts_in(question: str) -> list[Place]:
    """The texts whose last residual vectors a question asks for."""
    if "T" not in question or '"' not in question:
        return []
    tokens = tokenize(Text(question, "<name>"))
    found = zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False)
    return [
        (t.start, closed.end, unquoted(text.text)) for t, opened, text, closed in found
        if (t.text, opened.text, text.kind, closed.text) == ("T", "(", "token", ")")
    ]  # fmt: skip


def with_texts(
    run: Run, question: str, vector: Callable[[str], Any]
) -> tuple[Run, str]:  # fmt: skip
    """The run that knows the vectors of a question's texts, and the question with their names."""
    names: dict[str, str] = {}
    for start, end, text in reversed(texts_in(question)):
        name = names.setdefault(text, f"T_text{len(names) + 1}")
        question = f"{question[:start]}{{{name}}}{question[end:]}"
    knowing = asked(run, {name: vector(text) for text, name in names.items()})
    written = {name: f"T({quoted(text)})" for text, name in names.items()}
    knowing.scope = replace(knowing.scope, spelled={**knowing.scope.spelled, **written})
    return knowing, question


def as_written(sentence: str, spelled: Mapping[str, str]) -> str:
    """A sentence with names spelled as in the question."""
    return re.sub(r"\bT_text\d+", lambda m: spelled.get(m[0], m[0]), sentence)


def last_stream(card: CardData) -> Ref:
    """The residual stream after the last block, from which the logits are made.

    Raises VieteError for a card that does not name it.
    """
    for o in card.operators:
        e = o.definition
        if o.name == "logits()" and isinstance(e, Apply) and e.op == WITH:
            target = e.args[1]
            assert isinstance(target, Ref)
            return target
    raise VieteError(
        f'T("…") is the last residual vector of a text, and {card.title} does not say which '
        f"value that is; add a line such as $logits(y) = logits with x^N = y$ under Derived"
    )


def vector_of(card: CardData, text: str, run: Callable[..., Run], meaning: str) -> Any:
    """The vector of one text; ``run`` is the model's."""
    stream = show(last_stream(card))
    return run(text, names=[stream], meaning=meaning)[stream][-1]


__all__ = ["as_written", "texts_in", "vector_of", "with_texts"]
