/** Numbers as text: short in a matrix, every digit in a copy. */

/** @param {number | string} x @param {boolean} [tight]  a digit fewer, where there is little room */
export function short(x, tight = false) {
  if (typeof x === "string") return x.replace(/^-/, "−");
  if (Number.isNaN(x)) return "undefined";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (Object.is(x, -0)) x = 0;
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e6) return minus(String(x));
  if (size >= 1e5 || size < 1e-3) return scientific(x, tight ? 0 : 2);
  return minus(x.toFixed((size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4) - (tight ? 1 : 0)));
}

/** Every digit: reading it back gives the same float64. @param {number | string} x */
export function full(x) {
  if (typeof x === "string") return x;
  return Number.isFinite(x) ? String(x) : x > 0 ? "inf" : x < 0 ? "-inf" : "nan";
}

/** A text cut around its powers, each with its sign ^ and all digits: "e", "^0.3775". @param {string} text */
export const powers = (text) => text.split(/(\^\([^()]*\)|\^[−-]?\d+(?:\.\d+)?(?:e[−-]?\d+)?|\^[−-]?\w+)/);

/** @param {number} x @param {number} digits */
function scientific(x, digits) {
  const [mantissa, exponent] = x.toExponential(digits).split("e");
  return `${minus(trim(mantissa))}e${minus(String(Number(exponent)))}`;
}

/** @param {string} text */
const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
/** @param {string} text */
const minus = (text) => text.replace("-", "−");

/** @param {number} n @param {string} one @param {string} [many] */
export const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
