"""Batches: pure functions of the seed and their number, that hold what the data says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viete as vt
from viete.errors import VieteError
from viete.text.data import Documents, read_data
from viete.text.vocabulary import Characters, Vocabulary, make_vocabulary
from viete.train.batches import Batches, EpochOrder, random_numbers
from viete.train.fitting import with_loss, with_loss_weights, with_vocabulary
from viete.train.floor import loss_floor
from viete.train.settings import Settings
from viete.train.tokens import Tokens, tokenize

DIALOGS = read_data("dialogs")
V30 = make_vocabulary(DIALOGS)
CARD = vt.read("dialog-transformer")
PLAIN = with_vocabulary(CARD, 30)
WEIGHTED = with_loss_weights(PLAIN)
SHAKESPEARE = Path("../shared/data/tinyshakespeare.txt")


def batches(
    card: vt.Card, data: Documents | Tokens, v: Vocabulary, batch: int, length: int | None = None,
    seed: int = 0, part: str = "train", **settings: Any,
) -> Batches:  # fmt: skip
    tokens = data if isinstance(data, Tokens) else tokenize(data, v)
    chosen = Settings(batch=batch, length=length, seed=seed, **settings)
    return Batches(card, tokens, v, chosen, part)


def flat(count: int, size: int = 10) -> tuple[Tokens, Vocabulary, vt.Card]:
    """0, 1, 2, … counted round, so that a window says where it came from."""
    ids = np.arange(count) % size
    v = Characters([chr(97 + k) for k in range(size)])
    return Tokens(ids, None, None, "s", "v", size, "flat"), v, with_vocabulary(CARD, size)


# Windows ------------------------------------------------------------------------------------------


@given(st.integers(30, 300), st.integers(1, 5), st.integers(1, 8), st.integers(0, 10**9),
       st.integers(0, 10**9))  # fmt: skip
def test_windows(count: int, batch: int, length: int, seed: int, k: int) -> None:
    """Targets are the tokens one further, no part sees the other's tokens, and k is all."""
    data, v, model = flat(count, count)
    held = max(length + 1, count // 3)
    share = held / count
    for part in ("train", "validation"):
        b = batches(model, data, v, batch, length, seed, part, validation=share)
        made = b.batch(k)
        assert made["t"].shape == made["y"].shape == (batch, length)
        assert made["t"].dtype == made["y"].dtype == np.int64
        assert (made["y"] == made["t"] + 1).all()
        cut = int(count * (1 - share))
        low, high = (0, cut) if part == "train" else (cut, count)
        assert (made["t"] >= low).all() and (made["y"] < high).all()
        again = batches(model, data, v, batch, length, seed, part, validation=share)
        again.batch(k + 1)
        assert all((again.batch(k)[name] == made[name]).all() for name in made)
        rows = [b.batch(k, slice(r, None, 2)) for r in range(min(2, batch))]
        assert sorted(x["t"][j, 0] for x in rows for j in range(len(x["t"]))) == sorted(
            made["t"][:, 0]
        )


@given(st.lists(st.text("abc", min_size=2, max_size=7), min_size=4, max_size=9),
       st.integers(1, 4), st.booleans())  # fmt: skip
def test_lines(tmp_path_factory, lines, batch, weighted) -> None:  # type: ignore[no-untyped-def]
    """Each line is a sequence from position 0, once an epoch; shorter ones are padded, or wait."""
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_text("\n\n".join(lines), "utf-8")
    data = read_data(path, "lines")
    v = make_vocabulary(data)
    model = with_vocabulary(WEIGHTED if weighted else PLAIN, len(v))
    b = batches(model, data, v, batch, 7, validation=0)
    seen = []
    for k in range(b.epoch):
        made = b.batch(k)
        for row in range(len(made["t"])):
            n = int(made["w"][row].sum()) if weighted else made["t"].shape[1]
            seen.append(v.decode([*made["t"][row, :n], made["y"][row, n - 1]]))
    assert sorted(seen) == sorted(lines)
    with pytest.raises(VieteError, match="no assistant"):
        batches(model, data, v, batch, loss_on="assistant")
    if (longest := max(map(len, lines))) > 2:
        with pytest.raises(
            VieteError, match="lines are not cut: make the context longer with --length"
        ):
            batches(model, data, v, batch, longest - 2, validation=0)


def test_every_place_is_drawn() -> None:
    data, v, model = flat(40, 40)
    b = batches(model, data, v, 8, 4, validation=0)
    seen = Counter(int(x) for k in range(500) for x in b.batch(k)["t"][:, 0])
    assert sorted(seen) == list(range(36))  # the last window begins at 35 and ends at 39
    assert max(seen.values()) < 2 * min(seen.values())
    other = batches(model, data, v, 8, 4, seed=1, validation=0)
    assert any((b.batch(k)["t"] != other.batch(k)["t"]).any() for k in range(3))


def test_the_stream_is_the_same_everywhere() -> None:
    """Recorded: a run resumes to the same losses with another version of NumPy too."""
    assert random_numbers(7, 0, 3, 2).tolist() == [4984240537714540297, 16159351496983298522]


@pytest.mark.skipif(not SHAKESPEARE.exists(), reason="tinyshakespeare is not there")
def test_tinyshakespeare_is_split_as_nanogpt_does(tmp_path: Path) -> None:
    documents = read_data(SHAKESPEARE)
    v = make_vocabulary(documents)
    assert len(v) == 65 and not documents.dialogs
    data = tokenize(documents, v, tmp_path)
    b = batches(with_vocabulary(CARD, 65), data, v, 12, 64)
    assert (b.first, b.last) == (0, 1_003_854)
    b = batches(with_vocabulary(CARD, 65), data, v, 12, 64, part="validation")
    assert (b.first, b.last) == (1_003_854, 1_115_394)
    assert v.decode(b.data.ids[:14]) == "First Citizen:"


def test_weights_of_plain_text() -> None:
    """All ones, left out where that is what the card takes by default."""
    data, v, model = flat(100)
    model = with_loss_weights(model)
    assert set(batches(model, data, v, 2, 5).batch(0)) == {"t", "y"}
    card = model.write().replace("^n = 1$", "^n$")
    made = batches(vt.read(card), data, v, 2, 5).batch(0)
    assert made["w"].tolist() == [[1] * 5] * 2


# Dialogs ------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 6), min_size=1, max_size=40), st.integers(1, 7), st.booleans(),
       st.integers(0, 99))  # fmt: skip
