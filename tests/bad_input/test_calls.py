"""Wrong calls, in Python and on the command line: one sentence, and no numbers and no traceback."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete

PATH = Path(__file__).with_name("tiny.md")
TINY = PATH.read_text("utf-8")
M = vt.read(TINY)
W = M.initial_weights(0)
T = [1, 2, 3]
E = W["E"]
SOURCE = vt.read("t5").bind(V=9, d=4, d_f=4, d_k=2, H=2, N_e=1)
ROUNDED = np.asarray(E, "float32")


def edited(old: str, new: str) -> vt.Card:
    assert TINY.count(old) == 1
    return vt.read(TINY.replace(old, new))


def whole(model: vt.Card) -> Any:
    return model.run(T, model.initial_weights(0))


def weights(**changed: Any) -> dict[str, Any]:
    return {**W, **changed}


# fmt: off
SIZES: list[tuple[str, Callable[[], Any], str]] = [
    ("no such dimension", lambda: M.bind(q=3), "Tiny has no dimension q; it has V, d, N"),
    ("a word", lambda: M.bind(d="six"), "d must be a number"),
    ("nothing", lambda: M.bind(d=None), "d must be a number"),
    ("a truth value", lambda: M.bind(d=True), "d must be a number"),
    ("not a number", lambda: M.bind(d=float("nan")), "d must be a number"),
    ("infinity", lambda: M.bind(d=float("inf")), "d must be a number"),
    ("1e999999999, quickly", lambda: M.bind(d="1e999999999"), "d must be a number"),
    ("5000 digits", lambda: M.bind(d=10**5000), "d must be a number"),
    ("a list", lambda: M.bind(d=[1]), "d must be a number"),
    ("1/0", lambda: M.bind(d="1/0"), "d must be a number"),
    ("heads that do not divide", lambda: whole(M.bind(H=7)), "= 6/7, which is not a whole number"),
    ("no heads", lambda: whole(M.bind(H=0)), "d_k divides by zero"),
    ("fewer than no heads", lambda: whole(M.bind(H=-2)), "index h runs from 1 down to -2"),
    ("negative width", lambda: whole(M.bind(d=-6)), "size d = -6, which is not a whole number"),
    ("broken width", lambda: whole(M.bind(d=6.5)), "size d = 13/2, which is not a whole number"),
    ("10^6 wide", lambda: whole(M.bind(d=10**6)), "this machine has"),
    ("10^15 wide, without trying", lambda: whole(M.bind(d=10**15)), "this machine has"),
    ("10^200 wide", lambda: whole(M.bind(d=10**200)), "this machine has"),
    ("10^9 blocks, without trying", lambda: whole(M.bind(N=10**9)), "1,000,000,000 blocks"),
    ("half a block", lambda: whole(M.bind(N="1/2")), "N = 1/2, which is not a whole number"),
    ("fewer than no blocks", lambda: whole(M.bind(N=-5)), "index i runs from 1 down to -5"),
    ("no vocabulary", lambda: whole(M.bind(V=0)), "V is 0, but a size of E must be"),
    ("too short a context", lambda: whole(M.bind(n_max=2)), "t is 3 long, and n is at most 2"),
    ("no input of a length", lambda: SOURCE.run([1, 2], SOURCE.initial_weights(1)),
     "the length n is that of the input t, which was not given"),
    ("no value", lambda: whole(edited("| $H$ | 2 |", "| $H$ | |")), "H of Tiny has no value"),
    ("blocks to a fraction", lambda: whole(edited("$i = 1, …, N$", "$i = 1, …, N/4$")), "= 1/2"),
    ("heads backwards", lambda: whole(edited("$1, …, H$", "$H, …, 1$")), "the index h is"),
    ("heads far backwards", lambda: whole(edited("$1, …, H$", "$9, …, 1$")), "index h is -7"),
    ("a number that no float holds",
     lambda: whole(edited("s = x^N", "s = 10^{400} 10^{400} x^N")), "larger than any float64"),
    ("init of no kind",
     lambda: whole(edited("| normal(1) |", "| gauss(1) |")), "init must be normal(s)"),
    ("init below nothing", lambda: whole(edited("normal(1)", "normal(-1)")), "a number from 0"),
    ("init over zero", lambda: whole(edited("normal(1)", "normal(1 / (H - 2))")), "finite number"),
    ("init without its number", lambda: whole(edited("normal(1)", "normal")), "init must be"),
    ("seed below nothing", lambda: M.initial_weights(-1), "the seed must be a whole number"),
    ("seed of letters", lambda: M.initial_weights("a"), "the seed must be a whole number"),
    ("whole-number weights", lambda: M.initial_weights(0, "int64"), "not int64"),
    ("weights of no type", lambda: M.initial_weights(0, "foo"), "not foo"),
    ("a form there is not", lambda: M.write("doc"), "text, md, latex, json or html, not 'doc'"),
    ("a number for a card", lambda: vt.read(3), "a card must be a path or the name"),
    ("nothing for a card", lambda: vt.read(None), "a card must be a path or the name"),
    ("bytes for a card", lambda: vt.read(b"# Tiny"), "a card must be a path or the name"),
]
INPUTS: list[tuple[str, Callable[[], Any], str]] = [
    ("too large", lambda: M.run([1, 10], W), "t holds 10, which is not among 0 … 9"),
    ("negative", lambda: M.run([1, -1], W), "t holds -1, which is not among 0 … 9"),
    ("none", lambda: M.run([], W), "t is empty"),
    ("two of none", lambda: M.run([[], []], W), "t is empty"),
    ("a batch of none", lambda: M.run(np.zeros((0, 3), int), W), "not an empty one: t has 0"),
    ("a text", lambda: M.run("abc", W), "t must be numbers"),
    ("texts", lambda: M.run(["a"], W), "t must be numbers"),
    ("not given", lambda: M.run(None, W), "Tiny needs its input t"),
    ("decimals", lambda: M.run([1.0], W), "t takes whole numbers, not float64"),
    ("complex", lambda: M.run([1j], W), "t must be numbers, not complex128"),
    ("objects", lambda: M.run([object()], W), "t must be numbers, not object"),
    ("30 digits", lambda: M.run([10**30], W), "t must be numbers"),
    ("one number", lambda: M.run(3, W), "t has 0 axes; it takes 1"),
    ("ragged", lambda: M.run([[1], [[1, 2]]], W), "rectangular list"),
    ("three axes", lambda: M.run([[[1]]], W), "t has 3 axes; it takes 1, or 2 with a batch"),
    ("too long", lambda: M.run([1] * 9, W), "t is 9 long, and n is at most 8"),
    ("a set", lambda: M.run({1, 2}, W), "t must be numbers"),
    ("another of another length", lambda: M.run(T, W, m=[1]), "m is 1 long where n = 3"),
    ("another out of range",
     lambda: M.run(T, W, m=[1, 2, 1]), "m holds 2, which is not among 0 … 1"),
    ("two batches", lambda: M.run([T, T], W, m=[[1, 1, 1]] * 3), "one batch"),
    ("unknown", lambda: M.run(T, W, q=[1]), "Tiny has no input q; it has m, t"),
    ("twice", lambda: M.run(T, W, t=[1]), "the input t is given twice"),
]
WEIGHTS: list[tuple[str, Callable[[], Any], str]] = [
    ("none", lambda: M.run(T), "12 are missing (E, gamma^1,"),
    ("a list", lambda: M.run(T, [1]), "a mapping from names to arrays, not list"),
    ("a text", lambda: M.run(T, "w"), "a mapping from names to arrays, not str"),
    ("NaN", lambda: M.run(T, weights(E=E * np.nan)), "E holds a value that is not a finite number"),
    ("infinity", lambda: M.run(T, weights(E=E + np.inf)), "E holds a value that is not a finite"),
    ("transposed",
     lambda: M.run(T, weights(E=E.T)), "E has shape (6, 10), but the card says (10, 6)"),
    ("lists", lambda: M.run(T, weights(E=E.tolist())), "E must be an array, not list"),
    ("a number", lambda: M.run(T, weights(E=1.0)), "E must be an array, not float"),
    ("one missing", lambda: M.run(T, {k: W[k] for k in W if k != "E"}), "1 is missing (E)"),
    ("one too many", lambda: M.run(T, weights(Z=E)), "1 is not in the card (Z)"),
    ("a name that is not text", lambda: M.run(T, {**W, 3: E}), "1 is not in the card (3)"),
    ("whole numbers", lambda: M.run(T, weights(E=E.astype(int))), "not int64"),
    ("complex", lambda: M.run(T, weights(E=E.astype(complex))), "not complex128"),
    ("objects", lambda: M.run(T, weights(E=E.astype(object))), "not object"),
    ("texts", lambda: M.run(T, weights(E=E.astype(str))), "must be floating-point numbers"),
    ("bytes",
     lambda: M.run(T, weights(E=np.zeros((10, 6), "V2"))), "must be floating-point numbers"),
    ("two types", lambda: M.run(T, weights(E=ROUNDED)), "numpy float32 and numpy float64"),
]
ASKED: list[tuple[str, str]] = [
    ("zz", "unknown symbol zz"), ("", "an expression is missing"),
    ("x^7", "there is no x^i at block 7"),
    ("x^{i+9}", "x^{i+9} does not have a value in any block"),
    ("x^{1.5}", "not a whole number"),
    ("A^{1,3}", "index 3 is outside 1 to 2"), ("A^{1,0}", "index 0 is outside 1 to 2"),
    ("A^{1,1/2}", "1/2 is not a whole number"), ("x^1_5", "index 5 is outside 0 to 2"),
    ("x^1_{-4}", "-4 is not an index: from the end, places are -1 to -3"),
    ("x^1_{-9}", "-9 is not an index: from the end, the rows of x^1 are -1 to -n, with n ≤ 8"),
    ("x^1[:, -7]", "-7 is not an index: from the end, the columns of x^1 are -1 to -"),
    ("x^1_{0 - 1}", "index -1 is outside"),
    ("x^{-1}", "there is no x^i at block -1"), ("A^{1,-1}", "index -1 is outside 1 to 2"),
    ("x^1[2:1]", "2:1 ends before it starts"),
    ("x^1[:9]", ":9 with n ≤ 8 goes beyond"), ("x^1 x^2", "inner sizes d and n differ"),
    ("x^1 + W_U", "(n, d) and (d, V) do not match"), ("twice", "twice is a function"),
    ("twice(γ^1)", "twice takes x: n × d, not (d)"), ("where(t, 1, 2)", "t is not a condition"),
    ("E[x^1]", "x^1 is a matrix here, and cannot be an index"),
    ("E[100]", "the rows of E are 0 to 9 (V = 10)"),
    ("E[t / 2]", "whole number"), ("E[t:]", "t is not made of dimensions"),
    ("γ^1^T", "only a matrix has a transpose"), ("sum(1)", "sum of one number"),
    ("concat(1, 2)", "can be concatenated"), ("rows(1)", "1 has no rows"),
    ("<x^1, x^1>", "two vectors of one length"), ("W_OV^{i+9,h}", "in any block"),
    ("table_{j<d, k<d}(x^1)", "a table's entry must be one number"),
    ("table_{j<t}(1)", "t is not made of dimensions"), ("table_{j<-3}(1)", "of j is -3"),
    ("table_{j<1/2}(1)", "j is 1/2, but"), ("table_{j<10^9}(j)", "1,000,000,000 values"),
    ("sum_{j=1}^{10^9}(j)", "1,000,000,000 values"), ("max_{j=2}^{1}(j)", "an empty range"),
    ("sum_{i=1}^{9}(x^i)", "there is no x^i at block 3"),
    ("sum_{i=1}^{10^9}(x^i)", "1,000,000,000 blocks"), ("x^{1 mod (1 - 1)}", "divides by zero"),
    ("10^{400} 10^{400} x^1", "larger than any float64"), ("x^1 /", "ends too early"),
    ("(" * 500 + "x^1" + ")" * 500, "nested too deep"),
    ("1 + " * 500 + "1", "nested more than 120"),
    ("x^1 + " * 9000 + "1", "at most 10,000 characters"),
]
# What follows the card's name on the command line.
COMMANDS: list[tuple[str, str]] = [
    ("show --set", "requires an argument"), ("show --set d", "--set takes NAME=NUMBER"),
    ("show --set d=", "--set takes NAME=NUMBER"), ("show --set d=six", "d must be a number"),
    ("show --set q=7", "Tiny has no dimension q"), ("show --set =7", "--set takes NAME=NUMBER"),
    ("show --format doc", "Invalid value for '--format'"),
    ("show -f svg --costs", "of --costs must be"),
    ("show -f foo", "viete: Invalid value for '--format' / '-f': 'foo' is not one of 'text', "),
    ("run --meaning foo", "viete: Invalid value for '--meaning': 'foo' is not one of 'float', "),
    ("export --to foo", "viete: Invalid value for '--to': 'foo' is not one of 'torch', "),
    ("grad --dtype foo", "viete: Invalid value for '--dtype': 'foo' is not one of 'float64', "),
    ("run --seed x", "viete: Invalid value for '--seed': 'x' "),
    ("ask x --top 0", "viete: Invalid value for '--top': "),
    ("show --colour", "viete show has no option --colour"),
    ("run", "give the input either as --tokens"),
    ("run -t 1,2", "the card needs weights: give --weights FILE, or --seed N"),
    ("run -t 1,99 --seed 0", "t holds 99"), ("run -t a,b --seed 0", "--tokens: 'a' is not a token"),
    ("run -t 1.5 --seed 0", "'1.5' is not a token"), ("run -t , --seed 0", "nothing between"),
    ("run -t 1,2/3 --seed 0", "equally long"), ("run -t 1/ --seed 0", "has an empty sequence"),
    ("run -t 1,2,3,4,5,6,7,8,9 --seed 0", "t is 9 long"),
    ("run -t 1 --seed -1", "the seed must be a whole number"),
    ("run -t 1 --seed 0 --show zz", "unknown symbol zz"),
    ("run -t 1 --seed 0 --show s,,y", "--show takes names with commas"),
    ("run -t 1 --seed 0 --show x^9", "there is no x^i at block 9"),
    ("run -t 1 --seed 0 --show x^{i+9}", "x^{i+9} does not have a value in any block"),
    ("run -t 1 --seed 0 --input m", "--input takes NAME=NUMBERS"),
    ("run -t 1 --seed 0 --input q=1", "Tiny has no input q"),
    ("run -t 1 --seed 0 --input m=5", "m holds 5"),
    ("run -t 1 --seed 0 --input m=a", "'a' is not a token"),
    ("run -t 1 --seed 0 --dtype int8", "--dtype is one of"),
    ("run -t 1 --seed 0 --save OUT/a.txt", "--save writes .safetensors or .npz, not .txt"),
    ("run -t 1 --seed 0 --save OUT/a", "--save writes .safetensors or .npz"),
    ("run -t 1 --seed 0 --save OUT/none/a.npz", "cannot be written (No such file or directory)"),
    ("run -t 1 --seed 0 --save OUT/none/a.safetensors", "cannot be written"),
    ("run -t 1 --seed 0 --weights OUT/w.npz", "give either --weights or --seed"),
    ("run -t 1 --weights OUT/w.npz", "w.npz"), ("run -t 1 --weights OUT", "is a folder"),
    ("run -t 1 --seed 0 --set d=1000000000000000", "this machine has"),
    ("run -t 1 --seed 0 --set H=7", "d_k = d / H is 6/7 with d = 6, H = 7, but a size of W_Q"),
    ("run -t 1 --seed 0 --set N=1000000000", "blocks"),
    ("run -t 1 --seed 0 --device nowhere", "PyTorch cannot use the device nowhere"),
    ("show -o OUT/none/card.md", "cannot be written (No such file or directory)"),
    ("show -o OUT", "cannot be written (Is a directory)"),
    ("check --weights OUT/none.npz", "none.npz"), ("show --config OUT/none.json", "cannot read"),
    ("doc --format svg", "Invalid value for '--format'"),
    ("doc -o OUT/none/card.md", "cannot be written"),
    ("tour", "cannot be made (File exists)"),
    ("lesson -t 1 --seed 0 -o OUT/none/a.html", "cannot be written (No such file or directory)"),
    ("run -t 1 --seed 0 -o OUT/a.json", "writes no .json files; give one of .txt, .md"),
    ("explore -t 1 --seed 0 -o OUT/a.txt", "writes no .txt files; give .html"),
    ("show one two", "viete show does not take 'one two'; its --help lists what it takes"),
    ("shew", "there is no command 'shew'; did you mean show?"),
]
# fmt: on


@pytest.mark.parametrize(
    ("call", "words"),
    [pytest.param(call, words, id=f"{group}: {what}")
     for group, calls in (("size", SIZES), ("input", INPUTS), ("weights", WEIGHTS))
     for what, call, words in calls],
)  # fmt: skip
def test_python(call, words) -> None:
    with pytest.raises(vt.VieteError, match=re.escape(words)):
        call()


@pytest.mark.parametrize(("formula", "words"), [pytest.param(*c, id=c[0][:40]) for c in ASKED])
def test_asked(formula, words) -> None:
    """What a run is asked for, afterwards and beforehand."""
    run = M.run(T, W)
    with pytest.raises(vt.VieteError, match=re.escape(words)):
        run[formula]
    with pytest.raises(vt.VieteError):
        M.run(T, W, names=[formula])[formula]


@pytest.mark.parametrize("name", [3, None, b"s", ["s"], 1.5])
def test_asked_for_no_text(name) -> None:
    with pytest.raises(vt.VieteError, match="by its name or a formula"):
        M.run(T, W)[name]
    with pytest.raises(vt.VieteError, match="names must be a list"):
        M.run(T, W, names=[name])


def test_names_as_one_text() -> None:
    with pytest.raises(vt.VieteError, match="names must be a list"):
        M.run(T, W, names="s")


def test_two_libraries() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(vt.VieteError, match=r"numpy float64 and torch torch.float64"):
        M.run(T, weights(E=torch.asarray(E)))


def test_not_computed() -> None:
    """A value whose input is missing says which."""
    with pytest.raises(vt.VieteError, match="needs the input t, which was not given"):
        M.run(weights=W, m=[1, 1, 1], names=["s"])
    model = vt.read("letters-table").grad()
    with pytest.raises(vt.VieteError, match="∂T needs the input target, which was not given"):
        model.run([1, 0], model.initial_weights())["∂T"]


@pytest.mark.parametrize(("command", "words"), [pytest.param(*c, id=c[0]) for c in COMMANDS])
def test_command(command, words, tmp_path) -> None:
    first, *rest = command.replace("OUT", str(tmp_path)).split()
    said = viete(first, PATH, *rest, code=2)
    assert said.out == "" and words in said.err and "Traceback" not in said.err
    assert list(tmp_path.iterdir()) == []


def test_options_of_the_program_itself() -> None:
    assert viete("--colour", code=2).err.count("\n") == 1
    assert "viete --help" in viete("--colour", code=2).err


def test_a_tour_leaves_other_folders_as_they_are(tmp_path) -> None:
    (tmp_path / "run").mkdir()
    said = viete("tour", tmp_path, code=2)
    assert said.err == f"viete: {tmp_path} holds other files; give the name of a new folder\n"
    assert [x.name for x in tmp_path.iterdir()] == ["run"]


def test_a_document_is_not_written_without_its_picture(tmp_path) -> None:
    """Nor the picture without the document, whichever of them cannot be written."""
    for taken in ("card.md", "card.svg"):
        (tmp_path / taken).mkdir()
        assert "Is a directory" in viete("doc", PATH, "-o", tmp_path / "card.md", code=2).err
        assert [x.name for x in tmp_path.iterdir()] == [taken]
        (tmp_path / taken).rmdir()


ODD_NAMES = """
# Odd names

