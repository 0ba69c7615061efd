/** Operations of a step: which they are, what they read, and their values, computed where not carried. */
import { evaluate, foldOf } from "./formula.js";
import { Value } from "./values.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./types.js").Operation} Operation */
/** @typedef {import("./types.js").Operand} Operand */
/** @typedef {import("./types.js").Step} Step */
/** @typedef {number | string | boolean | null} Entry */

const MOST = 1e6; // products that one operation may take to compute here

/** The operation that a value comes from: a call rather than the last operation of its definition. @param {Context} ctx @param {string} member */
export function operationOf(ctx, member) {
  const step = ctx.stepOf.get(member.split("#")[0]);
  const found = step?.operations?.filter((o) => o.value === member) ?? [];
  return step && found.length ? { step, operation: found[found.length - 1] } : null;
}

/** @param {Step} step @param {Operand} operand */
export function source(step, { value }) {
  if (typeof value === "string") return { member: value, operation: null };
  if (typeof value === "object" && value !== null && "operation" in value) {
    const operation = step.operations.find((o) => o.id === value.operation) ?? null;
    return { member: operation?.value ?? null, operation };
  }
  return { member: null, operation: null };
}

/** A plain number, or the numbers that count along the one axis. @param {Operand} operand @param {Map<string, number>} letters @returns {Entry} */
function plain({ value, axes }, letters) {
  if (typeof value === "number" || typeof value === "boolean") return value;
  if (typeof value === "object" && "from" in value) return value.from + (letters.get(axes[0]) ?? 0);
  if (typeof value === "object" && "number" in value) return { inf: Infinity, "-inf": -Infinity, nan: NaN }[value.number] ?? null;
  return null;
}

/** Where an operand is read at given letters. @param {Operand} operand @param {Value} value @param {Map<string, number>} letters */
export const place = (operand, value, letters) =>
  operand.axes.map((letter, axis) => (value.shape[axis] === 1 ? 0 : letters.get(letter) ?? 0));

/** Everything that one entry of an operation needs. */
export class Reading {
  /**
   * @param {Context} ctx @param {Step} step @param {Operation} operation
   * @param {(member: string, inner: Operation | null) => Value | null} [found]  the value of a member or an operation
   */
  constructor(ctx, step, operation, found = (member) => valueOf(ctx, member)) {
    this.ctx = ctx;
    this.found = found;
    this.step = step;
    this.operation = operation;
    this.parts = operation.operands.map((operand) => {
      const { member, operation: inner } = source(step, operand);
      return { operand, member, inner, value: member === null ? null : found(member, inner) };
    });
  }

  /** Whether every value that is read is at hand. */
  get whole() {
    return this.parts.every(({ member, value }) => member === null || value);
  }

  /** How many entries a letter has: as the values at hand have it. @param {string} letter */
  size(letter) {
    let single = false;
    for (const { operand, value } of this.parts) {
      const axis = operand.axes.indexOf(letter);
      if (axis < 0) continue;
      if (value && value.shape[axis] !== 1) return value.shape[axis];
      single ||= !!value;
    }
    // The page was written of a longer text where nothing that is read has more than one entry now.
    return single && !this.parts.some(({ operand, value }) => !value && operand.axes.includes(letter)) ? 1 : this.operation.sizes?.[letter] ?? 1;
  }

  /** @param {number} k @param {Map<string, number>} letters @returns {Entry} */
  entry(k, letters) {
    const { operand, member, value } = this.parts[k];
    if (member === null) return plain(operand, letters);
    return value ? value.at(place(operand, value, letters)) : null;
  }

  /** The letters of every term that an entry folds. @param {Map<string, number>} letters */
  *terms(letters) {
    const sizes = this.operation.over.map((letter) => this.size(letter));
    const total = sizes.reduce((a, b) => a * b, 1);
    for (let t = 0; t < total; t++) {
      const here = new Map(letters);
      let rest = t;
      for (let k = sizes.length - 1; k >= 0; k--) {
        here.set(this.operation.over[k], rest % sizes[k]);
        rest = Math.floor(rest / sizes[k]);
      }
      yield here;
    }
  }

  /** The letters with those of a pick: the place that the second operand says. @param {Map<string, number>} letters */
  picked(letters) {
    const { at, first = 0 } = this.operation;
    if (!at) return letters;
    return new Map([...letters, [at, Number(this.entry(1, letters)) - first]]);
  }

