"""Sampling: with the derived cache and without, on NumPy and PyTorch, the same tokens."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import viete as vt
from tests.laws.strategies import Card, cards, random_inputs, shipped, tiny
from viete.analysis.next_token import scores
from viete.analysis.traits import Traits
from viete.sampling.planned import Planned

SCORELESS = ("bert.md", "roberta.md")
CARDS = [p for p in shipped() if not p.endswith(SCORELESS)]
AHEAD = ("formal-encoder.md", "symbolic-transformer.md")


def weights_of(model: vt.Card, seed: int = 0) -> dict[str, Any]:
    """Large enough that no two scores are close."""
    rng = np.random.default_rng(seed)
    return {k: rng.standard_normal(s) / 2 for k, s in model.parameter_shapes.items()}


def others(path: str, model: vt.Card) -> dict[str, Any]:
    """The source that a translation needs."""
    if not path.endswith(("transformer-2017.md", "t5.md")):
        return {}
    return {k: v for k, v in random_inputs(model, 3, 5).items() if k in "sa"}


def drawn(model: vt.Card, weights: dict[str, Any], prompt: list[int], **more: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(model.sample(prompt, weights, **more))


@pytest.mark.parametrize("path", CARDS, ids=lambda p: p.rsplit("/", 1)[-1])
@pytest.mark.parametrize(
    "how", [{}, {"greedy": True}, {"top_k": 3, "top_p": 0.8, "temperature": 1.5}, {"count": 3}]
)
def test_with_a_cache_and_without_the_tokens_are_the_same(path: str, how: dict[str, Any]) -> None:
    """Beyond the end of the context, too: 2 + 12 tokens, of which at most 9 fit."""
    model = tiny(path)
    weights, source = weights_of(model), others(path, model)
    with_it = drawn(model, weights, [1, 0], most=12, **how, **source)
    without = drawn(model, weights, [1, 0], most=12, cache=False, **how, **source)
    assert with_it == without and len(with_it) == 12


@pytest.mark.parametrize("path", CARDS, ids=lambda p: p.rsplit("/", 1)[-1])
def test_on_pytorch_the_tokens_are_the_same(path: str) -> None:
    torch = pytest.importorskip("torch")
    model = tiny(path)
    weights, source = weights_of(model), others(path, model)
    tensors = {k: torch.tensor(v, requires_grad=True) for k, v in weights.items()}
    assert drawn(model, weights, [1, 0], most=10, **source) == drawn(
        model, tensors, [1, 0], most=10, **source
    )


@settings(max_examples=12, deadline=None)
@given(cards())
def test_random_cards_sample_alike(card: Card) -> None:
    weights = weights_of(card.model, 4)
    with_it = drawn(card.model, weights, [1], most=11, count=2, keep=4)
    assert with_it == drawn(card.model, weights, [1], most=11, count=2, keep=4, cache=False)


def small() -> tuple[vt.Card, dict[str, Any]]:
    model = tiny(next(p for p in shipped() if p.endswith("gpt2.md")))
    return model, weights_of(model)


def test_greedy_is_the_argmax_of_a_whole_run() -> None:
    model, weights = small()
    text = [3, 1]
    for (token,) in model.sample(text.copy(), weights, most=7, greedy=True):
        logits = model.run(text, weights)["logits"]
        assert token == int(np.argmax(logits[-1]))
        text.append(token)


def test_the_chances_are_the_softmax_of_the_scores() -> None:
    model, weights = small()
    (first,) = model.sample([3, 1], weights, most=1, count=3000)
    z = model.run([3, 1], weights)["logits"][-1]
    wanted = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    np.testing.assert_allclose(np.bincount(first, minlength=len(z)) / 3000, wanted, atol=0.03)


def test_samples_do_not_depend_on_how_many_there_are() -> None:
    model, weights = small()
    three = drawn(model, weights, [3, 1], most=12, count=3, seed=7)
    assert [t[:1] for t in three] == drawn(model, weights, [3, 1], most=12, seed=7)
    assert [t[:2] for t in three] == drawn(model, weights, [3, 1], most=12, count=2, seed=7)
    assert len({tuple(s) for s in zip(*three, strict=True)}) == 3
    assert three != drawn(model, weights, [3, 1], most=12, count=3, seed=8)


def test_a_sample_ends_with_its_stop_token_and_the_others_go_on() -> None:
    model, weights = small()
    free = list(zip(*drawn(model, weights, [3, 1], most=12, count=3), strict=True))
    stop = free[0][4]
    got = list(zip(*drawn(model, weights, [3, 1], most=12, count=3, stop=stop), strict=True))
    for before, after in zip(free, got, strict=True):
        end = before.index(stop) + 1 if stop in before else len(before)
        assert after[:end] == before[:end]
        assert set(after[end:]) <= {None}
    some = drawn(model, weights, [3, 1], most=12, stop=[stop, 0])
    assert some == drawn(model, weights, [3, 1], most=12, stop=lambda new: new[-1] in (stop, 0))


def test_tokens_come_one_by_one() -> None:
    model, weights = small()
    found = model.sample([3, 1], weights, most=10**9)
    assert [next(found) for _ in range(5)] == drawn(model, weights, [3, 1], most=5)
    assert drawn(model, weights, [3, 1], most=0) == []


def test_a_long_prompt_is_cropped_to_its_end() -> None:
    model, weights = small()
    long = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2]
    assert drawn(model, weights, long, most=6) == drawn(model, weights, long[-9:], most=6)
    assert drawn(model, weights, long, most=3, keep=4) == drawn(model, weights, long[-4:], most=3)


def test_the_cache_is_made_anew_only_when_the_context_is_full(monkeypatch: Any) -> None:
    model, weights = small()
    begun = []
    prefill = Planned.prefill
    monkeypatch.setattr(Planned, "prefill", lambda self, text, count: (
        begun.append(text.shape[1]), prefill(self, text, count))[1])  # fmt: skip
    drawn(model, weights, [3, 1], most=14, keep=5)  # 2, then 5 when 9 are full, and again
    assert begun == [2, 5, 5]


def test_a_full_context_is_run_without_a_cache(monkeypatch: Any) -> None:
    """Every token moves all others, so that a cache would be made and thrown away."""
    model, weights = small()
    wanted = drawn(model, weights, [3, 1], most=14, cache=False)
    begun = []
    prefill = Planned.prefill
    monkeypatch.setattr(Planned, "prefill", lambda self, text, count: (
        begun.append(text.shape[1]), prefill(self, text, count))[1])  # fmt: skip
    assert drawn(model, weights, [3, 1], most=14) == wanted
    assert begun == [2]


def test_a_card_that_sees_both_ways_says_why_and_still_samples() -> None:
    for path in CARDS:
        if path.endswith(AHEAD):
            model = tiny(path)
            with pytest.warns(UserWarning, match="in equation 6, .*reads later ones"):
                assert len(list(model.sample([1, 2], weights_of(model), most=4))) == 4


TRANSLATOR = r"""# Translator
## Dimensions
| symbol | value |
| --- | --- |
| $V_s$ | 4 |
| $V$ | 5 |
| $m$ | ≤ 6 |
| $n$ | ≤ 6 |
## Inputs
- $t ∈ \{0, …, V - 1\}^n$: target
- $y ∈ \{0, …, V - 1\}^n$: the target, one further
- $s ∈ \{0, …, V_s - 1\}^m$: source
## Parameters
| symbol | shape |
| --- | --- |
| $E_s$ | $V_s × V$ |
| $E$ | $V × V$ |
## Forward pass
1. $z = E_s[s]$
2. $x = E[t]$
3. $logits = x + softmax(x z^⊤) z$
4. $L = -\sum_{j=0}^{n-1} (logsoftmax(logits)_{j, y_j}) / n$
"""


def test_what_is_continued_is_the_text_that_has_scores() -> None:
    """Not a source or targets, though these are looked up as well and stand behind it."""
    model = vt.read(TRANSLATOR)
    weights, text = model.initial_weights(0), [2]
    drawn = [t for (t,) in model.sample(text, weights, most=4, greedy=True, s=[3, 1])]
    for _ in range(4):
        text.append(int(model.run(text, weights, s=[3, 1])["logits"][-1].argmax()))
    assert drawn == text[1:]


def test_half_precision() -> None:
    torch = pytest.importorskip("torch")
    model, weights = small()
    half = {k: torch.tensor(v, dtype=torch.bfloat16) for k, v in weights.items()}
    assert len(drawn(model, half, [3, 1], most=12, count=2)) == 12
    narrow = {k: v.astype("float32") for k, v in weights.items()}
    assert drawn(model, narrow, [3, 1], most=12) == drawn(model, weights, [3, 1], most=12)


def test_sampling_writes_into_no_weight() -> None:
    model, weights = small()
    before = {k: v.copy() for k, v in weights.items()}
    drawn(model, weights, [3, 1], most=12, count=2)
    for k, v in weights.items():
        np.testing.assert_array_equal(v, before[k])


@pytest.mark.parametrize(
    ("prompt", "more", "said"),
    [
        ([], {}, "at least one token"), ([11], {}, "not among the ids 0 … 10"),
        ([-1], {}, "not among"), ([[1, 2]], {}, "at least one token"), ([0.5], {}, "whole"),
        ([1], {"most": -1}, "most"), ([1], {"count": 0}, "count"), ([1], {"seed": -1}, "seed"),
        ([1], {"keep": 10}, "keep"), ([1], {"keep": 0}, "keep"), ([1], {"stop": 11}, "stop token"),
        ([1], {"stop": [1, -2]}, "stop token"), ([1], {"temperature": 0}, "temperature"),
        ([1], {"top_p": 2}, "top_p"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anything_is_drawn(
    prompt: Any, more: dict[str, Any], said: str
) -> None:
    model, weights = small()
    with pytest.raises(vt.VieteError, match=said):
        model.sample(prompt, weights, **more)


def test_cards_and_weights_that_cannot_be_sampled() -> None:
    model, weights = small()
    with pytest.raises(vt.VieteError, match="missing"):
        model.sample([1], {})
    with pytest.raises(vt.VieteError, match="a score for each next token"):
        vt.read("bert").sample([1], {})
    with pytest.raises(vt.VieteError, match="has no input q"):
        list(model.sample([1], weights, q=[1]))
    weights |= {name: weights[name] * 1e200 for name in ("W_E", "beta")}
    with pytest.raises(vt.VieteError, match="scores"):
        list(model.sample([1], weights))


def test_sampling_on_numpy_needs_no_other_library() -> None:
    root = Path(vt.__file__).parent.parent
    code = (
        f"import sys; sys.path.insert(0, {str(root)!r}); import viete as vt; "
        "m = vt.read('exact-lesson'); "
        "print(list(m.sample([0], m.initial_weights(), most=3, greedy=True))); "
        "assert not {'torch', 'jax', 'tokenizers', 'transformers'} & set(sys.modules)"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr


CHANCES = """# Chances

