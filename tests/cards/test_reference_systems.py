"""Each shipped card against the same system written by hand, in NumPy alone.

The functions here know nothing of Viète: one text at a time, loops over blocks, heads and
positions, formulas as the sources print them. ``w`` maps the names of the card's weights to
arrays; a head is the first axis of its array.
"""

from math import cos, erf, prod, sin, sqrt

import numpy as np
import pytest

from viete import read
from viete.cards.catalogue import find
from viete.evaluate.initial_weights import literal_weights
from viete.evaluate.schedule import parameter_shapes
from viete.meanings.run import run
from viete.notation.printer import show
from viete.notation.tree import Idx, num, transform

# -- pieces ----------------------------------------------------------------------------------------


def softmax(row):
    e = np.exp(row - row.max())
    return e / e.sum()


def norm(x, scale=1.0, shift=0.0, eps=0.0):
    """Layer norm of every row."""
    out = np.empty_like(x)
    for j, row in enumerate(x):
        centred = row - row.mean()
        out[j] = scale * centred / sqrt((centred**2).mean() + eps) + shift
    return out


def gelu(x):
    return x * np.vectorize(lambda z: (1 + erf(z / sqrt(2))) / 2)(x)


def relu(x):
    return np.where(x > 0, x, 0)


def attention(q, k, v, scale, sees):
    """Rows of v weighted by the scores of those columns that ``sees(j, k)`` lets through."""
    out = np.zeros((len(q), v.shape[1]))
    for j in range(len(q)):
        seen = [c for c in range(len(k)) if sees(j, c)]
        weights = softmax(np.array([q[j] @ k[c] * scale for c in seen]))
        for c, a in zip(seen, weights, strict=True):
            out[j] += a * v[c]
    return out


def backwards(j, k):
    return k <= j


def all_of_it(j, k):
    return True


def cross_entropy(logits, targets):
    return -np.mean([np.log(softmax(z)[t]) for z, t in zip(logits, targets, strict=True)])


