"""Other meanings of the same equations: exact numbers with names, costs.

`exact` runs a card on numbers that never round, `cost` counts its FLOPs and bytes. Each gives the
primitives another meaning; how formulas are gone through is `viete.evaluate`'s.
"""
