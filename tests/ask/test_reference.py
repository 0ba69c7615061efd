"""Everything in the notation of the field's reference can be said here, and its statements tested.

The table has the formulas of a guide to the notation of residual streams (Elhage et al. 2021 and
after), beside what one asks of a run. Each is asked of Pythia with parallel blocks, of Pythia with
sequential ones, and of a Pythia whose positions are added to its tokens.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers")

import viete as vt
from tests.ask.vocabularies import vocabulary
from viete.nouns.model import Model
from viete.nouns.run import Questions
from viete.text.tokenizer import Tokenizer

GUIDE = Path(__file__).parents[3] / "shared/references/notation.md"
TEXT = "I live in Dublin"  # its last token is " Dublin"
SIZES = {"d": 16, "H": 2, "d_f": 12, "n_max": 16}
CONFIG = {
    "model_type": "gpt_neox", "use_parallel_residual": False, "hidden_size": 16,
    "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 12,
    "max_position_embeddings": 16, "hidden_act": "gelu", "rotary_pct": 0.25,
    "rotary_emb_base": 10000, "layer_norm_eps": 1e-5, "tie_word_embeddings": False,
}  # fmt: skip
MODELS = ("parallel", "sequential", "learned positions")

# The guide's formula → the question. An entry with an equation is true where `STATEMENTS` says so.
# What the guide calls x, a vector or a stream of any kind, is r (a vector) or s (a row a position).
TABLE = {
    # indices and names
    r"L": r"L",
    r"L=6": r"L = 6",
    r"n-1": r"n-1",
    r"n=2048": r"n = 2048",
    r"i": r"i",
    r"j": r"x^0_j",
    r"h": r"h",
    r"k": r"x^0_k",
    r"i'": r"|x^i_0 - x^{i'}_0|",
    r"k > j": r"where(k > j, A^{1,1}_{j,k}, 0)",
    r"i' > i": r"where(i' > i, |x^i_0 - x^{i'}_0|, 0)",
    r"x^i_j": r"x^i_j",
    r"x": r"s",
    r"\underline{\text{token}}": r"\underline{\text{ Dublin}}",
    r"\overline{\text{token}}": r"\overline{\text{ Dublin}}",
    r"\overline{\text{ublin}}": r"\overline{\text{ Dublin}}",
    r"\Delta x^i_j": r"\Delta x^i_j",
    r"W_E": r"W_E",
    r"W_U": r"W_U",
    # operators
    r"LN": r"LN(x^L)",
    r"A^{i,h}": r"A^{i,h}",
    r"\tilde{A}^i": r"\tilde{A}^i",
    r"\tilde{A}": r"\tilde{A}^i(s)",
    r"M^i": r"M^i(s)",
    r"\tilde{M}^i": r"\tilde{M}^i",
    r"\tilde{M}": r"\tilde{M}^i(s)",
    r"B_i": r"B_i(s)",
    r"\tilde{A}^i(x) = \text{Attn}^i(LN(x))": r"\tilde{A}^i(s) = \text{Attn}^i(norm_A^i(s))",
    r"\tilde{M}^i(x) = M^i(LN(x))": r"\tilde{M}^i(s) = M^i(norm_M^i(s))",
    r"\tilde{M}^i(y) = M^i(LN(y))": r"\tilde{M}^i(s) = M^i(norm_M^i(s))",
    r"B_i(x) = x + \tilde{A}^i(x) + \tilde{M}^i(x + \tilde{A}^i(x))":
        r"B_i(s) = s + \tilde{A}^i(s) + \tilde{M}^i(s + \tilde{A}^i(s))",
    r"x + f_i(x)": r"s + (B_i(s) - s)",
    # residual stream and logits
    r"x_j^L": r"x_j^L",
    r"W_U \cdot LN(x_j^L)": r"W_U \cdot LN(x_j^L)",
    r"\langle \overline{\text{ublin}}, LN(x_j^L) \rangle":
        r"\langle \overline{\text{ Dublin}}, LN(x_j^L) \rangle",
    r"\text{logits}_j = W_U \cdot LN(x_j^L)": r"\text{logits}_j = W_U \cdot LN(x_j^L)",
    r"x_j^L = x_j^0 + \sum_{i=1}^{L} \Delta x_j^i": r"x_j^L = x_j^0 + \sum_{i=1}^{L} \Delta x_j^i",
    r"x_j^0 = \underline{\text{token}_j} + p_j": r"x_j^0 = W_E[t_j] + p_j",
    r"x_j^L = B_L \circ B_{L-1} \circ \cdots \circ B_1 (x_j^0)":
        r"x_j^L = B_L \circ B_{L-1} \circ \cdots \circ B_1 (x_j^0)",
    r"\Delta x_j^i = \tilde{A}^i(x_j^{i-1}) + \tilde{M}^i(x_j^{i-1} + \tilde{A}^i(x_j^{i-1}))":
        r"\Delta x_j^i = \tilde{A}^i(x_j^{i-1}) + \tilde{M}^i(x_j^{i-1} + \tilde{A}^i(x_j^{i-1}))",
    # angles
    r"\langle v_1, LN(v_2) \rangle \approx |v_1| \cos{\theta_{v_1,c(v_2)}}":
        r"\langle r, LN(q; 1, 0) \rangle = |r| \cos{angle(r, c(q))}",
    r"\theta_{a,b}": r"\theta_{r,q}",
    r"\theta": r"angle(r, q)",
    r"a": r"r",
    r"b": r"q",
    r"c(v)": r"c(r)",
    # the dual space
    r"\text{logit}_{\text{token}}(x) = \langle \overline{\text{token}}, x \rangle":
        r"\text{logit}_{\text{ Dublin}}(r) = \langle \overline{\text{ Dublin}}, r \rangle",
    r"\overline{\text{token}} \in V^*": r"len(\overline{\text{ Dublin}}) = d",
    r"x \in V": r"len(r) = d",
    r"\underline{\text{token}} \in V": r"len(\underline{\text{ Dublin}}) = d",
    r"\gg d_{\text{model}}": r"V > d",
    r"\langle \overline{\text{token}}, x^i_j \rangle":
        r"\langle \overline{\text{ Dublin}}, x^i_j \rangle",
    r"\langle W_K x^i_j, W_Q x^i_k \rangle":
        r"\langle W_K^{2,1} x^1_j, W_Q^{2,1} x^1_k \rangle",
    r"W_{OV} x^i_j": r"W_{OV}^{2,1} x^1_j",
    r"\Delta x^{i'}_k": r"\Delta x^{i'}_k",
    # attribution: what a head carries from a position to another, and to a token's logit
    r"\rightarrow": r"A^{2,1}_{-1,0}",
    r"x^i_j \xrightarrow{A^{i',h}} x^{i'}_k":
        r"x^i_j \xrightarrow{A^{i',h}} x^{i'}_k",
    r"x^i_j \xrightarrow{W_U} \overline{\text{token}}":
        r"x^i_j \xrightarrow{W_U} \overline{\text{ Dublin}}",
}  # fmt: skip

# The statements and where they hold: in parallel, in sequential blocks, with learned positions.
STATEMENTS = {
    r"\tilde{A}^i(s) = \text{Attn}^i(norm_A^i(s))": (True, True, True),
    r"\tilde{M}^i(s) = M^i(norm_M^i(s))": (True, True, True),
    r"B_i(s) = s + \tilde{A}^i(s) + \tilde{M}^i(s + \tilde{A}^i(s))": (False, True, True),
    r"B_i(s) = s + \tilde{A}^i(s) + \tilde{M}^i(s)": (True, False, False),
    r"\text{logits}_j = W_U \cdot LN(x_j^L)": (True, True, True),
    r"x_j^L = x_j^0 + \sum_{i=1}^{L} \Delta x_j^i": (True, True, True),
    r"x_j^0 = W_E[t_j] + p_j": (None, None, True),  # turned, and not added
    r"x_j^0 = W_E[t_j]": (True, True, False),
    r"x_j^L = B_L \circ B_{L-1} \circ \cdots \circ B_1 (x_j^0)": (True, True, True),
    r"\Delta x_j^i = \tilde{A}^i(x_j^{i-1}) + \tilde{M}^i(x_j^{i-1} + \tilde{A}^i(x_j^{i-1}))":
        (False, True, True),
    r"\langle r, LN(q; 1, 0) \rangle = |r| \cos{angle(r, c(q))}": (False, False, False),
    r"\langle c(r), LN(q; 1, 0) \rangle = sqrt(d) |c(r)| \cos{angle(c(r), c(q))}":
        (True, True, True),
    r"\text{logit}_{\text{ Dublin}}(r) = \langle \overline{\text{ Dublin}}, r \rangle":
        (True, True, True),
    r"len(\overline{\text{ Dublin}}) = d": (True, True, True),
}  # fmt: skip


@cache
def model(name: str) -> Model[vt.Card]:
    """A small Pythia of one kind, whose tokens are words."""
    tokenizer = Tokenizer(vocabulary("bytes"))
    size = len(tokenizer)
    if name == "sequential":
        card = vt.read("pythia", config={**CONFIG, "vocab_size": size})
    elif name == "parallel":
        card = vt.read("pythia").bind(V=size, N=3, **SIZES)
    else:
        card = vt.read("pre-norm-pythia").bind(V=size, L=3, **SIZES)
    rng = np.random.default_rng(3)
    weights = {k: rng.normal(0.3, 0.5, w.shape) for k, w in card.initial_weights().items()}
    made = card.with_weights(weights)
    made.__dict__["tokenizer"] = tokenizer
    return made


@cache
def run_of(name: str) -> Questions:
    """Its run on the text, which computes what is asked."""
    return model(name).run(TEXT, names=[])


def answer(name: str, question: str) -> Any:
    """What is asked of one kind of model, with vectors and a stream of one's own."""
    rng = np.random.default_rng(5)
    values = {"s": rng.standard_normal((4, 16)), "r": rng.standard_normal(16),
              "q": rng.standard_normal(16)}  # fmt: skip
    used = {x for x in values if re.search(rf"(?<![\w\\]){x}(?!\w)", question)}
    return run_of(name).ask(question, **{x: values[x] for x in used})