def sinusoids(length, d):
    p = np.zeros((length, d))
    for pos in range(length):
        for i in range(d // 2):
            angle = pos / 10000 ** (2 * i / d)
            p[pos, 2 * i], p[pos, 2 * i + 1] = sin(angle), cos(angle)
    return p


# -- the systems -----------------------------------------------------------------------------------


def symbolic_transformer(w, t):
    h0 = w["E"][t]
    q, k, v = h0 @ w["W^Q"], h0 @ w["W^K"], h0 @ w["W^V"]
    h_attn = attention(q, k, v, 1 / sqrt(q.shape[1]), all_of_it) @ w["W^O"]
    h1 = norm(h0 + h_attn, w["gamma_1"], w["beta_1"])
    h2 = h1 + gelu(h1 @ w["W_1^ff"]) @ w["W_2^ff"]
    return {"h_1": h1, "logits": h2 @ w["W^out"]}


def embedded(w, t):
    return w["E"][t] + w["P"][: len(t)]


def one_head(w, x, i=""):
    q, k, v = (x @ w[f"W_{c}{i}"] for c in "QKV")
    return attention(q, k, v, 1 / sqrt(q.shape[1]), backwards) @ w[f"W_O{i}"]


def several_heads(w, x, h="^h"):
    out = np.zeros_like(x)
    for wq, wk, wv, wo in zip(*(w[f"W_{c}{h}"] for c in "QKVO"), strict=True):
        out += attention(x @ wq, x @ wk, x @ wv, 1 / sqrt(wq.shape[1]), backwards) @ wo
    return out


def answered(w, z, y):
    logits = z @ w["W_out"] + w["b_out"]
    return {"logits": logits, "L": cross_entropy(logits, y)}


def dialog_transformer(w, t, y):
    return answered(w, one_head(w, embedded(w, t)), y)


def dialog_heads(w, t, y):
    return answered(w, several_heads(w, embedded(w, t)), y)


def dialog_norm(w, t, y):
    return answered(w, one_head(w, norm(embedded(w, t), w["gamma"], w["beta"], 1e-5)), y)


def dialog_residual(w, t, y):
    x = embedded(w, t)
    return answered(w, x + one_head(w, x), y)


def dialog_depth(w, t, y):
    return answered(w, one_head(w, one_head(w, embedded(w, t), "^1"), "^2"), y)


def dialog_all(w, t, y):
    x = embedded(w, t)
    for i in (1, 2):
        u = norm(x, w[f"gamma_A^{i}"], w[f"beta_A^{i}"], 1e-5)
        x = x + several_heads(w, u, f"^{{{i},h}}")
    return answered(w, norm(x, w["gamma"], w["beta"], 1e-5), y)


def simple_transformer(w, t, y):
    x = w["E"][t] + w["P"][: len(t)]
    heads = []
    for wq, wk, wv in zip(w["W_Q^h"], w["W_K^h"], w["W_V^h"], strict=True):
        heads.append(attention(x @ wq, x @ wk, x @ wv, 1 / sqrt(wq.shape[1]), backwards))
    x = np.hstack(heads) @ w["W_O"] + w["b_O"]
    x = relu(x @ w["W_1"] + w["b_1"]) @ w["W_2"] + w["b_2"]
    logits = x @ w["W_lm"] + w["b_lm"]
    return {"logits": logits, "L": cross_entropy(logits, y)}


def exact_lesson(w, t):
    x = w["E"][t] + w["P"][: len(t)]
    r = x + attention(x @ w["W^Q"], x @ w["W^K"], x @ w["W^V"], 1, backwards)
    u = norm(r, w["gamma_1"], w["beta_1"])
    s = u + relu(u @ w["W_1"]) @ w["W_2"]
    z = norm(s, w["gamma_2"], w["beta_2"])
    return {"r": r, "u": u, "s": s, "logits": z @ w["E"].T}


def pre_norm_pythia(w, t):
    x = w["W_E"][t] + w["p"][: len(t)]
    blocks = sum(name.startswith("gamma_A^") for name in w)
    for i in range(1, blocks + 1):
        u = norm(x, w[f"gamma_A^{i}"], w[f"beta_A^{i}"], 1e-5)
        a = np.zeros_like(x) + w[f"b_O^{i}"]
        for h in range(len(w["W_Q^{1,h}"])):
            q, k, v = (u @ w[f"W_{c}^{{{i},h}}"][h] + w[f"b_{c}^{{{i},h}}"][h] for c in "QKV")
            head = attention(q, k, v, 1 / sqrt(q.shape[1]), backwards)
            a += head @ w[f"W_O^{{{i},h}}"][h]
        v = norm(x + a, w[f"gamma_M^{i}"], w[f"beta_M^{i}"], 1e-5)
        m = gelu(v @ w[f"W_1^{i}"] + w[f"b_1^{i}"]) @ w[f"W_2^{i}"] + w[f"b_2^{i}"]
        x = x + a + m
    return {"x^2": x, "logits": norm(x, w["gamma"], w["beta"], 1e-5) @ w["W_U"].T}


def nanogpt(w, t, y):
    x = w["W_E"][t] + w["W_P"][: len(t)]
    for i in (1, 2):
        u = norm(x, w[f"gamma_A^{i}"], 0, 1e-5)
        a = np.zeros_like(x)
        for h in range(len(w["W_Q^{1,h}"])):
            q, k, v = (u @ w[f"W_{c}^{{{i},h}}"][h] for c in "QKV")
            head = attention(q, k, v, 1 / sqrt(q.shape[1]), backwards)
            a += head @ w[f"W_O^{{{i},h}}"][h]
        x = x + a
        x = x + gelu(norm(x, w[f"gamma_M^{i}"], 0, 1e-5) @ w[f"W_1^{i}"]) @ w[f"W_2^{i}"]
    logits = norm(x, w["gamma"], 0, 1e-5) @ w["W_E"].T
    loss = -np.mean([np.log(softmax(row)[c]) for row, c in zip(logits, y, strict=True)])
    return {"x^2": x, "logits": logits, "L": loss}


def transformer_2017(w, s, t, a=None):
    seen = np.ones(len(s)) if a is None else a
    d = w["E"].shape[1]

    def heads(kind, i, x, z, sees):
        out = []
        for h in range(len(w["W_{Q,e}^{1,h}"])):
            q, k, v = (
                rows @ w[f"W_{{{c},{kind}}}^{{{i},h}}"][h]
                for c, rows in zip("QKV", (x, z, z), strict=True)
            )
            out.append(attention(q, k, v, 1 / sqrt(q.shape[1]), sees))
        return np.hstack(out) @ w[f"W_{{O,{kind}}}^{i}"]

    def mlp(kind, i, x):
        inner = relu(x @ w[f"W_{{1,{kind}}}^{i}"] + w[f"b_{{1,{kind}}}^{i}"])
        return inner @ w[f"W_{{2,{kind}}}^{i}"] + w[f"b_{{2,{kind}}}^{i}"]

    def normed(kind, i, k, x):
        return norm(x, w[f"gamma_{{{kind},{k}}}^{i}"], w[f"beta_{{{kind},{k}}}^{i}"])

    def not_padding(j, k):
        return seen[k] == 1

    blocks = sum(name.startswith("W_{O,c}") for name in w)
    x = sqrt(d) * w["E"][s] + sinusoids(len(s), d)
    for i in range(1, blocks + 1):
        x = normed("e", i, 1, x + heads("e", i, x, x, not_padding))
        x = normed("e", i, 2, x + mlp("e", i, x))
    y = sqrt(d) * w["E"][t] + sinusoids(len(t), d)
    for i in range(1, blocks + 1):
        y = normed("d", i, 1, y + heads("d", i, y, y, backwards))
        y = normed("d", i, 2, y + heads("c", i, y, x, not_padding))
        y = normed("d", i, 3, y + mlp("d", i, y))
    logits = y @ w["E"].T
    return {"x^2": x, "logits": logits, "p": np.array([softmax(z) for z in logits])}


def formal_heads(w, l, x, sees):
    """Algorithm 5 with algorithm 4, transposed."""
    out = []
    for h in range(len(w["W_q^{1,h}"])):
        q, k, v = (x @ w[f"W_{c}^{{{l},h}}"][h] + w[f"b_{c}^{{{l},h}}"][h] for c in "qkv")
        out.append(attention(q, k, v, 1 / sqrt(q.shape[1]), sees))
    return np.hstack(out) @ w[f"W_o^{l}"] + w[f"b_o^{l}"]


def formal_mlp(w, l, x):
    inner = gelu(x @ w[f"W_mlp1^{l}"] + w[f"b_mlp1^{l}"])
    return inner @ w[f"W_mlp2^{l}"] + w[f"b_mlp2^{l}"]


def formal_decoder(w, t):
    x = w["W_e"][t] + w["W_p"][: len(t)]
    for l in range(1, sum(name.startswith("W_o^") for name in w) + 1):
        x = x + formal_heads(w, l, norm(x, w[f"gamma_1^{l}"], w[f"beta_1^{l}"]), backwards)
        x = x + formal_mlp(w, l, norm(x, w[f"gamma_2^{l}"], w[f"beta_2^{l}"]))
    logits = norm(x, w["gamma"], w["beta"]) @ w["W_u"]
    return {"logits": logits, "P": np.array([softmax(z) for z in logits])}


def formal_encoder(w, t):
    x = w["W_e"][t] + w["W_p"][: len(t)]
    for l in range(1, sum(name.startswith("W_o^") for name in w) + 1):
        x = norm(x + formal_heads(w, l, x, all_of_it), w[f"gamma_1^{l}"], w[f"beta_1^{l}"])
        x = norm(x + formal_mlp(w, l, x), w[f"gamma_2^{l}"], w[f"beta_2^{l}"])
    x = norm(gelu(x @ w["W_f"] + w["b_f"]), w["gamma"], w["beta"])
    logits = x @ w["W_u"]
    return {"logits": logits, "P": np.array([softmax(z) for z in logits])}


def attention_only_1(w, t):
    x = w["W_E"][t]
    out = x.copy()
    for wq, wk, wv, wo in zip(w["W_Q^h"], w["W_K^h"], w["W_V^h"], w["W_O^h"], strict=True):
        out += attention(x @ wq, x @ wk, x @ wv, 1, backwards) @ wo
    return {"logits": out @ w["W_U"]}


def attention_only_2(w, t):
    x = w["W_E"][t]
    for i in (1, 2):
        new = x.copy()
        for h in range(len(w["W_Q^{1,h}"])):
            q, k, v = (x @ w[f"W_{c}^{{{i},h}}"][h] for c in "QKV")
            new += attention(q, k, v, 1, backwards) @ w[f"W_O^{{{i},h}}"][h]
        x = new
    return {"x^2": x, "logits": x @ w["W_U"]}


# -- the comparison --------------------------------------------------------------------------------

SYSTEMS = {
    "symbolic-transformer": (symbolic_transformer, {}),
    "dialog-transformer": (dialog_transformer, {"V": 11, "d": 8, "n_max": 7}),
    "dialog-heads": (dialog_heads, {"V": 11, "d": 8, "H": 2, "n_max": 7}),
    "dialog-norm": (dialog_norm, {"V": 11, "d": 8, "n_max": 7}),
    "dialog-residual": (dialog_residual, {"V": 11, "d": 8, "n_max": 7}),
    "dialog-depth": (dialog_depth, {"V": 11, "d": 8, "n_max": 7}),
    "dialog-all": (dialog_all, {"V": 11, "d": 8, "H": 2, "n_max": 7}),
    "simple-transformer": (simple_transformer, {"V": 11, "d": 6, "d_h": 8, "T_max": 7}),
    "exact-lesson": (exact_lesson, {"N_V": 5, "d": 4, "n_max": 7}),
    "pre-norm-pythia": (pre_norm_pythia, {"V": 11, "d": 8, "L": 2, "H": 2, "d_f": 12, "n_max": 7}),
    "nanogpt": (nanogpt, {"V": 11, "d": 8, "N": 2, "H": 2, "n_max": 7}),
    "transformer-2017": (transformer_2017, {"V": 11, "d": 8, "N": 2, "H": 2, "d_f": 12}),
    "formal-decoder": (
        formal_decoder, {"N_V": 11, "d_e": 8, "L": 2, "H": 2, "d_mid": 3, "d_mlp": 12, "ell_max": 7}
    ),
    "formal-encoder": (
        formal_encoder, {"N_V": 11, "d_e": 8, "L": 2, "H": 2, "d_mid": 3, "d_mlp": 12, "d_f": 5}
    ),
    "attention-only-1": (attention_only_1, {"V": 11, "d": 8, "H": 2}),
    "attention-only-2": (attention_only_2, {"V": 11, "d": 8, "H": 2}),
}  # fmt: skip


def small(name):
    """The card with dimensions that a loop can handle; the names of its token inputs."""
    model = read(find(name)).bind(**SYSTEMS[name][1])
    return model, [i.name for i in model.inputs if i.default is None]


def random_weights(model, rng):
    """Normal weights, but scales near one."""
    return {
        name: rng.normal(float(name.startswith("gamma")), 0.5, shape)
        for name, shape in parameter_shapes(model).items()
    }


def random_tokens(model, names, lengths, rng):
    (high,) = {model.size(i.high).evaluate(model.sizes) for i in model.inputs if i.name in names}
    return {n: rng.integers(0, int(high) + 1, k) for n, k in zip(names, lengths, strict=True)}


def close(found, wanted, most=1e-10):
    assert np.shape(found) == np.shape(wanted)
    assert np.max(np.abs(found - wanted)) <= most * np.max(np.abs(wanted))


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("name", SYSTEMS)
def test_one_text(name, n):
    model, inputs = small(name)
    rng = np.random.default_rng(n)
    weights = random_weights(model, rng)
    # The encoder-decoder's two texts differ in length, everybody else's have one.
    lengths = [n + 2, n] if name == "transformer-2017" else [n] * len(inputs)
    tokens = random_tokens(model, inputs, lengths, rng)
    found = run(model, None, weights, **tokens)
    for value, wanted in SYSTEMS[name][0](weights, *tokens.values()).items():
        close(found[value], wanted)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_batch_is_its_texts(name, batch):
    model, inputs = small(name)
    rng = np.random.default_rng(batch)
    weights = random_weights(model, rng)
    lengths = [4, 3] if name == "transformer-2017" else [3] * len(inputs)
    texts = [random_tokens(model, inputs, lengths, rng) for _ in range(batch)]
    together = {n: np.array([t[n] for t in texts]) for n in inputs}
    found = run(model, None, weights, **together)["logits"]
    close(found, np.array([SYSTEMS[name][0](weights, *t.values())["logits"] for t in texts]))


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_definitions_say_what_the_fast_forms_do(name):
    model, inputs = small(name)
    rng = np.random.default_rng(7)
    weights = random_weights(model, rng)
    tokens = random_tokens(model, inputs, [3] * len(inputs), rng)
    fast = run(model, None, weights, **tokens)
    slow = run(model, None, weights, exact_definitions=True, **tokens)
    close(slow["logits"], fast["logits"])


def test_padding_of_the_source_is_not_seen():
    model, inputs = small("transformer-2017")
    rng = np.random.default_rng(0)
    weights = random_weights(model, rng)
    tokens = random_tokens(model, inputs, [5, 3], rng)
    seen = np.array([1, 1, 0, 1, 0])
    found = run(model, None, weights, a=seen, **tokens)["logits"]
    close(found, transformer_2017(weights, **tokens, a=seen)["logits"])
    other = {**tokens, "s": np.where(seen == 1, tokens["s"], (tokens["s"] + 1) % 11)}
    close(run(model, None, weights, a=seen, **other)["logits"], found)


# -- what the cards claim and what their sources print ---------------------------------------------


def statements(claim):
    """The two sides as text, once for every block where the claim speaks of any block i."""
    if "i" not in claim.statement.free:
        return [[show(side) for side in claim.statement.args]]
    return [
        [
            show(transform(side, lambda e, k=k: num(k) if e == Idx("i") else None))
            for side in claim.statement.args
        ]
        for k in (1, 2)
    ]


@pytest.mark.parametrize("name", ["pre-norm-pythia", "attention-only-1", "attention-only-2"])
def test_claims_hold(name):
    model, inputs = small(name)
    rng = np.random.default_rng(1)
    weights = random_weights(model, rng)
    values = run(model, None, weights, **random_tokens(model, inputs, [4], rng))
    assert len(model.claims) == 2
    for claim in model.claims:
        for left, right in statements(claim):
            close(values[left], values[right], 1e-12)


def test_the_full_circuits_give_the_logits():
    """Elhage et al. 2021, One-Layer: rows of the direct path and of the OV circuits, mixed by A."""
    model, _ = small("attention-only-1")
    rng = np.random.default_rng(2)
    weights = random_weights(model, rng)
    t = rng.integers(0, 11, 5)
    values = run(model, t, weights)
    logits = values["C_{dir}"][t]
    for pattern, circuit in zip(values["A^h"], values["C_{OV}^h"], strict=True):
        logits = logits + pattern @ circuit[t]
    close(values["logits"], logits)
    scores = np.array([[c[a, b] for b in t] for c in values["C_{QK}^h"] for a in t])
    close(values["Q^h {K^h}^T"], scores.reshape(2, 5, 5))


def test_virtual_heads():
    model, _ = small("attention-only-2")
    rng = np.random.default_rng(2)
    weights = random_weights(model, rng)
    values = run(model, rng.integers(0, 11, 4), weights)
    second, first = values["A^{2,h}"], values["A^{1,h}"]
    close(values["A_{virt}^{h,g}"], np.einsum("hjk,gkl->hgjl", second, first))


def test_the_lesson_prints_these_figures():
    """The trace of `a b`: position 0 to the end, the scores at position 1."""
    model = read(find("exact-lesson"))
    assert model.vocabulary == ("a", "b", "c")
    values = run(model, [0, 1], literal_weights(model))
    for name, wanted in {
        "x": (1, 0), "Q": (1, 0), "K": (1, 0), "a": (1, 0), "r": (2, 0), "u": (1, -1),
        "ReLU(u W_1)": (1, 0), "m": (1, 0), "s": (2, -1), "z": (1, -1), "logits": (1, -1, 0),
    }.items():  # fmt: skip
        assert tuple(values[name][0]) == wanted, name
    assert values["S"][0, 0] == 1
    assert values["A"][0, 0] == 1
    assert tuple(values["x"][1]) == (1, 1)
    assert tuple(values["S"][1]) == (1, 2)
    close(values["A"][1], np.exp([1, 2]) / np.exp([1, 2]).sum())
    assert model.vocabulary[values["y"][0]] == "a"


@pytest.mark.parametrize(
    "name, count",
    [
        ("symbolic-transformer", 260),
        ("exact-lesson", 38),
        ("transformer-2017", 63_045_632),
        ("dialog-transformer", DIALOG := 37 * 64 + 512 * 64 + 4 * 64 * 64 + 64 * 37 + 37),
        ("dialog-heads", DIALOG),
        ("dialog-norm", DIALOG + 2 * 64),
        ("dialog-residual", DIALOG),
        ("dialog-depth", DIALOG + 4 * 64 * 64),
        ("dialog-all", DIALOG + 4 * 64 * 64 + 3 * 2 * 64),
    ],
)
def test_parameter_counts(name, count):
    assert sum(map(prod, parameter_shapes(read(find(name))).values())) == count


# -- an implementation of somebody else's ----------------------------------------------------------


def test_the_2017_card_is_torchs_transformer():
    """nn.Transformer without the norms it adds behind both stacks, with its biases at zero."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    model, _ = small("transformer-2017")
    rng = np.random.default_rng(3)
    w = random_weights(model, rng)
    d, heads, wide = 8, 2, 12
    shared = {"dropout": 0.0, "layer_norm_eps": 0.0, "batch_first": True, "dtype": torch.float64}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(d, heads, wide, **shared), 2, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(d, heads, wide, **shared), 2)
    theirs = nn.Transformer(
        d, heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    )

    def put(tensor, array):
        tensor.data = torch.tensor(np.ascontiguousarray(array), dtype=torch.float64)

    def fill_attention(module, kind, i):
        into = [np.hstack(list(w[f"W_{{{c},{kind}}}^{{{i},h}}"])).T for c in "QKV"]
        put(module.in_proj_weight, np.vstack(into))
        put(module.in_proj_bias, np.zeros(3 * d))
        put(module.out_proj.weight, w[f"W_{{O,{kind}}}^{i}"].T)
        put(module.out_proj.bias, np.zeros(d))

    def fill_rest(layer, kind, i, norms):
        put(layer.linear1.weight, w[f"W_{{1,{kind}}}^{i}"].T)
        put(layer.linear1.bias, w[f"b_{{1,{kind}}}^{i}"])
        put(layer.linear2.weight, w[f"W_{{2,{kind}}}^{i}"].T)
        put(layer.linear2.bias, w[f"b_{{2,{kind}}}^{i}"])
        for k in range(1, norms + 1):
            put(getattr(layer, f"norm{k}").weight, w[f"gamma_{{{kind},{k}}}^{i}"])
            put(getattr(layer, f"norm{k}").bias, w[f"beta_{{{kind},{k}}}^{i}"])

    for i, (e, f) in enumerate(zip(encoder.layers, decoder.layers, strict=True), 1):
        fill_attention(e.self_attn, "e", i)
        fill_attention(f.self_attn, "d", i)
        fill_attention(f.multihead_attn, "c", i)
        fill_rest(e, "e", i, 2)
        fill_rest(f, "d", i, 3)

    s, t = rng.integers(0, 11, (3, 6)), rng.integers(0, 11, (3, 4))
    seen = np.array([[1] * 6, [1] * 4 + [0] * 2, [1] * 3 + [0] * 3])
    source, target = (
        torch.tensor(sqrt(d) * w["E"][x] + sinusoids(x.shape[1], d)) for x in (s, t)
    )  # fmt: skip
    padding = torch.tensor(seen == 0)
    causal = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    with torch.no_grad():
        out = theirs(
            source, target, tgt_mask=causal, src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )  # fmt: skip
    close(run(model, None, w, s=s, t=t, a=seen)["y^2"], out.numpy())
