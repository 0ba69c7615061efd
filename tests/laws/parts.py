"""The parts of random transformers: attention of every kind, loops over blocks, losses.

`tests/laws/programs.py` writes the formulas between them.
"""

from __future__ import annotations

from tests.laws.programs import RANGES, Named, Writer

STREAM = ("n", "d")
# What a row of scores may become besides a softmax; {0} is the row, masked by -∞.
NORMALISED = (
    "softmax({0})", "softmax({0})", "softmax({0})", "sigmoid({0})",
    "exp({0}) / (1 + sum(exp({0})))", "softmax({0}) ⊙ sigmoid(logsumexp({0}) - 1/2)",
    "exp({0} - logsumexp({0}))", "ReLU({0})^2", "ReLU({0})^2 / (1 + sum(ReLU({0})^2))",
    "ReLU({0}) / n", "exp({0}) / sqrt(1 + sum(exp({0})^2))",
)  # fmt: skip
# Masks, of the scores {0}; {1} is an entry of them.
MASKS = (
    "{0}", "causal({0})", "causal({0})", "window({0}; 2)", "visible({0}; a)",
    "table_{{j<n, l<n}}(where(l <= j or l = 0, {1}, -inf))",
    "table_{{j<n, l<n}}(where(j - l < 2, {1}, -inf))",
    "table_{{j<n, l<n}}(where(t_j = t_l, {1}, -inf))",
    "table_{{j<n, l<n}}(where(a_l = 1 or l = j, {1}, -inf))",
    "table_{{j<n, l<n}}(where(l <= j, {1} - (j - l) / 2, -inf))",
)  # fmt: skip


def write(w: Writer, size: int) -> str:
    """The whole card."""
    dims(w)
    tokens = w.chance(0.85)
    w.taken |= {"x", "L", "logits"}
    if tokens:
        w.inputs.append(r"$t ∈ \{0, …, V-1\}^n$")
        w.has.add("tokens")
    if not tokens or w.chance(0.3):
        shape = w.one(("n", "d"), ("n", "k")) if tokens else ("n", "d")
        real = Named("ξ", shape)
        w.inputs.append(rf"$ξ ∈ ℝ^{{n \times {shape[1]}}}$")
        w.known.append(real)
        w.has.add("real")
    if w.chance(0.4):
        w.inputs.append(r"$a ∈ \{0, 1\}^n$")
        w.has.add("a")
    stream = embedded(w, tokens)
    parts = [attention, attention, families, across, mlp, free, free, free, narrow, pooled, linear]
    for _ in range(size):
        if w.chance(0.3) and len(w.loops) < 2:
            stream = blocks(w, stream, parts)
        else:
            made = w.one(*parts)(w, stream)
            if made is not None and made.shape == STREAM and not made.slots and w.chance(0.7):
                stream = made
    loss(w, stream, tokens)
    if w.chance(0.4):
        letters = w.one((), ("s",), ("h",))
        right = w.grow(w.one(("n", "d"), ("d",), ()), 2, w.force(*letters))
        w.derived.append(f"- ${Named(w.base(), (), letters).own} = {right}$")
    return page(w)


def dims(w: Writer) -> None:
    """The sizes: of one, often, and often equal."""
    w.sizes = {
        "V": w.rng.randint(2, 5), "S": w.rng.randint(1, 3), "H": w.rng.randint(1, 3),
        "k": w.one(1, 2, 2), "m": w.one(1, 2, 3), "G": w.rng.randint(1, 2),
        "R": w.rng.randint(1, 2),
    }  # fmt: skip
    # Half the cards have d = H k, so that heads can stand side by side.
    w.wide = w.chance(0.6)
    w.sizes["d"] = w.sizes["H"] * w.sizes["k"] if w.wide else w.one(1, 2, 3, 4)


def embedded(w: Writer, tokens: bool) -> Named:
    """The start of the stream."""
    if not tokens:
        start = f"ξ {w.parameter('d', 'd').own}"
    else:
        start = f"{w.parameter('V', 'd').own}[t]"
        if w.chance(0.5):
            start += w.one(f" + {w.parameter('9', 'd').own}[:n]", " + sinusoidal(n, d)")
    return w.say(start, STREAM)


