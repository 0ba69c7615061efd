"""What a page computes after an edit is what Python computes of the changed model, in Node.

`make browser` runs these. A text, weights, ε, a temperature, a mask, what is switched off: all
values and gradients.
"""

from __future__ import annotations

import json
import re
import subprocess
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import viete as vt
from tests.browser.javascript import arrays
from tests.browser.test_javascript import close, size
from tests.code.exported import bound, made_inputs, made_weights
from tests.command_line import viete as command
from tests.laws.strategies import cards, shipped
from viete.analysis.next_token import text_of
from viete.errors import Text
from viete.evaluate.execution import execute
from viete.evaluate.schedule import program
from viete.explore.data import page_data
from viete.explore.differentiated import default_of
from viete.explore.reruns import backward_run, with_open_targets
from viete.notation.printer import show_equation
from viete.rewrite.choices import EquationChoice, choices, chosen
from viete.rewrite.put import put as put_in
from viete.text.data import read_data

pytestmark = pytest.mark.browser
RUN = Path(__file__).with_name("page.mjs")
PART = re.compile(r"∂?([A-Z]|hat\{\w+\})_\{?\d")  # of gradients: any name will do
DIALOGS = resources.files("viete.text").joinpath("shipped/dialogs.txt").read_text("utf-8")
NAMES = [Path(path).stem for path in shipped()]
Settings = dict[EquationChoice, Fraction | bool]


