"""Cards whose formulas are well formed and mean nothing: sizes, blocks and functions."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import viete as vt
from tests.command_line import viete
from viete.analysis.shapes import Shapes
from viete.evaluate.schedule import Program

TINY = Path(__file__).with_name("tiny.md").read_text("utf-8")
M = vt.read(TINY)


def tiny(*edits: tuple[str, str]) -> str:
    text = TINY
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("card", "value", "message"),
    [
        ("gpt2", "H=-1", "H is -1"),
        ("gpt2", "H=7", "d_k = d / H is 768/7 with d = 768, H = 7"),
        ("gpt2", "H=2.5", "H is 5/2"),
        ("gpt2", "d=0", "d is 0"),
        ("gpt2", "d=-4", "d is -4"),
        ("gpt2", "n=2000", ":n with n ≤ 2000 goes beyond what there is: n_max = 1024 places"),
        ("gpt2", "n=-3", "n is -3, but the greatest length n"),
        ("gpt2", "N=1.5", "N is 3/2"),
        ("gpt2", "V=1/2", "V is 1/2"),
        ("llama", "G=5", "index r is H/G = 32/5 with H = 32, G = 5"),
    ],
)
@pytest.mark.parametrize("option", [["--costs"], []])
def test_impossible_sizes_are_not_shown(
    card: str,
    value: str,
    message: str,
    option: list[str],
) -> None:
    _, out, err = viete("show", card, "--set", value, *option, code=2)
    assert not out and message in err and f"{card}.md:" in err


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("| $d$ | 6 |", "| $d$ | 0 |", "| $d$", "d is 0"),
        ("| $d$ | 6 |", "| $d$ | -4 |", "| $d$", "d is -4"),
        ("| $d$ | 6 |", "| $d$ | 7 |", "| $d_k$", "d_k = d / H is 7/2 with d = 7, H = 2"),
        ("$≤ n_{max}$", "$≤ 9/2$", "| $n$", "n is 9/2"),
        ("$1, …, H$", "$1, …, H / 4$", "| $h$", "index h is H/4 = 1/2 with H = 2"),
        ("| $E$ | $V \\times d$", "| $E$ | $V \\times d / 4$", "| $E$", "d/4 = 3/2 with d = 6"),
    ],
)
def test_impossible_sizes_are_not_read(old: str, new: str, place: str, message: str) -> None:
    with pytest.raises(vt.VieteError) as error:
        vt.read(tiny((old, new)))
    assert message in error.value.message
    assert error.value.where is not None and error.value.where.text.startswith(place)


def test_constants_are_free() -> None:
    rows = "| $ρ$ | 1/4 | |\n| $σ$ | -2 | |\n| $ε$ | 1e-5 |"
    assert vt.read(tiny(("| $ε$ | 1e-5 |", rows))).sizes["rho"] == Fraction(1, 4)


@given(d=st.integers(-3, 12), heads=st.integers(-2, 5), blocks=st.integers(-2, 3))
def test_what_is_accepted_has_whole_sizes(d: int, heads: int, blocks: int) -> None:
    fine = d > 0 and heads > 0 and d % heads == 0 and blocks >= 0
    bound = M.bind(d=d, H=heads, N=blocks)
    for meaning in (Shapes, Program):
        if fine:
            meaning(bound)
        else:
            with pytest.raises(vt.VieteError):
                meaning(bound)


# -- blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("$s = x^N W_U$", "$s = x^{3} W_U$", "x^3"),
        ("$s = x^N W_U$", "$s = x^{1.5} W_U$", "3/2, which is not a whole number"),
        ("$s = x^N W_U$", "$s = a^{0} W_U$", "a^0"),
        ("$u^i = LN(x^{i-1}; γ^i", "$u^i = LN(x^{i-1}; γ^{i+1}", "γ^i is there for i = 1, …, N"),
        ("$u^i = LN(x^{i-1}; γ^i", "$u^i = LN(x^{i-1}; γ^{0}", "γ^i is there for i = 1, …, N"),
        ("$u^i = LN(x^{i-1}; γ^i", "$u^i = LN(x^{i-1}; γ^{i/2}", "i / 2 need not be one"),
        ("$u^i = LN(x^{i-1}; γ^i", "$u^i = LN(x^{i-1}; γ^{2 i}", "γ^i is there for i = 1, …, 2"),
        ("$u^i = LN(x^{i-1}; γ^i", "$u^i = LN(x^{2 i}; γ^i", "x^i is there for i = 0"),
        ("$s = x^N W_U$", "$s = x^{2 N} W_U$", "x^"),
    ],
)
def test_blocks_that_nothing_makes(old: str, new: str, message: str) -> None:
    with pytest.raises(vt.VieteError) as error:
        Program(vt.read(tiny((old, new))))
    said = error.value.message.replace("gamma", "γ")
    assert message in said and error.value.where is not None
    assert new in error.value.where.text


def test_the_blocks_are_counted_after_binding() -> None:
    model = vt.read(tiny(("$s = x^N W_U$", "$s = x^{2} W_U$")))
    Program(model)
    with pytest.raises(vt.VieteError, match=r"x\^2"):
        Shapes(model.bind(N=1))
    with pytest.raises(vt.VieteError, match=r"no x\^2; x\^i is there for i = 0, …, 1"):
        Program(model.bind(N=1))


# -- functions -------------------------------------------------------------------------------------


def doubling(count: int) -> str:
    own = "- $twice(x: n × d; a = 2) = a x$: a function of the card's own"
    lines = ["- $f_0(x) = x + x$: twice"]
    lines += [f"- $f_{{{k}}}(x) = f_{{{k - 1}}}(x) + f_{{{k - 1}}}(x)$" for k in range(1, count)]
    return tiny((own, "\n".join([own, *lines])))


def test_functions_that_double() -> None:
    vt.read(doubling(7))
    start = time.process_time()
    with pytest.raises(vt.VieteError, match="written out, f_7 has 1,019 operations") as error:
        vt.read(doubling(26))
    assert time.process_time() - start < 5
    assert error.value.where is not None and "f_{7}(x) =" in error.value.where.text


def test_an_equation_too_long_written_out() -> None:
    long = " + ".join(["f_6(x^N W_U)"] * 9)
    text = doubling(7).replace("$s = x^N W_U$", f"$s = {long}$")
    with pytest.raises(vt.VieteError, match="written out, s has") as error:
        vt.read(text)
    assert error.value.where is not None and "s = f_6" in error.value.where.text
