"""Running a loaded model as TransformerLens does: logits or loss, a cache, functions that hook in.

A hook replaces a value as soon as it is computed, and what is computed from it follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from array_api_compat import array_namespace

from viete.analysis.next_token import scores, text_of
from viete.analysis.value_names import heads_counted
from viete.errors import VieteError
from viete.evaluate.execution import execute
from viete.evaluate.inputs import check_weights
from viete.evaluate.interventions import Intervention, composed, intervention, member_of
from viete.evaluate.labelled import Array, device_of
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, program
from viete.graph.card import CardData, Input
from viete.graph.dependence import forward_slice
from viete.meanings.run import run
from viete.model.cache import ActivationCache
from viete.model.named_values import NamedValues, named_values
from viete.model.names import Key
from viete.model.weights import NamedWeights
from viete.notation.printer import show
from viete.notation.tree import Idx, Ref

Hook = Callable[[Array, "HookPoint"], Array | None]
Filter = Key | Callable[[str], bool] | Sequence[Key | Callable[[str], bool]]
RETURNS = ("logits", "loss", "both", None)
# Per position, the negative log-probability of the token that comes next.
LOSSES = "table_{{j<{n}-1}}(-logsoftmax({z})_{{j, {t}_{{j+1}}}})"


@dataclass
class HookPoint:
    """What a hook is told of the place it is at; ``ctx`` is its own, to keep things in."""

    name: str
    ctx: dict[str, Any] = field(default_factory=dict)

    def layer(self) -> int:
        """The block. Raises VieteError for a value outside blocks, and for a name of the card's."""
        parts = self.name.split(".")
        if parts[0] != "blocks":
            raise VieteError(f"{self.name} is in no block that TransformerLens would number")
        return int(parts[1])


