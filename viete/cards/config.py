"""Reads a Hugging Face ``config.json`` against a card.

The card says how. The ``config`` column of its Dimensions table names the key of each dimension:
``rope_parameters.rope_theta, rope_theta or missing``. A dot enters a nested object or list, the
first of several keys that is present counts, and ``or missing`` keeps the card's own value where no
key is present. A section Choices (see `viete.cards.choices`) says which equations hold for which
settings. Bullets before the first section say what else must hold::

    - **config model_type**: gpt2
    - **config rope_scaling**: missing

A key whose value is null is missing, as in `transformers`. Any other key is refused, since it may
change the function, unless `HARMLESS` lists it.

A parameter may be a list of numbers in the config: its ``checkpoint`` is ``config KEY``.

Where the tensors are known too, a key may test them: ``tensor pooler.dense.weight`` is ``there`` or
``absent``, ``count blocks.*.attn.W_Q`` is the number of tensors with such a name, and ``size
embed.W_E 0`` is the length of the first axis of a tensor.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase, translate
from fractions import Fraction
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any

from viete.errors import Text, VieteError
from viete.graph.card import CardData, Dimension, Parameter
from viete.notation.parser import parse
from viete.notation.symbols import Scope
from viete.regular import read_object

HOLE = re.compile(r"\{([^{}]*)\}")  # around the index letter in a key
DEEPEST = 50
# Keys that say nothing of the function from tokens to values: whose model it is and how it is
# packed, how it was initialised and trained, how text is drawn from it, what a call returns.
HARMLESS = """
    _* architectures model_type auto_map transformers_version torch_dtype dtype name_or_path
    tokenizer_class task_specific_params finetuning_task problem_type id2label label2id num_labels
    *dropout* *drop *pdrop *layerdrop init* *_std *initializer* use_cache gradient_checkpointing
    *_token_id output_* return_dict* torchscript use_bfloat16 pretraining_tp *_loss_coef
    router_jitter_noise summary_* prefix max_length min_length do_sample early_stopping num_beams
    num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty
    length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
    num_return_sequences remove_invalid_values exponential_decay_length_penalty suppress_tokens
    begin_suppress_tokens forced_* cache_implementation attn_implementation transformers
    quantization_config.none reorder_and_upcast_attn chunk_size_feed_forward tf_legacy_loss
