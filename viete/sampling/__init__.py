"""Sampling: from scores to tokens, one position after the other.

`decoding` turns a row of scores into a token. `stepping` gets the next scores from a model, with
the cache derived by `viete.rewrite.incremental` or without. `generation` is the loop, and `texts`
turns samples into text. This folder knows no terminals.
"""
