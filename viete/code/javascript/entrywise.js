// What is computed of single entries, and along an axis.

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
    if (y === 2) return x * x;
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
