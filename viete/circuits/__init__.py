"""Circuits: the edges of a model that a number owes itself to, and a model of these alone.

Edges are found in a card's equations, scored by its derivatives and confirmed by runs. What comes
out is a card again, with claims. Nothing here knows files, tokenizers or pages.
"""
