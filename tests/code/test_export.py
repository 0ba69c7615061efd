"""Exported code is the card: run apart from Viète, it gives its logits and its gradients."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.code.exported import CARDS, bound, loss_of, made_inputs, made_weights
from tests.command_line import viete
from viete.cli.main import main
from viete.code.dialects import DIALECTS, HELPERS, SPELLINGS
from viete.code.functions import idioms
from viete.code.prepared import prepared
from viete.errors import VieteError
from viete.library.functions import library
from viete.report.architecture import write_architecture
from viete.report.article import write_article

LIBRARIES = {"numpy": {"numpy"}, "torch": {"torch"}, "jax": {"jax"}}
STANDARD = {"functools", "math", "sys"}


@cache
def source(card: str, to: str) -> str:
    return bound(card).export(to, loss_of(card))


@cache
def reference(card: str) -> tuple[Any, Any, Any, Any]:
    """The model with its backward equations, inputs, weights, and the run of all of it."""
    p = prepared(bound(card), loss_of(card), backward=True)
    weights, inputs = made_weights(p.model), made_inputs(p.model)
    return p, inputs, weights, p.model.run(None, weights, **inputs)


def loaded(text: str) -> dict[str, Any]:
    """The names that a file defines."""
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(text, "exported.py", "exec"), names)
    return names


def close(a: Any, b: Any, scale: float = 0.0) -> None:
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= 1e-10 * max(np.abs(b).max(), scale)


@pytest.mark.parametrize("card", CARDS)
def test_numpy(card: str) -> None:
    """Output, loss and every gradient, equation by equation."""
    p, inputs, weights, run = reference(card)
    names = loaded(source(card, "numpy"))
    renamed = names.get("renamed", dict)
    output, loss, kept = names["forward"](**inputs, **renamed(weights))
    close(output, run[p.output.key])
    close(loss, run[p.loss.key])
    found = names["backward"](kept, **inputs, **renamed(weights))
    wanted = renamed({name: run[f"∂{name}"] for name in weights})
    assert found.keys() == wanted.keys()
    scale = max(np.abs(run[f"∂{name}"]).max() for name in weights)
    for name, value in wanted.items():
        if not isinstance(value, dict):
            close(found[name], value, scale)
            continue
        assert found[name].keys() == value.keys()
        for block, array in value.items():
            close(found[name][block], array, scale)


@pytest.mark.parametrize("card", CARDS)
def test_torch(card: str) -> None:
    """One sequence, a batch, the loss, and autograd's gradients."""
    torch = pytest.importorskip("torch")
    p, inputs, weights, run = reference(card)
    names = loaded(source(card, "torch"))
    module = next(v for v in reversed(names.values()) if isinstance(v, type)
                  and issubclass(v, torch.nn.Module) and v.__module__ == "exported")  # fmt: skip
    model = module().double()
    model.load_state_dict(names["renamed"]({k: torch.tensor(v) for k, v in weights.items()}))
    given = {k: torch.tensor(v) for k, v in inputs.items()}
    output, loss = model(**given)
    close(output.detach(), run[p.output.key])
    close(loss.detach(), run[p.loss.key])
    loss.backward()
    gradients = names["renamed"]({k: torch.tensor(run[f"∂{k}"]) for k in weights})
    scale = max(float(g.abs().max()) for g in gradients.values())
    for name, parameter in model.named_parameters():
        close(parameter.grad, gradients[name], scale)
    both = model(**{k: torch.stack([v, v.flip(0)]) for k, v in given.items()})[0]
    turned = model(**{k: v.flip(0) for k, v in given.items()})[0]
    close(both[0].detach(), output.detach(), 1e-3)
    close(both[1].detach(), turned.detach(), 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("card", CARDS)
def test_jax(card: str) -> None:
    jax = pytest.importorskip("jax")
    p, inputs, weights, run = reference(card)
    with jax.enable_x64(True):
        names = loaded(source(card, "jax"))
        arrays = names.get("renamed", dict)({k: jax.numpy.array(v) for k, v in weights.items()})
        given = {k: jax.numpy.array(v) for k, v in inputs.items()}
        # One by one, the operations of every card would be compiled by themselves.
        forward = names["forward"] if card == CARDS[0] else jax.jit(names["forward"])
        output, loss = forward(**given, **arrays)
        close(output, run[p.output.key])
        close(loss, run[p.loss.key])


def test_jax_jits_and_differentiates() -> None:
    jax = pytest.importorskip("jax")
    p, inputs, weights, run = reference("attention-only-2")
    with jax.enable_x64(True):
        names = loaded(source("attention-only-2", "jax"))
        arrays = names["renamed"]({k: jax.numpy.array(v) for k, v in weights.items()})
        loss, gradients = names["gradients"](arrays, *inputs.values())
        close(loss, run[p.loss.key])
        close(gradients["W_Q"][1], run["∂W_Q^{2,h}"])
    initial = names["initial"](jax.random.key(0))
    assert jax.tree.map(np.shape, initial) == jax.tree.map(np.shape, arrays)


@pytest.mark.parametrize("card", ["gpt2", "llama", "t5"])
def test_a_text_beyond_the_context_is_refused(card: str) -> None:
    """As by the card itself, also when JAX compiles; PyTorch: tests/train/test_module.py."""
    jax = pytest.importorskip("jax")
    p, inputs, weights, _ = reference(card)
    limit = max(int(p.model.greatest[n]) for n in p.model.lengths)
    given = {**inputs, "t": np.zeros(limit + 1, int)}
    said = f"t is {limit + 1} long, and n is at most {limit}"
    with pytest.raises(VieteError, match=said):
        p.model.run(None, weights, **given)
    names = loaded(source(card, "jax"))
    with pytest.raises(ValueError, match=said):
        jax.jit(names["forward"])(**given, **names["renamed"](weights))


@pytest.mark.slow
@pytest.mark.parametrize("to", LIBRARIES)
@pytest.mark.parametrize("card", CARDS)
def test_the_library_is_all_it_imports(card: str, to: str) -> None:
    for node in ast.walk(ast.parse(source(card, to))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else [
                a.name for a in node.names]  # fmt: skip
            for module in modules:
                assert str(module).split(".")[0] in LIBRARIES[to] | STANDARD


@pytest.mark.slow
def test_ruff_has_nothing_to_say(tmp_path: Path) -> None:
    for card in CARDS:
        for to in LIBRARIES:
            (tmp_path / f"{card.replace('-', '_')}_{to}.py").write_text(source(card, to), "utf-8")
    config = Path(__file__).parents[2] / "pyproject.toml"
    done = subprocess.run(
        # F_5 is a value of a card, which to ruff looks like a constant on the wrong side.
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", config,
         "--extend-ignore", "SIM300", tmp_path],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("to", LIBRARIES)
def test_every_line_stands_under_its_equation(card: str, to: str) -> None:
    p, *_ = reference(card)
    text = source(card, to)
    # What a block computes is read where it is called.
    for kind, body in re.findall(r"^class (Block\w*)\(.*?\n(.*?)(?=^class )", text, re.M | re.S):
        text = text.replace(body, "")
        text = re.sub(rf"^ +# Equations \d+ to \d+ are `{kind}.forward`$", lambda _: body, text,  # noqa: B023
                      flags=re.M)  # fmt: skip
    equations = (*p.forward, *p.more, *(p.backward if to == "numpy" else ()))
    numbers = [int(x) for x in re.findall(r"^ +# \((\d+)\) ", text, re.M)]
    counted = "over_targets(" in text  # the targets of a text, in an equation of its own
    assert len(numbers) == len(set(numbers)) == len(equations) + counted
    assert numbers == sorted(numbers)


def test_the_script_trains(tmp_path: Path) -> None:
    """``python file.py`` learns its sequence; the second card has blocks."""
    for card in ("dialog-transformer", "attention-only-2"):
        file = tmp_path / f"{card}.py"
        file.write_text(source(card, "numpy"), "utf-8")
        done = subprocess.run([sys.executable, "-I", file], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        losses = [float(line.split()[-1]) for line in done.stdout.splitlines()]
        assert losses[-1] < 0.8 * losses[0]
        again = subprocess.run([sys.executable, file, *"1 2 3 1 2 3".split()], capture_output=True)
        assert again.returncode == 0


@pytest.mark.parametrize("card", ["dialog-transformer", "dialog-all"])
def test_a_script_that_learns_dialogs_and_answers(card: str, tmp_path: Path) -> None:
    """Texts, tokenizer, training and answers are in the file; the second card has blocks."""
    dialog = "User: <user>{}</user>\nAssistant: <assistant>{}</assistant>\nEnd: <eot>\n\n"
    (tmp_path / "data.txt").write_text(dialog.format("a", "yes") + dialog.format("b", "no"))
    given = ["export", card, "--to", "numpy", "--set", "d=16", "-o", tmp_path / "a.py"]
    viete(*given, "--data", tmp_path / "data.txt")
    names = loaded((tmp_path / "a.py").read_text())
    texts = names["TEXTS"]
    assert texts[0] == ("<user>a</user><assistant>", "yes</assistant><eot>")
    params = names["train"]([a + b for a, b in texts], steps=250, rate=0.02)
    assert [names["answer"](params, a) for a, _ in texts] == [b for _, b in texts]
    (tmp_path / "long.txt").write_text("abc" * 500)
    for options, why in [
        (["--data", tmp_path / "long.txt"], "one has 1500; viete train learns from longer ones"),
        (["--data", tmp_path / "none.txt"], "there is no such file"),
    ]:
        assert why in viete(*given, *options, code=2).err
    wrong = ["export", card, "--to", "torch", "--data", tmp_path / "data.txt"]
    assert "--data needs --to numpy" in viete(*wrong, code=2).err


def test_the_dialog_transformer_is_short() -> None:
    """The document's program in Python, in a page or two of code."""
    text = vt.read("dialog-transformer").export("numpy")
    lines = text.splitlines()
    for f in reversed(ast.parse(text).body):  # beside what only refuses wrong arguments
        if isinstance(f, ast.FunctionDef) and f.name in ("shapes", "complete", "checked", "inside"):
            del lines[f.lineno - 1 : (f.end_lineno or 0) + 2]
    lines = [x for x in lines if not re.search(r"checked\(|@complete|if n >|raise", x)]
    assert len(lines) <= 160
    assert len([x for x in lines if x.strip() and not x.strip().startswith("#")]) <= 100


def test_rows_are_added_up_by_place_in_two_lines() -> None:
    text = vt.read("dialog-transformer").export("numpy")
    assert "    dE = np.zeros((V, d))\n    np.add.at(dE, t, dX)\n" in text
    assert "def gathered" not in text


BLOCKS = """# Blocks

## Dimensions

| symbol | value |
| --- | --- |
| $d$ | 3 |
| $N$ | 5 |

## Parameters

| symbol | shape |
| --- | --- |
| $A$ | $d × d$ |
| $W^i, U^i$ | $d × d$ |
| $v$ | $d$ |

## Functions

- $placed(z; a, b) = sin(z)$
- $spread(z; a) = z^2$

## Forward pass

1. $x^0 = A$
2. $x^{1} = placed(spread(A; 0); 0, 9)$

For $i = 2, …, N$:

3. $x^i = x^{i-2} W^{⌈(i + 1)/2⌉} + tanh(x^{i-1} U^{N-i+2})$
4. $L = <x^N_0, v> + <x^1_0, v>$
"""


def test_blocks_read_from_further_off() -> None:
    """Two blocks back, weights of two blocks, mirrored ones; no input; a library's name taken."""
    model = vt.read(BLOCKS)
    weights = made_weights(model)
    run = model.grad().run(None, weights)
    names = loaded(model.export("numpy"))
    renamed = names["renamed"](weights)
    _, loss, kept = names["forward"](**renamed)
    close(loss, run["L"])
    found = names["backward"](kept, **renamed)
    close(found["A"], run["∂A"])
    for i in range(2, 6):
        close(found["W"][i], run[f"∂W^{i}"], 1.0)
        close(found["U"][i], run[f"∂U^{i}"], 1.0)
    names["train"](steps=2)


SOFTMAX = """# Softmax of one's own

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 4 |

## Inputs

- $t ∈ \\{0, …, V - 1\\}^2$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V × V$ |

## Functions

- $softmax(z) = exp(z) / (1 + sum(exp(z)))$

## Forward pass

1. $A = softmax(E[t])$
2. $L = cross_entropy(A; t)$
"""


def test_a_function_that_hides_the_library_s_stays_beside_it() -> None:
    """The derivative of cross_entropy is made of the library's softmax, in a file with both."""
    model = vt.read(SOFTMAX)
    weights, tokens = made_weights(model), np.array([1, 3])
    run = model.grad().run(tokens, weights)
    names = loaded(model.export("numpy"))
    _, loss, kept = names["forward"](tokens, **weights)
    close(loss, run["L"])
    close(names["backward"](kept, tokens, **weights)["E"], run["∂E"])


@pytest.mark.parametrize(
    "name", [x for x in sorted(idioms("numpy")) if x not in HELPERS and "_each" not in x]
)
def test_idioms_are_their_definitions(name: str) -> None:
    """The functions written by hand, against algebra/functions.md."""
    from viete.code import idioms as written

    rng = np.random.default_rng(1)
    z, t = rng.normal(size=(4, 3)), np.array([0, 2, 1, 0])
    calls = {
        "softmax": ("softmax(z)", (z,)), "logsoftmax": ("logsoftmax(z)", (z,)),
        "logsumexp": ("table_{j<n}(logsumexp(z_j))", (z,)),
        "cross_entropy": ("cross_entropy(z; t)", (z, t)),
        "cross_entropy_some": ("cross_entropy(z; t)", (z, np.array([0, -100, 1, 0]))),
        "top": ("top(z; 2)", (z, 2)),
        "gathered": ("gathered(z; t, 3)", (z, t, 3)), "placed": ("placed(z; 1, 6)", (z, 1, 6)),
    }  # fmt: skip
    text, args = calls[name]
    t, low = (args[1], -100) if name.endswith("_some") else (t, 0)
    card = (
        "# T\n\n## Dimensions\n\n| symbol | value |\n| --- | --- |\n| $n$ | 4 |\n| $k$ | 3 |\n\n"
        "## Inputs\n\n- $z ∈ ℝ^{n × k}$\n"
        f"- $t ∈ \\{{{low}, …, 2\\}}^n$\n\n## Forward pass\n\n1. $y = {text}$\n"
    )
    run = vt.read(card).run(z, {}, t=t, exact_definitions=True)
    np.testing.assert_allclose(getattr(written, name)(*args), run["y"], rtol=1e-12)


@pytest.mark.parametrize("to", LIBRARIES)
def test_one_table_says_what_there_is_by_hand(to: str) -> None:
    """Every row is a function of the library or a helper; every function by hand has its row."""
    rows = {x.removesuffix("_some").removesuffix("_each") for x in SPELLINGS}
    assert rows <= library().keys() | set(HELPERS)
    by_hand = {x for x in SPELLINGS if DIALECTS[to].by_hand(x)}
    assert by_hand <= idioms(to).keys()
    assert to == "jax" or by_hand == idioms(to).keys()  # which has some of NumPy's


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("to", ["latex", "typst"])
def test_articles(card: str, to: str) -> None:
    text = source(card, to)
    equations = len(bound(card).equations)
    if to == "latex":
        opened = re.findall(r"\\begin\{(\w+)\}", text)
        assert sorted(opened) == sorted(re.findall(r"\\end\{(\w+)\}", text))
        assert text.isascii() or not re.search(r"[α-ωΑ-Ω≤×→−∂⊙√ᵀ…]", text)
        assert text.count(" &= ") >= equations
        return
    typst = pytest.importorskip("typst")
    assert text.count("$ ") >= equations
    if card in ("pythia", "simple-transformer", "transformer-2017"):
        assert typst.compile(text.encode())[:4] == b"%PDF"


def test_a_function_of_the_cards_own() -> None:
    """Generated from its definition: a table over the caller's heads, with a default."""
    card = """# Own

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 7 |
| $d$ | 4 |
| $H$ | 2 |
| $n$ | $≤ 9$ |
| $h$ | $1, …, H$ |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W^h$ | $d × d$ |
| $lambda$ | scalar |

## Functions

- $near(S: n × m; a, w = 2) = table_{j<n, k<m}(where(j - k < w, S_{j,k} - a * abs(j - k), -inf))$
- $lean(z) = max(z, z / 10) ⊙ softmax(near(z; 1))$

## Forward pass

1. $x = E[t]$
2. $A^h = softmax(near(x W^h x^⊤; 1/h, 3))$
3. $u = mean_h(A^h x) + lambda * sum_{j=0}^{n-1} x_j$
4. $S = lean(u x^⊤)$
5. $logits = S u E^⊤$
"""
    model = vt.read(card)
    weights, tokens = made_weights(model), np.array([1, 5, 2, 2, 6])
    run = model.run(tokens, weights)
    names = loaded(model.export("numpy"))
    close(names["forward"](tokens, **names["renamed"](weights))[0], run["logits"])
    torch = pytest.importorskip("torch")
    names = loaded(model.export("torch"))
    module = names["Own"]().double()
    module.load_state_dict(names["renamed"]({k: torch.tensor(v) for k, v in weights.items()}))
    batch = torch.tensor(np.array([tokens, tokens[::-1]]))
    close(module(batch)[0].detach(), run["logits"])
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        names = loaded(model.export("jax"))
        arrays = names["renamed"]({k: jax.numpy.array(v) for k, v in weights.items()})
        close(names["forward"](jax.numpy.array(tokens), **arrays), run["logits"])


@pytest.mark.parametrize("after", ["", " + x^0"])
def test_an_odd_card(after: str) -> None:
    """Families picked by token and by computed place, tables, sums over blocks, earlier blocks."""
    text = (Path(__file__).parent / "odd.md").read_text("utf-8")
    model = vt.read(text.replace("tanh(s^i)$", f"tanh(s^i){after}$"))
    weights, tokens = made_weights(model), np.array([1, 5, 2, 2, 6])
    run = model.run(tokens, weights)
    torch = pytest.importorskip("torch")
    names = loaded(model.export("torch"))
    module = names["Odd"]().double()
    module.load_state_dict(names["renamed"]({k: torch.tensor(v) for k, v in weights.items()}))
    close(module(torch.tensor(tokens)).detach(), run["logits"])
    batch = torch.tensor(np.array([tokens[::-1], tokens]))
    close(module(batch)[1].detach(), run["logits"])
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        names = loaded(model.export("jax"))
        arrays = names["renamed"]({k: jax.numpy.array(v) for k, v in weights.items()})
        close(names["forward"](jax.numpy.array(tokens), **arrays), run["logits"])
    if after:  # of a block that is read from every later one no derivative is derived
        return
    p = prepared(model, None, backward=True)
    run = p.model.run(tokens, weights, y=tokens)
    names = loaded(model.export("numpy"))
    renamed = names["renamed"](weights)
    logits, _, kept = names["forward"](tokens, tokens, **renamed)
    close(logits, run["logits"])
    found = names["backward"](kept, tokens, tokens, **renamed)
    for name in ("E", "K", "class_"):
        close(found[name], run["∂" + {"E": "E^h", "K": "K^g", "class_": "class"}[name]])
    for i in (1, 2, 3):
        close(found["W"][i], run[f"∂W^{{{i},h}}"])
        close(found["b"][i], run[f"∂b^{i}"])


HEADS_IN_GROUPS = """
# Heads in groups

## Dimensions

| symbol | value |
| --- | --- |
| $n$ | $≤ 4$ |
| $V$ | 5 |
| $d$ | 6 |
| $d_k$ | 3 |
| $G$ | 2 |
| $R$ | 3 |
| $g$ | 1, …, G |
| $r$ | 1, …, R |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$
- $y ∈ \\{0, …, V-1\\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W_Q^{g,r}$ | $d × d_k$ |
| $W_K^g$, $W_V^g$ | $d × d_k$ |
| $W_O$ | $G R d_k × d$ |
| $U$ | $d × V$ |

## Forward pass

1. $x = E[t]$
2. $A^{g,r} = softmax(causal(x W_Q^{g,r} (x W_K^g)^⊤ / \\sqrt{d_k}))$
3. $a = HEADS W_O$
4. $logits = (x + a) U$
5. $L = cross_entropy(logits, y)$
"""


@pytest.mark.parametrize("outer", ["gr", "rg"])
def test_heads_side_by_side_in_groups(outer: str) -> None:
    """The backward pass takes each head's columns out of those of its group."""
    a, b = outer
    heads = f"concat_{a}(concat_{b}(A^{{g,r}} (x W_V^g)))"
    model = vt.read(HEADS_IN_GROUPS.replace("HEADS", heads))
    p = prepared(model, None, backward=True)
    weights, inputs = made_weights(p.model), made_inputs(p.model)
    run = p.model.run(None, weights, **inputs)
    names = loaded(model.export("numpy"))
    arrays = names["renamed"](weights)
    _, _, kept = names["forward"](**inputs, **arrays)
    wanted = names["renamed"]({name: run[f"∂{name}"] for name in weights})
    for name, value in names["backward"](kept, **inputs, **arrays).items():
        close(value, wanted[name])


def test_the_definitions_that_are_short_are_generated() -> None:
    text = vt.read("simple-transformer").export("numpy")
    assert "    return np.where(k <= j + m - n, S, -math.inf)" in text
    assert "    return np.maximum(z, 0)" in text
    assert "A = softmax(causal(Q @ K.mT / math.sqrt(d_k)))" in text


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["bert", "--to", "numpy"], "no value is called logits"),
        (["pythia", "--to", "numpy", "-o", "{}/x.tex"], "numpy is written to .py"),
        (["pythia", "--to", "typst", "-o", "{}/x.tex"], "typst is written to .typ"),
        (["pythia", "--to", "keras"], "not one of 'torch', 'numpy'"),
        (["pythia", "--to", "torch", "-o", "{}/none/x.py"], "cannot be written"),
        (["nowhere", "--to", "torch"], "there is no file nowhere"),
        (
            ["symbolic-transformer", "--to", "numpy", "--of", "y"],
            "can be differentiated, and this is (n)",
        ),
        (["symbolic-transformer", "--to", "jax", "--of", "logits_0"], "this is (V)"),
        (["{}/open.md", "--to", "torch"], "--set d=…"),
        (["{}/none.md", "--to", "torch"], "no "),
    ],
)
def test_bad_input(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    (tmp_path / "open.md").write_text(
        "# O\n\n## Dimensions\n\n| symbol | value |\n| --- | --- |\n| $d$ | |\n\n"
        "## Parameters\n\n| symbol | shape |\n| --- | --- |\n| $E$ | $d × d$ |\n\n"
        "## Forward pass\n\n"
        "1. $logits = E$\n"
    )
    (tmp_path / "none.md").write_text("# N\n\n## Forward pass\n")
    monkeypatch.setattr(
        sys, "argv", ["viete", "export", *(a.replace("{}", str(tmp_path)) for a in arguments)]
    )
    with pytest.raises(SystemExit) as stop:
        main()
    error = capsys.readouterr().err
    assert stop.value.code == 2 and said in error and "Traceback" not in error
    assert not (tmp_path / "x.tex").exists()


def test_an_unknown_target() -> None:
    with pytest.raises(vt.VieteError, match="torch, numpy, jax, js, latex, typst, not to 'keras'"):
        vt.read("pythia").export("keras")


@pytest.mark.parametrize("to", LIBRARIES)
@pytest.mark.parametrize("card", CARDS)
def test_names_are_python(card: str, to: str) -> None:
    """No keyword, built-in or module is overwritten by a letter of a card."""
    for node in ast.walk(ast.parse(source(card, to))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            assert node.id not in {"np", "jnp", "torch", "math", "functional"}
            assert not hasattr(builtins, node.id)


DOWNWARDS = r"""
# Downwards

## Dimensions

| symbol | value |
| --- | --- |
| $n$ | $≤ 9$ |
| $V$ | 5 |
| $d$ | 4 |
| $N$ | 3 |

## Inputs

- $t ∈ \{0, …, V-1\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W^i$ | $d × d$ |

## Forward pass

1. $x^0 = E[t]$

For $i = 1, …, N$:

2. $x^i = x^{i-1} + tanh(x^{i-1} W^i)$

3. $y^4 = x^N$

For $i = N, …, 1$:

4. $y^i = y^{i+1} + tanh(y^{i+1} W^i)$

5. $logits = y^1 E^⊤$
6. $L = cross_entropy(logits; t)$
"""


@pytest.mark.parametrize("to", ["latex", "typst"])
def test_an_article_needs_no_derivative(to: str) -> None:
    """It says why the backward pass is left out, and refuses a loss that is asked for."""
    card = vt.read(DOWNWARDS)
    with pytest.raises(vt.VieteError) as refused:
        card.export(to, of="L")
    text = re.sub(
        r"\\textasciicircum\{\}|\\", lambda m: "^" if len(m[0]) > 1 else "", card.export(to)
    )
    assert f"The backward pass is left out: {refused.value.message}." in text


@pytest.mark.parametrize("form", ["latex", "typst"])
def test_an_article_keeps_the_words_and_the_weights(form: str) -> None:
    """A handout has all that a reader needs to compute the model by hand."""
    text = write_article(vt.read("letters-attention"), form)
    swap = {"latex": r"\begin{pmatrix} 0 & 1 \\ 1 & 0 \end{pmatrix}", "typst": "mat(0, 1; 1, 0)"}
    assert swap[form] in text and "$I$" in text and "Vocabulary" in text
    document = write_architecture(vt.read("letters-attention"), "latex")
    assert swap["latex"] in document and r"\texttt{a} \texttt{b}" in document


@pytest.mark.parametrize("loss", ["cross_entropy(x; t - 1)", "cross_entropy(x; t + 1)"])
def test_a_target_outside_is_refused_or_nan(loss: str) -> None:
    """A target of -1 is not counted from the end, in any language."""
    card = vt.read(rf"""
# Targets outside
## Dimensions
| symbol | value |
| --- | --- |
| $n$ | $≤ 6$ |
## Inputs
- $t ∈ \{{0, …, 1\}}^n$
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $2 × 2$ |
## Forward pass
1. $x = E[t]$
2. $L = {loss}$
""")
    E, t = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([0, 1, 0])
    with pytest.raises(VieteError, match="outside 0 to 1"):
        card.run(t, {"E": E})
    with pytest.raises(ValueError, match="outside 0 to 1"):
        loaded(card.export("numpy"))["forward"](t, E=E)
    jax = pytest.importorskip("jax")
    found = loaded(card.export("jax"))["forward"](jax.numpy.asarray(t), E=jax.numpy.asarray(E))
    assert np.isnan(found[1])
    torch = pytest.importorskip("torch")
    with pytest.raises(IndexError, match="out of bounds"):
        card.to_torch({"E": E})(torch.as_tensor(t))
