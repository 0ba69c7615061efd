"""A card's data flow: what the graph says of every shipped card, and of a few in detail."""

from __future__ import annotations

import json
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import viete as vt
from viete import read
from viete.analysis.def_use import def_use
from viete.analysis.streams import streams
from viete.analysis.traits import Traits
from viete.cards.catalogue import shipped
from viete.errors import VieteError
from viete.evaluate.schedule import parameter_shapes
from viete.meanings.run import run
from viete.notation.printer import show_equation
from viete.printable import display_width
from viete.report.drawing import Arrow, Diagram, to_mermaid, to_svg, to_text
from viete.report.drawing.data import diagram_data
from viete.report.drawing.flow import flow
from viete.report.drawing.svg import _PIXELS, _lines, _size
from viete.report.drawing.text import _CELLS, _cell_size
from viete.report.drawing.wires import layout

CARDS = {name: read(path) for name, path in shipped().items()}
every_card = pytest.mark.parametrize("model", CARDS.values(), ids=CARDS)
details = pytest.mark.parametrize("detail", ["parts", "equations"])


def arrow(d: Diagram, source: str, target: str, residual: bool = False) -> Arrow | None:
    """The arrow between the boxes of these titles."""
    ids = {b.title: b.id for b in d.boxes}
    found = (a for a in d.arrows if (a.source, a.target) == (ids[source], ids[target]))
    return next((a for a in found if a.residual == residual and not a.back), None)


@every_card
@details
def test_every_equation_is_in_one_box(model: vt.Card, detail: str) -> None:
    d = flow(model, detail)
    said = [line for b in d.boxes for line in (b.title, *b.lines)]
    for e in model.equations:
        assert said.count(show_equation(e.left, e.right, "unicode")) == 1
    assert {n for b in d.boxes for n in b.numbers} == {*range(1, len(model.equations) + 1)}
    assert all(b.title for b in d.boxes)
    if detail == "equations":
        assert all(len(b.numbers) == (b.kind != "input") for b in d.boxes)


@every_card
@details
@pytest.mark.parametrize("style", ["unicode", "plain"])
def test_every_card_can_be_drawn(model: vt.Card, detail: str, style: str) -> None:
    d = flow(model, detail, {}, 64, style)
    ElementTree.fromstring(to_svg(d))
    assert "flowchart" in to_mermaid(d)
    drawn = to_text(d, 1000)
    assert all(e.part in drawn for e in model.equations) or detail == "equations"


@every_card
@details
def test_arrows_follow_the_uses(model: vt.Card, detail: str) -> None:
    d, uses = flow(model, detail), def_use(model)
    made = {b.id: b for b in d.boxes}

    def boxes(k: int | None, key: str) -> set[str]:
        """Those of an equation, or of an input."""
        if k is None:
            return {b.id for b in d.boxes if b.kind == "input" and b.keys == (key,)}
        return {b.id for b in d.boxes if k + 1 in b.numbers}

    stream = {(a.source, a.target) for a in d.arrows if a.residual}
    carried = {(a.source, a.target): a.keys for a in d.arrows if not a.back}
    for u in uses.all:
        if not u.around:
            ways = [(s, t) for s in boxes(u.maker, u.ref.key) for t in boxes(u.reader, "")]
            found = [way for way in ways if u.ref.key in carried.get(way, ())]
            assert found or any(s == t for s, t in ways)
            assert u not in streams(model) or stream.intersection(found)
    added = [(u.maker, u.reader) for u in streams(model) if not u.around]
    for source, target in stream:  # a sum leads on, and at its end a stream leads to one box
        pairs = {(m - 1, r - 1) for m in made[source].numbers for r in made[target].numbers}
        last = [a for a in d.arrows if a.source == source and not a.back]
        assert pairs.intersection(added) or len(last) == 1
    for a in d.arrows:  # what goes around stays inside its loop
        assert not a.back or made[a.source].group == made[a.target].group is not None


