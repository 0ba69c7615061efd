"""A card with weights and, where there is one, a tokenizer: a model at work.

`expected` says which tensor holds which parameter, and `mapping` matches that with a file and loads
weights; `folder` opens a model, `saving` writes one, with its `settings`; `compare` holds a card to
a file (with `suggest`, for names that it does not know) and to recorded values (with `recorded`);
`hooks`, `cache` and `names` are its use under the names of TransformerLens, defined in `names.md`.
Knows nothing of how a file is laid out.
"""
