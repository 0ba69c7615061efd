"""`viete grad CARD --plan`: of any card at its real size, without its weights."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import viete as vt
from tests.laws.differentiating import loss_of
from tests.laws.strategies import shipped
from viete.document.markdown import write_markdown
from viete.document.tree import TextTable
from viete.errors import VieteError
from viete.report.plan import plan_document

pytest.importorskip("torch")


def table(blocks: list) -> TextTable:
    (found,) = [b for b in blocks if isinstance(b, TextTable)]
    return found


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_every_card_has_a_plan(path: str) -> None:
    model = vt.read(path)
    small = {d.name: 3 for d in model.dims if d.name in ("N", "L") and d.name in model.sizes}
    model = model.bind(**small)
    page = plan_document(model, loss_of(model), batch=4, length=2)
    rows = [[c.text for c in row] for row in table(page).rows]
    targets = {row[5] for row in rows if row[5].endswith("+=")}
    assert "loss +=" in targets and len(targets) > 1
    assert write_markdown(page)


def test_a_card_without_a_loss_has_the_plan_of_its_own() -> None:
    """As in `viete grad`, the loss is the cross-entropy of the logits, and the targets an input."""
    page = plan_document(vt.read("attention-only-2").bind(d=8, H=2, V=9), batch=2, length=3)
    assert {"loss +=", "∂W_E +=", "∂W_Q^{2,h} +="} <= {row[5].text for row in table(page).rows}


def test_products_dominate_and_are_counted_in_full() -> None:
    """SimpleTransformer at B = 64, T = 256: 80 GFLOP, nearly all in products."""
    rows = table(plan_document(vt.read("simple-transformer"), piece=2048)).rows
    units = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}

    def flops(text: str) -> float:
        value, _, unit = text.partition(" ")
        return float(value) * units[unit]

    total = 8 * sum(flops(row[7].text) for row in rows)
    products = 8 * sum(flops(row[7].text) for row in rows if " @ " in row[2].text)
    assert total == pytest.approx(80.6e9, rel=0.02)
    assert products > 0.98 * total


def test_planning_is_linear_in_blocks() -> None:
    def seconds(blocks: int) -> float:
        model = vt.read("llama").bind(V=11, d=8, H=2, G=1, d_f=12, N=blocks)
        start = time.process_time()
        plan_document(model, "cross_entropy(logits; t)", batch=2, length=5)
        return time.process_time() - start

    seconds(2)
    assert min(seconds(40) for _ in range(2)) < 8 * min(seconds(10) for _ in range(2))


@pytest.mark.parametrize("batch, length", [(0, None), (2, 0), (2, 10**6)])
def test_impossible_sizes_are_refused(batch: int, length: int | None) -> None:
    with pytest.raises(VieteError):
        plan_document(vt.read("simple-transformer"), batch=batch, length=length)
