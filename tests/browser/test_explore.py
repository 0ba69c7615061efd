"""The page of `viete explore` in headless Chromium, from a file: what a reader does, and sees.

`make browser` runs these; they need Chromium, Node and, for axe-core, `npm ci` in page/.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete
from tests.browser.devtools import look
from tests.command_line import viete as command

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "page" / "node_modules" / "axe-core" / "axe.min.js"
READERS = """
const all = (s) => [...document.querySelectorAll(s)];
const one = (s) => document.querySelector(s);
const soon = () => new Promise((done) => setTimeout(done, 60));
const until = async (ready) => {
  for (let k = 0; k < 80 && !ready(); k++) await soon();
  if (!ready()) throw new Error("it did not come: " + ready);
};
const key = (name, at = document.body.querySelector("#page")) =>
  at.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true, cancelable: true}));
const main = () => one(".v-value.main");
const cells = () => [...main().querySelectorAll("tbody td")].map((c) => c.title);
const to = (member) => all(".v-register tr").find((r) => r.dataset.member === member)
  .querySelector("button").click();
const at = (member) => {
  const rows = all(".v-register tbody tr").map((r) => r.dataset.member);
  all(".v-pipe [data-step]")[rows.indexOf(member)].click();
};
const step = async (n) => {
  for (let k = 0; k < n; k++) one(".go.next").click();
  await soon();
};
await until(() => one(".v-pipe"));
const begin = one(".v-story").textContent;
one("[data-step='0']").click();
"""


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / "lesson.html"
    command("explore", "exact-lesson", "-t", "a b", "-o", file)
    return file


@pytest.fixture(scope="module")
def dialog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / "dialog.html"
    command("explore", "dialog-transformer", "-t", "3,1,4,1,5", "--seed", "1", "--set", "d=6",
            "--set", "n_max=8", "-o", file)  # fmt: skip
    return file


def ask(page: Path, does: str, *, width: int = 1280, dark: bool = False, **more: Any) -> Any:
    """What JavaScript returns in a page, which complains of nothing and asks nobody."""
    code = f"(async () => {{ {READERS}\n{does} }})()"
    found = look(page, width=width, dark=dark, expression=code, **more)
    assert found["thrown"] is None, found["thrown"]["exception"].get("description")
    assert not found["events"]
    away = [r for r in found["requests"] if not r.startswith(("blob:", "data:"))]
    assert away == [page.resolve().as_uri()]
    return found["value"]


def test_stepping_with_buttons_and_keys(lesson: Path) -> None:
    found = ask(lesson, """
        const states = () => all(".v-pipe [data-step]").map((c) => c.className.split(" ")[1]);
        const first = states();
        await step(2); key("ArrowRight"); key("ArrowLeft"); key("ArrowRight", document.body);
        return {first, after: states(),
                now: one(".v-equations [aria-current=step]").dataset.defines,
                row: one(".v-register tr.now").dataset.member,
                rows: all(".v-register tbody tr").map((r) => r.dataset.member)};
    """)  # fmt: skip
    assert found["first"][0] == "now" and set(found["first"][1:]) == {"later"}
    assert found["after"][:4] == ["done", "done", "done", "now"] and found["after"][4] == "later"
    assert found["now"] == found["row"] == found["rows"][3]


def test_a_lesson_is_read_from_its_opening_to_its_closing(lesson: Path) -> None:
    """With the arrows alone, in exact numbers and in decimals; what a row is, the register says."""
    found = ask(lesson, """
        const lines = () => all(".lines li")
          .map((li) => li.textContent.replace(/[\u2062 \u00a0]/g, ""));
        at("x"); const sum = lines();
        at("A"); const decimal = lines();
        one(".switches [data-name=exact]").click(); const exact = lines();
        at("a"); const summary = one(".summary").textContent;
        const row = one('.lines [data-member="A"][data-row="1"]');
        row.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
        const lit = one("td.lit-row").closest("tr").dataset.member;
        row.dispatchEvent(new MouseEvent("click", {bubbles: true}));
        const looked = main().dataset.member;
        for (let k = 0; k < 20; k++) key("ArrowRight");
        const end = one(".v-story").textContent;
        one(".switches [data-name=decimal]").click();
        for (let k = 0; k < 20; k++) key("ArrowLeft");
        return {begin, again: one(".v-story").textContent === begin, sum, decimal, exact, summary,
                lit, looked, end, left: all(".v-register tbody tr:not(.later)").length,
                done: all(".v-equations [data-status=done], .flow [data-status=done]").length};
    """)  # fmt: skip
    assert "The model reads" in found["begin"] and "predicts a, because 1>0" in found["begin"]
    assert found["again"] and found["left"] == found["done"] == 0
    assert found["sum"] == [
        "x0=E[a]+P0=(1,0)+(0,0)=(1,0)", "x1=E[b]+P1=(0,1)+(1,0)=(1,1)",
    ]  # fmt: skip
    assert any("0.2689" in x for x in found["decimal"])
    assert any("≈(0.268941,0.731059)" in x for x in found["exact"])
    assert "reads 27% from position 0 (a)" in found["summary"]
    assert found["lit"] == "A" and found["looked"] == "A"
    assert "At position 1 (b) the model predicts a" in found["end"]


def test_the_diagram_opens_what_is_computed_now(lesson: Path) -> None:
    """The box of the step, and those that a reader opens, with letters of 11 pixels at least."""
    for width in (1280, 390):
        found = ask(lesson, """
            const open = () => all(".flow .title[aria-expanded=true]").map((t) => t.textContent);
            const now = () => all(".flow .line[data-status=now]").map((l) => l.dataset.key);
            at("A"); const first = {open: open(), now: now()};
            const title = all(".flow .title").find((t) => t.textContent === "MLP");
            title.focus(); title.click();
            at("logits"); const then = {open: open(), now: now()};
            const letters = all(".flow *").filter((e) => e.getClientRects().length &&
              !e.closest("math") &&
              [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
            const boxes = all(".flow .box").map((b) => b.getBoundingClientRect());
            await new Promise((done) => requestAnimationFrame(done));
            return {first, then, wires: all(".flow > .rail .wire").length,
                    streams: all(".flow > .rail .wire.stream").length,
                    least: Math.min(...letters.map((e) =>
                      parseFloat(getComputedStyle(e).fontSize))),
                    wide: Math.max(...boxes.map((b) => b.right)) - innerWidth};
        """, width=width)  # fmt: skip
        assert found["first"] == {"open": ["Attention"], "now": ["A"]}
        assert found["then"]["open"] == ["MLP", "Unembedding"]
        assert found["then"]["now"] == ["logits"]
        assert found["streams"] >= 2 and found["wires"] > found["streams"]
        assert found["least"] >= 11 and found["wide"] <= 0


def test_a_symbol_lights_up_everywhere(lesson: Path) -> None:
    found = ask(lesson, """
        one('.v-equations [data-defines="Q"] [data-key="x"]').dispatchEvent(
          new PointerEvent("pointerover", {bubbles: true}));
        return {made: all(".lit-made").map((e) => e.dataset.number), row: !!one("tr.lit"),
                used: all(".lit-used").map((e) => e.dataset.number),
                shape: one(".v-inspector").textContent};
    """)  # fmt: skip
    made, used = found["made"], found["used"]
    assert made == ["1"] and len(used) >= 4 and found["row"]
    assert "n×d" in found["shape"] and "defined in equation 1" in found["shape"]


def test_an_entry_says_how_it_was_computed(lesson: Path) -> None:
    found = ask(lesson, """
        at("Q");
        main().querySelector('td[data-at="1,0"]').click();
        const product = one(".v-entry .written").textContent;
        at("A");
        const cell = main().querySelector('td[data-at="1,1"]');
        cell.focus(); key("Enter", cell);
        const called = one(".v-entry summary").textContent;
        return {product, called, sources: all(".operands .source").length,
                focus: document.activeElement.dataset.at};
    """)  # fmt: skip
    assert found["product"] == "1 · 1 + 1 · 0 = 1"
    assert found["called"] == "Definition of softmax" and found["sources"] == 2
    assert found["focus"] == "1,1"


def test_a_call_opens_into_its_definition(lesson: Path) -> None:
    assert "exp" in ask(lesson, """
        one('.v-equations [data-defines="A"] [data-call]').dispatchEvent(
          new MouseEvent("click", {bubbles: true}));
        return one('.v-equations [data-defines="A"] .opened').textContent;
    """)  # fmt: skip


def test_exact_and_decimal_switch_in_place(lesson: Path) -> None:
    found = ask(lesson, """
        at("A");
        const decimal = cells();
        one(".switches [data-name=exact]").click();
        return {decimal, exact: cells(), row: one("tr.now").dataset.member};
    """)  # fmt: skip
    assert found["exact"][0] == "1" and "e" in found["exact"][2] and found["row"] == "A"
    e = np.e / (np.e + np.e**2)
    assert np.allclose(list(map(float, found["decimal"])), [1, 0, e, 1 - e], atol=1e-12, rtol=0)


def test_every_number_is_that_of_python(lesson: Path) -> None:
    shown = ask(lesson, """
        const found = {};
        for (let k = 0; k < all(".v-pipe [data-step]").length; k++) {
          found[main().dataset.member] = cells();
          one(".go.next").click();
        }
        return found;
    """)  # fmt: skip
    run = viete.read("exact-lesson").with_weights().run([0, 1])
    assert len(shown) == len(run.program.steps)
    for member, texts in shown.items():
        there = np.asarray(run[member], dtype=float).ravel()
        assert np.allclose([float(t) for t in texts], there, atol=1e-12, rtol=0), member


def test_backward_shows_each_gradient_beside_its_value(lesson: Path) -> None:
    found = ask(lesson, """
        one(".switches [data-name=backward]").click();
        const heading = [];
        for (let k = 0; k < 6; k++) {
          heading.push(one(".v-story").textContent);
          one(".go.next").click();
        }
        return heading;
    """)  # fmt: skip
    assert any("rule of cross_entropy" in text for text in found)


def test_text_and_weights_are_edited_and_all_follows(dialog: Path) -> None:
    found = ask(dialog, """
        const before = one('.v-register').textContent;
        const field = one(".edit-tokens input");
        field.value = "2 7 1"; one(".edit-tokens button").click();
        await until(() => all(".tokens li").length === 3);
        to("X"); await soon();
        const text = cells().length;
        one(".v-symbols tr[data-key=E] button").click(); await soon();
        const numbers = main().querySelector("[data-name=numbers]");
        if (numbers) numbers.click();
        main().querySelector('td[data-at="2,0"]').click(); await soon();
        const input = one(".v-entry input");
        input.value = "3"; input.dispatchEvent(new Event("change")); await soon(); await soon();
        to("X"); await soon();
        const changed = cells()[0];
        one(".undo").click(); await soon();
        return {text, changed, same: one(".v-register").textContent === before};
    """)  # fmt: skip
    assert found["text"] == 18 and found["same"]
    model = viete.read("dialog-transformer").bind(d=6, n_max=8).with_weights(seed=1)
    weights = {name: np.array(w) for name, w in model.weights.items()}
    weights["E"][2, 0] = 3.0
    there = model.with_weights(weights).run([2, 7, 1])["X"][0, 0]
    assert np.isclose(float(found["changed"]), there, atol=1e-12, rtol=0)


def test_a_text_goes_on(dialog: Path) -> None:
    found = ask(dialog, """
        const tokens = () => all(".tokens li b").map((b) => Number(b.textContent));
        const before = tokens().length;
        for (const more of [1, 2]) {
          all(".edit-tokens button").find((b) => b.textContent === "Continue").click();
          await until(() => tokens().length === before + more);
        }
        return {tokens: tokens(), field: one(".edit-tokens input").value};
    """)  # fmt: skip
    model = viete.read("dialog-transformer").bind(d=6, n_max=8).with_weights(seed=1)
    ids = [3, 1, 4, 1, 5]
    for _ in range(2):
        ids.append(int(np.argmax(model.run(ids)["logits"][-1])))
    assert found["tokens"] == ids and found["field"] == " ".join(map(str, ids))


def test_the_model_learns_before_ones_eyes(dialog: Path) -> None:
    first, last = ask(dialog, r"""
        const box = one(".v-training");
        const said = (what) => (box.querySelector("output").textContent.match(what) ?? [])[1];
        box.open = true;
        one(".play").click();
        await until(() => said(/step (\d+)/));
        const first = box.querySelector("svg").getAttribute("aria-label").match(/from ([\d.]+)/)[1];
        await until(() => Number(said(/step (\d+)/)) > 30);
        one(".play").click();
        return [first, said(/loss (.*)/).replaceAll("−", "-")];
    """)  # fmt: skip
    assert float(last) < float(first) / 2


def test_a_head_is_switched_off(tmp_path: Path) -> None:
    sizes = {"N": 2, "d": 16, "H": 2, "d_k": 8, "d_f": 8, "V": 10, "n_max": 8}
    options = [x for name, size in sizes.items() for x in ("--set", f"{name}={size}")]
    page = tmp_path / "page.html"
    command("explore", "pythia", "-t", "3,1,4", "--seed", "1", *options, "-o", page)
    found = ask(page, """
        at("A^{1,h}"); await soon();
        all(".switch")[1].click();
        await until(() => one(".put"));
        await until(() => one(".v-note").textContent);
        const put = one(".put").textContent;
        one(".v-symbols tr[data-key=logits] button").click(); await soon();
        return {put, logits: cells().map(Number)};
    """)  # fmt: skip
    model = viete.read("pythia").bind(**sizes).with_weights(seed=1)
    there = model.put("A^{1,2} = 0").run([3, 1, 4])["logits"]
    assert "0" in found["put"] and "otherwise" in found["put"]
    assert np.allclose(found["logits"], np.ravel(there), atol=1e-12, rtol=0)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_anyone_can_read_it(lesson: Path, dialog: Path, width: int, dark: bool) -> None:
    assert AXE.is_file(), "cd page && npm ci"
    for page in (lesson, dialog):
        found = ask(page, AXE.read_text("utf-8") + """;
            await step(4);
            main().querySelector("td").click();
            all("details").forEach((d) => (d.open = true)); await soon();
            const root = document.documentElement;
            const {violations} = await axe.run(document);
            return {wide: root.scrollWidth - root.clientWidth, violations: violations.map((v) =>
              [v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200))])};
        """, width=width, dark=dark)  # fmt: skip
        assert found["violations"] == [] and found["wide"] <= 0


def test_what_a_reader_brings_is_text(tmp_path: Path) -> None:
    card = Path(viete.__file__).parent / "cards"
    source = next(card.rglob("exact-lesson.md")).read_text("utf-8")
    bad = "<img/src=x/onerror=document.title='out'>"
    file = tmp_path / "card.md"
    file.write_text(re.sub(r"^# .*", f"# {bad}", source, count=1, flags=re.M), "utf-8")
    command("explore", file, "-t", "a b", "-o", tmp_path / "page.html")
    title, images = ask(tmp_path / "page.html", "return [document.title, all('img').length];")
    assert title != "out" and images == 0
