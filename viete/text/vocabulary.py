"""Vocabularies: text as token ids and back, by characters or by byte pairs.

Either is saved as a ``tokenizer.json``. The `tokenizers` library does byte pairs and can also read
the file of a character vocabulary, which needs no library here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from viete.atomic import replacing
from viete.errors import VieteError, Where, os_refusals
from viete.formats.tensors import require
from viete.regular import decoded, regular
from viete.text.data import Documents, Piece
from viete.text.dialogs import MARKUP

LARGEST = 200_000_000  # bytes of a tokenizer.json: those of released models have up to 35 MB
END = "<|endoftext|>"  # between two plain documents, as GPT-2 has it
ENDS = (END, "<eot>", "<END>", "</s>", "<eos>", "<|end_of_text|>")
SPACE = "▁"  # of sentencepiece's vocabularies
BYTES = 256
GROWTH = 1_000  # of a text; that of released tokenizers is below 10
MOST = 1 << 22  # tokens of a vocabulary that is trained here

Ids = np.ndarray[Any, np.dtype[Any]]


class Vocabulary(Protocol):
    """Encodes and decodes text: ``decode(encode(text)) == text`` for every text it can encode."""

    special: tuple[str, ...]  # tokens that are not pieces of text, longest match first
    end: int | None  # the token between two documents, if there is one

    def __len__(self) -> int:
        """The number of tokens; all ids are below it."""

    def encode(self, text: str, where: Callable[[int], Where] | None = None) -> Ids:
        """The ids of a text, shape (n). ``where`` gives the place of a character for errors."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids. Raises VieteError for an id out of range."""

    def spelling(self, k: int) -> str | None:
        """The text of one token, with its leading space; None without one."""

    def number(self, text: str) -> int | None:
        """The token with this spelling, or with this name in the vocabulary, or None."""

    def dumps(self) -> str:
        """The text of a ``tokenizer.json``."""


class Characters:
    """One token for each character, numbered in the order given, then special tokens."""

    def __init__(self, characters: Sequence[str], special: Sequence[str] = ()) -> None:
        self.tokens = (*characters, *special)
        self.special = tuple(sorted(special, key=len, reverse=True))
        if len(set(self.tokens)) < len(self.tokens) or any(len(c) != 1 for c in characters):
            raise VieteError("a character vocabulary holds single characters, each once")
        self.id = {token: k for k, token in enumerate(self.tokens)}
        self.end = next((self.id[t] for t in ENDS if t in self.special), None)
        codes = np.array([ord(c) for c in characters], np.uint32)
        self.order = np.argsort(codes)
        self.codes = codes[self.order]
        self.parts = pieces_of(special)

    @classmethod
    def of(cls, texts: Iterable[str], special: Sequence[str] = ()) -> Characters:
        """The characters of some texts in Unicode order, as nanoGPT numbers them.

        Characters that occur only in special tokens are not part of the vocabulary.
        """
        parts, found = pieces_of(special), set[str]()
        for text in texts:
            found |= set(parts.sub("", text))
        return cls(sorted(found), special)

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str, where: Callable[[int], Where] | None = None) -> Ids:
        """As `Vocabulary.encode`; raises VieteError for a character outside the vocabulary."""
        found, start = [], 0
        for m in chain(self.parts.finditer(text), [None]):
            stop = m.start() if m else len(text)
            found.append(self.plain(text, start, stop, where))
            if m:
                found.append(np.array([self.id[m[0]]], np.int64))
                start = m.end()
        return np.concatenate(found)

    def plain(self, text: str, start: int, stop: int, where: Callable[[int], Where] | None) -> Ids:
        codes = np.frombuffer(text[start:stop].encode("utf-32-le", "surrogatepass"), "<u4")
        if not len(codes):
            return np.zeros(0, np.int64)
        at = np.searchsorted(self.codes, codes).clip(max=max(len(self.codes) - 1, 0))
        bad = self.codes[at] != codes if len(self.codes) else np.ones(len(codes), bool)
        if bad.any():
            position = start + int(bad.argmax())
            c = text[position]
            place = (where or Piece(text, "<text>", 1, True).where)(position)
            raise VieteError(
                f"the character {c!r} (U+{ord(c):04X}) is not among the {len(self.codes)} that the "
                f"vocabulary has",
                place,
            )
        return self.order[at]

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.tokens[k] for k in checked_ids(ids, len(self)))

    def spelling(self, k: int) -> str | None:
        return self.tokens[k]

    def number(self, text: str) -> int | None:
        return self.id.get(text)

    def dumps(self) -> str:
        plain = len(self) - len(self.special)
        return json.dumps(
            {
                "version": "1.0",
                "truncation": None,
                "padding": None,
                "added_tokens": [
                    {"id": plain + k, "content": token, "single_word": False, "lstrip": False,
                     "rstrip": False, "normalized": False, "special": True}
                    for k, token in enumerate(self.tokens[plain:])
                ],
                "normalizer": None,
                "pre_tokenizer": {"type": "Split", "pattern": {"Regex": r"[\s\S]"},
                                  "behavior": "Isolated", "invert": False},
                "post_processor": None,
                "decoder": {"type": "Fuse"},
                # There is no such token: an unknown character is an error there too.
                "model": {"type": "WordLevel", "unk_token": "<unknown>", "vocab": self.id},
            },
            ensure_ascii=False, indent=1,
        )  # fmt: skip


