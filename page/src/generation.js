/** The text goes on: the token whose score is the greatest at the last position is appended. */
import { button } from "./dom.js";

/** @typedef {import("./context.js").Context} Context */
/** @typedef {import("./edits.js").EditsStore} EditsStore */

/** @param {Context} ctx @param {EditsStore} edits */
export function goOn(ctx, edits) {
  const { scores, next } = ctx.data.tokens;
  if (!scores || !next) return null; // such as BERT, which scores every token in its place
  return button("Continue", () => {
    const value = ctx.values.best(scores, "decimal");
    if (!value) return ctx.tell(`This page does not store ${scores}.`);
    const line = Array.from({ length: value.columns }, (_, k) => Number(value.at(value.index(0, value.rows - 1, k))));
    const likeliest = line.indexOf(Math.max(...line));
    if (likeliest < 0) return ctx.tell(`The last row of ${scores} has no largest entry.`);
    return edits.change({ ids: [...ctx.data.tokens.ids, likeliest], text: null });
  }, { type: "button", title: "Append the most likely next token" });
}
