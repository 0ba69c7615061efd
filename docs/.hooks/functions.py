"""The named functions as a page: `viete/library/functions.md`, with an example of each."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import viete as vt
from viete.cards.writer import CardWriter
from viete.library.functions import Function, library

SOURCE = Path(__file__).parents[2] / "viete/library/functions.md"
CARD = vt.read("gpt2")  # any: the functions are the same
MARK = "<!-- every named function, with an example -->"
ROW, ROWS = [0, 1, 2], [[1, 2, 3], [4, 0, 8]]
SCORES = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
TWICE = [[1, 2, 3, 4], [1, 2, 3, 4]]
EXAMPLES: dict[str, tuple[Any, ...]] = {  # the arguments of a call, for each function
    "softmax": (ROW,), "logsumexp": (ROW,), "logsoftmax": (ROW,), "var": (ROWS,), "std": (ROWS,),
    "LN": (ROWS, [1, 1, 2]), "RMSNorm": (ROWS,), "top": (ROWS, 2), "places": (4,),
    "entry": (ROWS, 1), "rank": (ROWS, 1),
    "sigmoid": ([-1, 0, 1],), "ReLU": ([-1, 0, 1],), "softplus": ([-1, 0, 1],),
    "GELU": ([-1, 0, 1],), "GELU_tanh": ([-1, 0, 1],), "SiLU": ([-1, 0, 1],),
    "SwiGLU": ([[1, 2]], [[1, 0], [0, 1]], [[0, 1], [1, 0]]), "clip": ([-3, 0.5, 3], 1),
    "softcap": ([-3, 0.5, 3], 1), "held": (ROW,), "dropout": (ROW, 0.1),
    "causal": (SCORES,), "window": (SCORES, 2), "visible": (SCORES, [0, 1, 1]),
    "switched": (ROW, 0), "unpadded": (SCORES, [0, 1, 1]), "counted": ([0, 1, 1],),
    "sinusoidal": (2, 4), "angles": (3, 4, 10000), "rotate": ([[1]], [[0]], [[2]]),
    "RoPE": (TWICE,), "freq": (4, 10000), "spun": (TWICE, [1, 0.01]),
    "freq_llama3": ([1, 0.002, 0.0001], 8, 1, 4, 8192), "turns": (32, 10000, 32, 4096),
    "turned": (32, 10000, 1, 4096), "freq_yarn": ([1, 0.01], 10000, 8, 1, 32, 4096),
    "quarter": (4,), "pair_angles": (2, 4, 10000), "RoPE_pairs": (TWICE, 4), "power": (12,),
    "slope": (3, 8), "ALiBi": (SCORES, 1, 8),
    "has_target": ([5, -100, 0],), "share": ([1, 0, 3],),
    "cross_entropy": ([[0, 1, 2], [2, 1, 0]], [2, -100]),
    "weighted_loss": ([[0, 1, 2], [2, 1, 0]], [2, 0], [1, 0]),
    "onehot": ([2, 0], 3), "spread": (5, ROW), "gathered": (ROWS, [2, 0], 3),
    "part": (TWICE, 1, 2), "column": (ROWS, 1), "stack": (ROWS, [[7, 7, 7]]),
    "written": (SCORES, [[0, 0, 0]], [1]), "placed": (ROWS, 1, 4),
    "length": ([3, 4],), "unit": ([3, 4],), "cosine": ([1, 0], [1, 1]),
    "twice_arctan": (1, 1), "angle": ([1, 0], [1, 1]), "centred": (ROW,), "tr": (SCORES,),
}  # fmt: skip


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The functions, in the place of the mark."""
    return markdown.replace(MARK, "\n\n".join(listing())) if MARK in markdown else markdown


def listing() -> Iterator[str]:
    """The sections of the source, and each of its functions as an entry."""
    answers = examples()
    lines = SOURCE.read_text("utf-8").splitlines()
    for line in lines[next(k for k, x in enumerate(lines) if x.startswith("## ")) :]:
        if m := re.match(r"- \$(\w+)\(", line):
            yield entry(library()[m[1]], answers[m[1]])
        elif line:
            yield line


def entry(function: Function, answer: np.ndarray) -> str:
    """A function: its heading, what it is, its definition, an example with shapes."""
    given = [np.asarray(x) for x in EXAMPLES[function.name]]
    definition = CardWriter(CARD, "latex").function(function).replace(": ", r":\; ")  # x: n × d
    shapes = ", ".join(shape(x) for x in given)
    return (
        f"### {function.name}\n\n{function.meaning[:1].upper()}{function.meaning[1:]}\n\n"
        f"$$ {definition} $$\n\n```text\n"
        f"{function.name}({', '.join(map(spelled, given))}) = {spelled(answer)}\n"
        f"shapes: {shapes} → {shape(answer)}\n```"
    )


def examples() -> dict[str, np.ndarray]:
    """What each call gives: the equations of one card, whose inputs are the arrays."""
    inputs: dict[str, np.ndarray] = {}
    calls = []
    for k, (name, given) in enumerate(EXAMPLES.items()):
        words = []
        for letter, x in zip("abcdef", given, strict=False):
            words.append(f"{letter}_{{{k}}}" if isinstance(x, list) else str(x))
            if isinstance(x, list):
                inputs[words[-1]] = np.array(x)
        calls.append(f"{k + 1}. $y_{{{k}}} = {name}({', '.join(words)})$")
    sizes = sorted({n for x in inputs.values() for n in x.shape})
    text = [
        "# Examples\n\n## Dimensions\n\n| symbol | value |\n| --- | --- |",
        *(f"| $s_{{{n}}}$ | {n} |" for n in sizes),
        "\n## Inputs\n", *(f"- ${name} ∈ {space(x)}$" for name, x in inputs.items()),
        "\n## Forward pass\n", *calls,
    ]  # fmt: skip
    run = vt.read("\n".join(text)).run(**inputs)
    return {name: np.asarray(run[f"y_{{{k}}}"]) for k, name in enumerate(EXAMPLES)}


def shape(x: np.ndarray) -> str:
    """The shape of an argument or an answer."""
    return f"({', '.join(map(str, x.shape))})" if x.ndim else "a number"


def space(x: np.ndarray) -> str:
    """Where an input comes from."""
    power = " × ".join(f"s_{{{n}}}" for n in x.shape)
    return rf"\{{{x.min()}, …, {x.max()}\}}^{{{power}}}" if x.dtype == int else f"ℝ^{{{power}}}"


def spelled(x: np.ndarray) -> str:
    """An array as a card writes one, with four digits."""
    if x.ndim == 0:
        number = str(x.item()) if x.dtype.kind in "iu" else f"{x.item():.4g}"
        return number.replace("inf", "∞").replace("-", "−")
    if x.ndim == 1:
        return f"[{' '.join(spelled(e) for e in x)}]"
    return f"[{'; '.join(' '.join(spelled(e) for e in row) for row in x)}]"
