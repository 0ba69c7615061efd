"""Page data is JSON, refers to what there is, has the run's values, and lets no script through."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from tests.explore.by_hand import decoded
from tests.laws.strategies import random_inputs, shipped, tiny
from viete.explore.data import page_data
from viete.explore.page_file import json_text, page_html

KEYS = re.compile(r'data-key="([^"]*)"')
WORD = "</script><script>alert(1)</script>"
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


SCALED = r"""# Scaled

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 3 |
| $d$ | 2 |
| $n$ | $≤ 4$ |

## Inputs

- $t ∈ \{0, …, V-1\}^n$

## Parameters

| symbol | shape | value |
| --- | --- | --- |
| $E$ | $V × d$ | [1 2; 0 1; 3 0] |

## Forward pass

1. $x = GELU_tanh(E[t])$
"""


def card_named(name: str) -> vt.Card:
    return tiny(next(path for path in shipped() if path.endswith(f"/{name}.md")))


@cache
def plain_page(name: str) -> tuple[Any, dict[str, Any]]:
    return page_of(card_named(name), meanings=[])


@cache
def exact_page() -> dict[str, Any]:
    card = vt.read("exact-lesson")
    return page_data(card.run([0, 1], card.initial_weights()))


def page_of(card: vt.Card, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A run of a card, and its page as it is read back."""
    run = card.run(inputs=random_inputs(card, n=2), weights=card.initial_weights())
    return run, json.loads(json.dumps(page_data(run, **options), allow_nan=False))


def test_a_constant_of_a_definition_is_a_number_in_intervals_too() -> None:
    """The π of GELU_tanh is an enclosure without axes."""
    assert "3.14159265358979" in json.dumps(page_of(vt.read(SCALED), meanings=["interval"])[1])


def test_steps_of_a_backward_pass_have_reasons_of_their_own() -> None:
    """They are not attention, although they have products and softmax in them."""
    _, data = plain_page("symbolic-transformer")
    forward = {s["why"] for s in data["steps"]}
    backward = data["backward"][1:]  # the first is the loss
    assert not forward & {s["why"] for s in backward}
    assert all(s["why"].startswith(("By the chain rule, from", "It is a part of equation "))
               for s in backward)  # fmt: skip
    assert all(s["title"].startswith(("The gradient of", "Compute")) for s in backward)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma2", "bert", "symbolic-transformer", "t5"])
def test_what_a_page_refers_to_is_there(name: str) -> None:
    run, data = plain_page(name)
    values, symbols = data["values"]["decimal"], data["symbols"]
    numbers = {e["number"] for e in [*data["equations"], *data["backward_equations"]]}
    for e in [*data["equations"], *data["backward_equations"]]:
        assert {e["key"], *e["reads"]} <= symbols.keys()
        assert set(KEYS.findall(e["math"])) <= symbols.keys()
    for s in symbols.values():
        assert {*s["made"], *s["used"]} <= numbers
    for step in [*data["steps"], *data["backward"]]:
        assert step["equation"] in numbers and {step["member"], *step["reads"]} <= values.keys()
        ids = {o["id"] for o in step["operations"]}
        for o in step["operations"]:
            assert o["value"] in values and o.get("within", o["id"]) in ids
            assert list(values[o["value"]]["shape"]) == [o["sizes"][a] for a in o["axes"]]
            for x in (x["value"] for x in o["operands"]):
                assert not isinstance(x, str) or x in values
                assert not isinstance(x, dict) or "operation" not in x or x["operation"] in ids
    assert set(KEYS.findall(data["document"])) <= symbols.keys() | {*run.program.model.derived}
    for key, v in values.items():
        assert len(v["axes"]) == len(v["labels"]) == len(v["shape"])
        if key in run.program.names:
            np.testing.assert_array_equal(
                decoded(v), np.asarray(run[key], float).reshape(v["shape"])
            )


def test_what_has_no_room_has_its_shape_and_is_listed() -> None:
    card = card_named("gpt2")
    run = card.run([1, 2], card.initial_weights())
    data = page_data(run, 1000, meanings=[])
    values = data["values"]["decimal"]
    out = data["limits"]["left_out"]
    assert out and all(("data" in v) == (key not in out) for key, v in values.items())
    assert values["logits"]["shape"] == [2, 11] and data["program"] is None
    assert sum(decoded(v).nbytes for v in values.values() if "data" in v) <= 1000


