"""Methods that models of TransformerLens and PyTorch also have: `generate`, `to`, `eval`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from viete.errors import VieteError
from viete.graph.card import CardData
from viete.model.calls import to_device
from viete.model.hooks import Hooked
from viete.model.tokens import Texts, are_texts, whole_numbers


class LikeModules(Texts, Hooked):
    """Methods with the names and arguments of TransformerLens and PyTorch."""

    framework: str  # for the class that is made of this
    dtype: str | None
    device: str | None
    source: Callable[[CardData], Mapping[str, Any]]

    def sample(self, prompt: Any, /, **options: Any) -> Iterator[tuple[int | None, ...]]:
        """Continue a text; a subclass defines it."""
        raise NotImplementedError

    def generate(
        self, input: Any = "", max_new_tokens: int = 10, stop_at_eos: bool = True,
        eos_token_id: int | None = None, do_sample: bool = True, top_k: int | None = None,
        top_p: float | None = None, temperature: float = 1.0, use_past_kv_cache: bool = True,
        prepend_bos: bool | None = None, return_type: str = "input", seed: int = 0,
        verbose: bool = False,
    ) -> Any:  # fmt: skip
        """Continue a text or token ids, (n) or (batch, n), as TransformerLens does.

        >>> model.generate("I live in", max_new_tokens=5)  # doctest: +SKIP

        A text returns a text, without the tokens that begin and end one; ids return ids, (batch,
        n). ``return_type`` "str" or "tokens" overrides this. In a batch, a sequence that has ended
        is filled with its last token. ``temperature=0`` takes the likeliest token, as
        ``do_sample=False`` does.
        """
        how: dict[str, Any] = {"greedy": True}
        if do_sample and temperature != 0:
            how = {"top_k": top_k, "top_p": top_p, "temperature": temperature}
        texts = isinstance(input, str) or are_texts(input)
        if return_type not in ("input", "str", "tokens"):
            raise VieteError(f"return_type is 'input', 'str' or 'tokens', not {return_type!r:.40}")
        given = [input] if isinstance(input, str) else list(input) if texts else input
        rows = [self.ids(text, prepend_bos) for text in given] if texts else whole_numbers(given)
        ids = [[int(t) for t in row] for row in (rows if texts else np.atleast_2d(rows))]
        end = eos_token_id
        if stop_at_eos and end is None and self.own_tokenizer() is not None:
            end = self.tokenizer.eos_token_id
        stop = end if stop_at_eos else None
        for k, row in enumerate(ids):
            row += [t for t, in self.sample(
                np.array(row), most=max_new_tokens, cache=use_past_kv_cache, seed=seed + k,
                stop=stop, **how,
            ) if t is not None]  # fmt: skip
        if return_type == "str" or (return_type == "input" and texts):
            known = self.tokenizer
            ends = {known.bos_token_id, known.eos_token_id, known.pad_token_id, end}
            out = [known.decode([t for t in row if t not in ends]) for row in ids]
            return out[0] if isinstance(input, str) else out
        longest = max(map(len, ids))
        filled = [row + [end or 0] * (longest - len(row)) for row in ids]
        return self.in_its_arrays(np.array(filled, np.int64))

    def to(self, *where: Any) -> Self:
        """Move the weights to a device or precision of PyTorch, in place.

        Raises VieteError for weights of another library.
        """
        moved = {name: to_device(w, *where) for name, w in self.weights.items()}
        for name in self.__dict__.keys() & {"parameters_alone", "cfg", "weights"}:
            del self.__dict__[name]  # what was made of the weights as they were
        self.source = lambda card: moved
        if self.framework == "torch":
            like = next(iter(moved.values()))
            self.device, self.dtype = str(like.device), str(like.dtype).removeprefix("torch.")
        return self

    def cuda(self) -> Self:
        """Move the weights to a GPU, in place."""
        return self.to("cuda")

    def cpu(self) -> Self:
        """Move the weights to main memory, in place."""
        return self.to("cpu")

    def train(self, mode: bool = True) -> Self:
        """Returns the model itself: its equations are the same in training."""
        return self

    def eval(self) -> Self:
        """Returns the model itself, as `train` does."""
        return self


__all__ = ["LikeModules"]
