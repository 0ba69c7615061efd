/** Values by member and meaning: arrays with labelled axes, read entry by entry. */

/** @typedef {import("./types.js").Stored} Stored */
/** @typedef {import("./types.js").PageData} PageData */

/** An array of numbers or of exact numbers written as text. */
export class Value {
  /**
   * @param {string} member
   * @param {number[]} shape
   * @param {string[]} axes
   * @param {(string[] | null)[]} labels
   * @param {ArrayLike<number | string>} data
   * @param {(string | null)[] | null} [math]  MathML of the entries
   * @param {boolean} [whole]  whether the entries are whole numbers, such as token ids
   */
  constructor(member, shape, axes, labels, data, math = null, whole = false) {
    this.member = member;
    this.shape = shape;
    this.axes = axes;
    this.labels = labels;
    this.data = data;
    this.math = math;
    this.whole = whole;
    this.exact = typeof data[0] === "string";
  }

  get size() {
    return this.data.length;
  }

  /** Numbers of rows and columns: a vector is one row. */
  get rows() {
    return this.shape.length > 1 ? this.shape[this.shape.length - 2] : 1;
  }

  get columns() {
    return this.shape.length ? this.shape[this.shape.length - 1] : 1;
  }

  /** How many matrices: the product of the axes before the last two. */
  get slices() {
    return this.shape.slice(0, -2).reduce((a, b) => a * b, 1);
  }

  /** @param {number[]} index */
  offset(index) {
    let at = 0;
    for (let k = 0; k < this.shape.length; k++) at = at * this.shape[k] + (index[k] ?? 0);
    return at;
  }

  /** @param {number[]} index @returns {number | string} */
  at(index) {
    return this.data[this.offset(index)];
  }

  /** The full index of entry (row, column) of a slice. @param {number} slice @param {number} row @param {number} column */
  index(slice, row, column) {
    const index = [];
    let rest = slice;
    for (let k = this.shape.length - 3; k >= 0; k--) {
      index.unshift(rest % this.shape[k]);
      rest = Math.floor(rest / this.shape[k]);
    }
    if (this.shape.length > 1) index.push(row);
    if (this.shape.length > 0) index.push(column);
    return index;
  }

  /** What an entry of an axis is called. @param {number} axis @param {number} k */
  label(axis, k) {
    return this.labels[axis]?.[k] ?? String(k);
  }

  /** Heads are counted from 1 and positions from 0, as the labels say. @param {number} slice */
  sliceName(slice) {
    const index = this.index(slice, 0, 0).slice(0, Math.max(0, this.shape.length - 2));
    return index.map((k, axis) => `${this.axes[axis]} = ${this.labels[axis]?.[k] ?? k + 1}`).join(", ");
  }

  /** @param {ArrayLike<number | string>} data */
  withData(data) {
    return new Value(this.member, this.shape, this.axes, this.labels, data, null, this.whole);
  }

  /** Decimals of the entries; NaN where an entry is text. */
  numbers() {
    return this.exact ? Float64Array.from(this.data, Number) : /** @type {ArrayLike<number>} */ (this.data);
  }
}

/** @param {string} base64 */
export function decode(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return new Float64Array(bytes.buffer);
}

/**
 * @param {string} member @param {Stored} stored
 * @param {PageData["tokens"]} tokens  labels may say "words" or "vocabulary" for those of the text
 */
export function restore(member, stored, tokens) {
  const data = typeof stored.data === "string" ? decode(stored.data) : stored.data;
  const labels = (stored.labels ?? []).map((label) =>
    label === "words" ? tokens.words : label === "vocabulary" ? tokens.vocabulary : /** @type {string[] | null} */ (label));
  return new Value(member, stored.shape, stored.axes ?? [], labels, data, stored.math ?? null, stored.whole);
}

/** Every value of a page: those of its data, those computed since, those asked for. */
export class Values {
  /** @param {PageData} data */
  constructor(data) {
    this.stored = data.values;
    this.tokens = data.tokens;
    /** @type {Map<string, Value>} */
    this.made = new Map();
    /** Computed anew since the page was written: stands before what the page carries. */
    /** @type {Record<string, Map<string, Value>> | null} by meaning */
    this.fresh = null;
    /** Members that a running model was asked for. @type {Set<string>} */
    this.asked = new Set();
    /** Counts changes as they begin and end: what was asked for in another turn is of another run. */
    this.turn = 0;
  }

  /** @param {string} member @param {string} meaning @returns {Value | null} */
  get(member, meaning) {
    // What was not computed again is shown no more: it belongs to another run.
    if (this.fresh) return this.fresh[meaning]?.get(member) ?? null;
    const key = `${meaning}\0${member}`;
    const known = this.made.get(key);
    if (known) return known;
    const stored = this.stored[meaning]?.[member];
    if (!stored || stored.more || stored.data === undefined) return null;
    const value = restore(member, stored, this.tokens);
    this.made.set(key, value);
    return value;
  }

  /** The value in a meaning, or else in the first that has it. @param {string} member @param {string} meaning */
  best(member, meaning) {
    const value = this.get(member, meaning);
    if (value) return value;
    for (const other of Object.keys(this.fresh ?? this.stored)) {
      const found = this.get(member, other);
      if (found) return found;
    }
    return null;
  }

  /** @param {string} member */
  leftOut(member) {
    return Object.values(this.stored).some((values) => values[member]?.more);
  }

  /** @param {Value} value @param {string} meaning */
  put(value, meaning) {
    if (!this.fresh) this.made.set(`${meaning}\0${value.member}`, value);
    else (this.fresh[meaning] ??= new Map()).set(value.member, value);
  }
}
