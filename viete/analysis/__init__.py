"""What equations mean before any number is put in: shapes, masks, def-use, flows, costs.

`shapes` gives every value its rows, columns and index letters; `kinds` tells whole numbers and
truth values from real ones, with the interval that they lie in; `def_use` traces every reference to
the equations that make it; `flows` says what every axis runs over and who reads whose positions,
and `cost` counts operations and bytes by it; `well_formed` is what every rewriting's result must
be. Knows no arrays.
"""
