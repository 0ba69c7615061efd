"""The section Choices: one card for a whole model family, whose members a config selects.

    | config                | is               | then                                    |
    | `hidden_act`          | gelu or missing  | $φ(z) = GELU(z)$                        |
    |                       | relu             | $φ(z) = ReLU(z)$                        |
    | `attention_bias`      | false or missing | $b_Q^{i,h} = 0$, $b_K^{i,h} = 0$        |
    |                       | true             |                                         |
    | `layer_types.{i-1}`   | full_attention   | $M^{i,h} = causal(S^{i,h})$             |
    |                       | sliding_attention| $M^{i,h} = window(S^{i,h}; w)$          |

For each key, the first row that lists the config's value holds. ``any`` is any value and ``$d$`` is
that number; ``null`` is a key that is present without a value, which counts as missing unless a row
names it. Without a config, the first row of each key holds. The row's definitions are put in where
their names occur (see `viete.rewrite.inlining`), and equations that only the other rows need are
left out. So a model is one member of its family, in its own equations. A key with an index letter
in braces is read for every block. A name on its own, ``$logits$``, stands for its equation, which
exists only if such a row holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from viete.analysis.row_counts import with_named_sizes
from viete.cards.config import HOLE, Config, allows, listed, scope_of
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Equation, Loop
from viete.library.functions import Function
from viete.notation.parser import parse
from viete.notation.substitution import substitute
from viete.notation.tree import Apply, Expr, Idx, Symbol, num, walk
from viete.rewrite.inlining import names_in, with_definitions


@dataclass
class Row:
    """The values of a key, and what holds for them."""

    allowed: str
    text: Text
    math: list[Text] = field(default_factory=list)
    names: list[Text] = field(default_factory=list)
    there: list[Symbol] = field(default_factory=list)
    values: list[Equation] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)


@dataclass
class Choice:
    """A key of a config (or several, of which the first counts) and its rows."""

    key: Text
    rows: list[Row]

    def in_force(self, card: CardData, config: Config | None) -> list[tuple[Row, Expr | None]]:
        """The rows that hold, each with a condition on the block if it holds for some only.

        The last has no condition. Raises VieteError, naming the key and the values that the card
        knows, for a value that no row lists.
        """
        if config is None:
            return [(self.rows[0], None)]
        letter, keys = of_blocks(self.key, card)
        if not letter:
            return [(self.row(card, config, self.key.text), None)]
        blocks = {i: self.row(card, config, key) for i, key in keys.items()}
        used = [r for r in self.rows if any(r is x for x in blocks.values())]
        if not used:
            return [(self.rows[0], None)]
        tests = [(r, test([i for i in blocks if blocks[i] is r], list(blocks), letter))
                 for r in used]  # fmt: skip
        tests.sort(key=lambda t: sum(1 for _ in walk(t[1])))
        return [*tests[:-1], (tests[-1][0], None)]

    def row(self, card: CardData, config: Config, key: str) -> Row:
        """The row for the config's value of the key."""
        keys, _ = listed(key)
        null = any("null" in listed(row.allowed)[0] for row in self.rows)
        name, found = config.look_up(keys, null)
        if config.alone and not name:
            return self.rows[0]
        for row in self.rows:
            if allows(row.allowed, found, card, bool(name)):
                return row
        known: set[str] = set()
        wanted = []
        for row in self.rows:  # a shared page may list again what the card's own row lists
            words = set(listed(row.allowed)[0])
            wanted += [] if words and words <= known else [row.allowed]
            known |= words
        raise VieteError(
            f"{config.name}: {config.what(keys, name, found)}, but the card {card.title} needs "
            f"{', or '.join(wanted)}"
        )


def family_member(card: CardData, choices: Sequence[Choice], config: Config | None) -> CardData:
    """The member of the family: the model with the rows in force put in."""
    if not choices:
        return card
    values: dict[str, Equation] = {}
    functions: list[Function] = []
    found: list[Row] = []
    facts = list(card.facts)
    for choice in choices:
        held = choice.in_force(card, config)
        found += [row for row, _ in held]
        for row, condition in reversed(held):
            for e in row.values:
                if condition is not None:
                    if e.name not in values:
                        raise row.text.error(f"{e.name} must be defined for every block")
                    other = values[e.name].right
                    e = replace(e, right=Apply("where", (condition, e.right, other)))
                values[e.name] = e
            if (row.functions or row.there) and len(held) > 1:
                raise row.text.error(
                    "neither a function nor the list of equations can differ between blocks"
                )
            functions += row.functions
        if len(held) == 1:
            facts.append((f"config {choice.key.text}", held[0][0].allowed))
    rows = [r for c in choices for r in c.rows]
    named = {f.name for r in rows for f in r.functions}
    optional = names_in([x.right for r in rows for x in r.values]
                        + [f.body for r in rows for f in r.functions])  # fmt: skip
    chosen = replace(
        card, facts=tuple(facts),
        functions=tuple(f for f in card.functions if f.name not in named),
    )  # fmt: skip
    gone = {s.key for r in rows for s in r.there} - {s.key for r in found for s in r.there}
    chosen, unused = without(chosen, gone, values)
    out = with_definitions(chosen, list(values.values()), functions, optional | unused)
    check_defined(out, choices, config)
    return with_named_sizes(out, chosen)


