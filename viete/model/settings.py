"""Writes the ``config.json`` of a model from its card: the inverse of `viete.cards.config`.

Every dimension goes under the first key of its ``config`` column. Every ``config …`` fact, and
every key of the Choices, goes under its own name with the first value that it allows. So this
module knows no model family. The written file is read again, completed by `transformers` where that
is installed, and must give the same equations.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from fractions import Fraction
from itertools import zip_longest
from typing import Any

from viete.cards.choices import of_blocks
from viete.cards.config import Config, allows, given_keys, listed, number_of
from viete.cards.reader import read
from viete.errors import Text, VieteError
from viete.evaluate.schedule import program
from viete.graph.card import CardData
from viete.graph.dependence import backward_slice, functions_called
from viete.model.folder import card_for, families
from viete.model.mapping import given_weights
from viete.notation.printer import show_equation
from viete.notation.tree import Expr
from viete.regular import decoded
from viete.rewrite.inlining import names_in

FAMILY = "config model_type"  # the fact in which a card names its family of `transformers`


def config_of(card: CardData, base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The config that selects the card's equations and sizes.

    ``base`` is a config that the model came with; as much of it as fits is kept. Raises VieteError
    for a card of no family of `transformers`, and where no config means these equations.
    """
    out = deepcopy(dict(base or {}))
    for fact, text in card.facts:
        if fact.startswith("config "):
            asked = fact.removeprefix("config ")
            _, blocks = of_blocks(Text(asked), card)
            for key in blocks.values() or [asked]:
                put_fact(out, card, key, text)
    kind = out.get("model_type")
    if kind not in families():
        raise VieteError(
            f"{card.title}: the card names no family of transformers, so transformers has no class "
            f"that could open it; --to torch writes any card as a PyTorch module"
        )
    for dim in card.dims:
        keys = [k for k in listed(dim.config)[0] if " " not in k]
        size = card.greatest.get(dim.name)
        if keys and size is not None and Config(out).number(dim) != size:
            put(out, place(out, keys), plain(size))
    numbers = given_weights(card)
    for p in card.parameters:
        if p.name in numbers and Config(out).look_up(given_keys(p))[1] is None:
            put(out, place(out, given_keys(p)), numbers[p.name].tolist())
    same_equations(card, out)
    if (filled := as_transformers_fills(out)) is not None:
        same_equations(card, filled)
    return out


def put_fact(out: dict[str, Any], card: CardData, text: str, allowed: str) -> None:
    """Set one fact, unless the config has an allowed value already."""
    keys = [k for k in listed(text)[0] if " " not in k]
    words, optional = listed(allowed)
    words = [w for w in words if w not in ("there", "absent")]  # what is said of tensors
    found = Config(out).look_up(keys)[1]
    if not keys or (found is not None and allows(allowed, found, card)):
        return
    if found is None and optional and (not words or words == ["any"] or "null" in words):
        if "." not in keys[0] and words != ["any"]:
            out.setdefault(keys[0], None)  # since a missing key means what transformers likes
    elif "any" not in words:
        put(out, keys[0], value_of(words[0], f"${words[0]}$" in allowed, card) if words else None)


def value_of(text: str, formula: bool, card: CardData) -> Any:
    """A value for JSON: ``true``, a number, a formula over dimensions as a number, or text."""
    if formula:
        size = number_of(text, card)
        return None if size is None else plain(size)
    try:
        return decoded(text)
    except ValueError:
        return text


def plain(size: Fraction) -> int | float:
    """A number for JSON."""
    return int(size) if size.denominator == 1 else float(size)


def place(values: Mapping[str, Any], keys: list[str]) -> str:
    """The key to set: an existing one, else the first that needs no new object.

    An older config has ``rope_scaling``, and ``rope_parameters`` would contradict it.
    """
    there = {k for k in keys if Config(values).look_up([k])[1] is not None}
    fits = [k for k in keys if "." not in k or Config(values).look_up([k.rpartition(".")[0]])[0]]
    return [*(k for k in keys if k in there), *fits, *keys][0]


