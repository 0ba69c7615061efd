"""What a number owes to a value: mediation, resample ablation and causal scrubbing.

Each is a recipe of values put and cut over a list of texts, and says which card it ran. Nothing
here knows files, tokenizers or pages.
"""
