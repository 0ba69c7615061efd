"""Initial parameters as code: literals of the `value` column, draws of the `init` column."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from viete.cards.init import read_init
from viete.code.blocks import per_block
from viete.code.body import Body
from viete.code.expression import MUL, Code
from viete.code.identifiers import plain_letter
from viete.code.layout import STEP, docstring, statement
from viete.errors import Text
from viete.evaluate.initial_weights import amount, cell, literal, literal_array, member_texts
from viete.evaluate.schedule import program
from viete.graph.card import CardData, Parameter
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import Idx, Ref, Symbol

# How a library draws and fills: {0} is the shape, {1} a number.
FORMS = {
    "numpy": {
        "normal": "rng.normal(0, {1}, {0})", "uniform": "rng.uniform(-{1}, {1}, {0})",
        "0": "np.zeros({0})", "1": "np.ones({0})", "fill": "np.full({0}, {1})",
        "array": "np.array({1})", "eye": "np.eye({1})",
        "spread": "np.broadcast_to({1}, {0}).copy()",
    },
    "jax": {
        "normal": "{1} * jax.random.normal(next(keys), {0})",
        "uniform": "jax.random.uniform(next(keys), {0}, minval=-{1}, maxval={1})",
        "0": "jnp.zeros({0})", "1": "jnp.ones({0})", "fill": "jnp.full({0}, {1})",
        "array": "jnp.array({1})", "eye": "jnp.eye({1})", "spread": "jnp.broadcast_to({1}, {0})",
    },
    "torch": {
        "normal": "torch.empty({0}).normal_(0, {1})",
        "uniform": "torch.empty({0}).uniform_(-{1}, {1})",
        "0": "torch.zeros({0})", "1": "torch.ones({0})", "fill": "torch.full({2}, {1})",
        "array": "torch.tensor({1})", "eye": "torch.eye({1})", "spread": "{1}.expand({0}).clone()",
    },
}  # fmt: skip
FORMS["javascript"] = FORMS["numpy"]


class Initial:
    """The code of a card's initial parameters."""

    def __init__(self, body: Body) -> None:
        self.body, self.model = body, body.model
        self.form = FORMS[body.dialect.name]
        self.xavier = False

    def of(self, p: Parameter) -> str:
        """The array of one block's parameter."""
        lead, core = self.sizes(p)
        sizes = lead + core
        every = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
        if len(sizes) == 1 and self.body.dialect.name != "jax":
            every = sizes[0]
        if p.value:
            return self.literal(p, lead, core, every)
        if not p.init:
            spread = f"1 / math.sqrt({core[0]})" if len(core) == 2 else "1"
            return self.form["normal"].format(every, spread)
        kind, text = read_init(cell(p, p.init), p.name, len(core))
        if kind == "xavier":
            self.xavier = True
            return f"xavier({', '.join(sizes)})"
        amount = self.amount(text)
        if kind == "fill":
            return self.filled(every, amount)
        loose = kind == "normal" and self.body.dialect.name != "jax"
        return self.form[kind].format(every, amount.text if loose else amount.at(MUL))

    def filled(self, every: str, amount: Code) -> str:
        if amount.text in ("0", "1"):
            return self.form[amount.text].format(every)
        value = f"{amount.text}.0" if amount.text.lstrip("-").isdigit() else amount.text
        return self.form["fill"].format(every, value, every if "(" in every else f"({every},)")

    def sizes(self, p: Parameter) -> tuple[list[str], list[str]]:
        """The lengths of an array's axes: index letters, then its rows and columns."""
        low = self.body.lowering
        lead = [low.integer(low.env.index[s].count, low.env) for s in self.model.heads_of(p.symbol)]
        return lead, [low.integer(e, low.env) for e in p.shape]

    def amount(self, text: Text) -> Code:
        """A number computed from the card's dimensions, which must be finite."""
        amount(self.model, text)
        return self.body.lowering.of(parse(text, self.model.size_scope))

    def literal(self, p: Parameter, lead: list[str], core: list[str], every: str) -> str:
        """``[1 0; 0 1]``, ``I`` or a number, or one of these for each member."""
        if len(member_texts(p)) > 1:
            return self.members(p)
        if p.value == "I":
            made = self.form["eye"].format("", core[0])
        elif p.value.startswith("["):
            shapes = (shape for q, _, shape in program(self.model).parameters.values() if q is p)
            made = self.form["array"].format("", listed(literal(p, next(shapes)[-len(core) :])))
        else:
            return self.filled(every, self.amount(cell(p, p.value)))
        return self.form["spread"].format(every, made) if lead else made

    def members(self, p: Parameter) -> str:
        """The array of one block's parameter, if its blocks or heads have different literals."""
        family = {blocks: literal_array(self.model, name) for name, (q, blocks, _)
                  in program(self.model).parameters.items() if q is p}  # fmt: skip
        letters = self.model.blocks_of(p.symbol)
        if not letters:
            return self.form["array"].format("", listed(family[()]))
        if len(letters) > 1:
            raise cell(p, p.value).error("a program has literals for one letter of blocks, not two")
        (first,), (letter,) = next(iter(family)), letters
        every = self.form["array"].format("", listed(list(family.values())))
        return f"{every}[{plain_letter(letter)} - {first}]"


def listed(value: Any) -> str:
    """A literal as lists of floats."""
    if isinstance(value, list):
        return f"[{', '.join(map(listed, value))}]"
    if value.denominator == 1:
        return f"{value}.0"
    return repr(float(value)) if Fraction(repr(float(value))) == value else str(value)


def viete_name(card: CardData, symbol: Symbol) -> str:
    """Viète's name of a weight, as a string or, with blocks, an f-string."""
    marks = {s: f"ZZ{k}ZZ" for k, s in enumerate(card.blocks_of(symbol))}
    name = show(Ref(symbol, tuple(Idx(marks.get(s, s)) for s in symbol.slots)))
    if not marks:
        return f'"{name}"'
    name = name.replace("{", "{{").replace("}", "}}")
    for letter, mark in marks.items():
        name = name.replace(mark, f"{{{plain_letter(letter)}}}")
    return f'f"{name}"'


def renamed(body: Body, always: bool = False) -> list[str]:
    """A function from weights by Viète's names to the parameters of this file.

    Empty if all names are equal, unless ``always``.
    """
    rows = []
    same = True
    for p in body.model.parameters:
        name, there = body.names.symbol(p.symbol), viete_name(body.model, p.symbol)
        same &= there == f'"{name}"'
        rows.append(f"{name}={per_block(body, p, f'weights[{there}]')}")
    if same and not always:
        return []
    said = "Weights by the names that Viète gives them, as the parameters of this file."
    made = [line for row in rows for line in statement(row, 2, ",")]
    made = ["    return dict(", *made, "    )"]
    return ["def renamed(weights):", *docstring([said], 1), *(made if always else refusing(made))]


def refusing(lines: list[str]) -> list[str]:
    """Lines of a function of ``weights``, which name a weight that is missing."""
    return [
        "    try:", *(f"{STEP}{line}" for line in lines),
        "    except KeyError as missing:",
        '        raise ValueError(f"the weight {missing.args[0]} is missing") from None',
    ]  # fmt: skip
