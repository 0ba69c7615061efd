"""Claims with clauses, held to NumPy; pages of claims; texts that a claim names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.command_line import viete
from tests.laws.strategies import tiny
from viete.ask.claim_texts import TEXTS, texts_of
from viete.cards.claim_pages import read_page
from viete.cards.claims import read_claim
from viete.cards.writer import write
from viete.errors import Text, VieteError

CARD = vt.read("pythia").bind(V=9, d=24, N=2, H=3, n_max=16, d_f=8)
MODEL = CARD.with_weights(seed=3)
LENGTHS = (6, 4)
IDS = [[3, 1, 4, 1, 5, 8], [2, 7, 1, 0]]


def patterns() -> list[np.ndarray]:
    """A for every text: (block, head, j, k)."""
    return [np.asarray(MODEL.run(ids)["A^{i,h}"]) for ids in IDS]


BY_HAND = {  # a clause, and what is left of A by it, text by text
    "": lambda a: a.reshape(-1),
    "for k ≤ j": lambda a: np.concatenate([a[:, :, j, : j + 1].reshape(-1)
                                          for j in range(a.shape[2])]),
    "for h = 2, …, 3, j ≥ 1": lambda a: a[:, 1:, 1:].reshape(-1),
    "for i ∈ {2} for k < j - 1": lambda a: np.concatenate(
        [a[1, :, j, : max(j - 1, 0)].reshape(-1) for j in range(a.shape[2])]),
    "for j = k": lambda a: a.diagonal(axis1=2, axis2=3).reshape(-1),
    "for every h, t_j = t_k": None,
}  # fmt: skip


@settings(max_examples=12)
@given(st.sampled_from([c for c in BY_HAND if BY_HAND[c]]), st.floats(0, 1), st.booleans())
def test_a_clause_chooses_what_numpy_chooses(clause: str, bound: float, least: bool) -> None:
    numbers = np.concatenate([BY_HAND[clause](a) for a in patterns()])
    holds = (numbers >= bound).all() if least else (numbers <= bound).all()
    found = MODEL.check(f"A^{{i,h}}_{{j,k}} {'≥' if least else '≤'} {bound:.12f} {clause}",
                        texts=IDS)  # fmt: skip
    (verdict,) = found.verdicts
    assert verdict.ok == holds and verdict.texts == len(IDS)
    worst = numbers.min() if least else numbers.max()
    seen = verdict.failure or verdict.finding.closest
    assert seen is not None and np.isclose(seen.left, worst, rtol=1e-9, atol=1e-15)


def test_a_witness_stands_where_it_says() -> None:
    (verdict,) = MODEL.check("A^{i,h}_{j,k} < 0.4 for j > k", texts=IDS).verdicts
    found = verdict.failure
    assert found is not None
    i, h, j, k, text = (found.where[s] for s in ("i", "h", "j", "k", "text"))
    assert found.left == pytest.approx(patterns()[text - 1][i - 1, h - 1, j, k])
    assert f"i {i}, h {h}, j {j}, k {k}, text {text}" in "\n".join(verdict.lines())


def test_places_outside_of_a_condition_are_never_read() -> None:
    """``j - 3`` is not a position for j < 3, and is not asked about, said or not."""
    for claim in "A^{i,h}_{j,j-3} ≥ 0 for j ≥ 3", "A^{i,h}_{j,j-3} ≥ 0":
        assert MODEL.check(claim, texts=IDS).ok
    (verdict,) = MODEL.check("A^{i,h}_{j,j-3} > 1", texts=IDS).verdicts
    assert verdict.failure is not None and verdict.failure.where["j"] >= 3


@pytest.mark.parametrize("bound", [0.3, 0.5, 0.7, 0.9])
def test_one_head_is_enough_and_is_the_same_for_all_texts(bound: float) -> None:
    least = np.array([a[:, :, 1:, 0].min(axis=(0, 2)) for a in patterns()])  # by text and head
    claim = f"A^{{i,h}}_{{j,0}} ≥ {bound} for j ≥ 1 for some h"
    (verdict,) = MODEL.check(claim, texts=IDS).verdicts
    assert verdict.ok == bool((least.min(axis=0) >= bound).any())
    if verdict.ok:
        assert dict(verdict.finding.choice)["h"] == 1 + int(least.min(axis=0).argmax())


def test_a_position_may_differ_from_text_to_text() -> None:
    assert MODEL.check("t_j ≥ 5 for some j", texts=IDS).ok
    assert not MODEL.check("t_j ≥ 8 for some j", texts=IDS).ok


@pytest.mark.parametrize(("claim", "exact", "rounded"), [
    ("A_{1,0} = 1 / (1 + exp(1))", True, True),
    ("A_{1,0} < 0.26894142137", True, False),  # closer than float64 is trusted
    ("A_{1,0} = 0.26894142137", False, True),
    ("A_{1,0} ≈ 0.26894142137 within 1e-11", True, True),
    ("A_{j,k} = 0 for k > j", True, True),
    ("A_{j,0} = 1 for some j", True, True),
])  # fmt: skip
def test_exact_numbers_decide(claim: str, exact: bool, rounded: bool) -> None:
    lesson = vt.read("exact-lesson")
    for meaning, holds in (("exact", exact), ("float", rounded)):
        assert lesson.check(None, claim, tokens=[0, 1], meaning=meaning).ok == holds
    said = str(lesson.check(None, claim, tokens=[0, 1], meaning="exact"))
    assert "exactly:" in said and "measured" not in said and "tolerance" not in said
    assert ("decided over 1 text" in said) == exact
    with pytest.raises(VieteError, match="in 'float' or 'exact' numbers, not 'real'"):
        lesson.check(None, claim, meaning="real")


def test_what_says_nothing_is_no_truth() -> None:
    found = MODEL.check("A^{i,h}_{j,k} = 7 for j > 90", texts=IDS)
    assert not found.ok and "nothing satisfies its conditions" in "\n".join(found.lines())


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        ("sum(A^{i,h}) ≈ 1", True),
        ("sum(A^{i,h}) ≈ 1.009", True),
        ("sum(A^{i,h}) ≈ 1.02", False),
        ("sum(A^{i,h}) ≈ 1.02 within 0.03", True),
        ("sum(A^{i,h}) ≈ sum(A^{i,h}) within -1", False),
        (r"sum(A^{i,h}) \approx 1.02 \text{ within } 1e-3", False),
        ("not (sum(A^{i,h}) ≈ 1.02)", True),
        ("0 ≤ A^{i,h}_{j,k} ≤ 1", True),
        ("A^{i,h}_{j,k} ≤ 1 = 2 - 1 ≥ 3", False),
        (r"A^{i,h}_{j,k} = 0 \text{ for } k > j", True),
    ],
)
def test_near_and_chains(claim: str, holds: bool) -> None:
    assert MODEL.check(claim, texts=IDS).ok == holds


@pytest.mark.parametrize("clause", ["for some i", "for i = 1, …, 2", "for i = 3, …, 2"])
def test_a_clause_is_about_a_letter_of_the_claim(clause: str) -> None:
    with pytest.raises(VieteError, match="the claim has no letter i"):
        MODEL.check(f"x^1_j = x^1_j {clause}", texts=IDS)


CLAIMS = (
    "A^{i,h}_{j,j-3} >= 1/2 for h = 1, …, 2 for j >= 3 and j < 5 for texts of repeated(4)",
    "x^i_j ≈ x^{i-1}_j within 10 for some i", "x^N ≈ x^0 for 99 texts of a.txt",
    "A^{i,h}_{j,k} = 0 for k > j for h ∈ {1, 2} for some j, k",
)  # fmt: skip


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("style", ["plain", "latex", "unicode"])
def test_print_parse(claim: str, style: str) -> None:
    made = read_claim(Text(claim), CARD.scope)
    assert read_claim(Text(made.show(style)), CARD.scope) == made
    card = replace(CARD, claims=(made,))
    assert vt.read(write(card, "md")) == vt.read(write(card, "json")) == card


def test_a_number_is_shown_as_it_was_written() -> None:
    made = read_claim(Text("A^{1,1}_{1,0} ≈ 0.8 within 1/5"), CARD.scope)
    assert [made.show(s).split("{1,1} ")[1] for s in ("plain", "unicode")] == [
        "≈ 0.8 within 1/5"
    ] * 2
    assert replace(made, text=Text("")).show().endswith("4/5 within 1/5")


def test_texts_that_are_drawn() -> None:
    for name, length in ("random(5)", 5), ("repeated(5)", 10):
        texts = [x.text for x in texts_of(name, CARD, seed=1)]
        assert len(texts) == TEXTS and {len(t) for t in texts} == {length}
        assert all(t.min() >= 0 and t.max() < 9 for t in texts)
    assert all((t[:5] == t[5:]).all() and len(set(t[:5])) == 5 for t in texts)


def test_texts_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "\n".join(f"`{w}`" for w in "abcdefghi")
    card = vt.read(
        CARD.write().replace("## Dimensions", f"## Vocabulary\n\n{words}\n\n## Dimensions")
    )
    (tmp_path / "lines.txt").write_text("a b c\n\nb b\n")
    (tmp_path / "lines.jsonl").write_text('{"text": "a b c"}\n{"text": "b b"}\n')
    monkeypatch.chdir(tmp_path)
    for name in ("lines.txt", "lines.jsonl"):
        (verdict,) = card.check(None, f"t_j ≤ 2 for texts of {name}").verdicts
        assert verdict.ok and verdict.texts == 6  # of three draws of weights
        assert card.check(None, "t_0 = t_1", "t_0 ≤ t_1", texts=name).verdicts[1].ok
    (tmp_path / "page.md").write_text("All are below 3: $t_j ≤ 2$ for texts of `lines.txt`.")
    assert card.check(None, tmp_path / "page.md").verdicts[0].texts == 6
    (verdict,) = card.check(None, "t_j ≤ 2 for 1 text of lines.txt").verdicts
    assert verdict.texts == 3 and "for 1 texts of lines.txt" in verdict.written
    with pytest.raises(VieteError, match="has 2 texts, but the claim is about 3"):
        card.check(None, "t_j ≤ 2 for 3 texts of lines.txt")
    with pytest.raises(VieteError, match="the file of texts does not exist"):
        card.check(None, "t_j ≤ 2 for texts of nothing.txt")
    with pytest.raises(VieteError, match="is not a word of the vocabulary"):
        card.check(None, "t_j ≤ 2", texts=["a z"])


PAGE = r"""# What we found