def pieces_of(special: Sequence[str]) -> re.Pattern[str]:
    """A pattern that matches special tokens, the longest first."""
    found = sorted(special, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, found)) or r"(?!)")


def checked_ids(ids: Iterable[int], size: int) -> Iterator[int]:
    for k in map(int, ids):
        if not 0 <= k < size:
            raise VieteError(f"there is no token {k}; the vocabulary has 0 … {size - 1}")
        yield k


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
        """Train on texts (Sennrich et al. 2016, on bytes as in GPT-2), deterministically.

        The 256 bytes come first, so that every text can be encoded; the result has fewer than
        ``size`` tokens if the texts have no more pairs. Raises VieteError for a size below the
        number of bytes and special tokens.
        """
        library = tokenizers()
        least = BYTES + len(special)
        if size < least:
            raise VieteError(
                f"a byte-pair vocabulary of {size} is too small for the {BYTES} bytes and the "
                f"{len(special)} special tokens; it needs at least {least}"
            )
        if size >= 2**32:  # the library numbers tokens in 32 bits
            raise VieteError(f"a byte-pair vocabulary has fewer than 2^32 tokens, not {size}")
        if size > MOST:  # the library first allocates all of them, and aborts the process
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
        """Read the text of a ``tokenizer.json``. Its padding and truncation are disabled.

        Raises VieteError if the library rejects it.
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
            if step is not None and growth(decoded(step.__getstate__())) > GROWTH:
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
        found = list(checked_ids(ids, self.size))
        return str(self.tokenizer.decode(found, skip_special_tokens=False))

    def spelling(self, k: int) -> str | None:
        """As `Vocabulary.spelling`; an incomplete character is spelled by its name in the file."""
        called: str | None = self.tokenizer.id_to_token(k)
        if called is None:
            return None
        if SPACE in called and called not in self.special:  # left out where a text begins
            return called.replace(SPACE, " ")
        text = self.decode([k])
        return called if "\ufffd" in text or not text else text

    def number(self, text: str) -> int | None:
        """As `Vocabulary.number`."""
        names = dict.fromkeys((text.replace(" ", SPACE), text))
        found: Iterator[int | None] = map(self.tokenizer.token_to_id, names)
        return next((k for k in found if k is not None), None)

    def dumps(self) -> str:
        return str(self.tokenizer.to_str())


def growth(step: Mapping[str, Any]) -> int:
    """The most characters that a normalizer or decoder, as the library saves it, makes of one."""
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
    """Suppress the library's output on standard error, where it (in Rust) reports panics.

    A pattern of a ``tokenizer.json`` that fails on a text, as ``(a+)+$`` does, causes such a panic.
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
    """The `tokenizers` library."""
    return require("tokenizers", "for byte-pair vocabularies", "train")


