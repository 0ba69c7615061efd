/** The equations in a box of the diagram: each with its shape, what it does, and how many copies there are. */
import { el, own } from "./dom.js";
import { fit } from "./fit.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./types.js").DiagramLine} Line */

/** An equation, which leads to its step. @param {Context} ctx @param {Line} each @param {boolean} plain */
export function line(ctx, each, plain) {
  const equation = ctx.equation.get(each.equation);
  const [copies] = each.copies;
  const button = el("button", {
    type: "button", class: copies ? "line copies" : "line", "data-key": each.key, "data-number": each.equation,
    onclick: () => toStep(ctx, each),
  }, el("span", { class: "unseen" }, `Equation ${each.equation}: `), // mathematics alone is no name for some screen readers
  fit(own(each.term ?? equation?.math, "span", { class: "formula" })),
  el("span", { class: "shape" }, own(each.shape ?? ""),
    each.story && !plain ? ` · ${each.story}` : null,
    ...each.copies.flatMap(({ letter, range: ends }) => [" · ", range(letter, ends)])));
  // Mathematics alone is no name for some screen readers.
  button.setAttribute("aria-label", button.textContent ?? "");
  return button;
}

/** @param {string} letter @param {[string, string]} ends */
export const range = (letter, [lower, upper]) => el("span", {}, el("i", {}, letter), " = ", own(lower), ", …, ", own(upper));

/** In a loop: the step of the block at hand, or else the first; on the way back, the gradient's. @param {Context} ctx @param {Line} each */
function toStep(ctx, each) {
  const { steps } = ctx;
  const here = JSON.stringify(ctx.step?.block ?? {});
  const mine = steps.flatMap((step, k) =>
    step.equation === each.equation || (step.of !== undefined && ctx.symbolOf(step.of) === each.key) ? [k] : []);
  const step = mine.find((k) => JSON.stringify(steps[k].block) === here) ?? mine[0];
  if (step !== undefined) ctx.store.set({ step, looked: null, entry: null });
}

/** The size of a value in this run: "= 11 × 32". @param {Context} ctx @param {Line | undefined} each */
export function numbers(ctx, each) {
  if (!each) return "";
  const here = JSON.stringify(ctx.step?.block ?? {});
  const mine = ctx.data.steps.filter((step) => step.equation === each.equation);
  const member = (mine.find((step) => JSON.stringify(step.block) === here) ?? mine[0])?.member;
  const shape = member === undefined ? [] : ctx.value(member)?.shape ?? [];
  return shape.length ? `= ${shape.join(" × ")}` : "";
}
