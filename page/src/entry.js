/** How one entry was computed: the row, the column, the numbers put in, the sum. From `operations`. */
import { button, el, own } from "./dom.js";
import { evaluate, shown, write } from "./formula.js";
import { typed, typedAt } from "./matrix.js";
import { short } from "./numbers.js";
import { operationOf, place, Reading, valueOf } from "./operations.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./types.js").Operation} Operation */
/** @typedef {import("./types.js").Step} Step */
/** @typedef {import("./values.js").Value} Value */
/** @typedef {{member: string, at: number[]}} Entry */
/** @typedef {Reading["parts"][number]} Part */

const MOST_TERMS = 8;
const DEEPEST = 5;

/** @param {Operation} operation @param {number[]} at */
const lettersAt = (operation, at) => new Map(operation.axes.map((letter, k) => [letter, at[k]]));

/**
 * The entries of an operand that an entry was made from: letters that are summed over, or that the
 * function at hand reads whole, run over the axis.
 * @param {Part} part @param {Map<string, number>} letters
 */
function entriesOf({ operand, value }, letters) {
  /** @type {number[][]} */
  let found = [[]];
  value?.shape.forEach((size, axis) => {
    const fixed = letters.get(operand.axes[axis]);
    const range = fixed === undefined ? Array.from({ length: size }, (_, k) => k) : [size === 1 ? 0 : fixed];
    found = found.flatMap((index) => range.map((k) => [...index, k]));
  });
  return found;
}

/** The letters that stay fixed for the operands. A row is read whole. @param {Reading} reading @param {Map<string, number>} letters */
function fixed(reading, letters) {
  const { operation } = reading;
  if (operation.op === "pick") return reading.picked(letters);
  if (operation.op === "concat") return reading.beside(letters)?.letters ?? letters;
  if (operation.op === "row") return new Map([...letters].filter(([letter]) => letter !== operation.axes[operation.axes.length - 1] || !operation.call));
  if (operation.op === "function") return new Map();
  return letters;
}

/** A test for the entries of a member that the explained entry was made from. @param {Context} ctx @param {string} member */
export function sources(ctx, member) {
  const { entry } = ctx.state;
  const found = entry && operationOf(ctx, entry.member);
  if (!entry || !found) return () => false;
  /** @type {Set<string>} */
  const marked = new Set();
  collect(ctx, found.step, found.operation, entry.at, member, marked, 0);
  return (/** @type {number[]} */ at) => marked.has(at.join());
}

/** @param {Context} ctx @param {Step} step @param {Operation} operation @param {number[]} at @param {string} member @param {Set<string>} marked @param {number} depth */
function collect(ctx, step, operation, at, member, marked, depth) {
  const reading = new Reading(ctx, step, operation);
  const letters = fixed(reading, lettersAt(operation, at));
  for (const part of reading.parts) {
    if (!part.value || part.member === null) continue;
    const from = entriesOf(part, letters);
    if (part.member === member) for (const index of from) marked.add(index.join());
    if (part.inner && depth < DEEPEST && from.length <= 64) for (const index of from) collect(ctx, step, part.inner, index, member, marked, depth + 1);
  }
}

/** The explanation of the chosen entry. @param {Context} ctx @param {(entry: Entry) => Node | null} edit */
export function explanation(ctx, edit) {
  const { entry } = ctx.state;
  const value = entry && valueOf(ctx, entry.member);
  if (!entry || !value) {
    return el("p", { class: "hint" }, "Select an entry to see how it was computed.");
  }
  const box = el("section", { class: "v-entry", "aria-live": "polite", "aria-label": "How the entry was computed" });
  box.append(el("header", {}, named(ctx, entry.member, entry.at, value), el("span", {}, "="), el("output", {}, typedAt(value, entry.at)),
    button("Close the explanation", () => ctx.store.set({ entry: null }), { class: "close" }, "×")));
  const found = operationOf(ctx, entry.member);
  if (found) {
    box.append(described(ctx, found.step, found.operation, entry.at, value, 0));
  } else {
    const kind = ctx.data.symbols[ctx.symbolOf(entry.member)]?.kind;
    box.append(el("p", {}, kind === "input" ? "This is an input: the model reads it."
      : kind === "parameter" ? "This is a parameter: training sets its value." : "This page does not store how this was computed."));
  }
  const field = edit(entry);
  if (field) box.append(field);
  return box;
}

