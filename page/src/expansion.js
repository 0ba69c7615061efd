/** The terms of an entry: computed here from the values at hand, or by a running model. */
import { own } from "./dom.js";
import { Reading } from "./operations.js";
import { Value } from "./values.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./types.js").Operation} Operation */
/** @typedef {import("./types.js").TermFamily} TermFamily */
/** @typedef {Map<string, number>} Letters  the place of each letter, from 0 */

/** @typedef {{terms: Term[], within: string, total?: number | null}} Terms  within: the function that they are the argument of */
/** @typedef {{svg: string | null, why: string, made?: Record<string, any>}} Graph  made: the terms of features, by their names */

/**
 * @typedef {object} Term
 * @property {string} label  where it comes from, as text: block 1, head 2
 * @property {string | null} math  MathML of what it is, beside its label
 * @property {string} formula  MathML
 * @property {number} value
 * @property {string} kind  term, constant, unopened
 * @property {(() => Promise<Terms>) | null} open  its own terms
 * @property {{equation: string, key: string} | null} off
 */

/** Whether an entry of a member opens into terms. @param {Context} ctx @param {string} member */
export function opens(ctx, member) {
  return !member.includes("#") && ctx.state.direction === "forward" && (ctx.engine.can.ask ? ctx.stepOf.has(member) : !!ctx.data.expansions?.members.includes(member));
}

/** @param {Context} ctx @param {string} member @param {number[]} at @returns {Promise<Terms>} */
export async function termsOf(ctx, member, at) {
  if (ctx.engine.can.ask) return asked(ctx, entryName(ctx, member, at));
  const { letters, ...found } = (await unpacked(ctx.data))[member];
  return inner(ctx, found, new Map(letters.map((letter, k) => [letter, at[k]])));
}

/**
 * The graph of an entry, by heads or by features, or why there is none.
 * @param {Context} ctx @param {string} member @param {number[]} at @param {boolean} features @returns {Promise<Graph>}
 */
export async function graphOf(ctx, member, at, features) {
  if (ctx.engine.can.ask) return graphOfText(ctx, entryName(ctx, member, at), features);
  if (ctx.values.fresh) return { svg: null, why: "This page stores the graphs of the run that it opened with. To draw them after changes, use viete explore … --serve" };
  const found = (await unpacked(ctx.data))[member].graphs?.find((graph) => graph.at.join() === at.join());
  const what = features ? "the feature graph of the largest logit at the last position" : "the graph of the largest logit at each position";
  return { svg: null, why: `This page stores ${what}. To draw the graph of any entry, use viete explore … --serve`, ...(features ? found?.features : found) };
}

/** The graph of an expression. @param {Context} ctx @param {string} of @param {boolean} features @returns {Promise<Graph>} */
export const graphOfText = async (ctx, of, features) =>
  ({ why: "None of the terms belongs to a block, so there is no graph.", ...(await ctx.engine.ask(features ? { kind: "arrows", of, into: "feature" } : { kind: "arrows", of })) });

/** What made a feature, by its name; known: what came with its graph. @param {Context} ctx @param {string} name @param {Record<string, any>} known @returns {Promise<Terms | null>} */
export async function madeOf(ctx, name, known) {
  const found = known[name] ?? (ctx.engine.can.ask ? await ctx.engine.ask({ kind: "made", of: name }) : null);
  if (!found) throw new Error(`This page does not store what made ${name}. To find it, use viete explore … --serve`);
  return { ...found, terms: found.terms.map((/** @type {any} */ t) => ({ ...t, open: t.opens ? () => madeOf(ctx, t.opens, known) : null })) };
}

/** @type {WeakMap<object, Promise<Record<string, {letters: string[], terms?: TermFamily[], within?: string, graphs?: {at: number[], svg: string, features?: {svg: string, made: Record<string, any>}}[]}>>>} */
const unpackedOf = new WeakMap();

