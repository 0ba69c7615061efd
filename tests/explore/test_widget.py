"""The page in a notebook: the kernel answers the widget; without anywidget it is a frame."""

from __future__ import annotations

import html
import json
import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import viete as vt
from viete.explore.data import page_data
from viete.explore.page_file import page_html
from viete.explore.session import Session
from viete.explore.widget import MOST, PageFrame

TOKENS = [3, 1, 4, 1, 5]
MODEL = vt.read("gpt2").bind(V=11, d=8, N=1, H=2, d_f=8, n_max=16).with_weights(seed=1)


@pytest.fixture(scope="module")
def run() -> Any:
    return MODEL.run(TOKENS)


@pytest.fixture(scope="module")
def page(run: Any) -> dict[str, Any]:
    data = page_data(run)
    return {**data, "tokens": {**data["tokens"], "text": False}}


@pytest.fixture(scope="module")
def widget(run: Any) -> Any:
    pytest.importorskip("anywidget")
    return run.explore()


def answers(widget: Any, *messages: Any) -> list[Any]:
    """What a widget sends for what comes from its page."""
    sent: list[Any] = []
    widget.send = sent.append
    for message in messages:
        widget._handle_custom_msg(message, [])
    assert json.dumps(sent, allow_nan=False)
    return sent


def test_the_widget_has_the_data_and_answers(run: Any, page: Any, widget: Any) -> None:
    logits = run["logits"]
    assert widget.data == page and widget.live
    changed, wrong, none = answers(
        widget, {"id": 1, "kind": "run", "tokens": [1, 2]}, {"id": 2, "kind": "ask"}, 3
    )
    assert changed["id"] == 1 and changed["tokens"]["ids"] == [1, 2]
    assert wrong["id"] == 2 and "question" in wrong["error"] and "\n" not in wrong["error"]
    assert none["id"] is None and "JSON object" in none["error"]
    assert np.array_equal(run["logits"], logits)  # the run in hand stays what it was


def test_a_saved_notebook_has_the_page(widget: Any) -> None:
    bundle, _ = widget._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "<iframe" in bundle["text/html"] and len(bundle["text/html"]) < 2 * MOST


def test_jupyter_gets_the_page_beside_the_widget(
    widget: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import IPython.display

    shown: list[Any] = []
    monkeypatch.setattr(IPython.display, "display", lambda data, **_: shown.append(data))
    widget._ipython_display_()
    alive, saved = shown
    assert "application/vnd.jupyter.widget-view+json" in alive and "text/html" not in alive
    assert saved["text/html"].startswith(f'<div data-viete-saved="{widget.saved}"><iframe')


def test_without_anywidget_it_is_a_frame_which_says_so(
    run: Any, page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    frame = run.explore()
    assert isinstance(frame, PageFrame)
    shown = frame._repr_html_()
    assert "pip install viete[notebook]" in shown
    found = re.fullmatch(r'<p>[^<]*</p><iframe srcdoc="([^"]*)"[^<>]*></iframe>', shown)
    assert found and html.unescape(found[1]) == page_html(page)


def test_what_stands_in_a_card_leaves_no_frame() -> None:
    title = '"></iframe><script>alert(1)</script>'
    run = replace(MODEL.card, title=title).with_weights(MODEL.weights).run(TOKENS)
    shown = PageFrame(Session.of(run))._repr_html_()
    assert shown.count("<iframe") == shown.count("</iframe>") == 1 and "<script" not in shown


def test_several_texts_are_no_page() -> None:
    with pytest.raises(vt.VieteError, match="a page shows one text"):
        MODEL.run([TOKENS, TOKENS]).explore()


def test_a_run_of_a_card_brings_its_weights() -> None:
    card = MODEL.card
    widget = card.run(TOKENS, MODEL.weights).explore()
    (answer,) = answers(widget, {"id": 1, "kind": "run", "put": ["A^{1,1} = 0"]})
    assert "error" not in answer
    exact = vt.read("exact-lesson")
    widget = exact.run([0, 1], exact.exact_weights, meaning="exact").explore()
    (answer,) = answers(widget, {"id": 1, "kind": "run", "tokens": [1, 0]})
    assert answer.get("error") is None
