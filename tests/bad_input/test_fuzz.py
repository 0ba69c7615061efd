"""Whatever is fed in, only VieteError comes out, and soon.

Random text, soup of the notation's own tokens, and the shipped cards with lines, cells, brackets
and symbols deleted, doubled, swapped and replaced.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import viete as vt
from viete.cards.catalogue import shipped
from viete.notation.parser import parse

TINY = Path(__file__).with_name("tiny.md").read_text("utf-8")
SECONDS = 1.0  # of processor time, for any one input
FORMS = ("md", "latex", "json", "text")


def fuzzing(examples: int) -> settings:
    unhurried = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=examples, deadline=None, suppress_health_check=unhurried)


SOUP = (
    "$ | \\ { } ( ) [ ] _ ^ , ; : = < > <= != \\sum \\frac{1}{ ⊤ T \\{ \\} ∈ ⊙ · / * + - 0 1 2 -1 "
    "1.5 1e400 1e-5 99999999999999999999 h i n d t x x^i x^N x^0 W W_Q^{i,h} E[t] γ^i s m "
    "table_{j<n}( table_{j<n,k<m}( sum_h concat_h( mean_j= max_{j=1}^{3}( causal( softmax( LN( "
    "where( exp twice( not and or mod ⌈ ⌉ ⟨ ⟩ <x,x> … tilde{ \\tilde{ Δ Δx \\begin{cases} "
    "\\end{cases} \\\\ & ' ² ₁ ᵀ ℝ ≤ 1/0 e^ pi inf inner( rows( sum( argmax( [: :] \\text{ "
    "\\mathrm{ \\sqrt{ ~ QK ã xx i-1 {i+1} n_{max} "
).split()
LINES = ["", "## Forward pass", "## Parameters", "### part", "- ", "| a | b |", "| --- | --- |",
         "1. $x = x$", "For $i = 1, …, N$:", "   - Shape: (n, d)", "```", "**a**: 1"]  # fmt: skip
soup = st.lists(st.sampled_from(SOUP), max_size=12).map(" ".join)
tight = st.lists(st.sampled_from(SOUP), max_size=8).map("".join)


@cache
def texts() -> list[str]:
    """The shipped cards and the small one, which counts as many; as Markdown, LaTeX and JSON."""
    cards = [path.read_text("utf-8") for path in shipped().values()] + [TINY] * 10
    models = [*map(vt.read, [*shipped().values()][-6:]), *[vt.read(TINY)] * 10]
    return cards + [m.write(form) for m in models for form in ("latex", "json")]


@cache
def run() -> Any:
    model = vt.read(TINY)
    return model.run([1, 2, 3], model.initial_weights(0))


def guarded(call: Callable[..., Any], *given: Any) -> Any:
    """The call's result, or None where it refused; anything else, or slowness, fails the test."""
    gc.disable()  # what other tests have left is not this call's to look through
    started = time.process_time()
    try:
        return call(*given)
    except vt.VieteError as error:
        assert str(error) and error.message
        return None
    finally:
        taken = time.process_time() - started
        gc.enable()
        assert taken < SECONDS


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A card with a few mistakes."""
    text = draw(st.sampled_from(texts()))
    for _ in range(draw(st.integers(1, 5))):
        bit = draw(st.sampled_from(SOUP))
        if draw(st.booleans()):
            at = draw(st.integers(0, len(text)))
            end = min(len(text), at + draw(st.sampled_from([0, 1, 1, 2, 5, 20])))
            middle = draw(st.sampled_from(["", bit, text[at:end] * 2, text[at:end][::-1]]))
            text = text[:at] + middle + text[end:]
            continue
        lines = text.split("\n")
        a, b = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match draw(st.sampled_from(["delete", "double", "swap", "cells", "put"])):
            case "delete":
                del lines[a]
            case "double":
                lines.insert(b, lines[a])
            case "swap":
                lines[a], lines[b] = lines[b], lines[a]
            case "cells":
                lines[a] = "|".join(draw(st.permutations(lines[a].split("|")[:8])))
            case "put":
                lines.insert(a, draw(st.sampled_from(LINES)))
        text = "\n".join(lines)
    return text


def use(model: vt.Card) -> None:
    """What people do with a card: write it, count it and, if it is small, run it."""
    for form in FORMS:
        assert guarded(model.write, form) is not None
    shapes = guarded(lambda: model.parameter_shapes)
    if shapes is None or sum(map(math.prod, shapes.values())) > 20_000:
        return
    weights = guarded(model.initial_weights)
    values = None if weights is None else guarded(model.run, [0, 1], weights)
    for name in values or ():
        guarded(values.__getitem__, name)


@fuzzing(150)
@given(st.one_of(st.text(max_size=300), st.lists(soup, max_size=30).map("\n".join),
                 st.sampled_from(("{", "\\documentclass", "%")).flatmap(
                     lambda s: st.text(max_size=200).map(lambda t: s + t))))  # fmt: skip
def test_text(text: str) -> None:
    assert guarded(vt.read, text) is None


@fuzzing(200)
@given(mutated())
def test_cards(text: str) -> None:
    if (model := guarded(vt.read, text)) is not None:
        use(model)


@fuzzing(350)
@given(st.one_of(soup, tight, st.text(max_size=40)))
def test_formulas(text: str) -> None:
    scope = run().program.model.scope
    guarded(parse, text, scope)
    guarded(run().__getitem__, text)
    guarded(vt.read, TINY.replace("x^N W_U", text))


@pytest.mark.slow
@pytest.mark.parametrize("bit", ["(", "{", "[", "\\frac{", "x^", "x_", "^{", "-", "not ", "sqrt ",
                                 "\\sum_h ", "<1,", "⟨", "1 + ", "2 ", "E[0]", "[0]", "x'", "⌈",
                                 "\\begin{cases}1 & 1 \\\\", "tilde{", "table_{j<2}(", "dd",
                                 "twice("])  # fmt: skip
@pytest.mark.parametrize("times", [50, 100, 500, 2000])
def test_repetition(bit: str, times: int) -> None:
    """Neither Python's stack nor its patience decides how deep a formula may be."""
    for end in ("", "1", "x^1"):
        guarded(parse, bit * times + end, run().program.model.scope)
        guarded(run().__getitem__, bit * times + end)


