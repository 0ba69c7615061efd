"""Source code as a meaning of the equations: PyTorch, NumPy, JAX, JavaScript.

`lowering` writes one formula for an array library with its axes resolved. `expression` is its type
of value, `indexing` translates index letters, and `dialects` holds what each library writes
differently, with one table of functions. `functions` writes the named functions that a file needs,
`body` writes the equations as statements, and one module for each target puts a file together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from viete.errors import VieteError
from viete.graph.card import CardData

if TYPE_CHECKING:
    from viete.code.numpy_text import Corpus

TARGETS = ("torch", "numpy", "jax", "js")


def export(card: CardData, to: str, of: str | None = None, corpus: Corpus | None = None) -> str:
    """A model as stand-alone source, ``to`` 'torch', 'numpy', 'jax' or 'js'.

    ``of`` is the loss, as in `viete.rewrite.adjoint.grad`: by default the card's own, else the
    cross-entropy of its logits and the tokens one further. With a ``corpus`` a NumPy script learns
    its texts and answers.

    Raises VieteError for an unknown target, a dimension without a value, what a target cannot
    say, and for a NumPy script of a card that has nothing to differentiate.
    """
    from viete.code.prepared import prepared

    if to not in TARGETS:
        raise VieteError(
            f"a card can be exported to {', '.join(TARGETS)}, latex, typst, not to {to!r:.60}"
        )
    if to == "numpy":
        from viete.code.numpy_script import NumpyScript

        return NumpyScript(prepared(card, of, backward=True), corpus).text()
    if to == "js":
        from viete.code.javascript.module import javascript_module

        return javascript_module(card, of)
    mean = "targets" if to == "torch" else "texts"  # of a batch, which only PyTorch's modules take
    ready = prepared(card, of, backward=False, autograd=True, mean=mean)
    if to == "torch":
        from viete.code.torch_module import TorchModule

        return TorchModule(ready).text()
    from viete.code.jax_functions import JaxFunctions

    return JaxFunctions(ready).text()
