"""Activation patching: replaces a value by another run's, place by place, and measures the effect.

These are the functions of `transformer_lens.patching`, by their names. Each takes a lens, the
tokens of the run that is changed, (batch, n), the cache of the run that values come from, and a
``metric`` of the logits (batch, n, V), a number. It returns the metric of every patch, with an axis
for each of its indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any

from array_api_compat import array_namespace

from viete.errors import VieteError
from viete.evaluate.labelled import Array
from viete.model.cache import ActivationCache
from viete.model.lens import Lens

Metric = Callable[[Array], Any]
Setter = Callable[[Array, Sequence[int], Array], Array]
Patching = Callable[..., Array]
# Where the axes of an index are in a value, whose first is the batch.
VECTOR, PATTERN = ("pos", "head"), ("head", "dest_pos", "src_pos")
SAME = {"head_index": "head"}


def generic_activation_patch(
    model: Lens, corrupted_tokens: Array, clean_cache: ActivationCache, patching_metric: Metric,
    patch_setter: Setter, activation_name: str, index_axis_names: Sequence[str] | None = None,
    index_df: Any = None, return_index_df: bool = False,
) -> Any:  # fmt: skip
    """The metric of a run for every index, after ``patch_setter(value, index, clean value)``.

    ``index_axis_names`` are of layer, pos, head, dest_pos and src_pos, the layer first, and every
    index is tried; or ``index_df`` lists indices, as a data frame or as rows, and the result has an
    entry for each. With ``return_index_df`` the list of indices is returned too.
    """
    if (index_axis_names is None) == (index_df is None):
        raise VieteError("give either index_axis_names, to try every index, or a list of them")
    shape: tuple[int, ...] | None = None
    if index_axis_names is not None:
        sizes = sizes_of(model, corrupted_tokens, activation_name)
        if unknown := [a for a in index_axis_names if SAME.get(a, a) not in sizes]:
            raise VieteError(f"{unknown[0]!r:.40} is not an axis; they are {', '.join(sizes)}")
        shape = tuple(sizes[SAME.get(a, a)] for a in index_axis_names)
        indices: list[tuple[int, ...]] = list(product(*map(range, shape)))
    else:
        rows: Iterable[Sequence[Any]] = getattr(index_df, "values", index_df)
        indices = [tuple(map(int, row)) for row in rows]
    found = []
    for index in indices:
        name = model.names.full((activation_name, index[0]))
        hook = partial(patched, index=index, clean=clean_cache[name], setter=patch_setter)
        found.append(float(patching_metric(
            model.run_with_hooks(corrupted_tokens, fwd_hooks=[(name, hook)])
        )))  # fmt: skip
    like = model.parameters_alone.arrays.like
    xp = array_namespace(like)
    out = xp.asarray(found, dtype=like.dtype, device=like.device)
    out = out if shape is None else xp.reshape(out, shape)
    return (out, indices if index_df is None else index_df) if return_index_df else out


def patched(value: Array, hook: Any, index: Sequence[int], clean: Array, setter: Setter) -> Array:
    """The value after a setter."""
    return setter(value, index, clean)


def sizes_of(model: Lens, tokens: Array, name: str) -> dict[str, int]:
    """The number of indices on each axis."""
    cfg, n = model.cfg, int(tokens.shape[-1])
    heads = cfg.n_key_value_heads if name in ("k", "v") else cfg.n_heads
    return {"layer": cfg.n_layers, "pos": n, "head": heads, "dest_pos": n, "src_pos": n}


def setter(axes: Sequence[str], index_axes: Sequence[str]) -> Setter:
    """The setter that copies the clean entries at an index; ``axes`` are those after the batch."""

    def put(value: Array, index: Sequence[int], clean: Array) -> Array:
        at = dict(zip(index_axes, index, strict=True))
        place = (slice(None), *(at.get(a, slice(None)) for a in axes))
        value[place] = clean[place]
        return value

    return put


def every_index(name: str, *axes: str, of: Sequence[str] = VECTOR) -> Patching:
    """The patching of one value at every index."""
    patch = setter(of, ("layer", *axes))
    return partial(
        generic_activation_patch, patch_setter=patch, activation_name=name,
        index_axis_names=("layer", *axes),
    )  # fmt: skip


def stacked(*several: Patching) -> Patching:
    """Several patchings on a new first axis; where one has fewer heads, zeros fill the rest."""

    def patch(
        model: Lens, corrupted_tokens: Array, clean_cache: ActivationCache, metric: Metric
    ) -> Array:
        parts = [each(model, corrupted_tokens, clean_cache, metric) for each in several]
        most = max(part.shape[-1] for part in parts)
        xp = array_namespace(*parts)
        return xp.stack([
            xp.concat([p, xp.zeros_like(parts[0][..., : most - p.shape[-1]])], axis=-1)
            for p in parts
        ], axis=0)  # fmt: skip

    return patch


def pos_first(patching: Patching) -> Patching:
    """A patching of (layer, head, pos), as (layer, pos, head)."""
    return lambda *given: array_namespace(out := patching(*given)).moveaxis(out, 1, 2)


get_act_patch_resid_pre = every_index("resid_pre", "pos")
get_act_patch_resid_mid = every_index("resid_mid", "pos")
get_act_patch_attn_out = every_index("attn_out", "pos")
get_act_patch_mlp_out = every_index("mlp_out", "pos")
get_act_patch_attn_head_out_by_pos = every_index("z", "pos", "head")
get_act_patch_attn_head_q_by_pos = every_index("q", "pos", "head")
get_act_patch_attn_head_k_by_pos = every_index("k", "pos", "head")
get_act_patch_attn_head_v_by_pos = every_index("v", "pos", "head")
get_act_patch_attn_head_pattern_by_pos = every_index("pattern", "head", "dest_pos", of=PATTERN)
get_act_patch_attn_head_pattern_dest_src_pos = every_index("pattern", *PATTERN, of=PATTERN)
get_act_patch_attn_head_out_all_pos = every_index("z", "head")
get_act_patch_attn_head_q_all_pos = every_index("q", "head")
get_act_patch_attn_head_k_all_pos = every_index("k", "head")
get_act_patch_attn_head_v_all_pos = every_index("v", "head")
get_act_patch_attn_head_pattern_all_pos = every_index("pattern", "head", of=PATTERN)

# Output, queries, keys, values, patterns: (5, layer, head) and (5, layer, pos, head).
get_act_patch_attn_head_all_pos_every = stacked(
    get_act_patch_attn_head_out_all_pos,
    get_act_patch_attn_head_q_all_pos,
    get_act_patch_attn_head_k_all_pos,
    get_act_patch_attn_head_v_all_pos,
    get_act_patch_attn_head_pattern_all_pos,
)
get_act_patch_attn_head_by_pos_every = stacked(
    get_act_patch_attn_head_out_by_pos,
    get_act_patch_attn_head_q_by_pos,
    get_act_patch_attn_head_k_by_pos,
    get_act_patch_attn_head_v_by_pos,
    pos_first(get_act_patch_attn_head_pattern_by_pos),
)
# Stream, attention, MLP: (3, layer, pos).
get_act_patch_block_every = stacked(
    get_act_patch_resid_pre, get_act_patch_attn_out, get_act_patch_mlp_out
)