  /** The operand of a concat that an entry comes from, and the letters there. @param {Map<string, number>} letters */
  beside(letters) {
    const { to, along = [] } = this.operation;
    let rest = letters.get(to ?? "") ?? 0;
    for (let k = 0; k < this.parts.length; k++) {
      const { operand, value } = this.parts[k];
      const mine = along.filter((letter) => operand.axes.includes(letter));
      const sizes = mine.map((letter) => value?.shape[operand.axes.indexOf(letter)] ?? this.size(letter));
      const size = sizes.reduce((a, b) => a * b, 1);
      if (rest >= size) {
        rest -= size;
        continue;
      }
      const here = new Map(letters);
      for (let m = mine.length - 1; m >= 0; m--) {
        here.set(mine[m], rest % sizes[m]);
        rest = Math.floor(rest / sizes[m]);
      }
      return { k, letters: here };
    }
    return null;
  }

  /** The entry at an index, computed. @param {number[]} at @returns {number | null} */
  compute(at) {
    return this.computeAt(new Map(this.operation.axes.map((letter, k) => [letter, at[k]])));
  }

  /** The entry at letters, computed. @param {Map<string, number>} letters @returns {number | null} */
  computeAt(letters) {
    const { operation } = this;
    if (operation.last !== undefined) {
      const inner = this.step.operations.find((o) => o.id === operation.last);
      return inner ? new Reading(this.ctx, this.step, inner, this.found).computeAt(letters) : null;
    }
    if (operation.op === "pick") return numeric(this.entry(0, this.picked(letters)));
    if (operation.op === "concat") {
      const from = this.beside(letters);
      return from && numeric(this.entry(from.k, from.letters));
    }
    const { formula } = operation;
    if (formula === undefined) return null;
    const terms = [];
    for (const here of this.terms(letters)) terms.push(evaluate(formula, this.parts.map((_, k) => this.entry(k, here))));
    if (terms.some((x) => x === null)) return null;
    const numbers = /** @type {number[]} */ (terms);
    return operation.over.length ? foldOf(operation.fold ?? "sum", numbers) : Number(numbers[0]);
  }
}

/** @param {Entry} x */
const numeric = (x) => (typeof x === "string" || x === null ? null : Number(x));

/** A value of the page; one within a step, or a part of a gradient, is computed here since the numbers changed. @param {Context} ctx @param {string} member @returns {Value | null} */
export function valueOf(ctx, member) {
  const carried = ctx.values.best(member, ctx.state.meaning);
  if (carried || !(member.includes("#") || (ctx.values.fresh && ctx.isPart(member)))) return carried;
  const found = operationOf(ctx, member);
  if (!found) return null;
  const { step } = found;
  const operation = found.operation.last === undefined ? found.operation
    : step.operations.find((o) => o.id === found.operation.last) ?? found.operation;
  const reading = new Reading(ctx, step, operation);
  const shape = operation.axes.map((letter) => reading.size(letter));
  const size = shape.reduce((a, b) => a * b, 1);
  if (!reading.whole || size * operation.over.reduce((a, letter) => a * reading.size(letter), 1) > MOST) return null;
  const made = new Value(member, shape, operation.axes, labelsOf(reading), new Float64Array(size));
  const data = new Float64Array(size);
  for (let k = 0; k < size; k++) {
    const x = reading.compute(indexAt(shape, k));
    if (x === null) return null;
    data[k] = x;
  }
  const value = made.withData(data);
  ctx.values.fresh?.decimal.set(member, value);
  return value;
}

/** Labels come down from what is read. @param {Reading} reading */
function labelsOf(reading) {
  return reading.operation.axes.map((letter) => {
    for (const { operand, value } of reading.parts) {
      const axis = operand.axes.indexOf(letter);
      if (axis >= 0 && value?.labels[axis]) return value.labels[axis];
    }
    return null;
  });
}

/** @param {number[]} shape @param {number} offset */
export function indexAt(shape, offset) {
  const index = [];
  for (let k = shape.length - 1; k >= 0; k--) {
    index.unshift(offset % shape[k]);
    offset = Math.floor(offset / shape[k]);
  }
  return index;
}
