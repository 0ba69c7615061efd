/** Questions to a running model, typed in the notation: an answer, its terms, or what an equation would change. */
import { el } from "./dom.js";
import { asked, graphOfText } from "./expansion.js";
import { heat } from "./heat.js";
import { matrix } from "./matrix.js";
import { arrows, expansion } from "./terms.js";
import { changedSymbol } from "./zeros.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./edits.js").EditsStore} EditsStore */

const KINDS = [
  { name: "ask", title: "Ask" }, { name: "expand", title: "Split into terms" }, { name: "put", title: "Replace by this equation" },
];
const MOST_CELLS = 200; // of a matrix of numbers; a larger one is a heat map
const MOST_SLICES = 12;

/** @param {Context} ctx @param {EditsStore} edits */
export function asking(ctx, edits) {
  if (!ctx.engine.can.ask) return null;
  const input = /** @type {HTMLInputElement} */ (el("input", { type: "text", spellcheck: "false", required: "", "aria-label": "A question or an equation in the notation" }));
  const answer = el("div", { class: "answer", "aria-live": "polite" });
  const form = el("form", {}, input, KINDS.map(({ name, title }) => el("button", { type: "submit", class: "again", value: name }, title)));
  ctx.store.on(({ entry }) => {
    // The entry that the reader looks at, unless they have written something else.
    if (entry && !entry.member.includes("#") && !input.dataset.own) input.value = `${entry.member}_{${entry.at.join(",")}}`;
  });
  input.addEventListener("input", () => {
    input.dataset.own = input.value;
  });
  let last = 0;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const kind = /** @type {HTMLButtonElement} */ (/** @type {SubmitEvent} */ (event).submitter)?.value ?? "ask";
    const mine = ++last;
    answer.replaceChildren(el("p", { class: "hint" }, "…"));
    const found = await answered(ctx, edits, kind, input.value).catch((error) =>
      el("p", { class: "error" }, error instanceof Error ? error.message : String(error)));
    if (mine === last) answer.replaceChildren(found); // an older answer that comes late is of another question
  });
  return el("details", { class: "v-asking" }, el("summary", {}, "Ask the model"), form, answer);
}

/** @param {Context} ctx @param {EditsStore} edits @param {string} kind @param {string} text @returns {Promise<Node>} */
async function answered(ctx, edits, kind, text) {
  if (kind === "put") {
    await edits.togglePut(text.trim(), changedSymbol(ctx.data, text));
    const there = ctx.state.put.some(({ equation }) => equation === text.trim());
    return el("p", { class: "hint" }, there ? "The equation is in place, and everything is computed again." : "The equation is taken out, and everything is computed again.");
  }
  if (kind === "expand") {
    const found = await asked(ctx, text);
    const box = el("div", {}, expansion(ctx, edits, found, found.total ?? NaN, text, new Set()));
    if (found.terms.some(({ label }) => label.startsWith("block"))) box.append(arrows(ctx, edits, found, (features) => graphOfText(ctx, text, features)));
    return box;
  }
  const { value, conventions } = await ctx.engine.ask({ kind, question: text });
  return el("div", {}, drawn(ctx, ctx.restore(text, value)), conventions.map((/** @type {string} */ c) => el("p", { class: "hint" }, c)));
}

/** An answer with the names of its rows and columns. @param {Context} ctx @param {import("./values.js").Value} value */
function drawn(ctx, value) {
  const picked = { entry: null, marked: () => false, name: value.member, pick: null };
  const few = value.rows * value.columns <= MOST_CELLS || value.exact;
  const shown = Math.min(value.slices, MOST_SLICES);
  return el("div", { class: "slices" }, Array.from({ length: shown }, (_, s) => el("div", { class: "slice" },
    value.slices > 1 ? el("p", { class: "slice-name" }, value.sliceName(s)) : null,
    el("div", { class: "scroll" }, few ? matrix(value, s, picked) : heat(value, s, picked, 360, 200)))),
  value.slices > shown ? el("p", { class: "hint" }, `${value.slices - shown} more are not drawn`) : null);
}
