"""A model as data, and what its equations say of each other.

`model` is a card's content; `sizes` are symbolic numbers such as d/H; `matching` finds patterns;
`dependence` tells who is made of whom, and in which block. Knows no files, arrays or numbers.
"""
