/** The ordered pipeline, always in view: every step, grouped by part and block, with the buttons. */
import { button, el, own, textOf } from "./dom.js";
import { sameBlock } from "./progress.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./types.js").Step} Step */

/** @param {Context} ctx */
export function pipeline(ctx) {
  const back = button("Step back", () => go(ctx, -1), { class: "go" }, "←");
  const next = button("Step forward", () => go(ctx, 1), { class: "go next" }, "→");
  const list = el("ol", { class: "groups" });
  const where = el("span", { class: "where", "aria-live": "polite" });
  const bar = el("nav", { class: "v-pipe", "aria-label": "Steps in order" }, back,
    el("div", { class: "track", tabindex: "0", role: "group", "aria-label": "All steps" }, list), where, next);

  let drawn = "";
  ctx.store.on((state, before) => {
    if (state !== before && state.step === before.step && state.direction === before.direction && state.revision === before.revision) return;
    // Within a block the chips stay, and change their marks.
    const shape = JSON.stringify([state.direction, state.revision, ctx.step?.block]);
    if (shape !== drawn) list.replaceChildren(...groups(ctx));
    else for (const chip of list.querySelectorAll("[data-step], [data-at]")) mark(chip, Number(chip.getAttribute("data-step") ?? chip.getAttribute("data-at")), state.step);
    drawn = shape;
    const { first, last } = ctx.ends;
    back.disabled = state.step <= first;
    next.disabled = state.step >= last;
    where.textContent = `${Math.min(state.step + 1, ctx.steps.length)} / ${ctx.steps.length}`;
    queueMicrotask(() => centre(list));
  });
  return bar;
}

/** @param {Context} ctx @param {number} by */
export function go(ctx, by) {
  ctx.store.set({ step: ctx.nearest(ctx.state.step + by), looked: null, entry: null });
}

/** A group is a run of steps of one part in one block; only the block at hand is unfolded. @param {Context} ctx */
function groups(ctx) {
  const { steps, state } = ctx;
  /** @type {{part: string, from: number, to: number}[]} */
  const found = [];
  steps.forEach((step, k) => {
    const part = ctx.equation.get(step.equation)?.part ?? "";
    const last = found[found.length - 1];
    if (last && last.part === part && sameBlock(steps[k - 1], step)) last.to = k;
    else found.push({ part, from: k, to: k });
  });
  const here = steps[state.step];
  const blocks = new Set(steps.map((step) => JSON.stringify(step.block))).size;
  /** @type {HTMLElement[]} */
  const items = [];
  for (let g = 0; g < found.length; g++) {
    const group = found[g];
    const step = steps[group.from];
    const inBlock = Object.keys(step.block).length > 0;
    if (inBlock && blocks > 3 && !sameBlock(step, here)) {
      let to = group.to;
      while (g + 1 < found.length && sameBlock(steps[found[g + 1].from], step)) to = found[++g].to;
      items.push(folded(ctx, group.from, to));
    } else {
      items.push(open(ctx, group, [group.part, blockName(step)].filter(Boolean).join(" · ")));
    }
  }
  if (!ctx.lesson) return items;
  return [end(ctx, -1, "Input", "tokens"), ...items, end(ctx, steps.length, "Summary", "prediction")];
}

/** What stands before the first step, and after the last. @param {Context} ctx @param {number} at @param {string} part @param {string} name */
function end(ctx, at, part, name) {
  const chip = button(`${part}: ${name}`, () => ctx.store.set({ step: at, looked: null, entry: null }), { "data-at": at }, name);
  mark(chip, at, ctx.state.step);
  return el("li", { class: "group" }, el("span", { class: "part" }, part), el("ol", {}, el("li", {}, chip)));
}

/** @param {Step} step */
const blockName = (step) => Object.entries(step.block).map(([letter, k]) => `${letter} = ${k}`).join(", ");

/** @param {Context} ctx @param {number} from @param {number} to */
function folded(ctx, from, to) {
  const step = ctx.steps[from];
  const status = to < ctx.state.step ? "done" : "later";
  return el("li", { class: "group" },
    el("span", { class: "part" }, "Block"),
    el("ol", {}, el("li", {}, button(`Block ${blockName(step)}, ${to - from + 1} steps`,
      () => ctx.store.set({ step: from, looked: null, entry: null }),
      { class: `chip ${status}`, "aria-pressed": "false" }, blockName(step), " …"))));
}

/** @param {Context} ctx @param {{from: number, to: number}} group @param {string} part */
function open(ctx, group, part) {
  const chips = [];
  for (let k = group.from; k <= group.to; k++) {
    const step = ctx.steps[k];
    const chip = el("button", {
      type: "button", "data-step": k, title: textOf(step.title, ""),
      onclick: () => ctx.store.set({ step: k, looked: null, entry: null }),
    }, unseen(`Step ${k + 1}: `), own(ctx.math(step.member) ?? ""), unseen(`, ${textOf(step.title, "")}`));
    mark(chip, k, ctx.state.step);
    chips.push(el("li", {}, chip));
  }
  return el("li", { class: "group" }, el("span", { class: "part" }, part), el("ol", {}, chips));
}

/** Said and not shown. @param {string} text */
const unseen = (text) => el("span", { class: "unseen" }, text);

/** @param {Element} chip @param {number} step @param {number} now */
function mark(chip, step, now) {
  chip.className = `chip ${step < now ? "done" : step === now ? "now" : "later"}`;
  chip.setAttribute("aria-current", step === now ? "step" : "false");
}

/** @param {HTMLElement} list */
function centre(list) {
  const now = /** @type {HTMLElement | null} */ (list.querySelector(".chip.now"));
  const track = list.parentElement;
  if (!now || !track || !track.clientWidth) return;
  const box = now.getBoundingClientRect();
  const frame = track.getBoundingClientRect();
  track.scrollLeft += box.left - frame.left - frame.width / 2 + box.width / 2;
}
