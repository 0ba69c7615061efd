/** The page: one module with anywidget's contract, for the exported file, the server and the notebook. */
import { asking } from "./asking.js";
import { claims } from "./claims.js";
import { Context } from "./context.js";
import { diagram, legend } from "./diagram.js";
import { el, own, segmented } from "./dom.js";
import { constants, tokensBar, undo } from "./editing.js";
import { createEdits } from "./edits.js";
import { createEngine } from "./engine.js";
import { equations } from "./equations.js";
import { fit } from "./fit.js";
import { keyboard } from "./keyboard.js";
import { valuesPane } from "./panes.js";
import { pipeline } from "./pipeline.js";
import { changes } from "./puts.js";
import { references } from "./references.js";
import { register } from "./register.js";
import { createStore } from "./store.js";
import { story } from "./story.js";
import { inspector, listen, symbolTable } from "./symbols.js";
import { training } from "./training.js";
import { Values } from "./values.js";

/** @param {{model: import("./types.js").Model, el: HTMLElement}} handed */
async function render({ model, el: root }) {
  const data = /** @type {import("./types.js").PageData} */ (model.get("data"));
  const store = createStore({
    direction: "forward", step: 0, meaning: data.meanings[0]?.name ?? "decimal", looked: null,
    entry: null, symbol: null, views: {}, revision: 0, put: [], note: "",
  });
  const ctx = new Context(data, store, new Values(data), await createEngine(model, data), root);
  store.set({ step: ctx.ends.first });
  const edits = createEdits(ctx);
  const drawn = diagram(ctx);
  root.classList.add("viete-page");
  root.replaceChildren(
    header(ctx, edits),
    pipeline(ctx),
    el(root.parentElement === document.body ? "main" : "div", { class: "v-panes" },
      pane("equations", "Equations", equations(ctx, edits), symbolTable(ctx), claims(ctx), card(ctx)),
      el("div", { class: "pane story", role: "region", "aria-label": "This step" },
        el("div", { class: "pane-body", tabindex: "0" }, story(ctx, edits), training(ctx, edits), asking(ctx, edits))),
      drawn && pane("diagram", "Diagram", drawn),
      pane("values", "Values", valuesPane(ctx, edits)),
      pane("register", "All values", register(ctx))),
    inspector(ctx), note(ctx), inPlaceOf(model.get("saved")));
  listen(ctx);
  references(ctx);
  keyboard(ctx);
  performance.mark("viete:interactive");
}

/** A notebook also holds the page for when no kernel runs: hidden, as long as this one is there. @param {unknown} saved */
function inPlaceOf(saved) {
  return typeof saved === "string" && /^\w+$/.test(saved) ? el("style", {}, `[data-viete-saved="${saved}"] { display: none; }`) : "";
}

/** @param {string} name @param {string} title @param {...(Node | null)} children */
function pane(name, title, ...children) {
  return el("section", { class: `pane ${name}`, "aria-label": title },
    el("header", { class: "pane-head" }, el("h2", { class: "pane-title" }, title), name === "diagram" ? legend() : null),
    el("div", { class: "pane-body", tabindex: "0", role: "group", "aria-label": title }, children));
}

const ONLY_DECIMALS = "After a change this page computes decimals only. For exact numbers, undo the change or use viete explore --serve.";

/** Whether the numbers at hand are there in other meanings. @param {Context} ctx */
const exactAfter = ({ values }) => !values.fresh || Object.keys(values.fresh).length > 1;

/** @param {Context} ctx @param {import("./edits.js").EditsStore} edits */
function header(ctx, edits) {
  const holder = el("div", { class: "switches" });
  ctx.store.on((state, before) => {
    if (state !== before && state.meaning === before.meaning && state.direction === before.direction && state.revision === before.revision) return;
    const held = document.activeElement?.getAttribute("data-name");
    const inside = holder.contains(document.activeElement);
    holder.replaceChildren(...[
      ctx.data.backward.length ? segmented("Direction", [{ name: "forward", title: "Forward" }, { name: "backward", title: "Backward" }],
        state.direction, (direction) => ctx.store.set({ direction: /** @type {any} */ (direction), step: 0, looked: null, entry: null })) : null,
      ctx.data.meanings.length > 1 && exactAfter(ctx) ? segmented("Numbers", ctx.data.meanings, state.meaning, (meaning) => ctx.store.set({ meaning })) : null,
      ctx.data.meanings.length > 1 && !exactAfter(ctx) ? el("p", { class: "hint" }, ONLY_DECIMALS) : null,
    ].filter((x) => x !== null));
    if (inside && held) /** @type {HTMLElement | null} */ (holder.querySelector(`[data-name="${held}"]`))?.focus();
  });
  return el("header", { class: "v-header" }, el("h1", {}, ctx.data.title), tokensBar(ctx, edits), constants(ctx, edits), changes(ctx, edits), undo(ctx, edits), holder);
}

/** The whole card, to be read. @param {Context} ctx */
function card(ctx) {
  return ctx.data.document ? el("details", { class: "v-card" }, el("summary", {}, "The whole card"), read(ctx.data.document)) : null;
}

/** @param {string} document */
function read(document) {
  const page = own(document, "div", { class: "card" });
  page.querySelectorAll(".formula").forEach((formula) => fit(/** @type {HTMLElement} */ (formula)));
  return page;
}

/** @param {Context} ctx */
function note(ctx) {
  const line = el("p", { class: "v-note", role: "status" });
  let timer = 0;
  ctx.store.on((state, before) => {
    if (state === before || !state.note) return;
    line.textContent = state.note;
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      line.textContent = "";
      ctx.store.set({ note: "" });
    }, 4000);
  });
  return line;
}

export default { render };
