"""Questions and cards by seeds that few people write: `benchmarks/fuzz.py` reads it.

`questions` asks small models what is made of the pieces of the notation: streams, heads, changes,
arrows, tensor products, functions of blocks, literals. What a question means is printed and asked
again, and has the same value. `cards` adds to random programs what once ended in a traceback:
equations struck through, families of constants, conditions beyond short texts, folds over blocks,
no rows, numbers side by side; each is run, written, derived, expanded, and taught in a lesson.
"""

from __future__ import annotations

import random
import re
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import viete as vt
from tests.laws.programs import Program, program
from tests.model.small import small
from viete.report.lesson.document import write_lesson
from viete.report.lesson.making import lesson

LONGEST = 20.0  # seconds for one of them
MODELS = ("gpt2", "llama", "gemma2", "pre-norm-pythia", "attention-only-2")
ROWS = ("{i}", "{j}", "-1", "0", "-{j}", "j", "k", "0:2", ":", "7", "n-1")
STREAMS = ("x^{i}", "A^{{{i},{h}}}", "z^{{{i},{h}}}", "r^{{{i},{h}}}", "Δx^{i}", "Q^{{{i},{h}}}",
           "K^{{{i},{h}}}", r"\tilde{{A}}^{i}", "logits", "W_OV^{{{i},{h}}}", "W_E", "U", "x^L",
           "n", "x^{{{i}-1}}", "scale_A^{i}", "V^{{{i},{h}}}")  # fmt: skip
WHOLE = (
    "{a}", "{a} + {b}", "{a} {b}", "⟨{a}, {b}⟩", "|{a}|", "softmax({a})", "{a}^⊤", "{a} / 2",
    "2 {a}", r"\sum_h {a}", r"\sum_i {a}", "mean_i({a})", "max_h({a})", "cos({a}, {b})", "∂{a}",
    "where({i} > 1, {a}, 0)", "{a} ⊙ {b}", "LN({a})", "B_{i}({a})", r"\tilde{{M}}^{i}({a})",
    "logit_3({a})", 'logit_{{"x"}}({a})', "({a} ⊗ {b}) {a}", "[1 2; 3 4]", "[1, 2]", "e^{{{a}}}",
    "top_3({a})", "svd_2({a})", "pca_2({a})", "cosines({a})", "angle({a}, {b})", "({a}) ({b})",
    "x^{i}_{j} →(A^{{{i},{h}}}) x^{i}_k", "x^{i}_j →(W_U) U_3", "norm({a})", "Attn^{i}({a})",
    "(((({a}))))", "argmax({a})", "tr({a})", "T({a})", "{a} = {b}", "{a} ≥ 0",
)  # fmt: skip
CLAUSES = ("", "", "", " with {a} = 0", " with {a} = 2 {a}", " with {a} = 0 in {b}",
           " with {a} = {b}", " with {a} = 0 for {i} ≥ 2", " with A^{{i,h}} = 0",
           " with {a} = 2 {a} for i ≥ 2", " with {a} = 0, {b} = 0")  # fmt: skip
