"""A function that a card derives from its values, as the card states it: plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

from viete.errors import Text
from viete.library.functions import Argument
from viete.notation.symbols import Signature
from viete.notation.tree import CALL, Apply, Expr, Ref, Symbol


@dataclass(frozen=True)
class Operator:
    r"""``\tilde{A}^i(y) = \tilde{A}^i with x^{i-1} = y``: one function for every block.

    Index letters of its name are those of the card. Any other letter there is an argument as those
    in the parentheses are: ``logit_k(y) = <U_k, y>``. ``arguments`` has them first. The definition
    is what stands in the card; `viete.graph.opening.body_of` is what it comes to.
    """

    symbol: Symbol
    arguments: tuple[Argument, ...]
    definition: Expr
    meaning: str = ""
    text: Text = field(default=Text(""), compare=False, repr=False)

    @property
    def name(self) -> str:
        """Its key, with parentheses that tell it from a value's key."""
        return self.symbol.key

    @property
    def places(self) -> tuple[str, ...]:
        """The letters of its name that are arguments."""
        own = {a.symbol.base for a in self.arguments}
        return tuple(s for s in self.symbol.slots if s in own)

    @property
    def within(self) -> tuple[Argument, ...]:
        """The arguments in its parentheses."""
        return self.arguments[len(self.places) :]

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of its name that are indices of the card."""
        return tuple(s for s in self.symbol.slots if s not in self.places)

    @property
    def signature(self) -> Signature:
        """Its name and its number of arguments, for the parser."""
        return Signature(self.name, len(self.within), len(self.within))

    @property
    def left(self) -> Apply:
        """The function with its own arguments, as the left side of its definition."""
        return Apply(CALL, (self.symbol.member, *(Ref(a.symbol) for a in self.within)))
