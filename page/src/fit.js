/** A formula that is wider than its pane is set a little smaller; if that is not enough it is broken onto lines. */
import { breakUp, LAST, levels, mend } from "./breaking.js";

const FIRST = 0.86; // of its size: as small as a formula gets on one line
const MOST = 0.8; // of a line: a formula within it that is wider is broken
const LEAST = 0.7; // and where lines do not help; what is wider still, scrolls

/** @type {WeakMap<Element, number>} the width for which a formula was set */
const known = new WeakMap();
const observer = new ResizeObserver((entries) => {
  const changed = entries.filter(({ target, contentRect }) => contentRect.width && known.get(target) !== contentRect.width);
  const formulas = changed.map(({ target, contentRect }) => {
    known.set(target, contentRect.width);
    return /** @type {HTMLElement} */ (target);
  });
  for (const formula of formulas) {
    formula.style.removeProperty("--fit");
    if (formula.querySelector(".broken")) mend(formula);
  }
  const shares = formulas.map(share);
  formulas.forEach((formula, k) => set(formula, shares[k]));
});

/** @param {HTMLElement} formula */
const share = (formula) => formula.clientWidth / formula.scrollWidth;

/** @param {HTMLElement} formula @param {number} found  how much of it has room */
function set(formula, found) {
  let room = found;
  if (found < FIRST) {
    const wide = [...formula.querySelectorAll("math")].filter((math) => math.getBoundingClientRect().width > formula.clientWidth * MOST);
    const all = wide.map((math) => ({ math, at: levels(math) }));
    for (const level of [...new Set(all.flatMap(({ at }) => at))].sort((a, b) => a - b)) {
      if (level === LAST && found >= LEAST) break;
      mend(formula);
      for (const { math, at } of all) if (at[0] <= level) breakUp(math, level);
      room = share(formula);
      if (room >= FIRST) break;
    }
    if (room < FIRST && found >= LEAST) {
      mend(formula);
      room = found;
    }
  }
  if (room < LEAST) formula.tabIndex = 0; // what scrolls is reached by the keyboard
  else formula.removeAttribute("tabindex");
  if (room < 1) formula.style.setProperty("--fit", Math.max(LEAST, room * 0.99).toFixed(3));
}

/** @param {HTMLElement} formula */
export function fit(formula) {
  observer.observe(formula);
  return formula;
}
