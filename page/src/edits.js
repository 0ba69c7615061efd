/** What the reader has changed, and the run that follows from it. */

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./engine.js").Edits} Edits */

/** @returns {Edits} */
const none = () => ({ ids: null, text: null, parameters: {}, choices: {}, put: [] });

/** @param {Edits} edits */
const changed = (edits) => JSON.stringify(edits) !== JSON.stringify(none());

/** @param {Context} ctx */
export function createEdits(ctx) {
  let edits = none();
  const { tokens, steps, backward, equations, backward_equations } = ctx.data;
  const original = { tokens, steps, backward, equations, backward_equations };
  let running = Promise.resolve(true);

  const rerun = () => {
    running = running.then(async () => {
      try {
        const asked = changed(edits) ? await ctx.engine.run(edits) : null;
        const { values, tokens, ...parts } = asked ?? { values: null, tokens: null };
        ctx.use({ ...original, ...parts, tokens: { ...original.tokens, ...tokens } });
        ctx.values.fresh = values;
        const meaning = !values || values[ctx.state.meaning] ? ctx.state.meaning : "decimal";
        ctx.store.set({ revision: ctx.state.revision + 1, step: ctx.nearest(ctx.state.step), meaning, note: "Everything was computed again" });
        return true;
      } catch (error) {
        ctx.tell(error instanceof Error ? error.message : String(error));
        return false;
      }
    });
    return running;
  };
  return {
    get: () => edits,
    get changed() {
      return changed(edits);
    },
    /** @param {string} equation @param {string} key  the symbol that it changes */
    async togglePut(equation, key) {
      const { put } = ctx.state;
      const off = put.some((p) => p.equation === equation);
      const next = off ? put.filter((p) => p.equation !== equation) : [...put, { equation, key }];
      ctx.store.set({ put: next });
      if (await this.change({ put: next.map((p) => p.equation) })) return;
      edits = { ...edits, put: put.map((p) => p.equation) }; // what cannot be put in is not said to be
      ctx.store.set({ put });
    },
    /** @param {string} name @param {number | boolean} value */
    choose(name, value) {
      const choices = { ...edits.choices, [name]: value };
      if (value === ctx.data.choices.find((c) => c.name === name)?.value) delete choices[name];
      return this.change({ choices });
    },
    /** @param {Partial<Edits>} part */
    change(part) {
      edits = { ...edits, ...part };
      return rerun();
    },
    /** @param {string} key @param {number} at @param {number} x */
    setEntry(key, at, x) {
      const data = Float64Array.from(edits.parameters[key] ?? ctx.values.best(key, "decimal")?.numbers() ?? []);
      data[at] = x;
      return this.change({ parameters: { ...edits.parameters, [key]: data } });
    },
    undo() {
      edits = none();
      ctx.values.fresh = null;
      ctx.use(original);
      ctx.store.set({ put: [], revision: ctx.state.revision + 1, note: "The run of the page is back" });
    },
  };
}

/** @typedef {ReturnType<typeof createEdits>} EditsStore */
