"""Circuits, causes, probes and graphs of what has no number: one sentence, and no table of nan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.features.search import feature_graph
from viete.model.coders import coders_of, read_coders
from viete.model.places import PlaceValues, place_of
from viete.text.prompts import TextReader, WordIds

M = vt.read("attention-only-2").bind(V=6, d=8, H=2, n_max=12).with_weights(seed=0)
DRAW = np.random.default_rng(0)
TEXTS = DRAW.integers(0, 6, (8, 5)).tolist()
PAIRS = [{"text": t, "against": u} for t, u in pairwise(TEXTS)]
SQUARE = "logits_{-1,3}^2"
BELOW = "log(logits_{-1,3} - 100)"  # a logarithm below 0
TWICE = "- r^{2,1} → logits: t_0\n- r^{2, 1} → logits: t_{-1}"
BIG = [1e200 * t[0] for t in TEXTS]


def probe(of: str, labels: Any, **more: Any) -> Any:
    return M.probes(of, TEXTS, labels, **more)


# fmt: off
REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("a circuit of a constant", lambda: M.circuits("5", TEXTS), "no edge leads to it"),
    ("of a token", lambda: M.circuits("t_{-1}", TEXTS), "no edge leads to it"),
    ("of a weight", lambda: M.circuits("W_{E,1,2}", TEXTS), "no edge leads to it"),
    ("of no number", lambda: M.circuit(BELOW, TEXTS), "is nan with all edges on 8 of 8 texts"),
    ("of no edge", lambda: M.circuit(SQUARE, TEXTS, edges=[]), "none leads all the way"),
    ("mediation of no number", lambda: M.mediation(BELOW, "r^{i,h}", PAIRS), "is nan of a text"),
    ("an effect that is none", lambda: M.resample(
        "1 / sum(abs(r^{2,1}_{-1} - r^{2,1}_{-1}))", "r^{i,h}", TEXTS, draws=1), "finite"),
    ("scrubbing of no number", lambda: M.scrub(TWICE[:23], BELOW, TEXTS), "is nan as it is on 8"),
    ("two claims about an edge", lambda: M.scrub(TWICE, SQUARE, TEXTS), "has a claim already"),
    ("a probe of no number", lambda: probe("log(x^1_{-1})", "t_0 > 2"), "is not finite on this"),
    ("of lists", lambda: probe("x^1_{-1}", [[1, 2]] * 8), "label is a word or a number"),
    ("of huge numbers", lambda: probe("x^1_{-1}", BIG, kind="numbers"), "must be a finite number"),
    ("with an infinite penalty", lambda: probe("x^1_{-1}", "t_0 > 2", penalty=np.inf), "finite"),
    ("class means of numbers", lambda: probe("x^1_{-1}", "t_0 / 2", method="means"),
     "needs classes"),
    ("directions of no number", lambda: M.run([1, 2])["svd_2(log(x^1))"], "no directions"),
    ("components of no number", lambda: M.run([1, 2])["pca_2(log(x^1))"], "no components"),
    ("rows as wide as a text", lambda: PlaceValues(
        M.card, M.weights, [place_of(M.card, "A^{1,1}")]), "are as long as the text"),
    ("features of no folder", lambda: coders_of("./nosuch"), "no file or folder ./nosuch"),
]
# fmt: on


@pytest.mark.parametrize(
    ("what", "call", "said"), REFUSED, ids=lambda x: x if isinstance(x, str) else ""
)
def test_what_has_no_number_is_refused(what: str, call: Callable[[], Any], said: str) -> None:
    with pytest.raises(vt.VieteError, match=re.escape(said)):
        call()


def coder(path: Path, **changed: Any) -> Path:
    arrays = {"W_enc": DRAW.normal(size=(8, 9)), "b_enc": np.ones(9), "b_dec": np.zeros(8),
              "W_dec": DRAW.normal(size=(9, 8))}  # fmt: skip
    np.savez(path, **{**arrays, **changed})
    return path


def test_graphs_of_no_number_and_complex_features_are_refused(tmp_path: Path) -> None:
    found = read_coders(coder(tmp_path / "sae.npz"), "x^i", "x^i", block=1)
    run = M.put(found).run(TEXTS[0])
    for of, said in (("5", "has no graph"), ("W_{E,1,2}", "has no graph"), (BELOW, "is nan")):
        with pytest.raises(vt.VieteError, match=said):
            feature_graph(run, of)
    with pytest.raises(vt.VieteError, match=r"W_enc .* holds complex numbers"):
        read_coders(coder(tmp_path / "complex.npz", W_enc=1j * np.ones((8, 9))))


def test_a_line_of_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    card = vt.read("exact-lesson")
    (path := tmp_path / "texts.txt").write_text("a b\na zebra\n", "utf-8")
    with pytest.raises(vt.VieteError, match=r"texts\.txt:2:1: .*zebra"):
        TextReader(WordIds(card.title, {"a": 0, "b": 1})).file(str(path))


def test_what_a_command_would_not_heed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(json.dumps({"text": t}) for t in TEXTS), "utf-8")
    (latin := tmp_path / "latin.md").write_bytes(b"- caf\xe9")
    model = ["attention-only-2", "--set", "V=6", "--set", "d=8", "--set", "H=2", "--seed", "0"]
    also = ["--of", SQUARE, "--texts", str(path)]
    for command, more, said in (
        ("circuit", ["--edges", "1,2", "--confirm"], "one number of edges"),
        ("circuit", ["--score", "patching", "--steps", "3"], "leave out --steps"),
        ("cause", ["--hypothesis", str(latin)], "latin.md: the file is not UTF-8"),
    ):
        assert said in viete(command, *model, *also, *more, code=2).err
