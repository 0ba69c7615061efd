"""The values of a run under the names of TransformerLens, and what is commonly made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from array_api_compat import array_namespace

from viete.errors import VieteError
from viete.evaluate.labelled import Array
from viete.evaluate.run import Run
from viete.model.named_values import NamedValues
from viete.model.names import Key
from viete.model.weights import NamedWeights

Cut = int | tuple[int | None, ...] | slice | Sequence[int] | None  # (1, 5) is the slice 1:5
Labelled = Array | tuple[Array, list[str]]


class ActivationCache(Mapping[Any, Array]):
    """A run's values: ``cache["q", 5]``, ``cache["blocks.5.attn.hook_q"]``, ``cache["Q^{6,h}"]``.

    A name of TransformerLens gives the value with the axes in its order, batch first; anything else
    is a formula of the notation, as for `viete.evaluate.run.Run`. Parts of equations are computed
    when they are asked for. Keys are names of TransformerLens, and formulas that were asked for.
    """

    def __init__(
        self, model: NamedWeights, named: NamedValues, run: Run, kept: Sequence[str], batch: int
    ) -> None:
        self.model, self.named, self.run, self.batch = model, named, run, batch
        self.kept = dict.fromkeys(kept)
        self.names = named.names
        self.has_batch_dim = True

    def __getitem__(self, key: Key) -> Array:
        name = self.names.full_or_formula(key)
        if name is None:
            assert isinstance(key, str)
            return self.run[key]
        self.names.get(self.names.split(name)[0])
        if name not in self.kept:
            raise VieteError(f"{name} is not in this cache: it was not asked for")
        array: Any = self.named.read(self.run, name, self.batch)
        return array if self.has_batch_dim else array[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kept)

    def __len__(self) -> int:
        return len(self.kept)

    def __contains__(self, key: object) -> bool:
        try:
            name = self.names.full_or_formula(key)  # type: ignore[arg-type]
        except VieteError:
            return False
        return key in self.run if name is None else name in self.kept

    def __repr__(self) -> str:
        shown = ", ".join(list(self)[:6])
        return f"<cache of {self.model.card.title}: {shown}{', …' if len(self) > 6 else ''}>"

    def remove_batch_dim(self) -> ActivationCache:
        """The same cache, whose values have no batch axis. Raises VieteError for a real batch."""
        if self.batch != 1:
            raise VieteError(f"a batch of {self.batch} sequences cannot go without its axis")
        self.has_batch_dim = False
        return self

    # -- stacks of values --------------------------------------------------------------------------

    def stack_activation(
        self, activation_name: str, layer: int | None = None, sublayer_type: str | None = None
    ) -> Array:
        """One value of all blocks before ``layer``, (layer, …)."""
        last = self.before(layer)
        if not last:
            raise VieteError("there is no block before block 0, so there is nothing to stack")
        return stack([self[activation_name, k, sublayer_type] for k in range(last)])

    def accumulated_resid(
        self, layer: int | None = None, incl_mid: bool = False, apply_ln: bool = False,
        pos_slice: Cut = None, mlp_input: bool = False, return_labels: bool = False,
    ) -> Labelled:  # fmt: skip
        """The stream before each block up to ``layer``, (component, batch, pos, d_model).

        Without a layer the last is the stream after all blocks. With ``apply_ln`` the norm of that
        place is applied: before the unembedding to every stream anew, as the logit lens does.
        """
        last, layers = self.before(layer), self.names.layers
        found: dict[str, Array] = {}
        for k in range(min(last + 1, layers)):
            found[f"{k}_pre"] = self["resid_pre", k]
            if (incl_mid and k < last) or (mlp_input and k == last):
                found[f"{k}_mid"] = self["resid_mid", k]
        if last == layers:
            found["final_post"] = self["resid_post", layers - 1]
        labels, parts = list(found), list(found.values())
        out = stack([cut(p, pos_slice) for p in parts])
        if apply_ln:
            anew = last == layers
            out = self.apply_ln_to_stack(out, last, mlp_input, pos_slice, recompute_ln=anew)
        return (out, labels) if return_labels else out

    def decompose_resid(
        self, layer: int | None = None, mlp_input: bool = False, mode: str = "all",
        apply_ln: bool = False, pos_slice: Cut = None, incl_embeds: bool = True,
        return_labels: bool = False,
    ) -> Labelled:  # fmt: skip
        """What each sub-layer before ``layer`` added to the stream, and the embeddings.

        Shape (component, batch, pos, d_model). Where sub-layers add to the stream, as
        ``resid_post = resid_pre + attn_out + mlp_out`` says, this adds up to it. ``mode`` is 'all',
        'attn' or 'mlp'.
        """
        if mode not in ("all", "attn", "mlp"):
            raise VieteError(f"mode is 'all', 'attn' or 'mlp', not {mode!r:.40}")
        last = self.before(layer)
        labels = [n for n in ("embed", "pos_embed") if incl_embeds and self.there(f"hook_{n}")]
        parts = [self[f"hook_{n}"] for n in labels]
        kinds = [k for k in ("attn", "mlp") if mode in ("all", k) and self.adds(k)]
        for k in range(last):
            parts += [self[f"{kind}_out", k] for kind in kinds]
            labels += [f"{k}_{kind}_out" for kind in kinds]
        if mlp_input and "attn" in kinds:
            parts.append(self["attn_out", last])
            labels.append(f"{last}_attn_out")
        if not parts:
            raise VieteError("there is nothing to stack: no block comes before block 0")
        out = stack([cut(p, pos_slice) for p in parts])
        if apply_ln:
            out = self.apply_ln_to_stack(out, last, mlp_input, pos_slice)
        return (out, labels) if return_labels else out

    def stack_head_results(
        self, layer: int | None = None, return_labels: bool = False,
        incl_remainder: bool = False, pos_slice: Cut = None, apply_ln: bool = False,
    ) -> Labelled:  # fmt: skip
        """What each head of the blocks before ``layer`` adds to the stream, block by block.

        Shape (layer · head, batch, pos, d_model). Where a norm stands between the heads' sum and
        the stream (Gemma 2, OLMo 2), a head adds its result divided by the scale that the whole
        sum has there, times γ. With ``incl_remainder`` the rest of the stream comes last: biases,
        MLPs and embeddings.
        """
        last = self.before(layer)
        heads = [self.head_results(k) for k in range(last)]
        if not heads:
            raise VieteError("there is no block before block 0, so there is nothing to stack")
        count = heads[0].shape[-2]
        parts = [cut(h[..., n, :], pos_slice) for h in heads for n in range(count)]
        labels = [f"L{k}H{n}" for k in range(last) for n in range(count)]
        out = stack(parts)
        if incl_remainder:
            xp = array_namespace(out)
            rest = cut(self["resid_post", last - 1], pos_slice) - xp.sum(out, axis=0)
            out = xp.concat([out, rest[None]], axis=0)
            labels.append("remainder")
        if apply_ln:
            out = self.apply_ln_to_stack(out, last, pos_slice=pos_slice)
        return (out, labels) if return_labels else out

    def head_results(self, layer: int) -> Array:
        """What each head of one block adds to the stream, (batch, pos, head, d_model)."""
        found, norm = self["result", layer], f"blocks.{layer}.ln1_post"
        if not self.there(f"{norm}.hook_scale"):
            return found
        return self.model.normed(norm, found, self[f"{norm}.hook_scale"][..., None, :])

    def apply_ln_to_stack(
        self, residual_stack: Array, layer: int | None = None, mlp_input: bool = False,
        pos_slice: Cut = None, batch_slice: Cut = None, has_batch_dim: bool = True,
        recompute_ln: bool = False,
    ) -> Array:  # fmt: skip
        """What each term of the stream contributes to what the norm before block ``layer`` makes.

        The norm divides by the scale that the whole stream has there, and multiplies by γ: so the
        terms of the stream give terms of its value, all but β. With ``recompute_ln`` every term
        is normed as if it were the stream, β and all. Where no norm comes first the stack stays as
        it is. ``residual_stack`` is (component, …, d_model), sliced already; the slices are those
        of the scale.
        """
        last = self.before(layer)
        at_end = last == self.names.layers
        name = "ln_final" if at_end else f"blocks.{last}.ln{2 if mlp_input else 1}"
        if not self.there(f"{name}.hook_scale"):
            return residual_stack
        batched = has_batch_dim and self.has_batch_dim
        if batched and batch_slice is not None:
            residual_stack = cut(residual_stack, batch_slice, 1)
        if recompute_ln:
            return self.model.normed(name, residual_stack)
        scale = cut(self[f"{name}.hook_scale"], pos_slice)
        scale = cut(scale, batch_slice, 0) if batched else scale
        return self.model.normed(name, residual_stack, scale)

    def logit_attrs(
        self, residual_stack: Array, tokens: Any, incorrect_tokens: Any = None,
        pos_slice: Cut = None, batch_slice: Cut = None, has_batch_dim: bool = True,
    ) -> Array:  # fmt: skip
        """How much each term of the stream adds to the logits of ``tokens``, (component, …).

        With ``incorrect_tokens``, to how much larger they are than the logits of those. Tokens are
        one for all, or one for each place of the stack.
        """
        directions = self.model.tokens_to_residual_directions(tokens)
        if incorrect_tokens is not None:
            others = self.model.tokens_to_residual_directions(incorrect_tokens)
            if others.shape != directions.shape:
                raise VieteError("tokens and incorrect_tokens must be equally many")
            directions = directions - others
        normed = self.apply_ln_to_stack(
            residual_stack, None, False, pos_slice, batch_slice, has_batch_dim
        )
        return array_namespace(normed).sum(normed * directions, axis=-1)

    # -- helpers -----------------------------------------------------------------------------------

    def before(self, layer: int | None) -> int:
        """The block before which a stack ends; None and -1 are the end."""
        layers = self.names.layers
        last = layers if layer is None or layer == -1 else layer
        if not 0 <= last <= layers:
            raise VieteError(f"layer is a block, 0 to {layers}, not {layer}")
        return last

    def there(self, name: str) -> bool:
        """Whether the card has a value of that name."""
        return self.names.found(self.names.split(name)[0]) is not None

    def adds(self, kind: str) -> bool:
        """Whether blocks have attention, or MLPs, that add to the stream."""
        return self.names.found(f"blocks.{{l}}.hook_{kind}_out") is not None


def stack(parts: Sequence[Array]) -> Array:
    """Arrays of one shape, one above the other."""
    return array_namespace(*parts).stack(list(parts), axis=0)


def cut(array: Array, where: Cut, axis: int = -2) -> Array:
    """A slice along one axis as TransformerLens writes it: 3, (1, 5), [0, 2]; None is all."""
    if where is None:
        return array
    place = slice(*where) if isinstance(where, tuple) else where
    at: list[Any] = [slice(None)] * array.ndim
    at[axis] = place
    return array[tuple(at)]


__all__ = ["ActivationCache"]
