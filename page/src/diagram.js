/** The data flow, the residual stream as its spine: boxes unfold in place, and the one computed now is open. */
import { el, own } from "./dom.js";
import { line, numbers, range } from "./diagram_lines.js";
import { reveal } from "./equations.js";
import { equationProgress } from "./progress.js";
import { rail } from "./rail.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./types.js").DiagramBox} Box */
/** @typedef {import("./types.js").Diagram} Diagram */
/** @typedef {{box: Box, element: HTMLElement, anchor: HTMLElement, open?: (open: boolean) => void, lines: {number: number, element: HTMLElement}[], label?: () => void}} Stop */

const OUTER = { first: 26, apart: 18, edge: 8 };
const INNER = { first: 8, apart: 15, edge: 0 };

/** @param {Context} ctx */
export function diagram(ctx) {
  const drawn = ctx.data.diagram;
  if (!drawn?.boxes.length) return null;
  /** @type {Map<string, boolean>} */
  const chosen = new Map(); // what the reader has opened or closed
  const stops = drawn.boxes.map((box) => stop(ctx, box, (open) => chosen.set(box.id, open)));
  const { list, loops } = framed(ctx, drawn, stops);
  rail(list, stops.map(({ box, anchor }) => ({ id: box.id, sum: box.kind === "sum", element: anchor })), drawn.arrows, OUTER, loops);
  const holder = el("div", { class: "drawing", tabindex: "0", role: "group", "aria-label": "Diagram of the data flow" }, list);

  ctx.store.on((state, before) => {
    if (state !== before && state.step === before.step && state.direction === before.direction && state.revision === before.revision) return;
    /** @type {HTMLElement | null} */
    let shown = null;
    for (const { box, element, open, lines, label } of stops) {
      const states = lines.map((each) => [each.element, progress(ctx, each.number)]);
      for (const [row, status] of states) /** @type {HTMLElement} */ (row).dataset.status = /** @type {string} */ (status);
      const status = box.kind === "input" ? "given" : overall(states.map(([, s]) => String(s)));
      element.dataset.status = status;
      open?.(chosen.get(box.id) ?? status === "now");
      label?.();
      if (status === "now") shown = /** @type {HTMLElement} */ (states.find(([, s]) => s === "now")?.[0] ?? element);
    }
    if (shown) reveal(shown);
  });
  return el("figure", { class: "v-diagram" }, holder);
}

/** What the three states look like. */
export const legend = () => el("p", { class: "legend" }, [["done", "done"], ["now", "computed in this step"], ["later", "not yet"]].map(([status, text]) =>
  el("span", { class: `chip ${status}` }, text)));

/** @param {string[]} states */
const overall = (states) => (states.includes("now") ? "now" : states.every((s) => s === "done") ? "done" : "later");

/** On the way back an equation is at hand where a gradient is that of its value, or of a weight it reads. @param {Context} ctx @param {number} number */
function progress(ctx, number) {
  if (ctx.state.direction === "forward") return equationProgress(ctx.steps, ctx.state.step, number);
  const of = ctx.step?.of === undefined ? undefined : ctx.data.symbols[ctx.symbolOf(ctx.step.of)];
  const here = of?.kind === "parameter" ? of.used : of?.made;
  return here?.includes(number) ? "now" : "done";
}

/** The boxes in their loops. @param {Context} ctx @param {Diagram} drawn @param {Stop[]} stops */
function framed(ctx, drawn, stops) {
  const list = el("ol", { class: "flow" });
  const loops = [];
  /** @type {HTMLElement | null} */
  let inner = null;
  /** @type {string | null} */
  let group = null;
  for (const { box, element } of stops) {
    if (box.group !== group) {
      group = box.group;
      const loop = drawn.groups.find(({ id }) => id === group);
      inner = loop ? el("ol") : null;
      if (loop && inner) {
        const frame = el("li", { class: "loop" }, el("p", {}, "for ", range(loop.letter, loop.range), turn(ctx, loop.letter)), inner);
        const from = drawn.arrows.filter((way) => way.back && stops.some((s) => s.box.id === way.from && s.box.group === group)).pop()?.from;
        if (from) loops.push({ element: frame, from });
        list.append(frame);
      }
    }
    (inner ?? list).append(element);
  }
  return { list, loops };
}

