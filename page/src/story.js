/** The step in words: what happens, why, and its equation. */
import { el, own } from "./dom.js";
import { fit } from "./fit.js";

/** @typedef {import("./context.js").Context} Context */

/** @param {Context} ctx */
export function story(ctx) {
  const box = el("section", { class: "v-story", "aria-live": "polite" });
  ctx.store.on((state, before) => {
    if (state !== before && state.step === before.step && state.direction === before.direction) return;
    const { step } = ctx;
    if (!step) return;
    const equation = ctx.equation.get(step.equation);
    box.replaceChildren(...[
      el("p", { class: "part" }, [equation?.part, block(step.block)].filter(Boolean).join(" · ")),
      el("h2", {}, (step.title || step.member).replaceAll("`", "")),
      equation ? fit(own(step.equation_math ?? equation.math, "div", { class: "formula" })) : null,
      step.why ? prose(step.why) : null,
      step.summary ? el("div", { class: "summary" }, prose(step.summary)) : null,
    ].filter((x) => x !== null));
  });
  return box;
}

/** Prose may hold formulas of ours: MathML written by Viète beside escaped text. @param {string} html */
const prose = (html) => own(html, "p");

/** @param {Record<string, number>} letters */
const block = (letters) => Object.entries(letters).map(([letter, k]) => `block ${letter} = ${k}`).join(", ");
