// Runs exported modules: standard input has [{module, weights, inputs, given}], and each gives its
// output, loss, gradients and values, as {name: {shape, data}}, or the error that was thrown.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const spelled = (_, x) => (typeof x === "number" && !Number.isFinite(x) ? String(x) : x);
const listed = (x) => (typeof x === "number" ? { shape: [], data: [x] } : { shape: x.shape, data: Array.from(x.data) });
const all = (named) => Object.fromEntries(Object.entries(named).map(([k, x]) => [k, listed(x)]));
const array = ({ shape, data }) => (shape.length ? { shape, data: Float64Array.from(data) } : data[0]);

const out = [];
for (const { module, weights, inputs, given } of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    const m = await import(pathToFileURL(module));
    const named = Object.fromEntries(Object.entries(weights).map(([k, x]) => [k, array(x)]));
    const params = m.renamed(named, given);
    const args = [...m.INPUTS.map((name) => inputs[name]), params, given];
    const [output, loss, kept] = m.forward(...args);
    const grads = m.backward && loss !== null ? m.weights(m.backward(kept, ...args)) : {};
    out.push({ output: listed(output), loss, grads: all(grads), values: all(m.values(inputs, params, given)) });
  } catch (error) {
    out.push({ error: error.message });
  }
}
process.stdout.write(JSON.stringify(out, spelled));
