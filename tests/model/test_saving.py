"""Weights that Viète made, in `transformers`, and those of `transformers` in Viète: the same."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import viete as vt  # noqa: E402
from tests.command_line import viete  # noqa: E402
from tests.model.released import save_weights  # noqa: E402
from viete.model.settings import config_of  # noqa: E402
from viete.text.vocabulary import (  # noqa: E402
    BytePairs,
    Characters,
    save_vocabulary,
)

transformers.logging.set_verbosity_error()
SMALL = {"V": 29, "d": 32, "N": 2, "H": 4, "d_f": 48, "n_max": 24}
# Of these the shipped card alone, without a config, is a model that transformers has.
DECODERS = ["gpt2", "gpt-neo", "llama", "pythia", "gpt-j", "opt", "bloom", "mistral", "mixtral",
            "gemma", "gemma2", "qwen2", "qwen3", "phi", "olmo", "olmo2"]  # fmt: skip
TOKENS = np.random.default_rng(3).integers(2, 28, (2, 9))


@cache
def card(name: str, **sizes: int) -> Any:
    """A shipped card with small dimensions."""
    model = vt.read(name)
    free = {d.name for d in model.dims if d.config and d.value is not None}
    given = {k: v for k, v in SMALL.items() if k in free} | ({"G": 2} if "G" in free else {})
    return model.bind(**{**given, **sizes})


def weights(model: Any, seed: int = 0, dtype: str = "float64") -> dict[str, Any]:
    """Every weight random, biases and norms too."""
    rng = np.random.default_rng(seed)
    drawn = model.initial_weights(seed)
    return {k: (w + 0.1 * rng.standard_normal(w.shape)).astype(dtype) for k, w in drawn.items()}


def scores(net: Any) -> np.ndarray:
    with torch.no_grad():
        return net(torch.as_tensor(TOKENS)).logits.double().numpy()


def relative(a: Any, b: Any) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(np.asarray(b)).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
def test_from_scratch_to_transformers_and_back(name: str, tmp_path: Path) -> None:
    model = card(name)
    ours = weights(model, dtype="float32")
    folder = model.save(tmp_path / "made", ours)
    net, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(report[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    wanted = model.run(TOKENS, ours)["logits"]
    assert relative(scores(net.eval()), wanted) < 1e-5
    # Back from the folder, and from the module, and to a module again.
    again = vt.load(folder)
    assert again.card.equations == model.equations
    assert all(np.array_equal(again.weights[k], w) for k, w in ours.items())
    live = vt.from_transformers(net)
    assert relative(live.run(TOKENS)["logits"], wanted) < 1e-5
    back = again.to_transformers()
    assert type(back) is type(net) and relative(scores(back), wanted) < 1e-5


@pytest.mark.parametrize("name", ["bert", "roberta", "t5"])
def test_other_kinds_of_model(name: str, tmp_path: Path) -> None:
    """Encoders, and one with a decoder too: written, opened there, and written there again."""
    model = card(name)
    ours = weights(model, dtype="float32")
    folder = model.save(tmp_path / "made", ours)
    net = vt.load(folder).to_transformers()
    net.save_pretrained(tmp_path / "theirs")
    again = vt.load(tmp_path / "theirs")
    assert all(np.array_equal(again.weights[k], w) for k, w in ours.items())


def test_a_whole_number_where_transformers_wants_a_float(tmp_path: Path) -> None:
    model = vt.read("olmo", config={**config_of(card("olmo")), "clip_qkv": 8.0})
    folder = model.save(tmp_path, weights(model, dtype="float32"))
    assert type(transformers.AutoConfig.from_pretrained(folder).clip_qkv) is float


def test_nothing_is_copied_of_a_module() -> None:
    net = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=16, n_layer=1, n_head=2, vocab_size=29, n_positions=24, bos_token_id=None,
        eos_token_id=None,
    )).eval()  # fmt: skip
    live = vt.from_transformers(net)
    before = live.run(TOKENS)["logits"]
    with torch.no_grad():
        net.transformer.wte.weight.mul_(2)
    after = live.run(TOKENS)["logits"]
    assert relative(before, after) > 1e-3
    assert relative(scores(net), after) < 1e-5
    copied = vt.from_transformers(net, framework="numpy", dtype="float64")
    assert copied.weights["W_E"].dtype == np.float64
    with pytest.raises(vt.VieteError, match="from_transformers needs a model of transformers"):
        vt.from_transformers(torch.nn.Linear(2, 2))
    with pytest.raises(vt.VieteError, match="the tokenizer must be a fast tokenizer"):
        vt.from_transformers(net, "no tokenizer")


def test_numpy_weights_that_pytorch_does_not_know(tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    model = card("llama")
    model.save(tmp_path / "made", weights(model, dtype="float32"))
    net = vt.load(tmp_path / "made", dtype="bfloat16").to_transformers()
    wanted = vt.load(tmp_path / "made", framework="torch", dtype="bfloat16").weights["W_E"]
    assert torch.equal(net.model.embed_tokens.weight, wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_precision_is_kept(dtype: str, tmp_path: Path) -> None:
    model = card("llama")
    ours = {k: torch.as_tensor(w).to(getattr(torch, dtype)) for k, w in weights(model).items()}
    folder = model.save(tmp_path / "made", ours)
    assert json.loads((folder / "config.json").read_text())["dtype"] == dtype
    net = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert {p.dtype for p in net.parameters()} == {getattr(torch, dtype)}
    back = vt.load(folder, framework="torch").weights
    assert all(torch.equal(back[k], w) for k, w in ours.items())


def test_what_a_model_came_with_is_kept(tmp_path: Path) -> None:
    """Keys that say nothing of the function, and the tokenizer's files."""
    model = card("llama")
    folder = model.save(tmp_path / "made", weights(model))
    said = json.loads((folder / "config.json").read_text())
    said |= {"attention_dropout": 0.25, "eos_token_id": [5, 7], "rms_norm_eps": 1e-06}
    (folder / "config.json").write_text(json.dumps(said))
    pairs = BytePairs.of(["the cat sat on the mat"], 270, ["<s>"])
    (folder / "tokenizer.json").write_text(pairs.dumps())
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "own": [1]}')
    vt.load(folder).save(tmp_path / "again")
    assert json.loads((tmp_path / "again/config.json").read_text()) == said
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    longer = vt.load(folder).bind(n_max=99)
    longer.save(tmp_path / "longer")
    changed = json.loads((tmp_path / "longer/config.json").read_text())
    assert changed == said | {"max_position_embeddings": 99}


