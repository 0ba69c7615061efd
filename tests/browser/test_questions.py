"""Questions to the page in Chromium: terms, heads switched off, claims. Numbers are Python's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete
from tests.browser.test_explore import ask
from tests.command_line import viete as command

pytestmark = pytest.mark.browser

SIZES = {"N": 2, "d": 16, "H": 2, "d_k": 8, "d_f": 8, "V": 10, "n_max": 8}
SETS = [x for name, size in SIZES.items() for x in ("--set", f"{name}={size}")]
MODEL = viete.read("pythia").bind(**SIZES).with_weights(seed=1)
DONE = "const done = async () => { for (let k = 0; k < 5; k++) await soon(); };"
LOGIT = (
    DONE
    + """
  one(".v-symbols tr[data-key=logits] button").click(); await soon();
  main().querySelector('td[data-at="2,5"]').click();
  await until(() => one(".v-terms ul.terms"));
  const rows = (list) => [...list.children].map((li) => li.firstChild);
  const value = (row) => Number(row.querySelector("summary output").title);
  const open = async (row) => {
    row.open = true;
    await done();
    return row.querySelector("ul.terms");
  };
"""
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / "pythia.html"
    command("explore", "pythia", "-t", "3,1,4", "--seed", "1", *SETS, "-o", file)
    return file


def close(a: Any, b: Any) -> bool:
    return bool(np.allclose(a, b, atol=1e-12, rtol=0))


def test_a_logit_opens_into_terms_down_to_the_last(page: Path) -> None:
    found = ask(page, LOGIT + """
        const total = Number(one(".v-entry header output").textContent.replace("−", "-"));
        const blocks = rows(one(".v-terms ul.terms"));
        const levels = [];
        for (let row = blocks[0]; row; ) {
          const list = await open(row);
          if (!list) break;
          const inside = rows(list);
          const name = row.querySelector("summary .term").textContent;
          levels.push({name, value: value(row), inside: inside.map(value)});
          row = inside[0];
        }
        return {total, blocks: blocks.map(value), levels,
                output: one(".v-terms .total output").title};
    """)  # fmt: skip
    run = MODEL.run([3, 1, 4])
    logit = run["logits_{2,5}"]
    assert close(float(found["output"]), logit) and close(sum(found["blocks"]), logit)
    assert sorted(found["blocks"]) == pytest.approx(
        sorted(float(t.value) for t in run.expand("logits_{2,5}") if t.kind != "rounding"),
        abs=1e-12,
    )
    names = [level["name"] for level in found["levels"]]
    assert "block 2" in names[0] and "head 2" in names and any("source" in x for x in names)
    for level in found["levels"]:
        assert close(sum(level["inside"]), level["value"]), level["name"]
    heads = run.expand("logits_{2,5}", into="head")
    head = next(t.value for t in heads if getattr(t, "label", "") == "block 2, head 2")
    assert close(found["levels"][names.index("head 2")]["value"], head)


def test_terms_follow_a_change_of_the_text(page: Path) -> None:
    found = ask(page, """
        const field = one(".edit-tokens input");
        field.value = "7 2 9 1"; one(".edit-tokens button").click();
        await until(() => all(".tokens li").length === 4);
    """ + LOGIT + """
        const terms = rows(one(".v-terms ul.terms"));
        return terms.map((row) => [row.querySelector("summary .term").textContent, value(row)]);
    """)  # fmt: skip
    there = [float(t.value) for t in MODEL.run([7, 2, 9, 1]).expand("logits_{2,5}")]
    assert close(sorted(v for _, v in found), sorted(there[:-1]))


def test_switches_stack_and_are_taken_back(page: Path) -> None:
    found = ask(page, DONE + """
        at("A^{1,h}"); await soon();
        const row = one('.v-equations [data-defines="A^{i,h}"]');
        const before = row.querySelector(".formula").textContent;
        all(".v-story .switch")[1].click();
        await until(() => one(".v-changes li"));
        at("m^1"); await soon();
        one(".v-story .switch").click();
        await until(() => all(".v-changes li").length === 2);
        const changed = [row.querySelector(".struck").textContent === before,
                         row.querySelector("ins").textContent];
        await done();
        one(".v-symbols tr[data-key=logits] button").click(); await soon();
        const both = cells().map(Number);
        one(".v-changes button").click();
        await until(() => all(".v-changes li").length === 1); await done();
        const second = cells().map(Number);
        one(".v-changes button").click();
        await until(() => !all(".v-changes li").length); await done();
        return {changed, both, second, none: cells().map(Number),
                left: all(".struck, .put").length};
    """)  # fmt: skip
    struck, now = found["changed"]
    assert struck and "0" in now and "if" in now and "otherwise" in now
    puts = (["A^{1,2} = 0", "m^1 = 0"], ["m^1 = 0"])
    for shown, put in zip((found["both"], found["second"]), puts, strict=True):
        assert close(shown, np.ravel(MODEL.put(*put).run([3, 1, 4])["logits"]))
    assert close(found["none"], np.ravel(MODEL.run([3, 1, 4])["logits"])) and found["left"] == 0


def test_a_term_is_switched_off_where_it_stands(page: Path) -> None:
    found = ask(page, LOGIT + """
        const block = rows(one(".v-terms ul.terms"))[0];
        const named = (row) => row.querySelector(".term").textContent;
        const heads = rows(await open(block)).find((row) => !named(row).includes("m"));
        const head = rows(await open(heads))[0];
        const source = rows(await open(head))[0];
        await open(source);
        const equation = source.querySelector(".switch").dataset.equation;
        source.querySelector(".switch").click();
        await until(() => one(".v-changes li")); await done();
        return {equation, logits: cells().map(Number)};
    """)  # fmt: skip
    there = MODEL.put(found["equation"]).run([3, 1, 4])["logits"]
    assert "[2, " in found["equation"] and close(found["logits"], np.ravel(there))


def test_arrows_over_positions_and_blocks_open(page: Path) -> None:
    run = MODEL.run([3, 1, 4])
    best = int(run["logits"][2].argmax())
    found = ask(page, LOGIT + f"""
        main().querySelector('td[data-at="2,{best}"]').click(); await done();
        one(".v-terms .again").click();
        await until(() => one(".v-graph .arrow"));
        const arrows = all(".v-graph .arrow");
        const head = arrows.find((a) => JSON.parse(a.dataset.terms ?? "[]").length === 1
          && a.dataset.terms.startsWith('[["block 2, head 1, source'));
        head.dispatchEvent(new PointerEvent("pointerenter"));
        const said = one(".v-graph .readout").textContent;
        key("Enter", head); await done();
        return {{said, label: head.getAttribute("aria-label"), value: Number(head.dataset.value),
                 term: JSON.parse(head.dataset.terms)[0][0],
                 inside: rows(one(".v-graph ul.terms")).map(value)}};
    """)  # fmt: skip
    e = run.expand(f"logits_{{2,{best}}}", into="head, source")
    there = next(float(t.value) for t in e.terms if t.label == found["term"])
    assert found["said"] == found["label"] and close(found["value"], there)
    assert close(sum(found["inside"]), there)


def test_claims_show_their_checks(tmp_path: Path) -> None:
    claims = tmp_path / "claims.md"
    claims.write_text("It holds that $sum(A^{i,h}) = 1$, and not ~~$x^1 = x^0$~~.\n", "utf-8")
    file = tmp_path / "page.html"
    command("explore", "pythia", "-t", "3,1,4", "--seed", "1", *SETS, "--claims", claims,
            "-o", file)  # fmt: skip
    found = ask(file, """
        one(".v-claims").open = true;
        return all(".verdicts li").map((li) => [li.querySelector("b").textContent,
          !!li.querySelector("del"), li.querySelector(".hint").textContent]);
    """)  # fmt: skip
    verdicts = MODEL.check(claims, tokens=[3, 1, 4]).verdicts
    assert found == [[v.word, v.claim.refuted, v.found()] for v in verdicts]
    assert [x[0] for x in found] in (["proved", "false"], ["holds", "false"])