class Hooked(NamedWeights):
    """What a card with weights can do by the names of TransformerLens.

    Tokens are ids (n) or (batch, n), or text. What TransformerLens names or returns, `__call__` and
    `run_with_cache` too, has a batch axis, as it has there; `run` has one only of a batch. Of
    ``names`` only those are offered that the card has values for: `Names.meaning` says what each
    is.
    """

    def ids(self, given: Any) -> Any:
        """Text as ids; for the class that is made of this."""
        return given

    @cached_property
    def hook_points(self) -> dict[str, HookPoint]:
        """By name, where functions hook in."""
        return {name: HookPoint(name) for name in self.names}

    @cached_property
    def hooked(self) -> list[tuple[str, Hook]]:
        """The functions that hook into every run, in order."""
        return []

    def meaning(self, name: Key) -> str:
        """What a name stands for: ``blocks.3.hook_resid_mid = y⁴, where yⁱ = xⁱ⁻¹ + aⁱ``."""
        return self.names.meaning(name)

    # -- running -----------------------------------------------------------------------------------

    def run(self, tokens: Any = None, /, **options: Any) -> Run:
        """Run the equations on token ids, (n) or (batch, n), or on text: every value by its name.

        Values have a batch axis where the ids have one, or a list of texts is given. Hooks act on
        it. Options and other inputs are those of `viete.meanings.run.run`.
        """
        ids = None if tokens is None else self.ids(tokens)
        card, options = self.with_hooks(options)
        return run(card, ids, self.weights, **options)

    def with_hooks(self, options: dict[str, Any]) -> tuple[CardData, dict[str, Any]]:
        """The card with the values that functions hook into, and them among what is put there."""
        if not self.hooked:
            return self.card, options
        named = named_values(self.names, {n for n in map(self.general, self.hooked) if n})
        if options.get("names") is not None:
            needed = [named.value(name) for name, _ in self.hooked]
            options["names"] = [*options["names"], *needed]
        options["put"] = {**(options.get("put") or {}), **self.interventions(named, self.hooked)}
        return named.model, options

    def general(self, hook: tuple[str, Hook]) -> str:
        """A hook's name as it stands in names.md; empty for a name of the card's."""
        return self.names.split(hook[0])[0] if hook[0] in self.names else ""

    def __call__(
        self, tokens: Any, return_type: str | None = "logits", loss_per_token: bool = False,
        stop_at_layer: int | None = None, **inputs: Any,
    ) -> Any:  # fmt: skip
        """Logits (batch, n, V), the mean loss of the next token, 'both', or None.

        Of a card without scores of the next token, such as a classifier, 'logits' are its value of
        that name, or else the last that the first input alone gives, with a batch axis in front.
        With ``loss_per_token`` the loss is (batch, n - 1). With ``stop_at_layer`` l only the blocks
        before block l are run, and what comes back is the stream that it would read.
        """
        return self.forward(tokens, [], return_type, loss_per_token, stop_at_layer, inputs)[0]

    def run_with_cache(
        self, tokens: Any, names_filter: Filter | None = None, return_type: str | None = "logits",
        stop_at_layer: int | None = None, loss_per_token: bool = False,
        remove_batch_dim: bool = False, **inputs: Any,
    ) -> tuple[Any, ActivationCache]:  # fmt: skip
        """What a call returns, and the values of the run by name.

        ``names_filter`` is a name, a list of names or a test of a name; formulas of the notation
        are names too. What it leaves out is not kept, nor computed if nothing needs it; without it
        every value is kept, and parts of equations are computed when they are asked for.
        """
        out, run, named, names = self.forward(
            tokens, names_filter, return_type, loss_per_token, stop_at_layer, inputs
        )
        cache = ActivationCache(self, named, run, names, run.batch or 1)
        return out, cache.remove_batch_dim() if remove_batch_dim else cache

    def run_with_hooks(
        self, tokens: Any, fwd_hooks: Sequence[tuple[Filter, Hook]] = (),
        return_type: str | None = "logits", **options: Any,
    ) -> Any:  # fmt: skip
        """A call in which functions hook in: ``fn(value, hook)``, with (name or filter, fn) given.

        What a function returns takes the place of the value, and must have its shape; if it returns
        None the value is as the function leaves it.
        """
        with self.hooks(fwd_hooks):
            return self(tokens, return_type=return_type, **options)

    @contextmanager
    def hooks(self, fwd_hooks: Sequence[tuple[Filter, Hook]] = ()) -> Iterator[Hooked]:
        """Every run inside has these hooks besides."""
        before = list(self.hooked)
        try:
            for where, fn in fwd_hooks:
                self.add_hook(where, fn)
            yield self
        finally:
            self.hooked[:] = before

    def add_hook(self, where: Filter, fn: Hook) -> None:
        """Let a function hook into every run from now on.

        ``where`` names values as TransformerLens does, or as the card does: ``x^1``, ``A^{1,h}``.
        Raises VieteError for what is neither.
        """
        if not callable(fn):
            raise VieteError(f"a hook is a function of a value and a hook point, not {fn!r:.40}")
        found = self.chosen(where)
        ready = program(self.card)
        own = {m: name for name, m in ready.names.items()}
        for k, name in enumerate(found):
            if name not in self.names:
                member = member_of(ready, name)
                found[k] = name if heads_counted(self.card, name) else own[member]
                self.hook_points.setdefault(found[k], HookPoint(found[k]))
        self.hooked.extend((name, fn) for name in found)

    def reset_hooks(self) -> None:
        """No function hooks in any more."""
        self.hooked.clear()
        for point in self.hook_points.values():
            point.ctx.clear()

    # -- how ---------------------------------------------------------------------------------------

    def chosen(self, where: Filter) -> list[str]:
        """The names, in full, that a filter lets through, and the formulas in it.

        Raises VieteError for a name that the card has no value for.
        """
        one = isinstance(where, str) or callable(where) or is_key(where)
        items: list[Any] = [where] if one else list(where)  # type: ignore[arg-type]
        out: list[str] = []
        for item in items:
            if callable(item):
                out += [name for name in self.names if item(name)]
                continue
            name = self.names.full_or_formula(item)
            if name is not None:
                self.names.get(self.names.split(name)[0])
            out.append(item if name is None else name)
        return list(dict.fromkeys(out))

    def forward(
        self, tokens: Any, keep: Filter | None, return_type: str | None, per_token: bool,
        stop: int | None, inputs: Mapping[str, Any],
    ) -> tuple[Any, Run, NamedValues, list[str]]:  # fmt: skip
        """A run, what it returns, and the names that are kept of it."""
        if return_type not in RETURNS:
            raise VieteError(f"return_type is one of {RETURNS}, not {return_type!r:.40}")
        if return_type in ("loss", "both"):
            self.check_next_token()
        names = list(self.names) if keep is None else self.chosen(keep)
        end = None if stop is None else self.stream(stop)
        if end is not None:
            names = [n for n in names if not self.comes_after(n, end)]
        hooks = [(n, fn) for n, fn in self.hooked if end is None or not self.comes_after(n, end)]
        everything = keep is None and end is None
        apart = not everything or hooks  # otherwise parts of equations can wait
        wanted = {self.names.split(n)[0] for n in names if n in self.names} if apart else set()
        named = named_values(self.names, wanted | {n for n in map(self.general, hooks) if n})
        needed = [named.value(n) for n in names]
        # A hook is called in any case, but for one of the card's names beyond the end.
        needed += [named.value(n) for n, _ in hooks if end is None or n in self.names]
        if end is not None:
            needed.append(named.value(end))
        elif return_type is not None:
            needed.append(self.output)
        needed = list(dict.fromkeys(needed))  # so that a run with other hooks there is this again
        given = self.inputs_of(tokens, inputs)
        check_weights(program(self.card), self.weights)
        put = self.interventions(named, hooks)
        run = execute(program(named.model), given, self.weights,
                      None if everything else needed, put=put)  # fmt: skip
        if end is not None:
            out = named.read(run, end, run.batch or 1)
        else:
            out = self.outcome(run, return_type, per_token)
        return out, run, named, names

    def check_next_token(self) -> None:
        """Refuse the loss of a next token that has no scores."""
        try:
            scores(self.card)
        except VieteError as error:
            why = error.message.partition(";")[0]
            raise VieteError(
                f"{why}, which the loss of the next token is of; ask for a loss of the card by its "
                f"name, model.run(…)['L']"
            ) from None

    def stream(self, stop: int) -> str:
        """The name of the stream at the beginning of a block, or after the last."""
        layers = self.names.layers
        at = stop + layers if stop < 0 else stop
        if not 0 <= at <= layers:
            raise VieteError(f"stop_at_layer is a block, 0 to {layers}, not {stop}")
        if at == layers:
            return f"blocks.{layers - 1}.hook_resid_post"
        return f"blocks.{at}.hook_resid_pre"

    def comes_after(self, name: str, end: str) -> bool:
        """Whether a name is of a block at or beyond the end, or of what follows the blocks."""
        if name not in self.names:
            return False
        last = int(end.split(".")[1]) + end.endswith("post")
        general, layer = self.names.split(name)
        return layer >= last if layer is not None else not self.names.comes_first(general)

    @cached_property
    def text(self) -> Input:
        """The input that a run is given first: the text that is continued, else the first one."""
        with suppress(VieteError):
            return text_of(self.card)
        if not self.card.inputs:
            raise VieteError(f"{self.card.title} takes no input")
        return self.card.inputs[0]

    @cached_property
    def output(self) -> str:
        """The name of what a call returns."""
        with suppress(VieteError):
            return scores(self.card)
        return show(output_of(self.card, self.text))

    def inputs_of(self, tokens: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs by name, with a batch axis."""
        ids = self.ids(tokens)
        if not hasattr(ids, "ndim"):
            ids = array_like(next(iter(self.weights.values())), ids)
        if ids.ndim == len(self.card.heads_of(self.text.symbol)) + len(self.text.shape):
            ids = ids[None]
        return {self.text.name: ids, **inputs}

    def interventions(
        self, named: NamedValues, hooks: Sequence[tuple[str, Hook]]
    ) -> dict[Member, Intervention]:
        """What hooks do to the values of a run."""
        by_member: dict[Member, list[Intervention]] = {}
        for name, fn in hooks:
            by_member.setdefault(named.member(name), []).append(self.intervention(named, name, fn))
        return {member: composed(each) for member, each in by_member.items()}

    def intervention(self, named: NamedValues, name: str, fn: Hook) -> Intervention:
        """What a hook makes of a value, in the layout of the field."""
        order, point = named.layout(name), self.hook_points[name]
        return intervention(lambda array: fn(array, point), lambda value: order, name)

    def outcome(self, run: Run, return_type: str | None, per_token: bool) -> Any:
        """Logits, loss or both."""
        if return_type is None:
            return None
        if return_type == "logits":
            return run[self.output]
        name, text = scores(self.card), text_of(self.card)
        n = show(text.shape[0])
        if run.sizes[n] < 2:
            raise VieteError("the loss of the next token needs a text of at least 2 tokens")
        loss = run[LOSSES.format(n=n, z=name, t=text.name)]
        loss = loss if per_token else array_namespace(loss).mean(loss)
        return loss if return_type == "loss" else (run[name], loss)


def output_of(card: CardData, text: Input) -> Ref:
    """The value called ``logits``, else the last that needs no input but this one."""
    given = {i.name for i in card.inputs if i.default is None} - {text.name}
    lacking = forward_slice(card, given)
    found = [e for e in card.equations if e.name not in lacking] or list(card.equations)
    last = next((e for e in found if e.name == "logits"), found[-1])
    if last.loop is None:
        return last.left
    at = (last.loop.upper if i == Idx(last.loop.index) else i for i in last.left.index)
    return replace(last.left, index=tuple(at))


def is_key(where: Any) -> bool:
    """Whether this is one name, ``("q", 5)``, and not several."""
    return isinstance(where, tuple) and len(where) > 1 and isinstance(where[1], int | None)


def array_like(like: Array, ids: Any) -> Array:
    """Token ids in the library, and on the device, of another array; exact numbers have none."""
    import numpy as np

    array = np.asarray(ids)
    if not hasattr(like, "dtype"):
        return array
    xp = array_namespace(like)
    return array if xp.__name__.endswith("numpy") else xp.asarray(array, device=device_of(like))


__all__ = ["Filter", "Hook", "HookPoint", "Hooked"]
