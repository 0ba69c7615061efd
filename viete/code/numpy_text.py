"""The part of a NumPy script that learns from texts: the texts, their characters, sampling."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from viete.code.layout import docstring

RESERVED = frozenset("CHARACTERS TEXTS encode decode answer texts text prompt ids most x y".split())


@dataclass(frozen=True)
class Corpus:
    """Texts to learn, each as a given part and its continuation; ``characters`` numbers them."""

    characters: str
    texts: Sequence[tuple[str, str]]
    end: str  # what a text ends with


def head(corpus: Corpus) -> list[str]:
    """The texts and the characters, as constants of the script."""
    rows = [
        line for a, b in corpus.texts for line in (f"    ({literal(a)},", f"     {literal(b)}),")
    ]
    characters = f"CHARACTERS = {literal(corpus.characters)}  # the k-th is token k"
    return [characters, "TEXTS = [", *rows, "]"]


def literal(text: str) -> str:
    """A string as Python and JSON both write it."""
    return json.dumps(text, ensure_ascii=False)


def functions(corpus: Corpus, inputs: str, context: str) -> list[list[str]]:
    """``encode``, ``decode``, ``train`` and ``answer``.

    ``inputs`` are the arguments of ``forward`` before the parameters, ``context`` the longest text.
    """
    encode = [
        "def encode(text):",
        *docstring(["Token ids of a text, one a character"], 1),
        "    return np.array([CHARACTERS.index(c) for c in text])",
    ]
    decode = [
        "def decode(ids):",
        *docstring(["The text of token ids"], 1),
        '    return "".join(CHARACTERS[k] for k in ids)',
    ]
    train = [
        "def train(texts, steps=1000, rate=0.01):",
        *docstring(
            ["Learn texts, each token from those before it; a step of Adam for each text"], 1
        ),
        "    params, state = initial(), {}",
        "    for step in range(1, steps + 1):",
        "        losses = []",
        "        for text in texts:",
        "            tokens = encode(text)",
        "            x, y = tokens[:-1], tokens[1:]",
        f"            _, loss, kept = forward({inputs}, **params)",
        f"            adam(params, backward(kept, {inputs}, **params), state, rate / len(texts))",
        "            losses.append(loss)",
        "        if step == 1 or step % 100 == 0:",
        '            print(f"step {step:4}  loss {np.mean(losses):.6f}")',
        "    return params",
    ]
    answer = [
        f"def answer(params, prompt, end={literal(corpus.end)}, most=200):",
        *docstring(["What follows a prompt, always by the likeliest character"], 1),
        '    text = ""',
        f"    while len(text) < most and len(prompt + text) < {context} and not (end and "
        "text.endswith(end)):",
        "        scores, *_ = forward(encode(prompt + text), **params)",
        "        text += decode([scores[-1].argmax()])",
        "    return text",
    ]
    return [encode, decode, train, answer]


MAIN = [
    "    params = train([given + wanted for given, wanted in TEXTS])",
    "    for prompt in sys.argv[1:] or [given for given, _ in TEXTS]:",
    "        print(prompt + answer(params, prompt))",
]
