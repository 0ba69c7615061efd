"""What equations mean before any number is put in: shapes, whole numbers, masks.

`shapes` gives every value its rows, columns and index letters; `kinds` tells whole numbers and
truth values from real ones, with the interval that they lie in. Knows no arrays.
"""