def test_each_once_an_epoch(lengths: list[int], size: int, mixed: bool, seed: int) -> None:
    order = EpochOrder(np.array(lengths), size, mixed, seed, 0)
    for epoch in range(3):
        batches = [order.batch(epoch * len(order) + k) for k in range(len(order))]
        assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
        for which in batches:
            assert 1 <= len(which) <= size
            assert mixed or len({lengths[j] for j in which}) == 1
    fresh = EpochOrder(np.array(lengths), size, mixed, seed, 0)
    k = 2 * len(order)
    assert (fresh.batch(k) == order.batch(k)).all()


def test_epochs_differ() -> None:
    order = EpochOrder(np.full(50, 3), 5, False, 0, 0)
    assert any((order.batch(k) != order.batch(k + 10)).any() for k in range(10))


def test_dialogs_begin_at_position_0() -> None:
    b = batches(PLAIN, DIALOGS, V30, 3)
    said = {str(d) for d in DIALOGS.conversations()}
    assert b.epoch == 3  # three lengths, and a card that cannot be told where a padded one ends
    found = set()
    for k in range(3):
        t, y = b.batch(k)["t"], b.batch(k)["y"]
        assert t.shape[0] == 1
        found.add(V30.decode(t[0]) + V30.decode(y[0, -1:]))
    assert found == said


def test_padding_changes_no_loss() -> None:
    """A padded batch's losses are those of each dialog alone, on all tokens or on the answers."""
    weights = WEIGHTED.initial_weights(0)
    for loss_on in ("all", "assistant"):
        b = batches(WEIGHTED, DIALOGS, V30, 3, loss_on=loss_on)
        assert b.epoch == 1
        made = b.batch(0)
        assert made["t"].shape == (3, 90)
        losses = WEIGHTED.run(made["t"], weights, y=made["y"], w=made["w"])["L"]
        for row, dialog in enumerate(sorted(DIALOGS.conversations(), key=lambda d: len(str(d)))):
            ids = V30.encode(str(dialog))
            own = made["w"][row][: len(ids) - 1]
            assert not made["w"][row][len(ids) - 1 :].any()
            if loss_on == "assistant":
                assert V30.decode(ids[1:][own == 1]) == dialog.answer
            else:
                assert own.all()
            logits = WEIGHTED.run(ids[:-1], weights)["logits"]
            nll = np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(own)), ids[1:]]
            np.testing.assert_allclose(losses[row], nll[own == 1].mean(), rtol=1e-12)


