// Edits pages as a reader does, without a browser: standard input has [{data, edits}], page data and what is
// changed, after what was changed `before`, null for an undo; each gives the values that the page then shows, by member, and its equations as LaTeX.
import { readFileSync } from "node:fs";
import { Context } from "../../page/src/context.js";
import { createEdits } from "../../page/src/edits.js";
import { createEngine } from "../../page/src/engine.js";
import { createStore } from "../../page/src/store.js";
import { Values } from "../../page/src/values.js";

// Node imports no Blob.
globalThis.Blob = class { constructor([text]) { this.text = text; } };
URL.createObjectURL = ({ text }) => `data:text/javascript,${encodeURIComponent(text)}`;
URL.revokeObjectURL = () => {};

const spelled = (_, x) => (typeof x === "number" && !Number.isFinite(x) ? String(x) : x);

async function edited({ data, edits: { before = [], ...wanted } }) {
  const store = createStore({ meaning: "decimal", direction: "forward", step: 0, put: [], revision: 0, note: "" });
  const ctx = new Context(data, store, new Values(data), await createEngine({ get: () => null }, data), null);
  const edits = createEdits(ctx);
  if (wanted.put) edits.change({ put: wanted.put });
  for (const change of before) await (change ? edits.change(change) : edits.undo());
  if (wanted.train) {
    const trainer = await ctx.engine.train(edits.get());
    return { losses: Array.from({ length: wanted.train }, () => trainer.step(wanted.rate).loss) };
  }
  await edits.change(wanted);
  if (ctx.state.note !== "Everything was computed again") return { error: ctx.state.note };
  const values = {};
  for (const { member } of [...ctx.data.steps, ...ctx.data.backward]) {
    const value = ctx.value(member);
    values[member] = value && { shape: value.shape, data: Array.from(value.data) };
  }
  const equations = [...ctx.data.equations, ...ctx.data.backward_equations].map((e) => e.latex);
  return { values, equations };
}

const out = [];
for (const asked of JSON.parse(readFileSync(0, "utf8"))) out.push(await edited(asked));
process.stdout.write(JSON.stringify(out, spelled));
