/** A head or a sub-layer is switched off by a click: its part of a value is put to 0, and everything after it follows. */
import { button, el } from "./dom.js";
import { withLetter } from "./expansion.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./edits.js").EditsStore} EditsStore */

const MOST = 16; // heads that have a button each

/**
 * The equations that switch a value off: one for each head, or one for all of it.
 * @param {Context} ctx @param {string} member @returns {{equation: string, name: string}[]}
 */
export function switchable(ctx, member) {
  const value = ctx.values.best(member, "decimal");
  const step = ctx.stepOf.get(member);
  const key = ctx.symbolOf(member);
  if (!value || !step || ctx.data.symbols[key]?.kind !== "value" || !ctx.data.expansions?.off.includes(key)) return [];
  if (value.shape.length < 3) return [{ equation: `${member} = 0`, name: "" }];
  if (value.slices > MOST) return [];
  return Array.from({ length: value.slices }, (_, slice) => {
    const at = value.index(slice, 0, 0).slice(0, -2).map((k, axis) => value.labels[axis]?.[k] ?? String(k + 1));
    const one = at.reduce((name, number, axis) => withLetter(name, value.axes[axis], number), member);
    return { equation: `${one} = 0`, name: value.sliceName(slice) };
  });
}

/** @param {Context} ctx @param {EditsStore} edits @param {string} equation @param {string} key @param {string} [text] */
export function offSwitch(ctx, edits, equation, key, text) {
  const off = ctx.state.put.some((p) => p.equation === equation);
  const does = off ? "Switch on" : "Switch off";
  return button(text === undefined ? does : `${text}, ${does.toLowerCase()}: ${equation}`, () => edits.togglePut(equation, key),
    { class: "switch", "aria-pressed": off, "data-equation": equation, title: `${off ? "Use it again" : "Set it to 0 and see what changes"}: ${equation}` }, ...(text === undefined ? [] : [text]));
}

/** The switch of one head of a value, beside its matrix. @param {Context} ctx @param {EditsStore} edits @param {import("./values.js").Value} value @param {number} slice */
export function headSwitch(ctx, edits, value, slice) {
  const found = switchable(ctx, value.member);
  const { equation } = found[value.slices === found.length ? slice : -1] ?? {};
  return equation === undefined ? null : offSwitch(ctx, edits, equation, ctx.symbolOf(value.member));
}

/** The switches of a value in one row. @param {Context} ctx @param {EditsStore} edits @param {string} member */
export function switches(ctx, edits, member) {
  const found = switchable(ctx, member);
  if (!found.length) return null;
  const key = ctx.symbolOf(member);
  return el("p", { class: "offs", role: "group", "aria-label": `Switch off parts of ${member}` }, el("span", {}, found[0].name ? "Switch off " : ""),
    found.map(({ equation, name }) => offSwitch(ctx, edits, equation, key, name || "Switch off")));
}
