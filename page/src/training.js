/** Training before one's eyes: Adam on the text of the page, the loss as a curve, the values moving. */
import { button, el, svg } from "./dom.js";
import { short } from "./numbers.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./edits.js").EditsStore} EditsStore */
/** @typedef {import("./engine.js").Trainer} Trainer */

const FRAME = 12; // milliseconds of training between two drawings
const POINTS = 400;
const STEP = "Each step is one step of Adam on this text (β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸). A weight moves against the running mean " +
  "of its gradient, divided by the square root of the running mean of the squared gradient. Both means are bias-corrected.";

/** @param {Context} ctx @param {EditsStore} edits */
export function training(ctx, edits) {
  if (!ctx.engine.train) return null;
  const begin = ctx.engine.train;
  /** @type {Trainer | null} */
  let trainer = null;
  /** @type {import("./engine.js").Edits["parameters"]} the weights that the trainer made */
  let trained = {};
  let running = false;
  let loop = 0; // of several the last goes on
  /** @type {{step: number, loss: number}[]} */
  let losses = [];
  const rate = /** @type {HTMLInputElement} */ (el("input", { type: "number", step: "any", min: "0", value: "0.05" }));
  const said = el("output", {}, "");
  const curve = el("div", { class: "curve" });
  const play = button("Train", toggle, { class: "play" });
  const again = button("Start again", restart, { class: "again" });

  async function toggle() {
    running = !running;
    play.textContent = running ? "Pause" : "Train";
    const mine = ++loop;
    if (running) requestAnimationFrame(() => frame(mine));
  }

  function pause() {
    running = false;
    play.textContent = "Train";
  }

  /** The trainer of the weights at hand: where others than its own are there, it begins anew from them. */
  async function current() {
    const now = edits.get();
    if (ctx.data.tokens.ids.length < 2) throw new Error("Training needs at least two tokens.");
    if (trainer && now.parameters === trained) return trainer;
    losses = [];
    trained = now.parameters;
    trainer = await begin(now);
    return trainer;
  }

  function restart() {
    pause();
    trainer = null;
    losses = [];
    said.textContent = "";
    curve.replaceChildren();
    edits.undo();
  }

  /** @param {number} mine */
  async function frame(mine) {
    if (!running || mine !== loop) return;
    try {
      await steps(await current());
    } catch (error) {
      pause();
      ctx.tell(error instanceof Error ? error.message : String(error));
    }
    if (running) requestAnimationFrame(() => frame(mine));
  }

  /** @param {Trainer} now */
  async function steps(now) {
    const end = performance.now() + FRAME;
    let last;
    do {
      last = now.step(Number(rate.value), edits.get());
      if (!Number.isFinite(last.loss)) throw new Error(`The loss of step ${last.step} is not a finite number. Start again with a smaller learning rate.`);
      losses.push({ step: last.step, loss: last.loss });
    } while (performance.now() < end);
    if (losses.length > 2 * POINTS) losses = losses.filter((_, k) => k % 2 === 0 || k === losses.length - 1);
    said.textContent = `step ${last.step}: loss ${short(last.loss)}`;
    curve.replaceChildren(plot(losses));
    await edits.change({ parameters: { ...edits.get().parameters, ...last.parameters } });
    trained = edits.get().parameters;
  }

  return el("details", { class: "v-training" }, el("summary", {}, "Train this model"),
    el("p", { class: "hint" }, STEP),
    el("p", { class: "controls" }, play, again, el("label", {}, "learning rate ", rate), said), curve);
}

/** The loss over the steps, the loss on a logarithmic axis. @param {{step: number, loss: number}[]} losses */
export function plot(losses) {
  const [wide, high, left, low] = [360, 120, 44, 18];
  const logs = losses.map(({ loss }) => Math.log10(Math.max(loss, 1e-12)));
  const [most, least] = [Math.max(...logs), Math.min(...logs)];
  const last = Math.max(losses[losses.length - 1].step, 1);
  const x = (/** @type {number} */ step) => left + ((wide - left - 6) * step) / last;
  const y = (/** @type {number} */ log) => 8 + (high - low - 8) * (most === least ? 0.5 : (most - log) / (most - least));
  const line = losses.map(({ step }, k) => `${k ? "L" : "M"}${x(step).toFixed(1)},${y(logs[k]).toFixed(1)}`).join("");
  return svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `Loss over ${last} steps: from ${short(losses[0].loss)} to ${short(losses[losses.length - 1].loss)}` },
    svg("path", { class: "axis", d: `M${left},4V${high - low}H${wide}` }), svg("path", { class: "loss", d: line }),
    svg("text", { x: left - 6, y: y(most) + 4, "text-anchor": "end" }, short(10 ** most)),
    most === least ? null : svg("text", { x: left - 6, y: y(least) + 4, "text-anchor": "end" }, short(10 ** least)),
    svg("text", { x: left, y: high - 4 }, "step 1"), svg("text", { x: wide - 4, y: high - 4, "text-anchor": "end" }, String(last)));
}
