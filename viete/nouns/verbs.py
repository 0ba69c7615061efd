"""The verbs that a card and a model share: rewritings give the same noun again, and chain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from viete.document.displayed import Displayed

if TYPE_CHECKING:
    from viete.analysis.cost import Costs
    from viete.analysis.shapes import Shapes
    from viete.ask.putting import Features
    from viete.document.tree import Block
    from viete.evaluate.run import Run
    from viete.graph.card import CardData
    from viete.notation.symbols import Scope
    from viete.notation.words import Words
    from viete.report.drawing.picture import DiagramPicture
    from viete.rewrite.reparametrization import Folding


class Verbs(Displayed):
    """What one does with equations, be there weights for them or not."""

    @property
    @abstractmethod
    def content(self) -> CardData:
        """The equations, for the class that is made of this."""

    @abstractmethod
    def over(self, card: CardData) -> Self:
        """The same noun with other equations, for the class that is made of this."""

    @abstractmethod
    def after(self, steps: Sequence[Folding]) -> Self:
        """The same noun after rewritings with other weights, for the class that is made of this."""

    @abstractmethod
    def keeping(self, card: CardData, arrays: Mapping[str, Any]) -> Self:
        """The same noun with other equations, and numbers for parameters that are new."""

    @abstractmethod
    def giving(self, card: CardData, inputs: Mapping[str, Any]) -> Self:
        """The same noun with other equations, and values for inputs that are new."""

    @property
    @abstractmethod
    def words(self) -> Words:
        """The words that name tokens, for the class that is made of this."""

    # -- rewritings --------------------------------------------------------------------------------

    def put(
        self, *equations: str | Path | Features, against: Run | None = None, **values: Any
    ) -> Self:  # fmt: skip
        """The same with some of its equations changed, and with new names.

        >>> ablated = model.put("A^{2,1} = 0")                                      # doctest: +SKIP
        >>> steered = model.put("x^3_j = x^3_j + 4 probe for j ≥ 5", probe=v)       # doctest: +SKIP
        >>> steered.sample("I live in")                                             # doctest: +SKIP

        An equation changes a value, members of a family, rows or entries. The name that it changes
        means on its right the old value, and every reader sees the new one, or with ``in Q^{5,1}``
        only those named. Behind ``for`` stand conditions on letters. A new name on the left is a
        name for a formula. A path is a Markdown file of equations, with its new parameters in a
        table. ``values`` are numbers, vectors and matrices by new names: parameters from then on;
        so are values of the run ``against``, whose names have a prime: ``x^2_4 = x'^2_4``.
        Transcoders and autoencoders of files, `viete.model.coders.read_coders`, are put in too.
        Raises VieteError for what the card does not have, and for shapes that do not fit.
        """
        from viete.ask.putting import edited

        found = edited(self.content, equations, values, partial(scope_of, self), against)
        return self.keeping(found.card, found.arrays)

    def grad(self, of: str | None = None, by: Sequence[str] | None = None) -> Self:
        """The same with its backward equations: ``∂X`` for every X that leads to a loss.

        >>> run = read("simple-transformer").grad().run(tokens, weights, y=targets) # doctest: +SKIP
        >>> run["∂W_Q^h"].shape                                                     # doctest: +SKIP
        (4, 256, 64)

        ``of`` is the loss, a value or a formula that is one number (by default the last such value
        that has a derivative, or the cross-entropy of ``logits`` and the tokens one further, an
        input ``y``); ``by`` are names of parameters or real inputs (by default all parameters).
        Raises VieteError for a card without a loss and without logits, and where no derivative can
        pass, naming the equation.
        """
        from viete.errors import Text
        from viete.notation.parser import parse
        from viete.rewrite.adjoint import grad

        loss = (
            parse(Text(of, "<loss>"), scope_of(self, self.content)) if isinstance(of, str) else of
        )
        return self.over(grad(self.content, loss, by))

    def incremental(self, of: str | None = None, fixed: bool = False) -> Self:
        """The same for new tokens after others whose keys and values are given: its KV cache.

        Its inputs are ``n`` new tokens and, for every value whose earlier rows are read
        (``K^{i,h}``), those of the ``m`` positions before (``K_past^{i,h}``). ``of`` is the value
        wanted for every position, by default the scores of the next token. With ``fixed`` there is
        room for ``c`` rows, and an input ``q`` says which positions are new: shapes stay from step
        to step. Raises VieteError, naming the equation, where a position reads later ones.
        """
        from viete.rewrite.incremental import incremental

        return self.over(incremental(self.content, of, fixed))

    def padded(self) -> Self:
        """The same for texts of different lengths in one batch: an input says what is padding.

        >>> run = card.padded().run(tokens, weights, a=mask)                        # doctest: +SKIP

        ``a ∈ {0, 1}^n`` is 0 at padding, on whichever side: no other position sees it. Positions
        are counted as before, padding among them, and values at padding mean nothing. Raises
        VieteError for a card without a softmax over positions, or with a mask of its own.
        """
        from viete.rewrite.padding import padded

        return self.over(padded(self.content))

    def folded(
        self, fold_ln: bool | None = None, center_writing_weights: bool | None = None,
        center_unembed: bool | None = None, fold_value_biases: bool | None = None,
    ) -> Self:  # fmt: skip
        """The same with some of its weights put into others; what it predicts stays.

        Every row of the logits moves by a constant, which no softmax sees, and so does every row of
        a stream that layer norm reads: ``center_unembed=False`` and
        ``center_writing_weights=False`` keep these as they are. Each step is a rewriting, see
        `viete.rewrite.folding`: None does it where it holds, False leaves it, True raises
        VieteError where it would change more than that. A model's weights are made of the old ones.
        """
        from viete.rewrite.folding import folded

        return self.after(folded(self.content, {
            "fold_ln": fold_ln, "center_writing_weights": center_writing_weights,
            "center_unembed": center_unembed, "fold_value_biases": fold_value_biases,
        }))  # fmt: skip

    def cut(self, *names: str, values: Mapping[str, Any] | None = None) -> Self:
        """The same with some of its values given, and without the equations that made only them.

        >>> linear = model.cut("A^{i,h}", "scale_A^i", "scale_M^i", "scale")        # doctest: +SKIP
        >>> frozen = model.cut("A^{i,h}", values=model.run(text))                  # doctest: +SKIP

        A name is that of a family, of members (``A^{2,1}``, an input ``A_{given}^{2,1}``), or of
        what an equation computes without a name for it, such as the scale of a norm. ``values``, a
        run or arrays by name, are what a model is given where nothing else is. Raises VieteError
        for what the card does not compute, and for ``values`` of a card, which keeps none.
        """
        from viete.ask.putting import values_of
        from viete.rewrite.cut import cut

        found = cut(self.content, names)
        return self.giving(found.card, {} if values is None else values_of(found, values))

    # -- what it is --------------------------------------------------------------------------------

    @property
    def shapes(self) -> Shapes:
        """The type of every value. Raises VieteError where an equation's sides do not fit."""
        from viete.analysis.shapes import shapes_of

        return shapes_of(self.content)

    @property
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """The name and array shape of every weight.

        Axes are index letters (heads) in the order of the name, then rows, columns: ``W_Q^{1,h}``
        is (H, d, d_k). Blocks are separate arrays.
        """
        from viete.evaluate.schedule import parameter_shapes

        return parameter_shapes(self.content)

    @property
    def cost(self) -> Costs:
        """Parameters, floating-point operations and bytes, as formulas and as numbers."""
        from viete.analysis.cost import costs

        return costs(self.content)

    def initial_weights(self, seed: int = 0, dtype: str = "float64") -> dict[str, Any]:
        """Weights of NumPy as the ``value`` and ``init`` columns say, drawn with ``seed``."""
        from viete.evaluate.initial_weights import initial_weights

        return initial_weights(self.content, seed, dtype)

    @property
    def exact_weights(self) -> dict[str, Any]:
        """The weights that the ``value`` column gives, as nested lists of exact fractions."""
        from viete.evaluate.initial_weights import literal_fractions

        return literal_fractions(self.content)

    # -- as text -----------------------------------------------------------------------------------

    def write(self, form: str = "md") -> str:
        """The card in the form 'md', 'latex', 'json' or 'text'; all but the last read back."""
        from viete.cards.writer import write

        return write(self.content, form)

    def page(self, style: str = "unicode") -> Sequence[Block]:
        """The card as a document, which a notebook shows; see `viete.document.displayed`."""
        from viete.cards.writer import blocks

        return blocks(self.content, style)

    def draw(self, detail: str = "parts") -> DiagramPicture:
        """The data flow as a picture, which a notebook shows: ``.svg``, ``.text()``, ``.save()``.

        ``detail`` 'parts' makes a box of every titled part of the card, 'equations' of every
        equation. Raises VieteError for another one.
        """
        from viete.report.drawing.flow import flow
        from viete.report.drawing.picture import DiagramPicture

        return DiagramPicture(flow(self.content, detail))

    def export(self, to: str, of: str | None = None) -> str:
        """Stand-alone source, without weights: ``to`` 'torch', 'numpy', 'jax', 'js', 'latex' or
        'typst'.

        A PyTorch module, a NumPy script with the backward pass and Adam, JAX functions, a
        JavaScript module with forward, backward and Adam, or an article. ``of`` is the loss, as in
        `grad`. Raises VieteError for what a target cannot say.
        """
        if to in ("latex", "typst"):
            from viete.report.article import write_article

            return write_article(self.content, to, of)
        from viete.code import export

        return export(self.content, to, of)


def scope_of(noun: Verbs, card: CardData) -> Scope:
    """The names that a formula about a card may use, with the words of what it is about."""
    from dataclasses import replace

    from viete.analysis.token_vectors import question_scope

    return replace(question_scope(card), words=lambda: noun.words)


__all__ = ["Verbs"]
