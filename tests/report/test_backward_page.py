"""The backward pass as a page: it says what published derivations say, in their order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import pytest

import viete as vt
from tests.command_line import viete
from viete.cards.catalogue import shipped
from viete.document.formulas import math
from viete.report.backward import write_backward

LOSS = "cross_entropy(logits; x)"
# Line by line as one writes it by hand, from the loss down to the embedding.
SYMBOLIC = [
    "## Equations",
    "### Backward: Unembedding",
    r"\frac{\partial L}{\partial \mathrm{logits}} = \frac{\operatorname{softmax}(\mathrm{logits})",
    r"\frac{\partial L}{\partial W^{\mathrm{out}}} = h_2^\top \frac{\partial L}{\partial",
    "### Backward: MLP",
    "### Backward: Residual and norm",
    r"\frac{\partial L}{\partial \hat{h}_1} - \operatorname{mean}(\frac{\partial L}{\partial",
    "### Backward: Attention",
    r"\frac{\partial L}{\partial S} = A \odot (\frac{\partial L}{\partial A} - \operatorname{sum}("
    r"\frac{\partial L}{\partial A} \odot A))$: from 6 by the rule of softmax",
    r"\frac{\partial L}{\partial W^Q} = h_0^\top \frac{\partial L}{\partial q}$: from 2",
    "### Backward: Embedding",
    ": from 2, 3, 4 and 8",
    "## Functions of the backward pass",
]


def test_the_symbolic_card_s_page() -> None:
    page = write_backward(vt.read("symbolic-transformer"), "md", LOSS)
    place = 0
    for line in SYMBOLIC:
        place = page.find(line, place)
        assert place >= 0, line


def test_numbers_go_on_from_the_card_s() -> None:
    page = write_backward(vt.read("simple-transformer"), "md")
    numbers = [int(x.split(".")[0]) for x in page.splitlines() if x[:1].isdigit()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert r"14. $\frac{\partial L}{\partial \mathrm{logits}} = " in page


def test_blocks_are_taken_downwards() -> None:
    page = write_backward(vt.read("gpt2"), "text", "cross_entropy(logits; t)")
    page = normalize("NFC", page)
    assert page.index("For i = 1, …, N:") < page.index("For i = N, …, 1:")
    assert "∂L/∂xⁱ⁻¹ = ∂L/∂yⁱ + (∂L/∂ûⁱ − mean(∂L/∂ûⁱ) − ûⁱ ⊙ mean(∂L/∂ûⁱ ⊙ ûⁱ)) / " in page
    assert "∑_h (∂L/∂V^{i,h} W_V^{i,h}ᵀ + ∂L/∂K^{i,h} W_K^{i,h}ᵀ + ∂L/∂Q^{i,h} W_Q^{i,h}ᵀ)" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(shipped()))
def test_every_card_has_a_page(name: str) -> None:
    model = vt.read(name)
    losses = dict.fromkeys(("bert", "roberta"), "<pooled, pooled>")
    losses |= dict.fromkeys(("transformer-2017", "t5"), "cross_entropy(logits; t)")
    of = losses.get(name, f"cross_entropy(logits; {model.inputs[0].name})")
    anew = replace(model)  # an object of its own, which shares no derivation with another
    for form in ("text", "md", "latex"):
        page = write_backward(model, form, of)
        assert page == write_backward(anew, form, of)
        assert "partial{" not in page.replace("\\", "")


def test_the_command_writes_by_suffix(tmp_path: Path) -> None:
    from viete.cli.inputs import split_names

    viete("grad", "simple-transformer", "--by", "W_1,b_1", "-o", tmp_path / "page.tex")
    assert (tmp_path / "page.tex").read_text().startswith("\\documentclass")
    assert split_names("W_Q^{i,h}, b", "--by") == ["W_Q^{i,h}", "b"]
    with pytest.raises(vt.VieteError, match="text, md, latex or html"):
        write_backward(vt.read("simple-transformer"), "pdf")


def test_a_function_s_name_is_upright() -> None:
    """Also one with a low line, of which the converter of formulas makes a product of letters."""
    page = math(r"L = \operatorname{cross\_entropy}(y)")
    assert 'mathvariant="normal">c</mi>' in page and "<mi>c</mi>" not in page
