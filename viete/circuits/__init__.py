"""Circuits: the edges of a model that carry a number, and the model with only these edges.

Edges are found in a card's equations, scored by derivatives and confirmed by runs. The result is a
card with claims. This folder knows no files, tokenizers or pages.
"""
