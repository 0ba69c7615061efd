/** What a change such as A^{1,2} = 0 puts to 0. */

/** @typedef {import("./types.js").PageData} PageData */
/** @typedef {{key: string, letters: [string, string][], places: number[]}} PutToZero  the symbol, what its letters are, and an entry's row and column */

const TOKEN = /(?<=[,{_^])[A-Za-zα-ωΑ-Ω]\w*(?=[,}]|$)/g; // an index letter in a key such as A^{i,h}

/** The symbol whose equation a change is of, and what its letters are; null where no symbol is so named. @param {PageData} data @param {string} name */
function symbolNamed(data, name) {
  for (const [key, { kind }] of Object.entries(data.symbols)) {
    if (kind !== "value") continue;
    const letters = key.match(TOKEN) ?? [];
    const rest = key.split(TOKEN).map((text) => text.replace(/[^\w]/g, "\\$&"));
    const found = name.match(new RegExp(`^${rest.reduce((a, b, k) => `${a}(${letters[k - 1]}|\\d+)${b}`)}$`));
    if (!found) continue;
    const at = letters.map((letter, k) => /** @type {[string, string]} */ ([letter, found[k + 1]]));
    return { key, letters: at.filter(([letter, number]) => letter !== number) };
  }
  return null;
}

/** What an equation puts to 0; null where it says something else. @param {PageData} data @param {string} equation @returns {PutToZero | null} */
export function putToZero(data, equation) {
  const parts = equation.match(/^\s*(.+?)(?:\[([\d, ]+)\])?\s*=\s*0\s*$/);
  const found = parts && symbolNamed(data, parts[1]);
  return found && { ...found, places: parts[2]?.split(",").map(Number) ?? [] };
}

/** The symbol that a change is of, whatever it puts there; "" where that is not plain. @param {PageData} data @param {string} equation */
export function changedSymbol(data, equation) {
  const left = equation.split("=")[0].trim();
  return [left, left.replace(/\[[^\]]*\]$/, ""), left.replace(/_(\{[^}]*\}|\w)$/, "")].map((name) => symbolNamed(data, name)?.key).find(Boolean) ?? "";
}

/** The entries of a value that changes put to 0, as tests of an index. @param {PageData} data @param {import("./values.js").Value} value @param {string[]} equations */
export function zeros(data, value, equations) {
  const own = symbolNamed(data, value.member);
  const block = new Map(own?.letters);
  return equations.map((equation) => putToZero(data, equation)).filter((put) => put && put.key === own?.key).flatMap((put) => {
    if (!put) return [];
    const heads = Math.max(0, value.shape.length - 2);
    const axis = new Map(value.axes.slice(0, heads).map((letter, k) => [letter, k]));
    if (put.letters.some(([letter, number]) => (block.get(letter) ?? number) !== number)) return [];
    return [(/** @type {number[]} */ index) => put.letters.every(([letter, number]) => {
      const k = axis.get(letter);
      return k === undefined || (value.labels[k]?.[index[k]] ?? String(index[k] + 1)) === number;
    }) && put.places.every((place, k) => index[heads + k] === place)];
  });
}
