"""The text of exported JavaScript, for which no Node is needed; tests/browser runs it."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import viete as vt
from tests.code.exported import CARDS, bound, loss_of
from tests.code.test_export import BLOCKS, DOWNWARDS
from tests.command_line import viete
from viete.code.javascript.array_library import BINARY, FOLDS, UNARY, functions, needs
from viete.code.javascript.expressions import RESERVED
from viete.code.javascript.printer import one_line
from viete.code.prepared import prepared

HOSTILE = """# Ends */ here, `${1}` and <script>alert(1)

It says */ and \\` and more.

## Dimensions

| symbol | value | meaning |
| --- | --- | --- |
| $n$ | $≤ 9$ | |
| $V$ | 3 | a */ b `c |
| $void$ | 4 | width |
| $typeof$ | 1/2 | a number |

## Inputs

- $t ∈ \\{0, …, V - 1\\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $new$ | $V × void$ |
| $delete$ | $void × void$ |
| $add$ | $void$ |
| $kept$ | scalar |

## Functions

- $let(var; made) = var ⊙ made + sum(var)$: */ a function
- $Math(z) = z / 2$

## Forward pass

1. $out = new[t]$: a value */ of two
2. $size = let(out delete; 2) + typeof * add$
3. $matmul = kept * Math(size) + tanh(size)$
4. $function = sum(matmul_0 ⊙ add)$
5. $given = matmul new^⊤ + function$
6. $logits = given$
"""


@cache
def source(card: str) -> str:
    return bound(card).export("js", loss_of(card))


def bare(text: str) -> str:
    """Code without comments and strings."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r'"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|//[^\n]*', "", text)


def declared(text: str) -> list[str]:
    return re.findall(r"^(?:export )?(?:function\*?|const) (\w+[\w$]*)", bare(text), re.M)


@pytest.mark.slow
@pytest.mark.parametrize("card", CARDS)
def test_every_equation_stands_above_its_code_once(card: str) -> None:
    p = prepared(bound(card), loss_of(card), backward=True)
    numbers = [int(x) for x in re.findall(r"^ +// \((\d+)\) ", source(card), re.M)]
    assert sorted(numbers) == list(range(1, len(p.model.equations) + 1))


@pytest.mark.parametrize("card", CARDS)
def test_what_is_called_is_there_and_nothing_else(card: str) -> None:
    text = source(card)
    names = declared(text)
    assert len(names) == len(set(names))
    code = bare(text)
    called = set(re.findall(r"(?<![\w.$])(\w+)\(", code)) - {
        *"if for function return xavier draw name run".split(),
        *"Array Error Float64Array Int32Array Number String".split(),
    }  # fmt: skip
    locals_ = set(re.findall(r"(\w+) = \([^()]*\) =>", code))
    assert called - locals_ <= set(names)
    exported = set(re.findall(r"^export (?:function\*?|const) (\w+)", text, re.M))
    count = Counter(re.findall(r"(?<![\w.$])[\w$]+", code))
    assert [name for name in set(names) - exported if count[name] < 2] == []
    assert {"initial", "renamed", "forward", "backward", "values", "weights", "adam",
            "dimensions", "INPUTS"} <= exported  # fmt: skip


@pytest.mark.parametrize("card", [*CARDS, HOSTILE, BLOCKS], ids=lambda card: card[:20].strip())
def test_no_dependency_and_no_word_of_the_language_s(card: str) -> None:
    code = bare(source(card) if card in CARDS else vt.read(card).export("js"))
    assert not re.search(r"\b(?:import|require|eval|fetch|process)\b", code)
    stored = set(re.findall(r"\b(?:const|let|function) ([\w$]+)", code))
    assert not stored & RESERVED


def test_what_a_card_says_stays_in_its_comment() -> None:
    """An end of a comment, of a line, of a template; and names that JavaScript has."""
    text = vt.read(HOSTILE).export("js")
    assert one_line("a\u2028b\u2029c\nd") == "a b c d"
    assert "*/ here" not in re.sub(r"^//.*$", "", text, flags=re.M)
    for line in text.split("\n"):
        if "*/" in line:
            assert line.startswith(("//", " */", "/**")) or re.match(r" +// |.*,  // ", line)
            assert not line.startswith("/**") or line.index("*/") == len(line) - 2
    assert "const out = pick(new$, t);" in text
    assert "delete: delete$" in text and "add: add$" in text


def test_the_text_is_the_same_every_time() -> None:
    text = vt.read("dialog-transformer").export("js")
    assert text == vt.read("dialog-transformer").export("js")
    assert "const A = softmax(causal(S));" in text
    assert "    // (5) S = Q Kᵀ / √d: scores\n    const S = div(matmul(Q, transposed(K))" in text


def test_the_array_library_is_whole() -> None:
    """Each function is there under one name, and calls such as are there."""
    library = functions()
    assert len(library) == len({*library}) and {*UNARY, *BINARY, *FOLDS} <= library.keys()
    for name in library:
        assert needs(name) <= library.keys()
        assert f"function {name}(" in library[name]


@pytest.mark.parametrize("text", [DOWNWARDS, "bert"])
def test_without_a_backward_pass_it_says_why(text: str) -> None:
    card = vt.read(text)
    code = card.export("js")
    assert "// There is no backward pass: " in code
    assert "function backward" not in code and "function adam" not in code
    with pytest.raises(vt.VieteError):
        card.export("js", of="nothing")


def test_on_the_command_line(tmp_path: Path) -> None:
    viete("export", "dialog-transformer", "--to", "js", "-o", tmp_path / "model.js")
    assert (tmp_path / "model.js").read_text("utf-8").startswith("// Dialog transformer in Java")
    viete("export", "dialog-transformer", "--to", "js", "-o", tmp_path / "model.mjs")
    wrong = ["export", "dialog-transformer", "--to", "js", "-o", tmp_path / "model.py"]
    assert "js is written to .js" in viete(*wrong, code=2).err
    assert not (tmp_path / "model.py").exists()
