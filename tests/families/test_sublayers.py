"""What a sub-layer adds to the stream, as `transformers` computes it, and in members of families.

`\\tilde{A}^i` and `\\tilde{M}^i` are held against what the peer's own modules give to a hook.
Members that have other norms than the shipped card keep the laws of all derived names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.families import (
    test_bert,
    test_bloom,
    test_gemma2,
    test_gpt2,
    test_gpt_neox,
    test_llama,
    test_olmo2,
    test_opt,
    test_phi,
    test_roberta,
    test_t5,
)
from tests.families.peers import Case, doubled, network, relative, tokens_of, torch
from tests.families.test_members import member
from tests.laws.strategies import random_inputs, random_weights
from tests.laws.test_derived_names import check_derived_names

# A class, its family's sizes, its list of blocks, and what in a block adds to the stream.
PEERS = [
    (Case("GPT2LMHeadModel"), test_gpt2, "transformer.h", ("attn", "mlp")),
    (Case("GPTNeoXForCausalLM"), test_gpt_neox, "gpt_neox.layers", ("attention", "mlp")),
    (Case("GPTNeoXForCausalLM", {"use_parallel_residual": False}), test_gpt_neox,
     "gpt_neox.layers", ("attention", "mlp")),
    (Case("LlamaForCausalLM"), test_llama, "model.layers", ("self_attn", "mlp")),
    (Case("Gemma2ForCausalLM"), test_gemma2, "model.layers",
     ("post_attention_layernorm", "post_feedforward_layernorm")),
]  # fmt: skip
MEMBERS = [
    (test_bert, Case("BertForMaskedLM", {"architectures": ["BertForMaskedLM"]})),
    (test_bert, Case("BertForMaskedLM", {"architectures": ["BertForMaskedLM"],
                                         "tie_word_embeddings": False})),
    (test_roberta, Case("RobertaForMaskedLM", {"architectures": ["RobertaForMaskedLM"]})),
    (test_t5, Case("T5ForConditionalGeneration", {"tie_word_embeddings": False})),
    (test_opt, Case("OPTForCausalLM", {"do_layer_norm_before": False})),
    (test_opt, Case("OPTForCausalLM", {"word_embed_proj_dim": 10, "do_layer_norm_before": False})),
    (test_opt, Case("OPTForCausalLM", {"_remove_final_layer_norm": True})),
    (test_bloom, Case("BloomForCausalLM", {"apply_residual_connection_post_layernorm": True})),
    (test_gpt_neox, Case("GPTNeoXForCausalLM", {"use_parallel_residual": False})),
    (test_gemma2, Case("Gemma2ForCausalLM", {"final_logit_softcapping": 3.5})),
    (test_olmo2, Case("Olmo2ForCausalLM")),
    (test_phi, Case("PhiForCausalLM")),
]  # fmt: skip


@contextmanager
def recorded(modules: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """What some modules give in a forward pass."""
    found: dict[str, np.ndarray] = {}

    def hook(name: str) -> Any:
        def record(module: Any, given: Any, out: Any) -> None:
            found[name] = (out[0] if isinstance(out, tuple) else out).detach().numpy()

        return record

    handles = [module.register_forward_hook(hook(name)) for name, module in modules.items()]
    yield found
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize(
    ("case", "family", "blocks", "added"), PEERS, ids=[str(case) for case, *_ in PEERS]
)
def test_sub_layers_against_transformers(
    case: Case, family: ModuleType, blocks: str, added: tuple[str, str], tmp_path: Path
) -> None:
    net, tokens = network(case, family.SMALL), tokens_of(case)
    net.save_pretrained(tmp_path)
    modules = {f"\\tilde{{{letter}}}^{i}": block.get_submodule(path)
               for i, block in enumerate(net.get_submodule(blocks), 1)
               for letter, path in zip("AM", added, strict=True)}  # fmt: skip
    with doubled(type(net)), torch.no_grad(), recorded(modules) as theirs:
        net(torch.as_tensor(tokens))
    run = vt.load(tmp_path).run(tokens)
    assert theirs.keys() == modules.keys()
    assert not {k: x for k, v in theirs.items() if not (x := relative(run[k], v)) <= 1e-9}


@pytest.mark.parametrize(("family", "case"), MEMBERS, ids=[str(case) for _, case in MEMBERS])
def test_members_keep_the_laws(family: ModuleType, case: Case) -> None:
    card = member(family, case)
    assert {"U", "scale"} <= {e.name for e in card.derived}
    check_derived_names(card, random_weights(card, 5), random_inputs(card, 6))


HOOKED = {"d_vocab": 11, "d_model": 16, "n_layers": 2, "n_heads": 2, "d_head": 8, "d_mlp": 12,
          "n_ctx": 9, "act_fn": "gelu"}  # fmt: skip


@pytest.mark.parametrize("settings", [
    {"normalization_type": None}, {"normalization_type": "RMS", "parallel_attn_mlp": True},
    {"normalization_type": "RMSPre"}, {"normalization_type": "LNPre", "final_rms": True},
    {"attn_only": True}, {"n_key_value_heads": 1},
], ids=str)  # fmt: skip
def test_a_hooked_transformer_keeps_the_laws(settings: dict[str, Any]) -> None:
    card = vt.read("hooked-transformer", config=HOOKED | settings)
    assert ("scale_M^i" in {e.name for e in card.derived}) != ("attn_only" in settings)
    check_derived_names(card, random_weights(card, 5), random_inputs(card, 6))