# What fits: a stream S, a vector V, a number N, a pattern P.
FITTING = {
    "S": (
        "x^{i}",
        "Δx^{i}",
        "{S} + {S}",
        "2 {S}",
        "{S} - {S}",
        "r^{{{i},{h}}}",
        r"\tilde{{A}}^{i}",
        "B_{k}({S})",
        r"\tilde{{M}}^{k}({S})",
        r"\tilde{{A}}^{k}({S})",
        "({P} ⊗ W_OV^{{1,1}}) {S}",
        "{P} {S}",
        r"(\sum_h (A^{{{k},h}} ⊗ W_OV^{{{k},h}})) {S}",
        "norm({S})",
        "LN({S})",
        "where({i} > 1, {S}, 0)",
        "({S})",
        "softmax({S})",
        r"{S} / ({N})",
        "Attn^{k}(LN({S}))",
    ),
    "V": (
        "x^{i}_{j}",
        "({S})_{j}",
        "{V} + {V}",
        "2 {V}",
        "W_E[3]",
        "U_3",
        "{V} - {V}",
        "{V} ⊙ {V}",
        "W_E[t_{j}]",
        "mean_{{j=0}}^{{n-1}}(({S})_j)",
        "softmax({V})",
        "c({V})",
        "{V} / |{V}|",
        "{V} W_OV^{{{i},{h}}}",
        "x^{k}_{j} →(A^{{3,{h}}}) x^3_{j}",
        "({S})[{j}]",
    ),
    "N": (
        "⟨{V}, {V}⟩",
        "|{V}|",
        "cos({V}, {V})",
        "logits_{{{j},3}}",
        "logit_3({V})",
        "n",
        "2",
        "e",
        "({P})_{{{j},0}}",
        "{N} + {N}",
        "{N} / 2",
        "angle({V}, {V})",
        "-{N}",
        "({N}) ({N})",
        "1/3",
        "sum({V})",
        "max({V})",
        "{N}^2",
        "logsoftmax(logits_{{{j}}})[3]",
        "x^{i}_{j} →(W_U) U_3",
    ),
    "P": ("A^{{{i},{h}}}", "{P}^⊤", "{P} {P}", "{S} ({S})^⊤", "softmax({P})", "causal({P})"),
}
TOP = ("{N}", "{N}", "{V}", "{S}", "{P}", "top_3({V})", "svd_2(W_OV^{{1,{h}}})", "pca_2({S})",
       "cosines({S})", r"\sum_h {N}", r"\sum_i {N}", "mean_i({N})", "{N} ≥ 0", "{V} = {V}",
       "∂{N} / ∂x^1_0", "({N}) with x^2 = 0", "{N} with A^{{{i},{h}}} = 0", "{V} with x^1 = 2 x^1",
       "{N} with A^{{{i},{h}}} = 2 A^{{{i},{h}}} for i ≥ 2", "{N} with x^1_j = 0 for j ≥ 1",
       "{N} with x^1 = 0 in Q^{{2,{h}}}", "{N} with r^{{1,1}} = 0, z^{{2,{h}}} = 0")  # fmt: skip


def fitting(rng: random.Random) -> str:
    """A random question whose parts fit together, mostly."""

    def one(kind: str, depth: int) -> str:
        pieces = FITTING[kind]
        return filled(rng.choice(pieces if depth else pieces[:2]), depth - 1)

    def filled(piece: str, depth: int) -> str:
        letters = {"i": rng.choice("1233iil"), "k": rng.choice("1223"), "h": rng.choice("112hhg"),
                   "j": rng.choice(["0", "-1", "{-1}", "j", "0"])}  # fmt: skip
        return re.sub(r"\{([SVNP])\}", lambda m: one(m[1], max(depth, 0)), piece.replace(
            "{i}", letters["i"]).replace("{k}", letters["k"]).replace("{h}", letters["h"]).replace(
            "{j}", letters["j"])).replace("{{", "{").replace("}}", "}")  # fmt: skip

    return filled(rng.choice(TOP), 2)


def question(rng: random.Random) -> str:
    """A random question."""
    if rng.random() < 0.7:
        return fitting(rng)

    def letters() -> dict[str, str]:
        return {"i": rng.choice(["1", "2", "3", "i", "i'", "l", "0"]), "j": rng.choice("0123j"),
                "h": rng.choice(["1", "2", "h", "h'", "6", "7"])}  # fmt: skip

    def value(depth: int) -> str:
        if depth and rng.random() < 0.4:
            return rng.choice(WHOLE).format(a=value(depth - 1), b=value(depth - 1), **letters())
        base = rng.choice(STREAMS).format(**letters())
        places = rng.choices(ROWS, k=rng.choice([0, 0, 1, 1, 2]))
        at = ",".join(p.format(**letters()) for p in places)
        if not at:
            return base
        return f"{base}[{at}]" if ":" in at or rng.random() < 0.3 else f"{base}_{{{at}}}"

    whole = rng.choice(WHOLE).format(a=value(2), b=value(1), **letters())
    return whole + rng.choice(CLAUSES).format(a=value(0), b=value(0), **letters())


def ask(rng: random.Random) -> None:
    """Ask one question; raises AssertionError where its own words have another value."""
    name, text, said = drawn(rng)
    run = small(name).run(text, names=[])
    found = run[said]
    if isinstance(found, np.ndarray) and " with " not in said and "→" not in said:
        again = run[run.in_words(said, "plain")]
        assert np.allclose(found, again, equal_nan=True), run.in_words(said, "plain")


def drawn(rng: random.Random) -> tuple[str, list[int], str]:
    """A model, a text and a question."""
    name = rng.choice(MODELS)
    return name, [rng.randrange(13) for _ in range(rng.choice([1, 2, 4]))], question(rng)


