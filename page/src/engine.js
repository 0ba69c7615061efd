/**
 * Who computes: nobody (the values of the page are all there is), the program that the page carries,
 * or a running model that answers messages (a server, a notebook's kernel).
 *
 * @typedef {object} Edits
 * @property {number[] | null} ids  tokens, where they were changed
 * @property {string | null} text
 * @property {Record<string, ArrayLike<number>>} parameters  those that were changed
 * @property {Record<string, any>} choices  those that were changed
 * @property {string[]} put  equations put in, as in `--put`
 *
 * @typedef {object} Computed
 * @property {Record<string, Map<string, Value>>} values  by meaning
 * @property {{ids: number[], words: string[]} | null} tokens
 * @property {import("./types.js").Step[]} [steps]
 * @property {import("./types.js").Step[]} [backward]
 * @property {import("./types.js").Equation[]} [equations]
 * @property {import("./types.js").Equation[]} [backward_equations]
 *
 * @typedef {object} Engine
 * @property {{edit: boolean, put: boolean, train: boolean, values: boolean, ask: boolean}} can
 * @property {(edits: Edits) => Promise<Computed>} run
 * @property {() => Promise<null>} restart  back to the run of the page
 * @property {(member: string, meaning: string) => Promise<Value>} value
 * @property {(message: any) => Promise<any>} ask  expand, check: answered by a running model
 * @property {((edits: Edits) => Promise<Trainer>) | null} train
 *
 * @typedef {object} Trainer
 * @property {(rate: number, now?: Edits) => {step: number, loss: number, parameters: Record<string, Float64Array>}} step
 */
import { programEngine } from "./program.js";
import { restore } from "./values.js";

/** @typedef {import("./values.js").Value} Value */

/** @typedef {import("./types.js").Model} Model */
/** @typedef {import("./types.js").PageData} PageData */

/** @param {Model} model @param {PageData} data @returns {Promise<Engine>} */
export async function createEngine(model, data) {
  const base = data.server ? messageEngine(posted(data.server), data) : model.get("live") ? messageEngine(heard(model), data) : staticEngine();
  const own = data.program ? await programEngine(data, base) : {};
  return base.can.ask ? { ...base, ...own, run: base.run, restart: base.restart } : { ...base, ...own }; // a running model has every value
}

/** @returns {Engine} */
function staticEngine() {
  const refuse = async () => {
    throw new Error("This page can show values but not compute new ones. Open it with viete explore --serve to compute more.");
  };
  return { can: { edit: false, put: false, train: false, values: false, ask: false }, run: refuse, restart: async () => null, value: refuse, ask: refuse, train: null };
}

/** A notebook's kernel: every message has a number, and the answer brings it back. @param {Model} model */
function heard(model) {
  /** @type {Map<number, (answer: any) => void>} */
  const waiting = new Map();
  let last = 0;
  model.on?.("msg:custom", (answer) => {
    waiting.get(answer.id)?.(answer);
    waiting.delete(answer.id);
  });
  return (/** @type {any} */ message) => new Promise((/** @type {(answer: any) => void} */ resolve) => {
    const id = ++last;
    waiting.set(id, resolve);
    model.send?.({ id, ...message });
  });
}

/** A server on this machine. @param {{address: string, token: string}} server */
function posted({ token }) {
  return async (/** @type {any} */ message) => {
    const asked = {
      method: "POST", body: JSON.stringify(message),
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
    };
    const response = await fetch("message", asked).catch(() => {
      throw new Error("The server does not answer. Is viete explore still running?");
    });
    return response.json();
  };
}

/** @param {(message: any) => Promise<any>} send @param {PageData} data @returns {Engine} */
function messageEngine(send, data) {
  /** What was changed in the run that the page shows: every question brings it along. @type {any} */
  let run = {};
  /** @param {any} message */
  const ask = async (message) => {
    const answer = await send(message.kind === "run" ? message : { run, ...message });
    if (answer.error) throw new Error(answer.error);
    return answer;
  };
  return {
    can: { edit: true, put: true, train: false, values: true, ask: true },
    ask,
    train: null,
    async run(edits) {
      const parameters = Object.fromEntries(Object.entries(edits.parameters).map(([key, x]) => [key, Array.from(x)]));
      const changes = { tokens: edits.ids, text: edits.text, parameters, choices: edits.choices, put: edits.put };
      const answer = await ask({ kind: "run", ...changes });
      run = changes;
      const { tokens, values, steps, backward, equations, backward_equations } = answer;
      const restored = Object.entries(/** @type {Record<string, Record<string, import("./types.js").Stored>>} */ (values)).map(
        ([meaning, stored]) => [meaning, new Map(Object.entries(stored).map(([m, s]) => [m, restore(m, s, tokens)]))]);
      return { values: Object.fromEntries(restored), tokens, steps, backward, equations, backward_equations };
    },
    async restart() {
      run = {};
      return null;
    },
    async value(member, meaning) {
      return restore(member, (await ask({ kind: "value", member, meaning })).value, data.tokens);
    },
  };
}
