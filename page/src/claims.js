/** What is claimed of the model, with its check: proved, measured to hold, or false and where. */
import { el, own } from "./dom.js";
import { fit } from "./fit.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./types.js").Verdict} Verdict */

/** @param {Context} ctx */
export function claims(ctx) {
  const found = ctx.data.claims;
  if (!found && !ctx.engine.can.ask) return null;
  const wrong = found?.verdicts.filter(({ ok }) => !ok).length ?? 0;
  const stale = el("p", { class: "hint", hidden: true }, "These claims were checked before your changes, in the run that the page opened with.");
  ctx.store.on(() => {
    stale.hidden = !ctx.values.fresh || !found?.verdicts.length;
  });
  return el("details", { class: "v-claims" },
    el("summary", {}, "Claims", el("small", {}, found?.verdicts.length ? ` ${found.verdicts.length}${wrong ? `, ${wrong} do not hold` : ", all hold"}` : "")),
    stale, found ? verdicts(found) : null, ctx.engine.can.ask ? field(ctx) : null);
}

/** @param {{verdicts: Verdict[], notes: string[]}} found */
export function verdicts({ verdicts: all, notes }) {
  return el("div", {}, el("ul", { class: "verdicts" }, all.map((v) => el("li", {},
    el("b", { class: v.ok ? "true" : "false" }, v.word),
    el("div", {}, fit(own(v.math, v.refuted ? "del" : "span", { class: "claim" })), v.meaning ? own(v.meaning, "p") : null, el("p", { class: "hint" }, v.found)),
  ))), notes.map((note) => el("p", { class: "hint" }, note)));
}

/** A reader's own claim, checked by the running model. @param {Context} ctx */
function field(ctx) {
  const input = /** @type {HTMLInputElement} */ (el("input", { type: "text", spellcheck: "false", required: "", "aria-label": "A claim in the notation", placeholder: "sum(A^{i,h}) = 1" }));
  const answer = el("div", { class: "answer", "aria-live": "polite" });
  const form = el("form", {}, input, el("button", { type: "submit", class: "again" }, "Check"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    answer.replaceChildren(el("p", { class: "hint" }, "…"));
    try {
      answer.replaceChildren(verdicts(await ctx.engine.ask({ kind: "check", claim: input.value })));
    } catch (error) {
      answer.replaceChildren(el("p", { class: "error" }, error instanceof Error ? error.message : String(error)));
    }
  });
  return el("div", { class: "v-asking" }, form, answer);
}
