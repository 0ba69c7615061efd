"""The tokenizer of a released model, without `transformers`.

The `tokenizers` library reads ``tokenizer.json``; without that file, it builds a tokenizer from
``vocab.json`` and ``merges.txt`` (GPT-2). ``tokenizer_config.json`` says which tokens begin, end
and pad a text; otherwise ``special_tokens_map.json`` does, or the ids in ``config.json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from viete.errors import VieteError, os_refusals
from viete.regular import read_object, regular
from viete.text.vocabulary import (
    LARGEST,
    BytePairs,
    Characters,
    Ids,
    Vocabulary,
    load_vocabulary,
    tokenizers,
)  # fmt: skip

JSON, VOCABULARY, MERGES, PIECES = (
    "tokenizer.json", "vocab.json", "merges.txt", "tokenizer.model"
)  # fmt: skip
SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")
FILES = (JSON, VOCABULARY, MERGES, PIECES, *SETTINGS, "added_tokens.json")


class Tokenizer:
    """A `Vocabulary` with the special tokens that frame a text.

    ``bos_token_id`` begins a text, ``eos_token_id`` ends it, ``pad_token_id`` pads the shorter ones
    of a batch; any may be None. ``folder`` is where it was read.
    """

    def __init__(
        self, vocabulary: Vocabulary, bos: int | None = None, eos: int | None = None,
        pad: int | None = None, folder: Path | None = None,
    ) -> None:  # fmt: skip
        self.vocabulary, self.folder = vocabulary, folder
        self.bos_token_id, self.eos_token_id, self.pad_token_id = bos, eos, pad
        self.special = vocabulary.special
        ends = (eos, bos, vocabulary.end)
        self.end = next((k for k in ends if k is not None), None)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str, where: Any = None) -> Ids:
        """The ids of a text without framing tokens, (n)."""
        return self.vocabulary.encode(text, where)

    def framed(self, text: str, bos: bool | None = None) -> list[int]:
        """The ids of a text as the model was trained on it.

        That is with the tokens of the tokenizer's template around it ([CLS] … [SEP]), and after the
        token that begins a text, if it has one. ``bos`` True requires that token, False gives the
        text without any framing.
        """
        if bos is False:
            return [int(k) for k in self.encode(text)]
        first = self.bos_token_id
        if bos and first is None:
            raise VieteError("this tokenizer has no token that begins a text")
        ids = [int(k) for k in self.around(text)]
        return ids if first is None or ids[:1] == [first] else [first, *ids]

    def around(self, text: str) -> Iterable[int]:
        """The ids of a text with the tokens of the tokenizer's template."""
        own = getattr(self.vocabulary, "tokenizer", None)
        plain = self.encode(text)  # raises if the text cannot be encoded
        return plain if own is None else own.encode(text, add_special_tokens=True).ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, with special tokens spelled out."""
        return self.vocabulary.decode(ids)

    def spelling(self, k: int) -> str | None:
        """The text of one token; see `Vocabulary`."""
        return self.vocabulary.spelling(k)

    def number(self, text: str) -> int | None:
        """The token with this spelling; see `Vocabulary`."""
        return self.vocabulary.number(text)

    def dumps(self) -> str:
        """The text of a ``tokenizer.json``."""
        return self.vocabulary.dumps()


def open_tokenizer(folder: Path, config: Mapping[str, Any] | None = None) -> Tokenizer | None:
    """The tokenizer in a folder, or None if it has none; ``config`` is the ``config.json``.

    Raises VieteError for a damaged tokenizer, or a kind that `tokenizers` does not read.
    """
    said = [read_object(folder / name, "settings of a tokenizer", LARGEST)
            for name in SETTINGS if (folder / name).is_file()]  # fmt: skip
    roles = {role: special(role, said) for role in ("bos", "eos", "pad")}
    if (folder / JSON).is_file():
        vocabulary = load_vocabulary(folder / JSON)
    elif (folder / VOCABULARY).is_file() and (folder / MERGES).is_file():
        vocabulary = byte_pairs(folder, said, config or {})
    elif (folder / PIECES).is_file():
        raise VieteError(
            f"{folder / PIECES}: is a sentencepiece model, which is not read here; make a {JSON} "
            f"of it: transformers.AutoTokenizer.from_pretrained({str(folder)!r})"
            f".save_pretrained({str(folder)!r})"
        )
    else:
        return None
    ids = {role: role_id(role, roles[role], vocabulary, config or {}) for role in roles}
    return Tokenizer(vocabulary, ids["bos"], ids["eos"], ids["pad"], folder)


MISSING = object()


def special(role: str, said: Iterable[Mapping[str, Any]]) -> Any:
    """A special token's text, None if the settings say there is none, else `MISSING`."""
    for settings in said:
        found = settings.get(f"{role}_token", MISSING)
        found = found.get("content") if isinstance(found, Mapping) else found
        if found is None or isinstance(found, str):
            return found
    return MISSING


def role_id(role: str, text: Any, vocabulary: Vocabulary, config: Mapping[str, Any]) -> int | None:
    """The id of the special token of a role, or None."""
    if text is None:
        return None
    if text is not MISSING:
        if isinstance(vocabulary, BytePairs):
            return cast(int | None, vocabulary.tokenizer.token_to_id(text))
        return vocabulary.id.get(text) if isinstance(vocabulary, Characters) else None
    found: Any = config.get(f"{role}_token_id")
    found = found[0] if isinstance(found, list) and found else found  # some have several end tokens
    plain = isinstance(found, int) and not isinstance(found, bool)
    return found if plain and 0 <= found < len(vocabulary) else None


def byte_pairs(
    folder: Path, said: Iterable[Mapping[str, Any]], config: Mapping[str, Any]
) -> Vocabulary:
    """The tokenizer in GPT-2's two files (Radford et al. 2019, sec. 2.2: pairs of bytes)."""
    library, said = tokenizers(), list(said)
    files = [folder / VOCABULARY, folder / MERGES]
    for path in files:
        with os_refusals(path):
            regular(path, LARGEST)
    try:
        model = library.models.BPE.from_file(*map(str, files))
        made = library.Tokenizer(model)
        space = any(s.get("add_prefix_space") is True for s in said)
        made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=space)
        made.decoder = library.decoders.ByteLevel()
    except Exception as error:  # the library raises nothing narrower
        why = str(error).split("\n")[0][:200]
        raise VieteError(f"{folder}: {VOCABULARY} and {MERGES} make no tokenizer ({why})") from None
    if not made.get_vocab_size():
        raise VieteError(f"{folder / VOCABULARY}: this tokenizer has no tokens")
    made.add_special_tokens(list(dict.fromkeys(specials(made, said, config))))
    return BytePairs(made)


def specials(
    made: Any, said: Iterable[Mapping[str, Any]], config: Mapping[str, Any]
) -> Iterator[str]:
    """The special tokens of a vocabulary, which are not pieces of text."""
    for settings in said:
        for role in ("bos", "eos", "pad", "unk", "cls", "sep", "mask"):
            text = special(role, [settings])
            if isinstance(text, str) and made.token_to_id(text) is not None:
                yield text
    for role in ("bos", "eos"):
        found = config.get(f"{role}_token_id")
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**31:
            text = made.id_to_token(found)
            if text is not None:
                yield text


__all__ = ["FILES", "Tokenizer", "open_tokenizer"]
