"""A card as data, what its equations say of each other, and the walk over its formulas.

`card` is a card's content; `sizes` are symbolic numbers such as d/H; `matching` finds patterns and
`rules` applies tables of them; `dependence` tells who is made of whom, and in which block;
`evaluator` walks formulas for every meaning. Knows no files, arrays or numbers.
"""
