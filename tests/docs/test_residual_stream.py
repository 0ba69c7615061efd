"""The page on the residual stream: each of its claims is what it says, of each member of Pythia."""

from __future__ import annotations

from pathlib import Path

import viete as vt

PAGE = Path(__file__).parents[2] / "docs/guides/residual-stream.md"
SMALL = {"V": 20, "d": 32, "N": 3, "H": 2, "n_max": 16, "d_f": 8}


def test_every_claim_is_as_it_is_said() -> None:
    found = vt.read("pythia").bind(**SMALL).check(None, PAGE)
    assert found.ok, "\n".join(found.lines())
    assert not found.unread and found.defined == ("g",)
    assert sum(v.claim.refuted for v in found.verdicts) >= 12
    assert sum(bool(v.proof) for v in found.verdicts) >= 14


def test_blocks_one_after_the_other_are_those_of_the_sequential_member() -> None:
    """What is struck through of blocks holds with ``use_parallel_residual`` off, and only there."""
    config = {
        "model_type": "gpt_neox", "use_parallel_residual": False, "vocab_size": 20,
        "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
        "intermediate_size": 8, "max_position_embeddings": 16, "layer_norm_eps": 1e-5,
    }  # fmt: skip
    card = vt.read("pythia", config=config)
    row = next(x for x in PAGE.read_text("utf-8").splitlines() if "one after the other |" in x)
    claims = [x.strip("~$ ") for x in row.split("|")[2:4]]
    sequential = card.check(None, *claims)
    assert sequential.ok and all(v.proof for v in sequential.verdicts), sequential.lines()
    parallel = next(x for x in PAGE.read_text("utf-8").splitlines() if "| in parallel |" in x)
    found = card.check(None, *(x.strip("$ ") for x in parallel.split("|")[2:4]))
    assert all(v.failure is not None for v in found.verdicts)
