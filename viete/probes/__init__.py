"""Linear probes: what can be read from a vector of a model's runs, measured on held-out texts.

A probe is an equation that can be added to the model's card, and its direction is a vector that can
be put into the model. This folder knows no files, tokenizers or pages.
"""
