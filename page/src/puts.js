/** Changes such as A^{1,2} = 0: what each puts to 0, how the equation reads then, and the list of them. */
import { button, el, own } from "./dom.js";
import { fit } from "./fit.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./edits.js").EditsStore} EditsStore */
/** @typedef {{equation: string, key: string}} Put */
/** @typedef {{key: string, letters: [string, string][], places: number[]}} PutToZero  the symbol, what its letters are, and an entry's row and column */

const TOKEN = /(?<=[,{_^])[A-Za-zα-ωΑ-Ω]\w*(?=[,}]|$)/g; // an index letter in a key such as A^{i,h}
const MATH = "http://www.w3.org/1998/Math/MathML";

/** What an equation puts to 0; null where it says something else. @param {Context} ctx @param {string} equation @returns {PutToZero | null} */
export function putToZero(ctx, equation) {
  const parts = equation.match(/^\s*(.+?)(?:\[([\d, ]+)\])?\s*=\s*0\s*$/);
  if (!parts) return null;
  for (const [key, { kind }] of Object.entries(ctx.data.symbols)) {
    if (kind !== "value") continue;
    const letters = key.match(TOKEN) ?? [];
    const rest = key.split(TOKEN).map((text) => text.replace(/[^\w]/g, "\\$&"));
    const found = parts[1].match(new RegExp(`^${rest.reduce((a, b, k) => `${a}(${letters[k - 1]}|\\d+)${b}`)}$`));
    if (!found) continue;
    const at = letters.map((letter, k) => /** @type {[string, string]} */ ([letter, found[k + 1]]));
    return { key, letters: at.filter(([letter, number]) => letter !== number), places: parts[2]?.split(",").map(Number) ?? [] };
  }
  return null;
}

/** The entries of a member that changes put to 0, as tests of an index. @param {Context} ctx @param {import("./values.js").Value} value @param {string[]} equations */
export function zeros(ctx, value, equations) {
  const { member } = value;
  const block = ctx.stepOf.get(member)?.block ?? {};
  return equations.map((equation) => putToZero(ctx, equation)).filter((put) => put?.key === ctx.symbolOf(member)).flatMap((put) => {
    if (!put) return [];
    const heads = Math.max(0, value.shape.length - 2);
    const axis = new Map(value.axes.slice(0, heads).map((letter, k) => [letter, k]));
    if (put.letters.some(([letter, number]) => letter in block && String(block[letter]) !== number)) return [];
    return [(/** @type {number[]} */ index) => put.letters.every(([letter, number]) => {
      const k = axis.get(letter);
      return k === undefined || (value.labels[k]?.[index[k]] ?? String(index[k] + 1)) === number;
    }) && put.places.every((place, k) => index[heads + k] === place)];
  });
}

/** A symbol with some of its letters as numbers. @param {Context} ctx @param {PutToZero} put */
function named(ctx, { key, letters, places }) {
  const name = own(ctx.data.symbols[key].math);
  for (const [letter, number] of letters) {
    for (const node of name.querySelectorAll("mi")) if (node.textContent === letter) node.replaceWith(mathElement("mn", number));
  }
  const math = /** @type {Element} */ (name.querySelector("math"));
  if (places.length) math.append(mathElement("mo", "["), mathElement("mn", places.join(", ")), mathElement("mo", "]"));
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
  const put = putToZero(ctx, equation);
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
  const found = puts.map(({ equation }) => putToZero(ctx, equation));
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
  const list = el("ul", { class: "v-changes", "aria-label": "Changes of the equations" });
  ctx.store.on((state, before) => {
    if (state !== before && state.put === before.put) return;
    list.hidden = !state.put.length;
    list.replaceChildren(...state.put.map(({ equation, key }) => el("li", {},
      button(`Take back ${equation}`, () => edits.togglePut(equation, key), {}, putFormula(ctx, equation), " ×"))));
  });
  return list;
}
