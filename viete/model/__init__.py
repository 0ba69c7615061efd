"""A card with weights and, where there is one, a tokenizer: a model at work.

`expected` says which tensor holds which parameter; `mapping` matches these with a file and loads
weights. `folder` opens a model, and `saving` writes one with its `settings`. `compare` checks a
card against a file (with `suggest`, for unknown names) and against recorded values (with
`recorded`). `lens` and `cache` offer the names of TransformerLens, defined in `names.md`.
This folder does not know how a file is laid out.
"""