/** A number in an explanation leads to its own. @param {Context} ctx @param {Event} event */
export function pickEntry(ctx, event) {
  const entry = /** @type {Element} */ (event.target).closest("[data-entry]")?.getAttribute("data-entry");
  if (entry) ctx.store.set({ entry: JSON.parse(entry) });
}

/** One entry of a value, worked out for a reader who has chosen none. @param {Context} ctx @param {string} member */
export function worked(ctx, member) {
  const value = valueOf(ctx, member);
  const found = value?.size ? operationOf(ctx, member) : null;
  if (!value || !found || !new Reading(ctx, found.step, found.operation).whole) return null;
  const at = example(ctx, value);
  return el("section", { class: "v-worked", "aria-label": "One number by hand" },
    el("h3", {}, "One number by hand"),
    el("header", {}, named(ctx, member, at, value), el("span", {}, "="), el("output", {}, typedAt(value, at))),
    described(ctx, found.step, found.operation, at, value, 0));
}

/** The greatest score of the last position; of another value the first entry of the last row that does not begin with 0. @param {Context} ctx @param {Value} value */
function example(ctx, value) {
  const last = value.rows - 1;
  if (ctx.symbolOf(value.member) === ctx.data.tokens.scores) {
    const scores = Array.from({ length: value.columns }, (_, k) => Number(value.at(value.index(0, last, k))));
    return value.index(0, last, scores.indexOf(Math.max(...scores)));
  }
  const found = Array.from({ length: value.rows }, (_, k) => value.index(0, last - k, 0));
  return found.find((at) => Number(value.at(at)) !== 0) ?? found[0];
}

/** @param {Context} ctx @param {Step} step @param {Operation} operation @param {number[]} at @param {Value} value @param {number} depth @returns {HTMLElement} */
function described(ctx, step, operation, at, value, depth) {
  const reading = new Reading(ctx, step, operation);
  const letters = lettersAt(operation, at);
  const box = el("div", { class: "operation" }, own(operation.text, "p", { class: "text" }));
  const inner = operation.formula === 0 && !operation.over.length && reading.whole && reading.parts.length === 1 ? reading.parts[0] : null;
  if (inner?.inner && inner.value) return described(ctx, step, inner.inner, entriesOf(inner, letters)[0], inner.value, depth);
  const result = value.at(at);
  const definition = step.operations.find((o) => o.id === operation.last);
  if (!reading.whole) {
    box.append(el("p", { class: "hint" }, "This page does not store all the values that this was computed from."));
  } else if (definition) {
    box.append(inputs(ctx, reading, fixed(reading, letters)));
    box.append(el("details", { open: depth < 1 }, el("summary", {}, `Definition of ${operation.call}`),
      described(ctx, step, definition, at, value, depth + 1)));
    return box;
  } else if (operation.op === "pick") {
    box.append(pick(ctx, reading, letters));
  } else if (operation.formula === undefined) {
    box.append(inputs(ctx, reading, fixed(reading, letters)));
  } else if (!value.exact && differs(reading.compute(at), result)) {
    box.append(el("p", { class: "hint" }, "The steps of this page belong to the original text. After your change this entry is computed differently."));
  } else {
    box.append(terms(ctx, reading, letters, result));
  }
  if (depth < DEEPEST) box.append(...deeper(ctx, reading, letters, depth));
  return box;
}

