"""Analyses of equations before any number is put in: shapes, masks, def-use, data flow, costs.

`shapes` gives every value its rows, columns and index letters. `kinds` tells whole numbers and
truth values from real numbers, and bounds whole numbers by intervals. `def_use` traces every
reference to the equations that define it. `flows` says what every axis ranges over and which
positions read which others; `cost` uses it to count operations and bytes. `well_formed` checks the
result of every rewriting. This folder knows no arrays.
"""