## Dimensions
| symbol | size |
| --- | --- |
| $n$ | ≤ 9 |
| $V$ | 5 |

## Inputs
- $t ∈ {0, …, V - 1}^n$

## Parameters
| symbol | shape |
| --- | --- |
| $B$ | V × V |

## Forward
"""


@pytest.mark.parametrize(
    ("forward", "found", "sampled"),
    [
        ("1. $p = softmax(B[t])$", ("p", True), False),
        ("1. $z = B[t]$\n2. $p = softmax(z)$", ("z", False), True),
        ("1. $logits = B[t]$\n2. $z = logits + 1$", ("logits", False), True),
        ("1. $z = B[t]$\n2. $y = z + 1$", ("y", False), True),
        ("1. $p = sum(B[t])$", None, False),
    ],
)
def test_a_document_says_of_the_scores_what_sampling_takes(
    forward: str, found: tuple[str, bool] | None, sampled: bool
) -> None:
    """A value that holds probabilities is described as such, and not taken for scores."""
    card = vt.read(CHANCES + forward)
    g = Traits(card).generation()
    assert (g and (card.equations[g.scores].name, g.probabilities)) == found
    if sampled:
        assert found is not None and scores(card) == found[0]
    else:
        with pytest.raises(vt.VieteError, match="it cannot be sampled"):
            scores(card)
