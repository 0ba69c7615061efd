// The matrix product: loops over typed arrays, and for larger matrices a kernel in WebAssembly, which
// computes two numbers with one instruction and which the module assembles itself.

/**
 * The bytes of a kernel: the product of two matrices in its memory, 4 rows by 4 columns at a time. Its
 * arguments are where they begin, where the product is to stand, where the first one ends, and how
 * many bytes a row of each has. With `fused` a product and its sum are one instruction.
 */
function kernel_code(fused) {
    const [a, b, c, stop, wide, step, j, u, v, w] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], sums = 10;
    const [left, right, x] = [18, 19, 20], each = [0, 1, 2, 3];
    const local = (k) => [0x20, k], set = (k, ...code) => [code, 0x21, k], number = (k) => [0x41, k];
    const plus = (x, y) => [x, y, 0x6a], times = (x, y) => [x, y, 0x6c];
    const load = (k, offset) => [local(k), 0xfd, 0, 3, offset], spread = (k) => [local(k), 0xfd, 10, 3, 0];
    const store = (k, offset, value) => [local(k), local(value), 0xfd, 11, 3, offset];
    const loop = (body, k, end) => [0x03, 0x40, body, local(k), end, 0x49, 0x0d, 0, 0x0b];
    const more = (k, y) => set(k, fused
        ? [local(x), local(y), local(k), 0xfd, 0x87, 2]
        : [local(k), local(x), local(y), 0xfd, 0xf2, 1, 0xfd, 0xf0, 1]);
    const inner = loop([
        set(left, load(v, 0)), set(right, load(v, 16)), set(w, local(u)),
        each.map((r) => [
            set(x, spread(w)), more(sums + 2 * r, left), more(sums + 2 * r + 1, right),
            set(w, plus(local(w), local(wide))),
        ]),
        set(u, plus(local(u), number(8))), set(v, plus(local(v), local(step))),
    ], u, plus(local(a), local(wide)));
    const columns = loop([
        [0, 1, 2, 3, 4, 5, 6, 7].map((k) => set(sums + k, 0xfd, 12, new Array(16).fill(0))),
        set(u, local(a)), set(v, plus(local(b), local(j))), inner, set(w, plus(local(c), local(j))),
        each.map((r) => [
            store(w, 0, sums + 2 * r), store(w, 16, sums + 2 * r + 1), set(w, plus(local(w), local(step))),
        ]),
        set(j, plus(local(j), number(32))),
    ], j, local(step));
    const rows = loop([
        set(j, number(0)), columns, set(a, plus(local(a), times(local(wide), number(4)))),
        set(c, plus(local(c), times(local(step), number(4)))),
    ], a, local(stop));
    const counted = (...parts) => {
        const code = parts.flat(Infinity);
        return [(code.length % 128) + 128, code.length >> 7, ...code];
    };
    const code = counted(2, 4, 0x7f, 11, 0x7b, rows, 0x0b);
    return Uint8Array.from([
        0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
        [1, counted(1, 0x60, 6, new Array(6).fill(0x7f), 0)], [3, counted(1, 0)], [5, counted(1, 0, 1)],
        [7, counted(2, 1, 0x6d, 2, 0, 1, 0x66, 0, 0)], [10, counted(1, code)],
    ].flat(Infinity));
}

/** The kernel, ready to run; null where there is none, or a page may not run it. */
function kernel() {
    if (kernel.made === undefined) {
        kernel.made = null;
        try {
            const code = [true, false].map(kernel_code).find((x) => WebAssembly.validate(x));
            kernel.made = code ? new WebAssembly.Instance(new WebAssembly.Module(code)).exports : null;
        } catch {
            // Without WebAssembly there are the loops.
        }
    }
    return kernel.made;
}

/**
 * The product in the kernel's memory, where n and p are filled up to multiples of 4. With `again` the
 * first matrix is that of the product before, and is there.
 */
