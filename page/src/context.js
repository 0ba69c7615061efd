/** What every part of the page is handed: the data, the state, the values, the engine, and look-ups. */

import { isPart } from "./choosing.js";
import { valueOf } from "./operations.js";
import { restore } from "./values.js";

/** @typedef {import("./types.js").PageData} PageData */
/** @typedef {import("./types.js").Step} Step */
/** @typedef {import("./types.js").Equation} Equation */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./values.js").Values} Values */
/** @typedef {import("./engine.js").Engine} Engine */

export class Context {
  /** @param {PageData} data @param {Store} store @param {Values} values @param {Engine} engine @param {HTMLElement} root */
  constructor(data, store, values, engine, root) {
    this.data = data;
    this.store = store;
    this.values = values;
    this.engine = engine;
    this.root = root;
    /** @type {Map<string, Step>} */
    this.stepOf = new Map();
    /** @type {Map<string, {step: import("./types.js").LessonStep, part: import("./types.js").LessonPart}>} */
    this.lessonOf = new Map();
    for (const part of data.lesson?.parts ?? []) for (const step of part.steps) this.lessonOf.set(step.member, { step, part });
    /** @type {Map<number, Equation>} */
    this.equation = new Map();
    this.index();
  }

  /** Another text or a choice of an equation has equations and steps of its own. @param {Partial<PageData>} parts */
  use(parts) {
    Object.assign(this.data, parts);
    this.index();
  }

  index() {
    const { data } = this;
    this.stepOf = new Map([...data.steps, ...data.backward].map((step) => [step.member, step]));
    this.equation = new Map([...data.equations, ...(data.backward_equations ?? [])].map((e) => [e.number, e]));
  }

  /** Whether a member of the backward pass is no derivative of a value, but a part of one. @param {string} member */
  isPart(member) {
    const step = this.stepOf.get(member);
    return !!step && isPart(this.data, step);
  }

  get state() {
    return this.store.get();
  }

  /** An array of an answer. @param {string} name @param {import("./types.js").Stored} stored */
  restore(name, stored) {
    return restore(name, stored, this.data.tokens);
  }

  /** The steps in the direction that is shown. */
  get steps() {
    return this.state.direction === "backward" ? this.data.backward : this.data.steps;
  }

  /** What the reader looks at, as far as the run has it: another text may be shorter. @returns {Partial<import("./types.js").State>} */
  there() {
    const { looked, entry } = this.state;
    const shape = entry && this.value(entry.member)?.shape;
    const whole = !!entry && !!shape && shape.length === entry.at.length && entry.at.every((k, axis) => k < shape[axis]);
    const known = looked !== null && (this.stepOf.has(looked) || !!this.data.symbols[looked]);
    return { looked: known ? looked : null, entry: whole ? entry : null };
  }

  /** The step at hand; none before the first and after the last. @returns {Step | undefined} */
  get step() {
    return this.steps[this.state.step];
  }

  /** The lesson, while its run is the one that is shown. */
  get lesson() {
    return this.state.direction === "forward" && !this.values.fresh ? this.data.lesson : null;
  }

  /** The first and the last place that the arrows lead to: a lesson has an opening and a closing. */
  get ends() {
    const last = this.steps.length - 1;
    return this.lesson ? { first: -1, last: last + 1 } : { first: 0, last };
  }

  /** The place that the arrows can lead to which is nearest. @param {number} step */
  nearest(step) {
    return Math.max(this.ends.first, Math.min(this.ends.last, step));
  }

  /** The member whose value is looked at: chosen by the reader, or that of the step. */
  get member() {
    const { looked, step } = this.state;
    if (looked !== null) return looked;
    return step < 0 ? this.data.tokens.input : this.steps[Math.min(step, this.steps.length - 1)]?.member;
  }

  /** The symbol that a member is one of: x^2 is one of x^i. @param {string} member */
  symbolOf(member) {
    const name = member.split("#")[0];
    if (this.data.symbols[name]) return name;
    const step = this.stepOf.get(name);
    return step ? this.equation.get(step.equation)?.key ?? name : this.stored(name)?.symbol ?? name;
  }

  /** MathML of a member's name. @param {string} member */
  math(member) {
    const step = this.stepOf.get(member);
    return step?.math ?? this.stored(member)?.name ?? this.data.symbols[member]?.math ?? this.data.symbols[this.symbolOf(member)]?.math;
  }

  /** What the page says of a value, whether it carries its numbers or not. @param {string} member */
  stored(member) {
    return this.data.values[this.data.meanings[0]?.name]?.[member];
  }

  /** @param {string} member */
  value(member) {
    return valueOf(this, member);
  }

  /** Where a member stands: given before the run, done, computed now, or not yet. @param {string} member */
  progress(member) {
    const at = this.steps.findIndex((step) => step.member === member);
    if (at < 0) return this.stepOf.has(member) && this.state.direction === "forward" ? "later" : "given";
    return at < this.state.step ? "done" : at === this.state.step ? "now" : "later";
  }

  /** Asks a running model for a value, once. @param {string} member */
  ask(member) {
    if (this.values.asked.has(member)) return;
    this.values.asked.add(member);
    const { meaning } = this.state;
    const { turn } = this.values;
    this.engine.value(member, meaning).then((value) => {
      if (turn === this.values.turn) this.values.put(value, meaning);
      this.store.set({ revision: this.state.revision + 1 });
    }, (error) => this.tell(error.message));
  }

  /** @param {string} text */
  tell(text) {
    this.store.set({ note: text });
  }
}