def test_a_tokenizer_of_ones_own_is_written(tmp_path: Path) -> None:
    """A run of viete train, with characters for tokens, opened by `transformers` with its text."""
    run = tmp_path / "run"
    run.mkdir()
    model = card("gpt2", V=12)
    (run / "card.md").write_text(model.write())
    save_weights(model, weights(model, dtype="float32"), run / "model.safetensors")
    save_vocabulary(Characters("0123456789", ["<end>", "<|endoftext|>"]), run / "tokenizer.json")
    viete("export", run, "--to", "hf", "-o", tmp_path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    ids = tokenizer("314", return_tensors="pt")["input_ids"]
    assert ids.tolist() == [[3, 1, 4]]
    net = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    with torch.no_grad():
        theirs = net(ids).logits.numpy()
    ours = vt.load(run)
    assert ours.lens.to_tokens("314").tolist() == [[3, 1, 4]]
    assert relative(ours.run("314")["logits"], theirs[0]) < 1e-5
    assert relative(vt.load(tmp_path / "hf").run("314")["logits"], theirs[0]) < 1e-5


def test_the_command_writes_a_card_with_weights(tmp_path: Path) -> None:
    sets = [x for k, v in SMALL.items() if k not in ("d_f",) for x in ("--set", f"{k}={v}")]
    out = tmp_path / "made"
    assert "written: " in viete("export", "gpt2", *sets, "--seed", 4, "--to", "hf", "-o", out).err
    net = transformers.AutoModelForCausalLM.from_pretrained(out)
    model = vt.read("gpt2").bind(**{k: v for k, v in SMALL.items() if k != "d_f"})
    ours = model.initial_weights(4, "float32")
    assert relative(scores(net.eval()), model.run(TOKENS, ours)["logits"]) < 1e-5
    for argv, words in [
        (["gpt2", "--to", "hf"], "give -o FOLDER"),
        (["gpt2", "--to", "hf", "-o", out], "the card needs weights"),
        (["simple-transformer", "--to", "hf", "-o", out, "--seed", 0], "no family of transformers"),
        (["gpt2", "--to", "numpy", "--seed", 0], "need --to hf"),
    ]:
        assert words in viete("export", *argv, code=2).err


# -- what cannot be written ------------------------------------------------------------------------


def test_other_equations_are_not_passed_off(tmp_path: Path) -> None:
    """A card that was changed is no longer of the family, and transformers would not know it."""
    text = card("llama").write()
    for old, new, words in [
        ("SiLU", "GELU", r"says mⁱ = \(SiLU.*, and this one mⁱ = \(GELU"),
        (r"$u^i = ", r"$u^i = 2 ", r"says uⁱ = RMSNorm"),
    ]:
        assert old in text
        changed = vt.read(text.replace(old, new))
        with pytest.raises(vt.VieteError, match=words):
            changed.save(tmp_path / "made", weights(changed))
        assert not (tmp_path / "made").exists()


def test_what_transformers_has_no_key_for_is_not_written(tmp_path: Path) -> None:
    model = vt.read("bloom").bind(V=29, d=32, N=1, H=4, d_f=48)
    with pytest.raises(vt.VieteError, match="d_f is 48, and transformers would have 128"):
        config_of(model)
    by_turns = transformers.GPTNeoConfig(num_layers=2, attention_types=[[["global", "local"], 1]])
    model = vt.read(vt.read("gpt-neo", config=by_turns.to_dict()).write())
    with pytest.raises(vt.VieteError, match="its config cannot be made from the card alone"):
        config_of(model)


def test_another_model_is_not_mixed_with(tmp_path: Path) -> None:
    model, ours = card("gpt2"), weights(card("gpt2"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a/pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(vt.VieteError, match=r"holds another model \(pytorch_model\.bin\)"):
        model.save(tmp_path / "a", ours)
    (tmp_path / "b").write_text("x")
    with pytest.raises(vt.VieteError, match="is a file"):
        model.save(tmp_path / "b", ours)
    with pytest.raises(vt.VieteError, match="give its weights too"):
        model.save(tmp_path / "c")
    with pytest.raises(vt.VieteError, match="do not fit"):
        model.save(tmp_path / "c", {k: w for k, w in ours.items() if k != "W_E"})
    assert not (tmp_path / "c").exists()
    model.save(tmp_path / "d", ours)
    model.save(tmp_path / "d", {k: 2 * w for k, w in ours.items()})
    assert np.array_equal(vt.load(tmp_path / "d").weights["W_E"], 2 * ours["W_E"])
