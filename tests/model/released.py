"""Tiny networks of `transformers`, saved in the layouts of released models."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from viete.formats.files import save_safetensors
from viete.model.mapping import fitting


@contextmanager
def without(module: str) -> Iterator[None]:
    """As if a module were not installed."""
    before = sys.modules.get(module)
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]
        if before is not None:
            sys.modules[module] = before


def saved(card: Any, folder: Path, weights: Mapping[str, Any]) -> Path:
    """A released model in a folder, made without `transformers`, which takes long to import."""
    with without("transformers"):
        return card.save(folder, weights)


def save_weights(card: Any, weights: Mapping[str, Any], path: Path) -> None:
    """A card's weights as safetensors, under the card's own names."""
    save_safetensors(path, fitting(card, weights))


def released(name: str, folder: Path, **more: Any) -> Any:
    """A tiny random network of `transformers`, saved as its authors save theirs."""
    torch = pytest.importorskip("torch")
    hf = pytest.importorskip("transformers")
    size = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 0} | more
    wide = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    wide |= {"intermediate_size": 72, "max_position_embeddings": 40}
    torch.manual_seed(0)
    if name == "gpt2":
        net = hf.GPT2LMHeadModel(
            hf.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=40, **size)
        )
    elif name == "llama":
        net = hf.LlamaForCausalLM(hf.LlamaConfig(num_key_value_heads=2, **wide, **size))
    else:
        net = hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**wide, **size))
    with torch.no_grad():
        for p in net.parameters():  # biases and norms, too, that are not 0 and 1
            p.add_(torch.randn_like(p) * 0.1)
    net.eval().save_pretrained(folder)
    return net
