"""The reference of questions: everything in its tables can be asked."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("tokenizers")

import viete as vt
from tests.ask.vocabularies import vocabulary
from viete.nouns.run import Questions
from viete.text.tokenizer import Tokenizer

PAGE = Path(__file__).parents[2] / "docs/reference/questions.md"
TEXT = "I live in Dublin I live in"  # "in Dublin" is two tokens


def asked() -> list[str]:
    """The questions in the first column of its tables."""
    rows = re.findall(r"^\| (`.*?) \| ", PAGE.read_text("utf-8").replace(r"\|", "∥"), re.M)
    found = (x.replace("∥", "|") for row in rows for x in re.findall("`([^`]+)`", row))
    return [x for x in dict.fromkeys(found) if not x.startswith("…")]


@cache
def run_on(text: str) -> Questions:
    """A small GPT-2 with words for tokens, on a text."""
    tokenizer = Tokenizer(vocabulary("bytes"))
    card = vt.read("gpt2").bind(V=len(tokenizer), d=16, N=6, H=2, d_f=12, n_max=16)
    model = card.with_weights(seed=0)
    model.__dict__["tokenizer"] = tokenizer
    return model.run(text, names=[])


@pytest.mark.filterwarnings("ignore::viete.errors.VieteWarning")
@pytest.mark.parametrize("question", asked())
def test_it_is_answered(question: str) -> None:
    argument = "x^2_3" if "logit}" in question else "x^2"  # of a function of any stream y
    run_on(TEXT).ask(
        question.replace("(y)", f"({argument})"),
        against=run_on(f"{TEXT[:-2]}I") if "x'^" in question else None,
        of="logits_{-1,5}" if question.startswith("∂x") else None,
    )
