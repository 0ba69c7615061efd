"""A head is a head: what one head reads and writes has a name in every family, also where heads
share keys and values, and a change of it changes no other head.

The expected values are made by hand from a run's patterns, values and weights.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny
from viete.ask.reading_notes import reading_notes
from viete.errors import VieteError

GROUPED = "gemma2 llama".split()
FAMILIES = "bert gpt-j pythia".split()


@cache
def runs(name: str) -> tuple[Any, Any, Any]:
    """A small model of a family, with two groups of two heads where it has groups; two runs."""
    card = tiny(next(p for p in shipped() if p.endswith(f"/{name}.md")))
    card = card.bind(H=4, d_k=8, **({"G": 2} if "G" in card.sizes else {}))
    model = card.with_weights(random_weights(card, 3))
    return model, *(model.run(None, **random_inputs(card, seed)) for seed in (1, 2))


def own(run: Any, i: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What each head of a block reads and writes, by hand."""
    letters = "g,r" if "G" in run.sizes else "h"
    out = np.asarray(run[f"W_O^{{{i},{letters}}}"])
    patterns = np.asarray(run[f"A^{{{i},{letters}}}"])
    values = np.asarray(run[f"V^{{{i},{letters[0]}}}"])
    patterns, out = (a.reshape(-1, *a.shape[-2:]) for a in (patterns, out))
    each = len(patterns) // len(values)
    read = [a @ values[k // each] for k, a in enumerate(patterns)]
    return read, [z @ w for z, w in zip(read, out, strict=True)]


@pytest.mark.parametrize("name", [*FAMILIES, *GROUPED])
def test_one_head_and_no_other(name: str) -> None:
    model, run, other = runs(name)
    last, mine, theirs = model.card.equations[-1].name, own(run, 2), own(other, 2)
    for k in range(4):
        np.testing.assert_allclose(run[f"z^{{2,{k + 1}}}"], mine[0][k], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(run[f"r^{{2,{k + 1}}}"], mine[1][k], rtol=1e-9, atol=1e-12)
    adds = next(e.name for e in model.card.equations
                if any(key.startswith("W_O^") for key in e.right.keys))  # fmt: skip
    adds = adds.replace("^i", "^2")
    found = {x: run.ask(f"{last} with {x}^{{i,h}} = {x}'^{{i,h}}", against=other)[1] for x in "zr"}
    for k in range(4):
        new = run[adds] + theirs[1][k] - mine[1][k]
        want = model.run(None, **random_inputs(model.card, 1), put={adds: new})[last]
        for x in "zr":
            np.testing.assert_allclose(found[x][k], want, rtol=1e-8, atol=1e-9)


def test_every_family_names_what_a_head_writes() -> None:
    for path in shipped():
        card = vt.read(path)
        if "config model_type" not in dict(card.facts):
            continue
        for key in set[str]().union(*(e.right.keys for e in card.equations)):
            found = re.fullmatch(r"W_(?:O|\{O,(\w)\})\^(\{\w,(?:h|g,r)\})", key)
            if found is not None:
                label, letters = found.groups()
                for x in "zr":
                    assert f"{x}{'_' + label if label else ''}^{letters}" in card.symbols, path


@pytest.mark.parametrize("name", GROUPED)
def test_what_heads_share_is_not_changed_by_the_name_of_one(name: str) -> None:
    model, run, other = runs(name)
    pattern = "S" if name == "gemma2" else "A"  # its scores have a name
    common = "is what all heads of a group have in common: write "
    for change, way in {
        "A^{i,h} = A'^{i,h}, V^{i,h} = V'^{i,h}":
            f"V^{{i,h}} {common}V^{{i,g}} to mean all of them, or z^{{i,h}} for what one head",
        "V^{2,1} = 0": f"V^{{2,1}} {common}V^{{2,g}} for g = 1 to mean all of them, or z^{{2,1}} ",
        "V^{2,3} = 0": f"V^{{2,3}} {common}V^{{2,g}} for g = 2 to mean all of them, or z^{{2,3}} ",
        "K^{2,h} = 0": f"K^{{2,h}} {common}K^{{2,g}} to mean all of them, or {pattern}^{{2,h}} ",
        "W_V^{1,2}_{0,0} = 0": "or z^{1,2} for what one head makes of it",
        "x^1 = 0 in V^{2,h}": f"V^{{2,h}} {common}V^{{2,g}} to mean",
    }.items():  # fmt: skip
        with pytest.raises(VieteError, match=re.escape(way)):
            run.ask(f"logits with {change}", against=other)
    both = run["logits with V^{2,g} = 0 for g = 2"]
    want = model.put("z^{2,3} = 0", "z^{2,4} = 0").run(None, **random_inputs(model.card, 1))
    np.testing.assert_allclose(both, want["logits"], rtol=1e-9, atol=1e-10)


def test_whose_a_shared_value_is_is_said() -> None:
    _, run, _ = runs("llama")
    np.testing.assert_array_equal(run["V^{2,h}"][2], run["V^{2,2}"])
    assert "V^{2,2} is that of group 2: heads 3 to 4" in reading_notes(run, "V^{2,2}")
    assert reading_notes(run, "V^{2,h}") == ["V^{2,h} is that of head h's group, which has 2 heads"]
    assert run.labels("V^{2,g}")[0] == ["1 = L1H0 to H1", "2 = L1H2 to H3"]
    with pytest.raises(VieteError, match="g runs from 1 to 2, and head 3 has that of group 2"):
        run["V^{2,3}"]


@pytest.mark.parametrize("change", ["A^{i,h} = 2 A^{i,h}", "r^{i,h} = r^{i,1}", "z^{i,h} = 0"])
def test_each_head_of_several_blocks_at_once(change: str) -> None:
    model, run, _ = runs("llama")
    found = run[f"logits with {change} for i ≥ 1"]
    for h in range(1, 5):
        single = model.put(f"{change} for i ≥ 1, h = {h}").run(None, **random_inputs(model.card, 1))
        np.testing.assert_allclose(found[h - 1], single["logits"], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["attention-only-2", "gpt2"])
def test_all_paths_to_a_reader_and_the_direct_one(name: str) -> None:
    """``in`` changes what lies between; the direct path goes through the stream alone."""
    card = vt.read(name).bind(V=11, d=8, N=3, H=2, d_k=4, n_max=16)
    model, tokens = card.with_weights(random_weights(card, 3)), [1, 2, 3, 4]
    run, other = model.run(tokens), model.run([5, 2, 7, 4])
    rest = run["Q^{3,2}"]
    bias = run["b_Q^{3,1}"] if name == "gpt2" else 0

    def logits(query: Any) -> Any:
        return model.run(tokens, put={"Q^{3,h}": np.stack([query, rest])})["logits"]

    for value, change in ((0 * run["r^{1,1}"], "0"), (other["r^{1,1}"], "r'^{1,1}")):
        stream = run["x^2"] - run["r^{1,1}"] + value
        direct = logits(run.ask("norm_A^3(s)", s=stream) @ run["W_Q^{3,1}"] + bias)
        changed = model.put(f"r^{{1,1}} = {change}", against=other).run(tokens)
        every = logits(changed["Q^{3,1}"])
        ways = (
            (f"r^{{1,1}} = {change} in Q^{{3,1}}", every),
            (f"x^2 = x^2 - r^{{1,1}} + {change} in Q^{{3,1}}", direct),
        )
        for way, want in ways:
            found = run.ask(f"logits with {way}", against=other)
            np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-10)
        assert abs(direct - every).max() > 1e-6