/** @param {number | null} a @param {number | string} b */
function differs(a, b) {
  if (a === null || typeof b === "string" || Object.is(a, b)) return false;
  return !(Math.abs(a - b) <= 1e-6 * Math.max(1, Math.abs(a), Math.abs(b)));
}

/** Parts that are operations themselves, each behind a line that opens. @param {Context} ctx @param {Reading} reading @param {Map<string, number>} letters @param {number} depth */
function deeper(ctx, reading, letters, depth) {
  const here = fixed(reading, letters);
  const seen = new Set();
  return reading.parts.flatMap((part) => {
    if (!part.inner || !part.value || seen.has(part.inner.id)) return [];
    const from = entriesOf(part, here);
    if (from.length !== 1) return [];
    seen.add(part.inner.id);
    return [el("details", { open: depth < 2 && reading.parts.length < 3 },
      el("summary", {}, own(part.inner.text), " = ", el("b", {}, typedAt(part.value, from[0]))),
      described(ctx, reading.step, part.inner, from[0], part.value, depth + 1))];
  });
}

/** The terms in columns, a line an operand, then what becomes of them, written out. */
/** @param {Context} ctx @param {Reading} reading @param {Map<string, number>} letters @param {number | string} result */
function terms(ctx, reading, letters, result) {
  const { operation, parts } = reading;
  const formula = /** @type {import("./formula.js").Formula} */ (operation.formula);
  const all = [...reading.terms(letters)].map((here) => {
    const entries = parts.map((_, k) => reading.entry(k, here));
    return { here, entries, x: evaluate(formula, entries) };
  });
  const sum = operation.fold === "sum" || operation.fold === "mean";
  const chosen = all.length > MOST_TERMS * 2 && sum && all.every(({ x }) => x !== null)
    ? [...all].sort((a, b) => Math.abs(Number(b.x)) - Math.abs(Number(a.x))).slice(0, MOST_TERMS) : all.slice(0, MOST_TERMS * 2);
  const folded = operation.over.length > 0;
  const lines = parts.map((part, k) => ({ part, k })).filter(({ part }) => part.member !== null);
  const simple = formula === 0;
  const table = el("table", { class: "products" }, el("tbody", {},
    folded && all.length > 1 ? el("tr", {}, el("th", { scope: "row" }, "at"), chosen.map(({ here }) => el("td", { class: "over" }, overName(reading, here)))) : null,
    lines.map(({ part, k }) => el("tr", {}, el("th", { scope: "row" }, rowName(ctx, part, letters)),
      chosen.map(({ here, entries }) => el("td", {}, link(part, here, entries[k]))))),
    folded && !simple && chosen.every(({ x }) => x !== null) ? el("tr", { class: "product" }, el("th", { scope: "row" }, lines.length > 1 && Array.isArray(formula) && /times|had/.test(formula[0]) ? "product" : "each"),
      chosen.map(({ x }) => el("td", {}, short(Number(x))))) : null));
  return el("div", {}, el("div", { class: "scroll" }, table), written(operation, formula, all, chosen, result));
}

/** @param {Operation} operation @param {import("./formula.js").Formula} formula @param {{entries: any[], x: number | null}[]} all @param {{entries: any[], x: number | null}[]} chosen @param {number | string} result */
function written(operation, formula, all, chosen, result) {
  const texts = chosen.map(({ entries }) => write(formula, (k) => shown(entries[k])));
  const more = all.length - chosen.length;
  let text = texts[0] ?? "";
  if (operation.over.length) {
    const sum = operation.fold === "sum" || operation.fold === "mean";
    text = texts.map((t, k) => (sum && k && t.startsWith("−") ? `(${t})` : t)).join(sum ? " + " : ", ");
    if (more > 0) {
      const rest = all.reduce((a, { x }) => a + Number(x), 0) - chosen.reduce((a, { x }) => a + Number(x), 0);
      text += sum && Number.isFinite(rest) ? ` + ${more} smaller (${short(rest)} together)` : `, and ${more} more`;
    }
    if (operation.fold === "mean") text = `(${text}) / ${all.length}`;
    else if (!sum) text = `${operation.fold}(${text})`;
  }
  return el("p", { class: "written" }, typed(text), " = ", el("output", {}, typed(result)));
}

