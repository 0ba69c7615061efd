"""Byte-level byte-pair encoding, by the `tokenizers` library: trained here or read from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from viete.errors import VieteError, Where
from viete.train.vocabulary import ENDS, Ids, known

BYTES = 256


class BytePairs:
    """A tokenizer of the `tokenizers` library as a `Vocabulary`."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.size = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
        added = tokenizer.get_added_tokens_decoder().values()
        self.special = tuple(sorted((t.content for t in added), key=len, reverse=True))
        found = (tokenizer.token_to_id(t) for t in ENDS)
        self.end: int | None = next((k for k in found if k is not None), None)

    @classmethod
    def of(cls, texts: Iterable[str], size: int, special: Sequence[str] = ()) -> BytePairs:
        """Train on texts (Sennrich et al. 2016, on bytes as GPT-2 has it), deterministically.

        The 256 bytes come first, so that every text can be encoded; fewer than ``size`` tokens
        come out where the texts have no more pairs. Raises VieteError for a size below that.
        """
        library = tokenizers()
        least = BYTES + len(special)
        if size < least:
            raise VieteError(
                f"a byte-pair vocabulary of {size} has no room for the {BYTES} bytes and "
                f"{len(special)} special tokens; it takes at least {least}"
            )
        if size >= 2**32:  # the library numbers tokens in 32 bits
            raise VieteError(f"a byte-pair vocabulary has fewer than 2^32 tokens, not {size}")
        made = library.Tokenizer(library.models.BPE())
        made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = library.decoders.ByteLevel()
        made.train_from_iterator(texts, library.trainers.BpeTrainer(
            vocab_size=size, special_tokens=list(special), show_progress=False,
            initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
        ))  # fmt: skip
        return cls(made)

    @classmethod
    def loads(cls, text: str, name: str = "tokenizer.json") -> BytePairs:
        """Read the text of a ``tokenizer.json``. Padding and truncation that it asks for are off.

        Raises VieteError where the library does not take it.
        """
        library = tokenizers()
        try:
            found = library.Tokenizer.from_str(text)
        except Exception as error:  # the library raises nothing narrower
            raise VieteError(f"{name}: not a tokenizer.json ({error})") from None
        found.no_padding()
        found.no_truncation()
        if not found.get_vocab_size(with_added_tokens=True):
            raise VieteError(f"{name}: this tokenizer has no tokens")
        return cls(found)

    def __len__(self) -> int:
        return self.size

    def encode(self, text: str, where: Callable[[int], Where] | None = None) -> Ids:
        """As `Vocabulary.encode`."""
        try:
            return np.array(self.tokenizer.encode(text, add_special_tokens=False).ids, np.int64)
        except Exception as error:  # half a surrogate pair; a word that has no token
            place = None if where is None else where(0)
            raise VieteError(f"this text cannot be encoded ({error})", place) from None

    def decode(self, ids: Iterable[int]) -> str:
        found = list(known(ids, self.size))
        return str(self.tokenizer.decode(found, skip_special_tokens=False))

    def dumps(self) -> str:
        return str(self.tokenizer.to_str())


def tokenizers() -> Any:
    """The library, or a sentence that says how to get it."""
    try:
        import tokenizers as library
    except ModuleNotFoundError:
        raise VieteError(
            "byte-pair vocabularies need the tokenizers library: pip install 'viete[train]'"
        ) from None
    return library


__all__ = ["BytePairs"]
