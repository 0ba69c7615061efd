"""The named functions: their definitions, their derivatives, and who else calls them what.

`functions.md` defines softmax, LN, GELU … in the notation, `derivatives.md` says how each is
differentiated; `functions` reads the one, `viete.graph.rules` the other. Knows no card.
"""
