/** The drawing of the data flow, its boxes marked by where the run stands. */
import { el, own } from "./dom.js";
import { reveal } from "./equations.js";

/** @typedef {import("./context.js").Context} Context */

/** @param {Context} ctx */
export function diagram(ctx) {
  if (!ctx.data.diagram?.svg) return null;
  const picture = own(ctx.data.diagram.svg, "div", { class: "drawing", tabindex: "0", role: "group", "aria-label": "Diagram of the data flow" });
  const legend = el("p", { class: "legend" }, ["done", "now", "later"].map((status) =>
    el("span", { class: `chip ${status}` }, { done: "done", now: "computed now", later: "not yet" }[status] ?? "")));
  const boxes = [...picture.querySelectorAll("[data-key]")];
  for (const box of boxes) {
    const keys = box.getAttribute("data-key")?.split(" ") ?? [];
    box.addEventListener("click", () => {
      const steps = ctx.steps;
      const here = JSON.stringify(ctx.step.block);
      const mine = standsFor(ctx, keys);
      const same = steps.findIndex((s) => mine(s) && JSON.stringify(s.block) === here);
      const step = same >= 0 ? same : steps.findIndex(mine);
      if (step >= 0) ctx.store.set({ step, looked: null, entry: null });
      else if (ctx.value(keys[0])) ctx.store.set({ looked: keys[0], entry: null });
    });
  }
  ctx.store.on((state, before) => {
    if (state !== before && state.step === before.step && state.direction === before.direction) return;
    /** @type {Element | null} */
    let shown = null;
    for (const box of boxes) {
      const status = standing(ctx, box.getAttribute("data-key")?.split(" ") ?? []);
      box.setAttribute("data-status", status);
      if (status === "now") shown = box;
    }
    if (shown instanceof Element) reveal(shown);
  });
  return el("figure", { class: "v-diagram" }, picture, el("figcaption", {}, "highlighted = computed this step", legend));
}

/** @param {Context} ctx @param {string[]} keys */
const standsFor = (ctx, keys) => (/** @type {import("./types.js").Step} */ step) =>
  keys.includes(ctx.symbolOf(step.member)) || keys.includes(step.member);

/** A box stands for a symbol: for its member in the block at hand. @param {Context} ctx @param {string[]} keys */
function standing(ctx, keys) {
  const { steps, state } = ctx;
  const mine = standsFor(ctx, keys);
  const here = steps[state.step];
  if (here && mine(here)) return "now";
  const before = steps.slice(0, state.step).some(mine);
  const next = steps.slice(state.step + 1).find(mine);
  if (!before) return next ? "later" : "given";
  return next && here && JSON.stringify(next.block) === JSON.stringify(here.block) ? "later" : "done";
}
