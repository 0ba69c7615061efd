/** Questions to a running model: a logit opens into its terms, a claim shows its check. */
import { el, own } from "./dom.js";
import { short } from "./numbers.js";

/** @typedef {import("./context.js").Context} Context */

const KINDS = [
  { name: "block", title: "Expand into blocks" }, { name: "head", title: "Expand into heads" },
  { name: "ask", title: "Ask" }, { name: "check", title: "Check a claim" },
];

/** @param {Context} ctx */
export function asking(ctx) {
  if (!ctx.engine.can.ask) return null;
  const input = /** @type {HTMLInputElement} */ (el("input", { type: "text", spellcheck: "false", "aria-label": "An expression or a claim in the notation" }));
  const answer = el("div", { class: "answer", "aria-live": "polite" });
  const form = el("form", {}, input, KINDS.map(({ name, title }) => el("button", { type: "submit", class: "again", value: name }, title)));
  ctx.store.on(({ entry }) => {
    // The entry that the reader looks at, unless they have written something else.
    if (entry && !entry.member.includes("#") && !input.dataset.own) input.value = `${entry.member}_{${entry.at.join(",")}}`;
  });
  input.addEventListener("input", () => {
    input.dataset.own = input.value;
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const kind = /** @type {HTMLButtonElement} */ (/** @type {SubmitEvent} */ (event).submitter)?.value ?? "ask";
    answer.replaceChildren(el("p", { class: "hint" }, "…"));
    try {
      answer.replaceChildren(await answered(ctx, kind, input.value));
    } catch (error) {
      answer.replaceChildren(el("p", { class: "error" }, error instanceof Error ? error.message : String(error)));
    }
  });
  return el("details", { class: "v-asking" }, el("summary", {}, "Ask the model"), form, answer);
}

/** @param {Context} ctx @param {string} kind @param {string} text */
async function answered(ctx, kind, text) {
  if (kind === "check") {
    const { verdicts, notes } = await ctx.engine.ask({ kind, claim: text });
    return el("ul", {}, verdicts.map((/** @type {any} */ v) => el("li", {}, el("b", { class: v.ok ? "true" : "false" }, v.word), ` ${v.claim} `, el("span", { class: "hint" }, String(v.found ?? "")))),
      (notes ?? []).map((/** @type {any} */ n) => el("li", { class: "hint" }, String(n))));
  }
  if (kind === "ask") {
    const { value, conventions } = await ctx.engine.ask({ kind, question: text });
    const numbers = ctx.restore(text, value);
    return el("div", {}, el("p", {}, Array.from({ length: Math.min(numbers.size, 64) }, (_, k) => short(numbers.data[k])).join(", ")),
      conventions.map((/** @type {string} */ c) => el("p", { class: "hint" }, c)));
  }
  const { terms } = await ctx.engine.ask({ kind: "expand", of: text, into: kind });
  return expansion(terms);
}

/** The terms as bars about zero, largest first as they come. @param {{math: string, value: number}[]} terms */
function expansion(terms) {
  const most = Math.max(...terms.map(({ value }) => Math.abs(value)), 1e-300);
  return el("table", { class: "terms" }, el("tbody", {}, terms.map(({ math, value }) => {
    const bar = el("i", { class: value < 0 ? "negative" : "positive" });
    bar.style.setProperty("--share", String(Math.abs(value) / most));
    return el("tr", {}, el("th", { scope: "row" }, own(math)), el("td", { class: "bar" }, bar), el("td", { class: "share" }, short(value)));
  })));
}