def test_exact_numbers_are_beside_the_decimals() -> None:
    card, data = vt.read("exact-lesson"), exact_page()
    exact = data["values"]["exact"]
    assert exact.keys() >= {s["member"] for s in data["steps"]}
    assert exact["logits"]["data"][:3] == ["1", "−1", "0"]
    assert data["values"]["decimal"].keys() >= exact.keys()
    lesson_steps = [s["equation"] for p in data["lesson"]["parts"] for s in p["steps"]]
    assert set(lesson_steps) <= {0, *(e["number"] for e in data["equations"])}
    again = page_data(card.run([0, 1], card.exact_weights, meaning="exact"))
    assert again["values"]["exact"] == exact


def test_a_lesson_s_references_are_members_and_symbols_of_the_page() -> None:
    """Each row of a line is one of the register; of a run that is not exact there are words."""
    for data in (exact_page(), page_of(card_named("gpt2"))[1]):
        text = json.dumps(data["lesson"]).replace('\\"', '"')
        values = data["values"]["decimal"]
        members = set(re.findall(r'data-member="([^"]+)"', text))
        exact = data["lesson"]["meaning"] == "exact"
        assert members <= values.keys() and bool(members) == exact
        steps = [s for p in data["lesson"]["parts"][1:] for s in p["steps"]]
        assert [s["member"] for s in steps] == [s["member"] for s in data["steps"]]
        assert "The model reads" in data["lesson"]["intro"][0] and data["lesson"]["closing"]
        assert any("reads" in x for p in data["lesson"]["parts"] for x in p["summary"])
        assert all(bool(s["sides"]) == exact for s in steps)


def test_a_gradient_has_its_value_beside_it() -> None:
    card = card_named("llama")
    _, data = page_of(card, of="logits_{-1,3}", meanings=[])
    by = {s["of"]: s["member"] for s in data["backward"] if "of" in s}
    assert {"x^2", "A^{1,g,r}", "W_U", "W_Q^{2,g,r}"} <= by.keys()
    values = data["values"]["decimal"]
    assert all(values[a]["shape"] == values[b]["shape"] for a, b in by.items() if a in values)
    assert np.abs(decoded(values[by["x^2"]])).max() > 0


class Elements(HTMLParser):
    """The elements of a page, and the texts of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_nothing_that_a_card_brings_is_a_script() -> None:
    card = vt.read("exact-lesson")
    text = (
        card.write("md").replace("letters as numbers", EVIL).replace("# Three", f"# {EVIL} Three")
    )
    text = text.replace("first residual", EVIL).replace("`a` `b`", f"`{WORD}` `b`")
    card = vt.read(text.replace("### Attention", f"### {EVIL}"))
    page = page_html(page_data(card.run([0, 1], card.initial_weights())))
    assert "alert(1)" in page and not re.search(r"<script>alert|<img", page)
    tags = Elements(page).found
    assert sum(tag == "script" for tag, _ in tags) == 3
    assert all(not name.startswith("on") for _, attrs in tags for name in attrs)
    data = page.split('id="page-data">')[1].split("</script>")[0]
    assert json.loads(data)["tokens"]["words"][0] == WORD


def test_half_a_character_is_written_as_its_number() -> None:
    text = json_text({"word": "\ud800<&>"})
    assert text.isascii() and "<" not in text and json.loads(text) == {"word": "\ud800<&>"}


def test_the_file_fetches_nothing(tmp_path: Any) -> None:
    file = tmp_path / "page.html"
    viete("explore", "exact-lesson", "--tokens", "a b", "-o", file)
    page = file.read_text("utf-8")
    assert len(page.encode()) < 700_000
    for tag, attrs in Elements(page).found:
        assert tag not in ("iframe", "object", "embed", "base")
        assert not attrs.get("src") and (attrs.get("href") or "#").startswith(("#", "data:"))
    assert not re.search(r"@import|url\((?!data:|#)", page.split("</style>")[0])


def test_a_page_is_of_one_text() -> None:
    card = vt.read("exact-lesson")
    with pytest.raises(vt.VieteError, match="one text"):
        page_data(card.run([[0, 1], [1, 0]], card.initial_weights()))
