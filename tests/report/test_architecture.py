"""Architecture documents: right numbers for every shipped card, and for SimpleTransformer all of
those in the document that it was written from."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viete as vt
from viete import read
from viete.cards.catalogue import shipped
from viete.document.markdown import write_markdown
from viete.document.tree import Block, CodeBlock, Heading, ListItem, TextTable
from viete.errors import Text, VieteError
from viete.evaluate.schedule import parameter_shapes
from viete.meanings.run import run
from viete.report.architecture import architecture, data_flow, write_architecture

document = cache(architecture)
CARDS = {name: read(path) for name, path in shipped().items()}
every_card = pytest.mark.parametrize("model", CARDS.values(), ids=CARDS)
REFERENCES = Path(__file__).parents[3] / "shared/references"
referenced = pytest.mark.skipif(not REFERENCES.is_dir(), reason="the references are not here")


def under(blocks: list[Block], title: str) -> list[Block]:
    """What follows a heading, up to the next of its level or above."""
    start = next(k for k, b in enumerate(blocks) if isinstance(b, Heading) and b.text.text == title)
    level = blocks[start].level  # type: ignore[union-attr]
    out = []
    for b in blocks[start + 1 :]:
        if isinstance(b, Heading) and b.level <= level:
            break
        out.append(b)
    return out


def rows(block: Block) -> list[list[str]]:
    assert isinstance(block, TextTable)
    return [[cell.text for cell in row] for row in block.rows]


def numbers(text: str) -> list[int]:
    return [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\d|\d", text)]


@every_card
@pytest.mark.parametrize("form", ["md", "text", "latex"])
def test_every_card_has_a_document(model: vt.Card, form: str) -> None:
    text = write_architecture(model, form, batch=2, length=2)
    for part in {e.part for e in model.equations}:
        assert part in text
    if form == "latex":  # what pdflatex knows in a listing
        for listing in re.findall(r"\\begin{verbatim}.*?\\end{verbatim}", text, re.S):
            assert max(listing) < "\u0370"
    if form == "text":
        assert "$" not in text and "`" not in text


@every_card
def test_parameters_add_up(model: vt.Card) -> None:
    (table, said) = under(document(model), "Parameter count")
    found = rows(table)
    leaves = [row for row in found if not row[1].startswith("all of") and "Total" not in row[0]]
    total = sum(int(np.prod(s, dtype=object)) for s in parameter_shapes(model).values())
    assert sum(numbers(row[-1])[0] for row in leaves) == total
    assert numbers(found[-1][-1]) == [total] and f"{total:,}" in said.text.text  # type: ignore[union-attr]
    for row in leaves:  # 256 × 16 = 4,096 each, × 3 × 4 (h): 49,152
        one = row[2].replace(" each", "").replace(",", "").split(" = ")
        each = sum(int(np.prod(numbers(term))) for term in one[0].split(" + "))
        times = int(np.prod(numbers(re.sub(r"\$.*?\$", "", row[3])))) if len(row) > 4 else 1
        assert each == int(one[-1]) and each * times == numbers(row[-1])[0]
    named = " ".join(row[1] for row in leaves)
    assert named.count("$") == 2 * len(model.parameters)


@every_card
def test_all_of_a_part_is_the_sum_of_its_rows(model: vt.Card) -> None:
    since = 0
    for row in rows(under(document(model), "Parameter count")[0]):
        if row[1].startswith("all of"):
            assert numbers(row[-1])[0] == since
        since = numbers(row[-1])[0] + (0 if row[0] else since)


SMALL: dict[str, dict[str, int]] = {
    "simple-transformer": {"V": 11, "d": 8, "d_h": 8},
    "dialog-transformer": {"V": 11, "d": 8},
    "symbolic-transformer": {},
    "exact-lesson": {},
    "attention-only-1": {"V": 11, "d": 24},
    "pythia": {"V": 11, "d": 64, "N": 2},
    "gpt2": {"V": 11, "d": 24, "N": 2},
    "llama": {"V": 11, "d": 64, "N": 2, "d_f": 24},
    "formal-encoder": {"N_V": 11, "d_e": 24, "L": 2, "d_f": 24},
}


@pytest.mark.parametrize("name", SMALL)
def test_shapes_in_the_trace_are_those_of_a_run(name: str) -> None:
    model = CARDS[name].bind(**SMALL[name])
    rng = np.random.default_rng(0)
    weights = {k: rng.normal(size=s) for k, s in parameter_shapes(model).items()}
    batch, length = 3, 2
    tokens = rng.integers(0, 2, (batch, length))
    found = run(model, tokens, weights, **{i.name: tokens for i in model.inputs[1:]})
    trace = rows(under(architecture(model, batch, length), "Forward pass trace")[0])
    shown = {int(row[0]): row[-1] for row in trace if row[0]}
    for k, e in enumerate(model.equations, 1):
        name = re.sub(r"\b[il]\b", "1", e.name) if e.loop else e.name
        if e.left.index and not e.loop:
            continue  # x^0 has the shape of x^i
        assert tuple(numbers(shown[k])) == tuple(found[name].shape)


@every_card
def test_generation_is_for_causal_cards(model: vt.Card) -> None:
    blocks = document(model)
    steps = any(isinstance(b, Heading) and b.text.text == "Generation process" for b in blocks)
    notes = " ".join(b.text.text for b in under(blocks, "Notes") if isinstance(b, ListItem))
    masked = "**Causal masking:**" in notes and model.title != "RoBERTa"  # which counts padding so
    alone = model.title.startswith(("Letters 1", "Letters 2"))  # no position reads another
    assert steps == (masked or alone)  # of the shipped cards; BERT, say, has neither
    assert ("**Residual connections:**" in notes) != ("**No residual connections:**" in notes)


def test_a_picture_comes_first() -> None:
    text = write_architecture(CARDS["gpt2"], "md", picture="gpt2.svg")
    assert "## Data flow\n\n![data flow](gpt2.svg)\n\n```\n" in text
    assert isinstance(under(architecture(CARDS["gpt2"]), "Data flow")[0], CodeBlock)


def test_tied_weights_and_positions_are_noted() -> None:
    def notes(name: str) -> str:
        return write_architecture(CARDS[name], "text").split("\nNotes\n")[1]

    assert "Shared weights: W_E is used in equations 1 and 12" in notes("gpt2")
    assert "Learned positions: W_P, in equation 1" in notes("gpt2")
    assert "Computed positions: RoPE in equations 3 and 4" in notes("pythia")
    assert "Computed positions: sinusoidal in equations 1 and 8" in notes("transformer-2017")
    assert "No positions" in notes("symbolic-transformer")
    assert "Layers: equations 2 to 10, for i = 1, …, N, 6 times" in notes("pythia")
    assert "No repeated layers" in notes("simple-transformer")
    assert "No normalization" in notes("simple-transformer")


@pytest.mark.parametrize(
    ("more", "said"),
    [({"batch": 0}, "batch"), ({"length": 257}, "257"), ({"length": {"m": 1}}, "no length m")],
)
def test_what_does_not_fit(more: dict, said: str) -> None:
    with pytest.raises(VieteError, match=said):
        architecture(CARDS["simple-transformer"], **more)


# -- SimpleTransformer against the document it was written from ------------------------------------

SHAPES = """(64, 256) (64, 256, 256) (256, 256) (64, 256, 16) (64, 256, 64) (64, 256, 1024)
    (64, 256, 772) (16384, 772) (16384) (1, 772) (1, 1)""".replace("\n    ", " ")
MAPS = "772 × 256; 256 × 256; 256 → 16; 4 × 16 = 64; 64 → 256; 256 → 1024; 1024 → 256; 256 → 772"
COUNTS = """772 × 256 = 197,632; 256 × 256 = 65,536; 256 × 16 = 4,096 each; × 3 × 4 ($h$) | 49,152;
    64 × 256 + 256 = 16,640; 256 × 1024 + 1024 = 263,168; 1024 × 256 + 256 = 262,400;
    256 × 772 + 772 = 198,404""".replace("\n    ", " ")


def test_simple_transformer_has_every_shape_and_count() -> None:
    text = write_architecture(CARDS["simple-transformer"], "md")
    for wanted in re.findall(r"\(.*?\)", SHAPES):
        assert f"`{wanted}`" in text
    for wanted in [*MAPS.split("; "), *COUNTS.split("; ")]:
        assert wanted in text
    assert "(64, 4, 256, 256)" in text and "`(64, 256, 256)` for each $h$ (head)" in text
    for said in ("No residual connections", "Causal masking", "at most 256", "the last 256 tokens"):
        assert said in text


@referenced
def test_every_count_and_shape_of_the_reference() -> None:
    reference = (REFERENCES / "simple-transformer.md").read_text("utf-8")
    text = write_architecture(CARDS["simple-transformer"], "md")
    counted = reference.split("## Parameter Count")[1].split("## Notes")[0]
    lines = re.findall(r"([\d ×+]+\d) = ([\d,]+)\n", counted)
    assert len(lines) == 9
    for sum_, value in lines:
        assert f"{sum_.strip()} = {value}" in text
    assert "49,152" in counted and "49,152" in text
    shapes = {s for s in re.findall(r"\(\d+(?:, \d+)+\)", reference)}
    assert {"(64, 256, 16)", "(16384, 772)"} <= shapes
    for shape in shapes:
        assert f"`{shape}`" in text
    for name, value in re.findall(r"^- `(\w+) = (\d+)`", reference, re.M):
        table = rows(
            under(architecture(CARDS["simple-transformer"]), "Example with real numbers")[0]
        )
        assert value in [row[1] for row in table], name
    for a, b in re.findall(r"`(\d+) → (\d+)`", reference):
        assert f"`{a} → {b}`" in text


@referenced
@pytest.mark.parametrize("form", ["md", "text", "latex"])
def test_the_reference_card_has_a_document(form: str) -> None:
    model = read(REFERENCES / "symbolic-card.md")
    text = write_architecture(model, form)
    assert "260" in text and "Attention weights" in text and "(64, 5, 10)" in text


@given(st.text(st.sampled_from("`│ a\n")))
def test_code_stays_in_its_fence(text: str) -> None:
    blocks = [Heading(1, Text("Before")), CodeBlock(text), Heading(1, Text("After"))]
    written = write_markdown(blocks).splitlines()
    fence = written[2]
    assert set(fence) == {"`"} and written.count(fence) == 2
    assert (
        text.rstrip("\n").splitlines() == written[3 : written.index(fence, 3)] or not text.strip()
    )


def test_a_drawing_ends_with_the_fork_of_training_and_generation() -> None:
    """Scores of the next token lead to both; where a card has a loss, that is its training."""
    for name in ("simple-transformer", "pythia"):
        page = write_architecture(CARDS[name], "html", 8, 16)
        assert "(8, 16, " in page.partition("<svg")[2].partition("</svg>")[0]  # batch and length
        drawn = ElementTree.fromstring(data_flow(CARDS[name], 8, 16))
        boxes = [e.attrib["data-box"] for e in drawn.iter() if "data-box" in e.attrib]
        assert "generation" in boxes and ("training" in boxes) == (name == "pythia")
    encoder = data_flow(CARDS["bert"], 8, 16)
    assert "Generation" not in encoder and "Training" not in encoder


def test_query_key_and_value_stand_together() -> None:
    page = write_architecture(CARDS["simple-transformer"], "md")
    (line,) = [line for line in page.splitlines() if "each of shape" in line]
    assert all(f"X W_{name}^h" in line for name in "QKV")
