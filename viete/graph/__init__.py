"""A model as data, and what its equations say of each other.

`model` is a card's content; `sizes` are symbolic numbers such as d/H; `matching` finds patterns,
`dependence` who is made of whom, `def_use` which equation makes what a formula refers to;
`well_formed` is what every rewriting's result must be. Knows no files, arrays or numbers.
"""
