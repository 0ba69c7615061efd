"""Other numbers for the same equations: `exact` runs a card on numbers that never round.

Each gives the primitives another meaning; how formulas are gone through is what
`viete.graph.evaluator` says for all.
"""
