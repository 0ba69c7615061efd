/** An entry opens into the terms that made it: bars about zero that add up to it, each with terms of its own. */
import { button, el, own, textOf } from "./dom.js";
import { entryName, graphOf, madeOf, opens, termsOf } from "./expansion.js";
import { graph } from "./graph.js";
import { offSwitch } from "./heads.js";
import { count, full, short } from "./numbers.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./edits.js").EditsStore} EditsStore */
/** @typedef {import("./expansion.js").Term} Term */
/** @typedef {import("./expansion.js").Terms} Terms */

const MOST = 12; // terms that stand alone; the smaller ones fold into one

/** The terms of the entry that the reader looks at. @param {Context} ctx @param {EditsStore} edits */
export function entryTerms(ctx, edits) {
  const body = el("div", { class: "body" });
  const box = /** @type {HTMLDetailsElement} */ (el("details", { class: "v-terms", open: !ctx.engine.can.ask, hidden: true }, el("summary", {}, "Terms"), body));
  /** @type {Set<string>} */
  const open = new Set(); // what the reader has opened stays open when the numbers change
  let asked = "";
  const draw = async () => {
    const { entry, revision } = ctx.state;
    const value = entry && ctx.values.best(entry.member, "decimal");
    box.hidden = !entry || !value || !opens(ctx, entry.member);
    if (box.hidden || !box.open || !entry || !value) return;
    const wanted = `${entry.member} ${entry.at} ${revision}`;
    if (wanted === asked) return;
    asked = wanted;
    try {
      const terms = await termsOf(ctx, entry.member, entry.at);
      if (asked !== wanted) return;
      body.replaceChildren(expansion(ctx, edits, terms, Number(value.at(entry.at)), entryName(ctx, entry.member, entry.at), open));
      if (terms.terms.some(({ label }) => label.startsWith("block"))) body.append(arrows(ctx, edits, terms, (features) => graphOf(ctx, entry.member, entry.at, features)));
    } catch (error) {
      if (asked === wanted) body.replaceChildren(el("p", { class: "hint" }, error instanceof Error ? error.message : String(error)));
    }
  };
  box.addEventListener("toggle", draw);
  ctx.store.on((state, before) => {
    if (state === before || state.entry !== before.entry || state.revision !== before.revision || state.direction !== before.direction) draw();
  });
  return box;
}

/** The graphs of some terms, drawn when they are wanted. @param {Context} ctx @param {EditsStore} edits @param {Terms} terms @param {(features: boolean) => Promise<import("./expansion.js").Graph>} drawing */
export function arrows(ctx, edits, terms, drawing) {
  const body = el("div", {});
  const draw = (/** @type {boolean} */ features) => async () => {
    for (const other of shows) other.setAttribute("aria-pressed", String(other === shows[features ? 1 : 0]));
    body.replaceChildren(el("p", { class: "hint" }, "…"));
    try {
      const { svg, why, made = {} } = await drawing(features);
      body.replaceChildren(svg === null ? el("p", { class: "hint" }, why)
        : graph(svg, terms, (name) => madeOf(ctx, name, made), (found, name) => list(ctx, edits, found, name, new Set(), name)));
    } catch (error) {
      body.replaceChildren(el("p", { class: "hint" }, error instanceof Error ? error.message : String(error)));
    }
  };
  const shows = [button("Draw the terms as arrows", draw(false), { class: "again" })];
  if (ctx.data.features) shows.push(button("Draw the features behind it", draw(true), { class: "again" }));
  return el("div", {}, el("p", { class: "v-graphs" }, shows), body);
}

/**
 * Terms that add up to a value.
 * @param {Context} ctx @param {EditsStore} edits @param {Terms} found @param {number} total @param {string} name @param {Set<string>} open
 */
export function expansion(ctx, edits, found, total, name, open) {
  const rest = total - sumOf(found.terms);
  if (!found.terms.length) return el("p", { class: "hint" }, "This entry is not a sum of several terms.");
  return el("div", {}, list(ctx, edits, found, name, open, name, total),
    found.within || !addsUp(found.terms, total) ? null : el("p", { class: "total" }, `${count(found.terms.length, "term")} = `, el("output", { title: full(total) }, short(total)),
      el("span", { class: "hint" }, rest ? `, rounding error ${short(rest)}` : "")));
}

