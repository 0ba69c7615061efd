/** Changes such as A^{1,2} = 0: how the equation reads then, and the list of them. */
import { button, el, own } from "./dom.js";
import { fit } from "./fit.js";
import { putToZero } from "./zeros.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./edits.js").EditsStore} EditsStore */
/** @typedef {{equation: string, key: string}} Put */
/** @typedef {import("./zeros.js").PutToZero} PutToZero */

const MATH = "http://www.w3.org/1998/Math/MathML";

/** A symbol with some of its letters as numbers. @param {Context} ctx @param {PutToZero} put */
function named(ctx, { key, letters, places }) {
  const name = own(ctx.data.symbols[key].math);
  for (const [letter, number] of letters) {
    for (const node of name.querySelectorAll("mi")) if (node.textContent === letter) node.replaceWith(mathElement("mn", number));
  }
  const math = /** @type {Element} */ (name.querySelector("math"));
  if (places.length) math.append(mathElement("msub", mathElement("mrow", ...math.childNodes), mathElement("mn", places.join(", "))));
  return math;
}

/** @param {string} tag @param {...(string | Node)} children */
function mathElement(tag, ...children) {
  const node = document.createElementNS(MATH, tag);
  node.append(...children);
  return node;
}

/** A change as mathematics, or as it was written. @param {Context} ctx @param {string} equation */
export function putFormula(ctx, equation) {
  const put = putToZero(ctx.data, equation);
  if (!put) return el("code", {}, equation);
  const math = named(ctx, put);
  math.append(mathElement("mo", "="), mathElement("mn", "0"));
  return el("span", {}, math);
}

/**
 * An equation as it reads with changes put in: 0 where they say, and as before otherwise.
 * @param {Context} ctx @param {Element} formula  the equation as MathML @param {Put[]} puts @returns {HTMLElement | null}
 */
export function changedFormula(ctx, formula, puts) {
  const math = formula.querySelector("math")?.cloneNode(true);
  const found = puts.map(({ equation }) => putToZero(ctx.data, equation));
  if (!(math instanceof Element) || found.some((put) => put === null)) return null;
  const inside = [...math.childNodes];
  const equals = inside.findIndex((node) => node.nodeName === "mo" && node.textContent === "=");
  if (equals < 0) return null;
  const right = mathElement("mrow", ...inside.slice(equals + 1));
  const rows = found.map((put) => row(mathElement("mn", "0"), put ? condition(put) : ""));
  const always = found.some((put) => put && !put.letters.length && !put.places.length);
  const cases = mathElement("mtable", ...rows, row(right, mathElement("mtext", "otherwise")));
  cases.setAttribute("columnalign", "left");
  math.append(...(always ? [mathElement("mn", "0")] : [mathElement("mo", "{"), cases]));
  return fit(el("div", { class: "formula" }, math));
}

/** @param {Node} value @param {Node | string} when */
const row = (value, when) => mathElement("mtr", mathElement("mtd", value, when));

/** @param {PutToZero} put */
function condition({ letters, places }) {
  const parts = letters.flatMap(([letter, number], k) => [mathElement("mtext", k ? "\u00a0and\u00a0" : "\u00a0if\u00a0"),
    mathElement("mi", letter), mathElement("mo", "="), mathElement("mn", number)]);
  if (places.length) parts.push(mathElement("mtext", `${letters.length ? "," : ""} at ${places.length > 1 ? `row ${places[0]}, column ${places[1]}` : `row ${places[0]}`}`));
  return mathElement("mrow", ...parts);
}

/** The changes that are in force, each taken back by a click. @param {Context} ctx @param {EditsStore} edits */
export function changes(ctx, edits) {
  const list = el("ul", { class: "v-changes", "aria-label": "Changed equations" });
  ctx.store.on((state, before) => {
    if (state !== before && state.put === before.put) return;
    list.hidden = !state.put.length;
    list.replaceChildren(...state.put.map(({ equation, key }) => el("li", {},
      button(`Undo ${equation}`, () => edits.togglePut(equation, key), {}, putFormula(ctx, equation), " ×"))));
  });
  return list;
}
