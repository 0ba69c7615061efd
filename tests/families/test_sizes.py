"""Every published size, without its weights: tensors and numbers as in `transformers`.

The settings are those of the released ``config.json`` files, keys of their training code included,
so that a card that would refuse one fails here.
"""

from __future__ import annotations

from copy import deepcopy
from math import prod
from pathlib import Path
from typing import Any

import pytest

import viete as vt
from viete.cards.config import Config
from viete.evaluate.schedule import parameter_shapes
from viete.formats.tensors import TensorFile, TensorInfo
from viete.model.folder import card_for
from viete.model.mapping import match

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

Size = tuple[str, str, dict[str, Any]]  # class of `transformers`, name of the size, settings


def sizes(kind: str, keys: str, table: dict[str, tuple[Any, ...]], **common: Any) -> list[Size]:
    """Sizes of one class, whose settings differ in a few keys."""
    names = keys.split()
    return [(kind, size, common | dict(zip(names, row, strict=True)))
            for size, row in table.items()]  # fmt: skip


def alternating(blocks: int) -> dict[str, Any]:
    """Global and local blocks in turn, as GPT-Neo's configs say it."""
    both = ["global", "local"]
    return {"attention_types": [[both, blocks // 2]], "attention_layers": both * (blocks // 2)}


SUMMARY = {"summary_type": "cls_index", "summary_use_proj": True, "summary_activation": None,
           "summary_proj_to_labels": True, "summary_first_dropout": 0.1}  # fmt: skip
GPT2 = {"activation_function": "gelu_new", "attn_pdrop": 0.1, "embd_pdrop": 0.1,
        "resid_pdrop": 0.1, "initializer_range": 0.02, "layer_norm_epsilon": 1e-5, "n_ctx": 1024,
        "n_positions": 1024, "vocab_size": 50257, "n_special": 0,
        "predict_special_tokens": True, **SUMMARY}  # fmt: skip
NEOX = {"hidden_act": "gelu", "initializer_range": 0.02, "layer_norm_eps": 1e-5,
        "max_position_embeddings": 2048, "rotary_emb_base": 10000, "rotary_pct": 0.25,
        "tie_word_embeddings": False, "use_cache": True, "use_parallel_residual": True}  # fmt: skip
NEO = {"activation_function": "gelu_new", "attention_dropout": 0, "embed_dropout": 0,
       "resid_dropout": 0, "gradient_checkpointing": False, "initializer_range": 0.02,
       "intermediate_size": None, "layer_norm_epsilon": 1e-5, "max_position_embeddings": 2048,
       "vocab_size": 50257, "window_size": 256, **SUMMARY}  # fmt: skip
GPTJ = {"activation_function": "gelu_new", "attn_pdrop": 0.0, "embd_pdrop": 0.0, "n_inner": None,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-5, "n_positions": 2048,
        "rotary": True, "rotary_dim": 64, "scale_attn_weights": True,
        "tie_word_embeddings": False, "vocab_size": 50400, **SUMMARY}  # fmt: skip
OPT = {"activation_dropout": 0.0, "activation_function": "relu", "attention_dropout": 0.0,
       "dropout": 0.1, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048,
       "prefix": "</s>", "vocab_size": 50272, "_remove_final_layer_norm": False}  # fmt: skip
BLOOM = {"apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0,
         "attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "hidden_dropout": 0.0,
         "initializer_range": 0.02, "layer_norm_epsilon": 1e-5, "masked_softmax_fusion": True,
         "n_inner": None, "offset_alibi": 100, "pretraining_tp": 4, "seq_length": 2048,
         "skip_bias_add": True, "skip_bias_add_qkv": False, "unk_token_id": 0,
         "vocab_size": 250880}  # fmt: skip

# What the configs of Llama and its like share, and their keys.
LIKE = {"attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": True,
        "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16"}  # fmt: skip
SILU = LIKE | {"hidden_act": "silu"}
SHAPE = "hidden_size num_hidden_layers num_attention_heads"
GROUPS = f"{SHAPE} num_key_value_heads intermediate_size"
LLAMA = SILU | {"attention_bias": False, "mlp_bias": False, "pretraining_tp": 1,
                "rms_norm_eps": 1e-5, "rope_scaling": None}  # fmt: skip
LLAMA2 = LLAMA | {"vocab_size": 32000, "max_position_embeddings": 4096,
                  "tie_word_embeddings": False}  # fmt: skip
LLAMA3 = LLAMA | {"vocab_size": 128256, "max_position_embeddings": 8192, "rope_theta": 500000.0,
                  "tie_word_embeddings": False}  # fmt: skip
LONG = LLAMA3 | {"max_position_embeddings": 131072, "rope_scaling": {
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_type": "llama3",
    "original_max_position_embeddings": 8192}}  # fmt: skip
SMALLER = LONG | {"tie_word_embeddings": True,
                  "rope_scaling": LONG["rope_scaling"] | {"factor": 32.0}}  # fmt: skip
MISTRAL = SILU | {"max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "vocab_size": 32000,
                  "tie_word_embeddings": False}  # fmt: skip
MIXTRAL = MISTRAL | {"num_experts_per_tok": 2, "num_local_experts": 8, "rope_theta": 1e6,
                     "output_router_logits": False, "router_aux_loss_coef": 0.02,
                     "sliding_window": None}  # fmt: skip
QWEN2 = SILU | {"max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
                "sliding_window": 131072, "use_sliding_window": False}  # fmt: skip
QWEN3 = QWEN2 | {"attention_bias": False, "head_dim": 128, "max_position_embeddings": 40960,
                 "rope_scaling": None, "sliding_window": None, "vocab_size": 151936}  # fmt: skip
GEMMA = LIKE | {"attention_bias": False, "head_dim": 256, "hidden_act": "gelu",
                "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "rope_scaling": None,
                "rope_theta": 10000.0, "vocab_size": 256000, "pad_token_id": 0}  # fmt: skip
GEMMA2 = GEMMA | {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
                  "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
                  "cache_implementation": "hybrid", "sliding_window": 4096}  # fmt: skip
PHI = LIKE | {"embd_pdrop": 0.0, "hidden_act": "gelu_new", "layer_norm_eps": 1e-5,
              "max_position_embeddings": 2048, "num_key_value_heads": None, "resid_pdrop": 0.0,
              "qk_layernorm": False, "rope_scaling": None, "rope_theta": 10000.0,
              "tie_word_embeddings": False, "vocab_size": 51200}  # fmt: skip
OLMO = SILU | {"attention_bias": False, "clip_qkv": None, "max_position_embeddings": 2048,
               "pretraining_tp": 1, "rope_scaling": None, "rope_theta": 10000.0,
               "vocab_size": 50304}  # fmt: skip
OLMO2 = SILU | {"attention_bias": False, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
                "rope_scaling": None, "rope_theta": 500000, "tie_word_embeddings": False,
                "vocab_size": 100352}  # fmt: skip
BERT = {"attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512, "pad_token_id": 0, "position_embedding_type": "absolute",
        "type_vocab_size": 2, "use_cache": True, "vocab_size": 30522}  # fmt: skip
CHINESE = BERT | {"vocab_size": 21128, "directionality": "bidi", "pooler_fc_size": 768,
                  "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
                  "pooler_size_per_head": 128, "pooler_type": "first_token_transform"}  # fmt: skip
ROBERTA = BERT | {"bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5, "pad_token_id": 1,
                  "max_position_embeddings": 514, "type_vocab_size": 1,
                  "vocab_size": 50265}  # fmt: skip
XLMR = ROBERTA | {"output_past": True, "vocab_size": 250002}
ENCODER = f"{SHAPE} intermediate_size"
BASE, LARGE = (768, 12, 12, 3072), (1024, 24, 16, 4096)
T5 = {"decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
      "initializer_factor": 1.0, "is_encoder_decoder": True, "layer_norm_epsilon": 1e-6,
      "n_positions": 512, "output_past": True, "pad_token_id": 0,
      "relative_attention_num_buckets": 32, "vocab_size": 32128,
      "task_specific_params": {"translation_en_to_de": {"prefix": "translate: "}}}  # fmt: skip
T5_1 = T5 | {"feed_forward_proj": "gated-gelu", "num_decoder_layers": None,
             "tie_word_embeddings": False}  # fmt: skip
BOTH = "d_model d_kv d_ff num_heads num_layers"
V1_1 = {"small": (512, 64, 1024, 6, 8), "base": (768, 64, 2048, 12, 12),
        "large": (1024, 64, 2816, 16, 24), "xl": (2048, 64, 5120, 32, 24),
        "xxl": (4096, 64, 10240, 64, 24)}  # fmt: skip

SIZES: list[Size] = [
    *sizes("GPT2LMHeadModel", "n_layer n_embd n_head", {
        "gpt2": (12, 768, 12), "gpt2-medium": (24, 1024, 16), "gpt2-large": (36, 1280, 20),
        "gpt2-xl": (48, 1600, 25),
    }, **GPT2),
    *sizes(
        "GPTNeoXForCausalLM",
        "num_hidden_layers hidden_size num_attention_heads intermediate_size vocab_size", {
            "pythia-70m": (6, 512, 8, 2048, 50304), "pythia-160m": (12, 768, 12, 3072, 50304),
            "pythia-410m": (24, 1024, 16, 4096, 50304), "pythia-1b": (16, 2048, 8, 8192, 50304),
            "pythia-1.4b": (24, 2048, 16, 8192, 50304),
            "pythia-2.8b": (32, 2560, 32, 10240, 50304),
            "pythia-6.9b": (32, 4096, 32, 16384, 50432),
            "pythia-12b": (36, 5120, 40, 20480, 50688),
        }, **NEOX),
    ("GPTNeoXForCausalLM", "gpt-neox-20b", NEOX | {
        "num_hidden_layers": 44, "hidden_size": 6144, "num_attention_heads": 64,
        "intermediate_size": 24576, "vocab_size": 50432, "hidden_act": "gelu_fast",
        "attention_probs_dropout_prob": 0, "hidden_dropout_prob": 0}),
    ("GPTNeoForCausalLM", "gpt-neo-125m", NEO | alternating(12) | {
        "num_layers": 12, "hidden_size": 768, "num_heads": 12}),
    ("GPTNeoForCausalLM", "gpt-neo-1.3B", NEO | alternating(24) | {
        "num_layers": 24, "hidden_size": 2048, "num_heads": 16}),
    ("GPTNeoForCausalLM", "gpt-neo-2.7B", NEO | alternating(32) | {
        "num_layers": 32, "hidden_size": 2560, "num_heads": 20}),
    ("GPTJForCausalLM", "gpt-j-6b", GPTJ | {"n_layer": 28, "n_embd": 4096, "n_head": 16}),
    *sizes(
        "OPTForCausalLM",
        "num_hidden_layers hidden_size num_attention_heads ffn_dim word_embed_proj_dim "
        "do_layer_norm_before", {
            "opt-125m": (12, 768, 12, 3072, 768, True),
            "opt-350m": (24, 1024, 16, 4096, 512, False),
            "opt-1.3b": (24, 2048, 32, 8192, 2048, True),
            "opt-2.7b": (32, 2560, 32, 10240, 2560, True),
            "opt-6.7b": (32, 4096, 32, 16384, 4096, True),
            "opt-13b": (40, 5120, 40, 20480, 5120, True),
            "opt-30b": (48, 7168, 56, 28672, 7168, True),
            "opt-66b": (64, 9216, 72, 36864, 9216, True),
        }, **OPT),
    *sizes("BloomForCausalLM", "n_layer n_embed num_attention_heads", {
        "bloom-560m": (24, 1024, 16), "bloom-1b1": (24, 1536, 16), "bloom-1b7": (24, 2048, 16),
        "bloom-3b": (30, 2560, 32), "bloom-7b1": (30, 4096, 32), "bloom": (70, 14336, 112),
    }, **BLOOM),
    *sizes("LlamaForCausalLM", GROUPS, {
        "llama-7b": (4096, 32, 32, 32, 11008), "llama-13b": (5120, 40, 40, 40, 13824),
        "llama-30b": (6656, 60, 52, 52, 17920), "llama-65b": (8192, 80, 64, 64, 22016),
        "llama-2-70b": (8192, 80, 64, 8, 28672),
    }, **LLAMA2),
    *sizes("LlamaForCausalLM", GROUPS, {
        "llama-3-8b": (4096, 32, 32, 8, 14336), "llama-3-70b": (8192, 80, 64, 8, 28672),
    }, **LLAMA3),
    *sizes("LlamaForCausalLM", GROUPS, {"llama-3.1-405b": (16384, 126, 128, 8, 53248)}, **LONG),
    *sizes("LlamaForCausalLM", f"{GROUPS} head_dim", {
        "llama-3.2-1b": (2048, 16, 32, 8, 8192, 64), "llama-3.2-3b": (3072, 28, 24, 8, 8192, 128),
    }, **SMALLER),
    *sizes("MistralForCausalLM", f"{GROUPS} rope_theta sliding_window vocab_size", {
        "mistral-7b-v0.1": (4096, 32, 32, 8, 14336, 10000.0, 4096, 32000),
        "mistral-7b-v0.3": (4096, 32, 32, 8, 14336, 1000000.0, None, 32768),
    }, **MISTRAL),
    *sizes("Qwen2ForCausalLM", f"{GROUPS} max_window_layers vocab_size tie_word_embeddings", {
        "qwen2-0.5b": (896, 24, 14, 2, 4864, 24, 151936, True),
        "qwen2-1.5b": (1536, 28, 12, 2, 8960, 28, 151936, True),
        "qwen2.5-3b": (2048, 36, 16, 2, 11008, 36, 151936, True),
        "qwen2-7b": (3584, 28, 28, 4, 18944, 28, 152064, False),
        "qwen2.5-14b": (5120, 48, 40, 8, 13824, 48, 152064, False),
        "qwen2.5-32b": (5120, 64, 40, 8, 27648, 64, 152064, False),
        "qwen2-72b": (8192, 80, 64, 8, 29568, 80, 152064, False),
    }, **QWEN2),
    *sizes("Qwen3ForCausalLM", f"{GROUPS} max_window_layers tie_word_embeddings", {
        "qwen3-0.6b": (1024, 28, 16, 8, 3072, 28, True),
        "qwen3-1.7b": (2048, 28, 16, 8, 6144, 28, True),
        "qwen3-4b": (2560, 36, 32, 8, 9728, 36, True),
        "qwen3-8b": (4096, 36, 32, 8, 12288, 36, False),
        "qwen3-14b": (5120, 40, 40, 8, 17408, 40, False),
        "qwen3-32b": (5120, 64, 64, 8, 25600, 64, False),
    }, **QWEN3),
    *sizes("GemmaForCausalLM", GROUPS, {
        "gemma-2b": (2048, 18, 8, 1, 16384), "gemma-7b": (3072, 28, 16, 16, 24576),
    }, **GEMMA),
    *sizes("Gemma2ForCausalLM", f"{GROUPS} head_dim query_pre_attn_scalar", {
        "gemma-2-2b": (2304, 26, 8, 4, 9216, 256, 256),
        "gemma-2-9b": (3584, 42, 16, 8, 14336, 256, 256),
        "gemma-2-27b": (4608, 46, 32, 16, 36864, 128, 144),
    }, **GEMMA2),
    *sizes("PhiForCausalLM", f"{SHAPE} intermediate_size partial_rotary_factor", {
        "phi-1": (2048, 24, 32, 8192, 0.5), "phi-1.5": (2048, 24, 32, 8192, 0.5),
        "phi-2": (2560, 32, 32, 10240, 0.4),
    }, **PHI),
    *sizes("OlmoForCausalLM", f"{GROUPS} tie_word_embeddings", {
        "olmo-1b": (2048, 16, 16, 16, 8192, True), "olmo-7b": (4096, 32, 32, 32, 11008, False),
    }, **OLMO),
    *sizes("Olmo2ForCausalLM", GROUPS, {
        "olmo-2-1b": (2048, 16, 16, 16, 8192), "olmo-2-7b": (4096, 32, 32, 32, 11008),
        "olmo-2-13b": (5120, 40, 40, 40, 13824), "olmo-2-32b": (5120, 64, 40, 8, 27648),
    }, **OLMO2),
    *sizes("MixtralForCausalLM", f"{GROUPS} vocab_size", {
        "mixtral-8x7b": (4096, 32, 32, 8, 14336, 32000),
        "mixtral-8x22b": (6144, 56, 48, 8, 16384, 32768),
    }, **MIXTRAL),
    *sizes("BertModel", ENCODER, {"bert-base": BASE, "bert-large": LARGE}, **BERT),
    *sizes("BertForMaskedLM", ENCODER, {"bert-base-masked": BASE}, **BERT),
    *sizes("BertForPreTraining", ENCODER, {"bert-large-pretraining": LARGE}, **BERT),
    *sizes("BertModel", ENCODER, {"bert-base-chinese": BASE}, **CHINESE),
    *sizes("RobertaModel", ENCODER, {"roberta-base": BASE, "roberta-large": LARGE}, **ROBERTA),
    *sizes("RobertaForMaskedLM", ENCODER, {"roberta-base-masked": BASE,
                                           "roberta-large-masked": LARGE}, **ROBERTA),
    *sizes("XLMRobertaModel", ENCODER, {"xlm-roberta-base": BASE,
                                        "xlm-roberta-large": LARGE}, **XLMR),
    *sizes("T5ForConditionalGeneration", BOTH, {
        "t5-small": (512, 64, 2048, 8, 6), "t5-base": (768, 64, 3072, 12, 12),
        "t5-large": (1024, 64, 4096, 16, 24), "t5-3b": (1024, 128, 16384, 32, 24),
        "t5-11b": (1024, 128, 65536, 128, 24),
    }, **T5),
    *sizes("T5ForConditionalGeneration", BOTH, {
        f"flan-t5-{size}": row for size, row in V1_1.items()
    }, **T5_1),
    *sizes("MT5ForConditionalGeneration", BOTH, {
        f"mt5-{size}": row for size, row in V1_1.items()
    }, **T5_1 | {"vocab_size": 250112}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "size", "settings"), SIZES, ids=[s[1] for s in SIZES])
def test_the_count_of_a_published_size(
    kind: str, size: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = getattr(transformers, kind)
    for layer in torch.nn.Linear, torch.nn.Embedding:  # there are no numbers to begin with
        monkeypatch.setattr(layer, "reset_parameters", lambda self: None)
    with torch.device("meta"):
        net = cls(cls.config_class.from_dict(deepcopy(settings)))
        if "T5" in kind and settings.get("tie_word_embeddings") is False:
            # This version of transformers unties it only where a file has one.
            net.lm_head.weight = torch.nn.Parameter(torch.empty(net.shared.weight.shape))
    config = Config(settings | {"model_type": cls.config_class.model_type, "architectures": [kind]})
    model = vt.read(card_for(config), config=config.values)
    wanted = sum(p.numel() for p in net.parameters())
    assert sum(map(prod, parameter_shapes(model).values())) == wanted
    names = TensorFile(Path("empty"), "names")
    for name, p in net.named_parameters():
        names.add(TensorInfo(name, tuple(p.shape), "float32"), lambda _: None)
    found = match(model, names)
    assert not (found.missing or found.misshaped or found.extra)