def check_defined(card: CardData, choices: Sequence[Choice], config: Config | None) -> None:
    """Check that every name that only a row would define is defined or unused.

    Raises VieteError that names the key: a row may leave open what not every member needs.
    """
    there = {f.name for f in card.functions} | {e.name for e in card.equations}
    there |= {p.name for p in card.parameters}
    used = names_in([e.right for e in card.equations]) - there
    for choice in choices:
        made = {e.name for row in choice.rows for e in row.values}
        made |= {f.name for row in choice.rows for f in row.functions}
        if config is not None and made & used:
            keys, _ = listed(choice.key.text)
            wanted = ", or ".join(row.allowed for row in choice.rows if row.values or row.functions)
            raise VieteError(
                f"{config.name}: {config.what(keys, *config.look_up(keys))}, but the card "
                f"{card.title} needs to know which: {wanted}"
            )


def without(
    card: CardData, gone: set[str], values: Mapping[str, Equation]
) -> tuple[CardData, set[str]]:
    """The model without some equations, and the names that only these may have needed.

    Derived names and claims about these go too, unless ``values`` define them.
    """
    needed = names_in([e.right for e in (*card.equations, *card.derived) if e.name in gone])
    needed |= names_in([o.definition for o in card.operators])
    derived = []
    missing = gone - values.keys()
    for e in card.derived:
        if names_in([e.right]) & missing:
            missing = missing | {e.name}
        elif e.name not in gone:
            derived.append(e)
    claims = [c for c in card.claims if not names_in(c.formulas) & missing]
    equations = tuple(e for e in card.equations if e.name not in gone)
    operators = [o for o in card.operators if not names_in([o.definition]) & missing]
    left = replace(card, equations=equations, derived=tuple(derived), operators=tuple(operators),
                   claims=tuple(claims))  # fmt: skip
    return left, needed - {e.name for e in equations}


def of_blocks(key: Text, card: CardData) -> tuple[str, dict[int, str]]:
    """The index letter in a key, and the key for each block; ("", {}) where it has none."""
    hole = HOLE.search(key.text)
    if hole is None:
        return "", {}
    place = parse(key.cut(*hole.span(1)), scope_of(card))
    letter = next(x.name for x in walk(place) if isinstance(x, Idx))
    loop = next((x for x in card.loops if x.index == letter), None)
    if loop is None:
        raise key.error(f"no loop has the letter {letter}")
    places = {i: number_at(substitute(place, letters={letter: num(i)}), card, key)
              for i in range(*ends(loop, card))}  # fmt: skip
    return letter, {i: HOLE.sub(str(k), key.text) for i, k in places.items()}


def ends(loop: Loop, card: CardData) -> tuple[int, int]:
    """The first block and one past the last."""
    low, high = (number_at(e, card, Text("")) for e in (loop.lower, loop.upper))
    return low, high + 1


def number_at(e: Expr, card: CardData, text: Text) -> int:
    """A formula of numbers and dimensions as a whole number."""
    size = card.size(e)
    value = None if size is None else size.evaluate(card.sizes)
    if value is None or value.denominator != 1:
        raise text.error("this must be a whole number for every block")
    return int(value)


def test(places: list[int], blocks: list[int], letter: str) -> Expr:
    """The simplest condition on a block's number that holds for exactly these blocks."""
    i = Idx(letter)
    if places == blocks[: len(places)]:
        return Apply("le", (i, num(places[-1])))
    if places == blocks[-len(places) :]:
        return Apply("le", (num(places[0]), i))
    for every in range(2, len(blocks) // 2 + 1):
        for rest in range(every):
            hits = [b for b in blocks if b % every == rest]
            if places == hits:
                return Apply("eq", (Apply("mod", (i, num(every))), num(rest)))
            if places == [b for b in blocks if b not in hits]:
                return Apply("ne", (Apply("mod", (i, num(every))), num(rest)))
    found: Expr = Apply("eq", (i, num(places[0])))
    for place in places[1:]:
        found = Apply("or", (found, Apply("eq", (i, num(place)))))
    return found


__all__ = ["Choice", "Row", "family_member"]
