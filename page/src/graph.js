/** An expansion as a graph over positions and blocks: the drawing is Python's, each arrow opens. */
import { el, own } from "./dom.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./expansion.js").Term} Term */
/** @typedef {import("./expansion.js").Terms} Terms */

/**
 * @param {string} svg @param {Terms} terms  of the number that the graph is of
 * @param {(name: string) => Promise<Terms | null>} made  what made a feature
 * @param {(found: Terms, name: string) => Node} draw  the terms of an arrow
 */
export function graph(svg, terms, made, draw) {
  const picture = own(svg, "div", { class: "scroll" });
  const said = el("output", { class: "readout" }, "Point at an arrow to see its value. Click it to split it further.");
  const opened = el("div", { class: "body", "aria-live": "polite" });
  const drawing = picture.querySelector("svg");
  drawing?.setAttribute("role", "group");
  drawing?.setAttribute("aria-label", "Arrows of the expansion: positions from left to right, blocks upwards");
  drawing?.style.setProperty("--width", `${drawing.getAttribute("width")}px`);
  for (const arrow of picture.querySelectorAll("path.arrow")) {
    const name = arrow.querySelector("title")?.textContent ?? "";
    const { terms: labels, opens } = /** @type {SVGElement} */ (arrow).dataset;
    const tell = () => (said.textContent = name);
    arrow.setAttribute("tabindex", "0");
    arrow.setAttribute("role", labels || opens ? "button" : "img");
    arrow.setAttribute("aria-label", name);
    arrow.addEventListener("pointerenter", tell);
    arrow.addEventListener("focus", tell);
    if (!labels && !opens) continue;
    const open = async () => {
      for (const other of picture.querySelectorAll(".chosen")) other.classList.remove("chosen");
      arrow.classList.add("chosen");
      tell();
      try {
        const found = opens ? await made(opens) : await all(terms, JSON.parse(labels ?? "[]"));
        if (found) opened.replaceChildren(el("p", { class: "hint" }, opens ? `What made ${opens}, before its gate:` : name), draw(found, name));
      } catch (error) {
        opened.replaceChildren(el("p", { class: "hint" }, error instanceof Error ? error.message : String(error)));
      }
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

/** The terms of an arrow: of one term its own, of several these. @param {Terms} terms @param {[string, number][]} wanted  their labels and values @returns {Promise<Terms | null>} */
async function all(terms, wanted) {
  const found = [];
  for (const [label, value] of wanted) {
    const term = await valued(await find(terms, label.split(", ").map(stepOf)), value);
    found.push(term ? { ...term, label, math: null } : { label, value, math: null, formula: "", kind: "term", open: null, off: null });
  }
  const [only] = found;
  return found.length === 1 && only.open ? only.open() : { terms: found, within: "" };
}

/** A term, or that of its own terms which has a value. @param {Term | null} term @param {number} value @returns {Promise<Term | null>} */
async function valued(term, value) {
  if (!term || Math.abs(term.value - value) <= 1e-4 * Math.abs(value)) return term;
  for (const inner of term.open ? (await term.open()).terms : []) {
    if (Math.abs(inner.value - value) <= 1e-4 * Math.abs(value)) return inner;
  }
  return null;
}

/** Head 2 of "head 2", source 0 of "source 0 “I”"; a name of a value is no step. @param {string} text */
const stepOf = (text) => text.match(/^[a-z]+ \d+/)?.[0] ?? "";

/** The term to which steps lead, as far as they lead. @param {Terms} terms @param {string[]} steps @returns {Promise<Term | null>} */
async function find(terms, steps) {
  const wanted = steps.filter(Boolean);
  let here = terms;
  let at = null;
  while (wanted.length) {
    let next = null;
    for (const term of here.terms) {
      const own = term.label.split(", ").map(stepOf).filter(Boolean);
      if (own.length && own.every((step, k) => step === wanted[k])) next = { term, used: own.length };
    }
    next ??= await through(here, wanted);
    if (!next) return at;
    at = next.term;
    wanted.splice(0, next.used);
    if (!at.open) return at;
    if (wanted.length) here = await at.open();
  }
  return at;
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