/** Which turn of a loop is at hand. @param {Context} ctx @param {string} letter */
function turn(ctx, letter) {
  const place = el("span", { class: "turn" });
  ctx.store.on(() => {
    const here = ctx.step?.block[letter];
    const all = Math.max(0, ...ctx.steps.map((step) => step.block[letter] ?? 0));
    place.textContent = here === undefined ? "" : `${letter} = ${here} of ${all}`;
  });
  return place;
}

/** @param {Context} ctx @param {Box} box @param {(open: boolean) => void} choose @returns {Stop} */
function stop(ctx, box, choose) {
  const key = box.keys.join(" ");
  if (box.kind === "input") {
    const symbol = ctx.data.symbols[box.keys[0]];
    const anchor = el("button", { type: "button", class: "box input", "data-key": key, onclick: () => ctx.store.set({ looked: box.keys[0], entry: null }) },
      own(symbol?.math, "span", { class: "name input" }), symbol?.meaning ? own(symbol.meaning, "span") : null, own(symbol?.shape, "span", { class: "shape" }));
    return { box, element: el("li", {}, anchor), anchor, lines: [] };
  }
  const rows = (box.rows ?? []).map((row) => row.map((each) => ({ number: each.equation, element: line(ctx, each, box.kind === "sum") })));
  const lines = rows.flat();
  if (box.kind === "sum") {
    const anchor = el("div", { class: "sum", "data-key": key }, el("span", { class: "plus", "aria-hidden": "true" }, "+"), lines.map(({ element }) => element));
    return { box, element: el("li", { "aria-label": box.title }, anchor), anchor, lines };
  }
  const inside = el("ol", { class: "inside", hidden: true }, rows.map((row) => el("li", { class: row.length > 1 ? "row several" : "row" }, row.map(({ element }) => element))));
  rail(inside, rows.map((_, k) => ({ id: String(k), element: /** @type {HTMLElement} */ (inside.children[k]) })),
    (box.links ?? []).map(([from, to]) => ({ from: String(from), to: String(to), keys: (box.rows ?? [])[from].map((each) => each.key) })), INNER);
  const title = el("button", { type: "button", class: "title", "aria-expanded": "false", onclick: () => toggle(title.getAttribute("aria-expanded") !== "true", true) }, box.title);
  const ways = el("p", { class: "ways" }, names(box.reads), box.reads?.length && box.gives?.length ? " → " : null, names(box.gives));
  /** @param {boolean} open @param {boolean} [asked] */
  const toggle = (open, asked) => {
    title.setAttribute("aria-expanded", String(open));
    inside.hidden = !open;
    if (asked) choose(open);
  };
  const used = Object.entries(ctx.data.symbols).filter(([, s]) => s.kind === "parameter" && s.used.some((n) => lines.some(({ number }) => number === n))).map(([k]) => k);
  const anchor = el("div", { class: `box ${box.kind}`, "data-key": [...[...box.keys].reverse(), ...used].join(" ") }, el("div", { class: "head" }, title, ways), inside);
  const leaves = (box.rows ?? []).flat().pop();
  const size = el("span", { class: "shape" });
  const label = el("p", { class: "carries" }, names(box.gives), own(leaves?.shape ?? "", "span", { class: "shape" }), size);
  return { box, element: el("li", {}, anchor, label), anchor, lines, open: toggle, label: () => { size.textContent = numbers(ctx, leaves); } };
}

/** Names with commas between. @param {string[] | undefined} found */
const names = (found) => (found ?? []).flatMap((name, k) => [k ? ", " : null, own(name)]);
