"""The meanings of a model, one a file.

`array` runs its equations on NumPy, PyTorch or JAX arrays; `cost` counts parameters, operations
and bytes; `drawing` and its neighbours draw its data flow. May import from notation and algebra.
"""