@every_card
@details
def test_a_residual_stream_is_one_straight_line(model: vt.Card, detail: str) -> None:
    d = flow(model, detail)
    pixels = {b.id: _size(*_lines(b)) for b in d.boxes}
    cells = {b.id: _cell_size(b) for b in d.boxes}
    for lay in (
        layout(d, pixels, _PIXELS, lambda text: 7 * len(text)),
        layout(d, cells, _CELLS, display_width),
        layout(d, cells, _CELLS, display_width, True),
    ):
        rects = [r for _, r in lay.boxes]
        for wire in lay.wires:
            (x, _), *_, (end, _) = wire.points
            assert not wire.arrow.residual or (x == end and len(wire.points) == 2)
            for (x, y), (x2, y2) in pairwise(wire.points):
                for r in rects:
                    beside = max(x, x2) <= r.left or min(x, x2) >= r.right
                    assert beside or max(y, y2) <= r.top or min(y, y2) >= r.bottom


@every_card
def test_a_page_finds_every_equation_in_the_diagram(model: vt.Card) -> None:
    data = diagram_data(model)
    json.dumps(data)
    place = {b["id"]: n for n, b in enumerate(data["boxes"])}
    for a in data["arrows"]:
        assert (place[a["from"]] < place[a["to"]]) != a["back"]
    lines = [line for b in data["boxes"] for row in b.get("rows", ()) for line in row]
    whole = [line["equation"] for line in lines if line["term"] is None]
    assert sorted(whole) == [*range(1, len(model.equations) + 1)]
    assert {line["equation"] for line in lines if line["term"]} <= {*whole}
    made = {e.name for e in model.equations} | {i.name for i in model.inputs}
    assert {k for a in data["arrows"] for k in a["keys"]} <= made
    assert {b["group"] for b in data["boxes"]} - {None} == {g["id"] for g in data["groups"]}
    uses = {(u.maker, u.reader) for u in def_use(model).all}
    for box in data["boxes"]:
        rows = [[line["equation"] - 1 for line in row] for row in box.get("rows", ())]
        for source, goal in box.get("links", ()):
            assert source < goal
            assert uses & {(k, j) for k in rows[source] for j in rows[goal]}
        for row in rows:  # what stands in one row reads the same
            read = [{u.ref for u in def_use(model).all if u.reader == k} for k in row]
            assert all(r == read[0] for r in read)
        for math in (*box.get("reads", ()), *box.get("gives", ())):
            ElementTree.fromstring(math)


@every_card
def test_groups_are_loops(model: vt.Card) -> None:
    d = flow(model)
    assert len(d.groups) == len(model.loops)
    looped = [e for e in model.equations if e.loop is not None]
    assert {b.group for b in d.boxes} - {None} == {f"loop {e.loop.order}" for e in looped if e.loop}
    assert any(b.kind == "output" for b in d.boxes)


def test_pythia_is_parallel() -> None:
    d = flow(CARDS["pythia"])
    for part in ("Attention", "MLP"):
        assert arrow(d, "Embedding", part) and arrow(d, part, "Residual")
    assert arrow(d, "Embedding", "Residual", residual=True)
    assert arrow(d, "Residual", "Unembedding", residual=True)
    assert not arrow(d, "Attention", "MLP") and not arrow(d, "MLP", "Attention")
    assert [a.label for a in d.arrows if a.back] == ["xⁱ"]


def test_sequential_blocks_add_twice() -> None:
    d = flow(CARDS["gpt2"])
    inside = [(b.title, b.kind) for b in d.boxes if b.group]
    assert inside == [("Attention", "value"), ("Add", "sum"), ("MLP", "value"), ("Add", "sum")]
    stream = [(a.source, a.target) for a in d.arrows if a.residual]
    assert stream == [("0", "2"), ("2", "4"), ("4", "5")]


def test_a_norm_that_two_sub_layers_read_stands_before_both() -> None:
    d = flow(CARDS["phi"])
    for part in ("Attention", "MLP"):
        assert arrow(d, "What attention and MLP read", part)


