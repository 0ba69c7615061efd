"""The served page in a browser: an edit is computed by the model, and no other script runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import viete as vt
from tests.browser.devtools import look_at

pytestmark = pytest.mark.browser
EDIT = """(async () => {
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  await wait(500);
  const field = document.querySelector(".edit-tokens input");
  field.value = "b a";
  field.form.requestSubmit();
  await wait(1500);
  return document.querySelector(".tokens").innerText.split(/\\s+/);
})()"""
INJECT = """(async () => {
  const script = document.createElement("script");
  script.textContent = "window.injected = true";
  document.body.append(script);
  const left = await fetch("https://example.org/").then(() => true, () => false);
  return [window.injected === true, left];
})()"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    words = ("explore", "exact-lesson", "--tokens", "a b", "--serve")
    made = subprocess.Popen(
        [sys.executable, "-m", "viete", *words], stdout=subprocess.PIPE, text=True
    )
    assert made.stdout is not None
    yield made.stdout.readline().split()[0]
    made.send_signal(signal.SIGINT)
    assert made.wait(20) == 130


def test_an_edit_is_computed_by_the_server(address: str) -> None:
    seen = look_at(address, width=1280, dark=False, expression=EDIT)
    assert seen["value"] == ["b", "1", "a", "0"] and not seen["events"], seen


QUESTIONS = """(async () => {
  const one = (s) => document.querySelector(s);
  const until = async (ready) => {
    for (let k = 0; k < 250 && !ready(); k++) await new Promise((done) => setTimeout(done, 60));
    if (!ready()) throw new Error("not yet: " + one("details.v-asking").innerText);
    return ready();
  };
  const asking = await until(() => one(".v-story ~ .v-asking") ?? one("details.v-asking"));
  asking.open = true;
  const ask = async (kind, text, found) => {
    const input = asking.querySelector("input");
    input.value = text; input.dispatchEvent(new Event("input"));
    asking.querySelector(`button[value=${kind}]`).click();
    return until(() => asking.querySelector(found));
  };
  await ask("ask", "2 logits", ".answer tbody td");
  const answer = [...asking.querySelectorAll(".answer tbody td")].map((c) => Number(c.title));
  await ask("expand", "logits_{1,1}", ".answer ul.terms");
  const terms = [...asking.querySelectorAll(".answer ul.terms > li > details > summary output")];
  const total = asking.querySelector(".total output").title;
  one(".v-claims").open = true;
  one(".v-claims input").value = "sum(A) = 2";
  one(".v-claims form").requestSubmit();
  const verdict = (await until(() => one(".v-claims .answer li"))).innerText;
  await ask("put", "m = 0", ".answer .hint");
  await until(() => one(".v-changes li") && one(".v-equations .struck"));
  await until(() => asking.innerText.includes("computed again"));
  await ask("ask", "logits", ".answer tbody td");
  const after = [...asking.querySelectorAll(".answer tbody td")].map((c) => Number(c.title));
  return {answer, terms: terms.map((x) => Number(x.title)), total: Number(total), verdict, after};
})()"""


def test_typed_questions_claims_and_changes_are_answered(address: str) -> None:
    seen = look_at(address, width=1280, dark=False, expression=QUESTIONS)
    assert seen["thrown"] is None and not seen["events"], seen
    found = seen["value"]
    card = vt.read("exact-lesson")
    weights = card.initial_weights()
    logits = card.run([0, 1], weights)["logits"]
    assert np.allclose(found["answer"], 2 * np.ravel(logits), atol=1e-12, rtol=0)
    assert np.isclose(found["total"], logits[1, 1], atol=1e-12, rtol=0)
    assert np.isclose(sum(found["terms"]), logits[1, 1], atol=1e-12, rtol=0)
    assert found["verdict"].startswith("false") and "left 1, right 2" in found["verdict"]
    changed = card.put("m = 0").run([0, 1], weights)["logits"]
    assert np.allclose(found["after"], np.ravel(changed), atol=1e-12, rtol=0, equal_nan=True)


def test_no_other_script_runs_and_nothing_leaves(address: str) -> None:
    assert look_at(address, width=390, dark=True, expression=INJECT)["value"] == [False, False]
