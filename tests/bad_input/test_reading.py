"""What commands refuse before they compute or write: options against a card's own words."""

from __future__ import annotations

from pathlib import Path

import pytest

REFERENCE = """# Reference

## Model architecture

- **num_blocks**: 1
- **vocab_size**: 3

## Notation

- `x`: Input tokens, x ∈ {0,1,2}^L where L=4
- `L`: Length (= 4)
- `d_k`: Width (= d / 2 = 3)
- `d`: Model width (= 6)
- `d_f`: Feed-forward width (= 3)

## Parameters

| Parameter | Shape |
| --- | --- |
| E | 3 × d |

## Forward pass

1. $h = E[x]$
2. $y = softmax(h)$
"""
TINY = Path(__file__).with_name("tiny.md")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("num_blocks=2", "num_blocks is 2, but the equations have no loop over blocks"),
        ("vocab_size=20", "vocab_size is 20, but x has 3 token numbers"),
        ("d=8", "d_k is stated as 3, but its formula gives 4"),
        ("zz=8", "has no dimension zz"),
        ("d_f=7", "no shape and no equation uses d_f, so another value would change nothing"),
    ],
)
def test_a_dimension_that_the_card_contradicts(given, words, tmp_path, refused) -> None:
    (tmp_path / "card.md").write_text(REFERENCE, "utf-8")
    assert words in refused("show", "card.md", "--set", given)


def test_a_fact_that_the_equations_contradict(tmp_path, refused) -> None:
    said = REFERENCE.replace("## Model architecture", "").replace("num_blocks**: 1", "KEY**: 2")
    for key, words in (("num_blocks", "have no loop"), ("num_heads", "no equation has 2 heads")):
        (tmp_path / "card.md").write_text(said.replace("KEY", key), "utf-8")
        assert words in refused("show", "card.md")


def test_a_name_that_a_file_nearly_has(tmp_path, refused) -> None:
    (tmp_path / "kestrel.md").write_text(REFERENCE, "utf-8")
    for name in ("kestrl.md", "kestrel", "./kestrell.md"):
        assert "did you mean kestrel.md?" in refused("show", name)
    assert "did you mean pythia" in refused("show", "pythai")


def test_nothing_is_written_before_what_fails(tmp_path, refused) -> None:
    said = refused("run", TINY, "--seed", "0", "-t", "1,2", "--save", "v.npz", "--show", "nonsense")
    assert "nonsense" in said


@pytest.mark.parametrize("command", ["show", "doc"])
def test_a_suffix_of_no_format(command, refused) -> None:
    assert "this command writes no .docx files" in refused(command, TINY, "-o", "x.docx")
