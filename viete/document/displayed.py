"""`Displayed`: a base class whose document tree notebooks and terminals show in their formats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viete.document.tree import Block


class Displayed:
    """What a notebook shows as a document, in short: see `viete.document.notebook`."""

    @abstractmethod
    def page(self, style: str = "unicode") -> Sequence[Block]:
        """The document, with formulas in a style of `STYLES`; for what is made of this."""

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