""".split()
IS_HARMLESS = re.compile("|".join(map(translate, HARMLESS)))
# What any class of `transformers` may be asked for, and says nothing while it is false.
SWITCHES = {"is_decoder", "is_encoder_decoder", "add_cross_attention", "tie_encoder_decoder"}


class Config:
    """A config's keys and values, and which of the keys were looked up.

    ``tensors`` are the shapes of the file's tensors, by name, where they are known. Where they are
    ``alone``, with no keys beside them, the card counts: its numbers stand, and the first row of
    each of its Choices, as without a config.
    """

    def __init__(
        self, source: Mapping[str, Any] | str | Path,
        tensors: Mapping[str, Sequence[int]] | None = None, name: str = "the config",
        alone: bool = False,
    ) -> None:  # fmt: skip
        """Read a config. Raises VieteError for a file that is not a JSON object."""
        self.name, self.values = (
            (name, source) if isinstance(source, Mapping) else read_json(source)
        )
        self.tensors = tensors
        self.known: set[str] = set()
        self.alone = alone

    @property
    def content(self) -> tuple[str, tuple[tuple[str, tuple[int, ...]], ...] | None, bool]:
        """The content of the config, as a key for caches."""
        shapes = None if self.tensors is None else tuple(
            (name, tuple(shape)) for name, shape in self.tensors.items()
        )  # fmt: skip
        return repr(self.values), shapes, self.alone

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)

    def look_up(self, keys: Sequence[str], null: bool = False) -> tuple[str, Any]:
        """The first of the keys that has a value, with that value; ("", None) if none has one.

        With ``null`` a key that is present without a value counts too.
        """
        self.known.update(keys)
        self.check_consistent(keys)
        for key in keys:
            if " " in key:
                if (answer := self.of_tensors(key)) is not None:
                    return key, answer
                continue
            if null and key in self.values and self.values[key] is None:
                return key, None
            found: Any = self.values
            for part in key.split("."):
                if isinstance(found, list | tuple) and part.isdigit():
                    self.known.add(key.removesuffix(f".{part}"))
                    found = found[int(part)] if int(part) < len(found) else None
                else:
                    found = found.get(part) if isinstance(found, Mapping) else None
            if found is not None:
                return key, found
        return "", None

    def check_consistent(self, keys: Sequence[str]) -> None:
        """Check that two objects for the same settings do not contradict each other.

        For example ``rope_scaling`` and ``rope_parameters``: one must be missing, or repeat the
        other, since readers differ in which one they use.
        """
        tops = dict.fromkeys(key.split(".")[0] for key in keys if "." in key and " " not in key)
        there = [top for top in tops if isinstance(self.values.get(top), Mapping)]
        for one, other in pairwise(there):
            a, b = self.values[one], self.values[other]
            if not (within(a, b) or within(b, a)):
                raise VieteError(
                    f"{self.name}: {one} and {other} contradict each other; keep only the right one"
                )

    def of_tensors(self, key: str) -> str | int | None:
        """The answer of the tensors to ``tensor GLOB``, ``count GLOB`` or ``size GLOB AXIS``."""
        what, glob, *axis = key.split()
        if self.tensors is None:
            return None
        names = (glob, f"*.{glob}")  # a file may have a prefix before all of them
        shapes = [x for n, x in self.tensors.items() if any(fnmatchcase(n, g) for g in names)]
        if what == "tensor":
            return "there" if shapes else "absent"
        if what == "count":
            return len(shapes) or None
        at = int(axis[0])
        return shapes[0][at] if shapes and at < len(shapes[0]) else None

    def number(self, dim: Dimension) -> Fraction | None:
        """The config's number for a dimension; None without one of its keys."""
        keys = listed(dim.config)[0]
        key, found = self.look_up(keys)
        if found is None:
            return None
        if " " in key:  # tensors say it
            stated, other = self.look_up([k for k in keys if " " not in k])
            if is_number(other) and 0 < other != found:
                raise VieteError(
                    f"{self.name}: {stated} is {other}, and the tensors say {found} ({key}); "
                    f"leave out the one that is wrong"
                )
        try:
            if isinstance(found, bool) or not isinstance(found, Real):
                raise ValueError
            return Fraction(str(found))
        except ValueError:  # so are nan and infinity
            raise VieteError(
                f"{self.name}: {key} gives {dim.name}, so it must be a number, not {found!r}"
            ) from None

    def numbers(self, p: Parameter) -> Parameter:
        """A ``given`` parameter with the config's list of numbers, or unchanged without one."""
        key, found = self.look_up(given_keys(p))
        if found is None:
            return p
        if not (isinstance(found, list) and found and all(map(is_number, found))):
            raise VieteError(
                f"{self.name}: {key} gives {p.name}, so it must be a list of numbers, not "
                f"{word(found):.60}"
            )
        return replace(p, value=f"[{' '.join(map(repr, found))}]")

    def check_complete(self, card: CardData) -> None:
        """Check that the config gives all numbers that a model needs.

        A value defined by other dimensions (``d_f = 4 d``) stands where the key is missing; a plain
        number is one released size's and stands only if the card says ``or missing``.
        """
        for dim in card.dims:
            keys, optional = listed(dim.config)
            own = self.alone and (dim.value is not None or dim.at_most is not None)
            needed = keys and not (optional or own or is_derived(card, dim))
            if needed and self.look_up(keys)[1] is None:
                raise self.missing(of_a_config(card, keys), dim.name)
        for p in card.parameters:
            if p.from_config and not p.value:
                raise self.missing(given_keys(p), p.name)

    def missing(self, keys: Sequence[str], name: str) -> VieteError:
        return VieteError(f"{self.name}: {' or '.join(keys)} is missing, so {name} has no value")

    def check_facts(self, card: CardData) -> None:
        """Check that the card's ``config …`` facts hold."""
        for fact, wanted in card.facts:
            if fact.startswith("config "):
                for keys in self.each(listed(fact.removeprefix("config "))[0]):
                    key, found = self.look_up(keys)
                    if self.alone and not key:
                        continue
                    if not allows(wanted, found, card):
                        raise VieteError(
                            f"{self.name}: {self.what(keys, key, found)}, but the card "
                            f"{card.title} needs {wanted}"
                        )

    def each(self, keys: Sequence[str]) -> Iterator[list[str]]:
        """The keys for each entry of a list, where they have an index letter: ``kinds.{i-1}``."""
        if not any("{" in key for key in keys):
            yield list(keys)
            return
        _, found = self.look_up([key.partition(".{")[0] for key in keys])
        for k in range(len(found) if isinstance(found, list) else 1):
            yield [HOLE.sub(str(k), key) for key in keys]

    def what(self, keys: Sequence[str], key: str, found: Any) -> str:
        """``key is value``, or a note that it is missing."""
        open_ = [k for k in keys if " " not in k and self.look_up([k])[1] is None]
        if " " in key and open_:
            return f"{' or '.join(open_)} is missing, and {key} is {word(found)}"
        return f"{key} is {word(found)}" if key else f"{' or '.join(keys)} is missing"

    def check_accounted(self, card: CardData, accept: Sequence[str]) -> None:
        """Check that the card knows every key that might change the function."""
        unknown = {}
        for key, value in leaves(self.values):
            top = key.split(".")[0]
            if key in self.known or top in self.known or {key, top} & set(accept):
                continue
            if key in SWITCHES and value is False:
                continue
            if not IS_HARMLESS.match(top):
                unknown[key] = value
        if unknown:
            what = ", ".join(f"{key} is {word(value):.60}" for key, value in unknown.items())
            raise VieteError(
                f"{self.name}: {what}, and no equation of the card {card.title} uses that, so "
                f"the card may not describe this model; if you know that it does, accept "
                f"{', '.join(unknown)}"
            )


