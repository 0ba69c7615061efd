/** Copies: any equation as LaTeX, any matrix as NumPy. */
import { button } from "./dom.js";
import { full } from "./numbers.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./values.js").Value} Value */

/** @param {string} label @param {string} shown @param {() => string} text @param {Context} ctx */
export function copyButton(label, shown, text, ctx) {
  return button(label, async () => {
    const done = await copy(text());
    ctx.tell(done ? `${shown} copied` : `${shown} could not be copied: the browser does not allow it`);
  }, { class: "copy" }, shown);
}

/** @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page without the permission still has the older way.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** A value as NumPy source: every digit of every entry. @param {Value} value */
export function numpy(value) {
  const entries = Array.from(value.data, (x) => (value.exact ? JSON.stringify(x) : full(x).replace("inf", "np.inf").replace("nan", "np.nan")));
  /** @param {number} axis @param {number} from @param {number} size @returns {string} */
  const nested = (axis, from, size) => {
    if (axis === value.shape.length) return entries[from];
    const inner = size / value.shape[axis];
    const rows = Array.from({ length: value.shape[axis] }, (_, k) => nested(axis + 1, from + k * inner, inner));
    return `[${rows.join(axis === value.shape.length - 1 ? ", " : `,\n${" ".repeat(10 + axis)}`)}]`;
  };
  return `np.array(${nested(0, 0, value.size)}${value.exact ? ", dtype=object" : ""})`;
}
