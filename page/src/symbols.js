/** Hovering a symbol lights up its definition, its uses, its row and its place in the diagram. */
import { el, own, textOf } from "./dom.js";

/** @typedef {import("./context.js").Context} Context */

const ORDER = ["input", "parameter", "value", "gradient"];

/** The table of inputs, parameters and values. @param {Context} ctx */
export function symbolTable(ctx) {
  const { symbols } = ctx.data;
  const rows = ORDER.flatMap((kind) => Object.entries(symbols).filter(([, s]) => s.kind === kind));
  const body = el("tbody", {}, rows.map(([key, symbol]) => el("tr", { "data-key": key, "data-kind": symbol.kind },
    el("th", { scope: "row" }, el("button", {
      type: "button", class: "symbol", "aria-label": `${textOf(symbol.math, key)}: show its value`,
      onclick: () => lookAt(ctx, key),
    }, own(symbol.math))),
    el("td", {}, own(symbol.shape)),
    symbol.meaning ? own(symbol.meaning, "td") : el("td", { class: "hint" }, symbol.kind))));
  ctx.store.on((state, before) => {
    if (state !== before && state.direction === before.direction) return;
    for (const row of body.querySelectorAll("tr")) row.hidden = state.direction !== "backward" && isOfTheWayBack(ctx, row.dataset.key ?? "");
  });
  return el("table", { class: "v-symbols" },
    el("caption", {}, "Inputs, parameters and values"),
    el("thead", {}, el("tr", {}, ["symbol", "shape", "meaning"].map((t) => el("th", { scope: "col" }, t)))), body);
}

/** Gradients, and what only they are made of. @param {Context} ctx @param {string} key */
function isOfTheWayBack(ctx, key) {
  const { kind, made } = ctx.data.symbols[key];
  return kind === "gradient" || (made.length > 0 && made.every((number) => number > ctx.data.equations.length));
}

/** A symbol of a loop has a member a block: the one at hand. @param {Context} ctx @param {string} key */
function lookAt(ctx, key) {
  const all = [...ctx.data.steps, ...ctx.data.backward];
  const mine = all.filter((step) => ctx.symbolOf(step.member) === key);
  const here = JSON.stringify(ctx.step?.block ?? {});
  const member = (mine.find((step) => JSON.stringify(step.block) === here) ?? mine[0])?.member ?? key;
  ctx.store.set({ looked: member, entry: null, symbol: key });
}

/** What the symbol under the pointer is. @param {Context} ctx */
export function inspector(ctx) {
  const box = el("aside", { class: "v-inspector", "aria-live": "polite", "aria-label": "The symbol pointed at" });
  ctx.store.on((state, before) => {
    if (state !== before && state.symbol === before.symbol) return;
    box.replaceChildren(...described(ctx, state.symbol));
    light(ctx, state.symbol);
  });
  return box;
}

/** @param {Context} ctx @param {string | null} key */
function described(ctx, key) {
  const symbol = key === null ? null : ctx.data.symbols[key];
  if (!symbol) return [el("p", { class: "hint" }, "Point at a symbol, or select it in the table, to see what it is and where it is used.")];
  const uses = symbol.used.length ? `used in ${equations(symbol.used)}` : "not used";
  const made = symbol.made.length ? `defined in ${equations(symbol.made)}` : `${article(symbol.kind)} ${symbol.kind}`;
  return [
    el("p", { class: "what" }, own(symbol.math, "span", { class: `name ${symbol.kind}` }),
      symbol.shape ? own(symbol.shape, "span", { class: "shape" }) : null),
    symbol.meaning ? own(symbol.meaning, "p") : null,
    el("p", { class: "places" }, `${made} · ${uses}`),
  ].filter((x) => x !== null);
}

/** "equation 2", or "equations 1, 2 and 44". @param {(number | string)[]} numbers */
function equations(numbers) {
  const last = numbers.at(-1);
  return numbers.length > 1 ? `equations ${numbers.slice(0, -1).join(", ")} and ${last}` : `equation ${last}`;
}

/** @param {string} kind */
const article = (kind) => (/^[aeiou]/.test(kind) ? "an" : "a");

/** @param {Context} ctx @param {string | null} key */
function light(ctx, key) {
  for (const node of ctx.root.querySelectorAll(".lit, .lit-made, .lit-used")) {
    node.classList.remove("lit", "lit-made", "lit-used");
  }
  if (key === null) return;
  for (const node of ctx.root.querySelectorAll(`[data-key~="${CSS.escape(key)}"]`)) node.classList.add("lit");
  const symbol = ctx.data.symbols[key];
  for (const [numbers, name] of /** @type {const} */ ([[symbol?.used, "lit-used"], [symbol?.made, "lit-made"]])) {
    for (const n of numbers ?? []) ctx.root.querySelector(`.v-equations [data-number="${n}"]`)?.classList.add(name);
  }
}

/** Pointer and focus light a symbol up, wherever it stands. @param {Context} ctx */
export function listen(ctx) {
  /** @param {Event} event */
  const heard = (event) => {
    const target = /** @type {Element | null} */ (event.target);
    const keys = target?.closest?.("[data-key]")?.getAttribute("data-key")?.split(" ") ?? [];
    const key = keys.find((k) => ctx.data.symbols[k]);
    if (key !== undefined && key !== ctx.state.symbol) ctx.store.set({ symbol: key });
  };
  ctx.root.addEventListener("pointerover", heard);
  ctx.root.addEventListener("focusin", heard);
}
