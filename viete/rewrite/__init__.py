"""Rewritings: equations in, ordinary equations out, so every meaning can run the result.

`adjoint` derives a backward pass, `incremental` the KV cache, `padding` a model for texts of
different lengths. `folding` merges weights, `inlining` puts definitions in, `simplify` tidies a
formula. This folder knows no arrays and no files.
"""