def edited(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What pages show after edits, see `page.mjs`."""
    made = subprocess.run(["node", RUN], input=json.dumps(requests), capture_output=True,
                          text=True, timeout=300)  # fmt: skip
    assert made.returncode == 0, made.stderr
    return [{k: arrays(x) for k, x in one.items()} for one in json.loads(made.stdout)]


class Edit:
    """A page of a card, and what a reader changes on it: the text, a weight, ε, choices."""

    def __init__(self, name: str, card: vt.Card, weights: dict[str, Any], inputs: dict[str, Any],
                 put: Settings) -> None:  # fmt: skip
        self.name, text = name, text_of(card).name
        run = card.run(None, weights, **inputs)
        self.data = page_data(run, meanings=[], room=2**40)
        constants = {c["name"]: 0.25 for c in self.data["choices"] if c["value"] < 0.1}  # ε
        changed = next(iter(weights))
        self.weights = {**weights, changed: np.cos(np.arange(weights[changed].size)
                                                   ).reshape(weights[changed].shape)}  # fmt: skip
        self.inputs = {**inputs, text: np.asarray(inputs[text])[::-1]}
        self.equations = chosen(run.program.model.bind(**constants), put)
        self.off = off = switched_off(self.data)
        self.model = put_in(self.equations, map(Text, off))
        numbers = {e["number"]: e["key"] for part in ("equations", "backward_equations")
                   for e in self.data[part]}  # fmt: skip
        self.names = {s["member"]: numbers[s["equation"]]
                      for part in ("steps", "backward") for s in self.data[part]}  # fmt: skip
        self.edits = {
            "before": [{"put": off[1:]}, None, {"put": off[::-1]}],
            "ids": self.inputs[text].tolist(), "text": None, "put": off,
            "parameters": {changed: self.weights[changed].ravel().tolist()},
            "choices": constants | {c.name: float(x) if c.is_number else x for c, x in put.items()},
        }  # fmt: skip

    def hold(self, found: dict[str, Any]) -> None:
        """The page shows the values, gradients and equations of the changed model."""
        assert "error" not in found, f"{self.name}: {found['error']}"
        run = execute(program(self.model), self.inputs, self.weights, again=False)
        if self.data["backward"]:
            run = backward_run(run, default_of(self.model))
        # Where 0 is put in, some derivatives are none of Python's, and some parts have other names.
        names = {e.name for e in run.program.model.equations}
        shown = {k: x for k, x in found["values"].items() if not PART.match(k) and not
                 (self.off and self.names[k] not in names)}  # fmt: skip
        largest = max([size(run[k]) for k in shown if "∂" in k], default=0.0)
        for key, value in shown.items():
            assert value is not None, f"{self.name}: {key}"
            scale = max(size(run[key]), largest if "∂" in key else 0.0)
            close(value, run[key], scale, f"{self.name}: {key}")
        for e in self.equations.equations:
            assert show_equation(e.left, e.right, "latex") in found["equations"], self.name


def switched_off(data: dict[str, Any]) -> list[str]:
    """Changes of a page's values to 0: all of a value, one of its heads, a row, an entry."""
    off = list[str]()
    for k, switch in enumerate(data["program"]["switches"]):
        steps = [s for s in data["steps"] if s["equation"] == switch["equation"]]
        step = steps[k % len(steps)]
        member, axes = step["member"], data["values"]["decimal"][step["member"]]["axes"]
        for letter in axes[:-2][: 1 + (k % 4 < 3)]:
            member = re.sub(rf"(?<=[,{{_^]){letter}(?=[,}}]|$)", "1", member)
        places = ("", "[1]", "[1, 0]")[k % 3 if len(axes) > 1 else 0]
        off.append(f"{member}{places} = 0")
    return off[::-1][:6]


def given_inputs(card: vt.Card, inputs: dict[str, Any]) -> dict[str, Any]:
    """Inputs without targets, which are the tokens one further, and with padding that sees some."""
    ready = program(with_open_targets(card, frozenset()))
    seen = {k: np.maximum(x, np.arange(len(x)) == 0) if k == "a" else x for k, x in inputs.items()}
    return {k: x for k, x in seen.items() if k not in ready.targets}


def hold(edits: list[Edit]) -> None:
    for edit, found in zip(edits, edited([{"data": e.data, "edits": e.edits} for e in edits]),
                           strict=True):  # fmt: skip
        edit.hold(found)


def test_shipped_cards() -> None:
    edits = []
    for k, name in enumerate(NAMES):
        card = bound(name)
        found = choices(card)
        put: Settings = {c: Fraction(3) if c.is_number else False
                         for j, c in enumerate(found) if (j + k) % 3 != 1}  # fmt: skip
        inputs = given_inputs(card, made_inputs(card))
        edits.append(Edit(name, card, made_weights(card), inputs, put))
    hold(edits)


@pytest.mark.parametrize("off", [[], ["A[1] = 0"]], ids=["whole", "switched off"])
def test_a_page_trains_as_the_command_does(tmp_path: Path, off: list[str]) -> None:
    """Step by step: the losses of `viete train` with Adam on the one text of the page."""
    data, folder = tmp_path / "dialog.txt", tmp_path / "run"
    data.write_text("\n".join(DIALOGS.splitlines()[:4]), "utf-8")
    model = tmp_path / "model.md"
    model.write_text(vt.read("dialog-transformer").put(*off).write("md"), "utf-8")
    command("train", model, "--set", "d=8", "--data", data, "-o", folder,
            "--batch", 1, "--optimiser", "adam", "--lr", 0.05, "--clip", 0, "--dtype", "float64",
            "--validation", 0, "--steps", 20, "--log-every", 1, "--seed", 3)  # fmt: skip
    lines = map(json.loads, (folder / "metrics.jsonl").read_text("utf-8").splitlines())
    losses = [line["loss"] for line in lines if "loss" in line]
    (dialog,) = read_data(str(data)).conversations()
    numbers = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    ids = [numbers[c] for c in dialog.prompt + dialog.answer]
    card = vt.read("dialog-transformer").bind(d=8, V=vt.read(folder / "card.md").sizes["V"])
    page = page_data(card.run(ids, card.initial_weights(3)), meanings=[])
    (found,) = edited([{"data": page, "edits": {
        "before": [{"put": off}], "train": len(losses), "rate": 0.05}}])  # fmt: skip
    assert len(losses) == 20
    np.testing.assert_allclose(found["losses"], losses, rtol=1e-9)


def test_random_cards() -> None:
    edits = []

    @seed(1)
    @settings(max_examples=12, database=None, deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(cards(), st.randoms(use_true_random=False))
    def draw(card: Any, rng: Any) -> None:
        put: Settings = {c: Fraction(rng.randint(1, 4)) if c.is_number else False
                         for c in choices(card.model) if rng.random() < 0.7}  # fmt: skip
        inputs = given_inputs(card.model, card.given())
        edits.append(Edit(f"card {len(edits)}", card.model, card.weights(), inputs, put))

    draw()
    hold(edits)
