"""Models of `transformers` in memory: taken over, and given back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from viete.cards.config import Config
from viete.errors import VieteError
from viete.formats.tensors import from_array, in_memory, info_of, require
from viete.graph.card import CardData
from viete.model.folder import Card, Folder, read_card, shapes_of
from viete.model.mapping import to_checkpoint
from viete.model.settings import config_of
from viete.text.tokenizer import Tokenizer
from viete.text.vocabulary import BytePairs

Array = Any


def folder_of(net: Any, card: Card | None = None, accept: Sequence[str] = ()) -> Folder:
    """A module's config and tensors, as if read from a folder. Nothing is copied."""
    if not hasattr(net, "state_dict") or not hasattr(getattr(net, "config", None), "to_diff_dict"):
        raise VieteError(
            f"from_transformers needs a model of transformers, not {type(net).__name__}"
        )
    name = type(net).__name__
    tensors = in_memory(name, net.state_dict())
    settings = Config(config_dict(net), shapes_of(tensors), f"the config of {name}")
    return Folder(tensors.path, read_card(settings, card, accept), settings, tensors)


def config_dict(net: Any) -> dict[str, Any]:
    """A module's config as `transformers` would write it, with the name of its class."""
    found = dict(net.config.to_diff_dict())
    if not found.get("architectures"):
        found["architectures"] = [type(net).__name__]
    return found


def tokenizer_of(given: Any) -> Tokenizer:
    """A `Tokenizer` from a fast tokenizer of `transformers`."""
    own = getattr(given, "backend_tokenizer", None)
    if own is None:
        raise VieteError(f"the tokenizer must be a fast tokenizer, not {type(given).__name__}")
    roles = (given.bos_token_id, given.eos_token_id, given.pad_token_id)
    return Tokenizer(BytePairs.loads(own.to_str()), *roles)


def to_live(card: CardData, weights: Mapping[str, Array], base: Mapping[str, Any]) -> Any:
    """A module of `transformers` with copies of the weights, in their dtype, on their device."""
    hf = require("transformers", "to make a model of transformers")
    torch = require("torch", "to make a model of transformers")
    settings = config_of(card, base)
    tensors = {
        name: array.detach().clone()
        if torch.is_tensor(array)
        else from_array(array, info_of(name, array), "torch")
        for name, array in to_checkpoint(card, weights).items()
    }
    kind = settings.pop("model_type")
    config = hf.AutoConfig.for_model(kind, **settings)
    first = next(iter(tensors.values()))
    net, found = class_of(hf, config).from_pretrained(
        None, config=config, state_dict=tensors, dtype=first.dtype, output_loading_info=True
    )
    if wrong := [*found["unexpected_keys"], *found["missing_keys"]]:
        raise VieteError(f"{sorted(wrong)[0]} differs in {type(net).__name__} of transformers")
    return net.to(first.device).eval()


def class_of(hf: Any, config: Any) -> Any:
    """The class that the config names, else the family's class that gives scores of tokens."""
    for name in getattr(config, "architectures", None) or ():
        if hasattr(hf, name):
            return getattr(hf, name)
    auto = hf.models.auto.modeling_auto
    for table in ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "MASKED_LM"):
        found = getattr(auto, f"MODEL_FOR_{table}_MAPPING").get(type(config), None)
        if found is not None:
            return found
    raise VieteError(f"transformers has no class for {type(config).__name__}")
