// Arrays are {shape, data}: row after row in a Float64Array; one of no axes is a number.
// Each function does what NumPy's of that name does, or Viète's.

/** The array of a shape with these numbers. */
function made(shape, data) {
    return shape.length ? {shape, data} : data[0];
}

/** How many entries an array of a shape has. */
function size(shape) {
    let n = 1;
    for (const k of shape) n *= k;
    return n;
}

/** The shape of an array or a number. */
function shape_of(x) {
    return typeof x === "object" ? x.shape : [];
}

/** The entries of an array or a number. */
function data_of(x) {
    return typeof x === "object" ? x.data : Float64Array.of(x);
}

/** Lists of lists of numbers, or a typed array, as an array. */
function array(x) {
    if (typeof x === "number" || x.data instanceof Float64Array) return x;
    if (x.shape) return made(x.shape, Float64Array.from(x.data));
    const shape = [];
    for (let row = x; typeof row === "object"; row = row[0]) shape.push(row.length);
    const data = Float64Array.from(Array.from(x).flat(Infinity));
    if (data.length !== size(shape)) throw new Error("the rows of an array are not of one length");
    return made(shape, data);
}

/** An input of whole numbers from low to high, as an array; null where it is left out. */
function whole(x, name, low, high) {
    if (x === null) return null;
    const found = array(x);
    for (const k of data_of(found)) {
        if (!(Number.isInteger(k) && k >= low && k <= high))
            throw new Error(`${name} holds ${k}, and is made of whole numbers from ${low} to ${high}`);
    }
    return found;
}

/** The shape that shapes broadcast to. */
function common(shapes) {
    const rank = Math.max(0, ...shapes.map((s) => s.length));
    const out = new Array(rank).fill(1);
    for (const s of shapes) {
        for (let k = 0; k < s.length; k++) {
            const at = k + rank - s.length;
            if (s[k] !== out[at] && s[k] !== 1 && out[at] !== 1)
                throw new Error(`arrays of the shapes ${shapes.map((x) => `(${x})`).join(", ")} do not fit`);
            if (s[k] !== 1) out[at] = s[k];
        }
    }
    return out;
}

/** Whole numbers from a first one to the one before the last, as a list. */
function range(from, to) {
    return Array.from({length: Math.max(0, to - from)}, (_, k) => from + k);
}

/** Where each row of a shape begins in an array of a shape of its own that broadcasts to it. */
function starts(shape, own) {
    const at = new Int32Array(size(shape.slice(0, -1)));
    let stride = own.length ? own[own.length - 1] : 1, done = 1;
    for (let k = shape.length - 2; k >= 0; k--) {
        const n = own[k - shape.length + own.length] ?? 1, step = n === 1 ? 0 : stride;
        for (let i = 1; i < shape[k]; i++)
            for (let j = 0; j < done; j++) at[i * done + j] = at[j] + i * step;
        done *= shape[k];
        stride *= n;
    }
    return at;
}

/** How arrays are walked together: rows of a width, where each row begins, and its step. */
function fitted(...parts) {
    const shapes = parts.map(shape_of), shape = common(shapes), total = size(shape);
    if (shapes.every((s) => size(s) === total || size(s) === 1)) {
        const one = new Int32Array(1);
        const steps = shapes.map((s) => (size(s) === 1 ? 0 : 1));
        return {shape, rows: 1, width: total, from: parts.map(() => one), steps};
    }
    const width = shape[shape.length - 1];
    return {
        shape, rows: width ? total / width : 0, width,
        from: shapes.map((s) => starts(shape, s)),
        steps: shapes.map((s) => ((s[s.length - 1] ?? 1) === 1 ? 0 : 1)),
    };
}

/** The entries of one array where a test holds, and of another where it does not. */
function where(test, a, b) {
    const {shape, rows, width, from: [t, s, u], steps: [o, p, q]} = fitted(test, a, b);
    const w = data_of(test), x = data_of(a), y = data_of(b), out = new Float64Array(rows * width);
    for (let r = 0, k = 0; r < rows; r++) {
        for (let h = t[r], i = s[r], j = u[r], end = k + width; k < end; k++, h += o, i += p, j += q)
            out[k] = w[h] !== 0 ? x[i] : y[j];
    }
    return made(shape, out);
}

