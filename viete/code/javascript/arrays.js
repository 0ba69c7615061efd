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
    const data = Float64Array.from(shape.length > 1 ? Array.from(x).flat(Infinity) : x);
    if (data.length !== size(shape)) throw new Error("the rows of an array are not of one length");
    return made(shape, data);
}

/**
 * An argument of this shape, in which a length that it decides has a name; blocks have each their
 * own. With a most it is whole numbers from least to most, or also is one.
 */
function checked(x, name, shape, least, most, also = least) {
    if (x === null || x === undefined) throw new Error(`${name} is missing`);
    if (!Array.isArray(shape)) {
        const each = Object.entries(shape);
        return Object.fromEntries(each.map(([i, s]) => [i, checked(x[i], `${name}[${i}]`, s, least, most)]));
    }
    const found = array(x), there = shape_of(found);
    const fits = (n, k) => (typeof shape[k] === "string" ? n > 0 : n === shape[k]);
    if (there.length !== shape.length || !there.every(fits))
        throw new Error(`${name} has the shape (${there}), and the card says (${shape})`);
    for (const k of most === undefined ? [] : data_of(found)) {
        if (!(Number.isInteger(k) && k >= least && k <= most) && k !== also)
            throw new Error(`${name} holds ${k}, and is made of whole numbers from ${least} to ${most}`);
    }
    return found;
}

/** Parameters, refused where one is missing or has another shape than the card's. */
function complete(params, shapes) {
    for (const [name, shape] of Object.entries(shapes)) checked(params[name], name, shape);
    return params;
}

/** Whole numbers from a first one to the one before the last, as a list. */
function range(from, to) {
    return Array.from({length: Math.max(0, to - from)}, (_, k) => from + k);
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

/** The same entries in another shape, in which one length may be −1. */
function reshape(a, shape) {
    const data = data_of(a), known = -size(shape);
    return made(shape.map((n) => (n === -1 ? data.length / known : n)), data);
}
