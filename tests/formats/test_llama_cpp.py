"""A GGUF file as llama.cpp converts a Llama: its names, its settings, its pairs of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt

gguf = pytest.importorskip("gguf")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TOKENS = [3, 1, 4, 1, 5, 9, 2]
NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip


def converted(path: Path, tied: bool, **extra: Any) -> Any:
    """A random Llama of transformers, and its file, as convert_hf_to_gguf.py writes it."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=19, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=32,
        rms_norm_eps=2**-16, rope_theta=500.0, tie_word_embeddings=tied)  # fmt: skip
    net = transformers.LlamaForCausalLM(config).eval()
    out = gguf.GGUFWriter(path, "llama")
    out.add_block_count(2)
    out.add_context_length(32)
    out.add_embedding_length(24)
    out.add_feed_forward_length(20)
    out.add_head_count(6)
    out.add_head_count_kv(2)
    out.add_rope_freq_base(500.0)
    out.add_rope_dimension_count(4)
    out.add_layer_norm_rms_eps(2**-16)
    for key, value in extra.items():
        out.add_uint32(key.replace("_", "."), value)
    for name, weight in net.state_dict().items():
        array = weight.numpy()
        if "q_proj" in name or "k_proj" in name:
            heads = 6 if "q_proj" in name else 2
            array = array.reshape(heads, 2, 2, -1).swapaxes(1, 2).reshape(array.shape)
        new = {"model.embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight",
               "model.norm.weight": "output_norm.weight"}.get(name)  # fmt: skip
        if new is None:
            _, _, block, rest = name.split(".", 3)
            new = f"blk.{block}.{NAMES[rest.removesuffix('.weight')]}.weight"
        if not (tied and new == "output.weight"):
            out.add_tensor(new, np.ascontiguousarray(array))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return net


@pytest.mark.parametrize("tied", [True, False])
def test_a_llama(tied: bool, tmp_path: Path) -> None:
    net = converted(tmp_path / "model.gguf", tied)
    model = vt.load(tmp_path / "model.gguf")
    with torch.no_grad():
        wanted = net(torch.tensor([TOKENS])).logits[0]
    np.testing.assert_allclose(model.run(TOKENS)["logits"], wanted, atol=2e-6)
    assert ("W_U" in model.weights) != tied


@pytest.mark.parametrize("kind", ["qwen2", "gemma", "gpt2", "bert", "olmo2"])
def test_another_family_is_refused_in_a_sentence(kind: str, tmp_path: Path) -> None:
    out = gguf.GGUFWriter(tmp_path / "model.gguf", kind)
    out.add_block_count(2)
    out.add_tensor("token_embd.weight", np.zeros((19, 24), np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    with pytest.raises(vt.VieteError, match=rf"those of llama\.cpp, such as {kind}\.block_count"):
        vt.load(tmp_path / "model.gguf")


def test_experts_are_no_llama(tmp_path: Path) -> None:
    converted(tmp_path / "model.gguf", False, llama_experts=8)
    with pytest.raises(vt.VieteError, match=r"llama\.experts is 8"):
        vt.load(tmp_path / "model.gguf")
