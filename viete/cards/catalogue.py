"""The shipped cards, and how a card is found by its path or its name."""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path

from viete.errors import VieteError


def shipped() -> dict[str, Path]:
    """The file of each shipped card by its name (``pythia``), in alphabetical order."""
    folder = Path(str(resources.files("viete.cards").joinpath("shipped")))
    return {path.stem: path for path in sorted(folder.glob("*.md"), key=lambda p: p.stem)}


def coders() -> dict[str, Path]:
    """The file of each shipped card of features by its name (``sae``)."""
    folder = Path(str(resources.files("viete.cards").joinpath("coders")))
    return {path.stem: path for path in sorted(folder.glob("*.md"), key=lambda p: p.stem)}


def trained() -> dict[str, Path]:
    """The card of each shipped model by its name (``two-layers``); its weights are beside it."""
    folder = Path(str(resources.files("viete.cards").joinpath("trained")))
    return {path.stem: path for path in sorted(folder.glob("*.md"), key=lambda p: p.stem)}


def model_path(name: str | Path) -> str | Path:
    """The card of the shipped model of that name; any other name unchanged."""
    known = trained().get(name.lower()) if isinstance(name, str) else None
    return name if known is None or Path(name).exists() else known


def named() -> dict[str, Path]:
    """Every named card, of models and of features."""
    return shipped() | coders()


def find(name: str | Path) -> Path:
    """The file of a card: a path if it exists, else the shipped card of that name.

    Raises VieteError, naming shipped cards with a similar spelling, where neither exists.
    """
    if not isinstance(name, str | Path):
        raise VieteError(f"a card must be a path or the name of a shipped card, not {name!r:.60}")
    path, cards = Path(name), named() | trained()
    known = str(name).lower().removesuffix(".md")
    try:
        there, folder = path.is_file(), path.is_dir()
    except OSError as error:  # a name that no file can have
        raise VieteError(f"cannot look for {str(name)[:80]}: {error.strerror}") from None
    if there or (folder and known not in cards):
        return path  # of a folder the reader says what is wrong with it
    if known in cards:
        return cards[known]
    if beside := near_files(path):
        raise VieteError(f"there is no file {name}; did you mean {' or '.join(beside)}?")
    near = difflib.get_close_matches(known, cards, 3, 0.5)
    near = near or [card for card in cards if known and known in card]
    hint = f"did you mean {' or '.join(near)}?" if near else f"shipped are {', '.join(cards)}"
    raise VieteError(f"there is no file {name} and no shipped card of that name; {hint}")


def near_files(path: Path) -> list[str]:
    """Cards with similar names in the folder of a path."""
    try:
        there = {p.name: p for p in path.parent.iterdir() if p.suffix in (".md", ".tex", ".json")}
    except OSError:
        return []
    near = difflib.get_close_matches(path.name, there, 2, 0.75)
    near = near or difflib.get_close_matches(f"{path.name}.md", there, 2, 0.85)
    return [str(there[name]) for name in near]


__all__ = ["coders", "find", "model_path", "named", "shipped", "trained"]
