"""Pages of unlike cards for everyone: axe-core, the keyboard alone, the clipboard, and paper.

`make browser` runs these; they need Chromium, Node and, for axe-core, `npm ci` in page/.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.test_explore import AXE, ask
from tests.laws.strategies import random_inputs, shipped, tiny
from viete.explore.data import page_data
from viete.explore.page_file import page_html

pytestmark = pytest.mark.browser
CARDS = ("simple-transformer", "symbolic-transformer", "gemma2", "mixtral", "bert", "t5")


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run of a small shipped card, and its page."""
    folder = tmp_path_factory.mktemp("pages")

    def made(name: str) -> tuple[Any, Path]:
        card = tiny(next(path for path in shipped() if path.endswith(f"/{name}.md")))
        run = card.run(inputs=random_inputs(card, n=4), weights=card.initial_weights())
        file = folder / f"{name}.html"
        file.write_text(page_html(page_data(run)), "utf-8")
        return run, file

    return made


@pytest.mark.parametrize("name", CARDS)
def test_axe_finds_nothing(run_of: Any, name: str) -> None:
    for width, dark in ((1280, False), (390, True)):
        found = ask(run_of(name)[1], AXE.read_text("utf-8") + """;
            await step(5);
            main().querySelector("td, canvas").click(); await soon();
            all("details").forEach((d) => (d.open = true)); await soon();
            const root = document.documentElement;
            const {violations} = await axe.run(document);
            return {wide: root.scrollWidth - root.clientWidth, violations: violations.map((v) =>
              [v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200))])};
        """, width=width, dark=dark)  # fmt: skip
        assert found == {"wide": 0, "violations": []}


def test_no_formula_is_cut(run_of: Any) -> None:
    cut = ask(run_of("gemma2")[1], """
        await step(7); await soon();
        return all(".v-equations .formula, .v-story .formula").filter((f) => {
          const hidden = f.scrollWidth > f.clientWidth + 1;
          return hidden && getComputedStyle(f).overflowX === "visible";
        }).length;
    """)  # fmt: skip
    assert cut == 0


def test_each_matrix_copies_as_numpy_and_each_equation_as_latex(run_of: Any) -> None:
    run, page = run_of("simple-transformer")
    found = ask(page, """
        const read = () => navigator.clipboard.readText();
        const matrices = {}, equations = {};
        while (!one(".go.next").disabled) one(".go.next").click();
        await soon();
        for (const {dataset} of all(".v-register tbody tr")) {
          to(dataset.member); await soon();
          main().querySelector(".copy").click(); await soon();
          matrices[dataset.member] = await read();
        }
        for (const line of all(".v-equations li[data-defines]")) {
          [...line.querySelectorAll(".tools .copy")].pop().click(); await soon();
          equations[line.dataset.defines] = await read();
        }
        return {matrices, equations};
    """, permissions=("clipboardReadWrite", "clipboardSanitizedWrite"))  # fmt: skip
    assert {"X", "logits"} < found["matrices"].keys()
    for member, text in found["matrices"].items():
        np.testing.assert_array_equal(eval(text, {"np": np}), run[member])
    assert len(found["equations"]) == len(found["matrices"])
    assert all(" = " in latex and "<" not in latex for latex in found["equations"].values())
    assert found["equations"]["X"].startswith("X =")


def test_the_keyboard_alone(run_of: Any) -> None:
    found = ask(run_of("symbolic-transformer")[1], """
        const named = (e) => e.getAttribute("aria-label") || e.textContent.trim() ||
          e.placeholder || e.closest("label")?.textContent.trim();
        const stops = all("button, input, summary, [tabindex='0']").filter((e) =>
          e.tabIndex >= 0 && e.getClientRects().length);
        const nameless = stops.filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 80));
        const negative = stops.filter((e) => e.tabIndex > 0).length;
        at("S"); await soon();
        const cell = main().querySelector("td[tabindex='0']");
        cell.focus(); key("ArrowDown", cell); key("ArrowRight", document.activeElement);
        const place = document.activeElement.dataset.at;
        key("Enter", document.activeElement); await soon();
        const opened = !!one(".v-entry");
        key("Escape", one(".v-values")); await soon();
        return {nameless, negative, place, opened, closed: !one(".v-entry"),
                grid: one("[role=grid]").getAttribute("aria-label")};
    """)  # fmt: skip
    assert found["nameless"] == [] and found["negative"] == 0 and found["place"] == "1,1"
    assert found["opened"] and found["closed"] and found["grid"] == "S"
