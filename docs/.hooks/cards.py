"""The gallery: a page for each shipped card, made from the card, and a list of them all.

A card's page has its prose, its picture, its equations, its sizes, and its weights where it lists
them. Pages are made of Markdown, with blocks ``embed`` for what commands draw.
"""

import re
from collections.abc import Iterator, Mapping
from html import escape
from math import prod
from typing import Any

from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

import viete as vt
from viete.cards.catalogue import coders, named
from viete.notation.tree import Num

MARK = "<!-- every shipped card -->"
LIST = "reference/cards.md"
TEACHING = ("simple-transformer", "symbolic-transformer")
GROUPS = {
    "A transformer by hand":
        "Each card adds one idea to the one before. [Learn](../learn/index.md) builds them up.",
    "Small models": "Small enough to read in one go, and to train on a laptop.",
    "From papers and textbooks": "Published systems, with the names that their authors use.",
    "Released models":
        "Each card opens the released checkpoints of its family: see "
        "[Released models](../guides/checkpoints.md).",
    "Features": "Autoencoders and transcoders, which learn what a model's vectors are made of.",
}  # fmt: skip
SMALL = {  # sizes for a page to explore, of the dimensions that a card has
    "V": 11, "N_V": 11, "d": 16, "d_e": 16, "d_h": 16, "H": 2, "G": 1, "N": 1, "L": 1, "d_f": 12,
    "d_mlp": 12, "d_k": 8, "N_e": 1, "n_max": 8, "ell_max": 8, "T_max": 8, "w": 3, "E": 3,
    "N_P": 11, "n_b": 8, "D": 8, "F": 6,
}  # fmt: skip
WIDE = ("d_f", "d_mlp")  # too wide to look at even where they are made of others that are small
MATRIX = r"(?<=\| )([^|]*\[[^|]*?|I|I, [^|]*?)(?= +\|)"  # in a column, or one for each block
KEYS = re.compile(r"(^|, )(.+?)(?= or missing|, |$)")  # in a column config
CONFIG = "The last column names the entry of a released model's `config.json` that sets the size."
TENSORS = (
    " `size T k` is the size of axis k of the tensor T, and `count T` the number of such tensors."
)
IN_A_ROW = "`;` ends a row of a matrix, and `I` is the identity matrix."


