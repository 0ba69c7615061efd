"""`Displayed`: a base class whose document tree notebooks and terminals show in their formats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viete.document.tree import Block


class Displayed:
    """A base class for objects that notebooks show as a document; see `viete.document.notebook`."""

    @abstractmethod
    def page(self, style: str = "unicode") -> Sequence[Block]:
        """The document, with formulas in a style of `STYLES`; subclasses implement it."""

    def _repr_html_(self) -> str:
        from viete.document.notebook import html_part, in_short

        return html_part(in_short(self.page("mathml")))

    def _repr_latex_(self) -> str:
        from viete.document.notebook import in_short, latex_part

        return latex_part(in_short(self.page("latex")))

    def _repr_markdown_(self) -> str:
        from viete.document.notebook import in_short, markdown_part

        return markdown_part(in_short(self.page("latex")))


__all__ = ["Displayed"]
