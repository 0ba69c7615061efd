/** The values pane: the value at hand, what it was made from, how an entry came about. */
import { el } from "./dom.js";
import { entryField } from "./editing.js";
import { explanation, pickEntry, sources } from "./entry.js";
import { headSwitch, switchable, switches } from "./heads.js";
import { entryTerms } from "./terms.js";
import { valueView } from "./views.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./edits.js").EditsStore} EditsStore */

/** @param {Context} ctx @param {EditsStore} edits */
export function valuesPane(ctx, edits) {
  const holder = el("div", { class: "v-values" });
  const terms = entryTerms(ctx, edits);
  holder.addEventListener("click", (event) => pickEntry(ctx, event));
  let room = 0;
  new ResizeObserver(() => (room = holder.clientWidth)).observe(holder);
  ctx.store.on((state, before) => {
    const keys = /** @type {const} */ (["step", "direction", "meaning", "looked", "entry", "views", "revision"]);
    if (state !== before && keys.every((key) => state[key] === before[key])) return;
    if (!ctx.member) return;
    const had = focused(holder);
    const width = Math.max(220, (room || 420) - 12);
    const step = ctx.stepOf.get(ctx.member);
    const gradientOf = step?.of ? [step.of] : [];
    const reads = [...new Set([...gradientOf, ...(step?.reads ?? [])])].filter((m) => m !== ctx.member);
    holder.replaceChildren(
      valueView(ctx, ctx.member, { main: true, width, marked: sources(ctx, ctx.member), extra: (value, slice) => headSwitch(ctx, edits, value, slice) }),
      ...[state.looked && !switchable(ctx, ctx.member)[0]?.name ? switches(ctx, edits, ctx.member) : null].filter((x) => x !== null),
      explanation(ctx, (entry) => entryField(ctx, edits, entry)),
      terms,
      ...(reads.length ? [el("h3", {}, step?.of ? "Its value, and what it is computed from" : "Computed from")] : []),
      el("div", { class: "operands" }, reads.map((member) => valueView(ctx, member, { width, marked: sources(ctx, member) }))));
    if (had) /** @type {HTMLElement | null} */ (holder.querySelector(had))?.focus({ preventScroll: true });
  });
  return holder;
}

/** Focus survives the drawing anew: where it was, as a selector. @param {HTMLElement} holder */
function focused(holder) {
  const active = document.activeElement;
  if (!active || !holder.contains(active)) return null;
  const member = active.closest("[data-member]")?.getAttribute("data-member");
  if (member === undefined || member === null) return null;
  const within = active.getAttribute("data-at") !== null ? `[data-at="${active.getAttribute("data-at")}"]`
    : active.getAttribute("data-name") !== null ? `[data-name="${active.getAttribute("data-name")}"]` : null;
  return within && `[data-member="${CSS.escape(member)}"] ${within}`;
}
