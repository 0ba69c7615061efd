"""A model as TransformerLens has it: logits or loss, a cache, hooks for one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from viete.analysis.next_token import padding_mask
from viete.errors import VieteError
from viete.evaluate.execution import execute
from viete.evaluate.inputs import check_weights
from viete.evaluate.labelled import Array
from viete.evaluate.run import Run
from viete.evaluate.schedule import program
from viete.model.cache import ActivationCache, RunValues, at_positions
from viete.model.calls import RETURNS, to_device
from viete.model.hook_points import Hook, HookPoint
from viete.model.hooking import Filter, Hooks
from viete.model.named_values import NamedValues, named_values
from viete.model.names import SPLIT
from viete.model.short_names import Key
from viete.model.slices import Cut
from viete.model.starting import Starting
from viete.model.tokens import are_texts, whole_numbers


@dataclass(frozen=True)
class Asked:
    """What a call asks for: the values to keep (None: all), the result, the blocks, a first id."""

    keep: Filter | None = None
    return_type: str | None = "logits"
    per_token: bool = False
    start: int | None = None
    stop: int | None = None
    prepend_bos: bool | None = None


class Lens(Starting):
    """A model by the names of TransformerLens, ``model.lens``.

    Tokens are ids (n) or (batch, n), or text. Values by names of TransformerLens, and the results
    of `__call__` and `run_with_cache`, have a batch axis, as in TransformerLens; ``model.run`` has
    one only for a batch. ``names`` lists only names for which the card has values: `meaning` gives
    the meaning of each. Hooks act on every run of the model, and stay when it is moved.
    """

    def __repr__(self) -> str:
        return f"<{self.model!r} by TransformerLens' names>"

    def meaning(self, name: Key) -> str:
        """The meaning of a name: ``blocks.3.hook_resid_mid = y⁴, where yⁱ = xⁱ⁻¹ + aⁱ``."""
        return self.names.meaning(name)

    def set_use_split_qkv_input(self, use: bool) -> None:
        """Choose whether the names include the inputs that queries, keys and values each read.

        ``hook_q_input``, ``hook_k_input`` and ``hook_v_input``, (batch, pos, head, d_model), can be
        hooked into by name in any case.
        """
        self.names.split_inputs = use
        self.__dict__.pop("hiding", None)

    def set_use_attn_result(self, use: bool) -> None:
        """Do nothing: ``hook_result`` is always available, in TransformerLens only on request."""

    def set_use_hook_mlp_in(self, use: bool) -> None:
        """Do nothing: ``hook_mlp_in`` is always available, in TransformerLens only on request."""

    # -- running -----------------------------------------------------------------------------------

    def __call__(
        self, tokens: Any, return_type: str | None = "logits", loss_per_token: bool = False,
        prepend_bos: bool | None = None, start_at_layer: int | None = None,
        stop_at_layer: int | None = None, **inputs: Any,
    ) -> Any:  # fmt: skip
        """Logits (batch, n, V), the mean loss of the next token, 'both', or None.

        For a card without scores of the next token, such as a classifier, 'logits' are its value of
        that name, or else the last value that needs only the first input, with a batch axis in
        front. With ``loss_per_token`` the loss is (batch, n - 1). With ``stop_at_layer`` l only the
        blocks before block l are run, and the result is the stream that block l would read. With
        ``start_at_layer`` l the argument is the stream that block l reads, (batch, n, d_model), and
        nothing before it is run; the loss then needs the ids, as the input of their name.
        ``attention_mask``, (batch, n), is 1 at each token and 0 at padding, on either side: then
        each text gives what it gives alone, and values at padding mean nothing.
        """
        asked = Asked([], return_type, loss_per_token, start_at_layer, stop_at_layer, prepend_bos)
        return self.run_and_outcome(tokens, asked, inputs)[0]

    forward = __call__

    def input_to_embed(
        self, input: Any, prepend_bos: bool | None = None, padding_side: str | None = None,
        attention_mask: Any = None,
    ) -> tuple[Array, Array | None, None, Array | None]:  # fmt: skip
        """The stream before the first block, (batch, n, d_model), the ids and the mask.

        The third of four is None: no card has positions that only queries and keys see.
        """
        text = isinstance(input, str) or are_texts(input)
        tokens = self.to_tokens(input, prepend_bos, padding_side) if text else input
        out = self(tokens, stop_at_layer=0, attention_mask=attention_mask)
        return out, tokens, None, attention_mask

    def run_with_cache(
        self, tokens: Any, names_filter: Filter | None = None, return_type: str | None = "logits",
        stop_at_layer: int | None = None, loss_per_token: bool = False,
        remove_batch_dim: bool = False, prepend_bos: bool | None = None,
        start_at_layer: int | None = None, incl_bwd: bool = False, pos_slice: Cut = None,
        device: Any = None, **inputs: Any,
    ) -> tuple[Any, ActivationCache]:  # fmt: skip
        """The result of a call, and the values of the run by name.

        ``names_filter`` is a name, a list of names or a test of a name; formulas of the notation
        are names too. A value that it leaves out is not kept, nor computed if nothing needs it;
        without it every value is kept, and parts of equations are computed when asked for. With
        ``incl_bwd`` the result must be a single number, such as the loss, and the cache has its
        gradient with respect to every kept value, under the value's name with _grad. With
        ``pos_slice`` the cache has these positions only: -1, (2, 5), [0, 3]. ``device`` is one of
        PyTorch to which values are brought.
        """
        asked = Asked(names_filter, return_type, loss_per_token, start_at_layer, stop_at_layer,
                      prepend_bos)  # fmt: skip
        if not incl_bwd:
            out, run, named, names = self.run_and_outcome(tokens, asked, inputs)
            values = RunValues(named, run, names, pos_slice)
        else:
            gradients, _, back = self.get_caching_hooks(names_filter, True, pos_slice=pos_slice)
            with self.hooks((), back):
                out, run, named, names = self.run_and_outcome(tokens, asked, inputs)
            if getattr(out, "ndim", 1) or not hasattr(out, "backward"):
                raise VieteError("incl_bwd needs one returned number: the loss")
            out.backward()
            values = RunValues(named, run, names, pos_slice)
            values.update(gradients)
        cache = ActivationCache(values, self)
        if device is not None:
            cache.to(device)
        return out, cache.remove_batch_dim() if remove_batch_dim else cache

    def get_caching_hooks(
        self, names_filter: Filter | None = None, incl_bwd: bool = False, device: Any = None,
        remove_batch_dim: bool = False, cache: dict[str, Array] | None = None,
        pos_slice: Cut = None,
    ) -> tuple[dict[str, Array], list[tuple[Filter, Hook]], list[tuple[Filter, Hook]]]:  # fmt: skip
        """A dict, and the forward and backward hooks that put the values into it.

        Gradients have the name of the value with _grad; without ``incl_bwd`` no backward hooks are
        returned. The rest is as in `run_with_cache`.
        """
        found: dict[str, Array] = {} if cache is None else cache

        def keep(value: Array, hook: HookPoint, ends: str) -> None:
            name = str(hook.name)
            kept = value
            if pos_slice is not None:
                kept = at_positions(self.names, name, value, pos_slice)
            kept = kept if device is None else to_device(kept, device)
            found[f"{name}{ends}"] = kept[0] if remove_batch_dim else kept

        where = list(self.names) if names_filter is None else names_filter
        back: list[tuple[Filter, Hook]] = [(where, partial(keep, ends="_grad"))]
        return found, [(where, partial(keep, ends=""))], back if incl_bwd else []

    def add_caching_hooks(
        self, names_filter: Filter | None = None, incl_bwd: bool = False, device: Any = None,
        remove_batch_dim: bool = False, cache: dict[str, Array] | None = None,
    ) -> dict[str, Array]:  # fmt: skip
        """Let the hooks of `get_caching_hooks` hook into every run from now on; gives the dict."""
        found, there, back = self.get_caching_hooks(
            names_filter, incl_bwd, device, remove_batch_dim, cache
        )
        for dir, hooks in (("fwd", there), ("bwd", back)):
            for where, fn in hooks:
                self.add_hook(where, fn, dir)
        return found

    def run_with_hooks(
        self, tokens: Any, fwd_hooks: Hooks = (), bwd_hooks: Hooks = (),
        return_type: str | None = "logits", reset_hooks_end: bool = True,
        clear_contexts: bool = False, **options: Any,
    ) -> Any:  # fmt: skip
        """A call with hooks: ``fn(value, hook)``, given as pairs (name or filter, fn).

        The result of a function replaces the value, and must have its shape; if it is None the
        value is as the function leaves it. ``bwd_hooks`` receive the gradients with respect to
        values, when derivatives of the result are taken with PyTorch. With ``reset_hooks_end``
        False the functions hook into every run from then on. With ``clear_contexts`` the contexts
        of hook points are emptied at the end.
        """
        with self.hooks(fwd_hooks, bwd_hooks, reset_hooks_end, clear_contexts):
            return self(tokens, return_type=return_type, **options)

    def generate(
        self, input: Any = "", max_new_tokens: int = 10, stop_at_eos: bool = True,
        eos_token_id: int | None = None, do_sample: bool = True, top_k: int | None = None,
        top_p: float | None = None, temperature: float = 1.0, use_past_kv_cache: bool = True,
        prepend_bos: bool | None = None, return_type: str = "input", seed: int = 0,
        verbose: bool = False,
    ) -> Any:  # fmt: skip
        """Continue a text or token ids, (n) or (batch, n), as TransformerLens does.

        >>> model.lens.generate("I live in", max_new_tokens=5)  # doctest: +SKIP

        A text returns a text, without the tokens that begin and end one; ids return ids, (batch,
        n). ``return_type`` "str" or "tokens" overrides this. In a batch, a sequence that has ended
        is filled with its last token. ``temperature=0`` takes the likeliest token, as
        ``do_sample=False`` does.
        """
        how: dict[str, Any] = {"greedy": True}
        if do_sample and temperature != 0:
            how = {"top_k": top_k, "top_p": top_p, "temperature": temperature}
        texts = isinstance(input, str) or are_texts(input)
        if return_type not in ("input", "str", "tokens"):
            raise VieteError(f"return_type is 'input', 'str' or 'tokens', not {return_type!r:.40}")
        given = [input] if isinstance(input, str) else list(input) if texts else input
        rows = (
            [self.model.ids(text, prepend_bos) for text in given] if texts else whole_numbers(given)
        )
        ids = [[int(t) for t in row] for row in (rows if texts else np.atleast_2d(rows))]
        end = eos_token_id
        if stop_at_eos and end is None and self.tokenizer is not None:
            end = self.tokenizer.eos_token_id
        stop = end if stop_at_eos else None
        for k, row in enumerate(ids):
            row += [t for t, in self.model.sample(
                np.array(row), most=max_new_tokens, cache=use_past_kv_cache, seed=seed + k,
                stop=stop, **how,
            ) if t is not None]  # fmt: skip
        if return_type == "str" or (return_type == "input" and texts):
            known = self.model.tokenizer
            ends = {known.bos_token_id, known.eos_token_id, known.pad_token_id, end}
            out = [known.decode([t for t in row if t not in ends]) for row in ids]
            return out[0] if isinstance(input, str) else out
        longest = max(map(len, ids))
        filled = [row + [end or 0] * (longest - len(row)) for row in ids]
        return self.model.in_its_arrays(np.array(filled, np.int64))

    # -- as a module of PyTorch --------------------------------------------------------------------

    def to(self, *where: Any) -> Self:
        """Move the model's weights to a device or precision of PyTorch, in place."""
        self.model.to(*where)
        return self

    def cuda(self) -> Self:
        """Move the weights to a GPU, in place."""
        return self.to("cuda")

    def cpu(self) -> Self:
        """Move the weights to main memory, in place."""
        return self.to("cpu")

    def train(self, mode: bool = True) -> Self:
        """Returns the lens itself: the equations are the same in training."""
        return self

    def eval(self) -> Self:
        """Returns the lens itself, as `train` does."""
        return self

    # -- how ---------------------------------------------------------------------------------------

    @cached_property
    def hiding(self) -> Lens:
        """The lens of the model that padding does not change, with the hooks of this one."""
        lens: Lens = self.model.padded().lens
        lens.__dict__["points"] = self.points
        lens.names.split_inputs = self.names.split_inputs
        return lens

    def run_and_outcome(
        self, tokens: Any, asked: Asked, inputs: Mapping[str, Any]
    ) -> tuple[Any, Run, NamedValues, list[str]]:
        """A run, its result, and the names of its kept values."""
        keep, return_type = asked.keep, asked.return_type
        if return_type not in RETURNS:
            raise VieteError(f"return_type must be one of {RETURNS}, not {return_type!r:.40}")
        if return_type in ("loss", "both"):
            self.check_next_token()
        inputs = self.model.with_inputs(inputs)
        mask, own = inputs.pop("attention_mask", None), padding_mask(self.card, self.text)
        there = self.tokens_there(tokens, mask, asked.prepend_bos)
        if there is not None and own is not None:
            inputs = {own.name: there.astype(np.int64), **inputs}
        elif there is not None and (mask is not None or self.reads_later):
            return self.hiding.run_and_outcome(tokens, asked, {**inputs, "attention_mask": there})
        names = list(self.names) if keep is None else self.asked(keep)
        first = None if asked.start is None else self.stream(asked.start, "start_at_layer")
        end = None if asked.stop is None else self.stream(asked.stop, "stop_at_layer")

        def inside(name: str) -> bool:
            late = end is not None and self.comes_after(name, end)
            return not late and (first is None or not self.comes_before(name, first))

        names = [n for n in names if inside(n)]
        hooks = [point for point in self.hooked() if inside(str(point.name))]
        everything = keep is None and end is None and first is None
        apart = (
            not everything or hooks or self.names.split_inputs
        )  # otherwise parts of equations can wait
        wanted = {self.names.split(n)[0] for n in names if n in self.names} if apart else set()
        hooked = {n for n in map(self.general, hooks) if n}
        if (norms := {n for n in hooked if ".ln1." in n}) and (wanted | hooked) & {*SPLIT}:
            raise VieteError(
                f"with separate inputs, queries, keys and values have separate norms, and none of "
                f"them reads {min(norms)}; hook into the inputs or into ln1, not both"
            )
        named = named_values(self.names, wanted | hooked)
        needed = [named.value(n) for n in names]
        # A hook is called in any case, but for one of the card's names beyond the end.
        beyond = [str(p.name) for p in hooks if end is None or p.name in self.names]
        needed += map(named.value, beyond)
        if end is not None:
            needed.append(named.value(end))
        elif return_type is not None:
            needed.append(self.output)
        needed = list(dict.fromkeys(needed))  # so that a run with other hooks there is this again
        check_weights(program(self.card), self.weights)
        put = self.interventions(named, hooks)
        if first is not None:
            run = self.started(tokens, named, first, needed, put, inputs)
        else:
            given = self.inputs_of(tokens, inputs, asked.prepend_bos)
            back = any(point.bwd_hooks for point in hooks)
            run = execute(program(named.model), given, self.weights,
                          None if everything else needed, put=put, again=not back)  # fmt: skip
        if end is not None:
            out = named.read(run, end, run.batch or 1)
        else:
            out = self.outcome(run, return_type, asked.per_token, there)
        return out, run, named, names

    def comes_after(self, name: str, end: str) -> bool:
        """Whether a name belongs to a block from the end on, or to values after the blocks."""
        if name not in self.names:
            return False
        last = int(end.split(".")[1]) + end.endswith("post")
        general, layer = self.names.split(name)
        return layer >= last if layer is not None else not self.names.comes_first(general)

    def comes_before(self, name: str, first: str) -> bool:
        """Whether a name belongs to a block before the first, or to values before the blocks."""
        if name not in self.names:
            return False
        start = int(first.split(".")[1]) + first.endswith("post")
        general, layer = self.names.split(name)
        return layer < start if layer is not None else self.names.comes_first(general)


__all__ = ["Lens"]
