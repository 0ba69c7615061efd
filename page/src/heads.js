/** A head is switched off by a click: its part of a value is put to 0, and everything after it follows. */
import { button } from "./dom.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./edits.js").EditsStore} EditsStore */
/** @typedef {import("./values.js").Value} Value */

/** @param {Context} ctx @param {EditsStore} edits @param {Value} value @param {number} slice */
export function headSwitch(ctx, edits, value, slice) {
  const step = ctx.stepOf.get(value.member);
  if (value.shape.length < 3 || value.slices !== value.shape[0] || !step) return null;
  const letter = value.axes[0];
  const equation = ctx.off(value.member, letter, value.labels[0]?.[slice] ?? String(slice + 1));
  if (equation.startsWith(`${value.member} =`)) return null;
  const off = ctx.state.put.some((p) => p.equation === equation);
  return button(off ? "Switch on" : "Switch off", () => edits.togglePut(equation, ctx.symbolOf(value.member)),
    { class: "switch", "aria-pressed": off, title: equation });
}
