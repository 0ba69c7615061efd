"""Stacks of a run's values: the residual stream as the list of its summands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from array_api_compat import array_namespace

from viete.errors import VieteError
from viete.evaluate.labelled import Array
from viete.model.names import Names
from viete.model.short_names import Key
from viete.model.slices import Cut, cut
from viete.model.weights import NamedWeights

Labelled = Array | tuple[Array, list[str]]


class Stacks:
    """The stacks of TransformerLens, for a cache: component first, then the axes of the stream."""

    # For the class that is made of this.
    model: NamedWeights
    names: Names
    has_batch_dim: bool

    def __getitem__(self, key: Key) -> Array:
        raise NotImplementedError

    def stack_activation(
        self, activation_name: str, layer: int | None = None, sublayer_type: str | None = None
    ) -> Array:
        """One value for all blocks before ``layer``, (layer, …)."""
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
        """The term that each sub-layer before ``layer`` added to the stream, and the embeddings.

        Shape (component, batch, pos, d_model). Where sub-layers add to the stream, as ``resid_post
        = resid_pre + attn_out + mlp_out`` says, this adds up to it. ``mode`` is 'all', 'attn' or
        'mlp'.
        """
        if mode not in ("all", "attn", "mlp"):
            raise VieteError(f"mode must be 'all', 'attn' or 'mlp', not {mode!r:.40}")
        last = self.before(layer)
        labels = [n for n in ("embed", "pos_embed") if incl_embeds and self.there(f"hook_{n}")]
        parts = [self[f"hook_{n}"] for n in labels]
        kinds = [k for k in ("attn", "mlp") if mode in ("all", k) and self.adds(k)]
        if last and not kinds and mode == "all":
            self["attn_out", 0]  # says why blocks add nothing that has a name
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
        """The term that each head before ``layer`` adds to the stream, block by block.

        Shape (layer · head, batch, pos, d_model). Where a norm stands between the heads' sum and
        the stream (Gemma 2, OLMo 2), a head adds its result divided by the scale of the whole sum,
        times γ. With ``incl_remainder`` the rest of the stream comes last: biases, MLPs and
        embeddings.
        """
        last = self.before(layer)
        heads = [self.head_results(k) for k in range(last)]
        parts = [cut(h[..., n, :], pos_slice) for h in heads for n in range(h.shape[-2])]
        labels = [f"L{k}H{n}" for k, h in enumerate(heads) for n in range(h.shape[-2])]
        out = stack(parts) if parts else cut(self.stream(0), pos_slice)[None][:0]
        if incl_remainder:
            xp = array_namespace(out)
            rest = cut(self.stream(last), pos_slice) - xp.sum(out, axis=0)
            out = xp.concat([out, rest[None]], axis=0)
            labels.append("remainder")
        if apply_ln:
            out = self.apply_ln_to_stack(out, last, pos_slice=pos_slice)
        return (out, labels) if return_labels else out

    def head_results(self, layer: int) -> Array:
        """The term that each head of one block adds to the stream, (batch, pos, head, d_model)."""
        found, norm = self["result", layer], f"blocks.{layer}.ln1_post"
        if not self.there(f"{norm}.hook_scale"):
            return found
        return self.model.normed(norm, found, self[f"{norm}.hook_scale"][..., None, :])

    def apply_ln_to_stack(
        self, residual_stack: Array, layer: int | None = None, mlp_input: bool = False,
        pos_slice: Cut = None, batch_slice: Cut = None, has_batch_dim: bool = True,
        recompute_ln: bool = False,
    ) -> Array:  # fmt: skip
        """The contribution of each term of the stream to the norm before block ``layer``.

        The norm divides by the scale of the whole stream and multiplies by γ: so the terms of the
        stream give terms of the norm's value, all but β. With ``recompute_ln`` each term is normed
        as if it were the stream, including β. Where no norm comes first the stack stays as it is.
        ``residual_stack`` is (component, …, d_model), with these positions alone. ``batch_slice``
        cuts it too, unless it has no batch axis any more (``has_batch_dim``). Both cut the scale.
        """
        name = self.norm_before(self.before(layer), mlp_input)
        if not self.there(f"{name}.hook_scale"):
            return residual_stack
        if has_batch_dim and self.has_batch_dim:
            residual_stack = cut(residual_stack, batch_slice, 1)
        if recompute_ln:
            return self.model.normed(name, residual_stack)
        scale = cut(self[f"{name}.hook_scale"], pos_slice)
        scale = cut(scale, batch_slice, 0) if self.has_batch_dim else scale
        return self.model.normed(name, residual_stack, scale)

    def logit_attrs(
        self, residual_stack: Array, tokens: Any, incorrect_tokens: Any = None,
        pos_slice: Cut = None, batch_slice: Cut = None, has_batch_dim: bool = True,
    ) -> Array:  # fmt: skip
        """The contribution of each term of the stream to the logits of ``tokens``, (component, …).

        With ``incorrect_tokens``, the contribution to the difference from the logits of those.
        Tokens are one for all, or one for each place of the stack.
        """
        directions = self.model.tokens_to_residual_directions(tokens)
        if incorrect_tokens is not None:
            others = self.model.tokens_to_residual_directions(incorrect_tokens)
            if others.shape != directions.shape:
                raise VieteError("tokens and incorrect_tokens must have the same length")
            directions = directions - others
        normed = self.apply_ln_to_stack(
            residual_stack, None, False, pos_slice, batch_slice, has_batch_dim
        )
        return array_namespace(normed).sum(normed * directions, axis=-1)

    # -- neurons -----------------------------------------------------------------------------------

    def get_neuron_results(
        self, layer: int, neuron_slice: Cut = None, pos_slice: Cut = None,
        project_output_onto: Array | None = None,
    ) -> Array:  # fmt: skip
        """The term that each neuron of one block adds to the stream, (batch, pos, neuron, d_model).

        With ``project_output_onto``, (d_model) or (d_model, m), the term times that, without an
        array of all entries of d_model.
        """
        return self.neurons(layer, neuron_slice, pos_slice, project_output_onto)

    def neurons(
        self, layer: int, which: Cut, pos: Cut, onto: Array | None, into: str | None = None
    ) -> Array:
        """As `get_neuron_results`, and after the norm ``into`` with the scale of the stream.

        A norm with a given scale is linear: for a neuron times its row of W_out, the result is the
        neuron over the scale, times the norm of the row.
        """
        neurons = cut(cut(self["post", layer], pos), which, -1)
        rows = cut(self.model.weight("W_out", layer), which, 0)
        for norm in (f"blocks.{layer}.ln2_post", into):
            if norm is not None and self.there(f"{norm}.hook_scale"):
                xp = array_namespace(rows)
                rows = self.model.normed(norm, rows, xp.ones_like(rows[..., :1]))
                neurons = neurons / cut(self[f"{norm}.hook_scale"], pos)
        if onto is not None:
            rows = rows @ onto
            if onto.ndim == 1:
                return neurons * rows
        return neurons[..., None] * rows

    def stack_neuron_results(
        self, layer: int | None = None, pos_slice: Cut = None, neuron_slice: Cut = None,
        return_labels: bool = False, incl_remainder: bool = False, apply_ln: bool = False,
        project_output_onto: Array | None = None,
    ) -> Labelled:  # fmt: skip
        """The term that each neuron before ``layer`` adds to the stream, block by block.

        Shape (layer · neuron, batch, pos, d_model), or with ``project_output_onto`` the last axis
        projected. With ``incl_remainder`` the rest of the stream comes last.
        """
        last, onto = self.before(layer), project_output_onto
        if isinstance(neuron_slice, int):
            neuron_slice = (neuron_slice, neuron_slice + 1 or None)
        into = self.norm_before(last) if apply_ln else None
        each = [self.neurons(k, neuron_slice, pos_slice, onto, into) for k in range(last)]
        axis = -1 if onto is not None and onto.ndim == 1 else -2

        def whole() -> Array:
            stream = cut(self.stream(last), pos_slice)
            return self.read_through(stream, last, False, pos_slice, apply_ln, onto)

        xp = array_namespace(*(each or [whole()]))
        out = xp.moveaxis(xp.concat(each, axis=axis), axis, 0) if each else whole()[None][:0]
        numbers = cut(xp.arange(self.model.cfg.d_mlp), neuron_slice, 0)
        labels = [f"L{k}N{int(n)}" for k in range(last) for n in numbers]
        if incl_remainder:
            out = xp.concat([out, (whole() - xp.sum(out, axis=0))[None]], axis=0)
            labels.append("remainder")
        return (out, labels) if return_labels else out

    def get_full_resid_decomposition(
        self, layer: int | None = None, mlp_input: bool = False, expand_neurons: bool = True,
        apply_ln: bool = False, pos_slice: Cut = None, return_labels: bool = False,
        project_output_onto: Array | None = None,
    ) -> Labelled:  # fmt: skip
        """All terms of the stream before block ``layer``, (component, batch, pos, …).

        Heads, neurons (or MLPs), embeddings of tokens and of positions, and all biases as one.
        """
        last, onto = self.before(layer), project_output_onto
        labels: list[str] = []
        parts: list[Array] = []

        def add(stack: Array, names: Sequence[str]) -> None:
            parts.append(self.read_through(stack, last, mlp_input, pos_slice, apply_ln, onto))
            labels.extend(names)

        if last + mlp_input:
            stack, names = self.stack_head_results(
                last + mlp_input, pos_slice=pos_slice, return_labels=True
            )
            add(stack, names)
        if last and self.adds("mlp") and expand_neurons:
            into = self.norm_before(last, mlp_input) if apply_ln else None
            each = [self.neurons(k, None, pos_slice, onto, into) for k in range(last)]
            axis = -1 if onto is not None and onto.ndim == 1 else -2
            xp = array_namespace(each[0])
            parts.append(xp.moveaxis(xp.concat(each, axis=axis), axis, 0))
            labels += [f"L{k}N{n}" for k in range(last) for n in range(each[0].shape[axis])]
        elif last and self.adds("mlp"):
            stack, names = self.decompose_resid(
                last, pos_slice=pos_slice, mode="mlp", incl_embeds=False, return_labels=True
            )
            add(stack, names)
        for name in ("embed", "pos_embed"):
            if self.there(f"hook_{name}"):
                add(cut(self[f"hook_{name}"], pos_slice)[None], [name])
        of_mlps = expand_neurons and self.adds("mlp")
        add(cut(self.biases(last, mlp_input, of_mlps), pos_slice)[None], ["bias"])
        out = array_namespace(parts[0]).concat(parts, axis=0)
        return (out, labels) if return_labels else out

    def biases(self, last: int, mlp_input: bool, of_mlps: bool) -> Array:
        """The sum of biases added to the stream before block ``last``, (batch, pos, d_model)."""
        out = self["resid_pre", 0] * 0
        for k in range(last + mlp_input):
            kinds = [("b_O", "ln1_post")] + [("b_out", "ln2_post")] * (of_mlps and k < last)
            for name, norm in kinds:
                bias, norm = self.model.weight(name, k), f"blocks.{k}.{norm}"
                term = out * 0 + bias
                if self.there(f"{norm}.hook_scale"):
                    term = self.model.normed(norm, term, self[f"{norm}.hook_scale"])
                out = out + term
        return out

    def read_through(
        self, terms: Array, last: int, mlp_input: bool, pos: Cut, apply_ln: bool, onto: Array | None
    ) -> Array:
        """Terms of the stream at these positions, after the norm if asked, times ``onto``."""
        if apply_ln:
            terms = self.apply_ln_to_stack(terms, last, mlp_input, pos_slice=pos)
        return terms if onto is None else terms @ onto

    # -- helpers -----------------------------------------------------------------------------------

    def before(self, layer: int | None) -> int:
        """The block before which a stack ends; None and -1 mean after the last block."""
        layers = self.names.layers
        last = layers if layer is None or layer == -1 else layer
        if not 0 <= last <= layers:
            raise VieteError(f"layer must be a block from 0 to {layers}, not {layer}")
        return last

    def stream(self, last: int) -> Array:
        """The stream before a block, or after the last one."""
        return self["resid_post", last - 1] if last else self["resid_pre", 0]

    def there(self, name: str) -> bool:
        """Whether the card has a value of this name."""
        return self.names.found(self.names.split(name)[0]) is not None

    def adds(self, kind: str) -> bool:
        """Whether blocks have attention, or MLPs, with a result that is added to the stream."""
        return self.names.found(f"blocks.{{l}}.hook_{kind}_out") is not None

    def norm_before(self, last: int, mlp_input: bool = False) -> str:
        """The norm through which a block reads the stream, or the norm after the last block."""
        if last == self.names.layers:
            return "ln_final"
        return f"blocks.{last}.ln{2 if mlp_input else 1}"


def stack(parts: Sequence[Array]) -> Array:
    """Arrays of one shape, joined along a new first axis."""
    return array_namespace(*parts).stack(list(parts), axis=0)


__all__ = ["Stacks"]
