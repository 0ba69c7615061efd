/** The equations as on paper: grouped by part, the current one marked, calls that open. */
import { copyButton } from "./copy.js";
import { button, el, own } from "./dom.js";
import { changedFormula, putFormula } from "./puts.js";
import { fit } from "./fit.js";
import { choices } from "./editing.js";
import { equationProgress, STATES } from "./progress.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./types.js").Equation} Equation */

/** @param {Context} ctx @param {import("./edits.js").EditsStore} edits */
export function equations(ctx, edits) {
  const holder = el("div", { class: "v-equations" });
  /** @type {Equation[] | null} */
  let drawn = null;
  /** @type {Map<number, HTMLElement>} */
  let rows = new Map();

  ctx.store.on((state) => {
    const backward = state.direction === "backward" && ctx.data.backward_equations?.length;
    const wanted = backward ? ctx.data.backward_equations ?? [] : ctx.data.equations;
    if (wanted !== drawn) {
      rows = new Map();
      const held = holder.contains(document.activeElement) ? document.activeElement?.getAttribute("data-choice") : null;
      holder.replaceChildren(...parts(ctx, edits, wanted, rows));
      if (held) /** @type {HTMLElement | null} */ (holder.querySelector(`[data-choice="${CSS.escape(held)}"]`))?.focus();
      drawn = wanted;
    }
    for (const [number, row] of rows) {
      const puts = state.put.filter((p) => p.key === row.dataset.defines);
      const put = puts.map((p) => p.equation).join(", ");
      if ((row.dataset.put ?? "") !== put) showPut(ctx, row, puts, put);
      const status = equationProgress(ctx.steps, state.step, number);
      const changed = row.dataset.status !== status;
      row.dataset.status = status;
      row.setAttribute("aria-current", status === "now" ? "step" : "false");
      if (changed && status === "now") reveal(row);
    }
  });
  return holder;
}

/** @param {Context} ctx @param {import("./edits.js").EditsStore} edits @param {Equation[]} wanted @param {Map<number, HTMLElement>} rows */
function parts(ctx, edits, wanted, rows) {
  const found = [];
  let part = null;
  let list = el("ol");
  for (const equation of wanted) {
    if (equation.part !== part) {
      part = equation.part;
      list = el("ol");
      found.push(el("h3", {}, part, loop(equation)), list);
    }
    const row = line(ctx, edits, equation);
    rows.set(equation.number, row);
    list.append(row);
  }
  if (!found.length) found.push(list);
  return found;
}

/** @param {Equation} equation */
function loop({ loop: over }) {
  return over ? el("small", {}, " for ", el("i", {}, over.letter), " = ", own(over.lower), " … ", own(over.upper)) : null;
}

/** @param {Context} ctx @param {import("./edits.js").EditsStore} edits @param {Equation} equation */
function line(ctx, edits, equation) {
  const formula = fit(own(equation.math, "div", { class: "formula" }));
  const opened = el("div", { class: "opened", hidden: true });
  const openers = calls(formula, equation, opened);
  const number = button(`Go to the step of equation ${equation.number}`, () => toStep(ctx, equation),
    { class: "number" }, String(equation.number));
  return el("li", { "data-number": equation.number, "data-defines": equation.key }, number, formula,
    el("div", { class: "tools" }, openers, copyButton(`Copy equation ${equation.number} as LaTeX`, "LaTeX", () => equation.latex, ctx)),
    equation.meaning ? own(equation.meaning, "p", { class: "meaning" }) : null, choices(ctx, edits, equation.number), opened);
}

/** In a loop: the step of the block at hand, or else the first. @param {Context} ctx @param {Equation} equation */
function toStep(ctx, equation) {
  const here = JSON.stringify(ctx.step?.block ?? {});
  const same = ctx.steps.findIndex((s) => s.equation === equation.number && JSON.stringify(s.block) === here);
  const step = same >= 0 ? same : ctx.steps.findIndex((s) => s.equation === equation.number);
  if (step >= 0) ctx.store.set({ step, looked: null, entry: null });
}

/**
 * A call of a named function opens its definition. Mathematics may hold no buttons: for the keyboard
 * each call has one beside the equation.
 * @param {HTMLElement} formula @param {Equation} equation @param {HTMLElement} opened
 */
function calls(formula, equation, opened) {
  /** @type {HTMLElement[]} */
  const found = [];
  for (const node of formula.querySelectorAll("[data-call]")) {
    const id = node.closest("[data-node]")?.getAttribute("data-node") ?? "";
    const definition = equation.opened?.[id];
    if (!definition) continue;
    const name = node.textContent ?? "";
    const toggle = () => {
      const open = opened.dataset.call === id && !opened.hidden;
      opened.hidden = open;
      opened.dataset.call = id;
      opener.setAttribute("aria-expanded", String(!open));
      if (!open) opened.replaceChildren(fit(own(definition, "div", { class: "formula" })));
    };
    const opener = button(name, toggle, { class: "copy", "aria-expanded": false, title: `The definition of ${name}` });
    node.addEventListener("click", toggle);
    node.classList.add("opens");
    found.push(opener);
  }
  return found;
}

/** What was put in: the equation is struck, and stands below as it is now. @param {Context} ctx @param {HTMLElement} row @param {import("./puts.js").Put[]} puts @param {string} put */
function showPut(ctx, row, puts, put) {
  row.dataset.put = put;
  row.querySelector(".put")?.remove();
  const formula = /** @type {HTMLElement} */ (row.querySelector(".formula"));
  formula.classList.toggle("struck", puts.length > 0);
  if (!puts.length) return;
  const now = changedFormula(ctx, formula, puts) ?? el("p", {}, "but ", puts.flatMap(({ equation }, k) => [k ? ", " : "", putFormula(ctx, equation)]));
  formula.after(el("ins", { class: "put", "aria-label": `Changed: ${put}` }, now));
  reveal(row);
}

/** Scrolls the pane, never the page; all that a step changes is laid out once for it. @param {Element} row */
export function reveal(row) {
  queueMicrotask(() => {
    const panes = [row.closest(".drawing"), row.closest(".pane-body")];
    const pane = panes.find((p) => p && p.scrollHeight > p.clientHeight + 1);
    if (!pane) return;
    const box = row.getBoundingClientRect();
    const frame = pane.getBoundingClientRect();
    if (box.top < frame.top + 8 || box.bottom > frame.bottom - 8) {
      pane.scrollTop += box.top - frame.top - frame.height / 2 + box.height / 2;
    }
  });
}

export { STATES };