def formulas(text: str) -> set[str]:
    """What stands between dollar signs, with single spaces."""
    found = re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", text, re.S)
    return {" ".join((a or b).split()) for a, b in found}


@pytest.mark.skipif(not GUIDE.exists(), reason="the guide is not here")
def test_the_table_has_every_formula_of_the_guide() -> None:
    said = {f.split(" — ")[0] for f in formulas(GUIDE.read_text("utf-8"))}
    assert not said - TABLE.keys(), said - TABLE.keys()
    assert len(TABLE) > 50


@pytest.mark.filterwarnings("ignore::viete.errors.VieteWarning")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("question", dict.fromkeys(TABLE.values()))
def test_everything_can_be_asked(name: str, question: str) -> None:
    if STATEMENTS.get(question, (True,) * 3)[MODELS.index(name)] is None:
        with pytest.raises(vt.VieteError, match="but Pythia adds no such vector"):
            answer(name, question)
    else:
        assert np.isfinite(np.asarray(answer(name, question), float)).all()


@pytest.mark.filterwarnings("ignore::viete.errors.VieteWarning")
@pytest.mark.parametrize(("name", "k"), [(name, k) for k, name in enumerate(MODELS)])
def test_its_statements_hold_where_they_do(name: str, k: int) -> None:
    for statement, holds in STATEMENTS.items():
        if holds[k] is not None:
            left, right = statement.split(" = ")
            a, b = np.broadcast_arrays(answer(name, left), answer(name, right))
            assert np.allclose(a, b, rtol=1e-9, atol=1e-9) == holds[k], statement


@pytest.mark.parametrize("name", MODELS)
def test_a_word_stands_bare_below_logit(name: str) -> None:
    run, word = run_of(name), r"\text{logit}_{\text{ Dublin}}(x^1_0)"
    for spelled in (r"\text{logit}_{ Dublin}(x^1_0)", "logit_{ Dublin}(x^1_0)"):
        assert run[spelled] == run[word] and run.in_words(spelled) == run.in_words(word)
    assert run[r"\text{logit}_{n}(x^1_0)"] == run["⟨U_n, x^1_0⟩"]
    assert run[r"\text{logit}_{v}(x^1_0)"] == run['logit_{"v"}(x^1_0)']
    with pytest.raises(vt.VieteError, match="zzqq"):
        run[r"\text{logit}_{ zzqq}(x^1_0)"]
