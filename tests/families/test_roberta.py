"""RoBERTa and its like: positions counted over the tokens that are not padding."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import viete as vt
from tests.families.peers import Case, check, family_tests, network, relative, torch
from tests.families.test_bert import encoder

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 20, "max_position_embeddings": 16, "type_vocab_size": 1,
         "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}  # fmt: skip
CASES = [
    Case("RobertaModel"),
    Case("RobertaModel", {"num_attention_heads": 3, "pad_token_id": 4, "hidden_act": "relu"}, 11),
    Case("RobertaForMaskedLM"),
    Case("RobertaForMaskedLM", {"hidden_size": 20, "num_attention_heads": 5,
                                "layer_norm_eps": 1e-2, "hidden_act": "gelu_new"}, 14),
    Case("RobertaForCausalLM", {"is_decoder": True, "num_hidden_layers": 3}),
    Case("XLMRobertaForMaskedLM", {"type_vocab_size": 2, "num_hidden_layers": 1}),
    Case("CamembertModel", {"num_attention_heads": 1}, 1),
]  # fmt: skip


test_against_transformers, test_claims = family_tests(CASES, SMALL, [2], encoder)


def test_an_unembedding_of_its_own(tmp_path: Path) -> None:
    case = Case("RobertaForMaskedLM", {"tie_word_embeddings": False})
    check(case, SMALL, tmp_path, encoder, spare=29)


def test_padding_does_not_count(tmp_path: Path) -> None:
    """Padding tokens between and before others, with the mask that belongs to them."""
    net = network(CASES[2], SMALL)
    net.save_pretrained(tmp_path)
    tokens = np.array([[1, 1, 5, 6, 1, 7], [5, 6, 7, 1, 1, 1]])
    a = (tokens != 1) * 1
    with torch.no_grad():
        theirs = net(torch.as_tensor(tokens), attention_mask=torch.as_tensor(a)).logits.numpy()
    run = vt.load(tmp_path).run(tokens, a=a)
    np.testing.assert_array_equal(run["pos"], [[1, 1, 2, 3, 1, 4], [2, 3, 4, 1, 1, 1]])
    assert relative(run["logits"], theirs) <= 1e-10
