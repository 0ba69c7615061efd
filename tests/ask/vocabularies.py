"""Models with tokenizers of every kind, small enough for a test."""

from __future__ import annotations

from functools import cache
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

import viete as vt
from viete.nouns.model import Model
from viete.text.tokenizer import Tokenizer
from viete.text.vocabulary import BytePairs, Characters, Vocabulary

TEXT = "I live in Dublin and Mary lives in London; the cat sat on the naïve mat, 日本!\n" * 4
KINDS = ("characters", "bytes", "spaces", "metaspace", "wordpiece")


@cache
def vocabulary(kind: str) -> Vocabulary:
    """A vocabulary of TEXT: as GPT-2's (bytes), Llama's (spaces), T5's (metaspace), BERT's."""
    if kind == "characters":
        return Characters.of([TEXT], ["<s>"])
    if kind == "bytes":
        return BytePairs.of([TEXT], 300, ["<s>"])
    if kind == "wordpiece":
        made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = normalizers.Lowercase()
        made.pre_tokenizer = pre_tokenizers.Whitespace()
        made.decoder = decoders.WordPiece()
        trainer: Any = trainers.WordPieceTrainer(
            vocab_size=90, special_tokens=["[UNK]", "[CLS]"], show_progress=False
        )
    else:
        made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
        trainer = trainers.BpeTrainer(
            vocab_size=90, special_tokens=["<unk>", "<s>"], show_progress=False
        )
        made.decoder = decoders.Metaspace()
        if kind == "metaspace":
            made.pre_tokenizer = pre_tokenizers.Metaspace()
        else:
            made.normalizer = normalizers.Sequence(
                [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
            )
            made.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
            made.decoder = decoders.Sequence(
                [decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)]
            )
    made.train_from_iterator(TEXT.splitlines(), trainer)
    return BytePairs(made)


def reader(kind: str, family: str = "gpt2", seed: int = 0, **sizes: int) -> Model[vt.Card]:
    """A model of a family with drawn weights and a tokenizer of some kind."""
    tokenizer = Tokenizer(vocabulary(kind))
    sizes = {"d": 8, "N": 2, "H": 2, "n_max": 60, **sizes}
    card = vt.read(family).bind(V=len(tokenizer) + 3, **sizes)
    model = card.with_weights(seed=seed)
    model.__dict__["tokenizer"] = tokenizer
    return model
