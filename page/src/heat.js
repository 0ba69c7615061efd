/** A matrix as a heat map: one canvas, labels beside it, the entry under the pointer in words. */
import { el } from "./dom.js";
import { largest, tint } from "./matrix.js";
import { short } from "./numbers.js";

/** @typedef {import("./values.js").Value} Value */
/** @typedef {import("./matrix.js").Picked} Picked */

const MOST_LABELS = 40;
const LOWEST = 8; // pixels of a row with a label
const MOST_DRAWN = 4096; // columns: a wider canvas is slow

/** @param {Value} value @param {number} slice @param {Picked} picked @param {number} width @param {number} high */
export function heat(value, slice, picked, width, high) {
  const { rows } = value;
  const columns = Math.min(value.columns, MOST_DRAWN);
  const rowAxis = value.shape.length - 2;
  const columnAxis = value.shape.length - 1;
  const labels = (/** @type {number} */ axis, /** @type {number} */ n) =>
    axis >= 0 && value.labels[axis] && n <= MOST_LABELS ? Array.from({ length: n }, (_, k) => value.label(axis, k)) : null;
  const words = labels(rowAxis, rows);
  const beside = words ? Math.min(96, 8 + 7 * Math.max(0, ...words.map((word) => word.length))) : 0;
  const sideIn = (/** @type {number} */ room) => Math.max(1, Math.min(28, Math.floor(room / columns), Math.max(2, Math.floor(high / rows))));
  const square = rows === columns;
  // Rows that are lower than letters have none, and their room.
  const labelled = Math.floor(high / rows) >= LOWEST && (!square || sideIn(width - beside) >= LOWEST);
  const left = labelled ? words : null;
  const side = sideIn(width - (labelled ? beside : 0));
  const tall = square ? side : Math.max(side, Math.min(rows === 1 ? 28 : side * 4, Math.floor(high / rows) || 1));
  const height = Math.max(1, Math.min(tall, 28));
  const top = side >= LOWEST ? labels(columnAxis, columns) : null;
  const canvas = /** @type {HTMLCanvasElement} */ (el("canvas", {
    width: columns, height: rows, tabindex: "0", role: "img",
    "aria-label": `${picked.name} as a heat map of ${rows} by ${columns}; arrow keys read its entries`,
  }));
  canvas.style.width = `${side * columns}px`;
  canvas.style.height = `${height * rows}px`;
  const readout = el("output", { class: "readout" }, "\u00a0");
  queueMicrotask(() => paint(canvas, value, slice, largest(value, slice)));

  let at = [0, 0];
  /** @param {number} i @param {number} j */
  const read = (i, j) => {
    at = [Math.max(0, Math.min(rows - 1, i)), Math.max(0, Math.min(columns - 1, j))];
    const index = value.index(slice, at[0], at[1]);
    readout.replaceChildren(picked.name, el("sub", {}, index.map((k, axis) => value.label(axis, k)).join(", ")), ` = ${short(value.at(index))}`);
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    read(Math.floor(((event.clientY - box.top) / box.height) * rows), Math.floor(((event.clientX - box.left) / box.width) * columns));
  });
  const pick = () => picked.pick?.(value.index(slice, at[0], at[1]));
  canvas.addEventListener("click", pick);
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const move = moves[/** @type {keyof typeof moves} */ (event.key)];
    if (move) {
      event.preventDefault();
      event.stopPropagation();
      read(at[0] + move[0], at[1] + move[1]);
    } else if (event.key === "Enter") pick();
  });
  return el("div", { class: "heat" },
    top ? el("div", { class: "top", style: `--side:${side}px` }, top.map((t) => el("span", {}, t))) : null,
    left ? el("div", { class: "left", style: `--tall:${height}px` }, left.map((t) => el("span", {}, t))) : null,
    canvas, readout,
    columns < value.columns ? el("p", { class: "hint" }, `The first ${columns.toLocaleString("en")} of ${value.columns.toLocaleString("en")} columns`) : null);
}

/** One pixel an entry; the browser enlarges without smoothing. @param {HTMLCanvasElement} canvas @param {Value} value @param {number} slice @param {number} scale */
function paint(canvas, value, slice, scale) {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) return;
  const numbers = value.numbers();
  const { width: columns, height: rows } = canvas;
  const [zero, up, down] = ["--paper", "--heat-positive", "--heat-negative"].map((name) => colour(canvas, name));
  const image = context.createImageData(columns, rows);
  const from = slice * value.rows;
  for (let k = 0; k < rows * columns; k++) {
    const x = numbers[(from + Math.floor(k / columns)) * value.columns + (k % columns)];
    const end = x < 0 ? down : up;
    const share = tint(x, scale);
    for (let c = 0; c < 3; c++) image.data[4 * k + c] = zero[c] + (end[c] - zero[c]) * share;
    image.data[4 * k + 3] = Number.isFinite(x) ? 255 : 60;
  }
  context.putImageData(image, 0, 0);
}

/** @type {Map<string, number[]>} what a browser makes of a colour, asked once */
const colours = new Map();

/** A colour of the design sheet as red, green, blue. @param {Element} near @param {string} name */
function colour(near, name) {
  const text = getComputedStyle(near).getPropertyValue(name).trim() || "#888";
  const known = colours.get(text) ?? pixel(text);
  colours.set(text, known);
  return known;
}

/** @param {string} text */
function pixel(text) {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  if (!probe) return [0, 0, 0];
  probe.fillStyle = text;
  probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

/** Rows of a value as lines of colours, for the register. @param {Value} value @param {number[]} rows  counted through all its matrices @param {string} which */
export function strip(value, rows, which) {
  const { columns } = value;
  const canvas = /** @type {HTMLCanvasElement} */ (el("canvas", {
    class: "strip", width: columns, height: rows.length, role: "img",
    "aria-label": `${value.member}, ${which}: ${rows.length > 1 ? `${rows.length} times ` : ""}${columns} entries`,
  }));
  canvas.style.setProperty("--lines", String(rows.length));
  const data = value.numbers();
  queueMicrotask(() => {
    const lines = value.withData(Float64Array.from({ length: rows.length * columns }, (_, k) => data[rows[Math.floor(k / columns)] * columns + (k % columns)]));
    lines.shape = [rows.length, columns];
    paint(canvas, lines, 0, largest(value));
  });
  return canvas;
}
