"""What a call of a model takes and returns: token ids, logits, the loss of the next token."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from viete.analysis.flows import flows_of, reads_later
from viete.analysis.next_token import scores, text_of
from viete.errors import VieteError
from viete.evaluate.inputs import host
from viete.evaluate.labelled import Array, device_of
from viete.evaluate.run import Run
from viete.graph.card import CardData, Input
from viete.graph.dependence import forward_slice
from viete.model.named_texts import NamedTexts
from viete.notation.printer import show
from viete.notation.tree import Idx, Ref

RETURNS = ("logits", "loss", "both", None)
# Per position, the negative log-probability of the token that comes next.
LOSSES = "table_{{j<{n}-1}}(-logsoftmax({z})_{{j, {t}_{{j+1}}}})"


class NamedCalls(NamedTexts):
    """Inputs and results of a call, by the card's text and its scores of the next token."""

    def check_next_token(self) -> None:
        """Refuse the loss of the next token where the card has no scores of it."""
        try:
            scores(self.card)
        except VieteError as error:
            why = error.message.partition(";")[0]
            raise VieteError(
                f"{why}, so there is no loss of the next token; ask for a loss of the card by its "
                f"name, model.run(…)['L']"
            ) from None

    def stream(self, block: int, what: str) -> str:
        """The name of the stream at the beginning of a block, or after the last block."""
        layers = self.names.layers
        at = block + layers if block < 0 else block
        if not 0 <= at <= layers:
            raise VieteError(f"{what} must be a block from 0 to {layers}, not {block}")
        if at == layers:
            return f"blocks.{layers - 1}.hook_resid_post"
        return f"blocks.{at}.hook_resid_pre"

    @cached_property
    def text(self) -> Input:
        """The first argument of a run: the text that is continued, else the first input."""
        with suppress(VieteError):
            return text_of(self.card)
        if not self.card.inputs:
            raise VieteError(f"{self.card.title} takes no input")
        return self.card.inputs[0]

    @cached_property
    def output(self) -> str:
        """The name of the value that a call returns."""
        with suppress(VieteError):
            return scores(self.card)
        return show(output_of(self.card, self.text))

    @cached_property
    def reads_later(self) -> bool:
        """Whether positions read later ones, and so padding after a text."""
        (n,) = self.text.shape
        return isinstance(n, Ref) and any(
            reads_later(self.card, *found, n.key) for found in flows_of(self.card).found
        )

    def inputs_of(
        self, tokens: Any, inputs: Mapping[str, Any], prepend_bos: bool | None = None
    ) -> dict[str, Any]:
        """Inputs by name, with a batch axis."""
        ids = self.model.ids(tokens, prepend_bos)
        if not hasattr(ids, "ndim"):
            ids = array_like(next(iter(self.weights.values())), ids)
        if ids.ndim == len(self.card.heads_of(self.text.symbol)) + len(self.text.shape):
            ids = ids[None]
        return {self.text.name: ids, **inputs}

    def tokens_there(
        self, tokens: Any, attention_mask: Any, prepend_bos: bool | None
    ) -> np.ndarray | None:
        """Where texts have tokens, (batch, n): a mask, or the lengths of texts; None: everywhere.

        Raises VieteError for a mask that is not of ones and zeros.
        """
        if attention_mask is not None:
            mask = np.atleast_2d(np.asarray(host(attention_mask)))
            if not np.isin(mask, (0, 1)).all():
                raise VieteError("attention_mask is 1 at each token and 0 at padding")
            return mask == 1
        lengths = np.array(self.text_lengths(tokens, prepend_bos))
        if len(set(lengths)) < 2:
            return None
        there: np.ndarray = np.arange(max(lengths)) < lengths[:, None]
        return there

    def outcome(
        self, run: Run, return_type: str | None, per_token: bool, there: np.ndarray | None = None
    ) -> Any:
        """The logits, the loss or both; where there is no token, there is nothing to predict."""
        if return_type is None:
            return None
        if return_type == "logits":
            return run[self.output]
        name, text = scores(self.card), text_of(self.card)
        n = show(text.shape[0])
        if run.sizes[n] < 2:
            raise VieteError("the loss of the next token needs a text of at least 2 tokens")
        loss = run[LOSSES.format(n=n, z=name, t=text.name)]
        loss = averaged(loss, None if there is None else array_like(loss, there), per_token)
        return loss if return_type == "loss" else (run[name], loss)

    def loss_fn(
        self, logits: Array, tokens: Array, attention_mask: Array | None = None,
        per_token: bool = False,
    ) -> Array:  # fmt: skip
        """The loss of the next token, from logits (batch, n, V) and ids (batch, n).

        With ``per_token`` it is (batch, n - 1). With a mask (batch, n) of ones and zeros, tokens
        with a zero do not count.
        """
        xp = array_namespace(logits)
        ids = array_like(logits, tokens)
        high = logits - xp.max(logits, axis=-1, keepdims=True)
        sure = high - xp.log(xp.sum(xp.exp(high), axis=-1, keepdims=True))
        batch, n = ids.shape
        rows, places = xp.arange(batch)[:, None], xp.arange(n - 1)[None, :]
        loss = -sure[rows, places, ids[:, 1:]]
        mask = None if attention_mask is None else array_like(logits, attention_mask) == 1
        return averaged(loss, mask, per_token)


def averaged(loss: Array, there: Array | None, per_token: bool) -> Array:
    """The mean of losses (batch, n - 1), or with ``per_token`` these.

    Where a text has no token, (batch, n), nothing is predicted, and nothing from there.
    """
    xp = array_namespace(loss)
    if there is None:
        return loss if per_token else xp.mean(loss)
    both = there[:, :-1] & there[:, 1:]
    loss = xp.where(both, loss, xp.zeros_like(loss))
    return loss if per_token else xp.sum(loss) / xp.sum(xp.astype(both, loss.dtype))


def output_of(card: CardData, text: Input) -> Ref:
    """The value called ``logits``, else the last value that needs no input but the given one."""
    given = {i.name for i in card.inputs if i.default is None} - {text.name}
    lacking = forward_slice(card, given)
    found = [e for e in card.equations if e.name not in lacking] or list(card.equations)
    last = next((e for e in found if e.name == "logits"), found[-1])
    if last.loop is None:
        return last.left
    at = (last.loop.upper if i == Idx(last.loop.index) else i for i in last.left.index)
    return replace(last.left, index=tuple(at))


def array_like(like: Array, ids: Any) -> Array:
    """Token ids in the library and on the device of another array; NumPy's for exact numbers."""
    array = np.asarray(ids)
    if not hasattr(like, "dtype"):
        return array
    xp = array_namespace(like)
    return array if xp.__name__.endswith("numpy") else xp.asarray(array, device=device_of(like))


def to_device(array: Array, *where: Any) -> Array:
    """An array on a device of PyTorch, or in another precision.

    Raises VieteError for an array of another library, unless the device is the CPU.
    """
    if hasattr(array, "to"):
        return array.to(*where)
    if [*map(str, where)] == ["cpu"]:
        return array
    raise VieteError(f'{where[0]} needs PyTorch arrays: load the model with framework="torch"')


__all__ = ["RETURNS", "NamedCalls", "array_like", "to_device"]
