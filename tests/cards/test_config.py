"""Dimensions from a Hugging Face config.json: what is taken, what stands, what is refused."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import viete as vt
from viete.errors import VieteError

CARDS = {name: vt.read(name) for name in ("gpt2", "pythia", "llama")}

# As the released repositories have them, without the keys that change no function.
GPT2 = {
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
    "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
    "vocab_size": 50257,
}  # fmt: skip
PYTHIA = {
    "hidden_act": "gelu", "hidden_size": 2560, "intermediate_size": 10240, "layer_norm_eps": 1e-05,
    "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 32,
    "num_hidden_layers": 32, "rotary_emb_base": 10000, "rotary_pct": 0.25,
    "tie_word_embeddings": False, "use_parallel_residual": True, "vocab_size": 50304,
}  # fmt: skip
LLAMA = {
    "hidden_act": "silu", "hidden_size": 8192, "intermediate_size": 28672,
    "max_position_embeddings": 4096, "model_type": "llama", "num_attention_heads": 64,
    "num_hidden_layers": 80, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_scaling": None,
    "tie_word_embeddings": False, "vocab_size": 32000,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {"gpt2": GPT2, "pythia": PYTHIA, "llama": LLAMA}


def sizes(name: str, **changed: Any) -> dict[str, Fraction]:
    return vt.read(name, {**CONFIGS[name], **changed}).sizes


def refusal(name: str, config: Any) -> str:
    with pytest.raises(VieteError) as caught:
        vt.read(name, config)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- what is taken ---------------------------------------------------------------------------------


def test_released() -> None:
    assert sizes("gpt2") == CARDS["gpt2"].sizes
    assert sizes("pythia") == {
        "V": 50304, "d": 2560, "N": 32, "H": 32, "d_k": 80, "d_f": 10240, "rho": Fraction(1, 4),
        "theta": 10000, "epsilon": Fraction(1, 100_000), "n_max": 2048,
    }  # fmt: skip
    assert sizes("llama") == {
        "V": 32000, "d": 8192, "N": 80, "H": 64, "G": 8, "d_k": 128, "d_f": 28672, "theta": 10000,
        "epsilon": Fraction(1, 100_000), "n_max": 4096,
    }  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_every_key_counts(name: str) -> None:
    """Each dimension with a key follows it; all others are as the card derives them."""
    for dim in CARDS[name].dims:
        for key in dim.config.replace(" or missing", "").split(", "):
            if not key or key.startswith("size "):  # of a tensor, which is in no config
                continue
            config: dict[str, Any] = dict(CONFIGS[name])
            for other in dim.config.replace(" or missing", "").split(", "):
                config.pop(other, None)
            first, _, rest = key.partition(".")
            wanted = 2 * sizes(name)[dim.name]
            x = int(wanted) if wanted.denominator == 1 else float(wanted)
            for part in reversed(rest.split(".") if rest else []):
                x = {part: x}
            config[first] = x
            assert vt.read(name, config).sizes[dim.name] == wanted


@given(x=st.one_of(st.integers(1, 10**30), st.floats(1e-300, 1e300)))
def test_numbers_are_exact(x: float) -> None:
    assert sizes("pythia", layer_norm_eps=x)["epsilon"] == Fraction(str(x))


def test_zero_is_a_value() -> None:
    assert sizes("pythia", layer_norm_eps=0)["epsilon"] == 0


def test_both_spellings_of_rotary_settings() -> None:
    newer = {"rope_theta": 500000.0, "partial_rotary_factor": 0.5, "rope_type": "default"}
    found = sizes("pythia", rope_parameters=newer)
    assert (found["theta"], found["rho"]) == (500000, Fraction(1, 2))
    found = sizes("pythia", rotary_emb_base=500, rotary_pct=0.3)
    assert (found["theta"], found["rho"]) == (500, Fraction(3, 10))
    assert sizes("llama", rope_theta=1e6)["theta"] == 10**6
    assert sizes("llama", rope_theta=1, rope_parameters={"rope_theta": 2})["theta"] == 2


def test_a_file_or_its_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    wanted = vt.read("llama", LLAMA)
    for path in (tmp_path, str(tmp_path), tmp_path / "config.json"):
        assert vt.read("llama", path) == wanted


# -- what stands -----------------------------------------------------------------------------------


def without(name: str, *keys: str) -> vt.Card:
    return vt.read(name, {k: x for k, x in CONFIGS[name].items() if k not in keys})


def test_derived_values_stand() -> None:
    for config in (GPT2, {**GPT2, "n_inner": None}):
        assert vt.read("gpt2", {**config, "n_embd": 1536}).sizes["d_f"] == 6144
    assert sizes("gpt2", n_inner=100)["d_f"] == 100
    assert without("llama", "num_key_value_heads").sizes["G"] == 64
    assert sizes("llama", head_dim=None)["d_k"] == 128
    assert sizes("llama", head_dim=64)["d_k"] == 64


def test_or_missing_stands() -> None:
    assert without("pythia", "rotary_pct").sizes["rho"] == Fraction(1, 4)
    assert sizes("llama", rope_parameters=None)["theta"] == 10000


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("bad", ["768", True, [1], {"a": 1}, float("nan"), float("inf")], ids=str)
def test_no_number(name: str, bad: Any) -> None:
    keys = {"gpt2": "n_layer"}
    key = keys.get(name, "num_hidden_layers")
    message = refusal(name, {**CONFIGS[name], key: bad})
    assert message == f"the config: {key} gives N, so it must be a number, not {bad!r}"


@pytest.mark.parametrize(
    ("name", "key"), [("gpt2", "n_layer"), ("pythia", "vocab_size"), ("llama", "hidden_size")]
)
def test_missing(name: str, key: str) -> None:
    config = {k: x for k, x in CONFIGS[name].items() if k != key}
    assert f"the config: {key} is missing" in refusal(name, config)
    assert f"the config: {key} is missing" in refusal(name, {**config, key: None})


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("gpt2", "activation_function", "mish"),
        ("gpt2", "tie_word_embeddings", "no"),
        ("gpt2", "add_cross_attention", True),
        ("gpt2", "model_type", "gptj"),
        ("pythia", "use_parallel_residual", 1),
        ("pythia", "hidden_act", "gelu_10"),
        ("llama", "hidden_act", "relu"),
        ("llama", "model_type", None),
        ("llama", "rope_scaling", {"type": "spiral", "factor": 2.0}),
        ("llama", "rope_parameters", {"rope_type": "spiral", "factor": 8.0}),
    ],
)
def test_another_function(name: str, key: str, value: Any) -> None:
    message = refusal(name, {**CONFIGS[name], key: value})
    assert message.startswith("the config: ") and key in message.partition(", but ")[0]
    assert f"the card {CARDS[name].title} needs" in message


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"n_layer": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b"[1]", "holds no JSON object"),
    ],
    ids=["empty", "cut off", "no text", "deep", "long", "list"],
)
def test_bad_files(tmp_path: Path, content: bytes, wanted: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    message = refusal("gpt2", file)
    assert str(file) in message
    assert wanted in message


def test_a_key_that_no_json_has_is_one_that_the_card_does_not_know() -> None:
    with pytest.raises(VieteError, match="and no equation of the card"):
        vt.read("gpt2", config={**GPT2, (1, 2): 3})  # type: ignore[dict-item]


def test_other_errors(tmp_path: Path) -> None:
    assert "cannot read" in refusal("gpt2", tmp_path / "nowhere.json")
    assert "cannot read" in refusal("gpt2", tmp_path)
    assert "not int" in refusal("gpt2", 7)
    with pytest.raises(VieteError, match="names no keys"):
        vt.read("dialog-transformer", GPT2)
    (tmp_path / "config.json").write_text(json.dumps({**GPT2, "n_layer": None}))
    assert f"{tmp_path / 'config.json'}: n_layer is missing" in refusal("gpt2", tmp_path)
