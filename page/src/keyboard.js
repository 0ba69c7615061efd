/**
 * Arrow keys step, wherever the focus is not in a field, a matrix or a scrolled pane of its own. Where
 * the page is all that the window shows, they step also while nothing has the focus.
 */
import { go } from "./pipeline.js";

/** @typedef {import("./context.js").Context} Context */

/** @param {Context} ctx */
export function keyboard(ctx) {
  const listener = ctx.root.parentElement === document.body ? document.body : ctx.root;
  listener.addEventListener("keydown", (event) => {
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
