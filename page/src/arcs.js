/** An attention pattern as arcs: from each token to those that it reads, as thick as the weight. */
import { el, svg } from "./dom.js";
import { short } from "./numbers.js";

/** @typedef {import("./values.js").Value} Value */
/** @typedef {import("./matrix.js").Picked} Picked */

/** A pattern: rows over tokens, columns over tokens, no entry negative, every row adds up to 1. @param {Value} value */
export function isPattern(value) {
  const last = value.shape.length - 1;
  if (last < 1 || !value.labels[last] || !value.labels[last - 1]) return false;
  return sumsToOne(value, true);
}

/** A head that is switched off has rows of zeros. @param {Value} value @param {boolean} [orZero] */
export function sumsToOne(value, orZero = false) {
  if (value.exact || !value.size) return false;
  const numbers = value.numbers();
  const { columns } = value;
  for (let from = 0; from < value.size; from += columns) {
    let sum = 0;
    for (let k = 0; k < columns; k++) {
      if (!(numbers[from + k] >= 0)) return false;
      sum += numbers[from + k];
    }
    if (Math.abs(sum - 1) > 1e-6 && !(orZero && sum === 0)) return false;
  }
  return true;
}

/** @param {Value} value @param {number} slice @param {Picked} picked @param {number} width */
export function arcs(value, slice, picked, width) {
  const { rows, columns } = value;
  const words = Array.from({ length: columns }, (_, k) => value.label(value.shape.length - 1, k));
  const gap = Math.max(22, Math.min(84, (width - 40) / Math.max(columns, 1)));
  const wide = gap * columns + 20;
  const height = Math.min(150, 34 + gap * Math.min(columns, 6) * 0.38);
  const base = height - 26;
  const x = (/** @type {number} */ k) => 10 + gap * (k + 0.5);
  const lines = svg("g", { class: "arcs" });
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      const index = value.index(slice, i, j);
      const weight = Number(value.at(index));
      if (!(weight > 0.004)) continue;
      const chosen = picked.entry && picked.entry.join() === index.join();
      const arc = svg("path", {
        d: i === j ? loop(x(i), base) : bow(x(i + columns - rows), x(j), base, height),
        "stroke-width": (0.6 + 5.4 * weight).toFixed(2), "stroke-opacity": (0.25 + 0.7 * weight).toFixed(2),
        "data-from": i, class: chosen ? "chosen" : null,
      }, svg("title", {}, `${words[i] ?? i} reads ${words[j]}: ${short(weight)}`));
      if (picked.pick) arc.addEventListener("click", () => picked.pick?.(index));
      lines.append(arc);
    }
  }
  const labels = words.map((word, k) => {
    const text = svg("text", { x: x(k), y: height - 8, "text-anchor": "middle" }, word);
    text.addEventListener("pointerenter", () => only(k - (columns - rows)));
    text.addEventListener("pointerleave", () => only(null));
    return text;
  });
  /** @param {number | null} from */
  const only = (from) => {
    for (const arc of lines.children) arc.classList.toggle("faint", from !== null && Number(arc.getAttribute("data-from")) !== from);
  };
  return el("div", { class: "arcs-holder" }, svg("svg", {
    viewBox: `0 0 ${wide} ${height}`, width: wide, height, role: "img",
    "aria-label": `${picked.name}: arcs from each token to the tokens that it reads`,
  }, lines, labels));
}

/** @param {number} from @param {number} to @param {number} base @param {number} height */
function bow(from, to, base, height) {
  const rise = Math.min(base - 4, 14 + Math.abs(from - to) * 0.42, height);
  return `M${from},${base} C${from},${base - rise * 1.3} ${to},${base - rise * 1.3} ${to},${base}`;
}

/** @param {number} x @param {number} base */
const loop = (x, base) => `M${x - 4},${base} C${x - 13},${base - 20} ${x + 13},${base - 20} ${x + 4},${base}`;
