"""What trainers and adapters call: a card's module by the names that `transformers` has.

`forward` with ``input_ids``, ``attention_mask`` or ``labels`` gives a dict, the loss first. Labels
are tokens by position. Where the scores at a position depend on no later token, they are of the
next one, so the target at j is the label at j + 1, and the last position has none. Elsewhere, as
in a model that fills blanks, they are of the position itself.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch

from viete.analysis.def_use import losses
from viete.analysis.next_token import padding_mask, text_of
from viete.analysis.shapes import shapes_of
from viete.cards.config import listed
from viete.code.prepared import Prepared
from viete.errors import VieteError
from viete.graph.card import CardData
from viete.graph.dependence import backward_slice
from viete.notation.tree import Ref
from viete.train.inputs import has_other_terms, sees_the_past

NO_TARGET = -100
NAMES = ("input_ids", "attention_mask", "labels", "num_items_in_batch")


class Named(dict[str, Any]):
    """A dict whose entries are attributes too: a config, or what a model gives back."""

    def __getattr__(self, name: str) -> Any:
        """An entry; AttributeError if there is none."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an entry."""
        self[name] = value

    def to_dict(self) -> dict[str, Any]:
        """The entries, copied."""
        return dict(self)

    def to_json_string(self) -> str:
        """The entries as JSON."""
        return json.dumps(self, indent=2)


@dataclass(frozen=True)
class Calling:
    """How a card's ``forward`` takes a text, by the names of its arguments."""

    title: str
    output: str
    needs: tuple[str, ...]  # inputs without a default, besides the text and its targets
    text: str | None = None
    mask: str | None = None  # the card's own input that is 0 at padding
    targets: str | None = None
    past: bool = False  # scores depend on no later token
    plain: bool = False  # and the loss on nothing at a position without a target
    rows: bool = False  # the output has a row for each token
    by_targets: bool = False  # the loss of a batch is the mean over targets, not over texts


def calling(p: Prepared, names: Mapping[str, str]) -> Calling:
    """How the module of a card is called; ``names`` are those of arguments, by the inputs'."""
    card = p.model
    output = p.output.key
    required = [i.name for i in card.inputs if i.default is None]
    try:
        text = text_of(card)
    except VieteError:
        return Calling(card.title, output, tuple(required))
    loss = backward_slice(card, [p.loss.key])[::-1] if p.loss else []
    calls = [c for e in loss for c in losses(card, e.right)]
    found = {c.args[1].key for c in calls if isinstance(c.args[1], Ref)} - {text.name}
    own = [i.name for i in card.inputs if i.name in found and i.shape == text.shape]
    targets = own[0] if len(own) == len(found) == 1 else None
    mask = padding_mask(card, text)
    shape, length = shapes_of(card).types[output].shape, card.size(text.shape[0])
    past = bool(calls) and sees_the_past(card, text, calls)
    return Calling(
        card.title, output, tuple(n for n in required if n not in (text.name, targets)),
        names[text.name], names[mask.name] if mask else None, names[targets] if targets else None,
        past, past and not has_other_terms(card, loss),
        length is not None and len(shape) == 2 and shapes_of(card).same_number(shape[0], length),
        p.count is not None,
    )  # fmt: skip


def config_of(card: CardData, of: Mapping[str, Any]) -> Named:
    """A config with the family and the sizes of a card by its config column, and with ``of``."""
    facts, out = dict(card.facts), Named(of)
    kind = listed(facts.get("config model_type", ""))[0]
    out.setdefault("model_type", kind[0] if kind else "viete")
    for dim in card.dims:
        if (size := card.greatest.get(dim.name)) is not None:
            keys = [key for key in listed(dim.config)[0] if key.isidentifier()]
            out |= dict.fromkeys(keys, int(size) if size.denominator == 1 else float(size))
    return out


