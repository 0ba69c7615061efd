"""What equations mean before any number is put in.

`dims` holds symbolic sizes, `functions` the named functions (defined in the notation itself, in
functions.md), `model` a model as plain data, `shapes` the shape of every equation. May import
from notation; knows nothing of arrays, files or cards.
"""
