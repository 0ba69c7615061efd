/** The formula of one entry: its value, and how it is written with the numbers put in. */
import { short } from "./numbers.js";

/** @typedef {number | [string, ...any[]]} Formula  an operand's place, or a primitive and its arguments */

/** The error function: its series, or the continued fraction of what is left. @param {number} x */
function erf(x) {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  const scale = Math.exp(-x * x) / Math.sqrt(Math.PI);
  if (size < 2.5) {
    let term = x, sum = x;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) sum += term *= (2 * x * x) / (2 * n + 1);
    return 2 * scale * sum;
  }
  let tail = size;
  for (let n = 120; n > 0; n--) tail = size + n / 2 / tail;
  return Math.sign(x) * (1 - scale / tail);
}

/** @type {Record<string, (...x: any[]) => number | boolean>} */
const PRIMITIVES = {
  add: (a, b) => a + b, sub: (a, b) => a - b, times: (a, b) => a * b, had: (a, b) => a * b, div: (a, b) => a / b,
  neg: (a) => -a, pow: (a, b) => a ** b, exp: Math.exp, log: Math.log, sqrt: Math.sqrt, cos: Math.cos, sin: Math.sin, tanh: Math.tanh,
  abs: Math.abs, erf, floor: Math.floor, max: Math.max, min: Math.min, mod: (a, b) => a - b * Math.floor(a / b),
  where: (c, a, b) => (c ? a : b), quotient: (a, b) => Math.floor(a / b), prod: (a, b) => a * b,
  le: (a, b) => a <= b, lt: (a, b) => a < b, ge: (a, b) => a >= b, gt: (a, b) => a > b,
  eq: (a, b) => a === b, ne: (a, b) => a !== b, and: (a, b) => a && b, or: (a, b) => a || b, not: (a) => !a,
};

/** The value, or null where a primitive or a number is not at hand. @param {Formula} formula @param {(number | string | boolean | null)[]} entries @returns {number | null} */
export function evaluate(formula, entries) {
  if (typeof formula === "number") {
    const x = entries[formula];
    return typeof x === "string" || x === null ? null : /** @type {any} */ (x);
  }
  const [op, ...parts] = formula;
  const args = parts.map((part) => evaluate(part, entries));
  // A branch that is not taken need not have a value.
  if (op === "where" && args[0] !== null) return args[0] ? args[1] : args[2];
  const rule = /** @type {((...x: any[]) => any) | undefined} */ (PRIMITIVES[op]);
  return rule !== undefined && args.every((x) => x !== null) ? /** @type {any} */ (rule(...args)) : null;
}

/** @type {Record<string, [string, number]>}  the sign between, and how tightly it binds */
const INFIX = { add: [" + ", 1], sub: [" − ", 1], times: [" · ", 2], had: [" · ", 2], div: [" / ", 2],
  le: [" ≤ ", 0], lt: [" < ", 0], ge: [" ≥ ", 0], gt: [" > ", 0], eq: [" = ", 0], ne: [" ≠ ", 0], and: [" and ", 0], or: [" or ", 0] };

/** The formula as text, each operand as `name` writes it. @param {Formula} formula @param {(operand: number) => string} name @param {number} [within] @returns {string} */
export function write(formula, name, within = -1) {
  if (typeof formula === "number") {
    const text = name(formula);
    return within > 0 && /^−|[^(\[^] [+−] /.test(text) ? `(${text})` : text;
  }
  const [op, ...args] = formula;
  const sign = INFIX[op];
  if (sign && args.length === 2) {
    const right = op === "sub" || op === "div" ? sign[1] + 0.5 : sign[1];
    const text = `${write(args[0], name, sign[1])}${sign[0]}${write(args[1], name, right)}`;
    return within > sign[1] || (within === sign[1] + 0.5) ? `(${text})` : text;
  }
  if (op === "neg") return `${within > 0 ? "(" : ""}−${write(args[0], name, 2)}${within > 0 ? ")" : ""}`;
  if (op === "pow") return `${write(args[0], name, 3)}^${write(args[1], name, 3)}`;
  if (op === "exp") return `e^${write(args[0], name, 3)}`;
  if (op === "where") return `${write(args[1], name)} if ${write(args[0], name)}, or else ${write(args[2], name)}`;
  return `${op === "sqrt" ? "√" : op}(${args.map((a) => write(a, name)).join(", ")})`;
}

/** @param {number | string | boolean} x */
export const shown = (x) => (typeof x === "boolean" ? (x ? "yes" : "no") : short(x));

/** Folds the terms of an entry. @param {string} fold @param {number[]} terms */
export function foldOf(fold, terms) {
  const sum = () => terms.reduce((a, b) => a + b, 0);
  if (fold === "sum") return sum();
  if (fold === "mean") return sum() / terms.length;
  if (fold === "max") return Math.max(...terms);
  if (fold === "min") return Math.min(...terms);
  if (fold === "argmax") return terms.indexOf(Math.max(...terms));
  if (fold === "argmin") return terms.indexOf(Math.min(...terms));
  return null;
}
