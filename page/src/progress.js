/** Done, computed now or not yet: read off the steps, for equations as for values. */

/** @typedef {import("./types.js").Step} Step */

/**
 * An equation inside a loop is done again in every block: what counts is the block at hand.
 * @param {Step[]} steps @param {number} current @param {number} equation
 * @returns {"done" | "now" | "later"}
 */
export function equationProgress(steps, current, equation) {
  const here = steps[current];
  if (here?.equation === equation) return "now";
  const before = steps.slice(0, Math.max(0, current)).some((step) => step.equation === equation);
  const next = steps.slice(current + 1).find((step) => step.equation === equation);
  if (!before) return "later";
  return next && sameBlock(next, here) ? "later" : "done";
}

/** @param {Step | undefined} a @param {Step | undefined} b */
export function sameBlock(a, b) {
  return !!a && !!b && JSON.stringify(a.block) === JSON.stringify(b.block);
}

export const STATES = { done: "done", now: "computed now", later: "not yet", given: "given" };
