"""The served page in a browser: an edit is computed by the model, and no other script runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

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


def test_no_other_script_runs_and_nothing_leaves(address: str) -> None:
    assert look_at(address, width=390, dark=True, expression=INJECT)["value"] == [False, False]
