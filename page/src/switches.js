/** Changes such as A^{1,2} = 0 as inputs of the page's program: 1 where an entry is, and 0 where it is put to 0. */
import { indexAt } from "./operations.js";
import { putToZero, zeros } from "./zeros.js";

/** @typedef {import("./types.js").PageData} PageData */
/** @typedef {import("./types.js").Switch} Switch */
/** @typedef {import("./values.js").Value} Value */
/** @typedef {{shape: number[], data: Float64Array}} Numbers */

/**
 * The switches that some changes turn, of each block its own. Throws an error that names a change
 * for which the program has none.
 * @param {PageData} data  as the page has it @param {string[]} put
 * @param {(member: string) => Value} pattern  a value of the shape that it has here
 */
export function switchInputs(data, put, pattern) {
  const { switches = [] } = data.program ?? {};
  const keys = new Set(switches.map(({ equation }) => keyOf(data, equation)));
  const other = put.find((equation) => !keys.has(putToZero(data, equation)?.key ?? ""));
  if (other !== undefined) throw new Error(`This page cannot compute ${other} by itself: use viete explore --serve.`);
  const turned = new Set(put.map((equation) => putToZero(data, equation)?.key));
  const found = switches.filter(({ equation }) => turned.has(keyOf(data, equation)));
  return Object.fromEntries(found.map((s) => [s.input, ofBlocks(data, s, put, pattern)]));
}

/** The symbol that an equation is of. @param {PageData} data @param {number} equation */
const keyOf = (data, equation) => data.equations.find(({ number }) => number === equation)?.key ?? "";

/** @param {PageData} data @param {Switch} of @param {string[]} put @param {(member: string) => Value} pattern */
function ofBlocks(data, { equation, letters }, put, pattern) {
  const found = data.steps.filter((step) => step.equation === equation).map(({ member, block }) => {
    const value = pattern(member);
    const tests = zeros(data, value, put);
    const numbers = Float64Array.from({ length: value.size }, (_, k) => (tests.some((test) => test(indexAt(value.shape, k))) ? 0 : 1));
    return /** @type {[string, Numbers]} */ ([letters.map((letter) => block[letter]).join(), { shape: value.shape, data: numbers }]);
  });
  return letters.length ? Object.fromEntries(found) : found[0][1];
}
