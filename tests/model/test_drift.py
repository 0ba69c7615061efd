"""What a file has that its card lacks is explained by name, by shape and by its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.model.test_compare import CARD, weights_of
from viete import read
from viete.cards.config import Config
from viete.errors import VieteError
from viete.model.compare import Report
from viete.model.mapping import to_checkpoint

GPT2 = {"V": 13, "d": 24, "N": 2, "H": 6, "n_max": 40, "d_f": 20}
Arrays = dict[str, Any]


def gpt2(without: str = "") -> tuple[vt.Card, Arrays]:
    """A small GPT-2's tensors, and its card without the rows and terms of some biases."""
    card = vt.read("gpt2").bind(**GPT2)
    text = card.write()
    for row in (line for line in text.splitlines() if without and f"${without}" in line):
        text = text.replace(row + "\n", "")
    terms = {"b_1": " + b_1^i", "b_Q": ""}.get(without, "")
    return read(text.replace(terms, "") if terms else text), to_checkpoint(card, weights_of(card))


def report(model: vt.Card, tensors: Arrays) -> Report:
    found = model.check(tensors)
    assert isinstance(found, Report)
    return found


def test_a_bias_beside_its_weight_comes_with_its_row() -> None:
    card, tensors = gpt2("b_1")
    text = "\n".join(report(card, tensors).lines())
    row = "| $b_1^i$ | $d_f$ | `transformer.h.{i-1}.mlp.c_fc.bias` |"
    assert row in text and "v^i W_1^i + b_1^i" in text
    assert "Not in the card (2): 40 of the file's" in text
    # The row and the term are what was missing.
    whole = card.write().replace("| $b_2^i$", f"{columns(card, row)}\n| $b_2^i$")
    again = report(read(whole.replace("v^i W_1^i)", "v^i W_1^i + b_1^i)")), tensors)
    assert again.ok, again.lines()


def columns(card: vt.Card, row: str) -> str:
    """A row of symbol, shape and checkpoint with the columns of the card's own table."""
    head = next(x for x in card.write().splitlines() if x.startswith("| symbol") and "shape" in x)
    symbol, shape, checkpoint = (c.strip() for c in row.strip("| ").split(" | "))
    cells = {"symbol": symbol, "shape": shape, "checkpoint": checkpoint.rstrip(" |")}
    return f"| {' | '.join(cells.get(h.strip(), '') for h in head.strip('| ').split('|'))} |"


def test_a_packed_bias_is_that_of_each_matrix() -> None:
    names = ["W_Q^i", "W_K^i", "W_V^i"]
    card = read(f"""# Packed

## Dimensions

| symbol | value |
| --- | --- |
| $d$ | 4 |
| $f$ | 6 |
| $N$ | 2 |
| $n$ | ≤ 5 |

## Inputs

- $x^0 ∈ ℝ^{{n × d}}$

## Parameters

| symbol | shape | checkpoint |
| --- | --- | --- |
| ${", ".join(names)}$ | d × f | h.{{i-1}}.qkv.weight : (three f) d -> three d f |

## Forward pass

For $i = 1, …, N$:

1. $y^i = x^0 W_Q^i + x^0 W_K^i ⊙ (x^0 W_V^i)$
""")
    tensors = {f"h.{k}.qkv.weight": np.ones((18, 4), np.float32) for k in range(2)}
    tensors |= {f"h.{k}.qkv.bias": np.ones(18, np.float32) for k in range(2)}
    text = "\n".join(report(card, tensors).lines())
    assert "| $b_Q^i, b_K^i, b_V^i$ | $f$ | `h.{i-1}.qkv.bias : (" in text
    assert "all 1" in text


def test_tensors_of_zeros_and_ones_are_told() -> None:
    model = read(CARD)
    weights = weights_of(model)
    more = {"zeros": np.zeros(5, np.float32), "ones": np.ones((2, 3), np.float32)}
    text = "\n".join(report(model, weights | more).lines())
    assert "zeros (5, float32); all 0" in text and "ones (2 × 3, float32); all 1" in text
    assert f"Not in the card (2): 11 of the file's {656 + 11} parameters" in text


def turned(weights: Arrays, but: str = "") -> Arrays:
    return {
        n: w if w.ndim < 2 or n == but else np.ascontiguousarray(w.T) for n, w in weights.items()
    }


WIDE = CARD.replace("| $W_Q^i, W_K^i, W_F^i$ | d × d |", "| $W_Q^i, W_F^i$ | d × d |\n"
                    "| $W_K^i$ | d × d |\n| $W_1^i$ | d × 12 |\n| $W_2^i$ | 12 × d |").replace(
    "x^i = x^{i-1} + a^i", "x^i = x^{i-1} + a^i + (u^i W_1^i) W_2^i")  # fmt: skip


def test_squares_of_a_transposed_file_are_told() -> None:
    """Their shapes fit, and the other matrices say that they are the other way round."""
    model = read(WIDE)
    weights = weights_of(model)
    file = {n: w if n in "EP" else turned({n: w})[n] for n, w in weights.items()}
    text = "\n".join(report(model, file).lines())
    assert "are transposed, so these square ones are likely to be too" in text
    assert "W_F^1" in text.partition("are likely")[2]
    assert "likely" not in "\n".join(report(model, weights).lines())
    assert "--set" not in text  # another orientation is no other size


def test_sizes_of_a_transposed_file() -> None:
    """A file of other dimensions, the other way round."""
    small, large = read(WIDE), read(WIDE.replace("| $d$ | 8 |", "| $d$ | 10 |"))
    file = {n: w if n in "EP" else turned({n: w})[n] for n, w in weights_of(small).items()}
    found = report(large, file)
    assert found.sizes == {"d": 8}, found.lines()


def test_what_shapes_cannot_tell_is_said() -> None:
    card, tensors = gpt2()
    text = "\n".join(report(card, tensors).lines())
    line = text[text.index("Shapes cannot tell") :].splitlines()[0]
    assert "the order of heads" in line and "c_attn" in line and "recorded" in line
    assert "Shapes cannot tell whether" in "\n".join(
        report(read(CARD), weights_of(read(CARD))).lines()
    )


def test_a_missing_block_is_tied_to_nothing() -> None:
    card, tensors = gpt2()
    rest = {n: w for n, w in tensors.items() if ".h.1." not in n}
    found = report(card, rest)
    assert found.missing and not any(m.tied for m in found.missing), found.lines()


def test_a_config_that_the_tensors_contradict_is_refused() -> None:
    dim = next(d for d in vt.read("hooked-transformer").dims if d.name == "V")
    shapes = {"embed.W_E": (9, 8)}
    assert Config({"d_vocab": 9}, shapes).number(dim) == 9
    with pytest.raises(VieteError, match="d_vocab is 10, and the tensors say 9"):
        Config({"d_vocab": 10}, shapes).number(dim)
