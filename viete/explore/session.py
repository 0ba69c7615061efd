"""A session: a page's messages to a running model, and the answers, as plain data for JSON.

A session keeps the model and its inputs. A ``run`` message contains everything that a reader has
changed, and a question brings it along as its ``run``, so that no answer depends on earlier
messages: several pages may ask one session. The server and the notebook's kernel use the same
session.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viete.ask.card_claims import Claims
from viete.ask.coarse_terms import opening
from viete.errors import VieteError
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import in_numpy
from viete.evaluate.memos import recent
from viete.evaluate.schedule import parameter_shapes
from viete.explore.claims import claims_data
from viete.explore.data import PageMaker, page_data
from viete.explore.expansions import answered
from viete.explore.graphs import feature_graph_of, graph_of, making_of
from viete.explore.reruns import floats
from viete.explore.values import base64_floats
from viete.graph.card import CardData
from viete.meanings.run import meaning_of
from viete.printable import printable
from viete.rewrite.choices import EquationChoice, choices, texts
from viete.rewrite.opening import without_calls

if TYPE_CHECKING:
    from viete.nouns.model import Model
    from viete.nouns.run import Questions

Message = Mapping[str, Any]
TERMS = 40  # of an expansion
_FILES = re.compile(r"\.md\s*$|\btexts\s+of\s+(?!(repeated|random)\()")
RUNS = 4  # that are kept, for questions about them
ANSWERED = ("tokens", "steps", "backward", "equations", "backward_equations", "limits")


@dataclass
class AskedRun:
    """A run that a page asks about; ``whole`` makes its values, once one is wanted."""

    run: Questions
    whole: PageMaker | None = None


class Session:
    """A model on some inputs, and the answers to a page's messages."""

    def __init__(
        self, model: Model[Any], tokens: Any, inputs: Mapping[str, Any],
        of: str | None = None, meanings: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        self.differentiated, self.meanings = of, meanings
        self.model, self.tokens, self.inputs = model, tokens, dict(inputs)
        self.claims: Claims | None = None  # shown instead of the card's own
        self.runs: dict[str, AskedRun] = {}  # by what was changed

    @classmethod
    def of(
        cls, run: Questions, of: str | None = None, meanings: Sequence[str] | None = None
    ) -> Session:
        """A session for a run, on the same inputs; ``of`` and ``meanings`` as `page_data`."""
        card = run.program.model
        inputs = {i.name: run[i.name] for i in card.inputs if run.is_there((i.name, ()))}
        model: Any = run.of
        if isinstance(run.of, CardData):  # whose weights are in the run, perhaps as exact numbers
            weights = {name: run[name] for name in parameter_shapes(card)}
            own = meaning_of(run) != "float"
            model = model.with_weights(
                {k: floats(np.asarray(w)) if own else w for k, w in weights.items()}
            )
        tokens = inputs.pop(card.inputs[0].name) if card.inputs else None
        out = cls(model, tokens, inputs, of, meanings)
        out.first = run
        return out

    @cached_property
    def first(self) -> Questions:
        """The run that the session began with."""
        return self.model.run(self.tokens, **self.inputs)

    def asked(self, message: Message) -> AskedRun:
        """The run that a question is about: of the changes that it brings, else the first."""
        return self.made(mapping(message, "run"))

    def made(self, changes: Message) -> AskedRun:
        """The run with some changes, kept for the next question about it."""
        changes = {part: changes[part] for part in CHANGES if changes.get(part) is not None}
        key = json.dumps(changes, sort_keys=True)
        return recent(self.runs, key, lambda: AskedRun(self.changed(changes)), RUNS)

    @cached_property
    def data(self) -> dict[str, Any]:
        """The page data of the run that the session began with."""
        # A saved notebook has nobody to answer.
        return self.page(self.first, live=False, claims=self.claims)

    @property
    def reads_text(self) -> bool:
        """Whether the model has a tokenizer for any text."""
        return self.model.own_tokenizer() is not None

    def page(
        self, run: Questions, live: bool = True, claims: Claims | None = None
    ) -> dict[str, Any]:
        """The page data of a run, which says whether a reader may write any text."""
        of, meanings = self.differentiated, self.meanings
        data = page_data(run, of=of, meanings=meanings, live=live, claims=claims)
        return {**data, "tokens": {**data["tokens"], "text": self.reads_text}}

    def answer(self, message: Any) -> dict[str, Any]:
        """The answer to one message. Raises VieteError for an invalid or unanswerable one."""
        if not isinstance(message, Mapping):
            raise VieteError('a message must be a JSON object with a kind, such as {"kind": "run"}')
        kind = message.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            raise VieteError(f"the kind of a message must be {', '.join(KINDS)}, not {kind!r:.60}")
        try:
            with np.errstate(all="ignore"):  # 0/0 is nan, as in any run
                return KINDS[kind](self, message)
        except MemoryError:
            raise VieteError("this needs more memory than the machine has") from None

    # -- the messages ------------------------------------------------------------------------------

    def answer_run(self, message: Message) -> dict[str, Any]:
        """Run with the changes: tokens or text, parameters, choices, equations put in."""
        data = self.page(self.made(message).run)
        values = {
            meaning: {key: v for key, v in found.items() if "data" in v}
            for meaning, found in data["values"].items()
        }
        return {part: data[part] for part in ANSWERED} | {"values": values}

    def answer_put(self, message: Message) -> dict[str, Any]:
        """The whole page of the model with changed equations."""
        changes = mapping(message, "run")
        put = [*equations(changes, "put"), *equations(message, "equations")]
        return {"data": self.page(self.made({**changes, "put": put}).run, live=False)}

    def answer_value(self, message: Message) -> dict[str, Any]:
        """A whole value of a run."""
        member, meaning = text(message, "member"), message.get("meaning", "decimal")
        asked = self.asked(message)
        if asked.whole is None:
            of, meanings = self.differentiated, self.meanings
            asked.whole = PageMaker(asked.run, of, meanings, True, self.claims)
        value = asked.whole.value(member, meaning) if isinstance(meaning, str) else None
        if value is None:
            raise VieteError(f"the run has no value {member:.80} in the meaning {meaning!r:.40}")
        return {"value": value}

    def answer_expand(self, message: Message) -> dict[str, Any]:
        """An expression of a run as a sum of terms, by default the coarsest."""
        of, into, asked = text(message, "of"), message.get("into"), self.asked(message).run
        if isinstance(into, str):
            return answered(asked.expand(of, into, top=TERMS))
        run, e = asked.resolved(of)
        card = run.program.model
        found = opening(run, without_calls(card, e), asked.program.model.lengths, TERMS)
        if found is None:
            return {"terms": [], "within": "", "total": None}
        return answered(found[1], found[0])

    def answer_check(self, message: Message) -> dict[str, Any]:
        """The verdict on a claim on the tokens of a run."""
        claim = text(message, "claim")
        if _FILES.search(claim):
            raise VieteError(
                "the page opens no files: give a claim, about texts of repeated(16) if it needs "
                "texts"
            )
        made = self.checked(self.asked(message).run, claim)
        return {"ok": made.ok, **claims_data(made)}

    def checked(self, run: Questions, *claims: str | Path) -> Claims:
        """The verdicts on claims, or on pages of claims, on the tokens of a run."""
        model: Any = self.model if isinstance(run.of, CardData) else run.of
        found = model.check(*claims, tokens=run[run.program.model.inputs[0].name])
        assert isinstance(found, Claims)
        return found

    def answer_arrows(self, message: Message) -> dict[str, Any]:
        """The arrows of a number of a run as a graph; None where its terms have none.

        For ``feature`` it is the graph of features.
        """
        if message.get("into") == "feature":
            return feature_graph_of(self.asked(message).run, text(message, "of"))
        run, e = self.asked(message).run.resolved(text(message, "of"))
        return {"svg": graph_of(run, e)}

    def answer_made(self, message: Message) -> dict[str, Any]:
        """The terms of a feature of a run."""
        return making_of(self.asked(message).run, text(message, "of"))

    def answer_ask(self, message: Message) -> dict[str, Any]:
        """The answer to a question in the notation, with how it was read."""
        question, run = text(message, "question"), self.asked(message).run
        read = [c.sentence for c in run.conventions(question)]
        return {"value": answer_data(run.answer(question)), "conventions": read}

    # -- what was changed --------------------------------------------------------------------------

    def changed(self, message: Message) -> Questions:
        """A run with the changes of a message; all else is as the session began."""
        if not message:
            return self.first
        model = self.model
        if given := mapping(message, "choices"):
            known = {c.name: c for c in choices(model.card)}
            values = {known[k]: chosen_value(known[k], x) for k, x in given.items() if k in known}
            model = model.put(*(t.text for t in texts(model.card, values)))
            model = model.bind(**{name: x for name, x in given.items() if name not in known})
        if put := equations(message, "put"):
            model = model.put(*put)
        if parameters := mapping(message, "parameters"):
            model = model.with_weights({**model.weights, **self.arrays(model, parameters)})
        return model.run(self.ids(model, message), **self.inputs)

    def arrays(self, model: Model[Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Weights from lists of numbers, flat or nested, in the precision of the old weights."""
        shapes, out = parameter_shapes(model.card), dict[str, Any]()
        for name, numbers in parameters.items():
            if name not in shapes:
                raise VieteError(f"{model.card.title} has no parameter {name:.60}")
            try:
                array = np.array(numbers, dtype=np.float64).reshape(shapes[name])
            except (TypeError, ValueError):
                shape = " × ".join(map(str, shapes[name])) or "one number"
                raise VieteError(f"{name} is given as numbers of the shape {shape}") from None
            old = model.weights[name]
            out[name] = array.astype(old.dtype) if isinstance(old, np.ndarray) else array
        return out

    def ids(self, model: Model[Any], message: Message) -> Any:
        """The token ids that a message asks for."""
        given = message.get("tokens")
        if message.get("text") is not None and (given is None or self.reads_text):
            return self.ids_of_text(model, text(message, "text"))
        if given is None:
            return self.tokens
        if not (isinstance(given, list) and all(isinstance(k, int) for k in given) and given):
            raise VieteError("tokens must be a list of whole numbers, such as [3, 1, 4]")
        return given

    def ids_of_text(self, model: Model[Any], said: str) -> Any:
        """Text as ids; for a card that lists its words, the words between spaces."""
        words = model.card.vocabulary
        if words and model.own_tokenizer() is None:
            if unknown := next((w for w in said.split() if w not in words), None):
                raise VieteError(model.words.unknown(unknown))
            return [words.index(w) for w in said.split()]
        return said


CHANGES = ("tokens", "text", "parameters", "choices", "put")  # of a run
KINDS: dict[str, Callable[[Session, Message], dict[str, Any]]] = {
    "run": Session.answer_run, "value": Session.answer_value, "expand": Session.answer_expand,
    "arrows": Session.answer_arrows, "made": Session.answer_made, "put": Session.answer_put,
    "check": Session.answer_check, "ask": Session.answer_ask,
}  # fmt: skip


# -- the parts of a message ------------------------------------------------------------------------


def text(message: Message, name: str) -> str:
    """A field of a message that must be text."""
    found = message.get(name)
    if not isinstance(found, str) or not found.strip():
        raise VieteError(
            f"a message of the kind {message.get('kind', 'run')} needs a {name} as text"
        )
    return found


def mapping(message: Message, name: str) -> Mapping[str, Any]:
    """A field of a message with values by name; empty if it is missing."""
    found = message.get(name) or {}
    if not isinstance(found, Mapping):
        raise VieteError(f"{name} must be values by name, not {found!r:.60}")
    return found


def chosen_value(choice: EquationChoice, x: Any) -> Fraction | bool:
    """The new value of a choice: a number above 0, or whether a part is present."""
    if not choice.is_number:
        return bool(x)
    if isinstance(x, bool | str) or not (isinstance(x, int | float) and 0 < x < math.inf):
        raise VieteError(f"the {choice.name} must be a number above 0, not {x!r:.40}")
    return Fraction(repr(x))


def equations(message: Message, name: str) -> Sequence[str]:
    """A field of a message with a list of equations. No paths: a page opens no file."""
    found = message.get(name) or []
    if not isinstance(found, list) or not all(isinstance(e, str) for e in found):
        raise VieteError(f"{name} must be a list of equations as text, not {found!r:.60}")
    return found


def answer_data(answer: Answer) -> dict[str, Any]:
    """An answer as a value of the page."""
    answer = answer.alone
    array = in_numpy(answer.array)
    data: Any = [str(x) for x in array.reshape(-1)]
    if array.dtype.kind in "fiub":
        data = base64_floats(array)
    return {"shape": list(array.shape), "axes": list(answer.axes), "data": data,
            "labels": [list(map(str, labels)) for labels in answer.labels]}  # fmt: skip


# -- JSON ------------------------------------------------------------------------------------------


def plain(answer: Any) -> Any:
    """An answer for JSON: a number that is not finite is null."""
    match answer:
        case float():
            return answer if math.isfinite(answer) else None
        case Mapping():
            return {str(k): plain(v) for k, v in answer.items()}
        case list() | tuple():
            return [plain(x) for x in answer]
    return answer


def refusal(error: VieteError) -> str:
    """An error in one sentence, with the text that it points to."""
    where = error.where
    at = "" if where is None or not where.text else f": {printable(where.text, 200)}"
    return f"{error.message}{at}"


__all__ = ["KINDS", "Session", "plain", "refusal"]