def normed(w: Writer, x: str) -> str:
    """A value behind a norm, perhaps with a scale and a shift to learn."""
    kind = w.one("", "LN", "RMSNorm")
    if not kind:
        return x
    scale = w.parameter("d").own if w.chance(0.5) else "1"
    shift = (w.parameter("d").own if w.chance(0.5) else "0") + ", " if kind == "LN" else ""
    return f"{kind}({x}; {scale}, {shift}1/8)"


def state(w: Writer, x: Named) -> str:
    """How a value is read here: within a loop, the stream is that of the block before."""
    found = w.member(x, w.force())
    assert found is not None
    return found


def attention(w: Writer, x: Named) -> Named:
    """Heads, perhaps in groups, that look at positions."""
    w.has.add("attention")
    heads, groups = w.one((("h",), ("h",)), (("g", "r"), ("g",)), ((), ()))
    read = w.say(normed(w, state(w, x)), STREAM)
    rows = {}
    for what, letters in (("query", heads), ("key", groups), ("value", groups)):
        weight = w.parameter("d", "k", slots=letters, looped=True)
        line = f"{read.own} {weight.own}"
        if what != "value" and w.sizes["k"] == 2 and w.chance(0.3):
            line = f"RoPE({line})"
        rows[what] = w.say(line, ("n", "k"), letters)
    q, k, v = rows["query"].own, rows["key"].own, rows["value"].own
    scores = w.say(f"{q} {{{k}}}^⊤ / \\sqrt{{k}}", ("n", "n"), heads)
    masks = [x for x in MASKS if ("a" in w.has or ("a_l" not in x and "; a" not in x))
             and ("tokens" in w.has or "t_j" not in x)]  # fmt: skip
    mask = w.one(*masks)
    seen = mask.format(scores.own, f"{scores.own}[j, l]")
    if mask != "{0}" and w.chance(0.5):
        seen = w.say(seen, ("n", "n"), heads).own
    pattern = w.say(w.one(*NORMALISED).format(seen), ("n", "n"), heads)
    if w.chance(0.5) or not heads:
        out = w.say(f"{pattern.own} {v}", ("n", "k"), heads).own
    else:
        out = f"{pattern.own} {v}"
    into = w.parameter("k", "d", slots=heads)
    total = "".join(rf"\sum_{x} " for x in heads) + f"{out} {into.own}"
    if heads == ("h",) and w.wide and w.chance(0.4):
        total = f"concat_h({out})"
    return w.say(total if w.chance(0.4) else f"{state(w, x)} + {total}", STREAM)


def linear(w: Writer, x: Named) -> Named:
    """Linear attention, and means over positions."""
    read = state(w, x)
    kind = w.one("linear", "causal mean", "mean", "shifted")
    if kind == "linear":
        w.has.add("linear attention")
        f = w.one("exp({})", "(1 + ReLU({}))", "sigmoid({})")
        q, k, v = (w.say(form.format(f"{read} {w.parameter('d', 'k').own}"), ("n", "k"))
                   for form in (f, f, "{}"))  # fmt: skip
        whole = f"{q.own} ({{{k.own}}}^⊤ {v.own})"
        if w.chance(0.6):
            ones = rf"(sum_{{j=0}}^{{n-1}}({k.own}[j]))"
            whole = f"({whole}) / ({q.own} ({ones}) + 1)[:n]" if w.chance(0.3) else f"({whole}) / n"
            if "[:n]" in whole:
                whole = rf"({q.own} ({{{k.own}}}^⊤ {v.own})) / (1 + sum({q.own}))"
        return w.say(f"({whole}) {w.parameter('k', 'd').own}", STREAM)
    form = {
        "causal mean": "table_{{j<n, c<d}}("
        "sum_{{l=0}}^{{n-1}}(where(l <= j, {0}[l, c], 0)) / (j + 1))",
        "mean": "{0} - mean_{{l=0}}^{{n-1}}({0}[l])",
        "shifted": "table_{{j<n, c<d}}(where(j > 0, {0}[max(j - 1, 0), c], 0))",
    }[kind]  # fmt: skip
    return w.say(form.format(read), STREAM)