## Dimensions

| symbol | value |
| --- | --- |
| $n$ | $≤ 9$ |
| $V$ | 5 |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$
- $tokens ∈ \\{0, …, V-1\\}^n$
- $weights ∈ ℝ^n$
- $names ∈ ℝ^n$
- $meaning ∈ ℝ^n$
- $put ∈ ℝ^n$
- $inputs ∈ ℝ^n$

## Parameters

| symbol | shape |
| --- | --- |
| $W$ | $V × V$ |

## Forward pass

1. $s = \\langle weights, names \\rangle + \\langle meaning, put ⊙ inputs \\rangle$
2. $L = cross_entropy(W[t], tokens) + s$
"""


def test_inputs_named_as_options_are(tmp_path: Path) -> None:
    model = vt.read(ODD_NAMES)
    w, t = model.initial_weights(), [1, 2, 3]
    odd = {k: np.array([1.0, 2, 3]) for k in ("weights", "names", "meaning", "put", "inputs")}
    run = model.run(t, w, inputs={**odd, "tokens": t})
    assert run["s"] == 50
    rest = {k: v for k, v in odd.items() if k != "weights"}
    assert model.run(t, w, weights=odd["weights"], tokens=t, inputs=rest, names=["s"])["s"] == 50
    exact = model.run(
        t, {"W": [[1] * 5] * 5}, inputs={**odd, "tokens": t}, meaning="exact", names=["s"]
    )
    assert str(exact["s"]) == "50"
    engine = model.planned(w)
    assert engine(t, tokens=t, **odd) == pytest.approx(float(run["L"]))
    for name in ("names", "meaning", "put", "inputs"):
        sentence = (
            f"{name} is both an option of run and an input of Odd names; give the input as "
            f"inputs={{'{name}': …}}"
        )
        with pytest.raises(vt.VieteError, match=re.escape(sentence)):
            model.run(t, w, **{name: odd[name]})
    for twice in ({"t": t}, {"tokens": t, "inputs": {"tokens": t}}):
        with pytest.raises(vt.VieteError, match=r"the input (t|tokens) is given twice"):
            model.run(t, w, **twice)
    path = tmp_path / "odd.md"
    path.write_text(ODD_NAMES, "utf-8")
    given = [x for k in (*odd, "tokens") for x in ("--input", f"{k}=1,2,3")]
    said = viete("run", path, "-t", "1,2,3", "--seed", "0", *given, "--show", "s")
    assert said.out == "s = 50\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("train tiny --data a --data b -o r", "--data is given twice; give it once"),
        ("doc tiny -o a -o b --output c", "--output is given 3 times; give it once"),
        ("sample tiny --cache --no-cache", "--cache/--no-cache is given twice; give it once"),
        ("lesson tiny --seed 1 --seed=1", "--seed is given twice; give it once"),
    ],
)
def test_an_option_given_again(command: str, words: str) -> None:
    assert viete(*command.split(), code=2).err == f"viete: {words}\n"


def test_options_that_collect_their_values() -> None:
    both = viete("show", PATH, "--set", "d=2", "--set", "V=4").out
    assert both not in (viete("show", PATH, "--set", v).out for v in ("d=2", "V=4"))