/** The error function: its series without signs, which loses no digits. */
function erf_of(x) {
    if (!(Math.abs(x) < 6)) return x > 0 ? 1 : x < 0 ? -1 : x;
    let term = x, sum = x;
    for (let k = 1; Math.abs(term) > 1e-17 * Math.abs(sum); k++) {
        term *= (2 * x * x) / (2 * k + 1);
        sum += term;
    }
    return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

/** x to the power of y, as C and Python have it at 1 and at infinity. */
function power_of(x, y) {
    return x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x ** y;
}

/** The remainder that has the sign of y. */
function mod_of(x, y) {
    const r = x % y;
    return r !== 0 && r < 0 !== y < 0 ? r + y : r;
}

/** The entries of an array that lie along an axis: how many before, along and after it. */
function along(a, axis) {
    const k = axis < 0 ? axis + a.shape.length : axis;
    const before = a.shape.slice(0, k), after = a.shape.slice(k + 1);
    return {before, n: a.shape[k], after, outer: size(before), inner: size(after)};
}

/** The mean along an axis. */
function mean(a, axis, keepdims = false) {
    return div(sum(a, axis, keepdims), along(a, axis).n);
}

/** Where the greatest entry along an axis is, the first of several. */
function argmax(a, axis) {
    const {before, n, after, outer, inner} = along(a, axis);
    const out = new Float64Array(outer * inner);
    for (let i = 0; i < outer; i++) {
        for (let k = 0; k < inner; k++) {
            let best = 0;
            for (let j = 1; j < n; j++) {
                const v = a.data[(i * n + j) * inner + k], top = a.data[(i * n + best) * inner + k];
                if (v > top || (v !== v && top === top)) best = j;
            }
            out[i * inner + k] = best;
        }
    }
    return made([...before, ...after], out);
}

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

/** The array with its axes in another order. */
function permuted(a, order) {
    const shape = order.map((k) => a.shape[k]);
    const strides = a.shape.map((_, k) => size(a.shape.slice(k + 1)));
    return collected(a.data, shape, order.map((k) => spaced(a.shape[k], strides[k])), 0);
}

/** Two axes in each other's place. */
function swapaxes(a, i, j) {
    const order = a.shape.map((_, k) => k), n = order.length;
    [order[(i + n) % n], order[(j + n) % n]] = [(j + n) % n, (i + n) % n];
    return permuted(a, order);
}

/** The last two axes in each other's place. */
function transposed(a) {
    return a.shape.length < 2 ? a : swapaxes(a, -2, -1);
}

/** Axes put into other places. */
function moveaxis(a, source, goal) {
    const n = a.shape.length, from = [source].flat().map((k) => (k + n) % n);
    const order = a.shape.map((_, k) => k).filter((k) => !from.includes(k));
    const pairs = [goal].flat().map((k, i) => [(k + n) % n, from[i]]).sort((x, y) => x[0] - y[0]);
    for (const [k, axis] of pairs) order.splice(k, 0, axis);
    return permuted(a, order);
}

/** The same entries in another shape, in which one length may be −1. */
function reshape(a, shape) {
    const data = data_of(a), known = -size(shape);
    return made(shape.map((n) => (n === -1 ? data.length / known : n)), data);
}

/** The array repeated along the axes that it lacks. */
function broadcast_to(a, shape) {
    const goal = [shape].flat(), own = shape_of(a), lacking = goal.length - own.length;
    if (lacking < 0 || String(common([goal, own])) !== String(goal))
        throw new Error(`an array of the shape (${own}) does not fit into (${goal})`);
    const tables = goal.map((n, k) => {
        const k_own = k - lacking;
        return spaced(n, k_own < 0 || own[k_own] === 1 ? 0 : size(own.slice(k_own + 1)));
    });
    return collected(data_of(a), goal, tables, 0);
}

/** Arrays, each repeated along the axes that it lacks and others have. */
function broadcast_arrays(...parts) {
    const shape = common(parts.map(shape_of));
    return parts.map((x) => broadcast_to(x, shape));
}

/** Arrays one after the other along an axis; those of one array are its rows. */
function concatenate(parts, axis = 0) {
    const each = Array.isArray(parts) ? parts : members(parts);
    const {before, after, outer, inner} = along(each[0], axis);
    const lengths = each.map((x) => along(x, axis).n * inner), n = lengths.reduce((s, k) => s + k, 0);
    const out = new Float64Array(outer * n);
    for (let i = 0, to = 0; i < outer; i++) {
        for (let k = 0; k < each.length; to += lengths[k++])
            out.set(each[k].data.subarray(i * lengths[k], (i + 1) * lengths[k]), to);
    }
    return made([...before, n / inner, ...after], out);
}

/** What an array has along its first axis, one after the other. */
function members(a) {
    return Array.from({length: a.shape[0]}, (_, k) => pick(a, k));
}

/** Arrays of one shape as one array with an axis in front. */
function stack(parts) {
    const each = broadcast_arrays(...parts), shape = shape_of(each[0]), n = size(shape);
    const out = new Float64Array(each.length * n);
    each.forEach((x, k) => out.set(data_of(x), k * n));
    return made([each.length, ...shape], out);
}

/** Side by side, each repeated along the axes that others have in front. */
function beside(...parts) {
    const lead = common(parts.map((x) => x.shape.slice(0, -1)));
    return concatenate(parts.map((x) => broadcast_to(x, [...lead, x.shape.at(-1)])), -1);
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

/** An array of one number. */
function full(shape, value) {
    const goal = [shape].flat();
    return made(goal, new Float64Array(size(goal)).fill(value));
}

/** Zeros of a shape. */
function zeros(shape) {
    return full(shape, 0);
}

/** Ones of a shape. */
function ones(shape) {
    return full(shape, 1);
}

/** An array of one number, in the shape of another. */
function full_like(a, value) {
    return full(shape_of(a), value);
}

/** The unit matrix. */
function eye(n) {
    const out = zeros([n, n]);
    for (let k = 0; k < n; k++) out.data[k * n + k] = 1;
    return out;
}

/** Whole numbers from a first one, or 0, up to the one before the last. */
function arange(from, to) {
    const [low, high] = to === undefined ? [0, from] : [from, to];
    return made([Math.max(0, high - low)], Float64Array.from(spaced(Math.max(0, high - low), 1, low)));
}

/** Rows of 0 with a 1 at each place; of a place outside, of 0 alone. */
function onehot(t, n) {
    const at = data_of(t), out = new Float64Array(at.length * n);
    for (let k = 0; k < at.length; k++) if (at[k] >= 0 && at[k] < n) out[k * n + at[k]] = 1;
    return made([...shape_of(t), n], out);
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
    for (let i = 0; i < outer; i++)
        out.set(y.data.subarray(i * n * inner, (i + 1) * n * inner), (i * m + s) * inner);
    return made([...before, m, inner], out);
}
