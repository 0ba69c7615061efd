/** A distribution over the vocabulary as bars, a panel a position; logits are put through softmax. */
import { el } from "./dom.js";
import { sumsToOne } from "./arcs.js";
import { count, short } from "./numbers.js";

/** @typedef {import("./values.js").Value} Value */
/** @typedef {import("./matrix.js").Picked} Picked */

const MOST = 10;

/** Whether rows are probabilities of tokens, or scores of them. @param {Value} value @param {string[] | null} vocabulary @param {boolean} scores */
export function overVocabulary(value, vocabulary, scores) {
  const last = value.shape.length - 1;
  return (scores || sumsToOne(value)) && last >= 0 && value.shape[last] > 1 && !value.exact && !!vocabulary && value.shape[last] === vocabulary.length &&
    !!value.labels[last] && value.labels[last]?.[0] === vocabulary[0];
}

/** @param {Value} value @param {number} slice @param {Picked} picked @param {boolean} next  whether the scores are of the next token */
export function bars(value, slice, picked, next) {
  const already = sumsToOne(value);
  const last = value.shape.length - 1;
  const rows = Array.from({ length: value.rows }, (_, row) => row);
  return el("div", { class: "bars" },
    already ? null : el("p", { class: "hint" }, `Probabilities of the ${next ? "next token" : "token"} at each position: softmax of ${picked.name}`),
    el("div", { class: "panels" }, rows.map((row) => {
      const line = Array.from({ length: value.columns }, (_, k) => Number(value.at(value.index(slice, row, k))));
      const shares = already ? line : softmax(line);
      const shown = shares.map((share, k) => ({ share, k }));
      if (shown.length > MOST) shown.sort((a, b) => b.share - a.share).splice(MOST);
      const best = shares.indexOf(Math.max(...shares));
      return el("table", {},
        last > 0 ? el("caption", {}, next ? "after " : "at ", el("b", {}, value.label(last - 1, row))) : null,
        el("tbody", {}, shown.map(({ share, k }) => {
          const bar = el("i");
          bar.style.setProperty("--share", String(share));
          return el("tr", { class: k === best ? "best" : null },
            el("th", { scope: "row" }, picked.pick ? el("button", { type: "button", title: "How this was computed", onclick: () => picked.pick?.(value.index(slice, row, k)) }, value.label(last, k)) : value.label(last, k)),
            el("td", { class: "bar" }, bar),
            el("td", { class: "share" }, short(share)));
        })),
        shares.length > MOST ? el("tfoot", {}, el("tr", {}, el("td", { colspan: 3 }, `and ${count(shares.length - MOST, "other")}`))) : null);
    })));
}

/** @param {number[]} line */
export function softmax(line) {
  const most = Math.max(...line);
  const powers = line.map((x) => Math.exp(x - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / sum);
}