function multiply_fast({m: memory, f: run}, again, x, a, y, b, out, c, n, m, p) {
    const high = (n + 3) & ~3, wide = (p + 3) & ~3, second = high * m, third = second + m * wide;
    const lacking = 8 * (third + high * wide) - memory.buffer.byteLength;
    if (lacking > 0) memory.grow(Math.ceil(lacking / 65536));
    const all = new Float64Array(memory.buffer);
    if (!again) all.set(x.subarray(a, a + n * m));
    if (wide === p) all.set(y.subarray(b, b + m * p), second);
    else for (let k = 0; k < m; k++) all.set(y.subarray(b + k * p, b + (k + 1) * p), second + k * wide);
    run(0, 8 * second, 8 * third, 8 * second, 8 * m, 8 * wide);
    if (wide === p) out.set(all.subarray(third, third + n * p), c);
    else {
        for (let i = 0; i < n; i++)
            out.set(all.subarray(third + i * wide, third + i * wide + p), c + i * p);
    }
}

/** Adds the product of n × m and m × p numbers, from x at a and y at b, to out at c. */
function multiply(x, a, y, b, out, c, n, m, p) {
    let i = 0;
    for (; i + 1 < n; i += 2) {
        const a0 = a + i * m, a1 = a0 + m, c0 = c + i * p, c1 = c0 + p;
        let k = 0;
        for (; k + 3 < m; k += 4) {
            const u0 = x[a0 + k], u1 = x[a0 + k + 1], u2 = x[a0 + k + 2], u3 = x[a0 + k + 3];
            const v0 = x[a1 + k], v1 = x[a1 + k + 1], v2 = x[a1 + k + 2], v3 = x[a1 + k + 3];
            const b0 = b + k * p, b1 = b0 + p, b2 = b1 + p, b3 = b2 + p;
            for (let j = 0; j < p; j++) {
                const y0 = y[b0 + j], y1 = y[b1 + j], y2 = y[b2 + j], y3 = y[b3 + j];
                out[c0 + j] += u0 * y0 + u1 * y1 + u2 * y2 + u3 * y3;
                out[c1 + j] += v0 * y0 + v1 * y1 + v2 * y2 + v3 * y3;
            }
        }
        for (; k < m; k++) {
            const u = x[a0 + k], v = x[a1 + k], b0 = b + k * p;
            for (let j = 0; j < p; j++) {
                out[c0 + j] += u * y[b0 + j];
                out[c1 + j] += v * y[b0 + j];
            }
        }
    }
    for (; i < n; i++) {
        for (let k = 0; k < m; k++) {
            const u = x[a + i * m + k], b0 = b + k * p, c0 = c + i * p;
            for (let j = 0; j < p; j++) out[c0 + j] += u * y[b0 + j];
        }
    }
}

/** The matrix product of the last two axes; a row or a column may stand in for a matrix. */
function matmul(a, b) {
    const s = a.shape.length === 1 ? [1, ...a.shape] : a.shape;
    const t = b.shape.length === 1 ? [...b.shape, 1] : b.shape;
    const [n, m] = s.slice(-2), [l, p] = t.slice(-2);
    if (m !== l) throw new Error(`matrices of the shapes (${a.shape}) and (${b.shape}) have no product`);
    const lead = common([s.slice(0, -2), t.slice(0, -2)]), each = [...lead, 1];
    const from = starts(each, [...s.slice(0, -2), 1]), to = starts(each, [...t.slice(0, -2), 1]);
    const out = new Float64Array(from.length * n * p);
    const fast = n * m * p >= 4096 ? kernel() : null;
    for (let k = 0; k < from.length; k++) {
        const both = [a.data, from[k] * n * m, b.data, to[k] * m * p, out, k * n * p, n, m, p];
        if (fast) multiply_fast(fast, k > 0 && from[k] === from[k - 1], ...both);
        else multiply(...both);
    }
    const core = [...(a.shape.length > 1 ? [n] : []), ...(b.shape.length > 1 ? [p] : [])];
    return made([...lead, ...core], out);
}
