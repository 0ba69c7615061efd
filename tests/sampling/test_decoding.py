"""From scores to a token: what is left to choose from, ties, edges, how often each is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from viete.errors import VieteError
from viete.sampling.decoding import Decoding

SCORES = arrays(np.float64, st.integers(1, 12), elements=st.floats(-30, 30) | st.just(-np.inf))


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max())
    return e / e.sum()


@given(SCORES.filter(lambda z: (z > -np.inf).any()), st.floats(0.05, 20))
def test_temperature_divides_the_scores(z: np.ndarray, t: float) -> None:
    np.testing.assert_allclose(Decoding(t).probabilities(z), softmax(z / t), atol=1e-12)


@given(SCORES.filter(lambda z: (z > -np.inf).any()), st.integers(1, 14))
def test_top_k_leaves_the_k_likeliest_and_of_ties_the_lower_ids(z: np.ndarray, k: int) -> None:
    p = Decoding(top_k=k).probabilities(z)
    order = sorted(range(len(z)), key=lambda i: (-z[i], i))
    assert set(np.flatnonzero(p)) <= set(order[:k])
    kept = softmax(np.where(np.isin(np.arange(len(z)), order[:k]), z, -np.inf))
    np.testing.assert_allclose(p, kept, atol=1e-12)


@given(SCORES.filter(lambda z: (z > -np.inf).any()), st.floats(0.01, 1))
def test_top_p_leaves_the_fewest_tokens_that_have_the_mass(z: np.ndarray, p: float) -> None:
    whole, found = softmax(z), Decoding(top_p=p).probabilities(z)
    left = np.flatnonzero(found)
    assert whole[left].sum() >= p - 1e-9  # enough
    assert whole[left].sum() - whole[left].min() < p + 1e-9  # and none of them too many
    assert whole[left].min() >= np.delete(whole, left).max(initial=0) - 1e-12
    np.testing.assert_allclose(found.sum(), 1)


def test_the_nucleus_at_its_edges() -> None:
    z = np.log(np.array([0.25, 0.5, 0.125, 0.125]))
    assert list(np.flatnonzero(Decoding(top_p=0.5).probabilities(z))) == [1]  # exactly reached
    assert list(np.flatnonzero(Decoding(top_p=0.51).probabilities(z))) == [0, 1]
    assert list(np.flatnonzero(Decoding(top_p=0.8).probabilities(z))) == [
        0,
        1,
        2,
    ]  # a tie: lower id
    assert (Decoding(top_p=1.0).probabilities(z) > 0).all()
    assert list(np.flatnonzero(Decoding(top_p=1e-9).probabilities(z))) == [1]  # never none
    # After top_k the probabilities are those of what is left.
    assert list(np.flatnonzero(Decoding(top_k=2, top_p=0.6).probabilities(z))) == [1]


def test_greedy_takes_the_lowest_of_equal_scores() -> None:
    chance = np.random.default_rng(0)
    before = chance.bit_generator.state
    assert Decoding(greedy=True).token(np.array([1.0, 3.0, 3.0]), chance) == 1
    assert list(Decoding(greedy=True).probabilities(np.zeros(3))) == [1, 0, 0]
    assert chance.bit_generator.state == before


def test_tokens_come_as_often_as_they_should() -> None:
    z, chance = np.log(np.array([0.1, 0.0001, 0.6, 0.2999])), np.random.default_rng(1)
    drawn = np.bincount([Decoding().token(z, chance) for _ in range(20_000)], minlength=4)
    np.testing.assert_allclose(drawn / 20_000, np.exp(z), atol=0.015)


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_a_token_left_out_is_never_drawn(seed: int, k: int) -> None:
    z = np.array([-np.inf, 2.0, -np.inf, 1.0, 2.0, -np.inf])
    token = Decoding(top_k=k).token(z, np.random.default_rng(seed))
    assert token in (1, 3, 4)
    assert k >= 3 or token != 3


class Last:
    """A generator that gives the greatest number below 1."""

    def random(self) -> float:
        return float(np.nextafter(1, 0))


def test_the_greatest_chance_draws_a_possible_token() -> None:
    z = np.array([0.0, 0.1, -np.inf])
    assert Decoding().token(z, Last()) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"temperature": 0}, "above 0"), ({"temperature": -1.0}, "above 0"),
        ({"temperature": float("nan")}, "above 0"), ({"temperature": float("inf")}, "above 0"),
        ({"temperature": "hot"}, "above 0"), ({"temperature": True}, "above 0"),
        ({"top_k": 0}, "top_k"), ({"top_k": 1.5}, "top_k"), ({"top_k": True}, "top_k"),
        ({"top_p": 0}, "top_p"), ({"top_p": 1.01}, "top_p"), ({"top_p": float("nan")}, "top_p"),
        ({"greedy": True, "top_k": 3}, "greedy"), ({"greedy": True, "temperature": 2}, "greedy"),
    ],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(VieteError, match=said):
        Decoding(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("z", [[np.nan, 1.0], [np.inf, 1.0], [-np.inf, -np.inf]])
@pytest.mark.parametrize("greedy", [False, True])
def test_scores_that_are_no_numbers_are_refused(z: list[float], greedy: bool) -> None:
    with pytest.raises(VieteError, match="scores"):
        Decoding(greedy=greedy).token(np.array(z), np.random.default_rng(0))
