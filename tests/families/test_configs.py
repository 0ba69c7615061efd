"""Configs as released models have them, and as `transformers` writes them again.

Keys of another age say the same as today's, some say nothing, and of two that differ
`transformers` heeds one: so does the card, or it says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import viete as vt
from tests.families import test_bloom, test_gpt_neo, test_llama
from tests.families.peers import (
    Case,
    decoder,
    differences,
    doubled,
    network,
    tokens_of,
    transformers,
)
from viete.cards.config import Config
from viete.errors import VieteError

LINEAR = {"type": "linear", "factor": 2.0}
# What is in a released config besides what the family's cards are tested with.
KEYS: dict[str, dict[str, Any]] = {
    "Gemma2": {"sliding_window_size": 4096},  # gemma-2-9b
    "GPTNeoX": {"partial_rotary_factor": 0.25, "rope_theta": 10000},  # Pythia, saved by 4.50
    "Llama": {"max_sequence_length": 2048, "attn_implementation": "sdpa"},
    "Qwen2": {"use_mrope": False},  # Qwen2.5
}
SMOL = {"is_llama_config": True, "rope_interleaved": False,
        "transformers.js_config": {"dtype": {"q4": 1}}}  # fmt: skip


@pytest.mark.parametrize("name, keys", [*KEYS.items(), ("Llama", SMOL)], ids=str)
def test_a_key_that_says_nothing(name: str, keys: dict[str, Any]) -> None:
    config = getattr(transformers, f"{name}Config")().to_dict()
    card = {"GPTNeoX": "pythia"}.get(name, name.lower())
    assert vt.read(card, config={**config, **keys}) == vt.read(card, config=config)


@pytest.mark.parametrize("scaling", [LINEAR, {**LINEAR, "rope_type": "linear"}], ids=str)
def test_rotation_of_another_age(scaling: dict[str, Any], tmp_path: Path) -> None:
    """An old config opens, is saved as it came, and as `transformers` passes it on."""
    case = Case("LlamaForCausalLM", {"rope_scaling": scaling, "rope_theta": 100.0})
    net = network(case, test_llama.SMALL)
    net.save_pretrained(tmp_path / "new")
    assert json.loads((tmp_path / "new" / "config.json").read_text())["rope_parameters"]
    rewritten(tmp_path / "new", tmp_path / "old", rope_parameters=None, **case.settings)
    with doubled(type(net)):
        for folder in "new", "old":
            found = differences(net, tmp_path / folder, tokens_of(case), decoder)
            assert max(found.values()) <= 1e-10
    vt.load(tmp_path / "old").save(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert saved["rope_scaling"] == scaling and not saved.get("rope_parameters")
    assert vt.load(tmp_path / "saved").card == vt.load(tmp_path / "old").card


def test_the_first_name_of_a_length() -> None:
    """LLaMA 1 was released with another."""
    config = transformers.LlamaConfig(max_position_embeddings=77).to_dict()
    config["max_sequence_length"] = config.pop("max_position_embeddings")
    assert vt.read("llama", config=config).greatest["n_max"] == 77


def test_what_holds_of_every_block_is_kept() -> None:
    """And asked of a config that the card is read with again."""
    kinds = [[["global"], 3]]
    config = transformers.GPTNeoConfig(num_layers=3, attention_types=kinds).to_dict()
    model = vt.read("gpt-neo", config=config)
    assert ("config attention_layers.{i-1}", "global") in model.facts
    again = vt.read(model.write())
    assert again == model
    config["attention_layers"][1] = "local"
    with pytest.raises(VieteError, match=r"attention_layers\.1 is local, but the card GPT-Neo"):
        Config(config).check_facts(model)


def test_two_ages_that_contradict_each_other() -> None:
    config = transformers.LlamaConfig().to_dict() | {"rope_scaling": LINEAR}
    with pytest.raises(VieteError, match="rope_parameters and rope_scaling contradict"):
        vt.read("llama", config=config)


@pytest.mark.parametrize("family, keys", [
    (test_bloom, {"num_attention_heads": 3, "n_head": 4}),
    (test_gpt_neo, {"num_attention_heads": 3, "num_heads": 4}),
], ids=["bloom", "gpt_neo"])  # fmt: skip
def test_the_name_that_counts(family: Any, keys: dict[str, int], tmp_path: Path) -> None:
    case = Case(family.KIND, {next(iter(keys)): 3})
    net = network(case, {k: v for k, v in family.SMALL.items() if k not in keys})
    net.save_pretrained(tmp_path / "one")
    rewritten(tmp_path / "one", tmp_path / "two", **keys)
    assert transformers.AutoConfig.from_pretrained(tmp_path / "two").num_attention_heads == 3
    assert vt.load(tmp_path / "two").card.sizes["H"] == 3


def rewritten(folder: Path, other: Path, **keys: Any) -> None:
    """A copy of a folder with other keys in its config."""
    other.mkdir()
    for file in folder.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    path = other / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))
