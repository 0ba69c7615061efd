"""Files as they lie on the hub, whose tensors older classes of `transformers` named otherwise.

A prefix is missing, masks and rotary frequencies are saved beside the weights, and the unembedding
beside the embedding that it is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.families import test_bloom, test_gpt2, test_gpt_j, test_gpt_neo, test_gpt_neox, test_opt
from tests.families.peers import Case, network
from viete.errors import VieteError
from viete.evaluate.schedule import parameter_shapes

safetensors = pytest.importorskip("safetensors.numpy")

BLOCKS, CONTEXT = 2, 16
MASK = np.tril(np.ones((1, 1, CONTEXT, CONTEXT), bool))
MASKED = np.asarray(-1e9, np.float32)
Tensors = dict[str, np.ndarray]


def without(prefix: str, *, tied: str = "") -> Callable[[Tensors], Tensors]:
    """Names without a prefix, and perhaps a second copy of the embedding."""

    def layout(tensors: Tensors) -> Tensors:
        out = {name.removeprefix(prefix): array for name, array in tensors.items()}
        return out | ({"lm_head.weight": out[tied]} if tied else {})

    return layout


def beside(where: str, **buffers: np.ndarray) -> Callable[[Tensors], Tensors]:
    """Buffers in every block."""

    def layout(tensors: Tensors) -> Tensors:
        more = {f"{where.format(i)}.{name}": array
                for i in range(BLOCKS) for name, array in buffers.items()}  # fmt: skip
        return tensors | more

    return layout


def then(*layouts: Callable[[Tensors], Tensors]) -> Callable[[Tensors], Tensors]:
    def layout(tensors: Tensors) -> Tensors:
        for one in layouts:
            tensors = one(tensors)
        return tensors

    return layout


NARROW = {"do_layer_norm_before": False, "word_embed_proj_dim": 10}
LAYOUTS = {
    "gpt2": (Case(test_gpt2.KIND), test_gpt2.SMALL, then(
        without("transformer."), beside("h.{}.attn", bias=MASK.astype(np.float32)))),
    "distilgpt2": (Case(test_gpt2.KIND), test_gpt2.SMALL, then(
        without("", tied="transformer.wte.weight"),
        beside("transformer.h.{}.attn", bias=MASK, masked_bias=MASKED))),
    "pythia": (Case(test_gpt_neox.KIND), test_gpt_neox.SMALL, then(
        beside("gpt_neox.layers.{}.attention", bias=MASK, masked_bias=MASKED),
        beside("gpt_neox.layers.{}.attention.rotary_emb", inv_freq=np.ones(1, np.float32)))),
    "gpt-neox": (Case(test_gpt_neox.KIND), test_gpt_neox.SMALL, lambda tensors: {
        n.replace("embed_out", "lm_head"): a for n, a in tensors.items()}),
    "gpt-neo": (Case(test_gpt_neo.KIND), test_gpt_neo.SMALL, then(
        without("", tied="transformer.wte.weight"),
        beside("transformer.h.{}.attn.attention", bias=MASK.astype(np.uint8),
               masked_bias=MASKED))),
    "gpt-j": (Case(test_gpt_j.KIND), test_gpt_j.SMALL,
              beside("transformer.h.{}.attn", bias=MASK, masked_bias=MASKED)),
    "opt": (Case(test_opt.KIND), test_opt.SMALL,
            without("model.", tied="decoder.embed_tokens.weight")),
    "opt-350m": (Case(test_opt.KIND, NARROW), test_opt.SMALL, without("model.")),
    "bloom": (Case(test_bloom.KIND), test_bloom.SMALL, without("transformer.")),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_file_of_the_hub(name: str, tmp_path: Path) -> None:
    case, small, layout = LAYOUTS[name]
    network(case, small).save_pretrained(tmp_path)
    wanted = {n: np.array(w) for n, w in vt.load(tmp_path).weights.items()}
    file = tmp_path / "model.safetensors"
    tensors = safetensors.load_file(file)
    moved = {n: np.ascontiguousarray(a) for n, a in layout(dict(tensors)).items()}
    assert moved.keys() != tensors.keys()
    file.unlink()
    safetensors.save_file(moved, file, {"format": "pt"})
    model = vt.load(tmp_path)
    assert model.weights.keys() == wanted.keys() == parameter_shapes(model.card).keys()
    for n, w in wanted.items():
        np.testing.assert_array_equal(model.weights[n], w)


def test_an_unembedding_that_is_no_copy_is_said(tmp_path: Path) -> None:
    """A file whose config says that they are tied, and whose weights are not."""
    case, small, layout = LAYOUTS["distilgpt2"]
    network(case, small).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = layout(dict(safetensors.load_file(file)))
    file.unlink()
    safetensors.save_file(tensors | {"lm_head.weight": tensors["lm_head.weight"] + 1}, file)
    with pytest.raises(VieteError, match=r"lm_head\.weight"):
        _ = vt.load(tmp_path).weights
