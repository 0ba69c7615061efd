"""Causal effects of a value on a number: mediation, resample ablation and causal scrubbing.

Each is a recipe of interventions (`put` and `cut`) over a list of texts, and shows the card that it
ran. This folder knows no files, tokenizers or pages.
"""
