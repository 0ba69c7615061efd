/** What the reader has changed, and the run that follows from it. */

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./engine.js").Edits} Edits */

/** @returns {Edits} */
const none = () => ({ ids: null, text: null, parameters: {}, choices: {}, put: [] });

/** @param {Context} ctx */
export function createEdits(ctx) {
  let edits = none();
  const original = ctx.data.tokens;
  const steps = ctx.data.steps;
  let running = Promise.resolve();

  const rerun = () => {
    running = running.then(async () => {
      try {
        const { values, tokens, steps: others } = await ctx.engine.run(edits);
        ctx.values.fresh = values;
        if (others) ctx.useSteps(others);
        if (tokens) ctx.data.tokens = { ...ctx.data.tokens, ...tokens };
        ctx.store.set({ revision: ctx.state.revision + 1, meaning: "decimal", note: "Everything was computed again" });
      } catch (error) {
        ctx.tell(error instanceof Error ? error.message : String(error));
      }
    });
    return running;
  };
  return {
    get: () => edits,
    get changed() {
      return JSON.stringify(edits) !== JSON.stringify(none());
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
      ctx.data.tokens = original;
      ctx.useSteps(steps);
      ctx.store.set({ revision: ctx.state.revision + 1, note: "The run of the page is back" });
    },
  };
}

/** @typedef {ReturnType<typeof createEdits>} EditsStore */
