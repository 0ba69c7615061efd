/** Choices of equations, a temperature or a mask: what the page shows where they are not as in the card. */

/** @typedef {import("./types.js").PageData} PageData */
/** @typedef {import("./types.js").Choice} Choice */
/** @typedef {import("./types.js").Step} Step */
/** @typedef {import("./types.js").Variant} Variant */
/** @typedef {Record<string, number | boolean>} Choices */

/** The numbers of the program by their names there: a mask is 1 or 0. @param {PageData} data @param {Choices} choices */
export const numbers = (data, choices) =>
  Object.fromEntries(data.choices.map(({ key, name, value }) => [key, Number(choices[name] ?? value)]));

/**
 * The equations and steps with these choices, the numbers of temperatures put in.
 * @param {PageData} data  as the page has it @param {Choices} choices
 */
export function chosen(data, choices) {
  const changed = data.choices.filter((c) => c.equation !== undefined && (choices[c.name] ?? c.value) !== c.value);
  const found = covering(data.program?.variants ?? [], changed.map((c) => c.name));
  const parts = { equations: data.equations, backward_equations: data.backward_equations ?? [], steps: data.steps, backward: data.backward };
  const page = [...parts.equations, ...parts.backward_equations].map((e) => e.number);
  for (const variant of found) {
    const put = filled(variant, changed, choices);
    const order = variant.order ?? page;
    const gone = new Set(page.filter((number) => !order.includes(number)));
    parts.equations = merged(parts.equations, put.equations, order, gone, (e) => e.number, alone);
    parts.steps = merged(parts.steps, put.steps, order, gone, (s) => s.equation, turn);
    parts.backward_equations = merged(parts.backward_equations, put.backward_equations, order, gone, (e) => e.number, alone);
    parts.backward = merged(parts.backward, put.backward, order, gone, (s) => s.equation, turn);
  }
  return parts;
}

/** @param {number} equation */
const alone = (equation) => String(equation);

/** What tells steps of one equation apart. @param {number} equation @param {Step} [step] */
const turn = (equation, step) => `${equation} ${JSON.stringify(step?.block)}`;

/** The variants that together have these choices, those of most choices first. @param {Variant[]} variants @param {string[]} names */
function covering(variants, names) {
  const found = [];
  let left = names;
  for (const variant of [...variants].sort((a, b) => b.choices.length - a.choices.length)) {
    if (!variant.choices.every((name) => left.includes(name))) continue;
    found.push(variant);
    left = left.filter((name) => !variant.choices.includes(name));
  }
  return found;
}

/** The variant with the numbers that were chosen. @param {Variant} variant @param {Choice[]} changed @param {Choices} choices @returns {Variant} */
function filled(variant, changed, choices) {
  let text = JSON.stringify(variant);
  for (const { math = "", latex = "", name, value } of changed) {
    if (typeof value === "boolean") continue;
    const inner = /<math[^>]*>([^]*)<\/math>/.exec(math)?.[1] ?? "";
    const x = String(choices[name]);
    for (const formula of [inner, inner.replace(/ data-key="[^"]*"/, "")]) // words about a step link nothing
      if (formula) text = text.replaceAll(JSON.stringify(formula).slice(1, -1), `<mn>${x}</mn>`);
    if (latex) text = text.replaceAll(JSON.stringify(latex).slice(1, -1), x);
  }
  return JSON.parse(text);
}

/**
 * The parts with those of a variant in their places; a new one stands behind the part before it in
 * the ``order`` of all equations, in the same turn of its loop.
 * @template T @param {T[]} old @param {T[]} put @param {number[]} order
 * @param {Set<number>} gone  equations that are no more
 * @param {(x: T) => number} number @param {(equation: number, x?: any) => string} key
 */
function merged(old, put, order, gone, number, key) {
  const by = new Map(put.map((x) => [key(number(x), x), x]));
  const out = old.filter((x) => !gone.has(number(x))).map((x) => by.get(key(number(x), x)) ?? x);
  for (const x of put) {
    if (old.some((y) => key(number(y), y) === key(number(x), x))) continue;
    let at = -1;
    for (let k = order.indexOf(number(x)) - 1; k >= 0 && at < 0; k--) at = out.findIndex((y) => key(number(y), y) === key(order[k], x));
    out.splice(at < 0 ? out.length : at + 1, 0, x);
  }
  return out;
}

/** Whether a step of the backward pass makes a part of derivatives, whose name may mean another part elsewhere. @param {PageData} data @param {Step} step */
export function isPart(data, step) {
  if (!data.backward.includes(step)) return false;
  const of = step.of?.split("#")[0];
  if (of === undefined) return /^Backward(:|$)/.test(data.backward_equations?.find((e) => e.number === step.equation)?.part ?? "");
  return data.backward.some((other) => other.member === of);
}
