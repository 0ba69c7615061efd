"""`Verbs`: the methods that cards and models share; each rewriting returns the same noun."""

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
    """The methods that cards and models share."""

    @property
    @abstractmethod
    def content(self) -> CardData:
        """The equations; a subclass defines it."""

    @abstractmethod
    def over(self, card: CardData) -> Self:
        """The same noun with other equations; a subclass defines it."""

    @abstractmethod
    def after(self, steps: Sequence[Folding]) -> Self:
        """The same noun after rewritings that also change weights; a subclass defines it."""

    @abstractmethod
    def keeping(self, card: CardData, arrays: Mapping[str, Any]) -> Self:
        """The same noun with other equations, and with arrays for new parameters."""

    @abstractmethod
    def giving(self, card: CardData, inputs: Mapping[str, Any]) -> Self:
        """The same noun with other equations, and with values for new inputs."""

    @property
    @abstractmethod
    def words(self) -> Words:
        """The words that name tokens; a subclass defines it."""

    # -- rewritings --------------------------------------------------------------------------------

    def put(
        self, *equations: str | Path | Features, against: Run | None = None, **values: Any
    ) -> Self:  # fmt: skip
        """Change equations, and add names. Returns a new card or model.

        >>> ablated = model.put("A^{2,1} = 0")  # doctest: +SKIP
        >>> steered = model.put("x^3_j = x^3_j + 4 probe for j ≥ 5", probe=v)  # doctest: +SKIP
        >>> steered.sample("I live in")  # doctest: +SKIP

        An equation changes a value, in one block or head, in some rows or in some entries. On its
        right, the changed name means the old value. ``for`` limits the change by conditions on the
        letters, and ``in Q^{5,1}`` lets only that reader see it. An equation with a new name on the
        left defines that name. ``equations`` may be paths of Markdown files, whose new parameters
        stand in a table.

        ``values`` are numbers, vectors and matrices by new names, which become parameters. Names
        with a prime are values of the run ``against``: ``x^2_4 = x'^2_4``. Autoencoders and
        transcoders that `viete.model.coders.read_coders` has read can be put in too. Raises
        VieteError for names that the card does not have, and for shapes that do not fit.
        """
        from viete.ask.putting import edited

        found = edited(self.content, equations, values, partial(scope_of, self), against)
        return self.keeping(found.card, found.arrays)

    def grad(self, of: str | None = None, by: Sequence[str] | None = None) -> Self:
        """Add the backward equations: ``∂X`` for every X that influences the loss.

        >>> run = card.grad().run(tokens, weights, y=targets)  # doctest: +SKIP
        >>> run["∂W_Q^h"].shape  # doctest: +SKIP
        (4, 256, 64)

        ``of`` is the loss: a value or a formula that is one number. By default it is the last such
        value of the card, or else the cross-entropy of ``logits`` and the next tokens, which become
        an input ``y``. ``by`` names the parameters or real inputs of the derivatives, by default
        all parameters. Raises VieteError for a card without a loss and without logits, and where no
        derivative can pass, with the equation.
        """
        from viete.errors import Text
        from viete.notation.parser import parse
        from viete.rewrite.adjoint import grad

        loss = (
            parse(Text(of, "<loss>"), scope_of(self, self.content)) if isinstance(of, str) else of
        )
        return self.over(grad(self.content, loss, by))

    def incremental(self, of: str | None = None, fixed: bool = False) -> Self:
        """Derive the form with a KV cache: new tokens after others whose keys and values are given.

        Its inputs are the ``n`` new tokens and, for each value whose earlier rows are read
        (``K^{i,h}``), those of the ``m`` positions before (``K_past^{i,h}``). ``of`` is the value
        that is wanted, by default the scores of the next token. With ``fixed``, the cache has room
        for ``c`` rows from the start and an input ``q`` says which positions are new, so that no
        shape changes from step to step. Raises VieteError, with the equation, where a position
        reads later ones.
        """
        from viete.rewrite.incremental import incremental

        return self.over(incremental(self.content, of, fixed))

    def padded(self, counts: bool = False) -> Self:
        """Allow texts of different lengths in one batch: an input says where the padding is.

        >>> run = card.padded().run(tokens, weights, a=mask)  # doctest: +SKIP

        ``a ∈ {0, 1}^n`` is 0 at padding, on either side. No other position sees the padding, and
        values at padding have no meaning. Learned and sinusoidal positions are those that each text
        has on its own; with ``counts`` padding counts as a position, as in a bare forward pass of
        `transformers`. Sums, means and losses over positions pass over padding. Raises VieteError,
        at the equation, for what picks a position (``x_0``), and for a card in which no position
        reads another or that has a padding mask already.
        """
        from viete.rewrite.padding import padded

        return self.over(padded(self.content, counts))

    def folded(
        self, fold_ln: bool | None = None, center_writing_weights: bool | None = None,
        center_unembed: bool | None = None, fold_value_biases: bool | None = None,
    ) -> Self:  # fmt: skip
        """Fold norms and biases into other weights. The predictions stay the same.

        This is TransformerLens' processing of weights. ``fold_ln`` moves the scale and shift of a
        norm into the weights after it. ``center_writing_weights`` and ``center_unembed`` subtract
        means: each row of a stream that layer norm reads, and each row of the logits, moves by a
        constant, which the norm and softmax ignore. ``fold_value_biases`` moves the biases of
        values into the output bias.

        Each step is done where it changes nothing else (None), skipped (False), or required (True),
        which raises VieteError where it would change more. See `viete.rewrite.folding`.
        """
        from viete.rewrite.folding import folded

        return self.after(folded(self.content, {
            "fold_ln": fold_ln, "center_writing_weights": center_writing_weights,
            "center_unembed": center_unembed, "fold_value_biases": fold_value_biases,
        }))  # fmt: skip

    def cut(self, *names: str, values: Mapping[str, Any] | None = None) -> Self:
        """Make values inputs, and drop the equations that only led to them.

        >>> linear = model.cut("A^{i,h}", "scale_A^i", "scale_M^i", "scale")  # doctest: +SKIP
        >>> frozen = model.cut("A^{i,h}", values=model.run(text))  # doctest: +SKIP

        ``names`` are values, members of a family (``A^{2,1}``), or derived names such as the scale
        of a norm. A model can keep ``values`` for them, from a run or as arrays by name, and uses
        them where a run is given nothing else. Raises VieteError for what the card does not
        compute, and for ``values`` of a card, which keeps none.
        """
        from viete.ask.putting import values_of
        from viete.rewrite.cut import cut

        found = cut(self.content, names)
        return self.giving(found.card, {} if values is None else values_of(found, values))

    # -- what it is --------------------------------------------------------------------------------

    @property
    def shapes(self) -> Shapes:
        """The type of every value: shape, index letters, kind of number.

        Raises VieteError where the two sides of an equation do not fit.
        """
        from viete.analysis.shapes import shapes_of

        return shapes_of(self.content)

    @property
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """The name and array shape of every weight.

        The axes are index letters (heads) in the order of the name, then rows, then columns:
        ``W_Q^{1,h}`` is (H, d, d_k). Each block has a separate array.
        """
        from viete.evaluate.schedule import parameter_shapes

        return parameter_shapes(self.content)

    @property
    def cost(self) -> Costs:
        """The counts of parameters, operations and bytes, as formulas and as numbers."""
        from viete.analysis.cost import costs

        return costs(self.content)

    def initial_weights(self, seed: int = 0, dtype: str = "float64") -> dict[str, Any]:
        """Weights as NumPy arrays: the ``value`` column, and random numbers as ``init`` says."""
        from viete.evaluate.initial_weights import initial_weights

        return initial_weights(self.content, seed, dtype)

    @property
    def exact_weights(self) -> dict[str, Any]:
        """The weights of the ``value`` column as exact fractions, in nested lists."""
        from viete.evaluate.initial_weights import literal_fractions

        return literal_fractions(self.content)

    # -- as text -----------------------------------------------------------------------------------

    def write(self, form: str = "md") -> str:
        """Write the card in the form 'md', 'latex', 'json' or 'text'.

        Reading 'md', 'latex' or 'json' gives the same card.
        """
        from viete.cards.writer import write

        return write(self.content, form)

    def page(self, style: str = "unicode") -> Sequence[Block]:
        """The card as a document, which a notebook shows; see `viete.document.displayed`."""
        from viete.cards.writer import blocks

        return blocks(self.content, style)

    def draw(self, detail: str = "parts") -> DiagramPicture:
        """Draw the data flow: a picture with ``.svg``, ``.text()`` and ``.save()``.

        ``detail`` is 'parts' (a box for each titled part of the card) or 'equations' (a box for
        each equation). Raises VieteError for another word.
        """
        from viete.report.drawing.flow import flow
        from viete.report.drawing.picture import DiagramPicture

        return DiagramPicture(flow(self.content, detail))

    def export(self, to: str, of: str | None = None) -> str:
        """Write stand-alone source, without weights.

        ``to`` is 'torch' (a module), 'numpy' (a script with backward pass and Adam), 'jax'
        (functions), 'js' (a module with forward, backward and Adam), 'latex' or 'typst' (an
        article). ``of`` is the loss, as in `grad`. Raises VieteError for equations that the target
        cannot express.
        """
        if to in ("latex", "typst"):
            from viete.report.article import write_article

            return write_article(self.content, to, of)
        from viete.code import export

        return export(self.content, to, of)


def scope_of(noun: Verbs, card: CardData) -> Scope:
    """The names that a formula about a card or model may use, with the words of its tokens."""
    from dataclasses import replace

    from viete.analysis.token_vectors import question_scope

    return replace(question_scope(card), words=lambda: noun.words)


__all__ = ["Verbs"]
