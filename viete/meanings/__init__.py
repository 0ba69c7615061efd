"""Other number systems for the same equations: `exact` never rounds, `interval` gives bounds.

Each gives the primitives another meaning; `viete.graph.evaluator` walks formulas for all of them.
"""
