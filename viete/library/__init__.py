"""The named functions: their definitions, their derivatives, and their names in other libraries.

`functions.md` defines softmax, LN, GELU … in the notation, and `derivatives.md` gives their
derivatives. `functions` reads the first, `viete.graph.rules` the second. This folder knows no card.
"""