/** @param {import("./types.js").PageData} data */
function unpacked({ expansions = { members: [], packed: "", off: [] } }) {
  let found = unpackedOf.get(expansions);
  if (!found) {
    const bytes = Uint8Array.from(atob(expansions.packed), (c) => c.charCodeAt(0));
    found = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
    unpackedOf.set(expansions, found);
  }
  return found;
}

/** The terms of families at letters. @param {Context} ctx @param {{terms?: TermFamily[], within?: string}} found @param {Letters} here @returns {Terms} */
const inner = (ctx, { terms = [], within = "" }, here) => ({ terms: terms.flatMap((family) => computed(ctx, family, here)), within });

/** An entry in the notation: x^2_{0,5}, and A^{1,2}_{3,0} of A^{1,h}. @param {Context} ctx @param {string} member @param {number[]} at */
export function entryName(ctx, member, at) {
  const value = ctx.values.best(member, "decimal");
  if (!value) return member;
  const heads = Math.max(0, value.shape.length - 2);
  const places = at.slice(heads);
  const name = at.slice(0, heads).reduce((text, k, axis) => withLetter(text, value.axes[axis], value.labels[axis]?.[k] ?? String(k + 1)), member);
  return places.length ? `(${name})_{${places.join(",")}}` : name;
}

/** A letter of a name as a number. @param {string} text @param {string} letter @param {string} at */
export const withLetter = (text, letter, at) =>
  text.replace(new RegExp(`(?<=[,{_^\\[ ])${letter.replace(/[^\w]/g, "\\$&")}(?=[,}\\]]|$| )`, "g"), at);

/** The terms of a family, one for each value of its letters. @param {Context} ctx @param {TermFamily} family @param {Letters} letters @returns {Term[]} */
function computed(ctx, family, letters) {
  const counts = family.letters.map(({ count, labels }) => (labels === "words" ? ctx.data.tokens.words.length : count));
  const size = counts.reduce((a, b) => a * b, 1);
  const read = reader(ctx, family.operations);
  return Array.from({ length: size }, (_, flat) => {
    const here = new Map(letters);
    let rest = flat;
    for (let k = counts.length - 1; k >= 0; k--) {
      here.set(family.letters[k].name, rest % counts[k]);
      rest = Math.floor(rest / counts[k]);
    }
    return term(ctx, family, here, read(here));
  });
}

/** @param {Context} ctx @param {TermFamily} family @param {Letters} here @param {number} value @returns {Term} */
function term(ctx, family, here, value) {
  const last = family.marks[family.marks.length - 1]?.[0];
  const named = !last || ["block", "query", "key"].includes(last);
  return {
    label: steps(ctx, family, here), math: named && family.label ? placed(family.label, family, here) : null,
    formula: placed(family.formula, family, here), value, kind: family.kind,
    open: family.terms?.length ? async () => inner(ctx, family, here) : null,
    off: family.off && { key: family.off.key, equation: family.off.at.reduce((text, letter) => withLetter(text, letter, String(numberOf(family, letter, here))), family.off.equation) },
  };
}

/** What a letter is: heads are counted from 1 and positions from 0. @param {TermFamily} family @param {string} letter @param {Letters} here */
function numberOf(family, letter, here) {
  const own = family.letters.find(({ name }) => name === letter);
  return (here.get(letter) ?? 0) + (own?.first ?? 0);
}

/** Block 3, head 2, source 0 “I”; a group of heads and a member of it are one head. @param {Context} ctx @param {TermFamily} family @param {Letters} here */
function steps(ctx, family, here) {
  const found = [];
  for (let k = 0; k < family.marks.length; k++) {
    const [word, letter, number] = family.marks[k];
    let at = number ?? numberOf(family, letter, here);
    const next = family.marks[k + 1];
    if (word === "head" && next?.[0] === "head") {
      at = (at - 1) * (family.letters.find(({ name }) => name === next[1])?.count ?? 1) + numberOf(family, next[1], here);
      k++;
    }
    const token = word === "source" ? ctx.data.tokens.words[at] : undefined;
    found.push(!letter ? word : token === undefined ? `${word} ${at}` : `${word} ${at} “${token}”`);
  }
  return found.join(", ");
}