/** @param {Term[]} terms */
const sumOf = (terms) => terms.reduce((a, { value }) => a + value, 0);

/** Whether terms are those of a value, to rounding. @param {Term[]} terms @param {number} total */
const addsUp = (terms, total) => !(Math.abs(total - sumOf(terms)) > 1e-9 * terms.reduce((a, { value }) => a + Math.abs(value), Math.abs(total)));

/**
 * Terms as bars; where a change stands between them and what they are terms of, it says so.
 * @param {Context} ctx @param {EditsStore} edits @param {Terms} found @param {string} name @param {Set<string>} open @param {string} path @param {number} [total]
 * @returns {HTMLElement}
 */
function list(ctx, edits, { terms, within }, name, open, path, total) {
  const sorted = [...terms].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const most = Math.max(Math.abs(sorted[0]?.value ?? 0), 1e-300);
  const large = sorted.filter(({ value }, k) => value !== 0 || k === 0);
  const shown = large.length > MOST + 1 ? large.slice(0, MOST) : large;
  const folded = sorted.slice(shown.length);
  const items = shown.map((term) => line(ctx, edits, term, most, open, path));
  if (folded.length) {
    const value = folded.reduce((a, term) => a + term.value, 0);
    const label = count(folded.length, value === 0 && large.length === shown.length ? "zero term" : "smaller term");
    items.push(line(ctx, edits, { label, math: null, formula: "", value, kind: "hidden", off: null, open: async () => ({ terms: folded, within: "" }) }, most, open, path));
  }
  const bars = el("ul", { class: "terms", "aria-label": `Terms of ${name}` }, items);
  if (!within && total !== undefined && ctx.state.put.length && !addsUp(terms, total)) {
    return el("div", {}, el("p", { class: "hint" }, `With your changes this is ${short(total)}. Its terms by the card's equation add up to ${short(sumOf(terms))}:`), bars);
  }
  if (!within) return bars;
  const sum = short(sumOf(terms));
  return el("div", {}, el("p", { class: "hint" }, `${within} is not linear. Its argument is ${sum}, the sum of:`), bars);
}

/** @param {Context} ctx @param {EditsStore} edits @param {Term} term @param {number} most @param {Set<string>} open @param {string} path */
function line(ctx, edits, term, most, open, path) {
  const bar = el("i", { class: term.value < 0 ? "negative" : "positive" });
  bar.style.setProperty("--share", String(Math.min(1, Math.abs(term.value) / most)));
  const kind = term.kind === "constant" || term.kind === "unopened" ? el("small", {}, ` ${term.kind}`) : null;
  const name = el("span", { class: "term" }, term.label, term.label && term.math ? ", " : "", own(term.math), kind);
  const row = [name, el("span", { class: "bar", "aria-hidden": "true" }, bar), el("output", { title: full(term.value) }, short(term.value))];
  const key = `${path}/${term.label} ${textOf(term.math, "")}`;
  const inner = el("div", { class: "body" });
  const item = /** @type {HTMLDetailsElement} */ (el("details", {}, el("summary", {}, row), inner));
  item.addEventListener("toggle", async () => {
    open[item.open ? "add" : "delete"](key);
    if (!item.open || inner.childElementCount) return;
    if (term.formula) inner.append(el("div", { class: "formula", tabindex: "0" }, own(term.formula)));
    if (term.off) inner.append(offSwitch(ctx, edits, term.off.equation, term.off.key));
    if (!term.open) return;
    try {
      const found = await term.open();
      if (found.terms.length) inner.append(list(ctx, edits, found, term.label || textOf(term.math, ""), open, key, term.value));
    } catch (error) {
      inner.append(el("p", { class: "hint" }, error instanceof Error ? error.message : String(error)));
    }
  });
  if (open.has(key)) item.open = true;
  return el("li", { class: term.kind }, item);
}
