/** The state of a page: one object, replaced in parts, with everyone told what it was before. */

/** @typedef {import("./types.js").State} State */

/** @param {State} state */
export function createStore(state) {
  /** @type {((now: State, before: State) => void)[]} */
  const heard = [];
  return {
    get: () => state,
    /** @param {Partial<State>} part */
    set(part) {
      const before = state;
      state = { ...state, ...part };
      for (const hear of heard) hear(state, before);
    },
    /** @param {(now: State, before: State) => void} hear */
    on(hear) {
      heard.push(hear);
      hear(state, state);
    },
  };
}

/** @typedef {ReturnType<typeof createStore>} Store */
