"""A card with weights and, where there is one, a tokenizer: a model at work.

`expected` says which tensor holds which parameter, and `mapping` matches that with a file, loads
and saves weights; `compare` holds a card to a file (with `suggest`, for names that it does not
know) and to recorded values (with `recorded`); `model` is the loaded model, `hooks`, `cache` and
`names` its use under the names of TransformerLens. Knows nothing of how a file is laid out.
"""