def families(w: Writer, x: Named) -> Named:
    """Values numbered by letters, mixed by another letter of their range."""
    w.has.add("families")
    a, b = w.one(("s", "q"), ("q", "s"))
    z = w.say(f"{state(w, x)} {w.parameter('d', 'd', slots=(a,)).own}", STREAM, (a,))
    mixed = w.parameter("S", "S")
    weight = w.one(f"{mixed.own}[{b} - 1, {a} - 1]", f"{mixed.own}[{a} - 1, {b} - 1]",
                   w.parameter(slots=w.one((a, b), (b, a))).own)  # fmt: skip
    # The sum may run over the letter that the family was declared with.
    left, over = w.one((a, b), (b, a))
    y = w.say(rf"\sum_{over} ({weight} * {z.at(*z.slots[:-1], over)})", STREAM, (left,))
    own = y.slots[-1]
    kind = w.one("sum", "mean", "max", "nested", "shifted", "product")
    g = w.parameter("d", "d", slots=(own,))
    if kind == "nested":
        return w.say(rf"\sum_{own} (\sum_{own} {y.own} {g.own}) {g.own}", STREAM)
    if kind == "shifted" and w.sizes["S"] > 1:
        at = y.at(*y.slots[:-1], f"{own} - 1")
        return w.say(rf"sum_{{{own}=2}}^{{S}}({own} * {at})", STREAM)
    if kind == "product":
        at_a, at_b = (y.at(*y.slots[:-1], k) for k in (a, b))
        return w.say(rf"\sum_{a} \sum_{b} ({at_a} ⊙ tanh({at_b}))", STREAM)
    op = {"sum": rf"\sum_{own} {y.own}", "mean": f"mean_{own}({y.own})"}
    return w.say(op.get(kind, f"max_{own}({y.own})"), STREAM)


def across(w: Writer, x: Named) -> Named:
    """Attention across a family: who of the members looks at whom."""
    w.has.add("across")
    z = w.say(f"{state(w, x)} {w.parameter('d', 'k', slots=('s',)).own}", ("n", "k"), ("s",))
    rest = z.slots[:-1]
    zs, zq = z.at(*rest, "s"), z.at(*rest, "q")
    e = w.say(f"sum({zs} ⊙ {zq})", ("n", "1"), w.one(("s", "q"), ("q", "s")))
    at = {"s": "s", "q": "q"}
    own = e.at(*rest, *(at[x] for x in e.slots[len(rest) :]))
    weights = w.say(w.one(
        rf"exp({own}) / (\sum_q exp({own}))", f"sigmoid({own})",
        rf"exp({own} - max_q({own}))", f"tanh({own}) / S",
    ), ("n", "1"), ("s", "q"))  # fmt: skip
    y = w.say(rf"\sum_q ({weights.own} ⊙ {zq})", ("n", "k"), ("s",))
    return w.say(rf"\sum_s {y.own} {w.parameter('k', 'd', slots=('s',)).own}", STREAM)


def mlp(w: Writer, x: Named) -> Named:
    w.use("bump")
    f = w.one("ReLU", "GELU", "SiLU", "tanh", "bump")
    inner = f"{f}({state(w, x)} {w.parameter('d', 'm').own} + {w.parameter('m').own})"
    return w.say(f"{state(w, x)} + {inner} {w.parameter('m', 'd').own}", STREAM)


def free(w: Writer, x: Named) -> Named:
    """A formula of any kind, perhaps of a family."""
    letters = w.one((), (), ("s",), ("q",), ("s", "q"), ("h",), ("g", "r"))
    shape = w.one(STREAM, STREAM, ("n", "k"), ("d",), ("k",), ("S", "S"), ("n", "n"), ("n", "1"),
                  ("1",), (), ("m", "d"), ("n",))  # fmt: skip
    return w.say(w.grow(shape, w.rng.randint(1, 4), w.force(*letters)), shape, letters)


def narrow(w: Writer, x: Named) -> Named:
    """Columns, vectors of one number, and rows of columns."""
    w.has.add("narrow")
    v = state(w, x)
    form = w.one("{0}[0] / (1 + |{0}|[0])", "{0}[0] - mean({0})[0]", "{0}[-1] / (2 + |{0}|)[0]",
                 "{0}[0] ⊙ max({0})[0]")  # fmt: skip
    row = w.say(form.format(v), ("d",))
    return w.say(f"{v} {w.one('+', '⊙')} {row.own}", STREAM)


def pooled(w: Writer, x: Named) -> Named:
    """A vector of the whole text."""
    v = state(w, x)
    form = w.one("mean_{{j=0}}^{{n-1}}({0}[j])", "{0}[-1]", "{0}[0]", "max_{{j=0}}^{{n-1}}({0}[j])",
                 "sum_{{j=0}}^{{n-1}}({0}[j] / (j + 1))")  # fmt: skip
    return w.say(form.format(v), ("d",))


