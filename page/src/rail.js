/**
 * Boxes one below the other, and beside them what leads from one to a later one: a vertical line for
 * all that leaves a box. A residual stream is the first line, from which the others branch off.
 */
import { svg } from "./dom.js";

/** @typedef {{id: string, sum?: boolean, element: HTMLElement}} Stop */
/** @typedef {{from: string, to: string, stream?: boolean, back?: boolean, keys: string[]}} Way */
/** @typedef {{from: number, to: number, stream: boolean, lane: number, ways: Way[]}} Line */
/** @typedef {{first: number, apart: number, edge: number}} Spacing */

const HEAD = 7;
const ROUND = 7;
const INSET = 5; // the next line begins below the box that it passes by
const SUM = 9; // the radius of a sum

/** @param {Stop[]} stops @param {Way[]} ways @returns {Line[]} */
export function lanes(stops, ways) {
  const row = new Map(stops.map((stop, k) => [stop.id, k]));
  /** @param {Way} way */
  const end = (way) => row.get(way.to) ?? 0;
  /** @type {Line[]} */
  const lines = [];
  stops.forEach((stop, from) => {
    const mine = ways.filter((way) => way.from === stop.id && !way.back && end(way) > from);
    const goes = mine.find((way) => way.stream);
    const along = goes ? mine.filter((way) => end(way) <= end(goes)) : [];
    for (const [some, stream] of /** @type {const} */ ([[along, true], [mine.filter((way) => !along.includes(way)), false]])) {
      if (some.length) lines.push({ from, to: Math.max(...some.map(end)), stream, lane: 0, ways: [...some] });
    }
  });
  /** @type {Line[]} */
  const placed = [];
  for (const line of [...lines].sort((a, b) => Number(b.stream) - Number(a.stream) || a.from - b.from)) {
    const taken = new Set(placed.filter((other) => other.from < line.to && line.from < other.to).map((other) => other.lane));
    while (taken.has(line.lane)) line.lane++;
    placed.push(line);
  }
  return lines;
}

/**
 * Sets each stop beside the lines that pass it, and keeps the lines drawn whatever the layout does.
 * @param {HTMLElement} host @param {Stop[]} stops @param {Way[]} ways @param {Spacing} spacing
 * @param {{element: HTMLElement, from: string}[]} [loops]  frames whose end leads back to their beginning
 */
export function rail(host, stops, ways, spacing, loops = []) {
  const lines = lanes(stops, ways);
  const layer = svg("svg", { class: "rail", "aria-hidden": "true" });
  const at = (/** @type {number} */ lane) => spacing.first + spacing.apart * lane;
  stops.forEach(({ element, sum }, row) => {
    const passing = lines.filter((line) => line.from < row && row < line.to).map((line) => line.lane);
    const own = lines.find((line) => line.stream && (line.to === row || line.from === row))?.lane ?? 0;
    const ending = sum ? lines.filter((line) => line.to === row).map((line) => line.lane) : [];
    const beside = sum ? Math.max(own, ...passing, ...ending) : Math.max(-1, ...passing);
    element.style.setProperty("--beside", beside < 0 ? `${spacing.edge}px` : `${at(beside) + (sum ? spacing.apart : spacing.apart - INSET)}px`);
    const leaving = lines.filter((line) => line.from <= row && row < line.to).map((line) => line.lane);
    element.parentElement?.style.setProperty("--label", `${at(Math.max(0, ...leaving)) + spacing.apart - INSET}px`);
    if (sum) element.style.setProperty("--own", `${at(own) - SUM}px`);
  });
  for (const { element } of loops) {
    const first = stops.findIndex((stop) => element.contains(stop.element));
    const passing = lines.filter((line) => line.from < first && first <= line.to).map((line) => line.lane);
    element.style.setProperty("--title", `${at(Math.max(0, ...passing)) + spacing.apart}px`);
  }
  const draw = () => {
    const frame = host.getBoundingClientRect();
    if (!frame.width) return;
    const rects = stops.map(({ element, sum }) => placed(sum ? element.querySelector(".plus") ?? element : element, frame));
    layer.replaceChildren(
      ...loops.map(({ element, from }) => back(placed(element, frame), at(lines.find((line) => stops[line.from].id === from)?.lane ?? 0), spacing)),
      ...lines.flatMap((line) => drawn(line, stops, rects, at(line.lane))));
  };
  host.prepend(layer);
  const observer = new ResizeObserver(draw);
  for (const element of [host, ...stops.map((stop) => stop.element)]) observer.observe(element); // one may close as another opens
}