/** @param {Reading} reading @param {Map<string, number>} here */
function overName(reading, here) {
  return reading.operation.over.map((letter) => {
    const k = here.get(letter) ?? 0;
    for (const { operand, value } of reading.parts) {
      const axis = operand.axes.indexOf(letter);
      if (axis >= 0 && value?.labels[axis]) return value.label(axis, k);
    }
    return String(k);
  }).join(", ");
}

/** x[a, ·]: fixed letters by name, running ones as a dot. @param {Context} ctx @param {Part} part @param {Map<string, number>} letters */
function rowName(ctx, { operand, member, inner, value }, letters) {
  if (member === null || !value) return "";
  const index = operand.axes.map((letter, axis) => {
    const k = letters.get(letter);
    return k === undefined ? "·" : value.label(axis, value.shape[axis] === 1 ? 0 : k);
  });
  return el("span", {}, inner ? own(inner.text) : nameOf(ctx, member), index.length ? el("sub", {}, index.join(", ")) : "");
}

/** @param {Context} ctx @param {string} member */
function nameOf(ctx, member) {
  const markup = member.includes("#") ? operationOf(ctx, member)?.operation.text : ctx.math(member);
  return markup ? own(markup) : member;
}

/** @param {Context} ctx @param {string} member @param {number[]} at @param {Value} value */
function named(ctx, member, at, value) {
  return el("span", { class: "name" }, nameOf(ctx, member), at.length ? el("sub", {}, at.map((k, axis) => value.label(axis, k)).join(", ")) : "");
}

/** A number that leads to how it was computed in turn. @param {Part} part @param {Map<string, number>} here @param {any} x */
function link({ operand, member, value }, here, x) {
  if (member === null || !value) return shown(x);
  return entryButton(member, place(operand, value, here), value);
}

/** @param {string} member @param {number[]} at @param {Value} value */
function entryButton(member, at, value) {
  return el("button", { type: "button", class: "entry", "data-entry": JSON.stringify({ member, at }),
    "aria-label": `${member} at ${at.join(", ")}: ${short(value.at(at))}` }, typedAt(value, at));
}

/** @param {Context} ctx @param {Reading} reading @param {Map<string, number>} letters */
function pick(ctx, reading, letters) {
  const { operation, parts } = reading;
  const here = reading.picked(letters);
  const chooser = parts[1];
  const which = chooser.value ? el("span", {}, named(ctx, chooser.member ?? "", place(chooser.operand, chooser.value, letters), chooser.value), " = ",
    link(chooser, letters, reading.entry(1, letters))) : null;
  return el("p", { class: "written" }, which, ` picks entry ${Number(reading.entry(1, letters)) - (operation.first ?? 0)}: `,
    parts[0].value ? named(ctx, parts[0].member ?? "", place(parts[0].operand, parts[0].value, here), parts[0].value) : "", " = ",
    link(parts[0], here, reading.entry(0, here)));
}

/** What went in, a line an operand. @param {Context} ctx @param {Reading} reading @param {Map<string, number>} letters */
function inputs(ctx, reading, letters) {
  return el("ul", { class: "inputs" }, reading.parts.filter(({ member }) => member !== null).map((part) => {
    if (!part.value || part.member === null) return null;
    const { member, value } = part;
    const from = entriesOf(part, letters);
    const few = from.slice(0, MOST_TERMS * 2);
    const many = from.length > 1;
    return el("li", {}, rowName(ctx, part, letters), " = ", many ? "(" : "",
      few.flatMap((at, k) => [k ? ", " : "", entryButton(member, at, value)]), from.length > few.length ? `, … ${from.length - few.length} more` : "", many ? ")" : "");
  }));
}
