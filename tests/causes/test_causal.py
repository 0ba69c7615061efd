"""Effects of other texts through values are what hooks give that are written by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import viete as vt
from tests.command_line import viete
from tests.model.small import small
from viete.ask.example_list import Example
from viete.causes.drawing_texts import drawn_beside
from viete.errors import VieteError

NUMBER = "logits_{-1,5} - logits_{-1,3}"
PAIRS = [{"text": [7, 3, 9, 4, 1], "against": [7, 3, 2, 4, 8]},
         {"text": [1, 1, 6, 0, 2], "against": [4, 1, 6, 12, 2]}]  # fmt: skip
TEXTS = [[7, 3, 9, 4, 1], [7, 3, 2, 4, 8], [1, 1, 6, 0, 2], [5, 2], [3, 9]]
SMALL = "gpt2 --set V=13 --set d=8 --set N=2 --set H=2 --set n_max=32 --seed 1".split()


def hooked(model: vt.Model, text: list[int], name: str, value: Any) -> float:
    """The number of a text with a value of another in its place, by a hook."""
    logits = model.card.run(text, model.weights, put={name: lambda _: value})["logits"]
    return float(logits[-1, 5] - logits[-1, 3])


@pytest.mark.parametrize("name", ["gpt2", "pythia", "gemma2", "mixtral"])
def test_effects_are_those_of_hooks(name: str) -> None:
    model = small(name)
    found = model.mediation(NUMBER, "m^i", PAIRS)
    assert found.direct is not None and found.letters == {"i": [1, 2, 3]}
    for k, pair in enumerate(PAIRS):
        here, there = (model.run(pair[x]) for x in ("text", "against"))
        for i in (1, 2, 3):
            inner = hooked(model, pair["text"], f"m^{i}", there[f"m^{i}"]) - here[NUMBER]
            outer = hooked(model, pair["against"], f"m^{i}", here[f"m^{i}"]) - here[NUMBER]
            assert found.indirect[k, i - 1] == pytest.approx(inner, abs=1e-10)
            assert found.direct[k, i - 1] == pytest.approx(outer, abs=1e-10)
    total = np.mean([model.run(p["against"])[NUMBER] - model.run(p["text"])[NUMBER] for p in PAIRS])
    assert found.total == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_a_head_is_its_pattern_and_its_values(name: str) -> None:
    """Both changed together is what the head writes; all of the stream is the whole effect."""
    model = small(name)
    whole = model.mediation(NUMBER, "x^0", PAIRS)
    np.testing.assert_allclose(whole.indirect, whole.other - whole.base, atol=1e-10)
    np.testing.assert_allclose(whole.direct, 0 * whole.base, atol=1e-10)
    by = "A^{i,h}" if name == "gemma2" else "A^{i,h}, V^{i,h}"
    found = model.mediation(NUMBER, by, PAIRS[:1])
    here, there = (model.run(PAIRS[0][x]) for x in ("text", "against"))
    for (place, letters), _ in zip(found.members(), range(3), strict=False):
        changed = model.put(*found.mediators.equations(letters), against=there)
        expected = changed.run(PAIRS[0]["text"])[NUMBER] - here[NUMBER]
        assert found.indirect[0][place] == pytest.approx(expected, abs=1e-10)


def test_effects_are_those_of_hooks_in_pytorch() -> None:
    """On a module written by hand, whose heads have forward hooks."""
    model = small("attention-only-2")
    weights = {name: torch.as_tensor(w) for name, w in model.weights.items()}

    class Head(torch.nn.Module):
        def __init__(self, i: int, h: int) -> None:
            super().__init__()
            self.q, self.k, self.v, self.o = (weights[f"W_{x}^{{{i},h}}"][h] for x in "QKVO")

        def forward(self, x: Any) -> Any:
            scores = (x @ self.q) @ (x @ self.k).T
            mask = torch.ones_like(scores).tril() == 0
            return scores.masked_fill(mask, -torch.inf).softmax(-1) @ (x @ self.v) @ self.o

    heads = [[Head(i, h) for h in range(6)] for i in (1, 2, 3)]

    def number(ids: list[int], put: tuple[int, int, Any] | None = None) -> Any:
        seen: dict[tuple[int, int], Any] = {}
        handles = []
        for i, layer in enumerate(heads):
            for h, head in enumerate(layer):

                def hook(_: Any, __: Any, out: Any, at: tuple[int, int] = (i, h)) -> Any:
                    seen[at] = out
                    return put[2] if put is not None and put[:2] == at else None

                handles.append(head.register_forward_hook(hook))  # fmt: skip
        x = weights["W_E"][torch.tensor(ids)]
        for layer in heads:
            x = x + sum(head(x) for head in layer)
        logits = (x @ weights["W_U"])[-1]
        for handle in handles:
            handle.remove()
        return float(logits[5] - logits[3]), seen

    found = model.mediation(NUMBER, "r^{i,h}", PAIRS)
    assert found.direct is not None
    for j, pair in enumerate(PAIRS):
        (base, own), (_, other) = (number(pair[x]) for x in ("text", "against"))
        for i, h in own:
            inner = number(pair["text"], (i, h, other[i, h]))[0] - base
            outer = number(pair["against"], (i, h, own[i, h]))[0] - base
            assert found.indirect[j, i, h] == pytest.approx(inner, abs=1e-10)
            assert found.direct[j, i, h] == pytest.approx(outer, abs=1e-10)


def test_a_value_is_resampled_among_texts_of_its_length() -> None:
    model = small("gpt2")
    found = model.resample(NUMBER, "m^i", TEXTS, draws=2, seed=4)
    pairs = drawn_beside([Example(np.array(x)) for x in TEXTS], 2, 4)
    assert len(pairs) == 10 and all(a != b and len(TEXTS[a]) == len(TEXTS[b]) for a, b in pairs)
    for k, (a, b) in enumerate(pairs):
        values = model.run(TEXTS[b])
        for i in (1, 3):
            expected = hooked(model, TEXTS[a], f"m^{i}", values[f"m^{i}"])
            assert found.base[k] + found.indirect[k, i - 1] == pytest.approx(expected, abs=1e-10)
    again = model.resample(NUMBER, "m^i", TEXTS, draws=2, seed=4)
    np.testing.assert_array_equal(found.indirect, again.indirect)
    assert found.direct is None and "resampled" in str(found)


def test_the_command(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("".join(json.dumps(p | {"right": 5}) + "\n" for p in PAIRS))
    asked = ("cause", *SMALL, "--of", "logits_{-1,right}", "--by", "A^{i,h}", "--texts", pairs)
    said = viete(*asked).out
    assert "logits_{-1,right} with A^{i,h} = A'^{i,h}" in said and "+ A^{i,h} = where(i =" in said
    rows = list(csv.DictReader(viete(*asked, "-f", "csv").out.splitlines()))
    assert len(rows) == 4 and {"i", "h", "value", "indirect", "error", "direct"} == {*rows[0]}
    drawn = ("cause", *SMALL, "--of", NUMBER, "--by", "m^i", "--texts", pairs)
    data = json.loads(viete(*drawn, "--resample", 2, "-f", "json").out)
    assert np.shape(data["indirect"]) == (4, 2) and data["direct"] is None
    assert viete(*drawn, "--resample", 2, "-f", "svg").out.startswith("<svg")
    assert "<svg" in viete(*asked, "-f", "html").out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "A^{i,h}"], "text 1 has no second text"),
        (["--by", "W_E", "--resample", "1"], "<by>:1:1: a mediator is a value"),
        (["--by", "q", "--resample", "1"], "unknown symbol q"),
        (["--by", "A^{i,h}", "--resample", "0"], "--resample"),
        (["--of", "logits_{-1}", "--by", "m^i", "--resample", "1"], "one number of each text"),
        ([], "name the values to take from another text: --by"),
    ],
)
def test_what_has_no_effect(options: list[str], message: str) -> None:
    of = [] if "--of" in options else ["--of", NUMBER]
    assert message in viete("cause", *SMALL, *of, "--texts", "repeated(4)", *options, code=2).err


def test_a_pair_of_two_lengths() -> None:
    model, pairs = small("gpt2"), [{"text": [1, 2, 3], "against": [4, 5]}]
    with pytest.raises(VieteError, match="the text has 3 tokens and the one against it 2"):
        model.mediation("logits_{-1, 2}", "A^{i,h}", pairs)
    found = model.mediation("logits_{-1, 2}", "x^i_{-1}", pairs)
    np.testing.assert_allclose(found.indirect[0, -1], found.total, atol=1e-12)


def test_a_text_without_another_of_its_length() -> None:
    with pytest.raises(vt.VieteError, match="text 3 has 1 tokens and no other text has"):
        small("gpt2").resample(NUMBER, "m^i", [[1, 2], [3, 4], [5]])
    with pytest.raises(vt.VieteError, match="different positions on texts of different lengths"):
        pairs = [*PAIRS, {"text": [1, 2], "against": [3, 4]}]
        small("gpt2").mediation(NUMBER, "x^i_j", pairs)
