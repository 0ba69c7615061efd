/** The register: every value so far, positions side by side, the one computed now marked. */
import { el, own, textOf } from "./dom.js";
import { reveal } from "./equations.js";
import { strip } from "./heat.js";
import { typedAt } from "./matrix.js";
import { sameBlock, STATES } from "./progress.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./values.js").Value} Value */

const MOST_NUMBERS = 8;
const MOST_IN_A_LINE = 20; // numbers of all positions together; else each is a strip of colours
const MOST_POSITIONS = 12;

/** @param {Context} ctx */
export function register(ctx) {
  const holder = el("div", { class: "v-register" });
  ctx.store.on((state, before) => {
    const same = state !== before && state.step === before.step && state.direction === before.direction &&
      state.meaning === before.meaning && state.revision === before.revision;
    if (!same) {
      holder.replaceChildren(table(ctx));
      const now = holder.querySelector("tr.now");
      if (now instanceof HTMLElement) reveal(now);
    }
  });
  return holder;
}

/** @param {Context} ctx */
function table(ctx) {
  const words = ctx.data.tokens.words;
  const shown = words.slice(0, MOST_POSITIONS);
  const here = ctx.steps[ctx.state.step];
  const blocks = new Set(ctx.steps.map((step) => JSON.stringify(step.block))).size;
  // Of many blocks, those rows are listed that belong to the block at hand or to none.
  const steps = ctx.steps.filter((step) => blocks <= 4 || sameBlock(step, here) || !Object.keys(step.block).length);
  return el("table", {},
    el("caption", {}, ctx.state.direction === "backward" ? "Gradients so far" : "Values so far"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "value"),
      shown.map((word, k) => el("th", { scope: "col" }, el("span", { class: "word" }, word), el("small", {}, ` ${k}`))))),
    el("tbody", {}, steps.map((step) => row(ctx, step, shown.length))));
}

/** @param {Context} ctx @param {import("./types.js").Step} step @param {number} positions */
function row(ctx, step, positions) {
  const status = ctx.progress(step.member);
  const value = status === "later" ? null : ctx.value(step.member);
  const name = el("button", { type: "button", class: "symbol", "aria-label": `${textOf(ctx.math(step.member), step.member)}, ${STATES[status]}: show its value`,
    onclick: () => ctx.store.set({ looked: step.member, entry: null }) }, own(ctx.math(step.member) ?? ""));
  return el("tr", { class: status, "data-member": step.member, "data-key": ctx.symbolOf(step.member), "aria-current": status === "now" ? "true" : null },
    el("th", { scope: "row" }, name), cells(ctx, value, positions));
}

/** The row of each position; a value without positions takes the whole width. @param {Context} ctx @param {Value | null} value @param {number} positions */
function cells(ctx, value, positions) {
  if (!value) return Array.from({ length: positions }, () => el("td"));
  const axis = positionAxis(ctx, value);
  if (axis < 0) return [el("td", { colspan: positions }, vector(value, 0, 0, 1))];
  return Array.from({ length: positions }, (_, k) => {
    const cell = el("td");
    if (axis === value.shape.length - 1) cell.append(...typedAt(value, value.index(0, 0, k)));
    else for (let s = 0; s < Math.min(value.slices, 4); s++) cell.append(vector(value, s, k, positions));
    return cell;
  });
}

/** The axis over positions: the row axis, or that of a vector, if it is as long as the text. @param {Context} ctx @param {Value} value */
function positionAxis(ctx, value) {
  const n = ctx.data.tokens.words.length;
  const last = value.shape.length - 1;
  if (last >= 1) return value.shape[last - 1] === n ? last - 1 : -1;
  return last === 0 && value.shape[0] === n ? 0 : -1;
}

/** @param {Value} value @param {number} slice @param {number} row @param {number} positions */
function vector(value, slice, row, positions) {
  if (value.columns * positions > MOST_IN_A_LINE && value.columns > 2 && !value.exact) return strip(value, slice, row);
  const text = el("span", { class: "vector" });
  const many = value.columns > 1 || value.shape.length > 1;
  if (many) text.append("(");
  for (let j = 0; j < Math.min(value.columns, MOST_NUMBERS); j++) {
    if (j) text.append(", ");
    text.append(...typedAt(value, value.index(slice, row, j), true));
  }
  if (value.columns > MOST_NUMBERS) text.append(", …");
  if (many) text.append(")");
  return text;
}
