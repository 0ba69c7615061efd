/** What follows when a part of a value is put to 0: every later step computed again, entry by entry. */
import { indexAt, operationOf, Reading } from "./operations.js";
import { Value } from "./values.js";
import { zeros } from "./zeros.js";

/** @typedef {import("./context.js").Context} Context */

/**
 * The values of a run with equations such as `A^{1,2} = 0` put in. Throws an error that names the
 * first value that the page's operations cannot compute.
 * @param {Context} ctx @param {string[]} put @returns {Record<string, Map<string, Value>>}
 */
export function withPut(ctx, put) {
  const begin = ctx.values.fresh;
  /** @type {Map<string, Value>} */
  const fresh = new Map();
  const gradients = new Set(ctx.data.backward.map((step) => step.member));
  for (const member of Object.keys(ctx.values.stored.decimal ?? {})) {
    if (gradients.has(member)) continue;
    const value = member.includes("#") ? null : ctx.values.get(member, "decimal");
    if (value) fresh.set(member, value);
  }
  ctx.values.fresh = { decimal: fresh };
  const changed = new Set();
  try {
    for (const step of ctx.data.steps) {
      const { member } = step;
      if (step.reads.some((m) => changed.has(m))) {
        fresh.set(member, computed(ctx, member));
        changed.add(member);
      }
      const value = fresh.get(member);
      const off = value ? silenced(ctx, value, put) : null;
      if (off) {
        fresh.set(member, off);
        changed.add(member);
      }
    }
    return { decimal: fresh };
  } catch (error) {
    ctx.values.fresh = begin;
    throw error;
  }
}

/** @param {Context} ctx @param {string} member */
function computed(ctx, member) {
  const found = operationOf(ctx, member);
  const before = ctx.values.best(member, "decimal");
  if (!found || !before) throw new Error(`The page does not carry how ${member} is computed.`);
  const reading = new Reading(ctx, found.step, found.operation);
  // An operation may have its axes in another order than the value has them on paper.
  const order = found.operation.axes.length === before.shape.length ? before : null;
  const data = new Float64Array(before.size);
  for (let k = 0; k < data.length && order; k++) {
    const x = reading.compute(indexAt(before.shape, k));
    if (x === null) throw new Error(`The page cannot compute ${member} by itself: open it with viete explore --serve.`);
    data[k] = x;
  }
  return before.withData(data);
}

/** The value with its parts that are put to 0. @param {Context} ctx @param {Value} value @param {string[]} put */
function silenced(ctx, value, put) {
  const tests = zeros(ctx, value, put);
  if (!tests.length) return null;
  const data = Float64Array.from(value.numbers(), (x, k) => (tests.some((test) => test(indexAt(value.shape, k))) ? 0 : x));
  return value.withData(data);
}
