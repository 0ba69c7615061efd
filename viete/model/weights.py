"""The weights of a model under the names of TransformerLens, and products of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from math import prod
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace

from viete.analysis.next_token import text_of
from viete.errors import VieteError
from viete.evaluate.execution import execute
from viete.evaluate.factored import FactoredMatrix, composition_scores
from viete.evaluate.labelled import COL, Array, Value
from viete.evaluate.run import Run
from viete.evaluate.schedule import program
from viete.graph.card import CardData
from viete.model.names import Found, Names
from viete.model.parts import Block, Embedding, FinalNorm, Unembedding
from viete.model.table import LAYER, Entry, conventions, layout
from viete.notation.tree import Apply, Expr, Num, Ref, Symbol, num, replaced, walk
from viete.rewrite.simplify import simplified
from viete.text.tokenizer import Tokenizer

TERM, SCALE = Symbol("argument", "normed_term"), Symbol("argument", "normed_scale")


class Opened(Protocol):
    """What a lens needs of a model: a card with weights, and perhaps a tokenizer."""

    @property
    def card(self) -> CardData: ...
    @property
    def weights(self) -> Mapping[str, Array]: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    def own_tokenizer(self) -> Tokenizer | None: ...
    def ids(self, given: Any, prepend_bos: bool | None = None) -> Any: ...
    def in_its_arrays(self, ids: np.ndarray) -> Array: ...
    def with_inputs(self, options: Mapping[str, Any]) -> dict[str, Any]: ...
    def padded(self) -> Any: ...
    def run(self, tokens: Any = None, /, **options: Any) -> Run: ...
    def sample(self, prompt: Any, /, **options: Any) -> Iterator[tuple[int | None, ...]]: ...
    def to(self, *where: Any) -> Any: ...


class NamedWeights:
    """The weights of a model by the names of TransformerLens: ``W_Q``, ``W_U``, ``cfg``."""

    def __init__(self, model: Opened) -> None:
        self.model = model

    @property
    def card(self) -> CardData:
        """The model's equations."""
        return self.model.card

    @property
    def weights(self) -> Mapping[str, Array]:
        """The weights by the card's names."""
        return self.model.weights

    def forget(self) -> None:
        """Forget what was made of the weights, which are others now."""
        for name in ("parameters_alone", "cfg", "hiding"):
            self.__dict__.pop(name, None)

    @cached_property
    def names(self) -> Names:
        """The names of TransformerLens that hold in the card."""
        return Names(self.card)

    def __getattr__(self, name: str) -> Array:
        if name not in conventions().weights:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.weight(name)

    @cached_property
    def parameters_alone(self) -> Run:
        """A run without inputs, for formulas of weights."""
        return execute(program(self.card), {}, self.weights, [])

    def weight(self, name: str, layer: int | None = None) -> Array:
        """A weight by its TransformerLens name: ``W_Q`` is (layer, head, d_model, d_head).

        With a ``layer``, that of one block. Raises VieteError for a weight that the card does not
        have.
        """
        entry = conventions().weights[name]
        return self.stacked(*self.found_weight(entry), layer)

    def found_weight(self, entry: Entry) -> tuple[tuple[str, ...], Expr]:
        """Axes and formula of a weight. Raises VieteError where the card lacks it."""
        for row in entry.rows:
            if row.found[0] == num(0) and all(self.sizes.get(a) for a in row.axes):
                return row.axes, num(0)
            found = self.names.weight(row)
            if found is not None:
                return row.axes, found
        raise VieteError(
            f"{self.card.title} has no {entry.name}: none of its parameters has this role"
        )

    def stacked(self, axes: tuple[str, ...], formula: Expr, layer: int | None = None) -> Array:
        """The arrays of a formula over weights, for all blocks on an axis in front, or of one."""
        if layer is not None:
            axes = tuple(a for a in axes if a != LAYER)
        run = self.parameters_alone
        xp = run.arrays.xp
        if formula == num(0):
            shape = tuple(self.sizes[a] for a in axes)
            return xp.zeros(shape, dtype=run.arrays.like.dtype, device=run.arrays.like.device)
        heads, every = self.names.heads, (*self.names.heads, *self.names.shared)
        counts = {s: len(program(self.card).range_of(s)) for s in every}
        own = formula.free & set(every)
        shared = "head" in axes and not own <= set(heads)  # counted in another letter than heads
        order = layout(axes, self.names.shared if shared else heads, (), counts)
        out = []
        for block in range(self.names.layers) if LAYER in axes else [layer]:
            value = run.arrays.of(self.names.at(formula, block))
            array = order.outward(xp, run.arrays.lift(value), value.axes, 1)
            if shared:
                times = count(self.card, heads) // array.shape[0]
                array = xp.repeat(array, times, axis=0) if times > 1 else array
            out.append(array)
        return xp.stack(out, axis=0) if LAYER in axes else out[0]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The lengths of the weights' axes."""
        names, ready = self.names, program(self.card)
        sizes = {"head": count(self.card, names.heads), LAYER: names.layers}
        for entry in conventions().weights.values():
            for row in entry.rows:
                ref = names.weight(row)
                if not isinstance(ref, Ref):
                    continue
                shape = next(p.shape for p in self.card.parameters if p.name == ref.key)
                for axis, e in zip(row.axes[-len(shape) :], shape, strict=True):
                    size = self.card.size(e)
                    assert size is not None
                    sizes.setdefault(axis, int(ready.evaluate(size, axis)))
        return sizes

    @cached_property
    def cfg(self) -> SimpleNamespace:
        """Sizes and kinds: n_layers, n_heads, d_model, d_head, d_mlp, d_vocab, n_ctx, act_fn, …"""
        names, sizes = self.names, self.sizes
        lengths = [x for i in self.card.inputs[:1] for x in i.shape]
        with suppress(VieteError):
            lengths = list(text_of(self.card).shape)
        text = lengths[0] if lengths else None
        most = self.card.greatest.get(text.key) if isinstance(text, Ref) else None
        norm = names.found("ln_final.hook_scale") or names.found("blocks.{l}.ln1.hook_scale")
        whole = None if norm is None or norm.place is None else norm.place.whole
        act = names.found("blocks.{l}.mlp.hook_pre")
        norms = {"LN": "LN", "RMSNorm": "RMS"}
        like = self.parameters_alone.arrays.like
        return SimpleNamespace(
            model_name=self.card.title, device=like.device, dtype=like.dtype, n_layers=names.layers,
            n_heads=sizes["head"], n_key_value_heads=count(self.card, names.shared),
            **{k: sizes.get(k) for k in ("d_model", "d_head", "d_mlp", "d_vocab")},
            n_ctx=None if most is None else int(most),
            act_fn=None if act is None else applied_to(act, self.card),
            normalization_type=norms.get("" if whole is None else self.card.library_name(whole)),
            eps=None if norm is None or norm.place is None else number(norm, self.card),
            attn_only=names.found("blocks.{l}.hook_mlp_out") is None,
            parallel_attn_mlp=names.found("blocks.{l}.hook_mlp_out") is not None
            and names.found("blocks.{l}.hook_resid_mid") is None,
        )  # fmt: skip

    @property
    def blocks(self) -> list[Block]:
        """The weights of single blocks: ``blocks[3].attn.W_O`` is ``W_O[3]``."""
        return [Block(self, layer) for layer in range(self.names.layers)]

    @property
    def embed(self) -> Embedding:
        """``embed.W_E``, and ``embed(tokens)``."""
        return Embedding(self, ("W_E",))

    @property
    def pos_embed(self) -> Embedding:
        """``pos_embed.W_pos``, and ``pos_embed(tokens)``."""
        return Embedding(self, ("W_pos",))

    @property
    def unembed(self) -> Unembedding:
        """``unembed.W_U``, ``unembed.b_U``, and ``unembed(resid)``, which is resid W_U + b_U."""
        return Unembedding(self, ("W_U", "b_U"))

    def named_parameters(self) -> Iterator[tuple[str, Array]]:
        """The weights with names of TransformerLens: ``blocks.0.attn.W_Q`` and so on."""
        for name, entry in conventions().weights.items():
            try:
                array = self.weight(name)
            except VieteError:
                continue
            layered = LAYER in entry.rows[0].axes
            if "." in name:
                full = name
            elif layered:
                full = f"{'attn' if name[-1] in 'QKVO' else 'mlp'}.{name}"
            else:
                full = f"{ {'W_E': 'embed', 'W_pos': 'pos_embed'}.get(name, 'unembed') }.{name}"
            if not layered:
                yield full, array
                continue
            for layer in range(self.names.layers):
                yield f"blocks.{layer}.{full}", array[layer]

    tl_named_parameters = named_parameters

    def state_dict(self) -> dict[str, Array]:
        """The weights of `named_parameters` as a dict."""
        return dict(self.named_parameters())

    def parameters(self) -> Iterator[Array]:
        """The weights themselves, one for each of the card's parameters, to change or freeze."""
        return iter(self.weights.values())

    @property
    def n_params_total(self) -> int:
        """The number of weights, those of embeddings included; a tied one counts once."""
        return sum(prod(w.shape) for w in self.parameters())

    # -- circuits ----------------------------------------------------------------------------------

    @property
    def QK(self) -> FactoredMatrix:
        """``W_Q W_K^T`` of every head, (layer, head, d_model, d_model), as its two factors."""
        keys = self.weight("W_K")
        return FactoredMatrix(self.weight("W_Q"), keys.swapaxes(-2, -1))

    @property
    def OV(self) -> FactoredMatrix:
        """``W_V W_O`` of every head, (layer, head, d_model, d_model), as its two factors."""
        return FactoredMatrix(self.weight("W_V"), self.weight("W_O"))

    def all_head_labels(self) -> list[str]:
        """``L0H0`` and so on, in the order of `all_composition_scores` and of stacks of heads."""
        cfg = self.cfg
        return [f"L{k}H{h}" for k in range(cfg.n_layers) for h in range(cfg.n_heads)]

    def all_composition_scores(self, mode: str) -> Array:
        """How strongly each head reads what each earlier one writes, (layer, head, layer, head).

        The norm of the product, over the product of the norms, of W_OV of the earlier head and of
        W_QK ("Q"), its transpose ("K") or W_OV ("V") of the later one; 0 for other pairs.
        """
        rights = {"Q": lambda: self.QK, "K": lambda: self.QK.T, "V": lambda: self.OV}
        if mode not in rights:
            raise VieteError(f"mode must be 'Q', 'K' or 'V', not {mode!r:.40}")
        scores = composition_scores(self.OV, rights[mode]())
        later = array_namespace(scores).arange(self.names.layers)
        return scores * (later[:, None] < later)[:, None, :, None]

    def accumulated_bias(
        self, layer: int, mlp_input: bool = False, include_mlp_biases: bool = True
    ) -> Array:
        """The sum of b_O and b_out of the blocks before ``layer``, (d_model).

        With ``mlp_input`` also b_O of that block.
        """
        biases = self.weight("b_O")[: layer + mlp_input]
        xp = array_namespace(biases)
        out = xp.sum(biases, axis=0)
        return out + xp.sum(self.weight("b_out")[:layer], axis=0) if include_mlp_biases else out

    def tokens_to_residual_directions(self, tokens: Any) -> Array:
        """The unembedding vectors of tokens, (…, d_model): by an id, text of one token, or ids."""
        if isinstance(tokens, str):
            tokens = self.to_single_token(tokens)
        columns = self.weight("W_U").swapaxes(0, 1)
        if not hasattr(tokens, "shape"):
            tokens = np.asarray(tokens)
        if tokens.ndim == 0 or tuple(tokens.shape) == (1,):
            return columns[int(tokens)]
        return columns[tokens]

    # -- norms -------------------------------------------------------------------------------------

    def normed(self, name: str, terms: Array, scale: Array | None = None) -> Array:
        """A norm of the card applied to arrays (…, d_model): ``ln_final``, ``blocks.3.ln1``.

        With a ``scale``, applied to terms of the norm's input: divided by the scale and without β.
        Raises VieteError where the card has no such norm.
        """
        general, layer = self.names.split(f"{name}.hook_scale")
        found = self.names.get(general)
        assert found.place is not None
        whole, back = found.place.whole, found.row.back
        assert isinstance(whole, Apply) and back is not None
        of, term, given = whole.args[0], Ref(TERM), {TERM.key: labelled(terms)}
        if scale is None:
            formula: Expr = replace(whole, args=(term, *whole.args[1:]))
        else:
            back = self.names.own(back)
            assert back is not None
            shift_free = found.place.put(back, y=Ref(SCALE), beta=num(0))
            formula = simplified(replaced(shift_free, {of: term}))
            column = labelled(scale)
            given[SCALE.key] = Value(column.array[..., 0], column.axes[:-1])
        arrays = self.parameters_alone.arrays
        env = replace(arrays.env, arguments=given)
        value = arrays.of(self.names.at(formula, layer), env)
        return value.array

    @property
    def ln_final(self) -> FinalNorm:
        """The norm before the unembedding: ``ln_final.w`` and ``b``, and ``ln_final(resid)``."""
        return FinalNorm(self, ("ln_final.w", "ln_final.b"))


def labelled(array: Array) -> Value:
    """An array as a value: its last axis is the columns, the others are labelled by their place."""
    labels = tuple(f"axis {k}" for k in range(array.ndim, 1, -1))
    return Value(array, (*labels, COL))


def count(card: CardData, letters: Any) -> int:
    """The number of values that index letters have together."""
    out = 1
    for letter in letters:
        out *= len(program(card).range_of(letter))
    return out


def applied_to(found: Found, card: CardData) -> str | None:
    """The function that is applied to a value, in the equation that contains the value."""
    right = found.place.right if found.place is not None else None
    for e in walk(right) if right is not None else ():
        if isinstance(e, Apply) and e.op in card.function and e.args[0] == found.formula:
            return e.op
    return None


def number(found: Found, card: CardData) -> float | None:
    """The ε of a norm, as a number."""
    assert found.place is not None
    e = found.place.letters["epsilon"]
    assert isinstance(e, Expr)
    size = card.size(e)
    if isinstance(e, Num):
        return float(e.value)
    return None if size is None else float(size.evaluate(card.sizes))


__all__ = ["NamedWeights"]
