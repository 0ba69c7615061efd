/** The step in words: what happens, why, its equation, and its lines for each position. */
import { el, own } from "./dom.js";
import { pickEntry, worked } from "./entry.js";
import { fit } from "./fit.js";
import { switches } from "./heads.js";
import { lines } from "./lines.js";

/** @typedef {import("./context.js").Context} Context */

/** @param {Context} ctx @param {import("./edits.js").EditsStore} edits */
export function story(ctx, edits) {
  const box = el("section", { class: "v-story", "aria-live": "polite" });
  box.addEventListener("click", (event) => pickEntry(ctx, event));
  ctx.store.on((state, before) => {
    const keys = /** @type {const} */ (["step", "direction", "meaning", "revision", "put"]);
    if (state !== before && keys.every((key) => state[key] === before[key])) return;
    const told = state.step < 0 ? opening(ctx) : state.step >= ctx.steps.length ? closing(ctx) : step(ctx, edits);
    box.replaceChildren(...told.filter((x) => x !== null));
    for (const name of box.querySelectorAll("[data-key]")) paint(ctx, /** @type {HTMLElement} */ (name));
    const pane = box.closest(".pane-body");
    if (pane && state.step !== before.step) pane.scrollTop = 0;
  });
  return box;
}

/** What goes in and what is predicted, before the first step. @param {Context} ctx */
function opening(ctx) {
  const { lesson } = ctx;
  if (!lesson) return [];
  const tokens = lesson.parts.find((part) => part.steps.some((s) => !s.member));
  const [goesIn, ...more] = lesson.intro;
  return [
    el("p", { class: "part" }, "Before the first step"),
    el("h2", {}, "What goes in, and what comes out"),
    ...(goesIn ? [prose(goesIn)] : []),
    ...(tokens?.steps ?? []).map((s) => prose(s.why)),
    ...more.map(prose),
    ...exact(ctx, lesson.numbers).map(prose),
    ...(lesson.matrices.length ? [el("h3", {}, "The weights"), el("div", { class: "given" }, lesson.matrices.map((m) => own(m)))] : []),
    ...(lesson.about.length ? [el("h3", {}, "About this model"), ...lesson.about.map(prose)] : []),
  ];
}

/** What may be concluded, after the last step. @param {Context} ctx */
function closing(ctx) {
  const { lesson } = ctx;
  return lesson ? [
    el("p", { class: "part" }, "After the last step"),
    el("h2", {}, "Summary"),
    el("ul", { class: "closing" }, [...lesson.closing, ...exact(ctx, lesson.proven)].map((sentence) => own(sentence, "li"))),
  ] : [];
}

/** @param {Context} ctx @param {import("./edits.js").EditsStore} edits */
function step(ctx, edits) {
  const { step: here, lesson } = ctx;
  if (!here) return [];
  const equation = ctx.equation.get(here.equation);
  const told = lesson && ctx.lessonOf.get(here.member);
  const last = told && told.part.steps[told.part.steps.length - 1] === told.step;
  const summary = told ? [...told.part.summary, ...exact(ctx, told.part.numbers)] : [];
  return [
    el("p", { class: "part" }, [equation?.part, block(here.block)].filter(Boolean).join(" · ")),
    own(here.title || here.member, "h2"),
    equation ? fit(own(here.equation_math ?? equation.math, "div", { class: "formula" })) : null,
    switches(ctx, edits, here.member),
    ctx.state.direction === "backward" && ctx.state.step === 0 && ctx.data.differentiated
      ? el("p", {}, "The backward pass starts at ", own(ctx.data.differentiated), ". Each gradient says how fast that number changes when an entry changes.") : null,
    here.why ? prose(here.why) : null,
    told && told.step.letters ? own(told.step.letters, "p", { class: "status" }) : null,
    told && told.step.sides.length ? lines(told.step.sides, ctx.state.meaning === lesson.meaning) : worked(ctx, here.member),
    told && told.step.status ? own(told.step.status, "p", { class: "status" }) : null,
    last && summary.length ? el("div", { class: "summary" }, summary.map(prose)) : null,
  ];
}

/** What is said of exact numbers, where they are shown. @param {Context} ctx @param {string[]} told */
const exact = (ctx, told) => (ctx.state.meaning === ctx.lesson?.meaning ? told : []);

/** A name in a formula has the colour of what it is. @param {Context} ctx @param {HTMLElement} name */
function paint(ctx, name) {
  const { key, member } = name.dataset;
  const kind = key && ctx.data.symbols[key]?.kind;
  if (kind) name.dataset.kind = ctx.step && member === ctx.step.member ? "now" : kind;
}

/** Prose may hold formulas of ours: MathML written by Viète beside escaped text. @param {string} html */
const prose = (html) => own(html, "p");

/** @param {Record<string, number>} letters */
const block = (letters) => Object.entries(letters).map(([letter, k]) => `block ${letter} = ${k}`).join(", ");