def forward_of(own: Callable[..., Any], how: Calling) -> Callable[..., Any]:
    """A module's ``forward``, which can also be called as `transformers` does.

    ``num_items_in_batch`` is the number of targets of all parts of a batch whose gradients are
    added up: then the loss is the sum over the targets of this part, divided by that number.
    """

    @wraps(own)
    def forward(
        self: Any, *given: Any, input_ids: Any = None, attention_mask: Any = None,
        labels: Any = None, num_items_in_batch: Any = None, **more: Any,
    ) -> Any:  # fmt: skip
        if input_ids is None and attention_mask is None and labels is None:
            return own(self, *given, **more)
        if input_ids is None and given:
            input_ids, *rest = given
        else:
            rest = list(given)

        def run(ids: Any, targets: Any) -> tuple[Any, Any]:
            assert how.text
            named = {how.text: ids} | ({} if targets is None else {str(how.targets): targets})
            found = own(self, **named, **more)
            return found if isinstance(found, tuple) else (found, None)

        if input_ids is None or rest:
            raise VieteError("give input_ids, with attention_mask and labels by their names")
        if how.mask and attention_mask is not None:
            more[how.mask], attention_mask = attention_mask, None
        found = answer(how, run, input_ids, attention_mask, labels, more.keys())
        if labels is not None and num_items_in_batch is not None:
            many = (targets_of(how, unpadded(labels, attention_mask)) != NO_TARGET).sum()
            sums = torch.where(many > 0, found["loss"] * many, 0)
            found["loss"] = sums / num_items_in_batch
        return found

    signature = inspect.signature(own)
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, kind, default=None) for name in NAMES]
    forward.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *added]
    )
    return forward


def answer(
    how: Calling, run: Callable[[Any, Any], tuple[Any, Any]], ids: Any, mask: Any, labels: Any,
    given: Any,
) -> Named:  # fmt: skip
    """The loss, if there are labels, and the output. Raises VieteError for what does not fit."""
    if how.text is None:
        raise VieteError(f"{how.title} reads no token ids that input_ids could be")
    if missing := [name for name in how.needs if name not in given]:
        raise VieteError(f"{how.title} needs its input {missing[0]} beside input_ids")
    if labels is not None and how.targets is None:
        raise VieteError(f"{how.title} has no loss with targets that labels could be")
    for name, x in {"attention_mask": mask, "labels": labels}.items():
        if x is not None and x.shape != ids.shape:
            raise VieteError(f"{name} has shape {tuple(x.shape)}, input_ids {tuple(ids.shape)}")
    there = None if mask is None else mask != 0
    if there is None or bool(there.all()):
        return named(how, *run(ids, targets_of(how, labels)))
    if ids.ndim == 1:
        found = answer(how, run, ids[None], mask[None], labels if labels is None else labels[None],
                       given)  # fmt: skip
        return Named({k: x if k == "loss" else x[0] for k, x in found.items()})
    if not bool(there.any(-1).all()):
        raise VieteError("attention_mask leaves a text without a token")
    labels = unpadded(labels, mask)
    after = bool((there[:, 1:] <= there[:, :-1]).all())  # all padding is
    if after and (how.past if labels is None else how.plain):
        return named(how, *run(ids.masked_fill(~there, 0), targets_of(how, labels)))
    return named(how, *alone(how, run, ids, there, labels))


def alone(
    how: Calling, run: Callable[[Any, Any], tuple[Any, Any]], ids: Any, there: Any, labels: Any
) -> tuple[Any, Any]:
    """The output and the loss of texts without their padding, those of one length at a time."""
    lengths = there.sum(-1)
    out, total, count = None, 0, 0
    for n in lengths.unique().tolist():
        rows = lengths == n
        where = there & rows[:, None]
        targets = None if labels is None else targets_of(how, labels[where].reshape(-1, n))
        found, loss = run(ids[where].reshape(-1, n), targets)
        if out is None:
            out = found.new_zeros((*(ids.shape if how.rows else ids.shape[:1]),
                                   *found.shape[1 + how.rows :]))  # fmt: skip
        at = where if how.rows else rows
        out = out.index_put(at.nonzero(as_tuple=True), found.flatten(0, int(how.rows)))
        if targets is not None:
            many = (targets != NO_TARGET).sum() if how.by_targets else rows.sum()
            total, count = total + torch.where(many > 0, loss * many, 0), count + many
    return out, None if labels is None else total / count


def unpadded(labels: Any, mask: Any) -> Any:
    """Labels, none of which is at padding."""
    return labels if labels is None or mask is None else labels.masked_fill(mask == 0, NO_TARGET)


def targets_of(how: Calling, labels: Any) -> Any:
    """The card's targets, of labels."""
    if labels is None or not how.past:
        return labels
    return torch.cat([labels[..., 1:], torch.full_like(labels[..., :1], NO_TARGET)], -1)


def named(how: Calling, output: Any, loss: Any) -> Named:
    """What `transformers` would give back."""
    return Named({**({} if loss is None else {"loss": loss}), how.output: output})


__all__ = ["Calling", "Named", "calling", "config_of", "forward_of"]
