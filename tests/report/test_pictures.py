"""Pictures say the numbers that they are of, in cells, images, bars, curves and characters."""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.command_line import viete
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny
from viete.document.colours import PAPER, svg_file
from viete.errors import VieteError
from viete.evaluate.answers import Answer
from viete.report.pictures.arcs import LEAST
from viete.report.pictures.choosing import draw
from viete.report.pictures.colours import Scale, channels
from viete.report.pictures.picture import Picture

CARD = vt.read("pythia").bind(V=9, d=16, N=3, H=2, n_max=64, d_f=12)
MODEL = CARD.with_weights(seed=1)
RUN = MODEL.run([3, 1, 4, 1, 5])
SVG = "{http://www.w3.org/2000/svg}"


def elements(picture: Picture, kind: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture.svg).iter(f"{SVG}{kind}"))


def numbers(picture: Picture) -> list[float]:
    """What the cells, bars or points of a picture say, in order."""
    made = [x for kind in ("rect", "circle") for x in elements(picture, kind)]
    said = [t.text or "" for x in made for t in x.iter(f"{SVG}title")]
    return [float(x.rsplit(": ", 1)[1]) for x in said]


def test_a_heat_map_has_each_number_in_its_colour() -> None:
    made = np.asarray(RUN["A^{2,h}"])
    picture = RUN.draw("A^{2,h}")
    assert np.allclose(numbers(picture), made.reshape(-1), atol=5e-4)
    cells = [x for x in elements(picture, "rect") if list(x)]
    scale = Scale.of(made)
    assert scale == Scale(1.0, False)  # patterns lie between 0 and 1
    inks = [(x.attrib["fill"], float(x.attrib["fill-opacity"])) for x in cells]
    assert [hue for hue, _ in inks] == [scale.ink(v)[0] for v in made.reshape(-1).tolist()]
    assert np.allclose([share for _, share in inks], made.reshape(-1), atol=1e-3)
    texts = [x.text or "" for x in elements(picture, "text")]
    assert {"h 1 = L1H0", "h 2 = L1H1"} <= set(texts)


def test_rows_of_two_numbers_are_arrows_on_one_scale() -> None:
    values = np.array([[[3.0, 4.0], [-1.0, 0.0]], [[0.0, -2.0], [0.0, 0.0]]])
    labels = (["1", "2"], ["0", "1"], ["0", "1"])
    picture = draw(Answer("W^s", values, ("s", "m", "2"), labels))
    dots = [x for x in elements(picture, "circle") if list(x)]
    tips = np.array([(float(x.attrib["cx"]), -float(x.attrib["cy"])) for x in dots])
    tips = tips.reshape(2, 2, 2)
    unit = (tips[0, 0, 0] - tips[0, 1, 0]) / 4  # from −1 to 3
    origin = tips[0, 1] + [unit, 0]
    assert np.allclose(tips[0] - origin, unit * values[0], atol=0.2)
    assert np.allclose(tips[1] - tips[1, 1], unit * values[1], atol=0.2)
    names = [x.text for x in elements(picture, "text")]
    assert names.count("0") == 2 and names.count("1") == 1  # what is 0 has no name at its tip
    assert "▓" in picture.text() or "█" in picture.text()


def arcs(picture: Picture) -> dict[tuple[str, str], float]:
    """What the arcs of the first pattern of a picture say: (reader, read) and the weight."""
    said = [t.text or "" for x in elements(picture, "path") for t in x.iter(f"{SVG}title")]
    split = [re.fullmatch(r"(.*) reads (.*): (\S+)", line) for line in said]
    return {(m[1], m[2]): float(m[3]) for m in split if m}


def test_attention_has_an_arc_for_each_weight_and_nothing_else_has() -> None:
    made = np.asarray(RUN["A^{2,1}"])
    found = arcs(RUN.draw("A^{2,1}"))
    wanted = {(str(j), str(k)): made[j, k] for j, k in np.argwhere(made >= LEAST).tolist()}
    assert found.keys() == wanted.keys()
    assert all(abs(found[at] - w) < 5e-4 for at, w in wanted.items())
    for question in ("x^2", "Q^{1,h}", "A^{2,h} V^{2,h}", "2 A^{2,1}", "logits"):
        assert not arcs(RUN.draw(question))


def test_viete_run_draws_values(tmp_path: Path) -> None:
    command = ["run", "exact-lesson", "--tokens", "a b", "--show", "A"]
    drawn = viete(*command, "-f", "svg").out
    assert '1 "b" reads 0 "a": 0.2689' in drawn
    file = tmp_path / "a.svg"
    assert viete(*command, "-o", str(file)).out == "" and file.read_text("utf-8") == drawn
    assert "draws floats" in viete(*command, "-f", "svg", "--meaning", "exact", code=2).err


