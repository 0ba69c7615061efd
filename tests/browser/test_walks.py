"""A reader changes this and that on a page, in any order: every number shown is Python's.

`make browser` runs these. Text, weights, choices, switches, training, undo, exact or decimal,
forwards or backwards; what a change that fails would have changed stays as it was.
"""

from __future__ import annotations

import json
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.test_explore import ask
from tests.browser.test_javascript import close, size
from tests.browser.test_page_edits import PART, given_inputs
from tests.code.exported import bound, made_inputs, made_weights
from tests.command_line import viete
from viete.analysis.next_token import text_of
from viete.evaluate.execution import execute
from viete.evaluate.schedule import program
from viete.explore.data import page_data
from viete.explore.differentiated import default_of
from viete.explore.page_file import page_html
from viete.explore.reruns import backward_run
from viete.nouns.card import Card
from viete.rewrite.choices import choices, chosen

pytestmark = pytest.mark.browser
WALK = Path(__file__).with_name("walk.js").read_text("utf-8")
CARDS = ("dialog-transformer", "exact-lesson", "gpt2", "bert", "t5", "gemma2")


@pytest.mark.parametrize("name", CARDS)
def test_a_walk(name: str, tmp_path: Path) -> None:
    card, seed = bound(name), CARDS.index(name) + 1
    weights, inputs = made_weights(card), given_inputs(card, made_inputs(card))
    page = tmp_path / "page.html"
    data = page_data(card.run(None, weights, **inputs), room=2**40)
    page.write_text(page_html(data), "utf-8")
    for found in ask(page, f"const SEED = {seed}, ACTS = 12;\n{WALK}"):
        hold(card, weights, inputs, found)


def test_a_change_that_fails_leaves_the_others(tmp_path: Path) -> None:
    """The text is as long as it may be; going on fails, and the next change does not."""
    page = tmp_path / "page.html"
    viete("explore", "dialog-transformer", "-t", "3,1", "--seed", 1, "--set", "d=4", "--set",
          "n_max=3", "-o", page)  # fmt: skip
    found = ask(page, """
        const tiles = () => all(".tokens li").length;
        for (let k = 0; k < 3; k++) { all(".edit-tokens button")[1].click(); await soon(); }
        const out = {refused: one(".v-note").textContent, tiles: tiles()};
        one(".v-symbols tr[data-key=b_out] button").click();
        main().querySelector("[data-name=numbers]").click();
        main().querySelector('td[data-at="1"]').click();
        const input = one(".v-entry input, .v-values .field input");
        input.value = "0.5"; input.dispatchEvent(new Event("change")); await soon();
        return {...out, after: tiles(), cell: cells()[1], note: one(".v-note").textContent};
    """)  # fmt: skip
    assert found["refused"] == "t is 4 long, and n is at most 3"
    assert found["tiles"] == found["after"] == 3 and found["cell"] == "0.5"
    assert found["note"] == "Everything was computed again"


def test_training_begins_with_the_weights_at_hand(tmp_path: Path) -> None:
    """After an undo it begins with the weights of the page again; one token teaches nothing."""
    page = tmp_path / "page.html"
    viete("explore", "dialog-transformer", "-t", "3,1,4", "--seed", 1, "--set", "d=4", "--set",
          "n_max=4", "-o", page)  # fmt: skip
    found = ask(page, """
        const write = async (text) => {
          one(".edit-tokens input").value = text;
          one(".edit-tokens button").click();
          await soon(); };
        const train = async (ms) => {
          one(".play").click(); await new Promise((done) => setTimeout(done, ms));
          if (one(".play").textContent === "Pause") one(".play").click();
          await soon(); };
        const curve = () => one(".v-training svg").ariaLabel.match(/m (\\S+) to (\\S+)/).slice(1);
        await train(300);
        const first = curve();
        one(".undo").click(); await soon();
        one(".v-training input").value = "0"; // the weights stay
        await train(100);
        const then = curve();
        await write("5"); one(".v-note").textContent = ""; await train(100);
        return {first, then, note: one(".v-note").textContent, play: one(".play").textContent};
    """)  # fmt: skip
    (begun, ended), (again, still) = found["first"], found["then"]
    assert begun == again == still != ended
    assert found["note"].startswith("Training needs") and found["play"] == "Train"


def test_a_card_without_tokens_has_no_field_for_them(tmp_path: Path) -> None:
    card, page = tmp_path / "card.md", tmp_path / "page.html"
    card.write_text("# Twice\n## Dimensions\n| symbol | value |\n| --- | --- |\n| $d$ | 2 |\n"
                    "## Inputs\n- $x ∈ ℝ^d$\n## Forward pass\n1. $y = 2 x$\n", "utf-8")  # fmt: skip
    viete("explore", card, "-t", "1,2", "-o", page)
    found = ask(page, """return {fields: all(".v-header input").length, y: cells()};""")
    assert found == {"fields": 0, "y": ["2", "4"]}


SPELLED = """
import { read, spelled } from %r;
const names = spelled(%s);
console.log(JSON.stringify([names, read(names.join(" "), names)]));
"""


def test_every_token_can_be_typed() -> None:
    """White and doubled ones too, as those of byte pairs are."""
    words = ["a", " a", "\n", " ", ",", "", "\ufffd", "\ufffd", "7", "\t\t", "\u00a0", "␣a", "#7"]
    source = SPELLED % (str(Path("page/src/spelling.js").resolve()), json.dumps(words))
    made = subprocess.run(["node", "--input-type=module", "-e", source], capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    assert made.returncode == 0, made.stderr
    names, found = json.loads(made.stdout)
    assert found == {"ids": list(range(len(words)))} and len({*names}) == len(words)
    assert names[:5] == ["a", "␣a", "↵", "␣", ","]


def hold(card: Any, weights: Any, inputs: Any, found: dict[str, Any]) -> None:
    """What a page shows is the run of what was changed on it."""
    where = ", ".join(found["acts"])
    known = {c.name: c for c in choices(card)}
    open_ = {known[k]: Fraction(repr(x)) if known[k].is_number else x
             for k, x in found["choices"].items() if k in known}  # fmt: skip
    model = chosen(
        card.bind(**{k: x for k, x in found["choices"].items() if k not in known}), open_
    )
    if found["put"]:
        model = Card.of(model).put(*found["put"])
    own = {k: np.array(x, float).reshape(weights[k].shape) for k, x in found["weights"].items()}
    text = text_of(card).name
    ids = found["ids"] if found["ids"] is not None else inputs[text]
    run = execute(
        program(model), {**inputs, text: np.asarray(ids)}, {**weights, **own}, again=False
    )
    if found["backward"]:
        run = backward_run(run, default_of(model))
    gradients = [k for k in found["backward"] if "∂" in k and not PART.match(k)]
    largest = max((size(run[k]) for k in gradients), default=0.0)
    assert found["forward"] and None not in found["forward"].values(), where
    for key, value in {**found["forward"], **found["backward"]}.items():
        if value is not None and not PART.match(key):
            wanted = np.asarray(run[key], float)
            scale = max(size(wanted), largest if key in gradients else 0.0)
            shown = np.array(value, float).reshape(wanted.shape)
            close(shown, wanted, scale, f"{key} after {where}")