def put(out: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; missing objects and lists on the way are created."""
    *way, last = key.split(".")
    here: Any = out
    for part, after in zip(way, [*way, last][1:], strict=True):
        there = dict(enumerate(here)) if isinstance(here, list) else here
        inner = there.get(int(part) if isinstance(here, list) else part)
        if not isinstance(inner, dict | list):
            put_entry(here, part, inner := [] if after.isdigit() else {})
        here = inner
    put_entry(here, last, value)


def put_entry(here: Any, part: str, value: Any) -> None:
    """Set an entry of an object, or of a list, which grows to it."""
    if isinstance(here, list):
        here.extend([None] * (int(part) + 1 - len(here)))
        here[int(part)] = value
    else:
        here[part] = value


# -- read again ------------------------------------------------------------------------------------


def same_equations(card: CardData, config: Mapping[str, Any]) -> None:
    """Check that the family's card, with this config, computes what this model computes.

    Compared are the output of the family's card, its logits or its last value, and all that it
    depends on: a card may have a loss and other values too. Raises VieteError that names the first
    equation, size or parameter that differs.
    """
    settings = Config(config)
    try:
        again = read(card_for(settings), settings, accept=list(config))
    except VieteError as error:
        raise VieteError(
            f"{card.title}: its config cannot be made from the card alone ({error.message})"
        ) from None
    names = {e.name for e in again.equations}
    output = "logits" if "logits" in names else again.equations[-1].name
    for ours, theirs in zip_longest(unrolled(card, output), unrolled(again, output)):
        if ours != theirs:
            raise VieteError(
                f"{card.title}: transformers would compute something else: the family's card "
                f"{again.title} says {equation_text(theirs)}, and this one {equation_text(ours)}"
            )
    limits = {key for d in card.dims if d.at_most is not None for key in d.at_most.keys}
    keyless = {d.name for d in card.dims if not d.config}
    for name, size in card.greatest.items():
        if name in limits & keyless or name in card.lengths:
            continue  # how long a text may be here, of which transformers knows nothing
        if (other := again.greatest.get(name)) != size:
            raise VieteError(
                f"{card.title}: {name} is {size}, and transformers would have {other} by the "
                f"config that the family's card {again.title} describes"
            )
    mine, of_family = parts(card, output), parts(again, output)
    for what, ours in mine.items():
        if odd := next((n for n in {**ours, **of_family[what]}
                        if ours.get(n) != of_family[what].get(n)), None):  # fmt: skip
            raise VieteError(
                f"{card.title}: its {what} {odd} is not that of the family's card "
                f"{again.title}, so transformers would compute something else"
            )


Turn = tuple[Expr, Expr, Mapping[str, int]]


def unrolled(card: CardData, output: str) -> list[Turn]:
    """The equations that the output needs, in every block, however the card groups blocks."""
    names = {e.name for e in backward_slice(card, [output])}
    return [(e.left, e.right, turn) for e, turn in program(card).unrolled() if e.name in names]


def equation_text(turn: Turn | None) -> str:
    """An equation in words."""
    return "no more" if turn is None else show_equation(turn[0], turn[1], "unicode")


def parts(m: CardData, output: str) -> dict[str, dict[str, Any]]:
    """The functions, parameters and indices that the output needs, by name."""
    formulas = [e.right for e in backward_slice(m, [output])]
    called = functions_called(m.function, formulas)
    used = names_in([*formulas, *(m.function[f].body for f in called)])
    return {
        "function": {f.name: (f.arguments, f.body) for f in m.functions if f.name in used},
        "parameter": {p.name: (p.symbol, p.shape, p.checkpoint) for p in m.parameters},
        "index": {i.name: (i.lower, i.upper) for i in m.indices if i.name in used},
    }


def as_transformers_fills(config: dict[str, Any]) -> dict[str, Any] | None:
    """The config with the defaults of `transformers`; None where that is not installed."""
    try:
        import transformers
    except ImportError:
        return None
    kind = config["model_type"]
    try:
        usual = transformers.AutoConfig.for_model(kind)
        for key, value in config.items():
            kinds = str(type(usual).__annotations__.get(key))  # "float | None"
            if type(value) is int and "float" in kinds and "int" not in kinds:
                config[key] = float(value)  # which it insists on
        rest = {"bos_token_id": None, "eos_token_id": None, **deepcopy(config)}
        del rest["model_type"]
        return dict(transformers.AutoConfig.for_model(kind, **rest).to_dict())
    except Exception as error:  # of any kind: it is the library's verdict on the config
        why = " ".join(str(error).split())[:300]
        raise VieteError(f"transformers does not take the config of this model ({why})") from None