ADDED = (
    "1. ~~$y_{odd} = 2 * x_{odd}$~~", "1. $c_{odd}^s = 1/2$", "1. $c_{odd}^s = n$",
    "1. $w_{odd} = table_{j<n, l<d}(where(j ≥ 5, 0, 1))$",
    "1. $u_{odd} = table_{j<n, l<d}(where(j > 0, 1, 0))$", "1. $p_{odd} = (2) (2)$",
    "1. $e_{odd} = table_{j<n, l<d}(j)[:0]$", "1. $o_{odd} = |table_{j<n, l<d}(j)|_0$",
    "1. $m_{odd} = sum(softmax(table_{j<n}(j)[0:0]))$", "1. $g_{odd} = " + "(" * 60 + "n" + ")" * 60
    + "$", "1. $k_{odd} = e^{n}$", "1. $q_{odd} = [1 2; 3 4] [1 1]$",
)  # fmt: skip


def card(rng: random.Random) -> None:
    """Run, write, derive, expand and teach a random program with something odd in it."""
    p = program(rng.randrange(10**6), rng.choice([1, 1, 2, 3]))
    text = p.text.rstrip() + "\n"
    head, _, derived = text.partition("\n## Derived")
    for line in rng.sample(ADDED, rng.choice([1, 1, 2])):
        head = head.rstrip() + "\n" + line + "\n"
    for size in rng.sample(["H", "S", "G"], rng.choice([0, 0, 1])):
        head = re.sub(rf"\| \${size}\$ \| \d+ \|", f"| ${size}$ | 1 |", head)
    text = head + ("\n## Derived" + derived if derived else "")
    for step in steps(rng, replace(p, text=text)):
        try:
            step()
        except vt.VieteError as error:
            assert len(str(error)) < 3000, "a long error"


def steps(rng: random.Random, p: Program) -> Iterator[Callable[[], object]]:
    """What is done with a card; a step that is refused ends nothing."""
    found, weights, given = p.card, p.weights(), p.given(rng.choice([1, 2, 4]))
    yield from (partial(written_back, found, form) for form in ("md", "latex", "json"))
    run = found.run(weights=weights, **given)
    yield lambda: str(run)
    for e in found.equations[-2:]:
        yield lambda e=e: run[e.name]
        yield lambda e=e: run.expand(e.name)
    yield lambda: found.grad(of=p.loss)
    yield lambda: found.padded()
    yield lambda: found.check()
    for to in ("torch", "numpy", "jax", "js"):
        yield lambda to=to: found.export(to)
    first, *others = found.inputs
    if first.high is not None and rng.random() < 0.3:
        short, tenths = p.given(1), {k: np.round(w, 1) for k, w in weights.items()}
        more = {x.name: short[x.name] for x in others}
        yield lambda: write_lesson(lesson(found, short[first.name], tenths, inputs=more), "md")


def written_back(found: vt.Card, form: str) -> None:
    """Raises AssertionError for a card that is another when it is read back, or none."""
    text = found.write(form)
    try:
        again = back(text, form)
    except vt.VieteError as error:
        raise AssertionError(f"{form} cannot be read back: {error}") from None
    assert again == found, f"{form} is another card"


def back(text: str, form: str) -> vt.Card:
    """The card that a text of a form is, read as a file."""
    path = Path(tempfile.mkdtemp()) / f"card.{form.replace('latex', 'tex')}"
    path.write_text(text)
    return vt.read(path)


KINDS: dict[str, Callable[[random.Random], None]] = {"questions": ask, "cards": card}


def main(kind: str, seed: int, count: int) -> int:
    """So many by their seeds; the exit code is 1 if one ended otherwise, or took long."""
    warnings.simplefilter("ignore")
    failed = 0
    for number in range(seed, seed + count):
        start, why = time.process_time(), ""
        try:
            KINDS[kind](random.Random(number))
        except vt.VieteError as error:
            why = "" if 0 < len(str(error)) < 3000 else "an error of no words, or of too many"
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
        if (taken := time.process_time() - start) > LONGEST:
            why = why or f"{taken:.0f} s"
        if why:
            failed += 1
            said = drawn(random.Random(number)) if kind == "questions" else ""
            print(f"seed {number}: {why:.300} {said}", flush=True)
    print(f"{count} {kind}, {failed} failed")
    return int(failed > 0)
