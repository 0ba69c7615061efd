"""Byte-level byte-pair encoding, by the `tokenizers` library: trained here or read from a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from viete.errors import VieteError, Where
from viete.text.vocabulary import ENDS, Ids, known

BYTES = 256
GROWTH = 1_000  # of a text; that of released tokenizers is below 10
MOST = 1 << 22  # tokens of a vocabulary that is trained here


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
        if size > MOST:  # the library makes room for all of them first, and ends the process
            raise VieteError(f"a byte-pair vocabulary has at most {MOST:,} tokens, not {size:,}")
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
        for part, step in ("normalizer", found.normalizer), ("decoder", found.decoder):
            if step is not None and growth(json.loads(step.__getstate__())) > GROWTH:
                raise VieteError(
                    f"{name}: its {part} may make more than {GROWTH:,} characters of one, so that "
                    f"a short text would fill the memory"
                )
        return cls(found)

    def __len__(self) -> int:
        return self.size

    def encode(self, text: str, where: Callable[[int], Where] | None = None) -> Ids:
        """As `Vocabulary.encode`."""
        place = None if where is None else where(0)
        try:
            with panics_in_silence():
                found = self.tokenizer.encode(text, add_special_tokens=False)
        except Exception as error:  # half a surrogate pair; a word that has no token
            raise VieteError(f"this text cannot be encoded ({error})", place) from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise VieteError(
                f"this text cannot be encoded: the tokenizer's own patterns fail on it ({error})",
                place,
            ) from None
        return np.array(found.ids, np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        found = list(known(ids, self.size))
        return str(self.tokenizer.decode(found, skip_special_tokens=False))

    def dumps(self) -> str:
        return str(self.tokenizer.to_str())


def growth(step: Mapping[str, Any]) -> int:
    """How many characters a normalizer or a decoder, as the library saves it, makes of one."""
    match step:
        case {"type": "Sequence"}:
            return prod(map(growth, step.get("normalizers", step.get("decoders", ()))))
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if old:
            return max(1, -(-len(new) // len(old)))
        case {"type": "Replace", "content": str(new)} | {"type": "Prepend", "prepend": str(new)}:
            return 1 + len(new)
        case {"type": "ByteLevel"}:
            return 4  # the bytes of a character in UTF-8
    return 1


@contextmanager
def panics_in_silence() -> Iterator[None]:
    """Keep from standard error what the library, which is in Rust, writes there before it raises.

    A pattern of a ``tokenizer.json`` that gives up on a text, as ``(a+)+$`` does, is such a panic.
    """
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


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
