"""Blocks of a PyTorch module: which parameters and equations each block has, and its ``forward``.

PyTorch's tools divide a model by module calls: hooks, activation checkpointing, pipelines and
FSDP2. So each turn of a block loop is the call of a module.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from viete.code.identifiers import plain_letter
from viete.code.layout import docstring, joined
from viete.graph.card import CardData, Equation, Loop, Parameter
from viete.notation.tree import Idx, refs

OWN, WHOLE = re.compile(r"\bblock\."), re.compile(r"\bself\.(\w+)")


@dataclass
class Blocks:
    """The parameters with one block letter that one loop reads: a module list, ``blocks``.

    ``kind`` is the modules' class. ``loop`` goes over the whole list, unless it is None; then
    ``forward`` are the lines of the block's own ``forward``, once they are written.
    """

    letter: str
    name: str
    kind: str
    parameters: list[Parameter]
    loop: Loop | None = None
    forward: list[str] = field(default_factory=list)


def groups(card: CardData, equations: Sequence[Equation]) -> list[Blocks]:
    """The blocks of a card: parameters by block letter and by the first loop that reads them.

    An encoder and a decoder whose blocks have the same letter are two lists.
    """
    read: dict[str, Loop] = {}
    for e in equations:
        for x in refs(e.right):
            if e.loop is not None and e.loop.index in x.symbol.slots:
                read.setdefault(x.key, e.loop)
    found: dict[tuple[str, Loop | None], list[Parameter]] = {}
    for p in card.parameters:
        for letter in card.blocks_of(p.symbol):
            first = next((x for x in card.loops if x.index == letter), None)
            found.setdefault((letter, read.get(p.name, first)), []).append(p)
    letters = [letter for letter, _ in found]
    out: list[Blocks] = []
    for (letter, loop), own in found.items():
        end = plain_letter(letter) if len(set(letters)) > 1 else ""
        if letters.count(letter) > 1:
            end += str(1 + sum(b.letter == letter for b in out))
        name = f"blocks_{end}" if end else "blocks"
        out.append(Blocks(letter, name, f"Block{end.capitalize()}", own, loop))
    return out


def is_called(blocks: Blocks, equations: Sequence[Equation], rolling: Collection[str]) -> bool:
    """Whether a turn of the loop can be the call of a block module.

    Its values must be one variable each for all blocks (``rolling``), and the block's parameters
    must be read there alone, each turn its own.
    """
    names = {p.name for p in blocks.parameters}
    for e in equations:
        here = e.loop == blocks.loop
        if here and e.name not in rolling:
            return False
        for x in refs(e.right):
            if x.key in names:
                places = dict(zip(x.symbol.slots, x.index, strict=True))
                if not here or places[blocks.letter] != Idx(blocks.letter):
                    return False
    return blocks.loop is not None and not blocks.loop.down


def write_turn(
    blocks: Blocks,
    lines: list[str],
    variables: Collection[str],
    kept: Collection[str],
    start: str,
) -> list[str]:
    """Make ``lines`` the block's ``forward``, and return the loop's lines that call it.

    ``variables`` are the names of values, inputs, lengths and letters, ``kept`` those of values
    that are read after the loop, and ``start`` the number of the first block.
    """
    text = "\n".join(lines)
    code = ast.parse(textwrap.dedent(text))
    stored: list[str] = []
    free: list[str] = []
    for statement in code.body:
        names = [x for x in ast.walk(statement) if isinstance(x, ast.Name)]
        for x in names:
            if isinstance(x.ctx, ast.Load) and x.id in variables and x.id not in (*stored, *free):
                free.append(x.id)
        stored += [x.id for x in names if isinstance(x.ctx, ast.Store) and x.id not in stored]
    shared = list(dict.fromkeys(WHOLE.findall(text)))
    results = [x for x in stored if x in kept or x in free]
    free.sort(key=lambda x: (x not in results, x))  # first what goes through all blocks
    body = OWN.sub("self.", WHOLE.sub(r"\1", text)).split("\n")
    blocks.forward = [
        *joined(["self", *free, *shared], "def forward(", "):", 1),
        *body,
        f"        return {', '.join(results)}",
    ]
    given = [*free, *(f"self.{x}" for x in shared)]
    over, i = f"self.{blocks.name}", plain_letter(blocks.letter)
    head = f"for {i}, block in enumerate({over}, {start}):" if i in free else (
        f"for block in {over}:"
    )  # fmt: skip
    return [f"        {head}", *joined(given, f"{', '.join(results)} = block(", ")", 3)]


def block_class(blocks: Blocks, rows: Iterable[str], number: str = "") -> list[str]:
    """The class of a block: its parameters and its computation.

    ``number`` is what the block's number is called, where its parameters begin as that says.
    """
    said = f"Block {blocks.letter}: its parameters, and what it makes of the values before it"
    return [
        f"class {blocks.kind}(nn.Module):",
        *docstring([said if blocks.forward else f"The parameters of block {blocks.letter}"], 1),
        "",
        f"    def __init__(self{number and f', {number}'}):",
        "        super().__init__()",
        *rows,
        *(["", *blocks.forward] if blocks.forward else []),
    ]
