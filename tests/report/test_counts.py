"""Published parameter counts, computed from the cards: of the arrays, and of the rows of costs."""

from __future__ import annotations

from math import prod

import pytest

import viete as vt
from viete.analysis.cost import costs
from viete.evaluate.schedule import parameter_shapes


def card(name: str, **dims: int) -> vt.Card:
    return vt.read(name).bind(**dims)


def count(model: vt.Card, *names: str) -> int:
    """How many numbers are in the weights whose names begin so (in all, if none are given)."""
    begins = names or ("",)
    shapes = parameter_shapes(model)
    counted = sum(prod(shape) for name, shape in shapes.items() if name.startswith(begins))
    rows = costs(model).parameters.rows
    assert counted == sum(r.all.number or 0 for r in rows if r.parameter.name.startswith(begins))
    return counted


# The architecture document's section "Parameter Count", row by row.
@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (("E",), 197_632),
        (("P",), 65_536),
        (("W_Q", "W_K", "W_V"), 49_152),
        (("W_O", "b_O"), 16_640),
        (("W_1", "b_1"), 263_168),
        (("W_2", "b_2"), 262_400),
        (("W_lm", "b_lm"), 198_404),
        ((), 1_052_932),
    ],
)
def test_simple_transformer(names: tuple[str, ...], wanted: int) -> None:
    assert count(card("simple-transformer"), *names) == wanted


def test_embeddings_of_simple_transformer() -> None:
    found = costs(card("simple-transformer")).parameters
    assert [r.each.number for r in found.rows if r.parameter.name == "W_Q^h"] == [4_096]
    assert found.unembedding.number == 198_404 and found.total.number == 1_052_932
    assert found.without_embeddings.number == 1_052_932 - 197_632 - 65_536 - 198_404


# Radford et al. 2019, table 2, gives depth and width; the counts are those of the released weights
# (the paper's own, 117M to 1542M, were corrected by its authors in the repository openai/gpt-2).
@pytest.mark.parametrize(
    ("N", "d", "H", "wanted"),
    [
        (12, 768, 12, 124_439_808),
        (24, 1024, 16, 354_823_168),
        (36, 1280, 20, 774_030_080),
        (48, 1600, 25, 1_557_611_200),
    ],
)
def test_gpt2(N: int, d: int, H: int, wanted: int) -> None:
    assert count(card("gpt2", N=N, d=d, H=H)) == wanted


# Biderman et al. 2023 (Pythia): the table of model sizes in the repository EleutherAI/pythia, with
# all parameters and those without the two embeddings. The vocabulary is padded to a multiple of
# 128 times the number of GPUs that a layer was split over.
PYTHIA = {
    "70M": (6, 512, 8, 50304, 70_426_624, 18_915_328),
    "160M": (12, 768, 12, 50304, 162_322_944, 85_056_000),
    "410M": (24, 1024, 16, 50304, 405_334_016, 302_311_424),
    "1B": (16, 2048, 8, 50304, 1_011_781_632, 805_736_448),
    "1.4B": (24, 2048, 16, 50304, 1_414_647_808, 1_208_602_624),
    "2.8B": (32, 2560, 32, 50304, 2_775_208_960, 2_517_652_480),
    "6.9B": (32, 4096, 32, 50432, 6_857_302_016, 6_444_163_072),
    "12B": (36, 5120, 40, 50688, 11_846_072_320, 11_327_027_200),
}


@pytest.mark.parametrize("size", PYTHIA)
def test_pythia(size: str) -> None:
    N, d, H, V, total, without_embeddings = PYTHIA[size]
    config = {
        "model_type": "gpt_neox", "num_hidden_layers": N, "hidden_size": d,
        "num_attention_heads": H, "vocab_size": V, "layer_norm_eps": 1e-5,
        "max_position_embeddings": 2048,
    }  # fmt: skip
    both = [vt.read("pythia", config=config | {"use_parallel_residual": parallel})
            for parallel in (True, False)]  # fmt: skip
    for model in (*both, card("pythia", N=N, d=d, H=H, V=V, d_f=4 * d)):
        assert count(model) == total
        assert count(model) - count(model, "W_E", "W_U") == without_embeddings
        found = costs(model).parameters
        assert found.total.number == total
        assert found.without_embeddings.number == without_embeddings
        assert found.token.number == found.unembedding.number == V * d


# Touvron et al. 2023 (Llama 2), table 1, gives depth, width and groups; the MLP widths are those of
# the released configurations and the counts those of the released weights.
@pytest.mark.parametrize(
    ("N", "d", "H", "G", "d_f", "wanted"),
    [
        (32, 4096, 32, 32, 11008, 6_738_415_616),
        (40, 5120, 40, 40, 13824, 13_015_864_320),
        (80, 8192, 64, 8, 28672, 68_976_648_192),
    ],
)
def test_llama_2(N: int, d: int, H: int, G: int, d_f: int, wanted: int) -> None:
    assert count(card("llama", N=N, d=d, H=H, G=G, d_f=d_f)) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("simple-transformer", 1_052_932),
        ("gpt2", 124_439_808),
        ("pythia", 70_426_624),
        ("llama", 6_738_415_616),
    ],
)
def test_as_shipped(name: str, wanted: int) -> None:
    assert count(card(name)) == wanted
