"""Floating-point arrays: runs every equation on NumPy, PyTorch or JAX, directly or by a plan.

`array` evaluates formulas on labelled arrays through the array API standard. `run` is a run of a
whole model and `inputs` checks its inputs and weights. `fast` holds fast versions of named
functions. `plan` records a step once and replays it in fixed memory. This folder knows no files and
no kind of model.
"""
