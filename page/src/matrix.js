/** A matrix as numbers in brackets, with its labels outside: one cell in the tab order, arrows move. */
import { sumsToOne } from "./arcs.js";
import { el, own } from "./dom.js";
import { full, powers, short } from "./numbers.js";

/** @typedef {import("./values.js").Value} Value */

/**
 * @typedef {object} Picked
 * @property {number[] | null} entry  the entry that is explained
 * @property {(index: number[]) => boolean} marked  the entries that it was made from
 * @property {((index: number[]) => void) | null} pick
 * @property {string} name
 */

/** @param {Value} value @param {number} slice @param {Picked} picked */
export function matrix(value, slice, picked) {
  const { rows, columns } = value;
  const scale = largest(value, slice);
  const rowAxis = value.shape.length - 2;
  const columnAxis = value.shape.length - 1;
  const named = { row: rowAxis >= 0 && !!value.labels[rowAxis], column: columnAxis >= 0 && !!value.labels[columnAxis] };
  const body = el("tbody");
  let tabbed = false;
  for (let i = 0; i < rows; i++) {
    const row = el("tr");
    if (named.row) row.append(el("th", { scope: "row", title: value.label(rowAxis, i) }, value.label(rowAxis, i)));
    for (let j = 0; j < columns; j++) {
      const index = value.index(slice, i, j);
      const cell = entry(value, index, scale, picked);
      if (!tabbed && (!picked.entry || same(picked.entry, index))) {
        cell.tabIndex = 0;
        tabbed = true;
      }
      row.append(cell);
    }
    body.append(row);
  }
  if (!tabbed) /** @type {HTMLElement | null} */ (body.querySelector("td"))?.setAttribute("tabindex", "0");
  const head = named.column
    ? el("thead", {}, el("tr", {}, named.row ? el("td", { class: "corner" }) : null,
      Array.from({ length: columns }, (_, j) => el("th", { scope: "col", title: value.label(columnAxis, j) }, value.label(columnAxis, j)))))
    : null;
  const table = el("table", { class: value.shape.length ? "matrix" : "matrix scalar", role: "grid", "aria-label": picked.name }, head, body);
  if (picked.pick) hear(table, value, picked.pick);
  return table;
}

/** @param {Value} value @param {number[]} index @param {number} scale @param {Picked} picked */
function entry(value, index, scale, picked) {
  const x = value.at(index);
  const cell = el("td", { role: "gridcell", tabindex: "-1", title: full(x), "data-at": index.join(",") }, typedAt(value, index, value.columns > 5));
  if (typeof x === "number" && Number.isFinite(x) && scale > 0) {
    cell.style.setProperty("--strength", tint(x, scale).toFixed(3));
    cell.classList.add(x < 0 ? "negative" : "positive");
  }
  if (picked.entry && same(picked.entry, index)) cell.setAttribute("aria-selected", "true");
  if (picked.marked(index)) cell.classList.add("source");
  return cell;
}

/** An entry, set as mathematics where it is more than digits. @param {Value} value @param {number[]} at @param {boolean} [tight] @returns {(Node | string)[]} */
export function typedAt(value, at, tight = false) {
  const markup = value.math?.[value.offset(at)];
  return markup ? [own(markup)] : typed(value.at(at), tight);
}

/** Powers of an exact number are raised. @param {number | string} x @param {boolean} [tight] @returns {(Node | string)[]} */
export function typed(x, tight = false) {
  const text = short(x, tight);
  if (typeof x === "number" || !text.includes("^")) return [text];
  return powers(text).map((part) =>
    part.startsWith("^") ? el("sup", {}, part.slice(1).replace(/^\((.*)\)$/, "$1")) : part);
}

/** @param {HTMLElement} table @param {Value} value @param {(index: number[]) => void} pick */
function hear(table, value, pick) {
  /** @param {Event} event */
  const cellOf = (event) => /** @type {Element} */ (event.target).closest("td");
  table.addEventListener("click", (event) => {
    const cell = cellOf(event);
    // Numbers are text that can be selected: a selection is not a click.
    if (cell?.dataset.at !== undefined && !String(getSelection())) pick(indexOf(cell));
  });
  table.addEventListener("keydown", (event) => {
    const cell = cellOf(event);
    if (!cell) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      pick(indexOf(cell));
      return;
    }
    const row = /** @type {HTMLTableRowElement} */ (cell.parentElement);
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const move = moves[/** @type {keyof typeof moves} */ (event.key)];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const to = table.querySelectorAll("tbody tr")[row.sectionRowIndex + move[0]]?.children[cell.cellIndex + move[1]];
    if (to instanceof HTMLTableCellElement && to.tagName === "TD") {
      cell.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    }
  });
}

/** @param {HTMLElement} cell */
const indexOf = (cell) => (cell.dataset.at ? cell.dataset.at.split(",").map(Number) : []);

/** @param {number[]} a @param {number[]} b */
export const same = (a, b) => a.length === b.length && a.every((x, k) => x === b[k]);

/** How much of its full tint an entry has. @param {number} x @param {number} scale  of `largest` */
export const tint = (x, scale) => (Number.isFinite(x) && scale > 0 ? Math.min(1, Math.abs(x) / scale) : 0);

/** The size that is fully tinted: the largest of an entry, 1 for shares of 1, 0 for none, as of token ids. @param {Value} value @param {number} [slice] */
export function largest(value, slice) {
  if (value.exact || value.whole) return 0;
  if (sumsToOne(value, true)) return 1;
  const length = value.rows * value.columns;
  const from = slice === undefined ? 0 : slice * length;
  const to = slice === undefined ? value.size : from + length;
  let most = 0;
  for (let k = from; k < to; k++) {
    const size = Math.abs(/** @type {number} */ (value.data[k]));
    if (Number.isFinite(size) && size > most) most = size;
  }
  return most;
}
