// Functions of rows of scores, random numbers, names of values, Adam.

/** exp, without computing what is less than the least positive number: a masked score's is 0. */
function exp_of(x) {
    return x < -746 ? 0 : Math.exp(x);
}

/** The largest entry of a row that begins at a place; taking it out of exp leaves no overflow. */
function top_of(x, at, n) {
    let top = -Infinity;
    for (let k = at; k < at + n; k++) if (x[k] > top) top = x[k];
    return top;
}

/** Probabilities of a row of scores. */
function softmax(z) {
    const n = z.shape.at(-1), x = z.data, out = new Float64Array(x.length);
    for (let at = 0; at < x.length; at += n) {
        const top = top_of(x, at, n);
        let total = 0;
        for (let k = at; k < at + n; k++) total += out[k] = exp_of(x[k] - top);
        for (let k = at; k < at + n; k++) out[k] /= total;
    }
    return made(z.shape, out);
}

/** The k greatest entries of each row, of equal ones the first, and 0 in place of the others. */
function top(z, k) {
    const n = z.shape.at(-1), x = z.data, out = new Float64Array(x.length);
    for (let at = 0; at < x.length; at += n) {
        const order = Array.from({length: n}, (_, j) => at + j).sort((i, j) => x[j] - x[i] || i - j);
        for (const place of order.slice(0, k)) out[place] = x[place];
    }
    return made(z.shape, out);
}

/** Logarithms of softmax, without taking one of a probability that has become 0. */
function logsoftmax(z) {
    return sub(z, logsumexp(z, true));
}

/** The logarithm of the sum of exp. */
function logsumexp(z, keepdims = false) {
    const n = z.shape.at(-1), x = z.data, rows = z.shape.slice(0, -1), out = new Float64Array(size(rows));
    for (let r = 0; r < out.length; r++) {
        const top = top_of(x, r * n, n);
        let total = 0;
        for (let k = r * n; k < (r + 1) * n; k++) total += exp_of(x[k] - top);
        out[r] = top + Math.log(total);
    }
    return made(keepdims ? [...rows, 1] : rows, out);
}

/** Mean negative log-probability of the targets; −100 is no target. */
function cross_entropy(z, t) {
    const all = logsumexp(z), width = z.shape.at(-1);
    let sum = 0, count = 0;
    for (let j = 0; j < t.data.length; j++) {
        if (t.data[j] === -100) continue;
        sum += all.data[j] - z.data[j * width + place(t.data[j], width)];
        count++;
    }
    return sum / count;
}

/** Random numbers of a seed: draws of a shape, normal, uniform or Glorot's (splitmix32; Box and Muller). */
function generator(seed) {
    let state = seed | 0;
    const next = () => {
        state = (state + 0x9e3779b9) | 0;
        let t = state ^ (state >>> 16);
        t = Math.imul(t, 0x21f0aaad);
        t = Math.imul(t ^ (t >>> 15), 0x735a2d97);
        return ((t ^ (t >>> 15)) >>> 0) / 2 ** 32;
    };
    const drawn = (shape, draw) => {
        const goal = [shape].flat();
        return made(goal, Float64Array.from({length: size(goal)}, draw));
    };
    const bell = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
    const uniform = (low, high, shape) => drawn(shape, () => low + (high - low) * next());
    return {
        uniform,
        normal: (mean, spread, shape) => drawn(shape, () => mean + spread * bell()),
        xavier: (...shape) => {
            const [rows, columns] = shape.slice(-2), bound = Math.sqrt(6 / (rows + columns));
            return uniform(-bound, bound, shape);
        },
    };
}

/** The weight of a name. */
function weight(weights, name) {
    if (weights[name] === undefined) throw new Error(`the weight ${name} is missing`);
    return weights[name];
}

/** Values by other names; those of each block one by one. */
function named(made, names) {
    const out = {}, value = (x) => (typeof x === "boolean" ? Number(x) : x);
    for (const [key, name] of Object.entries(names)) {
        if (made[key] === undefined) continue;
        if (typeof name === "string") out[name] = value(made[key]);
        else for (const i in made[key]) out[name(...i.split(","))] = value(made[key][i]);
    }
    return out;
}

/** One step of Adam (Kingma & Ba 2015, algorithm 1), in place; state is an empty object at first. */
function adam(params, grads, state, rate = 0.01, beta_1 = 0.9, beta_2 = 0.999, tiny = 1e-8) {
    const k = (state.k = (state.k ?? 0) + 1), whole_1 = 1 - beta_1 ** k, whole_2 = 1 - beta_2 ** k;
    const step = (owner, key, grad, name) => {
        if (typeof grad === "object" && !grad.shape) {
            for (const i in grad) step(owner[key], i, grad[i], `${name} ${i}`);
            return;
        }
        const g = data_of(grad), p = data_of(owner[key]);
        const [m, v] = (state[name] ??= [new Float64Array(g.length), new Float64Array(g.length)]);
        for (let j = 0; j < g.length; j++) {
            m[j] += (1 - beta_1) * (g[j] - m[j]);
            v[j] += (1 - beta_2) * (g[j] * g[j] - v[j]);
            p[j] -= (rate * m[j]) / whole_1 / (Math.sqrt(v[j] / whole_2) + tiny);
        }
        if (typeof owner[key] === "number") owner[key] = p[0];
    };
    for (const name in grads) step(params, name, grads[name], name);
}
