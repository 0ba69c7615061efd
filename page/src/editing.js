/** The fields in which a reader changes the text, an entry of a weight, or a choice of an equation. */
import { button, el, own } from "./dom.js";
import { goOn } from "./generation.js";
import { full } from "./numbers.js";
import { read, spelled } from "./spelling.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./edits.js").EditsStore} EditsStore */

/** The tokens, as tiles and, where somebody computes, as a field. @param {Context} ctx @param {EditsStore} edits */
export function tokensBar(ctx, edits) {
  if (!ctx.data.tokens.input) return null; // a card of numbers alone
  const tiles = el("ol", { class: "tokens", tabindex: "0", "aria-label": "Tokens of the text" });
  const box = el("div", { class: "v-tokens" }, tiles);
  if (ctx.engine.can.edit) box.append(field(ctx, edits));
  ctx.store.on((state, before) => {
    if (state !== before && state.revision === before.revision) return;
    const { words, ids } = ctx.data.tokens;
    tiles.replaceChildren(...words.map((word, k) => el("li", { title: `position ${k}` }, el("b", {}, word), word === String(ids[k]) ? null : el("small", {}, ids[k]))));
  });
  return box;
}

/** @param {Context} ctx @param {EditsStore} edits */
function field(ctx, edits) {
  const { vocabulary, words, ids, text } = ctx.data.tokens;
  if (text && ctx.engine.can.ask) return textField(ctx, edits, words.join(""), (said) => edits.change({ ids: null, text: said }));
  const names = vocabulary && spelled(vocabulary);
  const line = (/** @type {number[]} */ numbers) => numbers.map((k) => names?.[k] ?? k).join(" ");
  const input = /** @type {HTMLInputElement} */ (el("input", {
    type: "text", "aria-label": names ? "Words of the text, with spaces between" : "Token numbers, with spaces between",
    value: line(ids), spellcheck: "false", autocomplete: "off",
  }));
  const form = el("form", { class: "edit-tokens" }, input, el("button", { type: "submit" }, "Run"), goOn(ctx, edits));
  ctx.store.on((state, before) => {
    if (state.revision !== before.revision && document.activeElement !== input) input.value = line(ctx.data.tokens.ids);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { ids: next, wrong } = read(input.value, names);
    if (!next.length) ctx.tell("Write at least one token.");
    else if (wrong !== undefined) ctx.tell(`“${wrong}” is not a token of this model${names ? `: its vocabulary is ${names.slice(0, 12).join(" ")}${names.length > 12 ? " …" : ""}${names.some((name) => name.includes("␣")) ? ", where ␣ is a space within a token" : ""}` : ""}.`);
    else edits.change({ ids: next, text: input.value });
  });
  return form;
}

/** The field of a running model that makes tokens of any text. @param {Context} ctx @param {EditsStore} edits @param {string} now @param {(text: string) => void} run */
function textField(ctx, edits, now, run) {
  const input = /** @type {HTMLInputElement} */ (el("input", {
    type: "text", "aria-label": "Another text", placeholder: now, required: "", spellcheck: "false", autocomplete: "off",
  }));
  const form = el("form", { class: "edit-tokens" }, input, el("button", { type: "submit" }, "Run"), goOn(ctx, edits));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(input.value);
  });
  return form;
}

/** The field below the explanation of a parameter's entry. @param {Context} ctx @param {EditsStore} edits @param {{member: string, at: number[]}} entry */
export function entryField(ctx, edits, { member, at }) {
  const kind = ctx.data.symbols[member]?.kind;
  const value = ctx.values.best(member, "decimal");
  if (kind !== "parameter" || !value || !ctx.engine.can.edit) return null;
  const offset = value.offset(at);
  const now = edits.get().parameters[member]?.[offset] ?? value.at(at);
  const input = /** @type {HTMLInputElement} */ (el("input", { type: "number", step: "any", value: full(now) }));
  input.addEventListener("change", () => {
    const x = input.valueAsNumber;
    if (Number.isFinite(x)) edits.setEntry(member, offset, x);
    else ctx.tell("Write a number.");
  });
  return el("label", { class: "field" }, "Change it to ", input);
}

/** The numbers of the card that are no sizes, such as ε. @param {Context} ctx @param {EditsStore} edits */
export function constants(ctx, edits) {
  const holder = el("div");
  ctx.store.on((state, before) => {
    if (state !== before && (state.revision === before.revision || holder.contains(document.activeElement))) return;
    holder.replaceChildren(group(ctx, edits, ctx.data.choices.filter((c) => c.equation === undefined), "Dimensions and constants") ?? "");
  });
  return holder;
}

/** What may be chosen in one equation: its temperature, its mask. @param {Context} ctx @param {EditsStore} edits @param {number} number */
export function choices(ctx, edits, number) {
  return group(ctx, edits, ctx.data.choices.filter((c) => c.equation === number), `Choices of equation ${number}`);
}

/** @param {Context} ctx @param {EditsStore} edits @param {import("./types.js").Choice[]} found @param {string} name */
function group(ctx, edits, found, name) {
  if (!ctx.engine.can.edit || !found.length) return null;
  return el("div", { class: "v-choices", role: "group", "aria-label": name }, found.map((choice) => choiceField(ctx, edits, choice)));
}

/** @param {Context} ctx @param {EditsStore} edits @param {import("./types.js").Choice} choice */
function choiceField(ctx, edits, choice) {
  const { name, kind, equation, value: first } = choice;
  const now = edits.get().choices[name] ?? first;
  const marks = { "aria-label": name, "data-choice": name, ...(now === first ? {} : { "data-changed": "" }) };
  const flag = typeof first === "boolean";
  const input = /** @type {HTMLInputElement} */ (el("input", flag ? { type: "checkbox", checked: now === true, ...marks }
    : { type: "text", inputmode: "decimal", value: String(now), ...marks }));
  input.addEventListener("change", () => {
    const value = flag ? input.checked : Number(input.value);
    if (flag || (Number.isFinite(value) && Number(value) > 0)) edits.choose(name, value);
    else ctx.tell(`${name} must be a number above 0.`);
  });
  const title = equation === undefined ? own(ctx.data.symbols[name]?.math ?? "", "span") : el("span", {}, kind);
  return el("label", {}, title, " ", input);
}

/** Shown while anything differs from the run of the page. @param {Context} ctx @param {EditsStore} edits */
export function undo(ctx, edits) {
  const back = button("Undo changes", () => edits.undo(), { class: "undo" });
  ctx.store.on(() => {
    back.hidden = !edits.changed && !ctx.values.fresh;
  });
  return back;
}