def bound(dims: Sequence[Dimension], config: Config) -> dict[str, Fraction]:
    """The config's numbers for dimensions, by their names."""
    found = {d.name: config.number(d) for d in dims if d.config}
    return {name: x for name, x in found.items() if x is not None}


def read_json(path: str | Path) -> tuple[str, Mapping[str, Any]]:
    """The name of a ``config.json``, given by itself or by its folder, and its object."""
    if not isinstance(path, str | Path):
        raise VieteError(f"a config must be a mapping or a path, not {type(path).__name__}")
    path = Path(path) / "config.json" if Path(path).is_dir() else Path(path)
    found = read_object(path, "config.json")
    if deeper(found, DEEPEST):
        raise VieteError(f"{path} is nested more than {DEEPEST} deep, so it is not a config.json")
    return str(path), found


def asked(card: CardData) -> list[str]:
    """Every key that a card asks for, of a config or of tensors."""
    cells = [d.config for d in card.dims]
    cells += [fact.removeprefix("config ") for fact, _ in card.facts if fact.startswith("config ")]
    keys = [key for cell in cells for key in listed(cell)[0]]
    return keys + [key for p in card.parameters if p.from_config for key in given_keys(p)]


def given_keys(p: Parameter) -> list[str]:
    """The keys of a ``given`` parameter's numbers."""
    return listed(p.checkpoint.removeprefix("config "))[0]


def is_number(value: Any) -> bool:
    """Whether a value of a config is a finite number."""
    return type(value) in (int, float) and math.isfinite(value)


def within(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether every entry of ``a`` is also in ``b``."""
    return all(key in b and b[key] == value for key, value in a.items())


def deeper(found: Any, levels: int) -> bool:
    """Whether objects and lists are nested deeper than this."""
    inside = [found]
    for _ in range(levels):
        inside = [
            v for x in inside for v in (x.values() if isinstance(x, dict) else x)
            if isinstance(v, dict | list)
        ]  # fmt: skip
    return bool(inside)


def of_a_config(card: CardData, keys: Sequence[str]) -> Sequence[str]:
    """The keys of a `config.json` among those of all file formats, such as GGUF's llama.…"""
    kinds = dict(card.facts).get("config model_type", "").split()
    plain = [k for k in keys if not k.startswith("size ") and k.partition(".")[0] not in kinds]
    return plain or keys


def listed(text: str) -> tuple[list[str], bool]:
    """``a, b or missing`` as (a, b) and whether ``missing`` is among them."""
    words = [w for w in re.split(r"\s*,\s*|\s+or\s+", re.sub(r"[`$]", "", text).strip()) if w]
    return [w for w in words if w != "missing"], "missing" in words


def allows(allowed: str, found: Any, card: CardData, null: bool = False) -> bool:
    """Whether a cell such as ``gelu, $d$ or missing`` lists a value of a config.

    None is a missing key, or with ``null`` one that is present without a value.
    """
    words, optional = listed(allowed)
    if found is None:
        return "null" in words if null else optional
    return "any" in words or word(found) in words or any(
        number_of(w, card) == found for w in words if f"${w}$" in allowed
    )  # fmt: skip


def number_of(text: str, card: CardData) -> Fraction | None:
    """The value of a formula of dimensions."""
    size = card.size(parse(Text(text), scope_of(card)))
    return None if size is None else size.evaluate(card.sizes)


def scope_of(card: CardData) -> Scope:
    """The names of dimensions and loop letters."""
    return Scope.of((d.symbol for d in card.dims), card.loop_letters)


def word(value: Any) -> str:
    """A value as a card spells it: text without quotes, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def leaves(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Every key with a value; keys of nested objects are joined by dots."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{before}{key}.")
        elif value is not None and value != []:
            yield f"{before}{key}", value


def is_derived(card: CardData, dim: Dimension) -> bool:
    """Whether the card defines the dimension by others, as in ``d_f = 4 d``."""
    value = dim.at_most if dim.value is None else dim.value
    size = None if value is None else card.size(value)
    return size is not None and size.number() is None