/** @typedef {{left: number, right: number, top: number, bottom: number, middle: number}} Rect */

/** @param {Element} element @param {DOMRect} frame @returns {Rect} */
function placed(element, frame) {
  const box = element.getBoundingClientRect();
  const [left, right, top, bottom] = [box.left - frame.left, box.right - frame.left, box.top - frame.top, box.bottom - frame.top];
  return { left, right, top, bottom, middle: (top + bottom) / 2 };
}

/** @param {Line} line @param {Stop[]} stops @param {Rect[]} rects @param {number} x */
function drawn(line, stops, rects, x) {
  const start = rects[line.from];
  const covers = (/** @type {Rect} */ r) => r.left < x && x < r.right;
  const above = covers(start) ? `M${x} ${start.bottom}` : `M${start.left} ${start.bottom - 12}H${x + ROUND}q${-ROUND} 0 ${-ROUND} ${ROUND}`;
  const kind = line.stream ? "wire stream" : "wire";
  const ends = [...line.ways].sort((a, b) => find(stops, a.to) - find(stops, b.to));
  return ends.map((way, n) => {
    const row = find(stops, way.to);
    const goal = rects[row];
    const last = n === ends.length - 1;
    const down = last ? above : "";
    const straight = covers(goal) || (stops[row].sum && goal.left <= x && x <= goal.right);
    if (straight) return wire(kind, way, `${down}V${goal.top - HEAD}`, `M${x} ${goal.top}`, "down");
    // Several that arrive at one box arrive one below the other.
    const y = stops[row].sum ? goal.middle : goal.top + 14 + 9 * line.lane;
    const side = goal.left > x ? 1 : -1;
    const tip = side > 0 ? goal.left : goal.right;
    const turn = `${last ? `${down}V${y - ROUND}` : `M${x} ${y - ROUND}`}q0 ${ROUND} ${side * ROUND} ${ROUND}H${tip - side * HEAD}`;
    return wire(last ? kind : "wire", way, turn, `M${tip} ${y}`, side > 0 ? "right" : "left");
  }).reverse();
}

/** @param {Stop[]} stops @param {string} id */
const find = (stops, id) => stops.findIndex((stop) => stop.id === id);

/** From the foot of a frame to its head: x^i is the next turn's x^{i-1}. @param {Rect} frame @param {number} x @param {Spacing} spacing */
function back(frame, x, spacing) {
  const [foot, head, left] = [frame.bottom - 11, frame.top + 33, spacing.edge + 2];
  return wire("wire", null, `M${x} ${foot}H${left + ROUND}q${-ROUND} 0 ${-ROUND} ${-ROUND}V${head + ROUND}q0 ${-ROUND} ${ROUND} ${-ROUND}H${x - HEAD}`, `M${x} ${head}`, "right");
}

const TIPS = { down: "l-4 -9q4 2.5 8 0z", right: "l-9 -4q2.5 4 0 8z", left: "l9 -4q-2.5 4 0 8z" };

/** @param {string} kind @param {Way | null} way @param {string} path @param {string} tip @param {keyof typeof TIPS} facing */
function wire(kind, way, path, tip, facing) {
  return svg("g", { class: kind, "data-key": way?.keys.join(" ") }, svg("path", { class: "line", d: path }), svg("path", { class: "tip", d: tip + TIPS[facing] }));
}
