"""Rewritings: equations in, ordinary equations out, so that every meaning runs the result.

`adjoint` derives a backward pass, `incremental` the KV cache, `padding` a model for texts of
different lengths; `folding` moves weights into others, `inlining` puts definitions in, `simplify`
tidies a formula. Knows no arrays and no files.
"""
