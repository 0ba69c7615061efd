// Arrays of different shapes, walked together: what lacks an axis, or has one of length 1, is repeated.

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
        let h = t[r], i = s[r], j = u[r];
        const end = k + width, v = y[j];
        if (o && p && !q) for (h -= k, i -= k; k < end; k++) out[k] = w[h + k] !== 0 ? x[i + k] : v;
        else for (; k < end; k++, h += o, i += p, j += q) out[k] = w[h] !== 0 ? x[i] : y[j];
    }
    return made(shape, out);
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
