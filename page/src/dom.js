/** Elements. Text goes in as text; only MathML and SVG that Viète wrote goes in as markup. */

/** @typedef {Node | string | number | null | undefined | false} Child */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag
 * @param {Record<string, any>} [attributes]  on…: a listener; class, aria-… and the rest as they are
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function el(tag, attributes = {}, ...children) {
  return /** @type {HTMLElement} */ (fill(document.createElement(tag), attributes, children));
}

/**
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, tag), attributes, children));
}

/**
 * @param {Element} element
 * @param {Record<string, any>} attributes
 * @param {(Child | Child[])[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
  return element;
}

/**
 * Markup that Viète wrote (MathML, SVG, the card's document), parsed without running anything.
 * @param {string | null | undefined} markup
 * @param {string} [tag]
 * @param {Record<string, any>} [attributes]
 */
export function own(markup, tag = "span", attributes = {}) {
  const holder = el(tag, attributes);
  holder.innerHTML = markup ?? "";
  return holder;
}

/** What a formula reads as in a label. @param {string | null | undefined} markup @param {string} otherwise */
export const textOf = (markup, otherwise) => own(markup).textContent || otherwise;

/**
 * @param {string} label
 * @param {(event: MouseEvent) => void} onclick
 * @param {Record<string, any>} [attributes]
 * @param {...(Child | Child[])} children
 */
export function button(label, onclick, attributes = {}, ...children) {
  const shows = children.length ? children : [label];
  const named = children.length ? { "aria-label": label, title: label } : {};
  return /** @type {HTMLButtonElement} */ (
    el("button", { type: "button", onclick, ...named, ...attributes }, ...shows)
  );
}

/**
 * A row of buttons of which one is pressed.
 * @param {string} label
 * @param {{name: string, title: string}[]} options
 * @param {string} chosen
 * @param {(name: string) => void} choose
 */
export function segmented(label, options, chosen, choose) {
  return el("div", { class: "segmented", role: "group", "aria-label": label },
    options.map(({ name, title }) =>
      button(title, () => choose(name), { "aria-pressed": name === chosen, "data-name": name })));
}