def blocks(w: Writer, x: Named, parts: list) -> Named:  # type: ignore[type-arg]
    """A loop over blocks, from 1 or from elsewhere."""
    letter = next(k for k in "io" if k not in w.loops)
    first, turns = w.one(1, 1, 1, 2, 3), w.one(1, 2, 2, 3)
    last = str(first + turns - 1)
    if w.chance(0.5) and f"N_{letter}" not in w.sizes:
        w.sizes[f"N_{letter}"] = first + turns - 1
        last = f"N_{letter}"
    w.has.add("loop" if first == 1 else "loop from elsewhere")
    name = w.base()
    w.equations.append(f"1. ${name}^{{{first - 1}}} = {x.own}$")
    w.equations += ["", f"For ${letter} = {first}, …, {last}$:", ""]
    w.loop = (letter, first, last)
    stream = Named(name, STREAM, (letter,), first - 1)
    w.known.append(stream)
    made = stream
    for _ in range(w.one(1, 1, 2)):
        found = w.one(*(p for p in parts if p is not pooled))(w, made)
        made = found if found.shape == STREAM and found.slots == (letter,) else made
    before = stream.at(f"{letter}-1")
    right = f"{before} + tanh({made.own})" if made is not stream else f"tanh({before} + {letter})"
    w.equations.append(f"1. ${stream.own} = {right}$")
    w.equations.append("")
    w.loops[letter] = w.loop
    w.loop = None
    return w.say(stream.at(last), STREAM)


def loss(w: Writer, x: Named, tokens: bool) -> None:
    """One number, made of the stream and of what nothing else reads."""
    kind = w.one("cross_entropy", "cross_entropy", "own", "own", "square") if tokens else "square"
    if kind != "square":
        w.inputs.append(r"$y ∈ \{0, …, V-1\}^n$")
        w.has.add("y")
        logits = w.say(f"{x.own} {w.parameter('d', 'V').own}", ("n", "V"), base="logits")
        line = "cross_entropy(logits; y)"
        if kind == "own":
            line = "mean_{j=0}^{n-1}(logsumexp(logits_j) - logits_{j, y_j})"
        assert logits
    else:
        line = f"mean_{{j=0}}^{{n-1}}(mean(({x.own}[j])^2))"
    read = " ".join(w.equations)
    for named in [k for k in w.known if k.base not in read.replace(f"${k.own} =", "", 1)][:3]:
        line += " + " + number_of(w, named)
    w.say(line, (), base="L")


def number_of(w: Writer, x: Named) -> str:
    """A number that depends on all of a value, and perhaps on all its blocks."""
    at = [w.index(s, x, {}) if s not in RANGES else s for s in x.slots]
    letter, first, last = w.loops.get(x.slots[0] if x.slots else "", ("", 1, ""))
    blocks = bool(letter) and at[0] == last and x.first >= first
    if blocks:
        at[0] = letter
    v = x.at(*(k or "1" for k in at))
    one = f"tanh({v})"
    if x.shape:
        one = f"mean({one})" if len(x.shape) == 1 else (
            f"mean_{{j=0}}^{{{x.shape[0]}-1}}(mean({one}[j]))")  # fmt: skip
    for own in [s for s in x.slots if s in RANGES]:
        one = rf"(sum_{own}({one}))"
    return f"(max_{{{letter}={first}}}^{{{last}}}({one}))" if blocks else one


def page(w: Writer) -> str:
    """The card as Markdown."""
    text = ["# Random program", "", "## Dimensions", "", "| symbol | value |", "| --- | --- |"]
    sizes = w.sizes | ({"d": "$H k$"} if w.wide else {})
    text += [f"| ${name}$ | {value} |" for name, value in sizes.items()]
    text += ["| $n$ | $≤ 9$ |"]
    text += [f"| ${letter}$ | $1, …, {over}$ |" for letter, over in RANGES.items()]
    text += ["", "## Inputs", "", *(f"- {line}" for line in w.inputs)]
    text += ["", "## Parameters", "", "| symbol | shape |", "| --- | --- |", *w.parameters]
    if w.functions:
        text += ["", "## Functions", "", *(f"- {line}" for line in w.functions)]
    text += ["", "## Forward pass", "", *w.equations]
    if w.derived:
        text += ["", "## Derived", "", *w.derived]
    return "\n".join(text) + "\n"
