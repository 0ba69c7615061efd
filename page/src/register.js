/** The register: every value so far, positions side by side, the one computed now marked. */
import { el, own, textOf } from "./dom.js";
import { reveal } from "./equations.js";
import { strip } from "./heat.js";
import { typedAt } from "./matrix.js";
import { sameBlock, STATES } from "./progress.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./values.js").Value} Value */

const MOST_NUMBERS = 8;
const MOST_IN_A_LINE = 12; // numbers of all positions together; else each is a strip of colours
const MOST_LETTERS = 14; // of a number that is not broken, as bounds are
const MOST_POSITIONS = 12;
const MOST_SLICES = 4; // heads, one below the other
const MOST_ROWS = 6; // of a value that is not over the positions of the text

/** @param {Context} ctx */
export function register(ctx) {
  const holder = el("div", { class: "v-register" });
  /** @type {Map<string, HTMLElement>} rows with their values: a step draws one more and marks the others */
  const drawn = new Map();
  /** @type {HTMLElement[]} */
  let rows = [];
  ctx.store.on((state, before) => {
    const sameNumbers = state !== before && state.direction === before.direction && state.meaning === before.meaning && state.revision === before.revision;
    if (sameNumbers && state.step === before.step) return;
    if (!sameNumbers) drawn.clear();
    const words = ctx.data.tokens.words.slice(0, MOST_POSITIONS);
    const next = listed(ctx).map((step) => row(ctx, step, words.length, drawn));
    const same = sameNumbers && next.length === rows.length && next.every((line, k) => line.dataset.member === rows[k].dataset.member);
    if (same) next.forEach((line, k) => line !== rows[k] && rows[k].replaceWith(line));
    else holder.replaceChildren(table(ctx, words, next));
    rows = next;
    const now = rows.find((line) => line.className === "now");
    if (now) reveal(now);
  });
  return holder;
}

/** Of many blocks, the steps that belong to the block at hand or to none. @param {Context} ctx */
function listed(ctx) {
  const here = ctx.steps[ctx.state.step];
  const blocks = new Set(ctx.steps.map((step) => JSON.stringify(step.block))).size;
  return ctx.steps.filter((step) => blocks <= 4 || sameBlock(step, here) || !Object.keys(step.block).length);
}

/** @param {Context} ctx @param {string[]} words @param {HTMLElement[]} rows */
function table(ctx, words, rows) {
  return el("table", {},
    el("caption", {}, ctx.state.direction === "backward" ? "Gradients so far" : "Values so far"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "value"),
      words.map((word, k) => el("th", { scope: "col" }, el("small", {}, `position ${k} `), el("span", { class: "word" }, word))))),
    el("tbody", {}, rows));
}

/** @param {Context} ctx @param {import("./types.js").Step} step @param {number} positions @param {Map<string, HTMLElement>} drawn */
function row(ctx, step, positions, drawn) {
  const status = ctx.progress(step.member);
  const value = status === "later" ? null : ctx.value(step.member);
  const key = value ? step.member : `later ${step.member}`;
  const line = drawn.get(key) ?? el("tr", { "data-member": step.member, "data-key": ctx.symbolOf(step.member) },
    el("th", { scope: "row" }, el("button", { type: "button", class: "symbol", onclick: () => ctx.store.set({ looked: step.member, entry: null }) },
      own(ctx.math(step.member) ?? "")), value && alike(value) ? el("small", {}, `the same for ${value.sliceName(0)} to ${value.sliceName(value.slices - 1)}`) : null), cells(ctx, value, positions));
  drawn.set(key, line);
  if (line.className === status) return line;
  line.className = status;
  line.setAttribute("aria-current", String(status === "now"));
  line.querySelector("button")?.setAttribute("aria-label", `${textOf(ctx.math(step.member), step.member)}, ${STATES[status]}: show its value`);
  return line;
}

/** The row of each position; a value without positions takes the whole width. @param {Context} ctx @param {Value | null} value @param {number} positions */
function cells(ctx, value, positions) {
  if (!value) return Array.from({ length: positions }, () => el("td"));
  const axis = positionAxis(ctx, value);
  if (axis < 0) return [el("td", { colspan: positions }, coloured(value, value.rows) || value.rows > 1 ? whole(value) : vector(value, 0, 0))];
  const slices = alike(value) ? 1 : Math.min(value.slices, MOST_SLICES);
  return Array.from({ length: positions }, (_, k) => {
    const cell = el("td", { "data-row": k });
    if (axis === value.shape.length - 1) cell.append(...typedAt(value, value.index(0, 0, k)));
    else if (coloured(value, positions)) cell.append(strip(value, Array.from({ length: slices }, (_, s) => s * value.rows + k), `position ${k}`));
    else for (let s = 0; s < slices; s++) cell.append(vector(value, s, k));
    return cell;
  });
}

/** Whether all heads have the same numbers. @param {Value} value */
function alike(value) {
  const size = value.rows * value.columns;
  if (value.slices < 2) return false;
  for (let k = size; k < value.data.length; k++) if (value.data[k] !== value.data[k - size]) return false;
  return true;
}

/** The axis over positions: the row axis, or that of a vector, if it is as long as the text. @param {Context} ctx @param {Value} value */
function positionAxis(ctx, value) {
  const words = ctx.data.tokens.words;
  const last = value.shape.length - 1;
  const axis = Math.max(0, last - 1);
  const labels = value.labels[axis];
  // Another text, such as a source, may be as long.
  return last >= 0 && value.shape[axis] === words.length && (!labels || labels.join("\0") === words.join("\0")) ? axis : -1;
}

/** A value that is not over the positions of the text: the rows of its first matrix. @param {Value} value */
const whole = (value) => strip(value, Array.from({ length: Math.min(value.rows, MOST_ROWS) }, (_, k) => k), "its rows");

/** Whether the numbers would be too many for a line. @param {Value} value @param {number} positions */
const coloured = (value, positions) => value.columns * positions > MOST_IN_A_LINE && value.columns > 2 && !value.exact;

/** @param {Value} value @param {number} slice @param {number} row */
function vector(value, slice, row) {
  const text = el("span", { class: "vector" });
  const many = value.columns > 1 || value.shape.length > 1;
  if (many) text.append("(");
  for (let j = 0; j < Math.min(value.columns, MOST_NUMBERS); j++) {
    if (j) text.append(" ");
    const entry = el("span", {}, typedAt(value, value.index(slice, row, j), true), j < value.columns - 1 ? "," : null);
    entry.classList.toggle("long", (entry.textContent ?? "").length > MOST_LETTERS);
    text.append(entry);
  }
  if (value.columns > MOST_NUMBERS) text.append(" …");
  if (many) text.append(")");
  return text;
}
