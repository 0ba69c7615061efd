/** A formula that is wider than its pane is set smaller, within reason; below that it scrolls. */

const LEAST = 0.72;

/** @type {WeakMap<Element, number>} the width for which a formula was set */
const known = new WeakMap();
const observer = new ResizeObserver((entries) => {
  const changed = entries.filter(({ target, contentRect }) => known.get(target) !== contentRect.width);
  const formulas = changed.map(({ target, contentRect }) => {
    known.set(target, contentRect.width);
    return /** @type {HTMLElement} */ (target);
  });
  for (const formula of formulas) formula.style.removeProperty("--fit");
  const shares = formulas.map((formula) => formula.clientWidth / formula.scrollWidth);
  formulas.forEach((formula, k) => {
    if (shares[k] < LEAST) formula.tabIndex = 0; // what scrolls is reached by the keyboard
    else formula.removeAttribute("tabindex");
    if (shares[k] < 1) formula.style.setProperty("--fit", Math.max(LEAST, shares[k] * 0.99).toFixed(3));
  });
});

/** @param {HTMLElement} formula */
export function fit(formula) {
  observer.observe(formula);
  return formula;
}