@pytest.mark.parametrize(
    "term", ["mean_{j=0}^{n - 1}(logsumexp(logits_j)^2)", "sum(softmax(logits)_0)", "n"]
)
def test_no_term_of_a_loss_counts_padding(term: str) -> None:
    """A loss that has more of the text in it than its cross-entropy takes dialogs of one length."""
    text = PLAIN.write().replace("$L = ", f"$L = 1e-4 * {term} + ")
    model = with_loss_weights(vt.read(text))
    b = batches(model, DIALOGS, V30, 3)
    assert [len(b.batch(k)["t"]) for k in range(b.epoch)] == [1, 1, 1]
    kept = vt.read(WEIGHTED.write().replace("$L = ", "$L = 1e-4 * sum(b_{out}^2) + "))
    assert kept != WEIGHTED and batches(kept, DIALOGS, V30, 3).epoch == 1


def test_a_card_that_sees_all_is_never_padded() -> None:
    encoder = with_loss(with_vocabulary(vt.read("formal-encoder"), 30))
    b = batches(with_loss_weights(encoder), DIALOGS, V30, 3)
    assert [b.batch(k)["x"].shape[0] for k in range(3)] == [1, 1, 1]


def many_dialogs(path: Path, count: int) -> Documents:
    path.write_text("".join(
        f"User: <user>{k}</user>\nAssistant: <assistant>{k * k}</assistant>\nEnd: <eot>\n"
        for k in range(count)
    ))  # fmt: skip
    return read_data(path)


def test_the_last_dialogs_are_set_aside(tmp_path: Path) -> None:
    data = many_dialogs(tmp_path / "d.txt", 25)
    v = make_vocabulary(data)
    model = with_loss_weights(with_vocabulary(CARD, len(v)))
    tokens = tokenize(data, v)
    train = batches(model, tokens, v, 4)
    held = batches(model, tokens, v, 4, part="validation")
    assert (train.first, train.last, held.first, held.last) == (0, 23, 23, 25)
    asked = "".join(V30.decode([]) + v.decode(row) for k in range(held.epoch)
                    for row in held.batch(k)["t"])  # fmt: skip
    assert "<user>23</user>" in asked and "<user>24</user>" in asked and held.epoch == 1


# Resuming -----------------------------------------------------------------------------------------


def test_state_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("abcde" * 100)
    v = Characters("abcde")
    model = with_vocabulary(CARD, 5)

    def made(**options) -> Batches:  # type: ignore[no-untyped-def]
        return batches(model, read_data(path), v, **{"batch": 2, "length": 8, **options})

    state = json.loads(json.dumps(made().state))
    made().check(state)
    for name, value, said in (
        ("batch", 3, "with batch 2, .* not with 3"),
        ("length", 9, "with length 8, .* not with 9"),
        ("seed", 1, "with seed 0"),
        ("part", "validation", "with part train"),
        ("validation", 0.2, "with validation 0.1"),
    ):
        with pytest.raises(VieteError, match=said):
            made(**{name: value}).check(state)
    path.write_text("abcde" * 90)
    with pytest.raises(VieteError, match=r"a\.txt: the data has shrunk, from 500 bytes to 450"):
        made().check(state)
    path.write_text("abcde" * 110)
    with pytest.raises(VieteError, match="grown, from 500 bytes to 550"):
        made().check(state)
    path.write_text("abced" * 100)
    with pytest.raises(VieteError, match="the data has changed, since this run began"):
        made().check(state)
    v = Characters("abced")
    with pytest.raises(VieteError, match="began with another vocabulary"):
        made().check(state)


# Bad input ----------------------------------------------------------------------------------------


