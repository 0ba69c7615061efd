"""Names, sizes and sentences of a card as their author wrote them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import viete as vt
from tests.command_line import viete
from viete.cards.catalogue import shipped
from viete.document.tex import without_tex

WORDS = """# Words

## Dimensions

| symbol | value |
| --- | --- |
| vocab_size | 12 |
| n_embed | 4 |
| T | ≤ 8 |

## Inputs

- $idx ∈ {0, …, vocab_size - 1}^T$: tokens

## Parameters

| symbol | shape | type | meaning |
| --- | --- | --- | --- |
| token_embedding_table | vocab_size × n_embed | float32 | rows $\\underline{token}$ |
| ffwd_in | n_embed × 4 n_embed | float32 | in |
| ffwd_out | 4 n_embed × n_embed | float32 | out |

## Forward pass

1. $tok_emb = token_embedding_table[idx]$
2. $out = ReLU(tok_emb ffwd_in) ffwd_out$
"""


def back(text: str, folder: Path, form: str) -> vt.Card:
    """What a card is that is read from a file of this form."""
    path = folder / f"card.{'tex' if form == 'latex' else form}"
    path.write_text(text)
    return vt.read(path)


@pytest.mark.parametrize("form", ["md", "latex", "text", "json"])
def test_words_stay_words(form: str, tmp_path: Path) -> None:
    model = vt.read(WORDS)
    written = model.write(form)
    assert "token_embedding_table" in written.replace(r"\_", "_")
    assert "token_{" not in written and r"\mathrm{token}" not in written
    if form != "text":
        assert back(written, tmp_path, form) == model
    # A product of sizes is one axis of two.
    assert re.search(r"\(4 n_(\{\\mathrm\{)?embed(\}\})?\) (×|\\times) n_", written)


def test_a_letter_with_a_label_stays_mathematics() -> None:
    assert r"d_{\mathrm{model}}" in vt.read(WORDS.replace("n_embed", "d_model")).write()
    assert '"token_embedding_table"' in vt.read(WORDS).export("typst")


def test_the_dtype_column_is_what_a_run_computes_in(tmp_path: Path) -> None:
    (tmp_path / "words.md").write_text(WORDS)
    for text, options, kind in [
        (WORDS, [], "float32"), (WORDS, ["--dtype", "float64"], "float64"),
        (WORDS.replace("float32", ""), [], "float64"),
    ]:  # fmt: skip
        (tmp_path / "words.md").write_text(text)
        viete("run", tmp_path / "words.md", "--tokens", "1,2", "--seed", 0, "--save",
              tmp_path / "a.npz", *options)  # fmt: skip
        import numpy as np

        assert np.load(tmp_path / "a.npz")["out"].dtype == kind


def test_what_names_mean_is_kept(tmp_path: Path) -> None:
    glossary = "## Notation\n\n- `tok_emb`, `out`: hidden states\n- `LN`: no norm here\n\n## Dim"
    model = vt.read(WORDS.replace("## Dim", glossary, 1))
    assert model.notation == (("tok_emb, out", "hidden states"), ("LN", "no norm here"))
    for form in ("md", "latex", "json"):
        assert back(model.write(form), tmp_path, form) == model
    assert "tok_emb, out    hidden states" in model.write("text")


def test_a_config_gives_the_documents_names(tmp_path: Path) -> None:
    said = {"vocab_size": 65, "n_embed": 32, "num_heads": 2, "block_size": 16, "head_size": 32,
            "batch_size": 4}  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(said))
    model = vt.read("simple-transformer", tmp_path / "c.json")
    assert [model.sizes[k] for k in ("V", "d", "H", "T_max", "d_h")] == [65, 32, 2, 16, 32]


@pytest.mark.parametrize("name", sorted(shipped()))
def test_no_tex_on_a_terminal_or_in_a_docstring(name: str) -> None:
    model = vt.read(name)
    code = model.export("torch")
    said = [*re.findall(r'""".*?"""', code, re.S), *re.findall(r"# .*", code)]
    for text in (model.write("text"), *said):
        assert not re.search(r"\\[A-Za-z]|\$|/(sqrt|tilde|frac)", text)


@pytest.mark.parametrize(
    ("tex", "wanted"),
    [
        (r"a factor $1 / \sqrt{d_k}$ of $\tilde{A}^i$", "a factor 1 / √dₖ of Ãⁱ"),
        (r"$\tilde{M}^i(x + \tilde{A}^i(x))$", "M̃ⁱ(x + Ãⁱ(x))"),
        (r"a row is $\underline{token}$", "a row is t̲o̲k̲e̲n̲"),
        (r"$\frac{a}{b+1} {K^{i,h}}^\top$", "a/(b+1) K^{i,h}ᵀ"),
        (r"$\{0, \dots, V-1\}^n$, $\,x^{i-1}_{j}$", "{0, …, V-1}ⁿ, xⁱ⁻¹ⱼ"),
        (r"$n_{max}$ and $∑_h A^{i,h}$", "n_{max} and ∑_h A^{i,h}"),
        (r"$\partial L/\partial\gamma_1 \le 10^{-5}$", "∂ L/∂γ₁ ≤ 10⁻⁵"),
        (r"$\begin{cases} a & x < 1 \\ b & \text{else} \end{cases}$", "{a, x < 1; b, else}"),
        (r"$\sqrt[3]{x} \in \mathbb{R}$, $\frac12$", "³√x ∈ ℝ, 1/2"),
        ("it costs 5 dollars, `a_b` and d_model", "it costs 5 dollars, `a_b` and d_model"),
    ],
)  # fmt: skip
def test_formulas_in_sentences(tex: str, wanted: str) -> None:
    assert without_tex(tex) == wanted


@given(st.lists(st.sampled_from(
    [*"\\{}_^ abQ0,/+❴", r"\frac", r"\sqrt", r"\tilde", r"\alpha", r"\mathrm", r"\top"]
)))  # fmt: skip
def test_any_sentence_has_an_end(pieces: list[str]) -> None:
    assert not re.search(r"\\[a-z]|\$", without_tex(f"${''.join(pieces)}$"))


@pytest.mark.parametrize("command", [r"\hat ", r"\sqrt", "{", "_{", r"\left(", r"\frac", r"\text{"])
def test_a_formula_of_one_command_stays_short(command: str) -> None:
    assert len(without_tex(f"${command * 1000}x$")) < 8000