@pytest.mark.parametrize("text", [
    "# " + " " * 9900 + "x", "- " + " " * 9900 + "x", "|a|\n" + " " * 9900 + "x",
    "|a|\n|" + "-|" * 4900 + "x", "|a|\n" + ":" * 9900,
    "## Forward pass\nFor " + " " * 4500 + "= …",
    "## Forward pass\nFor $i" + "**:" * 3000 + "= …x", "## Notation\n- " + "`a`," * 2400,
    "## Notation\n- `a`: " + "(= " * 1600, "## Notation\n- `a`: " + "a" * 9000 + " ∈ b",
    "## Inputs\n- $t" + " " * 9000 + "$", "## Configuration\n- **" + "**:" * 3000,
    "## Forward pass\n- $x = 1$\n  - Shape:" + " " * 9000 + "for each", "`" * 9900, "$" * 9901,
    "\\documentclass{a}\n" + "\\texttt{" * 1200, "\\begin{longtable}\n" + "&" * 9900,
    "\\documentclass{a}\n\\section{" + "}" * 9900 + "x",
    "\\documentclass{a}\n\\textbf{" + "\\a" * 4900,
    "{" * 100_000, '{"a":' * 100_000, "\n" * 300_000, "x\n" * 400_000, "- x\n" * 40_000,
    "|" * 9900 + "\n|-|", "a " * 400_000,
], ids=lambda t: t[:30])  # fmt: skip
def test_long_lines(text: str) -> None:
    """No pattern of the readers takes more than a moment over any line."""
    guarded(vt.read, text)