/** MathML with the letters of a family as numbers. @param {string} markup @param {TermFamily} family @param {Letters} here */
function placed(markup, family, here) {
  const holder = own(markup);
  for (const node of holder.querySelectorAll("mi")) {
    const letter = node.textContent ?? "";
    if (here.has(letter) && !node.closest("[data-key]:not(msub, msup, msubsup)")) {
      const number = document.createElementNS("http://www.w3.org/1998/Math/MathML", "mn");
      number.textContent = String(numberOf(family, letter, here));
      node.replaceWith(number);
    }
  }
  return holder.innerHTML;
}

/** An operation's entries, each computed when it is read, and once. */
class Lazy extends Value {
  /** @param {number[]} shape @param {string[]} axes @param {(index: number[]) => number} entry */
  constructor(shape, axes, entry) {
    super("", shape, axes, shape.map(() => null), []);
    this.entry = entry;
    /** @type {Map<string, number>} */
    this.known = new Map();
  }

  /** @override @param {number[]} index */
  at(index) {
    const key = index.join();
    let x = this.known.get(key);
    if (x === undefined) this.known.set(key, (x = this.entry(index)));
    return x;
  }
}

/** Reads the last of some operations at letters. @param {Context} ctx @param {Operation[]} brief */
function reader(ctx, brief) {
  const operations = brief.map((o, id) => ({ ...o, id, value: `#${id}`, over: o.over ?? [] }));
  const step = /** @type {any} */ ({ operations });
  /** @type {Map<number, Lazy>} */
  const lazies = new Map();
  const names = new Set(operations.flatMap(({ operands }) => operands.flatMap(({ axes }) => axes)));
  const summed = new Set(operations.flatMap(({ over, along = [], at }) => [...over, ...along, ...(at ? [at] : [])]));
  for (const { operands } of [...operations].reverse()) { // an axis may have another letter where it is made
    for (const { value, axes } of operands) {
      if (typeof value !== "object" || value === null || !("operation" in value)) continue;
      axes.forEach((letter, k) => summed.has(letter) && summed.add(operations[value.operation].axes[k]));
    }
  }
  /** @param {string} member @param {Operation | null} inner @returns {Value} */
  const found = (member, inner) => {
    if (!inner) {
      const value = ctx.values.best(member, "decimal");
      if (!value) throw new Error(`This page does not store ${member}. To split the entry into terms, use viete explore … --serve`);
      return value;
    }
    let lazy = lazies.get(inner.id);
    if (!lazy) {
      const reading = new Reading(ctx, step, inner, found);
      // Letters that are given may have any place; of those that are summed the size is that of the values.
      const shape = inner.axes.map((letter) => (names.has(letter) && !summed.has(letter) ? Infinity : reading.size(letter)));
      lazy = new Lazy(shape, inner.axes, (index) => entryOf(reading.compute(index)));
      lazies.set(inner.id, lazy);
    }
    return lazy;
  };
  const last = new Reading(ctx, step, operations[operations.length - 1], found);
  return (/** @type {Letters} */ here) => entryOf(last.computeAt(here));
}

/** @param {number | null} x */
function entryOf(x) {
  if (x === null) throw new Error("This page cannot compute a part of this term. Use viete explore … --serve");
  return x;
}

/** @param {Context} ctx @param {string} of @returns {Promise<Terms>} */
export async function asked(ctx, of) {
  const { terms, within, total } = await ctx.engine.ask({ kind: "expand", of });
  return { within, total, terms: terms.map((/** @type {any} */ t) => ({ ...t, open: t.expression ? () => asked(ctx, t.expression) : null })) };
}
