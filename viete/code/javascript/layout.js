// The same entries in another order, and arrays put together.

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
    if (a.shape.length < 2) return a;
    const {before, n, outer, inner} = along(a, -2), x = a.data, out = new Float64Array(x.length);
    for (let o = 0, k = 0; o < outer; o++) {
        for (let i = 0; i < n; i++)
            for (let j = 0, at = o * n * inner + i; j < inner; j++, k++, at += n) out[at] = x[k];
    }
    return made([...before, inner, n], out);
}

/** Axes put into other places. */
function moveaxis(a, source, goal) {
    const n = a.shape.length, from = [source].flat().map((k) => (k + n) % n);
    const order = a.shape.map((_, k) => k).filter((k) => !from.includes(k));
    const pairs = [goal].flat().map((k, i) => [(k + n) % n, from[i]]).sort((x, y) => x[0] - y[0]);
    for (const [k, axis] of pairs) order.splice(k, 0, axis);
    return permuted(a, order);
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