def test_a_branch_inside_one_equation_has_a_box() -> None:
    d = flow(CARDS["transformer-2017"])
    mlp = next(b for b in d.boxes if b.title == "Encoder MLP")
    assert mlp.lines == ("ReLU(uⁱ W_{1,e}ⁱ + b_{1,e}ⁱ) W_{2,e}ⁱ + b_{2,e}ⁱ",)
    (into,) = [a for a in d.arrows if a.target == mlp.id]
    assert into.step == "linear, ReLU, linear"


def test_encoder_and_decoder_are_joined() -> None:
    d = flow(CARDS["transformer-2017"])
    group = {b.id: b.group for b in d.boxes}
    across = [a for a in d.arrows if group[a.source] == "loop 0" and group[a.target] == "loop 1"]
    assert [a.label for a in across] == ["x^N (m, d)"]


def test_one_step_stands_on_its_arrow() -> None:
    d = flow(CARDS["gpt2"], "equations")
    steps = {d.boxes[int(a.target) + 1].title: a.step for a in d.arrows if a.step}
    assert steps["Query"] == steps["Key"] == steps["Value"] == "linear"
    assert steps["Who attends to whom"] == "masked softmax"
    assert steps["What the MLP adds"] == "linear, GELU_tanh, linear"


def test_simple_transformer_has_no_residuals() -> None:
    assert not any(a.residual for a in flow(CARDS["simple-transformer"]).arrows)
    loss = flow(CARDS["simple-transformer"]).boxes[-1]
    assert (loss.title, loss.kind) == ("Training loss", "output")


def test_shapes_with_numbers() -> None:
    d = flow(CARDS["simple-transformer"], lengths={"T": 10}, batch=3)
    lines = [line for b in d.boxes for line in b.lines]
    assert lines.count("(B, H, T, dₖ) = (3, 4, 10, 16)") == 1
    # Positions are the same for every text.
    assert [a.label for a in d.arrows].count("X_pos (T, d) = (10, 256)") == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"detail": "some"}, "parts or equations"),
        ({"lengths": {"T": 257}}, "1 to 256"),
        ({"lengths": {"m": 1}}, "no length m; its lengths are T"),
    ],
)
def test_what_cannot_be_drawn(more: dict, said: str) -> None:
    with pytest.raises(VieteError, match=said):
        flow(CARDS["simple-transformer"], **more)


SMALL = {
    "simple-transformer": {"V": 11, "d": 8, "d_h": 8},
    "dialog-transformer": {"V": 11, "d": 8},
    "symbolic-transformer": {},
    "exact-lesson": {"N_V": 11, "n_max": 6},
    "attention-only-2": {"V": 11, "d": 24},
    "pythia": {"V": 11, "d": 64, "N": 2},
    "gpt2": {"V": 11, "d": 24, "N": 2},
    "llama": {"V": 11, "d": 64, "N": 2, "d_f": 24},
    "formal-decoder": {"N_V": 11, "d_e": 24, "L": 2},
    "formal-encoder": {"N_V": 11, "d_e": 24, "L": 2, "d_f": 24},
}


@pytest.mark.parametrize("name", SMALL)
def test_causal_means_that_later_tokens_do_not_matter(name: str) -> None:
    model = CARDS[name].bind(**SMALL[name])
    traits, rng = Traits(model), np.random.default_rng(1)
    shapes = parameter_shapes(model)
    weights = {k: rng.normal(size=s) for k, s in shapes.items()}
    tokens = rng.integers(0, 3, 5)
    changed = np.concatenate([tokens[:3], tokens[3:] + 1])
    found = traits.generation()
    last = max(k for k, e in enumerate(model.equations) if len(traits.uses.shapes.computed[k]) == 2)
    scores = model.equations[found.scores if found else last].name
    before, after = (
        np.asarray(run(model, t, weights, names=[scores])[scores]) for t in (tokens, changed)
    )
    assert np.allclose(before[:3], after[:3], rtol=1e-9, atol=1e-12) == (found is not None)
    assert not np.allclose(before[3:], after[3:])
