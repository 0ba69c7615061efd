"""Questions to a model, in the notation: formulas evaluated on a run, and claims checked on it."""
