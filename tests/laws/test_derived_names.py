"""One set of derived names on every shipped family: what blocks add, circuits, scales of norms.

One formula serves all cards. The index letters of heads are each card's own, and T5 has a second
stack of blocks, whose stream is z.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny
from viete.notation.printer import show
from viete.notation.substitution import substitute
from viete.notation.tree import Apply, Expr, Num, Ref, num, walk

DECODER = {"tilde{A}", "tilde{M}", "Delta{x}", "W_QK", "W_OV", "U", "scale_A", "scale_M", "scale"}
WITHOUT_LOGITS = DECODER - {"U", "scale"}  # BERT, whose scores are another member's of the family
T5 = {"tilde{A}_e", "tilde{M}_e", "Delta{x}_e", "scale_{A,e}", "scale_{M,e}", "scale_e",
      "tilde{A}", "tilde{C}", "tilde{M}", "Delta{x}", "scale_A", "scale_C", "scale_M", "scale", "U",
      *(f"W_{{{circuit},{part}}}" for circuit in ("QK", "OV") for part in "ec"),
      "W_QK", "W_OV"}  # fmt: skip
SETS = {"bert": WITHOUT_LOGITS, "roberta": WITHOUT_LOGITS, "t5": T5,
        "attention-only-2": {"tilde{A}", "Delta{x}", "W_QK", "W_OV", "U"}}  # fmt: skip
FAMILIES = """attention-only-2 bert bloom gemma gemma2 gpt-j gpt-neo gpt2 hooked-transformer llama
    llama2c mistral mixtral nanogpt olmo olmo2 opt phi pre-norm-pythia pythia qwen2 qwen3 roberta
    t5""".split()

Run = Any


def base(name: str) -> str:
    """A name without its index letters: ``W_QK`` of ``W_QK^{i,g,r}``."""
    return name.partition("^")[0]


def close(a: Any, b: Any) -> None:
    a, b = np.broadcast_arrays(np.asarray(a), np.asarray(b))
    assert np.max(np.abs(a - b)) <= 1e-12 * max(1.0, np.max(np.abs(b)))


def named(card: vt.Card) -> set[str]:
    """The bases of the names that a card derives or has equations for."""
    return {base(e.name) for e in (*card.equations, *card.derived)}


def norm_of(card: vt.Card, scale: Expr) -> Apply | None:
    """The norm that divides by a scale, found by what it reads; None if the scale is a number."""
    if isinstance(scale, Num):
        return None
    if isinstance(scale, Ref):  # one norm for attention and MLP
        return norm_of(card, next(e.right for e in card.derived if e.name == scale.key))
    spread = next(x for x in walk(scale) if isinstance(x, Apply) and x.op in ("var", "mean"))
    (z,) = spread.args
    if spread.op == "mean":
        assert isinstance(z, Apply)
        z = z.args[0]  # of its square
    op = {"var": "LN", "mean": "RMSNorm"}[spread.op]
    return next(x for e in card.equations for x in walk(e.right)
                if isinstance(x, Apply) and x.op == op and x.args[0] == z)  # fmt: skip


def check_streams(card: vt.Card, run: Run) -> None:
    """x^i - x^{i-1} = Δx^i, the sum of what the sub-layers of block i add, and x^N all of them."""
    for change in (e for e in card.derived if e.name.startswith("Delta{")):
        (letter,), (x, label) = change.left.symbol.slots, base(change.name)[6:].split("}")
        loop = next(loop for loop in card.loops if loop.index == letter)
        size = card.size(loop.upper)
        assert size is not None
        of_block = [e for e in (*card.equations, *card.derived)
                    if e.left.symbol.slots == (letter,)]  # fmt: skip
        sublayers = [base(e.name) for e in of_block if e.name.startswith("tilde{")]
        assert len(sublayers) == 1 + len({"tilde{M}" + label, "tilde{C}" + label} & named(card))
        total = run[f"{x}{label}^0"]
        for i in range(1, int(size.evaluate(card.sizes)) + 1):
            added = run[f"Delta{{{x}}}{label}^{i}"]
            close(sum(np.asarray(run[f"{s}^{i}"]) for s in sublayers), added)
            close(run[f"{x}{label}^{i}"] - run[f"{x}{label}^{i - 1}"], added)
            total = total + added
        close(run[f"{x}{label}^{i}"], total)


def check_scales(card: vt.Card, run: Run) -> None:
    """A norm written with its scale is the norm, in the first block and the last."""
    for e in (e for e in card.derived if e.name.startswith("scale")):
        for block in (1, 2):
            at = {loop.index: num(block) for loop in card.loops}
            scale, norm = run[show(substitute(e.left, letters=at))], norm_of(card, e.right)
            if norm is None:
                assert float(np.asarray(scale)) == 1
                continue
            assert np.shape(scale)[-1] == 1  # one number for each row
            z, γ, *β = (float(a.value) if isinstance(a, Num) else
                        np.asarray(run[show(substitute(a, letters=at))])
                        for a in norm.args[:-1])  # fmt: skip
            z = z - np.mean(z, -1, keepdims=True) if norm.op == "LN" else z
            found = γ * z / scale + sum(β)
            close(found, run[show(substitute(norm, letters=at))])


def check_logits(card: vt.Card, run: Run, weights: dict[str, np.ndarray]) -> None:
    """A row of U times the last stream, normed, is a logit, but for bias and cap."""
    last = [norm for e in card.derived if e.name == "scale" if (norm := norm_of(card, e.right))]
    stream = show(last[0]) if last else f"x^{show(card.loops[0].upper)}"
    found = run[stream] @ run["U"].T + sum(weights[b] for b in ("b_U", "c_U") if b in weights)
    if card.title.startswith("Gemma 2") and "c_U" in card.sizes:
        cap = float(card.sizes["c_U"])
        found = cap * np.tanh(found / cap)
    close(found, run["logits"])


def check_derived_names(
    card: vt.Card, weights: dict[str, np.ndarray], inputs: dict[str, Any]
) -> None:
    """All that holds of the derived names of a card."""
    run = card.run(None, weights, **inputs)
    check_streams(card, run)
    check_scales(card, run)
    if "U" in named(card):
        check_logits(card, run, weights)
    for e in (e for e in card.derived if base(e.name).strip("{}").startswith(("W_QK", "W_OV"))):
        at = dict.fromkeys(e.left.symbol.slots, num(1))
        assert np.shape(run[show(substitute(e.left, letters=at))])[-2:] == (card.sizes["d"],) * 2


def test_every_card_with_a_stack_of_blocks_is_a_family_here() -> None:
    """The others are documents in the words of their authors, have one block, or teach."""
    has = {Path(p).stem for p in shipped() if any(e.name == "Delta{x}^i" for e in tiny(p).derived)}
    assert has == set(FAMILIES)
    others = (p for p in shipped() if not Path(p).stem.startswith("letters-"))
    assert all(tiny(p).derived == () or Path(p).stem in {*FAMILIES, "attention-only-1"}
               for p in others)  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_the_names_are_one_set(family: str) -> None:
    card = tiny(next(p for p in shipped() if Path(p).stem == family))
    assert SETS.get(family, DECODER) <= named(card)
    weights = random_weights(card, 3)
    check_derived_names(card, weights, random_inputs(card, 4))
