/** Tokens as a field has them, with spaces between: what is white in a token is a sign there. */

/** @type {Record<string, string>} */
const SIGNS = { " ": "␣", "\n": "↵", "\t": "⇥" };

/** The names of the tokens of a vocabulary, each different; one that has no name of its own is #12. @param {string[]} vocabulary */
export function spelled(vocabulary) {
  const names = vocabulary.map((word) => word.replace(/[ \n\t]/g, (c) => SIGNS[c]));
  const first = new Map(names.map((name, k) => /** @type {[string, number]} */ ([name, k])).reverse());
  let sign = "#";
  while (names.some((name) => name.startsWith(sign) && /^\d+$/.test(name.slice(sign.length)))) sign += "#";
  return names.map((name, k) => (name && !/\s/.test(name) && first.get(name) === k ? name : `${sign}${k}`));
}

/**
 * The ids of tokens in a field, and the first part that is none.
 * @param {string} text @param {string[] | null} names  of the vocabulary, where there is one
 */
export function read(text, names) {
  const parts = text.split(names?.some((name) => name.includes(",")) ? /\s+/ : /[\s,]+/).filter(Boolean);
  const known = new Map((names ?? []).map((name, k) => [name, k]));
  const ids = parts.map((part) => known.get(part) ?? (/^\d+$/.test(part) ? Number(part) : NaN));
  const wrong = parts.find((_, k) => !Number.isSafeInteger(ids[k]) || (names && ids[k] >= names.length));
  return { ids, wrong };
}
