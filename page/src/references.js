/** A row in a line and its cell of the register point at each other; a click looks at its value. */

/** @typedef {import("./context.js").Context} Context */

/** @param {Context} ctx */
export function references(ctx) {
  /** @type {string | null} */
  let lit = null;
  ctx.root.addEventListener("pointerover", (event) => {
    const row = placeOf(event);
    const wanted = row && selector(row);
    if (wanted === lit) return;
    lit = wanted;
    for (const node of ctx.root.querySelectorAll(".lit-row")) node.classList.remove("lit-row");
    if (wanted) for (const node of ctx.root.querySelectorAll(wanted)) node.classList.add("lit-row");
  });
  ctx.root.addEventListener("click", (event) => {
    const name = /** @type {Element} */ (event.target).closest(".v-story [data-member]");
    const member = name?.getAttribute("data-member");
    if (member && !String(getSelection()) && ctx.value(member)) ctx.store.set({ looked: member, entry: null });
  });
}

/** @param {Event} event */
function placeOf(event) {
  const node = /** @type {Element | null} */ (event.target)?.closest?.("[data-row]");
  const row = node?.getAttribute("data-row");
  const member = node?.closest("[data-member]")?.getAttribute("data-member");
  return row && member ? { member, row } : null;
}

/** @param {{member: string, row: string}} place */
function selector({ member, row }) {
  const of = `[data-member="${CSS.escape(member)}"]`;
  return `${of}[data-row="${row}"], tr${of} > [data-row="${row}"]`;
}