def digest(vocabulary: Vocabulary) -> str:
    """A digest of a vocabulary: 32 hexadecimal digits."""
    return hashlib.blake2b(vocabulary.dumps().encode(), digest_size=16).hexdigest()


def make_vocabulary(
    documents: Documents, kind: str = "characters", size: int | None = None,
    special: Sequence[str] = (),
) -> Vocabulary:  # fmt: skip
    """A vocabulary for documents: 'characters', or 'bpe' with ``size`` tokens.

    Byte pairs have the markup of dialogs as special tokens; characters spell it. For several plain
    documents, both have a token between them. ``special`` are pieces of the text that are one token
    each. Raises VieteError for a special token that does not occur in the text.
    """
    if kind not in ("characters", "bpe"):
        raise VieteError(f"unknown vocabulary {kind!r:.40}; use 'characters' or 'bpe'")
    missing = dict.fromkeys(special)
    if odd := next((t for t in missing if not t or re.search(r"\s", t)), None):
        raise VieteError(f"a special token is a piece of text without spaces, not {odd!r}")
    for text in documents.texts() if missing else ():
        missing = dict.fromkeys(t for t in missing if t not in text)
    if missing:
        raise VieteError(f"{documents.path}: the special token {next(iter(missing))} is not in it")
    between = [END] if documents.several and not documents.apart and END not in special else []
    if kind == "characters":
        if size is not None:
            raise VieteError("a character vocabulary has as many tokens as there are characters")
        return Characters.of(documents.texts(), [*between, *dict.fromkeys(special)])
    if size is None:
        raise VieteError("a byte-pair vocabulary needs its size, such as 1024")
    own = MARKUP if documents.dialogs else [END]
    return BytePairs.of(documents.texts(), size, list(dict.fromkeys([*own, *special])))


def save_vocabulary(vocabulary: Vocabulary, path: str | Path) -> None:
    """Write a ``tokenizer.json``, completely or not at all."""
    with replacing(path) as file:
        file.write(vocabulary.dumps().encode())


def load_vocabulary(path: str | Path) -> Vocabulary:
    """Read a ``tokenizer.json`` of Viète or of others, given as a file or its folder.

    Except for characters, it needs the `tokenizers` library. Raises VieteError for any other file.
    """
    path = Path(path)
    path = path / "tokenizer.json" if path.is_dir() else path
    try:
        with os_refusals(path):
            text = regular(path, LARGEST).read_text("utf-8")
        stored = decoded(text)
    except ValueError:
        raise VieteError(f"{path}: not a tokenizer.json (it is not JSON)") from None
    model = stored.get("model") if isinstance(stored, dict) else None
    if not isinstance(model, dict):
        raise VieteError(f"{path}: not a tokenizer.json (it has no 'model')")
    split = stored.get("pre_tokenizer")
    split = split.get("type") if isinstance(split, dict) else None
    if (model.get("type"), split) == ("WordLevel", "Split"):
        return characters(stored, path)
    return BytePairs.loads(text, str(path))


def characters(stored: dict[str, Any], path: Path) -> Characters:
    """A character vocabulary from the JSON of `Characters.dumps`."""
    wrong = VieteError(
        f"{path}: this tokenizer.json looks like a character vocabulary, but is not one"
    )
    try:
        ids = dict(stored["model"]["vocab"])
        special = [token["content"] for token in stored.get("added_tokens") or ()]
        tokens = sorted(ids, key=ids.__getitem__)
        plain = tokens[: len(tokens) - len(special)]
        if [ids[t] for t in tokens] != list(range(len(tokens))) or tokens != plain + special:
            raise wrong
        return Characters(plain, special)
    except (KeyError, TypeError, ValueError, AttributeError, VieteError):
        raise wrong from None


__all__ = [
    "BytePairs", "Characters", "Vocabulary", "load_vocabulary", "make_vocabulary",
    "save_vocabulary", "tokenizers",
]  # fmt: skip
