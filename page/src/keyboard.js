/** Arrow keys step, wherever the focus is not in a field, a matrix or a scrolled pane of its own. */
import { go } from "./pipeline.js";

/** @typedef {import("./context.js").Context} Context */

/** @param {Context} ctx */
export function keyboard(ctx) {
  ctx.root.addEventListener("keydown", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (target.closest("input, textarea, select, [role=grid]") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape" && ctx.state.entry) ctx.store.set({ entry: null });
    else if (event.key === "ArrowRight") go(ctx, 1);
    else if (event.key === "ArrowLeft") go(ctx, -1);
    else if (event.key === "Home") go(ctx, -Infinity);
    else if (event.key === "End") go(ctx, Infinity);
    else return;
    event.preventDefault();
  });
}
