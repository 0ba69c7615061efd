"""Linear probes: what can be read off a vector of a model's runs, on texts that were held out.

A probe is an equation that can be put into the model's card, and its direction a vector that can be
put into the model. Nothing here knows files, tokenizers or pages.
"""
