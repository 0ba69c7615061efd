/**
 * A formula on several lines: it breaks before = and +, and after a semicolon, at the outermost place that will do.
 * No part of it is made anew, so what listens to a name or points at one still does.
 */

const BEFORE = new Set(["=", "≈", "+", "−", "·", "⊙", "⊗"]);
const OPEN = new Set(["(", "[", "⟨"]);
const CLOSE = new Set([")", "]", "⟩"]);
const BRACKETS = new Set([...OPEN, ...CLOSE]);

export const LAST = 99; // what is defined stands alone only where nothing else does

/** @param {Element} node */
const sign = (node) => (node.localName === "mo" ? node.textContent ?? "" : "");
/** @param {Element} node */
const isRow = (node) => node.localName === "mrow" || node.localName === "math";

/** What stands in a row, in how many brackets, and where a line may end: before or after what, and as how good a place. @param {Element} row @param {number} depth */
function places(row, depth) {
  let inside = depth;
  // What follows a semicolon belongs together.
  const after = [...row.children].some((child) => sign(child) === ";") ? ";" : ",";
  const defines = [...row.children].findIndex((child) => sign(child) === "=");
  return [...row.children].map((child, k) => {
    const text = sign(child);
    if (CLOSE.has(text)) inside--;
    const at = inside;
    if (OPEN.has(text)) inside++;
    return { child, depth: at, level: k === defines ? LAST : at, before: k > 0 && BEFORE.has(text) && child.getAttribute("form") !== "prefix", after: text === after };
  });
}

/** The depths at which a formula may be broken, the outermost first. @param {Element} row @param {number} [depth] @returns {number[]} */
export function levels(row, depth = 0) {
  const found = places(row, depth).flatMap((place) => [
    ...(place.before || place.after ? [place.level] : []), ...(isRow(place.child) ? levels(place.child, place.depth) : [])]);
  return [...new Set(found)].sort((a, b) => a - b);
}

/** Makes a row into pieces that follow each other as words do. @param {Element} row @param {number} deepest @param {number} [depth] */
export function breakUp(row, deepest, depth = 0) {
  row.classList.add("broken");
  /** @type {Element | null} */
  let piece = null;
  for (const { child, depth: at, level, before, after } of places(row, depth)) {
    if (before && level <= deepest) {
      child.before(document.createElement("wbr"));
      child.setAttribute("form", "infix");
      piece = null;
    }
    if (BRACKETS.has(sign(child))) fixed(child);
    if (isRow(child) && levels(child, at).some((one) => one <= deepest)) {
      breakUp(child, deepest, at);
      piece = null;
    } else {
      if (!piece) child.before((piece = made("mrow", "piece")));
      piece.append(child);
    }
    if (after && level <= deepest && piece) {
      piece.after(document.createElement("wbr"));
      piece = null;
    }
  }
  // An operator that is alone keeps its space beside something that is none.
  for (const alone of row.querySelectorAll(":scope > .piece")) {
    if (alone.children.length === 1 && sign(alone.children[0])) alone.append(made("mi", "nothing"));
  }
}

/** The formula on one line again. @param {Element} formula */
export function mend(formula) {
  for (const added of formula.querySelectorAll(".broken wbr, .nothing")) added.remove();
  for (const piece of formula.querySelectorAll(".piece")) piece.replaceWith(...piece.children);
  for (const bracket of formula.querySelectorAll(".fixed")) {
    bracket.classList.remove("fixed");
    bracket.removeAttribute("stretchy");
  }
  for (const row of formula.querySelectorAll(".broken")) row.classList.remove("broken");
}

/** A bracket whose other half may be on another line is of one height. @param {Element} bracket */
function fixed(bracket) {
  if (!bracket.hasAttribute("form")) bracket.setAttribute("form", OPEN.has(sign(bracket)) ? "prefix" : "postfix");
  if (bracket.getAttribute("stretchy") === "false") return;
  bracket.setAttribute("stretchy", "false");
  bracket.classList.add("fixed");
}

/** @param {string} name @param {string} kind */
function made(name, kind) {
  const node = document.createElementNS("http://www.w3.org/1998/Math/MathML", name);
  node.setAttribute("class", kind);
  return node;
}
