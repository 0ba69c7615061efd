"""A card as data, the relations between its equations, and the walk over its formulas.

`card` is a card's content. `sizes` are symbolic numbers such as d/H. `matching` finds patterns and
`rules` applies tables of them. `dependence` tells which values each value is computed from, and in
which block. `evaluator` walks formulas for every meaning. This folder knows no files, arrays or
numbers.
"""
