/** The lines of a step: the rows of each position, how they come about and what they are. */
import { el, own } from "./dom.js";
import { fit } from "./fit.js";

/** @typedef {import("./types.js").Line} Line */

const SHORT = 15; // letters of a formula that stands on one line

/** @param {{title: string, lines: Line[]}[]} sides @param {boolean} exact */
export function lines(sides, exact) {
  return el("div", { class: "sides" }, sides.map(({ title, lines: all }) => el("section", {},
    title ? own(title, "h3") : null,
    el("ul", { class: "lines" }, all.map((line) => one(line, exact))))));
}

/** @param {Line} line @param {boolean} exact */
function one(line, exact) {
  /** @type {[string, string][]} */
  const numbers = exact ? line.numbers.map((n) => ["=", n]) : line.decimals;
  /** @type {[string, string][]} */
  const sides = [...line.rows.map((row) => /** @type {[string, string]} */ (["=", row])), ...numbers];
  const chain = sides.map(([sign, formula], k) => side(sign, formula, k === sides.length - 1 ? "result" : "came"));
  if (exact && line.digits) chain.push(side("≈", line.digits, "digits"));
  const note = exact ? line.note : line.decimal_note;
  return fit(el("li", { class: line.part ? "on-the-way" : "made" },
    line.name ? own(line.name, "span", { class: "row-name" }) : null,
    chain.flatMap((part) => [" ", part]),
    note ? own(note, "span", { class: "note" }) : null));
}

/** @param {string} sign @param {string} formula @param {string} kind */
function side(sign, formula, kind) {
  const set = own(formula);
  const math = set.querySelector("math");
  const pieces = math ? broken(math) : [set];
  return el("span", { class: kind }, el("span", { class: "whole" }, sign, "\u00a0", pieces[0]),
    pieces.slice(1).flatMap((piece) => [" ", piece]));
}

/** A browser breaks no formula: a long row of numbers becomes one formula up to each comma. @param {Element} math */
function broken(math) {
  if ((math.textContent ?? "").length <= SHORT) return [math];
  const flat = flattened(math, null);
  let depth = 0;
  const pieces = [[/** @type {Element} */ (flat[0])]];
  flat.slice(1).forEach((node, k) => {
    if (flat[k].localName === "mo") depth += { "(": 1, ")": -1 }[flat[k].textContent ?? ""] ?? 0;
    if (depth === 1 && flat[k].textContent === ",") pieces.push([]);
    pieces[pieces.length - 1].push(node);
  });
  if (pieces.length === 1) return [math];
  return pieces.map((nodes) => {
    const piece = document.createElementNS(math.namespaceURI, "math");
    piece.append(...nodes);
    return piece;
  });
}

/** What stands in rows within rows, in one; each part knows what it pointed at. @param {Element} node @param {Element | null} within @returns {Element[]} */
function flattened(node, within) {
  const own = node.hasAttribute("data-member") ? node : within;
  if (node.localName === "math" || node.localName === "mrow") {
    const [first] = node.children;
    if (first?.localName === "mo" && first.textContent !== "(") first.setAttribute("form", "prefix");
    return [...node.children].flatMap((child) => flattened(child, own));
  }
  if (within && own === within) {
    for (const name of ["data-key", "data-member", "data-row"]) node.setAttribute(name, within.getAttribute(name) ?? "");
  }
  return [node];
}
