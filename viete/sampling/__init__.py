"""Sampling: from scores to tokens, one position after the other.

`choosing` turns a row of scores into a token, `stepping` gets the next scores from a model (with
the cache that `viete.rewrite.incremental` derived, or without), `generating` is the loop, and
`opening` reads what a training run left in its folder. Knows nothing of terminals.
"""
