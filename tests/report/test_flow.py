"""A card's data flow: what the graph says of every shipped card, and of a few in detail."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest

import viete as vt
from viete import read
from viete.analysis.def_use import def_use
from viete.analysis.traits import Traits
from viete.cards.catalogue import shipped
from viete.errors import VieteError
from viete.evaluate.schedule import parameter_shapes
from viete.meanings.run import run
from viete.notation.printer import show_equation
from viete.report.drawing import Arrow, Diagram, to_mermaid, to_svg, to_text
from viete.report.drawing.flow import flow

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
    if detail == "equations":
        assert sum(b.kind != "input" for b in d.boxes) == len(model.equations)


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
def test_arrows_follow_the_uses(model: vt.Card) -> None:
    d, uses = flow(model, "equations"), def_use(model)
    made = {b.id: b for b in d.boxes}
    arrows = {(a.source, a.target, a.residual) for a in d.arrows if not a.back}
    wanted = {
        (f"input {u.ref.key}" if u.maker is None else str(u.maker), str(u.reader), u.added)
        for u in uses.all
        if not u.around
    }
    assert arrows == wanted
    for a in d.arrows:  # what goes around stays inside its loop
        assert not a.back or made[a.source].group == made[a.target].group is not None


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
    assert not arrow(d, "Attention", "MLP") and not arrow(d, "MLP", "Attention")
    assert [a.label for a in d.arrows if a.back] == ["xⁱ"]


def test_sequential_blocks_add_twice() -> None:
    d = flow(CARDS["gpt2"])
    assert [b.title for b in d.boxes if b.group] == [
        "Attention", "yⁱ = xⁱ⁻¹ + aⁱ", "MLP", "xⁱ = yⁱ + mⁱ"
    ]  # fmt: skip
    assert arrow(d, "Embedding", "yⁱ = xⁱ⁻¹ + aⁱ", residual=True)
    assert arrow(d, "yⁱ = xⁱ⁻¹ + aⁱ", "xⁱ = yⁱ + mⁱ", residual=True)


def test_encoder_and_decoder_are_joined() -> None:
    d = flow(CARDS["transformer-2017"])
    group = {b.id: b.group for b in d.boxes}
    across = [a for a in d.arrows if group[a.source] == "loop 0" and group[a.target] == "loop 1"]
    assert [a.label for a in across] == ["x^N"]


def test_simple_transformer_has_no_residuals() -> None:
    assert not any(a.residual for a in flow(CARDS["simple-transformer"]).arrows)
    loss = flow(CARDS["simple-transformer"]).boxes[-1]
    assert (loss.title, loss.kind) == ("Training loss", "output")


def test_shapes_with_numbers() -> None:
    boxes = flow(CARDS["simple-transformer"], lengths={"T": 10}, batch=3).boxes
    lines = Counter(line for b in boxes for line in b.lines)
    assert lines["(B, H, T, dₖ) = (3, 4, 10, 16)"] == 1
    assert lines["(T, d) = (10, 256)"] == 1  # positions are the same for every text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"detail": "some"}, "parts or equations"),
        ({"lengths": {"T": 257}}, "1 to 256"),
        ({"lengths": {"m": 1}}, "no length m; it has T"),
    ],
)
def test_what_cannot_be_drawn(more: dict, said: str) -> None:
    with pytest.raises(VieteError, match=said):
        flow(CARDS["simple-transformer"], **more)


SMALL = {
    "simple-transformer": {"V": 11, "d": 8, "d_h": 8},
    "dialog-transformer": {"V": 11, "d": 8},
    "symbolic-transformer": {},
    "exact-lesson": {"V": 11, "n_max": 6},
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
