// Entries by their places, and back to their places.

/** The entries at the sums of a table of offsets for each axis. */
function collected(data, shape, tables, offset) {
    const inner = tables.length ? tables[tables.length - 1] : Int32Array.of(0), width = inner.length;
    let rows = Int32Array.of(offset);
    for (const table of tables.slice(0, -1)) {
        const next = new Int32Array(rows.length * table.length);
        for (let r = 0, k = 0; r < rows.length; r++)
            for (let j = 0; j < table.length; j++) next[k++] = rows[r] + table[j];
        rows = next;
    }
    const out = new Float64Array(rows.length * width);
    for (let r = 0, k = 0; r < rows.length; r++)
        for (let j = 0, at = rows[r]; j < width; j++) out[k++] = data[at + inner[j]];
    return made(shape, out);
}

/** The offsets of n entries, a step apart. */
function spaced(n, step, first = 0) {
    const out = new Int32Array(n);
    for (let k = 0; k < n; k++) out[k] = (first + k) * step;
    return out;
}

/** A place in an axis of n, counted from the end where it is negative. */
function place(k, n) {
    if (!(Number.isInteger(k) && k >= -n && k < n)) throw new Error(`there is no entry ${k} among ${n}`);
    return k < 0 ? k + n : k;
}

/** Where a slice of an axis of n begins and how long it is. */
function stretch([from, to], n) {
    const [low, high] = [from ?? 0, to ?? n].map((k) => Math.min(n, Math.max(0, k < 0 ? k + n : k)));
    return [low, Math.max(0, high - low)];
}

/**
 * Entries of an array, by an item for each axis: ":" all, [from, to] a slice, a number or an array
 * of places; null is a new axis, and "..." stands for the axes without an item.
 */
function pick(a, ...items) {
    const rank = a.shape.length, there = items.filter((x) => x !== null && x !== "...").length;
    if (there > rank) throw new Error(`an array of the shape (${a.shape}) has no ${there} axes`);
    const gap = items.includes("...") ? items.indexOf("...") : items.length;
    items.splice(gap, 1, ...new Array(rank - there).fill(":"));
    const shape = [], tables = [];
    let axis = rank, stride = 1, offset = 0, cut = false, view = true;
    for (const item of items.reverse()) {
        if (item === null) {
            shape.unshift(1);
            continue;
        }
        const n = a.shape[--axis];
        if (typeof item === "number") {
            offset += place(item, n) * stride;
            cut = true;
        } else if (item === ":" || Array.isArray(item)) {
            const [first, count] = item === ":" ? [0, n] : stretch(item, n);
            view &&= !cut || count === 1;
            cut ||= count !== n;
            shape.unshift(count);
            tables.unshift(spaced(count, stride));
            offset += first * stride;
        } else {
            const step = stride;
            view = false;
            shape.unshift(...item.shape);
            tables.unshift(Int32Array.from(item.data, (k) => place(k, n) * step));
        }
        stride *= n;
    }
    if (view) return made(shape, a.data.subarray(offset, offset + size(shape)));
    return collected(a.data, shape, tables, offset);
}

/** What an array has along its first axis, one after the other. */
function members(a) {
    return Array.from({length: a.shape[0]}, (_, k) => pick(a, k));
}

/** The entries of x at these places of an axis; what one has more axes in front is repeated. */
function entries(x, at, axis) {
    const rank = Math.max(x.shape.length, at.shape.length), k = axis < 0 ? axis + rank : axis;
    const [s, t] = [x, at].map((a) => [...new Array(rank - a.shape.length).fill(1), ...a.shape]);
    const rest = common([s, t].map((shape) => shape.map((n, i) => (i === k ? 1 : n))));
    const source = broadcast_to(reshape(x, s), rest.map((n, i) => (i === k ? s[k] : n)));
    const places = broadcast_to(reshape(at, t), rest.map((n, i) => (i === k ? t[k] : n)));
    const {outer, inner} = along(source, k), out = new Float64Array(places.data.length);
    for (let i = 0, o = 0; i < outer; i++)
        for (let j = 0; j < t[k]; j++)
            for (let l = 0; l < inner; l++, o++)
                out[o] = source.data[(i * s[k] + place(places.data[o], s[k])) * inner + l];
    return made(places.shape, out);
}

/** Places counted from 0, none outside: negative ones would count from the end. */
function inside(at, count) {
    for (const k of data_of(at)) {
        if (!(k >= 0 && k < count)) throw new Error(`an index is outside 0 to ${count - 1}`);
    }
    return at;
}

/** A slice of an axis, refused if it asks for more than there is. */
function within(start, stop, n) {
    if (!(start >= 0 && start <= stop && stop <= n))
        throw new Error(`${start}:${stop} is asked for of an axis of ${n}`);
    return [start, stop];
}

/** Row v is the sum of the rows of y whose place is v. */
function gathered(y, t, n) {
    const {before, n: rows, outer, inner} = along(y, -2), out = new Float64Array(outer * n * inner);
    for (let i = 0; i < outer; i++) {
        for (let j = 0; j < rows; j++) {
            const to = (i * n + place(t.data[j], n)) * inner, from = (i * rows + j) * inner;
            for (let k = 0; k < inner; k++) out[to + k] += y.data[from + k];
        }
    }
    return made([...before, n, inner], out);
}

/** The rows of y as rows s, s + 1, … of m; the others are 0. */
function placed(y, s, m) {
    const {before, n, outer, inner} = along(y, -2), out = new Float64Array(outer * m * inner);
    const from = Math.max(-s, 0), to = Math.max(Math.min(n, m - s), from);
    for (let i = 0; from < to && i < outer; i++) {
        const rows = y.data.subarray((i * n + from) * inner, (i * n + to) * inner);
        out.set(rows, (i * m + s + from) * inner);
    }
    return made([...before, m, inner], out);
}