def on_files(files: Any, config: Any) -> Any:
    """A page for each card, in the order of the list."""
    for cards in grouped().values():
        for name, card in cards.items():
            text = page(name, card)
            files.append(File.generated(config, f"reference/cards/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The list of cards, in the place of the mark."""
    return markdown.replace(MARK, listing(page.file.url)) if MARK in markdown else markdown


def group(name: str, card: vt.Card) -> str:
    """The group of the gallery to which a card belongs."""
    hand, small, papers, released, features = GROUPS
    if name in coders():
        return features
    if name.startswith("letters-") or name == "exact-lesson":
        return hand
    if "config model_type" in dict(card.facts):
        return released
    return small if name.startswith("dialog-") or name in TEACHING else papers


def grouped() -> dict[str, dict[str, vt.Card]]:
    """The cards of each group by their names, in the order of their titles."""
    found: dict[str, dict[str, vt.Card]] = {title: {} for title in GROUPS}
    cards = {name: vt.read(name) for name in named()}
    for name, card in sorted(cards.items(), key=lambda x: x[1].title.lower()):
        found[group(name, card)][name] = card
    return found


def listing(url: str) -> str:
    """Every card in its group: its picture, its name, its first sentence."""
    parts = []
    for title, cards in grouped().items():
        tiles = "".join(tile(name, card, url) for name, card in cards.items())
        parts.append(f'## {title}\n\n{GROUPS[title]}\n\n<div class="cards">\n{tiles}</div>')
    return "\n\n".join(parts)


def tile(name: str, card: vt.Card, url: str) -> str:
    """A card of the list."""
    picture = get_relative_url(f"embedded/show-{name}-f-svg.svg", url)
    link = get_relative_url(f"reference/cards/{name}.html", url)
    return (
        f'<a class="card" href="{link}"><span class="thumbnail"><img src="{picture}" alt="" '
        f'loading="lazy"></span><strong>{escape(card.title)}</strong> <code>{name}</code>'
        f"<span>{escape(first_sentence(card))}</span></a>\n"
    )


def first_sentence(card: vt.Card) -> str:
    """How the prose of a card begins, up to a colon where a formula follows."""
    sentence = re.split(r"[.;]\s", card.about[0], maxsplit=1)[0]
    return re.sub("[*`]", "", re.sub(r":[^$:]*\$.*", "", sentence)).rstrip(".") + "."


def page(name: str, card: vt.Card) -> str:
    """The page of a card."""
    text = re.sub(r"\n(?: +- Shape: |- \*\*).*", "", card.write("md"))  # nor facts of its files
    cut = re.split(r"^## (.*)\n", text, flags=re.M)
    parts = {"": cut[0], **dict(zip(cut[1::2], cut[2::2], strict=True))}
    return "\n\n".join([
        f"---\n{found_by(name, card)}\n---\n{parts[''].strip()}",
        f"In Viète: `{name}`. With the sizes below it has {count(card)} parameters.",
        f"## Picture\n\n```embed\nviete show {name} -f svg\ntitle: Data flow of {card.title}\n```",
        f"## Equations\n\n{deeper(parts['Forward pass'])}",
        f"## Sizes\n\n{sizes(parts['Dimensions'])}",
        *weights(card, parts["Parameters"]),
        f"## Use it\n\n```console\n$ viete show {name}\n$ viete show {name} --costs\n```",
        "To change the model, write the card to a file of your own, edit it, and give the file's "
        "name to any command:\n\n"
        f"```console\n$ viete show {name} -f md -o mine.md\n$ viete show mine.md\n```",
        *explored(name, card), "[All cards](../cards.md)",
    ])  # fmt: skip


def found_by(name: str, card: vt.Card) -> str:
    """How the search finds the page: those of released models first, by their names and types."""
    if group(name, card) != "Released models":
        return "search:\n  boost: 0.5"
    kinds = dict(card.facts)["config model_type"].removesuffix(" or missing").replace("_", "-")
    return f"tags: [{card.title}, {kinds}]"


def sizes(table: str) -> str:
    """The table of dimensions, with the keys of a config behind the meaning, as code."""
    rows = [line[2:-2].split(" | ") for line in table.strip().splitlines()]
    if "config" not in rows[0]:
        return table.strip()
    at = rows[0].index("config")
    for row in rows[2:]:
        row[at] = KEYS.sub(r"\1`\2`", row[at].strip())
    lines = (f"| {' | '.join([*row[:at], *row[at + 1 :], row[at]])} |" for row in rows)
    written = "\n".join(lines)
    return f"{written}\n\n{CONFIG}{TENSORS if '`size ' in written else ''}"


def weights(card: vt.Card, parameters: str) -> Iterator[str]:
    """The table of parameters of a card that lists their values."""
    if card.parameters and all(p.value for p in card.parameters):
        table = re.sub(MATRIX, r"`\1`", parameters).strip()
        yield f"## Weights\n\n{table}\n\n{IN_A_ROW}"


def explored(name: str, card: vt.Card) -> Iterator[str]:
    """The page to explore a run, of a card that takes tokens."""
    if any(x.low is None for x in card.inputs):
        return
    command = explore_command(name, card)
    sizes = ", with small sizes and random weights" if "--set" in command else ""
    yield f"## Explore\n\nA run{sizes}: every value, and how it came about."
    yield f"```embed\n{command}\ntitle: A run of {card.title} to explore\n```"


def deeper(equations: str) -> str:
    """Equations without headings, whose numbers would begin anew below each."""
    return re.sub(r"^### (.*)$", r"**\1**", equations.strip(), flags=re.M)


def count(card: vt.Card) -> str:
    """The number of parameters, in short."""
    number = sum(map(prod, card.parameter_shapes.values()))
    for size, word in ((10**9, "billion"), (10**6, "million")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:,}"


def explore_command(name: str, card: vt.Card) -> str:
    """The command that writes a page to explore a run of a card with small sizes."""
    words = card.vocabulary
    sizes = {} if words else small_sizes(card)
    sets = "".join(f" --set {k}={v}" for k, v in sizes.items())
    values = all(p.value for p in card.parameters)
    longest = {d.name: d.value for d in card.dims}.get("n_max")
    again = words[:1] if isinstance(longest, Num) and longest.value > 2 else ()
    text = f'"{" ".join((*words[:2], *again))}"' if words else "3,1,4"
    if {"s", "t"} <= {x.name for x in card.inputs if x.default is None}:
        text += " --input t=0,3,1"  # what a decoder has written so far
    return f"viete explore {name}{sets}{'' if values else ' --seed 0'} -t {text}"


def small_sizes(card: vt.Card) -> Mapping[str, int]:
    """The sizes that replace the card's own, where these are large: two blocks stay two."""
    return {
        d.name: SMALL[d.name] for d in card.dims if d.name in SMALL
        and (d.value.value > 2 if isinstance(d.value, Num) else d.value and d.name in WIDE)
    }  # fmt: skip
