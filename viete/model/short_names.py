"""The short names of TransformerLens: ``q5`` and ``("q", 5)`` for ``blocks.5.attn.hook_q``."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from operator import index

from viete.errors import VieteError
from viete.model.table import conventions

Key = str | tuple[str | int | None, ...]
_SHORT = re.compile(r"([a-z_]+?)_?(\d+)([a-z]\w*)?$")


def get_act_name(name: str, layer: int | str | None = None, layer_type: str | None = None) -> str:
    """The full form of a name, as in `transformer_lens.utils`: ``get_act_name("q", 5)``."""
    if "." in name or name.startswith("hook_"):
        return name
    word, given, part = parted((name, None if layer is None else int(layer), layer_type))
    short = conventions().short
    of_block = None if given is None else short.get(f"block {word}")
    ends = f"hook_{of_block or short.get(word, word)}"
    fits = [
        full for full in conventions().values
        if full.rsplit(".", 1)[-1] == ends and ("{l}" in full) == (given is not None)
        and (not part or f".{part}." in full)
    ]  # fmt: skip
    if len(fits) != 1:
        said = f"it may be {' or '.join(fits)}" if fits else near(word)
        raise VieteError(f"{name!r} is not a name of a value; {said}")
    return fits[0].replace("{l}", str(given))


def parted(key: Key) -> tuple[str, int | None, str]:
    """The word, the block and the part of the block of a short name."""
    items = [key] if isinstance(key, str) else list(key) if isinstance(key, tuple) else []
    word, layer, part = (*items, None, None, None)[:3]
    if hasattr(layer, "__index__"):  # of any library
        layer = index(layer)
    if not isinstance(word, str) or not isinstance(layer, int | None) or len(items) > 3:
        raise VieteError(
            f'{key!r} is not a name of a value; write it as "blocks.5.attn.hook_q" or ("q", 5)'
        )
    if layer is None and (m := _SHORT.match(word)):
        word, layer, part = m[1], int(m[2]), m[3]
    part = "" if part is None else str(part)
    return word, layer, conventions().short.get(f"part {part}", part)


@lru_cache(maxsize=1024)  # a name of the card's own is none of these, in every run with its hook
def near(word: str) -> str:
    """The known names nearest to an unknown one, as words."""
    short = {name.rsplit(".", 1)[-1].removeprefix("hook_"): name for name in conventions().values}
    last = word.rsplit(".", 1)[-1].removeprefix("hook_")
    names = [short[c] for c in difflib.get_close_matches(last, list(short), 2, 0.5)]
    some = names or list(conventions().values)[:3]
    return f"there are {', '.join(some)}{'' if names else ' and more'}"


__all__ = ["Key", "get_act_name", "near", "parted"]