def test_bars_and_curves_have_each_number() -> None:
    assert np.allclose(numbers(RUN.draw("logits_{-1}")), RUN["logits_{-1}"], rtol=1e-4)
    curve = RUN.draw("⟨U_3, x^i_{-1}⟩")
    assert np.allclose(numbers(curve), RUN["⟨U_3, x^i_{-1}⟩"], rtol=1e-4)
    assert elements(curve, "polyline")
    found = RUN.ask("top_3(logits_{-1})")
    assert np.allclose(numbers(RUN.draw("top_3(logits_{-1})")), np.asarray(found), rtol=1e-4)


def test_an_expansion_is_bars_that_add_up() -> None:
    expansion = RUN.expand("logits_{-1, 5}", into="block, head", top=3)
    assert np.isclose(sum(numbers(RUN.draw(expansion))), float(expansion.total), rtol=1e-4)


def test_a_large_matrix_is_an_image_of_its_numbers() -> None:
    rng = np.random.default_rng(0)
    made = rng.normal(size=(70, 90))
    answer = Answer("y", made, ("n", "m"), (list(map(str, range(70))), list(map(str, range(90)))))
    (image,) = elements(draw(answer), "image")
    data = b64decode(image.attrib["href"].split(",")[1])
    start = data.index(b"IDAT") + 4
    rows = np.frombuffer(zlib.decompress(data[start:]), np.uint8).reshape(70, 1 + 90 * 4)
    dots = rows[:, 1:].reshape(-1, 4).astype(float)
    paper, share = np.array(channels(PAPER)), dots[:, 3:] / 255
    wanted = [Scale.of(made).rgb(v) for v in made.reshape(-1).tolist()]
    assert np.abs(paper + (dots[:, :3] - paper) * share - np.array(wanted)).max() <= 1.5


@settings(max_examples=20)
@given(st.lists(st.floats(width=32), min_size=1, max_size=6), st.integers(1, 3))
def test_any_numbers_can_be_drawn(values: list[float], rows: int) -> None:
    """Those that are infinite or none as well, and labels that no page could show."""
    made = np.array([values] * rows)
    names = ['a<"&', "\x1b[2J", "語" * 50, "", "5", "e"][: len(values)]
    for array, axes, labels in (
        (made, ("n", "m"), ([str(k) for k in range(rows)], names)),
        (made[0], ("m",), (names,)), (made[0], ("i",), (names,)),
    ):  # fmt: skip
        picture = draw(Answer("q", array, axes, labels), ["i"])
        ElementTree.fromstring(picture.svg)
        assert "\x1b" not in picture.svg + picture.text()


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_every_family_is_drawn(path: str) -> None:
    card = tiny(path)
    run = card.run(None, random_weights(card), **random_inputs(card))
    keys = {e.left.symbol.key for e in (*card.equations, *card.derived)}
    for name in keys & {"A^{i,h}", "A^{i,g,r}", "A^h", "x^i", "logits", "scale_A^i", "y"}:
        ElementTree.fromstring(run.draw(name).svg)


def test_in_characters() -> None:
    text = RUN.draw("A^{1,1}").text()
    rows = [x for x in text.splitlines() if x.endswith("│")]
    assert len(rows) == 5 and rows[0].startswith("0 ██ ")
    assert "\x1b[48;2;" in RUN.draw("A^{1,1}").text(colour=True)
    assert re.search(r"8 .*█", RUN.draw("logits_{-1}").text())


def test_exact_numbers_have_no_picture() -> None:
    card = vt.read("attention-only-2").bind(V=4, d=4, H=2, n_max=6)
    run = card.run([1, 2], card.initial_weights(seed=0), meaning="exact")
    with pytest.raises(VieteError, match="no picture"):
        run.draw("x^1")


def test_the_command(tmp_path: Path) -> None:
    ask = ("ask", "pythia", "--set", "d=16", "--set", "H=2", "--set", "N=2", "--set", "V=9",
           "--seed", 0, "--tokens", "3,1,4", "A^{1,h}", "logits_{-1}")  # fmt: skip
    assert "██" in viete(*ask, "--draw").out
    viete(*ask, "-o", tmp_path / "picture.svg")
    ElementTree.parse(tmp_path / "picture.svg")
    assert "--draw" in viete(*ask, "--draw", "-f", "csv", code=2).err
    with pytest.raises(VieteError, match=r"saved as \.svg, not as \.foo"):
        RUN.draw("A^{1,h}").save(tmp_path / "a.foo")
    saved = RUN.draw("A^{1,h}").save(tmp_path / "a.svg").read_text()
    assert saved == svg_file(RUN.draw("A^{1,h}").svg)


def test_only_questions_and_expansions_are_drawn() -> None:
    with pytest.raises(vt.VieteError, match="ask for a value by its name or a formula, not by 3"):
        vt.read("exact-lesson").with_weights(seed=0).run([0, 1]).draw(3)
