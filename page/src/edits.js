/** What the reader has changed, and the run that follows from it. */

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./engine.js").Edits} Edits */
/** @typedef {import("./types.js").State["put"]} Puts */

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

  /** The run of the edits at hand. */
  async function rerun() {
    const { values, tokens, ...parts } = changed(edits) ? await ctx.engine.run(edits) : (await ctx.engine.restart(), { values: null, tokens: null });
    ctx.use({ ...original, ...parts, tokens: { ...original.tokens, ...tokens } });
    ctx.values.fresh = values;
  }

  /** One change after the other: what one that fails would have changed stays as it was. @param {(now: Edits) => Edits} next @param {(now: Puts) => Puts} [puts] @param {string} [note] */
  function change(next, puts = (now) => now, note = "Everything was computed again") {
    running = running.then(async () => {
      const before = edits;
      ctx.values.turn++;
      try {
        edits = next(edits);
        await rerun();
      } catch (error) {
        edits = before;
        ctx.tell(error instanceof Error ? error.message : String(error));
        return false;
      } finally {
        ctx.values.turn++;
        ctx.values.asked.clear();
      }
      const { fresh } = ctx.values;
      const meaning = !fresh || fresh[ctx.state.meaning] ? ctx.state.meaning : "decimal";
      ctx.store.set({ put: puts(ctx.state.put), revision: ctx.state.revision + 1, step: ctx.nearest(ctx.state.step), meaning, note, ...ctx.there() });
      return true;
    });
    return running;
  }

  return {
    get: () => edits,
    get changed() {
      return changed(edits);
    },
    /** @param {string} equation @param {string} key  the symbol that it changes */
    togglePut(equation, key) {
      const there = (/** @type {Puts} */ now) => now.some((p) => p.equation === equation);
      return change(
        (now) => ({ ...now, put: now.put.includes(equation) ? now.put.filter((e) => e !== equation) : [...now.put, equation] }),
        (now) => (there(now) ? now.filter((p) => p.equation !== equation) : [...now, { equation, key }]));
    },
    /** @param {string} name @param {number | boolean} value */
    choose(name, value) {
      return change((now) => {
        const choices = { ...now.choices, [name]: value };
        if (value === ctx.data.choices.find((c) => c.name === name)?.value) delete choices[name];
        return { ...now, choices };
      });
    },
    /** @param {Partial<Edits>} part */
    change: (part) => change((now) => ({ ...now, ...part })),
    /** @param {string} key @param {number} at @param {number} x */
    setEntry(key, at, x) {
      return change((now) => {
        const data = Float64Array.from(now.parameters[key] ?? ctx.values.best(key, "decimal")?.numbers() ?? []);
        data[at] = x;
        return { ...now, parameters: { ...now.parameters, [key]: data } };
      });
    },
    undo: () => change(none, () => [], "All changes are undone"),
  };
}

/** @typedef {ReturnType<typeof createEdits>} EditsStore */
