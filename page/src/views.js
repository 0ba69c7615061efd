/** A value in the form that suits it, and the buttons that choose another. */
import { arcs, isPattern } from "./arcs.js";
import { bars, overVocabulary } from "./bars.js";
import { copyButton, numpy } from "./copy.js";
import { button, el, own, segmented } from "./dom.js";
import { heat } from "./heat.js";
import { matrix } from "./matrix.js";
import { count } from "./numbers.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./values.js").Value} Value */

const MOST_CELLS = 400;
const MOST_COLUMNS = 10;
const MOST_SLICES = 12;
const NARROW = 16; // columns of matrices that stand three abreast
const MOST_BYTES = 8e6; // of a value that is loaded without being asked for

/** @param {Context} ctx @param {Value} value */
export function forms(ctx, value) {
  const found = [];
  if (value.rows * value.columns <= MOST_CELLS * 4) found.push({ name: "numbers", title: "Numbers" });
  if (!value.exact && !value.whole && value.size > 1) found.push({ name: "heat", title: "Heat map" });
  if (isPattern(value) && value.columns <= 64) found.push({ name: "arcs", title: "Arcs" });
  if (overVocabulary(value, ctx.data.tokens.vocabulary, ctx.symbolOf(value.member) === ctx.data.tokens.scores)) found.push({ name: "bars", title: "Bars" });
  return found.length ? found : [{ name: "heat", title: "Heat map" }];
}

/** @param {Context} ctx @param {Value} value */
export function form(ctx, value) {
  const offered = forms(ctx, value).map(({ name }) => name);
  const chosen = ctx.state.views[ctx.symbolOf(value.member)];
  if (chosen && offered.includes(chosen)) return chosen;
  if (offered.includes("bars") && value.columns > MOST_COLUMNS) return "bars";
  const small = value.columns <= MOST_COLUMNS && value.rows * value.columns * Math.min(value.slices, MOST_SLICES) <= MOST_CELLS;
  return small && offered.includes("numbers") ? "numbers" : offered.includes("heat") ? "heat" : offered[0];
}

/**
 * @param {Context} ctx @param {string} member
 * @param {{marked?: (index: number[]) => boolean, main?: boolean, width: number, extra?: (value: Value, slice: number) => Node | null}} options
 */
export function valueView(ctx, member, { marked = () => false, main = false, width, extra }) {
  const value = ctx.value(member);
  const symbol = ctx.data.symbols[ctx.symbolOf(member)];
  const kind = symbol?.kind ?? "value";
  const name = own(ctx.math(member) ?? "", "span", { class: `name ${kind}`, "data-key": ctx.symbolOf(member) });
  if (!ctx.math(member)) name.textContent = member;
  if (!value) return absent(ctx, member, name, main);
  const chosen = form(ctx, value);
  const entry = ctx.state.entry?.member === member ? ctx.state.entry.at : null;
  const picked = { entry, marked, name: member, pick: (/** @type {number[]} */ at) => ctx.store.set({ entry: { member, at } }) };
  const shown = Math.min(value.slices, MOST_SLICES);
  const slices = Array.from({ length: shown }, (_, s) => {
    const abreast = Math.min(shown, value.columns > NARROW ? 2 : 3);
    const wide = value.slices > 1 && chosen !== "numbers" ? Math.min(width, Math.max(150, width / abreast - 26)) : width;
    const drawn = chosen === "numbers" ? matrix(value, s, picked)
      : chosen === "heat" ? heat(value, s, picked, wide, main ? 320 : 200)
        : chosen === "arcs" ? arcs(value, s, picked, wide) : bars(value, s, picked, !!ctx.data.tokens.next);
    return el("div", { class: "slice" },
      value.slices > 1 ? el("p", { class: "slice-name" }, value.sliceName(s), extra?.(value, s) ?? null) : null,
      el("div", { class: "scroll" }, drawn));
  });
  return el("section", { class: `v-value ${main ? "main" : ""}`, "data-member": member, "aria-label": `Value of ${member}` },
    el("header", {}, name, el("span", { class: "size" }, sizes(value)),
      forms(ctx, value).length > 1 ? segmented(`Form of ${member}`, forms(ctx, value), chosen, (view) =>
        ctx.store.set({ views: { ...ctx.state.views, [ctx.symbolOf(member)]: view } })) : null,
      copyButton(`Copy ${member} as NumPy`, "NumPy", () => numpy(value), ctx)),
    symbol?.meaning ? own(symbol.meaning, "p", { class: "meaning" }) : null,
    el("div", { class: "slices" }, slices),
    value.slices > shown ? el("p", { class: "hint" }, `${count(value.slices - shown, "more matrix", "more matrices")} not drawn`) : null);
}

/** @param {{shape: number[]}} value */
const sizes = (value) => (value.shape.length ? value.shape.join(" × ") : "a number");

/** A value that the page does not carry: asked for where somebody can answer, a large one on demand. @param {Context} ctx @param {string} member @param {Node} name @param {boolean} main */
function absent(ctx, member, name, main) {
  const holder = el("section", { class: `v-value absent ${main ? "main" : ""}`, "data-member": member, "aria-label": `Value of ${member}` });
  const stored = ctx.stored(member);
  const size = stored ? stored.shape.reduce((a, b) => a * b, 8) : 0;
  const head = el("header", {}, name, stored ? el("span", { class: "size" }, sizes(stored)) : null);
  if (ctx.values.fresh && !ctx.engine.can.values) holder.append(head, hint("not computed again after your change"));
  else if (!ctx.engine.can.values) holder.append(head, hint(`left out to keep the page below ${megabytes(ctx.data.limits.values)}; viete explore --serve shows every value`));
  else if (size <= MOST_BYTES || ctx.values.asked.has(member)) {
    holder.append(head, hint("loading …"));
    ctx.ask(member);
  } else {
    holder.append(head, button(`Load ${member}, ${megabytes(size)}`, () => {
      holder.replaceChildren(head, hint("loading …"));
      ctx.ask(member);
    }, { class: "again" }, `Load ${megabytes(size)}`));
  }
  return holder;
}

/** @param {string} text */
const hint = (text) => el("p", { class: "hint" }, text);
/** @param {number} bytes */
const megabytes = (bytes) => `${(bytes / 1e6).toLocaleString("en", { maximumSignificantDigits: 2 })} MB`;
