"""Sampling: from scores to tokens, one position after the other.

`decoding` turns a row of scores into a token, `stepping` gets the next scores from a model (with
the cache that `viete.rewrite.incremental` derived, or without), `generation` is the loop, and
`texts` are samples as text. Knows nothing of terminals.
"""
