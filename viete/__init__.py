"""Viète: write a transformer as equations, then run, prove, differentiate, train and question them.

>>> import viete as vt
>>> card = vt.read("symbolic-transformer")     # a shipped card, a path, or the text of a card
>>> run = card.run([3, 1, 4, 1, 5], card.initial_weights(seed=0))
>>> run["S"].shape, run["logits"].shape
((5, 5), (5, 10))
"""

from __future__ import annotations

# Nothing is imported before it is needed: the command line hears Ctrl-C only after this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from viete.errors import VieteError
    from viete.nouns.card import Card, from_transformers, load, read
    from viete.nouns.model import Model

    __version__: str

__all__ = ["Card", "Model", "VieteError", "__version__", "from_transformers", "load", "read"]

HOMES = {"Model": "viete.nouns.model", "VieteError": "viete.errors"}


if not TYPE_CHECKING:  # which would take any name for one

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version

            try:
                return version("viete")
            except PackageNotFoundError:
                return "0 (run from its source, not installed)"
        if name in __all__:
            from importlib import import_module

            found: object = getattr(import_module(HOMES.get(name, "viete.nouns.card")), name)
            return found
        raise AttributeError(f"module 'viete' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
