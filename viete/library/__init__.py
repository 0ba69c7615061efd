"""The named functions: their definitions, their derivatives, and who else calls them what.

`functions.md` defines softmax, LN, GELU … in the notation, `derivatives.md` says how each is
differentiated; `functions` and `derivatives` read these tables. Knows no card.
"""