def refused(message: str, model: vt.Card, data: Documents | Tokens, v: Vocabulary, *a, **k) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(VieteError, match=message):
        batches(model, data, v, *a, **k)


def test_what_does_not_fit() -> None:
    data, v, model = flat(100)
    refused("has a context of 512 tokens, and not 513", model, data, v, 1, 513)
    refused(
        "train part has 90 tokens, and a window takes 91; .* smaller --length$",
        model,
        data,
        v,
        1,
        90,
    )
    refused("validation part has 10 tokens.* or hold none out with --validation 0$",
            model, data, v, 1, 20, part="validation")  # fmt: skip
    refused("has a vocabulary of 37, and the data needs 70", CARD, data, flat(100, 70)[1], 1, 8)
    refused("is plain text, so it has no assistant", model, data, v, 1, 8, loss_on="assistant")
    refused("--loss-on is one of all, assistant, not user", model, data, v, 1, 8, loss_on="user")
    refused("part must be 'train' or 'validation'", model, data, v, 1, 8, part="test")
    refused("--batch is a whole number from 1, not 0", model, data, v, 0, 8)
    refused("--length is a whole number from 1, not 0", model, data, v, 1, 0)
    refused("share of the data", model, data, v, 1, 8, validation=1.5)
    refused("needs an input of weights w", PLAIN, DIALOGS, V30, 1, loss_on="assistant")
    refused("too few to set some aside", PLAIN, DIALOGS, V30, 1, part="validation")
    refused("dialog 3 has 90 tokens before its last, and Dialog transformer takes 85",
            PLAIN, DIALOGS, V30, 1, 85)  # fmt: skip


# The floor ----------------------------------------------------------------------------------------


def least(given: Batches, steps: int) -> float:
    """The mean loss over batches of a table of how often each token follows each prefix."""
    seen: dict[tuple[int, ...], Counter[int]] = {}
    targets_in_all = 0.0
    for k in range(steps):
        batch = given.batch(k)
        t, y = (batch[x] for x in (given.takes.tokens, given.takes.targets or ""))
        w = batch.get(given.takes.weights or "", np.ones(t.shape))
        for tokens, targets, weights in zip(t.tolist(), y.tolist(), w.tolist(), strict=True):
            targets_in_all += sum(weights)
            for j, (target, weight) in enumerate(zip(targets, weights, strict=True)):
                if weight:
                    found = seen.setdefault(tuple(tokens[: j + 1]), Counter())
                    found[target] += weight
    costs = (m * np.log(sum(c.values()) / m) for c in seen.values() for m in c.values())
    return float(sum(costs)) / targets_in_all


@pytest.mark.parametrize("loss_on", ["all", "assistant"])
def test_the_floor_of_dialogs_is_what_a_table_of_their_prefixes_reaches(loss_on: str) -> None:
    b = batches(WEIGHTED, DIALOGS, V30, 2, loss_on=loss_on)
    floor = loss_floor(b)
    assert floor is not None and np.isclose(floor, least(b, b.epoch), rtol=1e-12)


@given(st.lists(st.integers(0, 2), min_size=12, max_size=60), st.integers(1, 6))
def test_the_floor_of_windows_is_the_entropy_of_what_follows(ids: list[int], length: int) -> None:
    tokens = Tokens(np.array(ids), None, None, "s", "v", len(ids), "some")
    b = batches(with_vocabulary(CARD, 3), tokens, Characters(["a", "b", "c"]), 1, length,
                validation=0.0)  # fmt: skip
    found: dict[tuple[int, ...], Counter[int]] = {}
    for start in range(len(ids) - length):
        for j in range(start, start + length):
            found.setdefault(tuple(ids[start : j + 1]), Counter())[ids[j + 1]] += 1
    costs = (m * np.log(c.total() / m) for c in found.values() for m in c.values())
    floor = loss_floor(b)
    assert floor is not None
    assert np.isclose(floor, sum(costs) / (length * (len(ids) - length)), atol=1e-12)


def test_a_card_that_looks_ahead_has_no_floor() -> None:
    text = read_data("dialogs")
    model = PLAIN.put("A = softmax(S)")
    assert loss_floor(batches(model, text, V30, 2)) is None