The stream $x^i_j$ is a sum, and $i = 1, …, N$ counts blocks:

$$
x^N = x^0 + \sum_{i=1}^{N} Δx^i .
$$

With $D^i = x^i - x^{i-1}$ we have
$$\begin{aligned} D^i &= Δx^i \\ D^i &= \tilde{A}^i + \tilde{M}^i \tag{2} \end{aligned}$$
but ~~$D^i = \tilde{A}^i$~~.

| claim | |
| --- | --- |
| $A^{i,h}_{j,k} = 0$ for $k > j$ | no head looks ahead |
| $|x^i_j| ≥ 0$ for all $j$ for 5 texts of `random(3)` | code such as `$1 = 2$` is none |

<!-- $1 = 2$ -->
"""


def test_a_page() -> None:
    page = read_page(PAGE, "page.md", CARD)
    assert page.defined == ["D^i"] and page.prose == ["x^i_j", "i = 1, …, N"] and not page.unread
    assert [c.refuted for c in page.claims] == [False, False, False, True, False, False]
    assert [c.text.line for c in page.claims] == [6, 10, 10, 11, 15, 16]
    assert page.claims[-1].about == "5 texts of random(3)"


NOTES = r"""
- Residual $\rightarrow$ predictor; $V \gg d$; $x^i_j \xrightarrow{W_U} y$; the operator $B_i$
- $B_i(x) = x + \tilde{A}^i(x) + \tilde{M}^i(x + \tilde{A}^i(x))$, but here
- $B_i(x) = x + \tilde{A}^i(x) + \tilde{M}^i(x)$, and $\tilde{M}^i(y) = M^i(norm_M^i(y))$
- $y = x \leadsto z$
"""


def test_a_page_of_somebodys_notation_is_checked_as_far_as_it_goes(tmp_path: Path) -> None:
    page = read_page(NOTES, "notes.md", CARD)
    assert [e.message for e in page.unread] == [r"the notation has no LaTeX command \leadsto"]
    assert page.prose == [r"\rightarrow", r"V \gg d", r"x^i_j \xrightarrow{W_U} y", "B_i"]
    assert not page.defined and sum("is any stream" in x for x in page.readings) == 3
    path = tmp_path / "notes.md"
    path.write_text(NOTES)
    found = MODEL.check(path, texts=IDS)
    assert [v.ok for v in found.verdicts] == [False, True, True] and not found.ok


def test_the_command(tmp_path: Path) -> None:
    small = ("--set", "V=9", "--set", "d=16", "--set", "N=2", "--set", "H=2", "--set", "n_max=16")
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    out = viete("check", "pythia", path, *small).out
    assert "Defined for them: D^i." in out and "No claims: x^i_j" in out and "\n  false   " in out
    path.write_text(PAGE.replace("~~$D^i = \\tilde{A}^i$~~", "~~$D^i = D^i$~~"))
    out = viete("check", "pythia", path, *small, code=1).out
    assert "✗ proved" in out and "page.md:11" in out
    path.write_text(PAGE + "\n$x^i = foo$\n")
    out = viete("check", "pythia", path, *small).out
    assert "unknown symbol foo" in out and "page.md:20:8" in out and "proved" in out
    path.write_text(PAGE + "\n$x^i = foo$ and $x^1 = x^0$\n")
    assert "Not read" in viete("check", "pythia", path, *small, code=1).out
    path.write_text("$x^i = foo$\n")
    assert "unknown symbol foo" in viete("check", "pythia", path, *small, code=2).out
    assert "proved" in viete("check", "pythia", "x^i = x^{i-1} + Δx^i", *small).out
    assert "set is written" in viete("check", "pythia", "x^i = 0 for i ∈ 3", *small, code=2).err
    path.write_text("# Words alone, and $x^i_j$\n")
    assert "makes no claim" in viete("check", "pythia", path, *small, code=2).err
    said = viete("check", "pythia", tmp_path / "none.md", *small, code=2).err
    assert "cannot be read" in said


def test_the_heading_names_the_inputs_that_the_claims_need() -> None:
    """The targets of a loss are drawn for claims about the loss alone."""
    given = ("check", "two-layers", "--text", "planktonpl")
    assert "with these weights and this input, within" in viete(*given, "sum(A^{2,1}) = 1").out
    said = " ".join(viete(*given, "L ≥ 0").out.split())
    assert "with these weights, this input and random y (3 draws, seed 0), within" in said


def test_a_long_exact_check_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viete.cli.running.PATIENCE", 0)
    said = viete("check", "exact-lesson", "-t", "a b", "--meaning", "exact", "A_{1,0} < 1/2").err
    assert "exact numbers have taken 0 s so far" in said and "Ctrl-C stops" in said


def test_verdicts_as_json_name_all_rules() -> None:
    command = ("check", "two-layers", "sum(A^{1,1}) = 1", "L ≥ 100", "--json")
    proved, wrong = json.loads(viete(*command, code=1).out)["verdicts"]
    assert proved["proof"]["definitions"] == ["A^{i,h}"] and not wrong["ok"]
    assert "rows of a softmax sum to 1" in proved["proof"]["rules"]
    assert wrong["left"] < wrong["right"] == 100


OWN_NORMS = (r"\tilde{A}^i(x) = Attn^i(LN(x))", r"\tilde{M}^i(x) = M^i(LN(x))",
             r"Attn^i(LN(x^{i-1})) = \tilde{A}^i(x^{i-1})",
             r"M^2(LN(x^0)) = \tilde{M}^2(x^0)")  # fmt: skip


@pytest.mark.parametrize("name", ["pythia", "pre-norm-pythia", "llama"])
def test_a_letter_is_any_stream_of_any_card_and_a_function_s_norm_is_its_own(name: str) -> None:
    card = tiny(name)
    page = read_page("".join(f"- ${x}$\n" for x in OWN_NORMS), "page.md", card)
    assert not page.unread and len(page.claims) == 4
    assert sum("is any stream; it is tried with x¹" in x for x in page.readings) == 2
    assert sum("the norm before Attnⁱ" in x for x in page.readings) == 2
    assert card.check(None, *OWN_NORMS).ok


def test_a_function_of_a_vector_is_tried_with_one() -> None:
    page = read_page(r"- $\text{logit}_{5}(x) = ⟨U_5, x⟩$", "page.md", tiny("pre-norm-pythia"))
    assert not page.unread and page.readings == [
        r"x in \text{logit}_{5}(x) is any stream; it is tried with x₀¹"]  # fmt: skip


def test_several_norms_are_named_as_one_would_write_them() -> None:
    page = read_page("- $x^i = LN(x^{i-1})$\n- $x^i = LN(x^{i-2})$", "page.md", tiny("llama"))
    one, other = (e.message for e in page.unread)
    assert "write norm_A^i(x^{i-1})," in one and "write norm_A^{i-1}(x^{i-2})," in other
