/** An expansion as a graph over positions and blocks: the drawing is Python's, each arrow opens. */
import { el, own } from "./dom.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./expansion.js").Term} Term */
/** @typedef {import("./expansion.js").Terms} Terms */

/**
 * @param {string} svg @param {Terms} terms  of the number that the graph is of
 * @param {(found: Terms, name: string) => Node} draw  the terms of an arrow
 */
export function graph(svg, terms, draw) {
  const picture = own(svg, "div", { class: "scroll" });
  const said = el("output", { class: "readout" }, "Point at an arrow for its value; choose it to open it.");
  const opened = el("div", { class: "body", "aria-live": "polite" });
  const drawing = picture.querySelector("svg");
  drawing?.setAttribute("role", "group");
  drawing?.setAttribute("aria-label", "Arrows of the expansion: positions across, blocks upwards");
  for (const arrow of picture.querySelectorAll("path.arrow")) {
    const name = arrow.querySelector("title")?.textContent ?? "";
    const { term } = /** @type {SVGElement} */ (arrow).dataset;
    const tell = () => (said.textContent = name);
    arrow.setAttribute("tabindex", "0");
    arrow.setAttribute("role", term ? "button" : "img");
    arrow.setAttribute("aria-label", name);
    arrow.addEventListener("pointerenter", tell);
    arrow.addEventListener("focus", tell);
    if (!term) continue;
    const open = async () => {
      for (const other of picture.querySelectorAll(".chosen")) other.classList.remove("chosen");
      arrow.classList.add("chosen");
      const found = await find(terms, term.split(", ").map(stepOf));
      if (found) opened.replaceChildren(el("p", { class: "hint" }, name), draw(found, name));
    };
    arrow.addEventListener("click", open);
    arrow.addEventListener("keydown", (event) => {
      const { key } = /** @type {KeyboardEvent} */ (event);
      if (key !== "Enter" && key !== " ") return;
      event.preventDefault();
      open();
    });
  }
  requestAnimationFrame(() => (picture.scrollLeft = picture.scrollWidth)); // where the arrows end
  return el("figure", { class: "v-graph" }, picture, said, opened);
}

/** Head 2 of "head 2", source 0 of "source 0 “I”"; a name of a value is no step. @param {string} text */
const stepOf = (text) => text.match(/^[a-z]+ \d+/)?.[0] ?? "";

/** The terms of the term to which steps lead, as far as they lead. @param {Terms} terms @param {string[]} steps @returns {Promise<Terms | null>} */
async function find(terms, steps) {
  const wanted = steps.filter(Boolean);
  let here = terms;
  while (wanted.length) {
    let next = null;
    for (const term of here.terms) {
      const own = term.label.split(", ").map(stepOf).filter(Boolean);
      if (own.length && own.every((step, k) => step === wanted[k])) next = { term, used: own.length };
    }
    next ??= await through(here, wanted);
    if (!next?.term.open) return next ? { terms: [next.term], within: "" } : here;
    wanted.splice(0, next.used);
    here = await next.term.open();
  }
  return here;
}

/** A sum without steps of its own, such as that over heads, in which the next step stands. @param {Terms} here @param {string[]} wanted */
async function through(here, wanted) {
  for (const term of here.terms) {
    if (stepOf(term.label) || !term.open) continue;
    const inside = await term.open();
    if (inside.terms.some((t) => stepOf(t.label) === wanted[0])) return { term, used: 0 };
  }
  return null;
}
