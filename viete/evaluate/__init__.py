"""Float arrays: every equation run on NumPy, PyTorch or JAX, at once or planned.

`array` evaluates formulas on labelled arrays through the array API standard; `run` is a whole
model, `inputs` what it is given; `fast` holds fast versions of named functions; `plan` records a
step once and runs it again in memory that stays. Knows nothing of files or of one kind of model.
"""
