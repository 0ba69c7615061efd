// Runs exported modules: standard input has [{module, weights, inputs, given, seed, train, loops}], and each
// gives its output, loss, gradients and values, as {name: {shape, data}}, or the error that was thrown.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const spelled = (_, x) => (typeof x === "number" && !Number.isFinite(x) ? String(x) : x);
const read = (_, x) => (["NaN", "Infinity", "-Infinity"].includes(x) ? Number(x) : x);
const listed = (x) => (typeof x === "number" ? { shape: [], data: [x] } : { shape: x.shape, data: Array.from(x.data) });
const all = (named) => Object.fromEntries(Object.entries(named).map(([k, x]) => [k, listed(x)]));
const array = ({ shape, data }) => (shape.length ? { shape, data: Float64Array.from(data, Number) } : Number(data[0]));

function outcome(m, { weights, inputs, given, seed, train }) {
  const named = Object.fromEntries(Object.entries(weights).map(([k, x]) => [k, array(x)]));
  const params = m.renamed(named, given);
  if (train) {
    const losses = Array.from(m.train(train, params, { steps: 3 }), (step) => step.loss);
    return { losses, learned: all(m.weights(params)) };
  }
  if (seed !== undefined) return { initial: all(m.weights(m.initial(seed, given))) };
  const args = [...m.INPUTS.map((name) => inputs[name]), params, given];
  const [output, loss, kept] = m.forward(...args);
  const grads = m.backward && loss !== null ? m.weights(m.backward(kept, ...args)) : {};
  return { output: listed(output), loss, grads: all(grads), values: all(m.values(inputs, params, given)) };
}

const out = [];
for (const { module, ...asked } of JSON.parse(readFileSync(0, "utf8"), read)) {
  if (asked.loops) globalThis.WebAssembly = undefined;
  const m = await import(pathToFileURL(module));
  try {
    out.push(outcome(m, asked));
  } catch (error) {
    out.push({ error: error.message });
  }
}
process.stdout.write(JSON.stringify(out, spelled));
