"""The functions of `transformer_lens.utilities` that notebooks use, for arrays of any library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.factored import composition_scores
from viete.evaluate.inputs import in_numpy
from viete.evaluate.labelled import Array
from viete.formats.tensors import require
from viete.model.short_names import get_act_name
from viete.model.slices import LensSlice as Slice


def to_numpy(given: Any) -> np.ndarray:
    """An array of any library, a list or a number, as a NumPy array without gradients."""
    if isinstance(given, list | tuple):
        given = [to_numpy(x) for x in given]
    found = in_numpy(given)
    if found.dtype == object:
        raise VieteError(f"{type(given).__name__} cannot be converted to a NumPy array")
    return found


def get_corner(array: Array, n: int = 3) -> Array:
    """The first ``n`` entries along every axis."""
    return array[(slice(n),) * array.ndim]


def get_device() -> Any:
    """PyTorch's fastest device here: CUDA's, Apple's, or the CPU."""
    torch = require("torch", "to look for its devices")
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def test_prompt(
    prompt: str, answer: str | Sequence[str], model: Any, prepend_space_to_answer: bool = True,
    print_details: bool = True, prepend_bos: bool | None = None, top_k: int = 10,
) -> None:  # fmt: skip
    """Print how a model ranks an answer to a prompt, token by token, and its highest-ranked tokens.

    Of several answers the first tokens are compared.
    """
    answers = [answer] if isinstance(answer, str) else list(answer)
    if prepend_space_to_answer:
        answers = [a if a.startswith(" ") else f" {a}" for a in answers]
    several = len(answers) > 1
    rows = [model.to_tokens(a, prepend_bos=False)[0] for a in answers]
    ids = [[int(t) for t in row[: 1 if several else None]] for row in rows]
    start = model.to_tokens(prompt, prepend_bos=prepend_bos)
    if print_details:
        print("Tokenized prompt:", model.to_str_tokens(prompt, prepend_bos=prepend_bos))
        pieces = [[model.to_string(t) for t in row] for row in ids]
        shown = ("Tokenized answers:", pieces) if several else ("Tokenized answer:", pieces[0])
        print(*shown)
    places: list[list[tuple[str, int]]] = []
    before = [int(t) for t in start[0]]
    for k in range(len(ids[0])):
        scores = to_numpy(model([before + ids[0][:k]]))[0, -1]
        scores = scores.astype(float)
        shares = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        order = np.argsort(-scores, kind="stable")
        rank = {int(t): place for place, t in enumerate(order)}
        asked = [row[k] for row in ids]
        places.append([(str(model.to_string(t)), rank[t]) for t in asked])
        if not print_details:
            continue
        print(f"Performance on answer token{'s' if several else ''}:")
        lines = [(f"Rank: {rank[t]: <8}", t) for t in asked]
        lines += [(f"Top {place}th token.", int(t)) for place, t in enumerate(order[:top_k])]
        for line, t in lines:
            print(f"{line} Logit: {scores[t]:5.2f} Prob: {shares[t]:6.2%} "
                  f"Token: |{model.to_string(t)}|")  # fmt: skip
    print(f"Ranks of the answer tokens: {places if several else [p[0] for p in places]}")


__all__ = ["Slice", "composition_scores", "get_act_name", "get_corner", "get_device", "test_prompt",
           "to_numpy"]  # fmt: skip
