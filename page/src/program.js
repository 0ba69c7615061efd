/** The program that the page carries: the same equations as JavaScript, run here, and trained here. */
import { chosen, isPart, numbers } from "./choosing.js";
import { switchInputs } from "./switches.js";
import { restore, Value } from "./values.js";

/** @typedef {import("./engine.js").Engine} Engine */
/** @typedef {import("./engine.js").Edits} Edits */
/** @typedef {import("./types.js").PageData} PageData */
/** @typedef {{shape: number[], data: Float64Array} | number} Computed */

/** @param {PageData} page @param {Engine} base @returns {Promise<Partial<Engine>>} */
export async function programEngine(page, base) {
  if (!page.program) return {};
  const data = { ...page }; // as it was written, whatever the page shows since
  const module = await imported(page.program.source);
  const pattern = labelled(data);

  /** All parameters, those of the page and those that were changed. @param {Partial<Edits>} edits @returns {Record<string, Computed>} */
  const weights = (edits) => Object.fromEntries(pattern.parameters.map(({ key, value }) => {
    const numbers = Float64Array.from(edits.parameters?.[key] ?? value.numbers());
    return [key, value.shape.length ? { shape: value.shape, data: numbers } : numbers[0]];
  }));

  /** The shapes of the values of a text, by its length. @type {Map<number, Map<string, number[]>>} */
  const shapes = new Map();

  /** The switches that put to 0 what is switched off. @param {{put: string[]}} edits @param {number[]} ids */
  function switches({ put }, ids) {
    let known = shapes.get(ids.length);
    if (put.length && !known) {
      const open = numbers(data, {});
      const found = module.values(inputsOf(data, pattern.inputs, module, ids), module.renamed(weights({}), open), open);
      known = new Map(data.steps.map(({ member }) => [member, found[member]?.shape ?? []]));
      shapes.set(ids.length, known);
    }
    const words = ids.map((k) => wordOf(data, k));
    return switchInputs(data, put, (member) => pattern.value(member, blank(known?.get(member) ?? []), words));
  }

  /** @type {Engine["run"]} */
  async function run(edits) {
    const ids = edits.ids ?? data.tokens.ids;
    const open = numbers(data, edits.choices);
    const inputs = { ...inputsOf(data, pattern.inputs, module, ids), ...switches(edits, ids) };
    const found = module.values(inputs, module.renamed(weights(edits), open), open);
    const tokens = { ids, words: ids.map((k) => wordOf(data, k)) };
    /** @type {Map<string, Value>} */
    const values = new Map();
    const shown = [...data.steps, ...data.backward.filter((step) => !isPart(data, step))].map((step) => step.member);
    const every = { ...weights(edits), ...Object.fromEntries(shown.filter((m) => found[m] !== undefined).map((m) => [m, found[m]])), ...open };
    for (const [member, x] of Object.entries(every)) values.set(member, pattern.value(member, /** @type {Computed} */ (x), tokens.words));
    const input = data.tokens.input;
    if (input) values.set(input, pattern.value(input, { shape: [ids.length], data: Float64Array.from(ids) }, tokens.words));
    return { values: { decimal: values }, tokens, ...chosen(data, edits.choices) };
  }

  /** @type {NonNullable<Engine["train"]>} */
  async function train(edits) {
    const params = module.renamed(weights(edits), numbers(data, edits.choices));
    const state = {};
    let step = 0;
    return {
      step(rate, { ids, choices, put } = edits) {
        const inputs = (/** @type {number[]} */ text) => switches({ put }, text);
        const options = { steps: 1, rate, state, inputs };
        const { value } = module.train([ids ?? data.tokens.ids], params, options, numbers(data, choices)).next();
        const found = /** @type {Record<string, Computed>} */ (module.weights(params));
        const parameters = Object.fromEntries(Object.entries(found).map(([key, x]) =>
          [key, typeof x === "number" ? Float64Array.of(x) : Float64Array.from(x.data)]));
        return { step: ++step, loss: Number(value.loss), parameters };
      },
    };
  }
  const trains = !!module.train && page.program.trains; // towards a loss, and towards nothing else
  return { can: { ...base.can, edit: true, train: trains }, run, train: trains && data.tokens.ids.length > 1 ? train : null };
}

/** A module script is blocked from a file, a module of a Blob is not. @param {string} source @returns {Promise<any>} */
async function imported(source) {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    return await import(address);
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** @param {PageData} data @param {number} k */
function wordOf(data, k) {
  const known = data.tokens.ids.indexOf(k);
  return data.tokens.vocabulary?.[k] ?? (known >= 0 ? data.tokens.words[known] : String(k));
}

const NO_TARGET = -100;

/**
 * The inputs of another text: targets are the tokens one further, and what goes with one text of a
 * length is left out for others.
 * @param {PageData} data @param {Value[]} inputs @param {any} module @param {number[]} ids
 */
function inputsOf(data, inputs, module, ids) {
  const { input, targets, ids: { length } } = data.tokens;
  const others = inputs.filter(({ member }) => member !== input && member !== targets &&
    (ids.length === length || !data.values.decimal[member].labels?.includes("words")));
  return {
    ...Object.fromEntries(others.map((value) => [value.member, array(value)])),
    ...(targets ? { [targets]: [...ids.slice(1), NO_TARGET] } : {}),
    [input ?? module.INPUTS[0]]: ids,
  };
}

/** @param {number[]} shape @returns {Computed} */
const blank = (shape) => ({ shape, data: new Float64Array(shape.reduce((a, b) => a * b, 1)) });

/** @param {Value} value */
const array = (value) => (value.shape.length ? { shape: value.shape, data: Float64Array.from(value.numbers()) } : Number(value.data[0]));

/** What is known of members from the values of the page: axes and labels, which an array alone has not. @param {PageData} data */
function labelled(data) {
  const stored = data.values.decimal ?? {};
  const value = (/** @type {string} */ member, /** @type {Computed} */ x, /** @type {string[]} */ words) => {
    const array = typeof x === "number" ? { shape: [], data: Float64Array.of(x) } : x;
    const labels = (stored[member]?.labels ?? array.shape.map(() => null)).map((label) =>
      label === "words" ? words : label === "vocabulary" ? data.tokens.vocabulary : /** @type {string[] | null} */ (label));
    return new Value(member, array.shape, stored[member]?.axes ?? array.shape.map(() => ""), labels, array.data, null, stored[member]?.whole);
  };
  const inputs = Object.keys(stored).filter((key) => data.symbols[key]?.kind === "input" && stored[key].data !== undefined);
  const parameters = Object.keys(data.program?.parameters ?? {}).map((key) => ({ key, value: restored(key, stored[key], data) }));
  return { value, parameters, inputs: inputs.map((key) => restored(key, stored[key], data)) };
}

/** @param {string} key @param {any} stored @param {PageData} data */
const restored = (key, stored, data) => restore(key, stored, data.tokens);
